/* links.h - the links that a rank has open: opened when a plan first needs them, released with the
 * transport. */
#ifndef TUTTI_TRANSPORT_LOCAL_LINKS_H
#define TUTTI_TRANSPORT_LOCAL_LINKS_H

#include "transport/local/state.h"

/* The functions of transport_ops. */
enum tutti_status links_open_tx(struct transport *transport, int slot, int channel, int peer,
                                size_t bytes, struct link_tx **link);
enum tutti_status links_open_rx(struct transport *transport, int slot, int channel, int peer,
                                struct link_rx **link);
enum tutti_status links_open_multicast_tx(struct transport *transport, int slot, int channel,
                                          int group, size_t bytes, struct link_tx **link);
enum tutti_status links_open_multicast_rx(struct transport *transport, int slot, int channel,
                                          int group, int peer, struct link_rx **link);
/* Frees all open links and their tables. */
void links_free(struct local *local);
/* Adds the memory that links hold to the footprint. */
void links_add_footprint(const struct local *local, struct transport_footprint *footprint);

#endif
