/* network.h - the one listening port of the process, and the connections that its communicators want.
 *
 *     communicator ──visit(peer, stream)──► door of the peer's process ──► its communicator of the same identity
 *                  ◄──take(peer, stream)── sockets, authenticated, from either side
 *
 * Of two ranks the higher one visits the lower one; a rank that waits for a higher one knocks at its door, so that it comes. The identity
 * of a communicator follows from a random number of its run (discovery.h) that nobody but its own ranks knows, so a rank that knows the
 * identity belongs to it; the key of the job (bootstrap/secret.h) comes on top.
 *
 * A thread that progresses one client moves the door for all. A child of fork() has neither door nor clients.
 */
#ifndef TUTTI_CONNECT_PORT_H
#define TUTTI_CONNECT_PORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/key.h"
#include "bootstrap/launcher.h"
#include "os/channel.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

enum {
    PORT_MASTER_COUNT = 4,
    PORT_RAILS_MAX = 4,
    PORT_TROUBLE_MAX = 160,
    PORT_STREAMS_MAX = 8, /* connections of two ranks: others are not let in */
    PORT_CALLBACK = -1,   /* instead of a socket, see port_take */
    PORT_NOT_REACHED = -2,
    PORT_UNFIT = -3
};

struct port_delivery;
struct port_connector;

/* A communicator's; zeroed but for what is said. */
struct port_client {
    struct rendezvous_key identity; /* set before port_enter */
    int rank, size;                 /* the same */
    bool is_encrypted;              /* the same; its connections are, or are refused */
    struct port_client *next;
    struct port_delivery *delivered;
    _Atomic unsigned delivered_count;
    struct port_connector *connectors;
    _Atomic int status; /* not OK: a connection cannot be made, and why */
    char why[256];
    int callback_peer; /* the last knock that came to nothing: whose door it was at, when, and why */
    uint64_t callback_ns;
    char callback_why[PORT_TROUBLE_MAX];
    uint32_t generation; /* of the process that entered */
};

/* Opens the door, which stays until the last port_close; *address is where others find it. place: of a job on several
 * hosts, whose rank 0 listens at the proposed port or, where that is taken, at one of the PORT_MASTER_COUNT from there on;
 * NULL: of ranks that are all on this host, which find it on loopback. One that is open already stays what it is; UNSUPPORTED
 * when it listens on loopback and that does not do. */
enum tutti_status port_open(const struct launcher_place *place, struct net_address *address);
/* The same for a meeting at that door of another process; of the launcher's job, if there is one, and its proposed port holds. */
enum tutti_status port_open_towards(const struct net_address *meeting, struct net_address *address);
/* The open door has to encrypt. INVALID_OPTIONS: there is no secret; UNSUPPORTED: OpenSSL here cannot. */
enum tutti_status port_encrypt(void);
void port_close(void);
/* Where this process's door can be found by way of its network cards (TUTTI_RAILS): first the address that opening it told, then
 * those of further cards. At least one while the door is open. */
unsigned port_rails(struct net_address rails[PORT_RAILS_MAX]);
/* Opens the door for a meeting by that name which this process has told others of, until port_withdraw. */
enum tutti_status port_announce(const struct rendezvous_key *name, struct net_address *address);
/* Whether this process has, and not withdrawn it; a child of fork() has not. */
bool port_is_announced(const struct rendezvous_key *name);
/* Nothing happens where it was not announced. */
void port_withdraw(const struct rendezvous_key *name);
/* From now on connections for the client are let in. */
void port_enter(struct port_client *client);
/* Ends what is under way for it. */
void port_leave(struct port_client *client);
/* Wants connection number `stream` to a peer's door; a lower rank of the two waits for the other's. Tries until the deadline. */
enum tutti_status port_connect(struct port_client *client, int peer, unsigned stream,
                               const struct net_address *address, uint64_t deadline_ns);
/* The same to a lower rank, by a way that others can stand in for: out from an address of this host (NULL: as the kernel likes).
 * When that fails port_take says so, and the client stays as it is. */
enum tutti_status port_connect_from(struct port_client *client, int peer, unsigned stream,
                                    const struct net_address *from,
                                    const struct net_address *address, uint64_t deadline_ns);
/* Asks a higher rank to visit this one. Tries for a while, and does not say when nobody opens. */
enum tutti_status port_request_callback(struct port_client *client, int peer, unsigned stream,
                                        const struct net_address *address);
/* How many attempts in a row to reach a peer met somebody else at its door, see connector_foreign_answers. */
unsigned port_foreign_answers(const struct port_client *client, int peer);
/* Why connecting to a peer, or to any of them (-1), comes to nothing now, if it does: "connecting to 10.0.0.1:80: Network is unreachable".
 * Of ways that others can stand in for nothing is said. */
bool port_trouble(const struct port_client *client, int peer, char text[PORT_TROUBLE_MAX]);
/* Ends what is under way to a peer. */
void port_give_up(struct port_client *client, int peer);
/* Moves everybody's hellos as far as they go now, if nobody else does. */
void port_progress(uint64_t now_ns);
/* Whether nobody could be let in for a while, for want of descriptors; then with this thread's message. */
bool port_starves(uint64_t now_ns);
/* The next connection for the client; false when there is none, which costs nothing. The channel is the taker's; instead of its
 * descriptor may be PORT_CALLBACK: that peer wants it to be made by a visit. PORT_NOT_REACHED: a port_connect_from came to
 * nothing. PORT_UNFIT: that peer came and was refused (INVALID_OPTIONS: one side encrypts). This thread's error message says why. */
bool port_take(struct port_client *client, int *peer, unsigned *stream, struct channel *channel);

#endif
