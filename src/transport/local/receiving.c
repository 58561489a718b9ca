#include "transport/local/receiving.h"

#include <stdlib.h>
#include <string.h>

#include "memory/heap.h"
#include "transport/local/ends.h"
#include "transport/local/peer_memory.h"
#include "transport/local/shared_slots.h"
#include "transport/local/sharing.h"

static const uint64_t BYTES_MASK = (UINT64_C(1) << MESSAGE_KIND_SHIFT) - 1;

/* Memory that this rank can read where it lies; NULL: there is none. */
static const void *readable_at(const struct local_rx *rx, enum message_kind kind, uint64_t where,
                               size_t bytes)
{
    const struct host_peer *peer = &rx->local->peers[rx->local_peer];
    if (kind == MESSAGE_HEAP && peer->same_process) return heap_at(where, bytes);
    if (kind == MESSAGE_HEAP && peer->window != NULL)
        return heap_window_at(peer->window, where, bytes);
    if ((kind == MESSAGE_ADDRESS || kind == MESSAGE_REMOTE) && peer->same_process)
        return (const void *)(uintptr_t)where;
    return NULL;
}

static enum link_state show(struct local_rx *rx, const void *data, uint64_t bytes)
{
    rx->view = (struct link_view){.data = data, .bytes = bytes};
    return data != NULL ? LINK_READY : LINK_FAULT;
}

/* A message in memory of another kind: shown where it lies if the operation takes such memory,
 * otherwise to be copied. */
static enum link_state view_other(struct local_rx *rx, uint64_t where, uint64_t bytes)
{
    const bool is_here = rx->local->peers[rx->local_peer].same_process;
    const struct memory_kind *const kind =
        is_here ? memory_kind_of((const void *)(uintptr_t)where) : NULL;
    if (kind == NULL) return LINK_FAULT;
    if (kind == ends_take(rx->local, rx->slot)) {
        rx->base.memory = kind;
        return show(rx, (const void *)(uintptr_t)where, bytes);
    }
    rx->other = kind;
    rx->remote = where;
    rx->view = (struct link_view){.bytes = bytes};
    return LINK_READY;
}

/* The same for a message in memory of another process. */
static enum link_state view_mapped(struct local_rx *rx, const struct message_header *header,
                                   uint64_t bytes)
{
    struct sharing_mapped found;
    const uint64_t number = read_once(&header->u.mapped.number),
                   offset = read_once(&header->u.mapped.offset);
    if (!sharing_find(rx, number, &found) || offset > found.bytes || bytes > found.bytes - offset)
        return LINK_FAULT;
    if (found.kind == ends_take(rx->local, rx->slot)) {
        rx->base.memory = found.kind;
        return show(rx, (const char *)found.address + offset, bytes);
    }
    rx->other = found.kind;
    rx->remote = (uint64_t)(uintptr_t)found.address + offset;
    rx->view = (struct link_view){.bytes = bytes};
    return LINK_READY;
}

/* The view of a message that does not lie in the link, or makes no sense. */
__attribute__((noinline)) static enum link_state
view_elsewhere(struct local_rx *rx, enum message_kind kind, uint64_t where, uint64_t bytes)
{
    const void *data = NULL;
    switch (kind) {
    case MESSAGE_ADDRESS:
    case MESSAGE_HEAP:
        data = readable_at(rx, kind, where, bytes);
        if (data != NULL) break;
        rx->view = (struct link_view){.bytes = bytes};
        return peer_memory_reach(rx, kind, where, bytes, &rx->remote);
    case MESSAGE_SHARED: return shared_slots_view(rx, where, bytes) ? LINK_READY : LINK_FAULT;
    case MESSAGE_REMOTE:
        data = readable_at(rx, kind, where, bytes);
        if (data != NULL) break;
        rx->view = (struct link_view){.bytes = bytes};
        rx->remote = where;
        return rx->local->copies_remote ? LINK_READY : LINK_FAULT;
    case MESSAGE_PLACED:
        if (rx->expected == rx->sequence + 1 && rx->expected_bytes == bytes) {
            data = rx->advertised_at;
            rx->base.memory = rx->advertised_kind;
        }
        break;
    case MESSAGE_OTHER: return view_other(rx, where, bytes);
    case MESSAGE_INLINE:
    case MESSAGE_SMALL_SLOT:
    case MESSAGE_SLOT:
    case MESSAGE_MAPPED:
    case MESSAGE_KIND_COUNT: break;
    }
    return show(rx, data, bytes);
}

static enum link_state view_slot(struct local_rx *rx, uint64_t where, uint64_t bytes)
{
    const size_t slot_bytes = rx->local->segment->slot_bytes;
    const uint64_t number = where & ~(uint64_t)SLOT_TO_OWN;
    if (number >= DATA_SLOTS || bytes > slot_bytes) return LINK_FAULT;
    const char *const slot = rx->data + number * slot_bytes;
    if (number != where && rx->is_only_reader) {
        rx->own_slot = (char *)(uintptr_t)slot;
        rx->own_bytes = bytes;
    }
    return show(rx, slot, bytes);
}

/* Turns a header into a view. Not inline: a look that finds nothing would save registers for it. */
__attribute__((noinline)) static enum link_state load(struct local_rx *rx,
                                                      const struct message_header *header)
{
    if (CALLS_ARE_WATCHED && header->signature != *rx->signature) return LINK_FAULT;
    const uint64_t kind_and_bytes = read_once(&header->kind_and_bytes);
    const uint64_t bytes = kind_and_bytes & BYTES_MASK;
    const enum message_kind kind = (enum message_kind)(kind_and_bytes >> MESSAGE_KIND_SHIFT);
    if (kind == MESSAGE_INLINE && bytes <= INLINE_BYTES) return show(rx, header->u.data, bytes);
    if (kind == MESSAGE_SMALL_SLOT && bytes <= SMALL_SLOT_BYTES)
        return show(rx, rx->data - SMALL_SLOTS_BYTES + segment_small_slot(rx->sequence), bytes);
    const uint64_t where = read_once(&header->u.where);
    if (kind == MESSAGE_SLOT) return view_slot(rx, where, bytes);
    if (__builtin_expect(((unsigned)kind & MESSAGE_SHARES) != 0, 0)) {
        const enum message_kind without = (enum message_kind)((unsigned)kind & ~MESSAGE_SHARES);
        if (without != MESSAGE_SLOT && without != MESSAGE_SHARED) return LINK_FAULT;
        sharing_answer(rx);
        return without == MESSAGE_SLOT ? view_slot(rx, where, bytes)
                                       : view_elsewhere(rx, without, where, bytes);
    }
    if (kind == MESSAGE_MAPPED) return view_mapped(rx, header, bytes);
    return view_elsewhere(rx, kind, where, bytes);
}

static enum link_state receiving_peek(struct link_rx *link, struct link_view *view)
{
    struct local_rx *rx = (struct local_rx *)link;
    if (!rx->loaded) {
        const struct message_header *header = &rx->headers[rx->sequence % HEADER_COUNT];
        /* Pairs with ends_announce. */
        if (atomic_load_explicit(&header->sequence, memory_order_acquire) != rx->sequence + 1)
            return LINK_EMPTY;
        rx->base.memory = rx->other = NULL;
        const enum link_state state = load(rx, header);
        if (state != LINK_READY) return state;
        rx->loaded = true;
    }
    *view = rx->view;
    return LINK_READY;
}

void receiving_consume(struct link_rx *link, size_t bytes)
{
    struct local_rx *rx = (struct local_rx *)link;
    rx->view.bytes -= bytes;
    if (rx->view.data == NULL) rx->remote += bytes;
    if (rx->view.bytes > 0) {
        if (rx->view.data != NULL) rx->view.data = (const char *)rx->view.data + bytes;
        rx->view.place = NULL;
        return;
    }
    if (rx->rest_bytes > 0) {
        rx->view = (struct link_view){.bytes = rx->rest_bytes};
        rx->rest_bytes = 0;
        return;
    }
    if (rx->shared != NULL) shared_slots_give_back(rx);
    if (rx->own_slot != NULL) {
        slot_owner_take(rx->own_slot, rx->own_bytes);
        rx->own_slot = NULL;
    }
    ends_finish_message(rx);
    /* The next message is often as large, and its data is one more line that crosses cores: it is
     * on its way while this call ends and the next one begins. */
    if (bytes > INLINE_BYTES && bytes <= SMALL_SLOT_BYTES)
        __builtin_prefetch(rx->data - SMALL_SLOTS_BYTES + segment_small_slot(rx->sequence));
}

static bool receiving_take(struct link_rx *link, void *destination, size_t bytes)
{
    struct local_rx *rx = (struct local_rx *)link;
    if (rx->other != NULL)
        return (rx->other->read != NULL ? rx->other->read : rx->other->copy)(
            rx->other, destination, (const void *)(uintptr_t)rx->remote, bytes);
    return peer_memory_read(rx->local->peers[rx->local_peer].pid, rx->remote, destination, bytes);
}

static bool receiving_fetch(struct link_rx *link)
{
    struct local_rx *rx = (struct local_rx *)link;
    const size_t bytes = rx->view.bytes < FETCH_BYTES_MAX ? rx->view.bytes : FETCH_BYTES_MAX;
    if (rx->fetched == NULL && (rx->fetched = aligned_alloc(CACHE_LINE, FETCH_BYTES_MAX)) == NULL) {
        peer_memory_note_shortage(rx->local, rx->local_peer, TUTTI_NO_MEMORY);
        return false;
    }
    if (!receiving_take(link, rx->fetched, bytes)) return false;
    rx->remote += bytes;
    rx->rest_bytes = rx->view.bytes - bytes;
    rx->view = (struct link_view){.data = rx->fetched, .bytes = bytes};
    return true;
}

static enum link_state receiving_copy(struct link_rx *link, const struct link_reference *reference,
                                      size_t offset, void *destination, size_t bytes)
{
    const struct local_rx *rx = (const struct local_rx *)link;
    const enum message_kind kind = (enum message_kind)(reference->kind - 1);
    const uint64_t where = reference->where + offset;
    const void *data = readable_at(rx, kind, where, bytes);
    if (data != NULL) {
        memcpy(destination, data, bytes);
        return LINK_READY;
    }
    uint64_t remote = where;
    if (kind != MESSAGE_REMOTE) {
        const enum link_state state = peer_memory_reach(rx, kind, where, bytes, &remote);
        if (state != LINK_READY) return state;
    }
    if (!rx->local->copies_remote) return LINK_FAULT;
    const pid_t pid = rx->local->peers[rx->local_peer].pid;
    return peer_memory_read(pid, remote, destination, bytes) ? LINK_READY : LINK_EMPTY;
}

static void receiving_advertise(struct link_rx *link, void *destination, size_t bytes)
{
    struct local_rx *rx = (struct local_rx *)link;
    uint64_t where = (uint64_t)(uintptr_t)destination;
    const bool same_process = rx->local->peers[rx->local_peer].same_process;
    const struct memory_kind *const kind =
        ends_take(rx->local, rx->slot) != NULL ? memory_kind_of(destination) : NULL;
    if (!same_process &&
        (kind != NULL || !rx->local->maps_heaps || !heap_find(destination, bytes, &where)))
        return;
    rx->expected = rx->sequence + 1;
    rx->expected_bytes = bytes;
    rx->advertised_at = destination;
    rx->advertised_kind = kind;
    atomic_store_explicit(&rx->tail->expected_bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&rx->tail->expected_where, where, memory_order_relaxed);
    atomic_store_explicit(&rx->tail->expected, rx->expected,
                          memory_order_release); /* pairs with advertised_at */
}

const struct link_rx_ops receiving_ops = {.peek = receiving_peek,
                                          .take = receiving_take,
                                          .fetch = receiving_fetch,
                                          .consume = receiving_consume,
                                          .forward = shared_slots_forward,
                                          .advertise = receiving_advertise,
                                          .place_directly = link_no_place_directly,
                                          .copy = receiving_copy};
