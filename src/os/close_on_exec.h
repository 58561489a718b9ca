/* close_on_exec.h - makes descriptors that another library has opened close when the process
 * executes another program. Otherwise that program holds its ports and connections, and peers do
 * not notice that this process has ended.
 *
 *     queue ──► epoll ──► epoll ──► listener, connections
 *                 └─────► wake-up ◄┄┄┄ its other end, which nothing waits for
 *
 * Other threads open descriptors meanwhile, some of them for programs that they start. So this
 * module takes only descriptors that are the library's: those that its epoll instance waits for,
 * and those that instances behind it wait for. If a descriptor was not there before the library was
 * called, and is a further epoll instance or an end of a connection within this process
 * (socketpair), it is taken, too: hardly anybody hands on these.
 *
 * Nothing happens where /proc is lacking, or where there is no descriptor to look into it. Any
 * thread. */
#ifndef TUTTI_OS_CLOSE_ON_EXEC_H
#define TUTTI_OS_CLOSE_ON_EXEC_H

#include <stddef.h>

struct close_on_exec {
    int *before; /* the descriptors that were open, ascending */
    size_t count;
};

/* Before the library is called. */
void close_on_exec_begin(struct close_on_exec *since);
/* Afterwards. epoll: the library's; -1: it has none. */
void close_on_exec_end(struct close_on_exec *since, int epoll);
/* The descriptors that epoll watches at this moment; meanwhile the library may not close any.
 * epoll: as above. */
void close_on_exec_watched(int epoll);

#endif
