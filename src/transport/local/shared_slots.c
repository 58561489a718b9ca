#include "transport/local/shared_slots.h"

#include "base/status.h"
#include "transport/local/sharing.h"

enum { OWNER_SHIFT = 8 }; /* of a MESSAGE_SHARED's place: the number of the slot below it */

enum tutti_status shared_slots_open(struct transport *transport, int slot)
{
    struct local *local = (struct local *)transport;
    struct shared_slots *own = &local->shared[slot];
    if (own->slots != NULL) return TUTTI_OK;
    TRY(segment_reserve_shared(local->segment, transport->rank, slot));
    segment_shared_slots(local->segment, transport->rank, slot, &own->slots, &own->data);
    return TUTTI_OK;
}

/* The first slot that is free, so that few slots are touched if few are needed. */
void *shared_slots_reserve(struct transport *transport, int slot, size_t bytes)
{
    struct local *local = (struct local *)transport;
    struct shared_slots *own = &local->shared[slot];
    if (bytes > local->segment->shared_slot_bytes) return NULL;
    for (unsigned i = 0; i < SHARED_SLOTS; i++) {
        if (atomic_load_explicit(&own->slots[i].readers, memory_order_acquire) != 0) continue;
        own->last = i;
        return own->data + i * local->segment->shared_slot_bytes;
    }
    return NULL;
}

static void send_shared_slot(struct local_tx *tx, uint64_t where, size_t bytes)
{
    ends_next_header(tx)->u.where = where;
    ends_publish(tx, sharing_add(tx, MESSAGE_SHARED), bytes);
}

static uint32_t readers_of(struct link_tx *const *links, unsigned count)
{
    uint32_t readers = 0;
    for (unsigned i = 0; i < count; i++)
        readers += (uint32_t)((const struct local_tx *)links[i])->reader_count;
    return readers;
}

void shared_slots_send(struct transport *transport, int slot, struct link_tx *const *links,
                       unsigned count, size_t bytes)
{
    struct shared_slots *own = &((struct local *)transport)->shared[slot];
    const uint64_t where = (uint64_t)transport->rank << OWNER_SHIFT | own->last;
    atomic_store_explicit(&own->slots[own->last].readers, readers_of(links, count),
                          memory_order_relaxed); /* seen by all that see a header */
    for (unsigned i = 0; i < count; i++)
        send_shared_slot((struct local_tx *)links[i], where, bytes);
}

bool shared_slots_view(struct local_rx *rx, uint64_t where, size_t bytes)
{
    const struct segment *segment = rx->local->segment;
    const uint64_t owner = where >> OWNER_SHIFT, number = where & ((UINT64_C(1) << OWNER_SHIFT) - 1);
    if (owner >= (uint64_t)segment->rank_count || number >= SHARED_SLOTS ||
        bytes > segment->shared_slot_bytes)
        return false;
    char *data;
    segment_shared_slots(segment, (int)owner, rx->slot, &rx->shared, &data);
    rx->shared += number;
    data += number * segment->shared_slot_bytes;
    /* If there are several readers, none of them may change it. */
    const bool is_only_reader =
        atomic_load_explicit(&rx->shared->readers, memory_order_acquire) == 1;
    rx->shared_where = where;
    rx->view =
        (struct link_view){.data = data, .bytes = bytes, .place = is_only_reader ? data : NULL};
    return true;
}

/* The owner, which may wait for a place, need not be the sender of the message. */
void shared_slots_give_back(struct local_rx *rx)
{
    const uint32_t readers = atomic_fetch_sub_explicit(
        &rx->shared->readers, 1, memory_order_release); /* pairs with shared_slots_reserve */
    rx->shared = NULL;
    const int owner = (int)(rx->shared_where >> OWNER_SHIFT);
    if (readers == 1 && bells_somebody_sleeps(rx->local)) bells_ring(rx->local, &owner, 1);
}

void shared_slots_forward(struct link_rx *link, struct link_tx *const *targets, unsigned count)
{
    struct local_rx *rx = (struct local_rx *)link;
    const uint32_t readers = readers_of(targets, count);
    if (readers > 1) /* this rank's turn is one of theirs */
        atomic_fetch_add_explicit(&rx->shared->readers, readers - 1, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++)
        send_shared_slot((struct local_tx *)targets[i], rx->shared_where, rx->view.bytes);
    rx->shared = NULL;
    ends_finish_message(rx);
}
