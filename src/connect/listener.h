/* listener.h - the one listening port of a process: who may come in, and going to the doors of others.
 *
 * Everything moves in listener_progress, which never waits. Hellos (hello.h) of many connections run at once; those that
 * are done are handed out as channels: sockets positioned behind the hello, or encrypted (os/tls.h) with a key of it.
 *
 *     socket ──accept──► incoming ──hello, TLS──► arrived ──listener_take──► the caller's
 *                          │
 *                          └── stray, silent, wrong key, pushed out: closed and counted
 *
 * 1. There are at most incoming_max incoming. When another one comes, the oldest goes that has not said a valid hello yet,
 *    or else the oldest. So strays take neither memory nor descriptors beyond the table, and who is pushed out by a
 *    flood of them calls again.
 * 2. A incoming is gone HELLO_TIMEOUT_NS after it came, unless it arrived.
 * 3. What strangers do is at most one line in the log every ten seconds.
 * 4. Once incoming_max incoming have arrived and nobody takes them, no others are accepted; they wait in the kernel's queue.
 *
 * A connector goes to another door, again and again until it is let in, or until its deadline. It goes on if nobody listens there, or a
 * stranger who does not show the job's key, because that may change: else a stranger who took the port of a rank that ended could end a
 * job. A version or configuration that does not fit, of a listener that has shown the key, does not change, and ends the connector.
 *
 * A door and its connectors are used by one thread at a time. It does not reconnect what is lost later, and does not
 * know who should come. A visitor whose connection breaks before it hears that it was let in comes again: then it
 * arrives twice, and the later one counts. What to tell others is the address of interface.h with the door's port.
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
    struct net_address address; /* to listen at, from its port on (0: any); none: only for connectors */
    uint16_t port_last;         /* the first free port up to this one */
    struct hello_self self;
    unsigned incoming_max; /* 0: 64 */
};

/* A connection, or the authenticated word of a peer that does not fit. */
struct accepted_connection {
    enum tutti_status status;   /* OK; VERSION, INVALID_OPTIONS: no channel, and `text` says more */
    struct channel channel;     /* non-blocking, close-on-exec; the taker's */
    struct net_address address; /* of the other side */
    int rank;                   /* of the other side */
    uint32_t version;           /* that both speak */
    uint32_t purpose;
    uint8_t payload[HELLO_PAYLOAD_MAX];
    uint8_t payload_bytes;
    char text[HELLO_TEXT_MAX];
};

/* Since it was opened. */
struct listener_counts {
    uint64_t incoming;    /* connections */
    uint64_t accepted;    /* of them: let in */
    uint64_t strays;      /* closed, silent, or speaking something else */
    uint64_t pushed_out;  /* to make room */
    uint64_t auth_failed; /* without the key, or with a recorded hello */
    uint64_t unfit;       /* another version or configuration */
    uint64_t starved;     /* times that the system had no descriptor for the next one */
    uint64_t refused;     /* attempts of connectors that met somebody who did not show the key */
};

/* From the environment: TUTTI_PORT_RANGE=FIRST-LAST or one port; both 0 when it is not set. INVALID_OPTIONS. */
enum tutti_status listener_ports_read(uint16_t *first, uint16_t *last);

/* On failure *listener is NULL. */
enum tutti_status listener_open(const struct listener_options *options, struct listener **listener);
/* From now on it can encrypt; before, who wants that is a stray. INVALID_OPTIONS: its key is not a secret. UNSUPPORTED: OpenSSL here
 * cannot. */
enum tutti_status listener_encrypt(struct listener *listener);
/* After the last connector was freed. What has arrived and was not taken is closed. NULL is fine. */
void listener_close(struct listener *listener);
/* The same for the copy that a child of fork() has, connectors included, of which only memory stays: closes descriptors, and leaves
 * alone what they share with the parent's. */
void listener_forget(struct listener *listener);
/* Where it listens; none without a listening socket. */
void listener_address(const struct listener *listener, struct net_address *address);
/* Readable when listener_progress has something to do, because of its own deadlines, too; the door's. */
int listener_descriptor(const struct listener *listener);
/* Accepts, and moves hellos and connectors as far as they go now. */
void listener_progress(struct listener *listener, uint64_t now_ns);
/* The next of those who have arrived, in turn; false when there is none. Take all after each progress. */
bool listener_take(struct listener *listener, struct accepted_connection *accepted);
void listener_count(const struct listener *listener, struct listener_counts *counts);
/* For how long by now the system has had no descriptor for those who want to come in. */
uint64_t listener_starved_ns(const struct listener *listener, uint64_t now_ns);

struct connector_options {
    struct net_address address;
    const struct net_address *from; /* of this host, to go out from; NULL: the kernel chooses */
    struct hello_call hello;
    bool is_encrypted;
    uint64_t deadline_ns;
};

/* Begins a connector, which listener_progress moves; *call may go afterwards. Free it with connector_free. */
enum tutti_status connector_create(struct listener *listener, const struct connector_options *call,
                                   struct connector **connector);
/* IN_PROGRESS; OK: *arrival is filled once and has the channel; or what it failed with, with this thread's message:
 * VERSION, INVALID_OPTIONS, or a system's error; and at its deadline INIT_TIMEOUT, or AUTH_FAILED: who was there last did not show the
 * key, or said that this rank does not have it. */
enum tutti_status connector_test(struct connector *connector, struct accepted_connection *accepted);
/* How many attempts in a row met somebody at that door who is not of this job: refused it, or spoke another protocol. A rank
 * that listens there does neither. */
unsigned connector_foreign_answers(const struct connector *connector);
/* Why the last attempt that is over came to nothing, with the address and the system's word for it: "connecting to 10.0.0.1:80: Network is
 * unreachable". A connector that goes on tries at least twice a second, so this is what is so now. False: no attempt failed. */
bool connector_trouble(struct connector *connector, uint64_t now_ns, char text[CONNECTOR_TEXT_MAX]);
/* Ends it, if it goes on, and closes what was not taken. NULL is fine. */
void connector_free(struct connector *connector);

#endif
