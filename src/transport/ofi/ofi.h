/* ofi.h - the transport over network cards with remote memory access, through libfabric: data over the card, everything else over TCP.
 *
 *                     ┌ links ──────────────► card/card.h ──► ofi/device.h ──► libfabric ──► the card
 *   communicator ─────┤                            ▲ greetings
 *                     └ control messages, ──────► tcp/endpoint.h ──► authenticated connections
 *                       who is still there
 *
 * So whether a peer is there, what it says beside its data, and how two cards find each other does not depend on a provider of libfabric:
 * those differ in how, and whether, they notice that a peer is gone. A peer whose card fails while it lives itself is taken for vanished
 * after a moment, in which its death may be heard of otherwise.
 *
 * A control message may not overtake credit (transport/peers.h). So each says how many messages over the card its sender had sent before
 * it, and is heard when those have come. Where the card fails, or has been stopped, it is heard at once; also where more than a few wait.
 *
 * Neither encryption nor checksums: a communicator that asks for them does not get this transport (comm/site.h).
 * Threads: as transport.h says.
 */
#ifndef TUTTI_TRANSPORT_OFI_OFI_H
#define TUTTI_TRANSPORT_OFI_OFI_H

#include "transport/remote.h"
#include "transport/transport.h"

/* Failures: those of the endpoint and the device. */
enum tutti_status ofi_open(const struct remote_options *options, struct transport **transport);
/* NULL is allowed. */
void ofi_close(struct transport *transport);

/* For tests: the device. */
struct card_device *ofi_device_under(const struct transport *transport);

#endif
