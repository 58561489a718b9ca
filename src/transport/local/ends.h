/* ends.h - the two ends of a link, and the steps that all paths of sending and of receiving have in
 * common.
 *
 * Invariants
 *   1. A header or slot is written only after every reader's tail has passed its last use.
 *   2. Message numbers run on for the life of the segment; both ends count by themselves.
 *   3. A peer's bytes are read once, checked, and only then used.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_ENDS_H
#define TUTTI_TRANSPORT_LOCAL_ENDS_H

#include "base/watched.h"
#include "transport/local/bells.h"
#include "transport/local/checked.h"
#include "transport/local/slot_owner.h"
#include "transport/local/state.h"

enum {
    MESSAGE_KIND_SHIFT = 56,    /* in kind_and_bytes */
    FETCH_BYTES_MAX = 128 << 10 /* of another process's memory, brought near at once */
};

struct local_tx {
    struct link_tx base;
    struct local *local;
    const uint64_t *signature;
    int slot;
    struct message_header *headers;
    char *data;                        /* data slots; small slots before them */
    uint64_t sequence;                 /* messages sent */
    uint64_t consumed;                 /* by all readers, as last seen */
    uint64_t data_sequence;            /* payload slots used */
    uint64_t slot_free_at[DATA_SLOTS]; /* `consumed` that frees the slot */
    size_t bytes_max;                  /* of messages for which slots are reserved */
    struct slot_owner owner;
    bool all_same_process;
    bool shares;    /* `shared` goes with the next message that can carry it */
    int local_peer; /* of multicast links this rank itself */
    int reader_count;
    int *readers;
    struct tail **tails; /* of the readers */
    struct memory_share shared;
};

struct local_rx {
    struct link_rx base;
    struct local *local;
    const uint64_t *signature;
    struct message_header *headers;
    const char *data; /* as in local_tx */
    struct tail *tail;
    int slot;
    int local_peer;
    uint64_t sequence; /* messages consumed */
    uint64_t expected; /* the memory offered last; foreign memory is not asked what it was */
    size_t expected_bytes;
    void *advertised_at;
    const struct memory_kind *advertised_kind;
    const struct memory_kind
        *other; /* of what is in view, where it must be copied out; NULL: it is the host's */
    struct link_view view;
    bool loaded;    /* view is of message `sequence` */
    char *own_slot; /* of the message in view, whose lines this rank shall make its own; or NULL */
    size_t own_bytes;           /* of that message */
    bool is_only_reader;        /* of the link's slots */
    struct shared_slot *shared; /* of a MESSAGE_SHARED in view; else NULL */
    uint64_t shared_where;      /* as it was read from the header, and checked */
    /* MESSAGE_REMOTE */
    uint64_t remote; /* where the view without data lies, or what follows the fetched one: as its sender says */
    size_t rest_bytes;              /* behind a fetched view */
    char *fetched;                  /* FETCH_BYTES_MAX, allocated when first needed */
    struct checked_message checked; /* of the message in view, if messages are compared */
};

/* The kind of memory that the operation in a slot takes, beside the host's; NULL: none. */
static inline const struct memory_kind *ends_take(const struct local *local, int slot)
{
    return local->base.takes_kind[slot];
}

/* The header of the message that comes next. */
static inline struct message_header *ends_next_header(struct local_tx *tx)
{
    return &tx->headers[tx->sequence % HEADER_COUNT];
}

/* The small slot of the message that comes next: free if fewer than SMALL_SLOT_COUNT messages are
 * under way. */
static inline char *ends_small_slot(const struct local_tx *tx)
{
    return tx->data - SMALL_SLOTS_BYTES + segment_small_slot(tx->sequence);
}

/* Sends a message whose header lacks nothing but `sequence`: the message's number, or what
 * checked_seal made of it. */
static inline void ends_announce(struct local_tx *tx, struct message_header *header,
                                 uint64_t sequence)
{
    tx->sequence++;
    atomic_store_explicit(&header->sequence, sequence, memory_order_release); /* pairs with peek */
    if (bells_somebody_sleeps(tx->local)) bells_ring(tx->local, tx->readers, tx->reader_count);
}

/* Sends the message whose data or place is in the next header. */
static inline void ends_publish(struct local_tx *tx, enum message_kind kind, size_t bytes)
{
    struct message_header *header = ends_next_header(tx);
    if (CALLS_ARE_WATCHED) header->signature = *tx->signature;
    header->kind_and_bytes = (uint64_t)kind << MESSAGE_KIND_SHIFT | bytes;
    ends_announce(tx, header, tx->sequence + 1);
}

/* Makes the bytes that were written to the reserved slot the next message. Returns the number of
 * that slot. */
static inline unsigned ends_use_slot(struct local_tx *tx)
{
    const unsigned slot = tx->data_sequence++ % DATA_SLOTS;
    ends_next_header(tx)->u.slot = slot;
    tx->slot_free_at[slot] = tx->sequence + 1;
    return slot;
}

/* The message in view has been consumed. */
static inline void ends_finish_message(struct local_rx *rx)
{
    rx->loaded = false;
    rx->sequence++;
    atomic_store_explicit(&rx->tail->consumed, rx->sequence,
                          memory_order_release); /* pairs with look_at_tails */
    if (bells_somebody_sleeps(rx->local)) bells_ring(rx->local, &rx->local_peer, 1);
}

#endif
