/* card_state.h - the state that the parts of a transport over a network card share: card.c,
 * card_peers.c. */
#ifndef TUTTI_TRANSPORT_CARD_CARD_STATE_H
#define TUTTI_TRANSPORT_CARD_CARD_STATE_H

#include <stdatomic.h>

#include "transport/card/pair.h"
#include "transport/transport.h"

struct card {
    struct transport base;
    struct card_shared shared;
    size_t reach_bytes, offer_bytes;
    struct card_pair **pairs;       /* NULL: never used */
    unsigned idle_passes, patience; /* of progress, one after the other; as the options say */
    _Atomic uint32_t asleep;
};

static inline struct card *card_of(struct transport *transport)
{
    return (struct card *)transport;
}

static inline const struct card_pair *card_pair_of(const struct transport *transport, int peer)
{
    return ((const struct card *)transport)->pairs[peer];
}

/* The peer's device is gone, or sent something that made no sense. */
static inline bool card_pair_is_gone(const struct card_pair *pair)
{
    return pair->state == CARD_PEER_LOST || pair->state == CARD_PEER_BROKEN;
}

static inline enum tutti_status card_find_pair(struct card *card, int peer, struct card_pair **pair)
{
    enum tutti_status status = TUTTI_OK;
    if (card->pairs[peer] == NULL)
        status = card_pair_create(&card->shared, peer, &card->pairs[peer]);
    *pair = card->pairs[peer];
    return status;
}

#endif
