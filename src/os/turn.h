/* turn.h - work of a process that one thread does at a time, and that may take long: reading a
 * file, looking for a driver, asking a process manager.
 *
 *     thread A   take ── is it done? ── do it ── keep it ── give
 *     thread B   take . . . . . . . . . . . . . . . . . . . . . ── it is done ── give
 *
 * It stands in for a lock that would be held too long: a thread that waits has a deadline, and
 * fork() does not wait. A child of fork() has no thread that has a turn of its parent's, and finds
 * the turn free; the first to take it is told that the work was interrupted.
 */
#ifndef TUTTI_OS_TURN_H
#define TUTTI_OS_TURN_H

#include <stdint.h>

struct turn {
    _Atomic uint32_t
        holder; /* 0: nobody; else 1 + the generation of the process one of whose threads has it */
};

enum turn_result {
    TURN_TAKEN,
    TURN_TAKEN_OVER, /* taken, too; a thread that is not in this process was in the middle of the work */
    TURN_LATE        /* not taken: another thread has it at the deadline */
};

/* Waits for the turn, until the deadline. Any thread that does not have it. */
enum turn_result turn_take(struct turn *turn, uint64_t deadline_ns);
/* By the thread that has it. In a child that was forked with it, which may have lost it to another
 * thread: nothing. */
void turn_give(struct turn *turn);

#endif
