/* listener.h - the listening socket of a process, and the connections that it makes to the listeners of others.
 *
 * Everything moves in listener_progress, which never waits. The hellos (hello.h) of many connections run at once. A connection whose
 * hello has succeeded is handed out as a channel: a socket that is positioned behind the hello, or TLS (os/tls.h) under a key that the
 * hello made.
 *
 *     socket ──accept──► incoming ──hello, TLS──► accepted ──listener_take──► the caller's
 *                          │
 *                          └── a stray, silent, without the key, or pushed out: closed and counted
 *
 * 1. At most incoming_max incoming connections exist at a time. When another one comes, the listener closes the oldest one whose peer has
 *    not yet said a valid hello, or else the oldest one. So strays take neither memory nor descriptors beyond the table, and a rank that
 *    a flood of strays pushes out connects again.
 * 2. An incoming connection is closed HELLO_TIMEOUT_NS after it came, unless it has been accepted by then.
 * 3. Strays cause at most one line in the log every ten seconds.
 * 4. While incoming_max accepted connections wait to be taken, the listener accepts no others. Those wait in the kernel's queue.
 *
 * A stray is a connection that does not begin with a valid hello: a port scanner, another protocol, a peer that says nothing or closes.
 *
 * A connector makes attempts to connect to another listener until that one accepts it, or until its deadline. It goes on if nobody listens
 * there, or if the process that listens does not show the job's key, because both may change. Otherwise a stranger who took the port of
 * a rank that ended could end a job. If the listener has shown the key and its version or configuration does not fit, that will not
 * change, and the connector ends.
 *
 * One thread at a time uses a listener and its connectors. A listener does not make lost connections again, and it does not know which
 * ranks should connect. If a connection breaks before its connector hears that it was accepted, the connector tries again: then the
 * other side accepts it twice, and the later one counts. Others are told an address of interface.h with the listener's port.
 */
#ifndef TUTTI_CONNECT_LISTENER_H
#define TUTTI_CONNECT_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "connect/hello.h"
#include "os/channel.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

enum { CONNECTOR_TEXT_MAX = HELLO_TEXT_MAX + NET_ADDRESS_TEXT_MAX + 8 };

struct listener;  /* opaque */
struct connector; /* opaque */

struct listener_options {
    struct net_address
        address; /* where to listen, from its port on (0: any port); none: this listener only has connectors */
    uint16_t port_last; /* the listener takes the first free port up to this one */
    struct hello_self self;
    unsigned incoming_max; /* 0: 64 */
};

/* A connection whose hello has succeeded, or a peer that has shown the key and does not fit. */
struct accepted_connection {
    enum tutti_status status; /* OK; VERSION, INVALID_OPTIONS: there is no channel, and `text` says more */
    struct channel channel;     /* non-blocking, close-on-exec; it belongs to the taker */
    struct net_address address; /* of the other side */
    int rank;                   /* of the other side */
    uint32_t version;           /* the newest one that both sides speak */
    uint32_t purpose;
    uint8_t payload[HELLO_PAYLOAD_MAX];
    uint8_t payload_bytes;
    char text[HELLO_TEXT_MAX];
};

/* What has happened since the listener was opened. */
struct listener_counts {
    uint64_t incoming;    /* connections that came */
    uint64_t accepted;    /* of these: hellos that succeeded */
    uint64_t strays;      /* of these: closed, silent, or in another protocol */
    uint64_t pushed_out;  /* of these: closed to make room */
    uint64_t auth_failed; /* of these: without the key, or with a recorded hello */
    uint64_t unfit;       /* of these: of another version or configuration */
    uint64_t starved;     /* how many times the system had no descriptor for the next connection */
    uint64_t refused; /* attempts of connectors that were refused by somebody who did not show the key */
};

/* Reads TUTTI_PORT_RANGE=FIRST-LAST, or one port, from the environment; both are 0 when it is not set. INVALID_OPTIONS. */
enum tutti_status listener_ports_read(uint16_t *first, uint16_t *last);

/* On failure *listener is NULL. */
enum tutti_status listener_open(const struct listener_options *options, struct listener **listener);
/* From now on the listener can encrypt. Before that, a peer that wants to encrypt counts as a stray. INVALID_OPTIONS: the listener's
 * key is not a secret. UNSUPPORTED: OpenSSL cannot do it here. */
enum tutti_status listener_encrypt(struct listener *listener);
/* The caller frees all connectors first. Closes accepted connections that nobody took. NULL is fine. */
void listener_close(struct listener *listener);
/* Frees the copy that a child of fork() has, connectors included, whose memory alone stays until connector_free. Closes the child's
 * descriptors and changes nothing that they share with the parent's. */
void listener_forget(struct listener *listener);
/* Where it listens; no address if it has no listening socket. */
void listener_address(const struct listener *listener, struct net_address *address);
/* A descriptor that is readable when listener_progress has something to do, deadlines included. It belongs to the listener. */
int listener_descriptor(const struct listener *listener);
/* Accepts connections, and moves hellos and connectors as far as they go now. */
void listener_progress(struct listener *listener, uint64_t now_ns);
/* The accepted connection that came first; false when there is none. Take all of them after each progress. */
bool listener_take(struct listener *listener, struct accepted_connection *accepted);
void listener_count(const struct listener *listener, struct listener_counts *counts);
/* For how long the system has had no descriptor for connections that want to come in. */
uint64_t listener_starved_ns(const struct listener *listener, uint64_t now_ns);

struct connector_options {
    struct net_address address;
    const struct net_address
        *from; /* the address of this host that it connects from; NULL: the kernel chooses */
    struct hello_call hello;
    bool is_encrypted;
    uint64_t deadline_ns;
};

/* Makes a connector, which listener_progress moves. It keeps no pointer into *options. Free it with connector_free. */
enum tutti_status connector_create(struct listener *listener,
                                   const struct connector_options *options,
                                   struct connector **connector);
/* IN_PROGRESS: it goes on. OK: *accepted is filled, once, and has the channel. Otherwise the connector has failed, and this thread's
 * message says why: VERSION, INVALID_OPTIONS, or an error of the system; at its deadline INIT_TIMEOUT, or AUTH_FAILED if the process
 * that listened there last did not show the key, or said that this rank does not have it. */
enum tutti_status connector_test(struct connector *connector, struct accepted_connection *accepted);
/* How many attempts in a row reached a process that is not of this job: it refused the hello, or spoke another protocol. A rank that
 * listens there does neither. */
unsigned connector_foreign_answers(const struct connector *connector);
/* Why the last attempt that is over failed, with the address and the system's word for it: "connecting to 10.0.0.1:80: Network is
 * unreachable". A connector that goes on tries at least twice a second, so the text says what holds now. False: no attempt failed. */
bool connector_trouble(struct connector *connector, uint64_t now_ns, char text[CONNECTOR_TEXT_MAX]);
/* Ends the connector, if it goes on, and closes a connection that was not taken. NULL is fine. */
void connector_free(struct connector *connector);

#endif
