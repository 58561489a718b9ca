/* shared_slots.h - slots that travel: all readers of a message share one copy, and a reader that is
 * the only one may change it and forward it.
 *
 * Invariant: a shared slot is written only by its owner while it has no readers, or by its only
 * reader.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_SHARED_SLOTS_H
#define TUTTI_TRANSPORT_LOCAL_SHARED_SLOTS_H

#include "transport/local/ends.h"

/* The functions of transport_ops. */
enum tutti_status shared_slots_open(struct transport *transport, int slot);
void *shared_slots_reserve(struct transport *transport, int slot, size_t bytes);
void shared_slots_send(struct transport *transport, int slot, struct link_tx *const *links,
                       unsigned count, size_t bytes);

/* Turns the shared slot that a header names into a view; false: there is no such slot. */
bool shared_slots_view(struct local_rx *rx, uint64_t where, size_t bytes);
/* This rank has read the shared slot in view, and is no longer one of its readers. */
void shared_slots_give_back(struct local_rx *rx);
/* The function of link_rx_ops. */
void shared_slots_forward(struct link_rx *link, struct link_tx *const *targets, unsigned count);

#endif
