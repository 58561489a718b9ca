/* network.h - the one listening port of the process, and the connections that its communicators want.
 *
 *     communicator ──visit(peer, stream)──► door of the peer's process ──► its communicator of the same identity
 *                  ◄──take(peer, stream)── sockets, authenticated, from either side
 *
 * Of two ranks the higher one visits the lower one; who waits for a higher one knocks at its door, so that it comes. The identity of a communicator is random and goes to nobody but its own ranks, so
 * who knows it belongs to it; the key of the job (bootstrap/secret.h) comes on top.
 *
 * Whoever progresses a client moves the door for all. A child of fork() has neither door nor clients.
 */
#ifndef TUTTI_PROCESS_NETWORK_H
#define TUTTI_PROCESS_NETWORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/key.h"
#include "bootstrap/launcher.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

enum { NETWORK_MASTER_PORTS = 4 };

struct network_socket;
struct network_visit;

/* A communicator's; zeroed but for what is said. */
struct network_client {
    struct rendezvous_key identity; /* set before network_enter */
    int rank, size;                 /* the same */
    struct network_client *next;
    struct network_socket *arrived;
    _Atomic unsigned arrived_count;
    struct network_visit *visits;
    _Atomic int status; /* not OK: a connection cannot be made, and why */
    char why[256];
    uint32_t generation; /* of the process that entered */
};

/* Opens the door, which stays until the last network_close_door; *address is where others find it. place: of a job on several
 * hosts, whose rank 0 listens at the proposed port or, where that is taken, at one of the NETWORK_MASTER_PORTS from there on;
 * NULL: of ranks that are all on this host, which find it on loopback. One that is open already stays what it is; UNSUPPORTED
 * when it listens on loopback and that does not do. */
enum tutti_status network_open_door(const struct launcher_place *place, struct net_address *address);
/* The same for a meeting at that door of another process; of the launcher's job, if there is one, and its proposed port holds. */
enum tutti_status network_open_door_towards(const struct net_address *meeting,
                                            struct net_address *address);
void network_close_door(void);
/* Opens the door for a meeting by that name which this process has told others of, until network_withdraw. */
enum tutti_status network_announce(const struct rendezvous_key *name, struct net_address *address);
/* Whether this process has, and not withdrawn it; a child of fork() has not. */
bool network_is_announced(const struct rendezvous_key *name);
/* Nothing happens where it was not announced. */
void network_withdraw(const struct rendezvous_key *name);
/* From now on connections for the client are let in. */
void network_enter(struct network_client *client);
/* Ends what is under way for it. */
void network_leave(struct network_client *client);
/* Wants connection number `stream` to a peer's door; a lower rank of the two waits for the other's. Tries until the deadline. */
enum tutti_status network_visit(struct network_client *client, int peer, unsigned stream,
                                const struct net_address *address, uint64_t deadline_ns);
/* Asks a higher rank to visit this one. Tries for a while, and does not say when nobody opens. */
enum tutti_status network_knock(struct network_client *client, int peer, unsigned stream,
                                const struct net_address *address);
/* Ends what is under way to a peer. */
void network_give_up(struct network_client *client, int peer);
/* Moves everybody's hellos as far as they go now, if nobody else does. */
void network_progress(uint64_t now_ns);
/* The next connection for the client; false when there is none, which costs nothing. The socket is the taker's; -1: that
 * peer wants it to be made by a visit. */
bool network_take(struct network_client *client, int *peer, unsigned *stream, int *fd);

#endif
