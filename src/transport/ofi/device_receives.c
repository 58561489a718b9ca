#include "transport/ofi/device_receives.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "transport/ofi/device_completions.h"
#include "transport/ofi/device_peers.h"
#include "transport/ofi/regions.h"

/* Each receive that may be posted has its context; blocks of them stay where they are. */
static enum tutti_status add_receives(struct ofi_device *device, unsigned count)
{
    struct ofi_receive **blocks = realloc(
        device->receive_blocks, (device->receive_block_count + 1) * sizeof(struct ofi_receive *));
    if (blocks != NULL) device->receive_blocks = blocks;
    struct ofi_receive *block = calloc(count, sizeof *block);
    if (blocks == NULL || block == NULL) {
        free(block);
        return ofi_device_no_memory();
    }
    device->receive_blocks[device->receive_block_count++] = block;
    for (unsigned i = 0; i < count; i++) {
        block[i].context.work = OFI_RECEIVES;
        block[i].next = device->spare_receives;
        device->spare_receives = &block[i];
    }
    return TUTTI_OK;
}

enum tutti_status ofi_receives_prepare(struct card_device *base, int rank)
{
    struct ofi_device *device = ofi_device_of(base);
    struct ofi_peer *peer = ofi_peers_find(device, rank);
    if (peer == NULL) return ofi_device_no_memory();
    assert(!peer->is_prepared);
    if (!device->options.is_further) TRY(add_receives(device, CARD_RECEIVES_MAX));
    TRY(ofi_completions_make_room(device));
    ofi_peers_prepared(device, peer);
    return TUTTI_OK;
}

void ofi_receives_post_all(struct ofi_device *device)
{
    struct ofi_receive *receive;
    while ((receive = device->unposted) != NULL && device->posted < device->posted_max &&
           !device->is_stopped) {
        const ssize_t result = device->provider.verbs->receive(
            device->provider.endpoint, receive->address - OFI_PREFIX_BYTES,
            OFI_PREFIX_BYTES + device->base.message_bytes,
            ofi_regions_descriptor(device->regions, receive->key), &receive->context);
        if (result != 0) return; /* later */
        device->unposted = receive->next;
        device->posted++;
    }
}

bool ofi_receives_post(struct card_device *base, int rank, uint64_t key, void *address, uint64_t id)
{
    struct ofi_device *device = ofi_device_of(base);
    struct ofi_peer *peer = device->peers[rank];
    if (ofi_peer_is_over(peer) || device->is_stopped || peer->id_count == CARD_RECEIVES_MAX)
        return false;
    struct ofi_receive *receive = device->spare_receives;
    assert(receive != NULL); /* each peer has brought as many as it may have */
    device->spare_receives = receive->next;
    receive->address = address;
    receive->key = key;
    receive->next = device->unposted;
    device->unposted = receive;
    peer->ids[peer->id_count++] = id;
    ofi_receives_post_all(device);
    return true;
}

/* The peer that sent the message; NULL: no peer did. */
static struct ofi_peer *sender_of(struct ofi_device *device, const struct ofi_receive *receive,
                                  size_t bytes, int *rank)
{
    struct ofi_prefix prefix;
    if (bytes < OFI_PREFIX_BYTES) return NULL;
    memcpy(&prefix, receive->address - OFI_PREFIX_BYTES, sizeof prefix);
    if (prefix.magic != OFI_PREFIX_MAGIC || prefix.rank >= (uint32_t)device->options.size)
        return NULL;
    *rank = (int)prefix.rank;
    struct ofi_peer *peer = device->peers[*rank];
    return peer == NULL || prefix.nonce != peer->own_nonce || ofi_peer_is_over(peer) ||
                   !peer->is_connected
               ? NULL
               : peer;
}

static void post_again(struct ofi_device *device, struct ofi_receive *receive)
{
    device->posted--;
    receive->next = device->unposted;
    device->unposted = receive;
}

void ofi_receives_drop(struct ofi_device *device, struct ofi_receive *receive)
{
    device->strays++;
    post_again(device, receive);
}

void ofi_receives_take(struct ofi_device *device, struct ofi_receive *receive, size_t bytes)
{
    int rank = -1;
    struct ofi_peer *peer = sender_of(device, receive, bytes, &rank);
    if (peer == NULL) {
        ofi_receives_drop(device, receive);
        return;
    }
    if (peer->id_count == 0) { /* it sends more than it may */
        ofi_peers_end(device, rank, CARD_PEER_BROKEN);
        post_again(device, receive);
        return;
    }
    device->posted--;
    device->may_have_opened |= peer->heard_ns == 0;
    peer->heard_ns = clock_now_ns();
    const struct card_completion completion = {.work = CARD_RECEIVED,
                                               .peer = rank,
                                               .id = peer->ids[--peer->id_count],
                                               .bytes = bytes - OFI_PREFIX_BYTES,
                                               .data = receive->address,
                                               .key = receive->key};
    receive->next = device->spare_receives;
    device->spare_receives = receive;
    ofi_completions_add(device, &completion);
}

void ofi_receives_free(struct ofi_device *device)
{
    for (unsigned b = 0; b < device->receive_block_count; b++) free(device->receive_blocks[b]);
    free(device->receive_blocks);
}

size_t ofi_receives_bytes(const struct ofi_device *device)
{
    return device->receive_block_count * CARD_RECEIVES_MAX * sizeof(struct ofi_receive);
}
