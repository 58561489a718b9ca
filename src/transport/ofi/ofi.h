/* ofi.h - links over network cards with remote memory access, through libfabric.
 *
 *                     ┌ links ──► card/card.h ──► ofi/ofi_device.h ──► libfabric ──► the card
 *   communicator ─────┤                ▲ greetings, of each card
 *                     └ control ──► data_order.h ──► tcp/endpoint.h ──► authenticated connections
 *
 * So libfabric's providers have no part in finding out whether a peer is there, in control
 * messages, or in how two cards find each other. Providers differ in how, and whether, they notice
 * that a peer is gone. If the card of a living peer fails, the peer is taken for vanished after a
 * moment, in which its death may become known otherwise.
 *
 * A rank that has several cards uses them as one device (card/card_rails.h). Each greets its
 * counterpart by its number; a card that is not greeted is not used for that peer. A further card
 * that does not open, and the cards behind it, are left out. A failure of any of them counts like a
 * failure of an only card.
 *
 * Neither encryption nor checksums: a communicator that asks for them does not get this transport
 * (comm/site.h).
 *
 * Threads: as transport.h says.
 */
#ifndef TUTTI_TRANSPORT_OFI_OFI_H
#define TUTTI_TRANSPORT_OFI_OFI_H

#include "transport/remote_options.h"
#include "transport/transport.h"

/* order: it stays the caller's, and lives longer. Failures: the same as of the device. */
enum tutti_status ofi_open(const struct remote_options *options, struct data_order *order,
                           struct transport **transport);
/* NULL is allowed. */
void ofi_close(struct transport *transport);

#endif
