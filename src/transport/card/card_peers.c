#include "transport/card/card_peers.h"

#include <assert.h>

#include "base/status.h"
#include "transport/card/card_state.h"

static struct card_device *device_of(const struct transport *transport)
{
    return ((const struct card *)transport)->shared.device;
}

static enum tutti_status tell(struct transport *transport, int peer, const void *message,
                              size_t bytes, bool is_final)
{
    struct card_pair *pair;
    assert(peer >= 0 && peer < transport->size && peer != transport->rank);
    assert(bytes >= sizeof(uint32_t) && bytes <= PEERS_MESSAGE_BYTES_MAX);
    TRY(card_find_pair(card_of(transport), peer, &pair));
    return card_pair_tell(pair, message, bytes, is_final);
}

static enum tutti_status card_tell(struct transport *transport, int peer, const void *message,
                                   size_t bytes)
{
    return tell(transport, peer, message, bytes, false);
}

static enum tutti_status card_tell_final(struct transport *transport, int peer, const void *message,
                                         size_t bytes)
{
    return tell(transport, peer, message, bytes, true);
}

static unsigned card_unheard(const struct transport *transport, int peer)
{
    const struct card_pair *pair = card_pair_of(transport, peer);
    return pair != NULL ? (unsigned)(pair->words.told - pair->words.acked) : 0;
}

static enum peer_state state_of(const struct card_pair *pair)
{
    switch (pair->state) {
    case CARD_PEER_UNUSED: return PEER_UNUSED;
    case CARD_PEER_WANTED: return PEER_WANTED;
    case CARD_PEER_UP: return PEER_UP;
    case CARD_PEER_LOST: return PEER_LOST;
    case CARD_PEER_BROKEN: break;
    }
    return PEER_BROKEN;
}

static void card_report(const struct transport *transport, int peer, struct peer_report *report)
{
    const struct card_pair *pair = card_pair_of(transport, peer);
    *report = (struct peer_report){.state = PEER_UNUSED};
    if (pair == NULL) return;
    *report = (struct peer_report){.state = state_of(pair),
                                   .since_ns = pair->since_ns,
                                   .heard_ns = pair->heard_ns,
                                   .streams_up = pair->state == CARD_PEER_UP};
}

/* The kernel takes messages to a process that is there, whether the process runs or not; devices
 * ask by themselves. */
static uint64_t card_answered_ns(const struct transport *transport, int peer)
{
    struct card_device *const device = device_of(transport);
    return device->ops->found_ns(device, peer);
}

static enum peer_presence card_look(struct transport *transport, int peer, uint64_t now_ns)
{
    const struct card_pair *pair = card_pair_of(transport, peer);
    (void)now_ns;
    return pair != NULL && pair->state == CARD_PEER_LOST ? PEER_ENDED : PEER_PRESENT;
}

static enum tutti_status card_connect(struct transport *transport, int peer)
{
    struct card_pair *pair;
    return card_find_pair(card_of(transport), peer, &pair);
}

static void card_forget(struct transport *transport, int peer)
{
    struct card_device *const device = device_of(transport);
    device->ops->forget(device, peer);
}

static bool card_is_awaited(const struct transport *transport)
{
    for (int r = 0; r < transport->size; r++) {
        const struct card_pair *pair = card_pair_of(transport, r);
        if (pair != NULL && !card_pair_is_gone(pair) && card_pair_has_awaited_output(pair))
            return true;
    }
    struct card_device *const device = device_of(transport);
    return device->ops->is_busy(device);
}

static bool card_is_settled(const struct transport *transport, int peer)
{
    const struct card_pair *pair = card_pair_of(transport, peer);
    return pair == NULL || card_pair_is_gone(pair) || card_pair_is_settled(pair);
}

static bool card_is_owed_data(const struct transport *transport, int peer)
{
    const struct card_pair *pair = card_pair_of(transport, peer);
    return pair != NULL && !card_pair_is_gone(pair) && card_pair_is_owed_data(pair);
}

static bool card_finish(struct transport *transport)
{
    for (int r = 0; r < transport->size; r++)
        if (card_of(transport)->pairs[r] != NULL) card_pair_tell_all(card_of(transport)->pairs[r]);
    (void)transport->ops->progress(transport);
    for (int r = 0; r < transport->size; r++)
        if (!card_is_settled(transport, r)) return false;
    return true;
}

static bool card_stop(struct transport *transport)
{
    struct card *card = card_of(transport);
    card->shared.is_stopped = true;
    for (int r = 0; r < transport->size; r++)
        if (card->pairs[r] != NULL) card_pair_stop(card->pairs[r]);
    card->shared.device->ops->stop(card->shared.device);
    return true;
}

const struct peer_ops card_peer_ops = {.tell = card_tell,
                                       .tell_final = card_tell_final,
                                       .unheard = card_unheard,
                                       .report = card_report,
                                       .answered_ns = card_answered_ns,
                                       .look = card_look,
                                       .trouble = peers_no_trouble,
                                       .connect = card_connect,
                                       .is_connecting = peers_not_connecting,
                                       .check = peers_check_ok,
                                       .forget = card_forget,
                                       .is_awaited = card_is_awaited,
                                       .finish = card_finish,
                                       .is_settled = card_is_settled,
                                       .is_owed_data = card_is_owed_data,
                                       .stop = card_stop};
