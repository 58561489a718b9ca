/* device.h - a network card by libfabric (card/device.h): one reliable datagram endpoint (FI_EP_RDM) of a communicator, which reaches all
 * its ranks.
 *
 *   pair ── send ──► operation ── fi_inject, fi_sendmsg ──► endpoint ──► any posted receive of the peer's endpoint
 *        ── write ─► parts ────── fi_writemsg ────────────► endpoint ──► memory that the peer has registered
 *                                 completion queue ◄── all of them, in any order
 *
 *   message    nonce  rank │ head of the pair │ bytes
 *              └ 16 bytes: what the receiving device has told this sender alone, and who that is
 *
 * Receives are the endpoint's, not a pair's: a message takes any of them, and the pair that it is for gets that memory in exchange for
 * one of its own. So each pair may be sent as many messages as it has posted receives, wherever they land.
 *
 * Addresses and nonces travel in greetings, which something else carries (options.greets), and so do all control messages: this device
 * says what it hears of a peer's card, never that a peer is dead.
 *
 * Invariants
 *   1. A message without the nonce that its sender was told is dropped: from a stranger, from a rank that has not been greeted, and from one
 *      that says that it is another one.
 *   2. After `stop` libfabric touches no memory: the endpoint is closed.
 *   3. That a write has landed is known from its completion (FI_DELIVERY_COMPLETE), or, where a provider keeps messages behind writes
 *      (FI_ORDER_SAW) and makes no connections of its own that can end in between, from the message behind it. No polling of last bytes, no
 *      immediate data.
 *   4. An operation that failed is not tried again: the peer is in trouble from then on.
 *
 * Threads: as card/device.h.
 */
#ifndef TUTTI_TRANSPORT_OFI_DEVICE_H
#define TUTTI_TRANSPORT_OFI_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/card/device.h"
#include "transport/ofi/choice.h"

enum { OFI_ADDRESS_MAX = 128, OFI_TROUBLE_MAX = 96 };

/* Each device tells this to each peer before anything else. */
struct ofi_greeting {
    uint64_t nonce; /* in each message of that peer to this device: no other peer knows it */
    uint32_t address_bytes, address_format;
    unsigned char address[OFI_ADDRESS_MAX];
};

struct ofi_device_options {
    int rank, size;
    const struct ofi_choice *choice; /* one with a card */
    /* Tells a peer; false: not now. */
    bool (*greets)(void *context, int peer, const struct ofi_greeting *greeting);
    void *context;
};

/* UNSUPPORTED: the provider refuses something, and the error says what; NO_MEMORY, SYSTEM. */
enum tutti_status ofi_device_create(const struct ofi_device_options *options,
                                    struct card_device **device);
/* A greeting has come from that peer: foreign. False: it makes no sense, and is dropped. */
bool ofi_device_greeted(struct card_device *device, int peer, const struct ofi_greeting *greeting);
/* That peer is gone, as the control plane has found. */
void ofi_device_lost(struct card_device *device, int peer);
/* Since when something that was for that peer has failed, and what; 0: nothing has. */
uint64_t ofi_device_trouble(const struct card_device *device, int peer, char text[OFI_TROUBLE_MAX]);
/* Something was found to have failed for that peer: it is in trouble, and has been since then. */
void ofi_device_fail(struct card_device *device, int peer, const char *what, uint64_t since_ns);
/* Whether libfabric has something for that peer that is not done, or takes nothing for it now; and how many steps there were so far: as long as
 * these do not change nothing moves. */
bool ofi_device_owes(const struct card_device *device, int peer, uint64_t *steps);
/* Messages that were dropped, see invariant 1. */
unsigned ofi_device_strays(const struct card_device *device);

#endif
