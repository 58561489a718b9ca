/* gone.h - whether a peer is there, as far as connections to it and its port tell.
 *
 * A peer whose connections are lost, or do not come about at first, is gone in three cases:
 *   - its host refuses new connections to its port again and again: its process keeps the port open for as long as it needs it. ENDED
 *   - somebody else answers there again and again: they got the port because it was free. ENDED
 *   - nobody answers there for LOST_NS. Long before that, heartbeats have found its host to be gone, if it is. VANISHED
 * (The words of somebody else there count for nothing; it counts that it is not our rank. Somebody who can make a living rank look like
 * that can also make it look as if its host refused.)
 */
#ifndef TUTTI_TRANSPORT_TCP_GONE_H
#define TUTTI_TRANSPORT_TCP_GONE_H

#include <stdint.h>

#include "transport/peers.h"

struct endpoint;

struct gone {
    enum peer_presence presence; /* what was found stays so */
    int probe_fd;       /* a connection to its port that shows whether anybody listens; -1 */
    unsigned refusals;  /* in a row */
    uint64_t lost_ns;   /* since when its connections are lost; 0: they are not */
    uint64_t probed_ns; /* when last */
};

void gone_init(struct gone *gone);
void gone_release(struct gone *gone);
enum peer_presence gone_look(struct endpoint *endpoint, int peer, uint64_t now_ns);

#endif
