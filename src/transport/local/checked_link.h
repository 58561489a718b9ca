/* checked_link.h - links whose messages are compared before they are shown (checked.h).
 *
 * Invariant: every message goes in its header or through a slot; the paths that have no second copy
 * are not taken.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_CHECKED_LINK_H
#define TUTTI_TRANSPORT_LOCAL_CHECKED_LINK_H

#include "transport/transport.h"

extern const struct link_tx_ops checked_sending_ops;
extern const struct link_rx_ops checked_receiving_ops;
/* transport_ops.corrupt_rank */
int checked_corrupt_rank(const struct transport *transport);

#endif
