#include "transport/local/sending.h"

#include "memory/heap.h"
#include "transport/local/ends.h"
#include "transport/local/sharing.h"

static void look_at_tails(struct local_tx *tx)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < tx->reader_count; i++) {
        const uint64_t consumed =
            atomic_load_explicit(&tx->tails[i]->consumed, memory_order_acquire);
        if (consumed < least) least = consumed;
    }
    /* A tail beyond the messages sent is a peer's mistake; to believe it would only harm what that
     * peer reads. */
    tx->consumed = least > tx->sequence ? tx->sequence : least;
}

/* Whether fewer than `count` messages are under way, so that one of `count` places is free. */
static inline bool fewer_are_under_way(struct local_tx *tx, uint64_t count)
{
    if (__builtin_expect(tx->sequence - tx->consumed < count, 1)) return true;
    look_at_tails(tx);
    return tx->sequence - tx->consumed < count;
}

static inline bool header_is_free(struct local_tx *tx)
{
    return fewer_are_under_way(tx, TRANSPORT_UNDER_WAY_MAX);
}

void *sending_reserve_slot(struct link_tx *link, size_t bytes)
{
    struct local_tx *tx = (struct local_tx *)link;
    if (!header_is_free(tx)) return NULL;
    link->memory = NULL;
    if (bytes <= INLINE_BYTES) return ends_next_header(tx)->u.data;
    const unsigned slot = tx->data_sequence % DATA_SLOTS;
    if (tx->consumed < tx->slot_free_at[slot]) {
        look_at_tails(tx);
        if (tx->consumed < tx->slot_free_at[slot]) return NULL;
    }
    slot_owner_begin(&tx->owner, bytes);
    return tx->data + slot * tx->local->segment->slot_bytes;
}

static void *sending_reserve(struct link_tx *link, size_t bytes)
{
    struct local_tx *tx = (struct local_tx *)link;
    if (bytes <= INLINE_BYTES || bytes > SMALL_SLOT_BYTES) return sending_reserve_slot(link, bytes);
    link->memory = NULL;
    return fewer_are_under_way(tx, SMALL_SLOT_COUNT) ? ends_small_slot(tx) : NULL;
}

static void sending_commit(struct link_tx *link, size_t bytes)
{
    struct local_tx *tx = (struct local_tx *)link;
    if (bytes <= SMALL_SLOT_BYTES) {
        ends_publish(tx, bytes <= INLINE_BYTES ? MESSAGE_INLINE : MESSAGE_SMALL_SLOT, bytes);
        return;
    }
    ends_use_slot(tx);
    if (slot_owner_end(&tx->owner, bytes)) ends_next_header(tx)->u.slot |= SLOT_TO_OWN;
    ends_publish(tx, sharing_add(tx, MESSAGE_SLOT), bytes);
}

/* How the readers get at that memory: ADDRESS, HEAP, or REMOTE, which may be impossible for
 * them. */
static enum message_kind kind_of(const struct local_tx *tx, const void *address, size_t bytes,
                                 uint64_t *where)
{
    if (!tx->all_same_process && tx->local->maps_heaps && heap_find(address, bytes, where))
        return MESSAGE_HEAP;
    *where = (uint64_t)(uintptr_t)address;
    return tx->all_same_process ? MESSAGE_ADDRESS : MESSAGE_REMOTE;
}

/* The kind of the operation's memory at an address; NULL: the host's. */
static const struct memory_kind *kind_at(const struct local_tx *tx, const void *address)
{
    return ends_take(tx->local, tx->slot) != NULL ? memory_kind_of(address) : NULL;
}

static enum link_reach sending_reach(struct link_tx *link, const void *address, size_t bytes)
{
    const struct local_tx *tx = (const struct local_tx *)link;
    uint64_t where;
    const struct memory_kind *const other = kind_at(tx, address);
    if (other != NULL && !tx->all_same_process)
        return sharing_reaches((struct local_tx *)link, other, address, bytes) ? REACH_READ
                                                                               : REACH_NONE;
    if (other != NULL) return REACH_READ;
    if (kind_of(tx, address, bytes, &where) != MESSAGE_REMOTE) return REACH_READ;
    return tx->local->copies_remote ? REACH_COPY : REACH_NONE;
}

static bool sending_post(struct link_tx *link, const void *address, size_t bytes)
{
    struct local_tx *tx = (struct local_tx *)link;
    if (!header_is_free(tx)) return false;
    uint64_t where = (uint64_t)(uintptr_t)address;
    const struct memory_kind *const other = kind_at(tx, address);
    if (other != NULL && !tx->all_same_process) return sharing_post(tx, other, address, bytes);
    const enum message_kind kind =
        other != NULL ? MESSAGE_OTHER : kind_of(tx, address, bytes, &where);
    if (kind == MESSAGE_REMOTE && !tx->local->copies_remote) return false;
    ends_next_header(tx)->u.where = where;
    ends_publish(tx, kind, bytes);
    return true;
}

static bool sending_refer(struct link_tx *link, const void *address, size_t bytes,
                          struct link_reference *reference)
{
    const struct local_tx *tx = (const struct local_tx *)link;
    const enum message_kind kind = kind_of(tx, address, bytes, &reference->where);
    reference->kind = (uint64_t)kind + 1;
    return kind != MESSAGE_REMOTE || tx->local->copies_remote;
}

bool sending_consumed(struct link_tx *link)
{
    struct local_tx *tx = (struct local_tx *)link;
    if (tx->consumed != tx->sequence) look_at_tails(tx);
    return tx->consumed == tx->sequence;
}

bool sending_has_room(struct link_tx *link)
{
    return header_is_free((struct local_tx *)link);
}

static void *sending_advertised_at(struct link_tx *link, size_t bytes)
{
    struct local_tx *tx = (struct local_tx *)link;
    struct tail *tail = tx->tails[0];
    const struct host_peer *peer = &tx->local->peers[tx->local_peer];
    if (atomic_load_explicit(&tail->expected, memory_order_acquire) != tx->sequence + 1 ||
        atomic_load_explicit(&tail->expected_bytes, memory_order_relaxed) != bytes)
        return NULL;
    const uint64_t where = atomic_load_explicit(&tail->expected_where, memory_order_relaxed);
    if (peer->same_process) {
        link->memory = memory_kind_of((void *)(uintptr_t)where);
        const bool takes = link->memory == NULL || link->memory == ends_take(tx->local, tx->slot);
        return takes ? (void *)(uintptr_t)where : NULL;
    }
    return peer->window != NULL ? heap_window_at(peer->window, where, bytes) : NULL;
}

static void sending_written(struct link_tx *link, size_t bytes)
{
    ends_publish((struct local_tx *)link, MESSAGE_PLACED, bytes);
}

const struct link_tx_ops sending_ops = {.reserve = sending_reserve,
                                        .commit = sending_commit,
                                        .reach = sending_reach,
                                        .post = sending_post,
                                        .consumed = sending_consumed,
                                        .has_room = sending_has_room,
                                        .advertised_at = sending_advertised_at,
                                        .written = sending_written,
                                        .refer = sending_refer};
