/* rails.h - further connections to ranks of other hosts, by further network cards of both.
 *
 *     connection 0   what is urgent      card 0 of both hosts: endpoint.c's
 *                1   what is large       card 0: endpoint.c's
 *                2   what is large       card 1 of this host ── card 1 of that one
 *                3   ...                 card 2              ── card 2
 *
 * Each tells the other over the first connection by which further addresses its port can be reached (struct rails_message); as many
 * are used as both have. The higher rank connects to the lower one, out from its own card's address.
 *
 * What was under way on a connection that is lost is sent again when that connection is made again (transport/tcp/pair.h), so it is
 * made again by the first card where its own does not answer at once, and comes back to its own later:
 *
 *     not wanted ─► wanted ─try its card─► there ─lost─► wanted ─try its card─► there
 *                     │ not reached: warned of once,   │ not reached: try the first card
 *                     ▼ tried again after a while      ▼
 *                   wanted                                    there, by a detour ─after a while, by its card─► there
 *
 * A rank whose process has one rail has none of this. None of it fails a communicator.
 * Threads: as the endpoint's.
 */
#ifndef TUTTI_TRANSPORT_TCP_RAILS_H
#define TUTTI_TRANSPORT_TCP_RAILS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connect/port.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

enum { RAILS_FURTHER_MAX = PORT_RAILS_MAX - 1 };

struct endpoint;
struct rails; /* opaque */

/* As a rank tells another of them. */
struct rails_addresses {
    uint32_t count;
    uint32_t zero;
    struct net_address addresses[RAILS_FURTHER_MAX];
};

/* The control message that tells them. */
struct rails_message {
    uint32_t kind, zero;
    uint64_t zeros;
    struct rails_addresses rails;
    char rest[296 - 16 - sizeof(struct rails_addresses)]; /* as other versions have it */
};

/* own: of this process's cards, the first included (port_rails). *rails is NULL where that is one, or all ranks are on one
 * host; so may it be in all of these but rails_progress. */
enum tutti_status rails_create(struct endpoint *endpoint, const struct net_address *own,
                               unsigned own_count, struct rails **rails);
void rails_free(struct rails *rails);
size_t rails_bytes(const struct rails *rails);
/* Takes what memory it takes to know of a peer: before all that follows is called for it. NO_MEMORY. */
enum tutti_status rails_know(struct rails *rails, int peer);
/* How many connections a pair of ranks may have. */
unsigned rails_stream_count(const struct rails *rails);
/* A connection is wanted. False: it is not one of these. May not call the transport. */
bool rails_want(struct rails *rails, int peer, unsigned stream);
/* port_take gave it, a socket or what comes instead. False: it is not one of these. A socket stays the caller's. */
bool rails_take(struct rails *rails, int peer, unsigned stream, int fd);
/* A first connection to that peer is there. */
void rails_meet(struct rails *rails, int peer);
/* A control message of PEERS_OWN_KIND came from that peer. It is foreign: what makes no sense is logged and not used. May not call the
 * transport. */
void rails_hear(struct rails *rails, int peer, const void *message, size_t bytes);
/* Tells, connects, and gives up connections on which nothing is answered. */
void rails_progress(struct rails *rails, uint64_t now_ns);

#endif
