/* gone.h - finds out whether a peer is there, as far as its port and the connections to it show.
 *
 * A peer whose connections are lost, or do not come about at first, or that was asked to connect
 * and does not, is gone in three cases:
 *   - its host refuses new connections to its port again and again, although a process keeps its
 *     port open for as long as it needs it. ENDED
 *   - another process answers there again and again: it got the port because the port was free.
 *     ENDED
 *   - nothing answers there for LOST_NS. If its host is gone, heartbeats have found that out long
 *     before. VANISHED
 * (It does not matter what another process says there, only that it is not our rank. An attacker
 * that can make a living rank look like that can also make its host seem to refuse.)
 */
#ifndef TUTTI_TRANSPORT_TCP_GONE_H
#define TUTTI_TRANSPORT_TCP_GONE_H

#include <stdint.h>

#include "transport/control.h"

struct endpoint;

struct gone {
    enum peer_presence presence; /* the result stays so */
    int probe_fd; /* a connection to its port that shows whether a process listens; -1: none is under way */
    unsigned refusals;  /* in a row */
    uint64_t lost_ns;   /* when its connections were lost; 0: they are not lost */
    uint64_t probed_ns; /* when last */
};

void gone_init(struct gone *gone);
void gone_release(struct gone *gone);
enum peer_presence gone_look(struct endpoint *endpoint, int peer, uint64_t now_ns);

#endif
