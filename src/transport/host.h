/* host.h - the options of a transport between the ranks of one host, and the facts that these ranks
 * share.
 *
 * Such a transport knows its ranks by numbers of its own, 0 to size - 1. If they are some of the
 * ranks of something larger, links show names instead as their `peer`; the functions that open
 * links take numbers in any case.
 *
 * Any thread may ask whether the process of a rank has ended (transports_process_has_ended in
 * open.h), at any time between opening and closing.
 */
#ifndef TUTTI_TRANSPORT_HOST_H
#define TUTTI_TRANSPORT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "memory/heap.h"
#include "tutti/tutti.h"

struct host_peer {
    bool same_process; /* any of its memory can be read */
    pid_t pid;         /* 0: not visible from here; then all ranks have some that are not */
    struct heap_window *window; /* its heap; NULL for ranks of this process. Taken from the caller */
};

struct host_options {
    int rank, size;
    int segment_fd; /* taken, also on failure */
    size_t board_bytes;
    /* Every message is compared with a checksum that its sender made. A changed message is taken
     * from a second copy. If that has changed, too, its sender is corrupt, and its links are at
     * fault. The same on all ranks. */
    bool checks;
    const int *names; /* one per rank, shown as `peer` by links to it; NULL: its number. Copied */
};

/* How long a rank waits for the others. */
struct host_patience {
    uint64_t deadline_ns;
    /* Asked now and then while a rank has not come: whether all can still come. Not OK, with this
     * thread's error set, ends the waiting. NULL: they can, until the deadline. */
    enum tutti_status (*look)(void *context);
    void *look_context;
};

struct host_facts {
    const int *order; /* near ranks side by side, alike on all ranks; NULL: by number */
    int core_count; /* the cores that the ranks may run on, all together, or as many as their time is limited to */
    /* fence_everybody does not reach all ranks: a rank that publishes something must then fence,
     * too. */
    bool publishers_fence;
};

#endif
