/* local.h - the transport of one host: ranks as processes and as threads over the same memory.
 *
 * It knows its ranks by numbers of its own, 0 to size - 1. Where they are some of the ranks of something larger, links show
 * those names as their `peer`; what opens links takes numbers, whoever they are.
 *
 * Who sleeps on a descriptor is rung through a doorbell (os/doorbell.h), all others through a futex: each rank chooses
 * for itself, and who never asks for a descriptor has none.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_LOCAL_H
#define TUTTI_TRANSPORT_LOCAL_LOCAL_H

#include <sys/types.h>

#include "memory/heap.h"
#include "transport/transport.h"

struct local_peer {
    bool same_process; /* any of its memory can be read */
    pid_t pid;         /* 0: not visible from here; then all ranks have some that are not */
    struct heap_window *window; /* its heap; NULL for ranks of this process. Taken from the caller */
};

struct local_options {
    int rank, size;
    int segment_fd; /* taken, also on failure */
    size_t board_bytes;
    const struct local_peer *peers; /* one a rank */
    uint64_t deadline_ns;           /* for everybody to have mapped the segment */
    /* Asked now and then while somebody has not: whether all can still come. Not OK, with this thread's error set,
     * ends the waiting. NULL: they can, until the deadline. */
    enum tutti_status (*look)(void *context);
    void *look_context;
    /* Every message is compared with a checksum that its sender made (checked.h). What changed is taken from its second copy;
     * who sent what changed for good is corrupt, and its links are at fault. The same on all ranks. */
    bool checks;
    const int *names; /* one a rank, what links to it show as their peer; NULL: its number. Copied */
};

/* What this rank's end of the segment holds now. */
/* The descriptor of a segment for that many ranks, made by one of them. */
enum tutti_status local_segment_create(int size, size_t board_bytes, int *fd);
/* What `limits` says in a segment for that many ranks: less the more there are, and with checks half of it. */
void local_limits(int size, bool checks, size_t *piece_bytes_max, unsigned *piece_count_max);
/* Joins; blocks until all ranks of the segment have, or the deadline. */
enum tutti_status local_open(const struct local_options *options, struct transport **transport);
void local_close(struct transport *transport);
/* Shared memory for the communicator's own use, zeroed at first, board_bytes long. */
void *local_board(struct transport *transport);
/* Whether a rank whose process is not visible from here has ended. Any thread. */
bool local_has_ended(const struct transport *transport, int rank);
/* Cores that the ranks of this segment may run on, all together. */
int local_core_count(struct transport *transport);
/* Whether fence_everybody does not reach all ranks of the segment: a rank that publishes something in it must then fence, too. */
bool local_publishers_fence(const struct transport *transport);
/* Whether ranks of other processes read and write this one's heap where it lies. */
bool local_maps_heaps(const struct transport *transport);
/* With checks: messages that were right only in their second copy. Any thread. */
uint64_t local_mended(const struct transport *transport);
/* The ranks, near ones side by side (nearness.h): constant, the same on all ranks, and the transport's. NULL: as they are
 * numbered. */
const int *local_order(const struct transport *transport);

#endif
