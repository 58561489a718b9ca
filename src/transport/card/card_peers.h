/* card_peers.h - the half of the contract that concerns peers (transport/peers.h), over a network
 * card. A peer is lost when its device is gone, because its process has ended or has closed its
 * transport. */
#ifndef TUTTI_TRANSPORT_CARD_CARD_PEERS_H
#define TUTTI_TRANSPORT_CARD_CARD_PEERS_H

#include "transport/peers.h"

extern const struct peer_ops card_peer_ops;

#endif
