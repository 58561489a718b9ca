/* local_socket.h - abstract Unix sockets that carry descriptors: how ranks of one host meet.
 *
 * Abstract names end at the network namespace, so the process that answers is on this host; the
 * kernel tells which one it is. Everything is bounded by a deadline on the monotonic clock.
 */
#ifndef TUTTI_OS_LOCAL_SOCKET_H
#define TUTTI_OS_LOCAL_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tutti/tutti.h"

enum { LOCAL_SOCKET_DESCRIPTORS_MAX = 128 };

/* TUTTI_IN_PROGRESS: another socket has that name already. */
enum tutti_status local_socket_listen(const char *name, int *fd);
/* Tries until a process listens. TUTTI_INIT_TIMEOUT when the deadline passes first; errno is EAGAIN
 * then where a process listens, and has more connections waiting than there is room for. */
enum tutti_status local_socket_connect(const char *name, uint64_t deadline_ns, int *fd);
/* One message of `bytes` and `descriptor_count` descriptors. */
enum tutti_status local_socket_send(int fd, const void *data, size_t bytes, const int *descriptors,
                                    int descriptor_count, uint64_t deadline_ns);
/* One message of exactly `bytes`; fills descriptors (up to descriptor_max, close-on-exec) and their
 * number. IN_PROGRESS: nothing there with deadline_ns 0. PROC_FAILED: the other side closed. */
enum tutti_status local_socket_receive(int fd, void *data, size_t bytes, int *descriptors,
                                       int descriptor_max, int *descriptor_count,
                                       uint64_t deadline_ns);
/* The process at the other end; pid 0 if it is not visible from here. SYSTEM: the kernel does not
 * say, because a sandbox denies the question, or because it is no such socket. */
enum tutti_status local_socket_peer(int fd, pid_t *pid, uid_t *uid);

#endif
