/* listener.h - the listening socket of a process.
 *
 * Everything moves in listener_progress, which never waits. The handshakes (handshake.h) of many
 * connections run at once. A connection whose handshake has succeeded is handed out as a byte
 * stream (os/byte_stream.h): a socket that is positioned behind the hello (hello.h), or TLS
 * (os/tls.h) under a key that the hello made.
 *
 *     socket ──accept──► incoming ──hello, TLS──► accepted ──listener_take──► the caller's
 *                          │
 *                          └── a stray, silent, without the key, or pushed out: closed and counted
 *
 * 1. At most incoming_max incoming connections exist at a time. When another one comes, the
 *    listener closes the oldest one whose peer has not yet said a valid hello, or else the oldest
 *    one. So strays take neither memory nor descriptors beyond the table, and a rank that a flood
 *    of strays pushes out connects again.
 * 2. An incoming connection is closed HELLO_TIMEOUT_NS after it came, unless it has been accepted
 *    by then.
 * 3. Strays cause at most one line in the log every ten seconds.
 * 4. While incoming_max accepted connections wait to be taken, the listener accepts no others.
 *    Those wait in the kernel's queue.
 *
 * A stray is a connection that does not begin with a valid hello: a port scanner, another protocol,
 * a peer that says nothing or closes.
 *
 * A listener also has the connectors (connector.h) of its process, which connect to the listeners
 * of others in the same event loop.
 *
 * One thread at a time uses a listener and its connectors. A listener does not make lost
 * connections again, and it does not know which ranks should connect. Other processes are told an
 * address of interface.h with the listener's port.
 */
#ifndef TUTTI_CONNECT_LISTENER_H
#define TUTTI_CONNECT_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "connect/connector.h"
#include "connect/handshake.h"
#include "connect/hello.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

struct listener; /* opaque */

struct listener_options {
    /* The address at which to listen, with the first port that is free from its own port (0: any
     * port) to port_last. No address: the listener only has connectors. */
    struct net_address address;
    uint16_t port_last;
    enum tcp_protocol protocol; /* connections of TCP come in, too */
    struct hello_self self;
    unsigned incoming_max; /* 0: 64 */
};

/* Counts of what has happened since the listener was opened. */
struct listener_counts {
    uint64_t incoming;    /* connections that came */
    uint64_t accepted;    /* of these: hellos that succeeded */
    uint64_t strays;      /* of these: closed, silent, or in another protocol */
    uint64_t pushed_out;  /* of these: closed to make room */
    uint64_t auth_failed; /* of these: without the key, or with a recorded hello */
    uint64_t unfit;       /* of these: of another version or configuration */
    uint64_t starved; /* how many times the system did not let in the next connection: no descriptor, say */
    uint64_t refused; /* attempts of connectors that were refused by somebody who did not show the key */
};

/* Reads TUTTI_PORT_RANGE=FIRST-LAST, or one port, from the environment; both are 0 when it is not
 * set. INVALID_OPTIONS. */
enum tutti_status listener_ports_read(uint16_t *first, uint16_t *last);

/* On failure *listener is NULL. */
enum tutti_status listener_open(const struct listener_options *options, struct listener **listener);
/* From now on the listener can encrypt. Before that, a peer that wants to encrypt counts as a
 * stray. INVALID_OPTIONS: the listener's key is not a secret. UNSUPPORTED: OpenSSL cannot do it
 * here. */
enum tutti_status listener_encrypt(struct listener *listener);
/* The caller frees all connectors first. Closes accepted connections that were not taken. NULL is
 * fine. */
void listener_close(struct listener *listener);
/* Frees the copy that a child of fork() has. Closes the descriptors of the child, also of
 * connectors, and changes nothing that they share with the descriptors of the parent. The memory of
 * connectors stays, and they may not be used any more. */
void listener_forget(struct listener *listener);
/* The address at which it listens; no address if it has no listening socket. */
void listener_address(const struct listener *listener, struct net_address *address);
/* A descriptor that is readable when listener_progress has something to do, deadlines included. It
 * belongs to the listener. */
int listener_descriptor(const struct listener *listener);
/* Accepts connections, and moves hellos and connectors as far as they go now. */
void listener_progress(struct listener *listener, uint64_t now_ns);
/* The accepted connection that came first; false when there is none. Take all of them after each
 * progress. */
bool listener_take(struct listener *listener, struct accepted_connection *accepted);
/* Why the last peer that came since then without this job's key was not let in: "10.0.0.2:4711: it
 * has a secret and ...". What such a peer says proves nothing: it is a hint for a person. False:
 * none came. */
bool listener_refusal(const struct listener *listener, uint64_t since_ns,
                      char text[CONNECTOR_TEXT_MAX]);
void listener_count(const struct listener *listener, struct listener_counts *counts);
/* OK, or why no connection could be let in or begun for longer than for_ns, as the system says:
 * NO_DESCRIPTORS, NO_MEMORY; SYSTEM: a sandbox denies it, say. Failures before since_ns do not
 * count. */
enum tutti_status listener_starves(const struct listener *listener, uint64_t since_ns,
                                   uint64_t now_ns, uint64_t for_ns);

/* Makes a connector (connector.h), which listener_progress moves. It keeps no pointer into
 * *options. Free it with connector_free. */
enum tutti_status listener_connect(struct listener *listener,
                                   const struct connector_options *options,
                                   struct connector **connector);

#endif
