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

/* The readers of a link to one rank or to all of them. */
static unsigned capabilities_of(const struct local *local, bool multicast)
{
    if (local->checks) return 0;
    return multicast ? LINK_SHARES : LINK_SHARES | LINK_ADVERTISES | LINK_REFERS;
}

/* The link to a peer, or, if the peer is this rank itself, to all: the segment keeps both in one
 * row. */
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
                                .capabilities = capabilities_of(local, multicast),
                                .huge_pages = &local->huge_pages};
    tx->local = local;
    tx->local_peer = to;
    tx->signature = &local->base.signatures[slot];
    tx->slot = slot;
    *created = tx;
    return TUTTI_OK;
}

static enum tutti_status open_tx(struct local *local, int slot, int channel, int to, size_t bytes,
                                 struct link_tx **link)
{
    assert(channel < TRANSPORT_CHANNEL_COUNT);
    struct local_tx ***const row = &local->tx[slot * TRANSPORT_CHANNEL_COUNT + channel];
    if (*row == NULL) *row = calloc((size_t)local->base.size, sizeof **row);
    if (*row == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    struct local_tx **const entry = &(*row)[to];
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
    rx->is_only_reader = !multicast || local->base.size == 2;
    *created = rx;
    return TUTTI_OK;
}

static enum tutti_status open_rx(struct local *local, int slot, int channel, int peer,
                                 bool multicast, struct link_rx **link)
{
    assert(channel < TRANSPORT_CHANNEL_COUNT);
    struct local_rx ***const row = &local->rx[slot * TRANSPORT_CHANNEL_COUNT + channel];
    if (*row == NULL) *row = calloc(2 * (size_t)local->base.size, sizeof **row);
    if (*row == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    struct local_rx **const entry = &(*row)[multicast * local->base.size + peer];
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
    const int size = local->base.size;
    for (int row = 0; row < TRANSPORT_LINK_COUNT; row++) {
        for (int i = 0; local->tx[row] != NULL && i < size; i++) tx_free(local->tx[row][i]);
        for (int i = 0; local->rx[row] != NULL && i < 2 * size; i++) rx_free(local->rx[row][i]);
        free(local->tx[row]);
        free(local->rx[row]);
    }
}

static void add_writers(const struct local *local, struct local_tx *const *row,
                        struct transport_footprint *footprint)
{
    const size_t size = (size_t)local->base.size;
    if (row == NULL) return;
    footprint->private_bytes += size * sizeof *row;
    for (size_t i = 0; i < size; i++) {
        const struct local_tx *tx = row[i];
        if (tx == NULL) continue;
        footprint->link_count++;
        footprint->private_bytes +=
            sizeof *tx + size * (sizeof *tx->readers + sizeof(struct tail *));
        footprint->shared_bytes += segment_link_bytes(local->segment, tx->bytes_max);
    }
}

static void add_readers(const struct local *local, struct local_rx *const *row,
                        struct transport_footprint *footprint)
{
    const size_t size = (size_t)local->base.size;
    if (row == NULL) return;
    footprint->private_bytes += 2 * size * sizeof *row;
    footprint->shared_bytes += local->segment->tails_bytes;
    for (size_t i = 0; i < 2 * size; i++) {
        const struct local_rx *rx = row[i];
        if (rx == NULL) continue;
        footprint->link_count++;
        footprint->private_bytes += sizeof *rx + (rx->fetched != NULL ? FETCH_BYTES_MAX : 0);
    }
}

void links_add_footprint(const struct local *local, struct transport_footprint *footprint)
{
    for (int row = 0; row < TRANSPORT_LINK_COUNT; row++) {
        add_writers(local, local->tx[row], footprint);
        add_readers(local, local->rx[row], footprint);
    }
}
