#include "transport/local/links.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"
#include "transport/local/checked_link.h"
#include "transport/local/ends.h"
#include "transport/local/receiving.h"
#include "transport/local/sending.h"

static void tx_free(struct local_tx *tx)
{
    if (tx == NULL) return;
    free(tx->readers);
    free(tx->tails);
    free(tx);
}

static void rx_free(struct local_rx *rx)
{
    if (rx != NULL) free(rx->fetched);
    free(rx);
}

/* Of a link to one rank or to all of them. */
static unsigned capabilities_of(const struct local *local, bool multicast)
{
    if (local->checks) return 0;
    return multicast ? LINK_SHARES : LINK_SHARES | LINK_ADVERTISES | LINK_REFERS;
}

/* To a peer, or to all where that is this rank itself: the segment keeps both in one row. */
static enum tutti_status tx_create(struct local *local, int slot, int channel, int to,
                                   struct local_tx **created)
{
    const int rank = local->base.rank, size = local->base.size;
    const bool multicast = to == rank;
    struct local_tx *tx = calloc(1, sizeof *tx);
    if (tx == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    tx->readers = calloc((size_t)size, sizeof *tx->readers);
    tx->tails = calloc((size_t)size, sizeof(struct tail *));
    enum tutti_status status = TUTTI_OK;
    if (tx->readers == NULL || tx->tails == NULL)
        status = error_set(TUTTI_NO_MEMORY, "out of memory");
    if (status == TUTTI_OK)
        status = segment_link(local->segment, rank, slot, channel, to, &tx->headers, &tx->data);
    tx->all_same_process = true;
    for (int r = 0; r < size && status == TUTTI_OK; r++) {
        if (r == rank || (!multicast && r != to)) continue;
        status = segment_tail(local->segment, r, slot, channel, rank, multicast,
                              &tx->tails[tx->reader_count]);
        tx->readers[tx->reader_count++] = r;
        tx->all_same_process &= local->peers[r].same_process;
    }
    if (status != TUTTI_OK) {
        tx_free(tx);
        return status;
    }
    tx->base = (struct link_tx){.ops = local->checks ? &checked_sending_ops : &sending_ops,
                                .peer = multicast ? LINK_TO_GROUP : local_name_of(local, to),
                                .capabilities = capabilities_of(local, multicast)};
    tx->local = local;
    tx->local_peer = to;
    tx->signature = &local->base.signatures[slot];
    *created = tx;
    return TUTTI_OK;
}

static enum tutti_status open_tx(struct local *local, int slot, int channel, int to, size_t bytes,
                                 struct link_tx **link)
{
    assert(channel < TRANSPORT_CHANNEL_COUNT);
    struct local_tx **entry =
        &local->tx[(slot * TRANSPORT_CHANNEL_COUNT + channel) * local->base.size + to];
    if (*entry == NULL) TRY(tx_create(local, slot, channel, to, entry));
    if (local->checks && bytes > INLINE_BYTES) bytes = SIZE_MAX; /* not through small slots */
    if (bytes > (*entry)->bytes_max) {
        TRY(segment_reserve_data(local->segment, (*entry)->data, bytes));
        (*entry)->bytes_max = bytes;
    }
    *link = &(*entry)->base;
    return TUTTI_OK;
}

enum tutti_status links_open_tx(struct transport *transport, int slot, int channel, int peer,
                                size_t bytes, struct link_tx **link)
{
    assert(peer != transport->rank);
    return open_tx((struct local *)transport, slot, channel, peer, bytes, link);
}

enum tutti_status links_open_multicast_tx(struct transport *transport, int slot, int channel,
                                          int group, size_t bytes, struct link_tx **link)
{
    assert(group == 0), (void)group;
    return open_tx((struct local *)transport, slot, channel, transport->rank, bytes, link);
}

static enum tutti_status rx_create(struct local *local, int slot, int channel, int peer,
                                   bool multicast, struct local_rx **created)
{
    struct local_rx *rx = calloc(1, sizeof *rx);
    if (rx == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    const int rank = local->base.rank;
    char *data;
    enum tutti_status status = segment_link(local->segment, peer, slot, channel,
                                            multicast ? peer : rank, &rx->headers, &data);
    if (status == TUTTI_OK)
        status = segment_tail(local->segment, rank, slot, channel, peer, multicast, &rx->tail);
    if (status != TUTTI_OK) {
        free(rx);
        return status;
    }
    rx->base = (struct link_rx){.ops = local->checks ? &checked_receiving_ops : &receiving_ops,
                                .peer = local_name_of(local, peer),
                                .capabilities = capabilities_of(local, multicast)};
    rx->local = local;
    rx->local_peer = peer;
    rx->signature = &local->base.signatures[slot];
    rx->slot = slot;
    rx->data = data;
    *created = rx;
    return TUTTI_OK;
}

static enum tutti_status open_rx(struct local *local, int slot, int channel, int peer,
                                 bool multicast, struct link_rx **link)
{
    assert(channel < TRANSPORT_CHANNEL_COUNT);
    struct local_rx **entry =
        &local->rx[((slot * TRANSPORT_CHANNEL_COUNT + channel) * 2 + multicast) * local->base.size +
                   peer];
    if (*entry == NULL) TRY(rx_create(local, slot, channel, peer, multicast, entry));
    *link = &(*entry)->base;
    return TUTTI_OK;
}

enum tutti_status links_open_rx(struct transport *transport, int slot, int channel, int peer,
                                struct link_rx **link)
{
    return open_rx((struct local *)transport, slot, channel, peer, false, link);
}

enum tutti_status links_open_multicast_rx(struct transport *transport, int slot, int channel,
                                          int group, int peer, struct link_rx **link)
{
    assert(group == 0), (void)group;
    return open_rx((struct local *)transport, slot, channel, peer, true, link);
}

void links_free(struct local *local)
{
    const size_t links =
        (size_t)TRANSPORT_SLOT_COUNT * TRANSPORT_CHANNEL_COUNT * (size_t)local->base.size;
    for (size_t i = 0; local->tx != NULL && i < links; i++) tx_free(local->tx[i]);
    for (size_t i = 0; local->rx != NULL && i < links * 2; i++) rx_free(local->rx[i]);
    free(local->tx);
    free(local->rx);
}

static void add_writers(const struct local *local, struct transport_footprint *footprint)
{
    const size_t size = (size_t)local->base.size,
                 links = (size_t)TRANSPORT_SLOT_COUNT * TRANSPORT_CHANNEL_COUNT * size;
    for (size_t i = 0; i < links; i++) {
        const struct local_tx *tx = local->tx[i];
        if (tx == NULL) continue;
        footprint->link_count++;
        footprint->private_bytes +=
            sizeof *tx + size * (sizeof *tx->readers + sizeof(struct tail *));
        footprint->shared_bytes += segment_link_bytes(local->segment, tx->bytes_max);
    }
}

static void add_readers(const struct local *local, struct transport_footprint *footprint)
{
    const size_t size = (size_t)local->base.size,
                 channels = (size_t)TRANSPORT_SLOT_COUNT * TRANSPORT_CHANNEL_COUNT;
    for (size_t channel = 0; channel < channels; channel++) {
        bool reads = false;
        for (size_t i = channel * 2 * size; i < (channel + 1) * 2 * size; i++) {
            const struct local_rx *rx = local->rx[i];
            if (rx == NULL) continue;
            reads = true;
            footprint->link_count++;
            footprint->private_bytes += sizeof *rx + (rx->fetched != NULL ? FETCH_BYTES_MAX : 0);
        }
        if (reads) footprint->shared_bytes += local->segment->tails_bytes;
    }
}

void links_add_footprint(const struct local *local, struct transport_footprint *footprint)
{
    add_writers(local, footprint);
    add_readers(local, footprint);
}
