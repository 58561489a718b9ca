/* heartbeats.h - this host's heartbeats: membership/heartbeat.h over control messages and
 * connections, for one communicator.
 *
 * The first rank of each host sends them for its host, and puts what it finds on the host's board.
 * Heartbeats are control messages to the first ranks of other hosts, over connections that they
 * make if no data has. The first is sent 0.3 s after the communicator was made. A heartbeat is left
 * out while its receiver has not acknowledged the one before.
 *
 * Each communicator has heartbeats of its own. One costs a control message and its acknowledgement,
 * some microseconds at each end; so twenty communicators over 16 hosts cost each host's first rank
 * about a hundredth of a core.
 *
 * It judges until a rank leaves. The failure is a PROC_FAILED that names the first rank of the
 * lowest host that is gone, or a MINORITY, and spreads like every other one. Hosts that are gone,
 * then or later, are dead for everything else (remote_rank.c); but where the first rank of one is
 * known to have ended or left, only that rank is: the others there may be well, and no rank sends
 * heartbeats for them.
 *
 * All but heartbeats_create and heartbeats_free: the domain is held. NULL heartbeats do nothing.
 */
#ifndef TUTTI_HEALTH_HEARTBEATS_H
#define TUTTI_HEALTH_HEARTBEATS_H

#include <stddef.h>
#include <stdint.h>

#include "health/network_state.h"

/* For the first rank of a host; nothing for others, or where it is switched off. NO_MEMORY. */
enum tutti_status heartbeats_create(struct network *network);
void heartbeats_free(struct network *network);
/* The bytes that malloc holds for them. */
size_t heartbeats_bytes(const struct network *network);
/* Sends, and judges, when it is time to: cheap before. */
void heartbeats_progress(struct network *network, uint64_t now_ns);
/* Takes a message from a rank of another host, with its kind in front. */
void heartbeats_hear(struct network *network, int peer, const void *message, size_t bytes);
/* A rank leaves the communicator, perhaps this one. */
void heartbeats_end(struct network *network);

#endif
