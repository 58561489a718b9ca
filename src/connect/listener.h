/* listener.h - the one listening port of a process: who may come in, and going to the doors of others.
 *
 * Everything moves in door_progress, which never waits. Hellos (hello.h) of many connections run at once; those that
 * are done are handed out as channels: sockets positioned behind the hello, or encrypted (os/tls.h) with a key of it.
 *
 *     socket ──accept──► guest ──hello, TLS──► arrived ──door_take──► the caller's
 *                          │
 *                          └── stray, silent, wrong key, pushed out: closed and counted
 *
 * 1. There are at most guest_max guests. When another one comes, the oldest goes that has not said a valid hello yet,
 *    or else the oldest. So strays take neither memory nor descriptors beyond the table, and who is pushed out by a
 *    flood of them calls again.
 * 2. A guest is gone HELLO_TIMEOUT_NS after it came, unless it arrived.
 * 3. What strangers do is at most one line in the log every ten seconds.
 * 4. Once guest_max guests have arrived and nobody takes them, no others are accepted; they wait in the kernel's queue.
 *
 * A visit goes to another door, again and again until it is let in, or until its deadline. It goes on if nobody listens there, or a
 * stranger who does not show the job's key, because that may change: else a stranger who took the port of a rank that ended could end a
 * job. A version or configuration that does not fit, of a listener that has shown the key, does not change, and ends the visit.
 *
 * A door and its visits are used by one thread at a time. It does not reconnect what is lost later, and does not
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

enum { VISIT_TEXT_MAX = HELLO_TEXT_MAX + NET_ADDRESS_TEXT_MAX + 8 };

struct door;  /* opaque */
struct visit; /* opaque */

struct door_options {
    struct net_address address; /* to listen at, from its port on (0: any); none: only for visits */
    uint16_t port_last;         /* the first free port up to this one */
    struct hello_self self;
    unsigned guest_max; /* 0: 64 */
};

/* A connection, or the authenticated word of a peer that does not fit. */
struct door_arrival {
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
struct door_counts {
    uint64_t accepted;    /* connections */
    uint64_t arrived;     /* of them: let in */
    uint64_t strays;      /* closed, silent, or speaking something else */
    uint64_t pushed_out;  /* to make room */
    uint64_t auth_failed; /* without the key, or with a recorded hello */
    uint64_t unfit;       /* another version or configuration */
    uint64_t starved;     /* times that the system had no descriptor for the next one */
    uint64_t refused;     /* attempts of visits that met somebody who did not show the key */
};

/* From the environment: TUTTI_PORT_RANGE=FIRST-LAST or one port; both 0 when it is not set. INVALID_OPTIONS. */
enum tutti_status door_ports_read(uint16_t *first, uint16_t *last);

/* On failure *door is NULL. */
enum tutti_status door_open(const struct door_options *options, struct door **door);
/* From now on it can encrypt; before, who wants that is a stray. INVALID_OPTIONS: its key is not a secret. UNSUPPORTED: OpenSSL here
 * cannot. */
enum tutti_status door_encrypt(struct door *door);
/* After the last visit was freed. What has arrived and was not taken is closed. NULL is fine. */
void door_close(struct door *door);
/* The same for the copy that a child of fork() has, visits included, of which only memory stays: closes descriptors, and leaves
 * alone what they share with the parent's. */
void door_forget(struct door *door);
/* Where it listens; none without a listening socket. */
void door_address(const struct door *door, struct net_address *address);
/* Readable when door_progress has something to do, because of its own deadlines, too; the door's. */
int door_descriptor(const struct door *door);
/* Accepts, and moves hellos and visits as far as they go now. */
void door_progress(struct door *door, uint64_t now_ns);
/* The next of those who have arrived, in turn; false when there is none. Take all after each progress. */
bool door_take(struct door *door, struct door_arrival *arrival);
void door_count(const struct door *door, struct door_counts *counts);
/* For how long by now the system has had no descriptor for those who want to come in. */
uint64_t door_starved_ns(const struct door *door, uint64_t now_ns);

struct door_call {
    struct net_address address;
    const struct net_address *from; /* of this host, to go out from; NULL: the kernel chooses */
    struct hello_call hello;
    bool is_encrypted;
    uint64_t deadline_ns;
};

/* Begins a visit, which door_progress moves; *call may go afterwards. Free it with visit_free. */
enum tutti_status door_connect(struct door *door, const struct door_call *call,
                               struct visit **visit);
/* IN_PROGRESS; OK: *arrival is filled once and has the channel; or what it failed with, with this thread's message:
 * VERSION, INVALID_OPTIONS, or a system's error; and at its deadline INIT_TIMEOUT, or AUTH_FAILED: who was there last did not show the
 * key, or said that this rank does not have it. */
enum tutti_status visit_test(struct visit *visit, struct door_arrival *arrival);
/* How many attempts in a row met somebody at that door who is not of this job: refused it, or spoke another protocol. A rank
 * that listens there does neither. */
unsigned visit_foreign_answers(const struct visit *visit);
/* Why the last attempt that is over came to nothing, with the address and the system's word for it: "connecting to 10.0.0.1:80: Network is
 * unreachable". A visit that goes on tries at least twice a second, so this is what is so now. False: no attempt failed. */
bool visit_trouble(struct visit *visit, uint64_t now_ns, char text[VISIT_TEXT_MAX]);
/* Ends it, if it goes on, and closes what was not taken. NULL is fine. */
void visit_free(struct visit *visit);

#endif
