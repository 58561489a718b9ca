/* connector.h - connects to another process's listener: makes attempts until that one accepts, or
 * until a deadline.
 *
 *     PAUSING ──► CONNECTING ──► HANDSHAKE ──► OVER ──connector_test──► TAKEN
 *        ▲            │ nobody listens, │ the process there does not show the job's key
 *        │            │ a shortage      │
 *        └────────────┴─────────────────┘
 *
 * A connector goes on if no process listens there, or if the process that listens does not show the
 * job's key, because both may change. Otherwise a stranger who took the port of a rank that ended
 * could end a job. It goes on if this process lacks a descriptor or memory, too: the thread that
 * waits for the connection asks listener_starves whether that has lasted. If the listener has shown
 * the key and its version or configuration does not fit, that will not change, and the connector
 * ends.
 *
 * Pauses between attempts double from 5 ms to 250 ms, with a random part: ranks that were refused
 * together do not come back together.
 *
 * If a connection breaks before its connector hears that it was accepted, the connector tries
 * again: then the other side accepts it twice, and the later one counts.
 */
#ifndef TUTTI_CONNECT_CONNECTOR_H
#define TUTTI_CONNECT_CONNECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "connect/handshake.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

enum { CONNECTOR_TEXT_MAX = HELLO_TEXT_MAX + NET_ADDRESS_TEXT_MAX + 8 };

struct connector; /* opaque */

struct connector_options {
    struct net_address address;
    const struct net_address
        *from; /* the address of this host that it connects from; NULL: the kernel chooses */
    struct hello_call hello;
    enum tcp_protocol protocol; /* of its socket */
    bool is_encrypted;
    bool ends_at_shortage; /* others can stand in for it */
    uint64_t deadline_ns;
};

/* IN_PROGRESS: it goes on. OK: *accepted is filled, once, and has the socket. Otherwise the
 * connector has failed, and this thread's message says why: VERSION, INVALID_OPTIONS, or an error
 * of the system; at its deadline INIT_TIMEOUT, or AUTH_FAILED if the process that listened there
 * last did not show the key, or said that this rank does not have it. */
enum tutti_status connector_test(struct connector *connector, struct accepted_connection *accepted);
/* The number of attempts in a row that reached a process that is not of this job: it refused the
 * hello, or spoke another protocol. A rank that listens there does neither. */
unsigned connector_foreign_answers(const struct connector *connector);
/* Why the last attempt that is over failed, with the address and the system's word for it:
 * "connecting to 10.0.0.1:80: Network is unreachable". A connector that goes on tries at least
 * twice a second, so the text says what holds now. False: no attempt failed. */
bool connector_trouble(struct connector *connector, uint64_t now_ns, char text[CONNECTOR_TEXT_MAX]);
/* Ends the connector, if it goes on, and closes a connection that was not taken. NULL is fine. */
void connector_free(struct connector *connector);

/* The rest is for the listener, in whose event loop connectors run. */

struct connector_list {
    struct handshake_loop *loop;
    struct connector *first;
    uint64_t refused_count; /* attempts that were refused by a process that did not show the key */
    uint64_t logged_count;  /* of these: attempts that the log has counted */
    uint64_t log_ns;        /* the next line does not come before */
    char last_refusal[CONNECTOR_TEXT_MAX];
};

/* Makes a connector and begins its first attempt. It keeps no pointer into *options. */
enum tutti_status connector_create(struct connector_list *list,
                                   const struct connector_options *options,
                                   struct connector **connector);
/* Its descriptor has an event. */
void connector_handle(struct loop_entry *entry, uint64_t now_ns);
/* Moves all whose time may have come, and tells the loop when the next one's comes. */
void connector_list_progress(struct connector_list *list, uint64_t now_ns);
/* Logs refusals: one line every ten seconds at most. */
void connector_list_log(struct connector_list *list, uint64_t now_ns);
/* In a child of fork(): closes the descriptors. The memory stays, and the connectors may not be
 * used any more. */
void connector_list_forget(struct connector_list *list);

#endif
