/* sending.h - writers' ends of links: messages in their header, through a small slot or a data
 * slot, by reference, or stored where their reader expects them.
 *
 * Invariant: a sender writes into memory of a reader only where the reader expects exactly that
 * message, and into another process only within its heap.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_SENDING_H
#define TUTTI_TRANSPORT_LOCAL_SENDING_H

#include "transport/transport.h"

extern const struct link_tx_ops sending_ops;
/* Checked links have these functions, too. */
void *sending_reserve_slot(struct link_tx *link, size_t bytes); /* in the header, or a data slot */
bool sending_consumed(struct link_tx *link);
bool sending_has_room(struct link_tx *link);

#endif
