/* endpoint.h - a rank's end of its connections: the links of tcp.h, and control
 * (transport/control.h), over connections that this module makes itself.
 *
 *     link opened ──wants──► connect, if the peer is the lower rank ─► socket ──attach──► tcp.h
 *                            else the peer connects to this rank ───┘
 *
 * Connections come through the port of the process (connect/port.h), which is open as long as the
 * endpoint. If hosts have several network cards, each pair of ranks has further connections
 * (rails.h). Connections and the peer's port show whether a peer is still there (gone.h).
 *
 * Threads: as tcp.h. `progress` also moves the port, for all endpoints of the process.
 */
#ifndef TUTTI_TRANSPORT_TCP_ENDPOINT_H
#define TUTTI_TRANSPORT_TCP_ENDPOINT_H

#include "transport/remote_options.h"
#include "transport/transport.h"

/* The port of the process must be open. order: the hook to the links that carry the data, so that
 * only control goes over these connections; stays the caller's. NULL: they carry the data, too.
 * Failures: NO_MEMORY, NO_DESCRIPTORS. */
enum tutti_status endpoint_open(const struct remote_options *options, struct data_order *order,
                                struct transport **transport);
/* Lives as long as the endpoint, and moves with it. */
struct control *endpoint_control(struct transport *transport);
/* NULL is allowed. */
void endpoint_close(struct transport *transport);

#endif
