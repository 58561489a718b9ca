/* handshake.h - a connection while its hello, and TLS behind it, are under way, from either side.
 *
 * Handshakes run in an event loop, one for each listener: an epoll set, and a timer for deadlines.
 * The listener (listener.c) starts one for each incoming connection, a connector (connector.c) one
 * for each attempt.
 *
 *     socket ──handshake_answer or handshake_call──► GOING ──handshake_progress──► hello DONE: handshake_fill hands out the socket
 *                                                                              └─► hello STRAY or FAILED: handshake_close
 */
#ifndef TUTTI_CONNECT_HANDSHAKE_H
#define TUTTI_CONNECT_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "connect/hello.h"
#include "os/byte_stream.h"
#include "os/tcp_socket.h"
#include "os/tls.h"
#include "tutti/tutti.h"

/* A connection whose hello has succeeded, or a peer that has shown the key and does not fit. */
struct accepted_connection {
    enum tutti_status status; /* OK; VERSION, INVALID_OPTIONS: there is no socket, and `text` says more */
    struct byte_stream socket;  /* non-blocking, close-on-exec; it belongs to the taker */
    struct net_address address; /* of the other side */
    int rank;                   /* of the other side */
    uint32_t version;           /* the newest version that both sides speak */
    uint32_t purpose;
    uint8_t payload[HELLO_PAYLOAD_MAX];
    uint8_t payload_bytes;
    char text[HELLO_TEXT_MAX];
};

/* The target of an event of epoll: the first member of a larger struct. */
enum loop_entry_kind { LOOP_SOCKET, LOOP_TIMER, LOOP_INCOMING, LOOP_CONNECTOR };
struct loop_entry {
    enum loop_entry_kind kind;
};

/* A shortage of the process: the time since which, and the reason why, it lacks the means for a
 * further connection. last_ns 0: it lacks nothing. */
struct shortage {
    uint64_t first_ns, last_ns;
    enum tutti_status status;
    char why[HELLO_TEXT_MAX + NET_ADDRESS_TEXT_MAX];
};

/* The event loop, and what all its handshakes share. */
struct handshake_loop {
    int epoll, timer; /* -1: closed */
    struct loop_entry timer_entry;
    uint64_t next_ns;  /* no deadline comes before */
    uint64_t timer_ns; /* the timer is set to this */
    struct hello_self self;
    struct tls_context *tls; /* NULL: it cannot encrypt */
    struct shortage shortage;
};

struct handshake {
    struct byte_stream socket;
    uint32_t events; /* events that epoll waits for; 0: the socket is not in its set */
    struct net_address address;
    struct hello hello;
};

/* On failure handshake_loop_close frees what there is. */
enum tutti_status handshake_loop_open(struct handshake_loop *loop, const struct hello_self *self);
/* Closes the descriptors, which in a child of fork() changes nothing for the parent, and wipes the
 * key. */
void handshake_loop_close(struct handshake_loop *loop);
/* Adds a descriptor of the listener's own to the epoll set. */
enum tutti_status handshake_loop_add(struct handshake_loop *loop, int fd, struct loop_entry *entry);
/* The loop's descriptor has to be readable at this time. handshake_loop_set_timer sees to it, once
 * for all such calls. */
void handshake_loop_wake_at(struct handshake_loop *loop, uint64_t when_ns);
void handshake_loop_set_timer(struct handshake_loop *loop);
/* A connection could not be accepted or begun, for this reason, and the text of this thread's
 * error. It is tried again. */
void handshake_loop_lacks(struct handshake_loop *loop, enum tutti_status status, uint64_t now_ns);
/* There was a descriptor for another attempt. */
void handshake_loop_has_enough(struct handshake_loop *loop);
/* OK, or why no connection could be made for longer than for_ns. Failures before since_ns do not
 * count. */
enum tutti_status handshake_loop_starves(const struct handshake_loop *loop, uint64_t since_ns,
                                         uint64_t now_ns, uint64_t for_ns);

/* Neither a socket nor a hello. */
void handshake_init(struct handshake *handshake);
/* Adds the socket to the epoll set, or changes the events that are watched; false with errno. */
bool handshake_watch(struct handshake_loop *loop, struct handshake *handshake,
                     struct loop_entry *entry, uint32_t events);
void handshake_unwatch(struct handshake_loop *loop, struct handshake *handshake);
/* Begin the hello of the answerer, and the hello of the caller. False with errno: there is no
 * nonce. */
bool handshake_answer(struct handshake_loop *loop, struct handshake *handshake, uint64_t now_ns);
bool handshake_call(struct handshake_loop *loop, struct handshake *handshake,
                    const struct hello_call *call, bool is_encrypted, uint64_t now_ns);
/* Moves the handshake as far as it goes now, and watches the socket for the next event that the
 * handshake needs. The caller looks at handshake->hello.state. */
void handshake_progress(struct handshake_loop *loop, struct handshake *handshake,
                        struct loop_entry *entry, uint64_t now_ns);
bool handshake_is_over(const struct handshake *handshake);
/* The outcome of a handshake that is over. The socket, if there is one, belongs to *accepted from
 * then on. */
void handshake_fill(struct handshake *handshake, struct accepted_connection *accepted);
/* Closes the socket, unless handshake_fill has given it away, and wipes the hello's copy of the
 * key. */
void handshake_close(struct handshake_loop *loop, struct handshake *handshake);
/* The same in a child of fork(), where the epoll set is the parent's, too. */
void handshake_forget(struct handshake *handshake);

#endif
