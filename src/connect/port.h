/* port.h - the port of the process: one listener (listener.h) for all communicators, and the
 * connections that they want.
 *
 *     communicator ──port_connect(peer, stream)──► port of the peer's process ──► its communicator of the same identity
 *                  ◄──port_take(peer, stream)───── sockets, authenticated, from either side
 *
 * Of two ranks, the higher one connects to the lower one. If the lower rank needs the connection
 * first, it sends the higher rank a *callback request*: it connects only to ask the higher rank to
 * connect to it.
 *
 * The identity of a communicator follows from a random number of its run (discovery.h) that only
 * its ranks know, so a rank that knows the identity belongs to the communicator. The key of the job
 * (bootstrap/secret.h) is needed besides.
 *
 * A thread that progresses one client moves the port for all clients. A child of fork() has neither
 * the port nor the clients.
 */
#ifndef TUTTI_CONNECT_PORT_H
#define TUTTI_CONNECT_PORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/key.h"
#include "bootstrap/launcher.h"
#include "os/byte_stream.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

enum {
    PORT_MASTER_COUNT = 4,
    PORT_RAILS_MAX = 4,
    PORT_TROUBLE_MAX = 160,
    PORT_STREAMS_MAX = 8, /* connections between two ranks; further connections are refused */
    PORT_CALLBACK = -1,   /* instead of a descriptor, see port_take */
    PORT_NOT_REACHED = -2,
    PORT_UNFIT = -3
};

struct port_delivery;
struct port_pending;

/* Belongs to a communicator, which fills in the first fields before port_enter and zeroes all
 * others. */
struct port_client {
    struct rendezvous_key identity;
    int rank, size;
    bool is_encrypted; /* its connections are encrypted; others are refused */
    bool carries_data; /* its connections use TUTTI_SOCKET_PROTOCOL; those of others use TCP */
    struct port_client *next;
    struct port_delivery *delivered;
    _Atomic unsigned delivered_count;
    struct port_pending *pending;
    _Atomic int status; /* not OK: a connection cannot be made, and `why` says why */
    char why[256];
    int callback_peer; /* the last callback request that failed: to which peer it was, when that was, and why it failed */
    uint64_t callback_ns;
    char callback_why[PORT_TROUBLE_MAX];
    unsigned callback_foreign; /* in a row: see port_foreign_answers */
    uint32_t generation;       /* of the process that called port_enter */
};

/* Opens the port, which stays open until the last port_close. *address is where other ranks find
 * it. place: of a job on several hosts. Rank 0 of such a job listens at the proposed port, or, if
 * that is taken, at one of the PORT_MASTER_COUNT ports from there on. NULL: all ranks are on this
 * host and find the port on loopback. A port that is open already stays as it is; UNSUPPORTED if it
 * listens on loopback and the caller needs more. */
enum tutti_status port_open(const struct launcher_facts *facts, struct net_address *address);
/* The same, in order to meet at the given address, which is another process's port. If a launcher
 * started this process, the port that the launcher proposes is used. */
enum tutti_status port_open_towards(const struct net_address *meeting, struct net_address *address);
/* The open port can encrypt from now on. INVALID_OPTIONS: there is no secret; UNSUPPORTED: OpenSSL
 * cannot do it here. */
enum tutti_status port_encrypt(void);
void port_close(void);
/* The addresses at which this process's port can be reached, one for each of its network cards
 * (TUTTI_RAILS): first the address that port_open gave, then the addresses of further cards. At
 * least one while the port is open. */
unsigned port_rails(struct net_address rails[PORT_RAILS_MAX]);
/* Opens the port for a meeting of this name, of which the caller will tell other ranks. It stays
 * open until port_withdraw. */
enum tutti_status port_announce(const struct rendezvous_key *name, struct net_address *address);
/* Whether this process has announced the meeting and not withdrawn it. A child of fork() has
 * not. */
bool port_is_announced(const struct rendezvous_key *name);
/* Does nothing if the meeting was not announced. */
void port_withdraw(const struct rendezvous_key *name);
/* From now on connections for the client are accepted. */
void port_enter(struct port_client *client);
/* Ends the client's connectors and closes its connections that were not taken. */
void port_leave(struct port_client *client);
/* Asks for connection number `stream` to a peer. To a lower rank this makes a connector, which
 * tries until the deadline. To a higher rank it does nothing: the higher rank connects. */
enum tutti_status port_connect(struct port_client *client, int peer, unsigned stream,
                               const struct net_address *address, uint64_t deadline_ns);
/* The same to a lower rank, for a connection that others can stand in for, from an address of this
 * host (NULL: the kernel chooses). When it fails, port_take says so, and the client stays as it
 * is. */
enum tutti_status port_connect_from(struct port_client *client, int peer, unsigned stream,
                                    const struct net_address *from,
                                    const struct net_address *address, uint64_t deadline_ns);
/* Sends a higher rank a callback request: it should connect to this rank. Tries for a while; no
 * error is reported if the request does not get through. */
enum tutti_status port_request_callback(struct port_client *client, int peer, unsigned stream,
                                        const struct net_address *address);
/* The number of attempts in a row to connect to a peer that reached another process at its address,
 * see connector_foreign_answers. Callback requests to the peer that failed a moment ago count, too:
 * none of them makes many attempts. */
unsigned port_foreign_answers(const struct port_client *client, int peer);
/* Why connections to a peer (-1: to any peer) fail now, if they do: "connecting to 10.0.0.1:80:
 * Network is unreachable". Connections that others can stand in for do not count. */
bool port_trouble(const struct port_client *client, int peer, char text[PORT_TROUBLE_MAX]);
/* Why this process refused the last connection since then of somebody without this job's key, if
 * any: see listener_refusal. */
bool port_refusal(uint64_t since_ns, char text[PORT_TROUBLE_MAX]);
/* Ends the connectors to a peer. */
void port_give_up(struct port_client *client, int peer);
/* Moves the hellos of all clients as far as they go now, unless another thread is doing so. */
void port_progress(uint64_t now_ns);
/* OK, or why no connection could be accepted or begun for a while since then, as listener_starves
 * says. The owner of a client asks this when data waits for a connection; until then a shortage
 * does the client no harm. */
enum tutti_status port_starves(uint64_t since_ns, uint64_t now_ns);
/* The next connection for the client; false when there is none, which costs nothing. The socket
 * belongs to the caller. Instead of a descriptor the socket may have
 *     PORT_CALLBACK      the peer asks this rank to connect to it
 *     PORT_NOT_REACHED   a port_connect_from failed; this thread's error message says why
 *     PORT_UNFIT         the peer connected and was refused (INVALID_OPTIONS: only one side encrypts); the
 * same */
bool port_take(struct port_client *client, int *peer, unsigned *stream, struct byte_stream *socket);

#endif
