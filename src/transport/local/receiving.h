/* receiving.h - readers' ends of links: a header becomes a view of its message, where that lies.
 *
 * Invariants
 *   1. A header is foreign: whatever it names lies in the link, in a shared slot, in the sender's heap, or is what this end has
 *      offered; all else is a fault. Addresses are believed of ranks of this process alone.
 *   2. A sender that announces as placed what was not expected is at fault.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_RECEIVING_H
#define TUTTI_TRANSPORT_LOCAL_RECEIVING_H

#include "transport/transport.h"

extern const struct link_rx_ops receiving_ops;
/* The one of its functions that checked links have, too. */
void receiving_consume(struct link_rx *link, size_t bytes);

#endif
