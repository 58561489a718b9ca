/* lending.h - slots that travel: all readers of a message share one copy, and a reader that is the only one may change it and hand
 * it on.
 *
 * Invariant: a shared slot is written only by its owner while nobody reads it, and by its only reader.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_LENDING_H
#define TUTTI_TRANSPORT_LOCAL_LENDING_H

#include "transport/local/ends.h"

/* The functions of transport_ops. */
enum tutti_status lending_open(struct transport *transport, int slot);
void *lending_lend(struct transport *transport, int slot, size_t bytes);
void lending_share(struct transport *transport, int slot, struct link_tx *const *links,
                   unsigned count, size_t bytes);

/* Turns the shared slot that a header names into a view; false: there is no such slot. */
bool lending_view(struct local_rx *rx, uint64_t where, size_t bytes);
/* This rank has read the shared slot in view, and is no longer one of its readers. */
void lending_give_back(struct local_rx *rx);
/* The function of link_rx_ops. */
void lending_hand_on(struct link_rx *link, struct link_tx *const *targets, unsigned count);

#endif
