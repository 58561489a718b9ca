/* ofi_device.h - a network card driven by libfabric (card/card_device.h): each communicator has one
 * reliable datagram endpoint (FI_EP_RDM), which reaches all its ranks.
 *
 *   pair ── send ──► operation ── fi_inject, fi_sendmsg ──► endpoint ──► any posted receive of the peer's endpoint
 *        ── write ─► parts ────── fi_writemsg ────────────► endpoint ──► memory that the peer has registered
 *                                 completion queue ◄── all of them, in any order
 *
 *   message    nonce  rank │ head of the pair │ bytes
 *              └ 16 bytes: what the receiver has told this sender alone, and the sender's rank
 *
 * Receives belong to the endpoint, not to a pair. A message takes any of them, and the pair that it
 * is for gets that memory in exchange for memory of its own. So each pair may be sent as many
 * messages as it has posted receives, wherever they land.
 *
 * Addresses and nonces travel in greetings. Control carries the greetings
 * (options.greets). This device reports what it hears of a peer's card, never
 * that a peer is dead.
 *
 * Invariants
 *   1. A message without the nonce that its sender was told is dropped: a message from a stranger,
 *      from a rank that has not been greeted, or from a rank that claims to be another one.
 *   2. After `stop`, libfabric touches no memory: the endpoint is closed. Where registrations are
 *      bound to it (FI_MR_ENDPOINT: cxi, say), they are ended first, since it cannot be closed
 *      before. If a provider refuses nevertheless, a line of the log says so, and all memory that
 *      it may have is kept for good.
 *   3. A write is known to have landed by its completion (FI_DELIVERY_COMPLETE). If a provider
 *      keeps messages behind writes (FI_ORDER_SAW) and makes no connections of its own that can end
 *      in between, the message behind the write shows it, unless the message goes over another
 *      card. Neither polling of last bytes nor immediate data is used.
 *   4. An operation that failed is not tried again: the peer is in trouble from then on.
 *
 * Threads: as card/card_device.h.
 */
#ifndef TUTTI_TRANSPORT_OFI_OFI_DEVICE_H
#define TUTTI_TRANSPORT_OFI_OFI_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/card/card_device.h"
#include "transport/ofi/choice.h"

enum { OFI_ADDRESS_MAX = 128, OFI_TROUBLE_MAX = 96 };

/* Each device tells this to each peer before anything else. */
struct ofi_greeting {
    uint64_t nonce; /* in each message from that peer to this device; no other peer knows it */
    uint32_t address_bytes, address_format;
    unsigned char address[OFI_ADDRESS_MAX];
};

struct ofi_device_options {
    int rank, size;
    const struct ofi_choice *choice; /* one with a card */
    unsigned card;                   /* which of them */
    /* One of several cards of this rank (card/card_rails.h), so that a message on one of them shows
     * nothing of the others; and not the first, so that it carries no messages. */
    bool is_of_several, is_further;
    /* Sends a peer its greeting; false: not now. */
    bool (*greets)(void *context, int peer, const struct ofi_greeting *greeting);
    void *context;
};

/* UNSUPPORTED: the provider refuses something, and the error says what; NO_MEMORY, SYSTEM. */
enum tutti_status ofi_device_create(const struct ofi_device_options *options,
                                    struct card_device **device);
/* A greeting, which is foreign, has come from that peer. False: it makes no sense, and is dropped.
 * A repeated greeting says that the peer is in trouble with this rank. */
bool ofi_device_greeted(struct card_device *device, int peer, const struct ofi_greeting *greeting);
/* The time since which an operation for that peer has failed, and which one it was; 0: none has. */
uint64_t ofi_device_trouble(const struct card_device *device, int peer, char text[OFI_TROUBLE_MAX]);
/* Notes that something has failed for that peer: the peer is in trouble, and has been since
 * then. */
void ofi_device_fail(struct card_device *device, int peer, const char *what, uint64_t since_ns);
/* NO_DESCRIPTORS or NO_MEMORY: this rank lacks them, and so does not reach a peer, or is not
 * reached by it; else OK. */
enum tutti_status ofi_device_check(const struct card_device *device);
/* Whether libfabric has an unfinished operation for that peer, or takes none for it now. *steps:
 * the number of steps so far; as long as it does not change, nothing moves. */
bool ofi_device_owes(const struct card_device *device, int peer, uint64_t *steps);
/* The number of messages that were dropped, see invariant 1. */
unsigned ofi_device_strays(const struct card_device *device);

#endif
