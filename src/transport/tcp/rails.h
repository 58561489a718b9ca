/* rails.h - further connections to ranks of other hosts, by further network cards of both.
 *
 *     connection 0   what is urgent      card 0 of both hosts: endpoint.c's
 *                1   what is large       card 0: endpoint.c's
 *                2   what is large       card 1 of this host ── card 1 of that one
 *                3   ...                 card 2              ── card 2
 *
 * Over the first connection, each rank tells the other the further addresses at which its port can
 * be reached (struct rails_message); as many are used as both have. The higher rank connects to the
 * lower one, from the address of its own card.
 *
 * Pieces that were under way on a lost connection are sent again when that connection is made again
 * (transport/tcp/pair.h). So if its own card does not answer at once, the connection is made again
 * by the first card, and returns to its own card later:
 *
 *     not wanted ─► wanted ─try its card─► there ─lost─► wanted ─try its card─► there
 *                     │ not reached: warned of once,   │ not reached: try the first card
 *                     ▼ tried again after a while      ▼
 *                   wanted                                    there, by a detour ─after a while, by its card─► there
 *
 * A rank whose process has one rail has no further connections. Failures of further connections
 * never fail a communicator.
 *
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

/* The further addresses of a rank, in the form in which it tells them. */
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

/* own: the addresses of this process's cards, the first included (port_rails). *rails is NULL if
 * there is only one, or if all ranks are on one host. All functions below but rails_progress accept
 * NULL. */
enum tutti_status rails_create(struct endpoint *endpoint, const struct net_address *own,
                               unsigned own_count, struct rails **rails);
void rails_free(struct rails *rails);
size_t rails_bytes(const struct rails *rails);
/* Makes the memory for a peer; to be called before any function below is called for that peer.
 * NO_MEMORY. */
enum tutti_status rails_know(struct rails *rails, int peer);
/* The number of connections that a pair of ranks may have. */
unsigned rails_stream_count(const struct rails *rails);
/* A connection is wanted. False: it is not a further connection. May not call the transport. */
bool rails_want(struct rails *rails, int peer, unsigned stream);
/* port_take gave this connection: a socket, or its value instead of a socket. False: this is not a
 * further connection. The socket stays the caller's in any case. */
bool rails_take(struct rails *rails, int peer, unsigned stream, int fd);
/* The socket that rails_take took could not be attached; this thread's error message says why. The
 * other connections stand in for it, and it is made again. */
void rails_lose(struct rails *rails, int peer, unsigned stream);
/* The first connection to that peer is there. */
void rails_meet(struct rails *rails, int peer);
/* A control message of CONTROL_KIND_OWN came from that peer. It is foreign: a message that makes no
 * sense is logged and not used. May not call the transport. */
void rails_hear(struct rails *rails, int peer, const void *message, size_t bytes);
/* Tells, connects, and gives up connections on which nothing is answered. */
void rails_progress(struct rails *rails, uint64_t now_ns);

#endif
