#include "transport/local/checked_link.h"

#include "base/log.h"
#include "os/clock.h"
#include "transport/local/ends.h"
#include "transport/local/receiving.h"
#include "transport/local/sending.h"

enum { REPORTS_APART_S = 60 }; /* of changes, in the log */

static void checked_commit(struct link_tx *link, size_t bytes)
{
    struct local_tx *tx = (struct local_tx *)link;
    struct message_header *header = ends_next_header(tx);
    const size_t slot_bytes = tx->local->segment->slot_bytes;
    char *const payload = bytes > INLINE_BYTES ? tx->data + ends_use_slot(tx) * slot_bytes : NULL;
    header->signature = *tx->signature;
    ends_announce(tx, header, checked_seal(header, tx->sequence + 1, bytes, payload, slot_bytes));
}

const struct link_tx_ops checked_sending_ops = {.reserve = sending_reserve_slot,
                                                .commit = checked_commit,
                                                .reach = link_no_reach,
                                                .post = link_no_post,
                                                .consumed = sending_consumed,
                                                .has_room = sending_has_room,
                                                .advertised_at = link_no_advertised_at,
                                                .written = link_no_written,
                                                .refer = link_no_refer};

static void report_change(struct local *local, int local_peer)
{
    const uint64_t now_ns = clock_now_ns(),
                   mended = atomic_fetch_add_explicit(&local->mended, 1, memory_order_relaxed),
                   reported_ns =
                       atomic_load_explicit(&local->change_reported_ns, memory_order_relaxed);
    if (reported_ns != 0 && now_ns - reported_ns < REPORTS_APART_S * UINT64_C(1000000000)) return;
    atomic_store_explicit(&local->change_reported_ns, now_ns, memory_order_relaxed);
    log_write(
        LOG_WARN,
        "peer %d: what it sent had changed in shared memory; its second copy is taken, as were "
        "%llu before it",
        local_name_of(local, local_peer), (unsigned long long)mended);
}

/* Relaxed: the number is all there is to see. */
static void give_up(struct local *local, int local_peer)
{
    int none = -1;
    if (atomic_compare_exchange_strong_explicit(&local->corrupt_peer, &none, local_peer,
                                                memory_order_relaxed, memory_order_relaxed))
        log_write(LOG_WARN, "peer %d: both copies of what it sent had changed in shared memory",
                  local_name_of(local, local_peer));
}

static enum link_state load_checked(struct local_rx *rx)
{
    struct local *local = rx->local;
    if (atomic_load_explicit(&local->corrupt_peer, memory_order_relaxed) == rx->local_peer)
        return LINK_FAULT;
    switch (checked_read(&rx->headers[rx->sequence % HEADER_COUNT], rx->sequence + 1, rx->data,
                         local->segment->slot_bytes, &rx->checked)) {
    case CHECKED_ABSENT: return LINK_EMPTY;
    case CHECKED_INTACT: break;
    case CHECKED_MENDED: report_change(local, rx->local_peer); break;
    case CHECKED_CHANGED: give_up(local, rx->local_peer); return LINK_FAULT;
    }
    if (CALLS_ARE_WATCHED && rx->checked.signature != *rx->signature) return LINK_FAULT;
    rx->view = (struct link_view){.data = rx->checked.data, .bytes = rx->checked.bytes};
    rx->loaded = true;
    return LINK_READY;
}

static enum link_state checked_peek(struct link_rx *link, struct link_view *view)
{
    struct local_rx *rx = (struct local_rx *)link;
    const enum link_state state = rx->loaded ? LINK_READY : load_checked(rx);
    if (state == LINK_READY) *view = rx->view;
    return state;
}

const struct link_rx_ops checked_receiving_ops = {.peek = checked_peek,
                                                  .take = link_no_take,
                                                  .fetch = link_no_fetch,
                                                  .consume = receiving_consume,
                                                  .forward = link_no_forward,
                                                  .advertise = link_no_advertise,
                                                  .place_directly = link_no_place_directly,
                                                  .copy = link_no_copy};

int checked_corrupt_rank(const struct transport *transport)
{
    const struct local *local = (const struct local *)transport;
    const int peer = atomic_load_explicit(&local->corrupt_peer, memory_order_relaxed);
    return peer >= 0 ? local_name_of(local, peer) : -1;
}

uint64_t local_mended(const struct transport *transport)
{
    const struct local *local = (const struct local *)transport;
    return atomic_load_explicit(&local->mended, memory_order_relaxed);
}
