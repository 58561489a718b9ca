/* receiving.h - readers' ends of links: they turn a header into a view of its message, where the
 * message lies.
 *
 * Invariants
 *   1. A header is foreign. It may name only memory in the link, in a shared slot or in the
 *      sender's heap, or memory that this end has offered; all else is a fault. Addresses are
 *      believed only if they come from ranks of this process.
 *   2. A sender that announces a message as placed which this end did not expect is at fault.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_RECEIVING_H
#define TUTTI_TRANSPORT_LOCAL_RECEIVING_H

#include "transport/transport.h"

extern const struct link_rx_ops receiving_ops;
/* Checked links have this function, too. */
void receiving_consume(struct link_rx *link, size_t bytes);

#endif
