/* state.h - a rank's part of a segment: what the rank knows of itself and of the other ranks, and
 * the links that it has open.
 *
 * Only the transport's files use it. Each of them uses only those below it:
 *
 *     local.c                            opens and closes the transport, answers questions about it
 *     arrival.c        links.c           how the ranks meet; links, opened and counted
 *                      checked_link.c    links whose messages are compared
 *                      receiving.c       readers' ends of links
 *     peer_memory.c    shared_slots.c         memory that only a system call reads; slots that travel
 *                      sending.c         writers' ends of links
 *                      sharing.c         memory of other kinds that processes map
 *     bells.c                            sleeping, and waking others
 *     segment.c                          the shared memory
 */
#ifndef TUTTI_TRANSPORT_LOCAL_STATE_H
#define TUTTI_TRANSPORT_LOCAL_STATE_H

#include <pthread.h>

#include "os/huge_pages.h"
#include "transport/local/local.h"
#include "transport/local/segment.h"

/* This rank's shared slots for one slot of operations. */
struct shared_slots {
    struct shared_slot *slots; /* SHARED_SLOTS of them; NULL: not opened */
    char *data;
    unsigned last; /* the slot reserved last */
};

struct sharing_peer; /* sharing.h */

struct local {
    struct transport base;
    struct segment *segment;
    struct segment_header *header;
    struct bell *bell;                 /* of this rank */
    struct last_word_giver *last_word; /* NULL: all processes see each other */
    uint32_t ring_seen;                /* since sleep_begin: another value means that it rang */
    _Atomic int door_fd;               /* this rank sleeps on it instead of the futex; -1: none */
    bool asked_for_door;
    uint32_t sleep_count; /* at the door */
    struct host_peer *peers;
    int *names;            /* that links show, of the ranks by number; NULL: their numbers */
    int *everybody;        /* the ranks by number: the one group */
    bool publishers_fence; /* see bells.h: the kernel refuses a rank its fence */
    bool copies_remote;    /* all ranks can read each other's private memory */
    bool maps_heaps;       /* all ranks can map each other's heaps */
    struct huge_pages_known huge_pages; /* of this rank's memory that messages are sent from */
    uint64_t probe;                     /* its own address, for peers to try */
    int *order;                         /* of the ranks by nearness; NULL: as numbered */
    bool checks;
    _Atomic int corrupt_peer; /* the first peer that sent a message that had changed for good; -1 */
    _Atomic uint64_t mended, change_reported_ns;
    /* The reasons why this rank cannot read a peer's messages now; relaxed: they are only shown. */
    _Atomic uint32_t shortage; /* enum tutti_status */
    _Atomic int shortage_peer;
    _Atomic uint64_t shortage_since_ns, shortage_seen_ns;
    /* [slot and channel][peer], a row where one is open; the own rank's place is the multicast
     * link */
    struct local_tx **tx[TRANSPORT_LINK_COUNT];
    /* [slot and channel][multicast][peer], the same */
    struct local_rx **rx[TRANSPORT_LINK_COUNT];
    struct shared_slots shared[TRANSPORT_SLOT_COUNT];
    bool shares; /* memory of other kinds with processes that map it */
    pthread_mutex_t sharing_lock;
    struct sharing_peer **sharing; /* by rank; under the lock. NULL: nothing was shared with it */
};

/* The number of a rank that links show. */
static inline int local_name_of(const struct local *local, int local_peer)
{
    return local->names != NULL ? local->names[local_peer] : local_peer;
}

#endif
