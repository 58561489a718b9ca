/* pair.h - the state of two ranks that are connected by TCP: the links between them, and the
 * connections on which these take turns.
 *
 *   connection:  none ─attach─► resuming ─peer's READY─► up ─lost─► none, and wanted again
 *
 * A new connection starts with a CREDIT for each link that this side receives on, and READY. Pieces
 * go only over connections that are up. A rank that loses a connection forgets the pieces that had
 * come in part. The peer sends again, over any connection, the pieces that it sent there and then
 * finds missing. A link that this side opens only after that start is not part of it. The peer may
 * hear of such a link over another connection, and send over a connection that it does not know to
 * be lost yet. So if a link has no CREDIT before READY, nothing of it has come over the former
 * connection.
 *
 * Control messages and credits go first, then small pieces, then the others, links in turn. Urgent
 * frames wait only for the frame that is being written and for the bytes that the kernel already
 * has. Credits also go with the pieces of the link back.
 *
 * The kernel can have many bytes: those that it may hold unsent, and those in the queues of hosts
 * and switches. So if a pair has several connections, the first carries only urgent frames, unless
 * all others are lost; and the bytes of the others in those queues are bounded (window.h).
 *
 * If a frame comes changed, its connection is given up. If the same frame comes changed again, the
 * pair is stopped, and its links are at fault.
 *
 * A pair that is stopped moves control messages only. It ends frames that it is in the middle of
 * without the memory of links: it copies bytes that were to be written from there, and reads and
 * drops bytes that come. New connections start with READY at once.
 *
 * Reading never writes and writing never reads; so nothing here is entered twice.
 */
#ifndef TUTTI_TRANSPORT_TCP_PAIR_H
#define TUTTI_TRANSPORT_TCP_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/link_set.h"
#include "transport/tcp/control_queue.h"
#include "transport/tcp/link.h"
#include "transport/tcp/stream.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/window.h"

/* The state that the pairs of a transport share. */
struct tcp_shared {
    int rank;
    int epoll_fd;
    unsigned stream_count;
    struct tcp_shape shape;
    uint64_t *const *signatures; /* the transport's, one a slot; links keep their address */
    void (*wants)(void *context, int peer, unsigned stream);
    void *wants_context;
    void (*hears)(void *context, int peer, const void *message, size_t bytes); /* or NULL */
    void *hears_context;
    char *discard;          /* room for the longest frame, never read */
    struct tcp_pair **busy; /* pairs that may have something to write: room for all pairs */
    int busy_count;
    struct tcp_pair *awaited; /* whose piece was looked for last, in vain; or NULL */
    bool is_stopped, checks;
    uint64_t looks;              /* for what has come, so far */
    int corrupt_peer;            /* the first; -1 */
    uint64_t change_reported_ns; /* in the log; 0: never */
};

struct tcp_pair_stream {
    struct tcp_stream stream;
    bool is_up;          /* the peer has said READY */
    bool has_greeted;    /* and this side */
    bool watches_output; /* epoll does */
    bool is_cut;        /* nothing can be written any more; bytes that came before are still read */
    bool bounds_queues; /* the peer's bytes on their way are limited */
    bool dies_unsaid;   /* see tcp_path.h */
    uint64_t looks;     /* of the transport, when the window was last adjusted */
    struct tcp_window window;
    unsigned resume_next;    /* link of which the peer is to be told next */
    struct link_set resumed; /* links to the peer of which it said what has come */
    uint64_t control_next;   /* numbers of control messages rise on a connection */
    char message[TCP_FRAME_CONTROL_BYTES_MAX]; /* that is coming */
};

struct tcp_pair {
    struct tcp_shared *shared;
    int rank; /* of the peer */
    struct tcp_pair_stream *streams;
    struct tcp_tx *tx[TRANSPORT_LINK_COUNT];
    struct tcp_rx *rx[TRANSPORT_LINK_COUNT];
    struct link_set granted;      /* links to the peer whose other end is open */
    struct link_set small, large; /* links that have something to send next */
    struct link_set unsent;       /* links that have something to send, now or when they may */
    struct link_set due;          /* links from the peer of which it should be told now */
    struct link_set untold;       /* or when there is nothing better to do */
    unsigned small_turn, large_turn;
    int short_stream; /* over which something came last, if that was a short piece; or -1 */
    struct tcp_control_queue control;
    bool is_busy;    /* one of shared->busy */
    bool is_stopped; /* links are dead */
    bool is_at_fault,
        is_corrupt;        /* links have to say so; the peer is corrupt: control messages go on */
    bool has_changed_head; /* one came changed, and since then nothing that gets on with anything */
    uint64_t mended;
    enum peer_state state;
    uint64_t since_ns, heard_ns, tried_ns;
    uint64_t min_rtt_ns; /* of all its connections so far; 0: not known */
};

enum tutti_status tcp_pair_create(struct tcp_shared *shared, int rank, struct tcp_pair **pair);
void tcp_pair_free(struct tcp_pair *pair);
/* Says that all connections are wanted, if there was none yet. */
void tcp_pair_want(struct tcp_pair *pair);
enum tutti_status tcp_pair_attach(struct tcp_pair *pair, unsigned stream, struct byte_stream socket);
enum tutti_status tcp_pair_open_tx(struct tcp_pair *pair, unsigned index, struct tcp_tx **tx);
enum tutti_status tcp_pair_open_rx(struct tcp_pair *pair, unsigned index, struct tcp_rx **rx);

/* As tcp_tell says. */
enum tutti_status tcp_pair_tell(struct tcp_pair *pair, const void *message, size_t bytes,
                                bool is_final);
/* A link has got something to send. And: bytes of a link were consumed, or are expected. Urgent
 * frames are written at once. */
void tcp_pair_send(struct tcp_pair *pair, struct tcp_tx *tx);
void tcp_pair_consumed(struct tcp_pair *pair, struct tcp_rx *rx);

/* Tries all connections, even connections that were full at the last try; true if something was
 * written. */
bool tcp_pair_write(struct tcp_pair *pair);
/* The same, but connections that were full are tried only now and then: each try in vain costs a
 * system call. */
bool tcp_pair_write_again(struct tcp_pair *pair, uint64_t now_ns);
bool tcp_pair_read(struct tcp_pair *pair, unsigned stream);
/* Makes everything that the peer may be told later due now. */
void tcp_pair_tell_all(struct tcp_pair *pair);
/* Whether there is anything to write; pieces that wait for credit do not count. */
bool tcp_pair_has_output(const struct tcp_pair *pair);
/* The same, not counting output that the peer may be told later. */
bool tcp_pair_has_awaited_output(const struct tcp_pair *pair);
/* Whether every control message has been given to the kernel at least once. */
bool tcp_pair_has_told_all(const struct tcp_pair *pair);
/* Whether the peer has consumed and heard everything, and knows that this rank did the same with
 * the peer's messages; or is broken. A peer whose connections are lost may come back. */
bool tcp_pair_is_settled(const struct tcp_pair *pair);
/* Whether data is missing: the peer has not consumed all, or does not know how much this rank has
 * consumed. */
bool tcp_pair_is_owed_data(const struct tcp_pair *pair);
/* Called before a sleep on epoll: output that the kernel did not take is then a reason to wake
 * up. */
void tcp_pair_watch(struct tcp_pair *pair);
/* As tcp_answered_ns says. */
uint64_t tcp_pair_answered_ns(const struct tcp_pair *pair, uint64_t now_ns);
/* As tcp_give_up_silent says. */
void tcp_pair_give_up_silent(struct tcp_pair *pair, unsigned first);
/* As tcp_give_up_dead says. */
void tcp_pair_give_up_dead(struct tcp_pair *pair);
/* From now on links are dead, and none of their memory is touched; control messages go on. */
void tcp_pair_stop(struct tcp_pair *pair);

#endif
