/* sending.h - writers' ends of links: messages in their header, through a small slot or a data slot, by reference, or stored where their reader
 * expects them.
 *
 * Invariant: memory of a reader is written by its sender only where it expects just that message, and of another process only
 * within its heap.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_SENDING_H
#define TUTTI_TRANSPORT_LOCAL_SENDING_H

#include "transport/transport.h"

extern const struct link_tx_ops sending_ops;
/* Those of its functions that checked links have, too. */
void *sending_reserve_slot(struct link_tx *link, size_t bytes); /* in the header, or a data slot */
bool sending_consumed(struct link_tx *link);
bool sending_has_room(struct link_tx *link);

#endif
