/* tcp_path.h - what the kernel knows about the path to the other end of a TCP connection, and how
 * much may be on it.
 *
 * A connection of MPTCP has several subflows, and what is asked of it is asked of each: it is
 * silent if all are, and answers if one does. What the kernel knows of a connection of SMC is what
 * it knows of the one of TCP beside it, which the same host answers.
 */
#ifndef TUTTI_OS_TCP_PATH_H
#define TUTTI_OS_TCP_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tcp_path {
    uint64_t received_bytes; /* in the life of the connection, also what nobody has read yet */
    uint64_t min_rtt_ns;     /* the shortest round trip of the last minutes */
    size_t segment_bytes;    /* as they come */
};

/* False: the kernel does not tell. */
bool tcp_path_read(int fd, struct tcp_path *path);
/* Whether tcp_path_limit works: on connections of TCP alone. */
bool tcp_path_can_limit(int fd);
/* Limits the bytes that the other end may have on their way here: it is told no more room than
 * that. Room that was offered is not taken back. The kernel may go beyond the limit later as it
 * makes buffers larger, so the limit has to be set again now and then. */
void tcp_path_limit(int fd, size_t bytes);
/* Lets a connection of MPTCP begin with more room for incoming bytes. With the kernel's usual
 * beginning, both ends stall it when they send much at once, for 0.2 s each time, until its buffers
 * have grown. Nothing changes for other connections, and on kernels before Linux 6.10. */
void tcp_path_make_room(int fd);
/* Whether both ends have the same address: nothing leaves this host. */
bool tcp_path_is_local(int fd);
/* Whether the other end's host has answered nothing at all for some seconds while this one sent
 * again and again. One whose process only does not read answers. */
bool tcp_path_is_silent(int fd);
/* Whether the kernel does not tell when the connection has lost all its subflows, because another
 * subflow might be found: so with MPTCP. The owner of such a connection asks tcp_path_is_dead now
 * and then. */
bool tcp_path_dies_unsaid(int fd);
/* Whether each subflow of such a connection was reset, or was tried again and again without an
 * answer for that long. */
bool tcp_path_is_dead(int fd, uint64_t unanswered_ns);
/* The time since the other end's host last acknowledged anything, be its process stopped or not.
 * From now on this host's kernel asks it once a second when nothing else is under way. False: the
 * kernel does not tell. */
bool tcp_path_answered(int fd, uint64_t *ago_ns);

#endif
