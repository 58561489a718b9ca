/* device_peers.h - the peers of a device: how they are greeted, in which state they are, and in
 * what trouble.
 *
 *     WANTED ──connected here, and greeted by it──► UP ──sends what it may not──► BROKEN
 *        └───────────────────────────────────────────┴────────it has left──────► LOST
 */
#ifndef TUTTI_TRANSPORT_OFI_DEVICE_PEERS_H
#define TUTTI_TRANSPORT_OFI_DEVICE_PEERS_H

#include "transport/ofi/device_state.h"

/* NO_MEMORY. */
enum tutti_status ofi_peers_create(struct ofi_device *device);
void ofi_peers_free(struct ofi_device *device);
size_t ofi_peers_bytes(const struct ofi_device *device);
/* The entry of a peer, which is made if there is none. NULL: out of memory. */
struct ofi_peer *ofi_peers_find(struct ofi_device *device, int rank);
/* The caller has made what a pair with that peer needs. */
void ofi_peers_prepared(struct ofi_device *device, struct ofi_peer *peer);
/* Sends the greetings that could not be sent before. */
void ofi_peers_greet_again(struct ofi_device *device);
/* error: libfabric's; 0: it has said none. The greeting that comes again tells the peer that it is
 * not reached. */
void ofi_peers_trouble(struct ofi_device *device, int rank, const char *what, int error,
                       const char *reason);
/* Operations of the peer that libfabric has complete by themselves, and is then dropped. Writes of
 * which it has nothing complete at the next look. */
void ofi_peers_end(struct ofi_device *device, int rank, enum card_peer_state state);

/* As card/card_device.h says. */
void ofi_peers_connect(struct card_device *base, int rank);
enum card_peer_state ofi_peers_state(const struct card_device *base, int rank);
int ofi_peers_caller(const struct card_device *base);
void ofi_peers_forget(struct card_device *base, int rank);
void ofi_peers_break(struct card_device *base, int rank);

#endif
