/* pair.h - what two ranks share: the links between them, and the connections that these take turns on.
 *
 *   connection:  none ─attach─► resuming ─peer's READY─► up ─lost─► none, and wanted again
 *
 * A new connection starts with a CREDIT for each link that this side receives on, and READY. Pieces go only over
 * connections that are up. Whoever loses a connection forgets what it had in the middle of it; what the peer then
 * finds missing among the pieces that it sent there is sent again, over any connection. A link that this side opens only
 * after that start is not part of it; the peer may hear of it over another connection, and send on what it does not know to
 * be lost yet. So of a link without a CREDIT before READY nothing has come over the connection before.
 *
 * Notes and credits go first, then small pieces, then the others, links in turn; what is urgent waits only for the frame that
 * is being written and for what the kernel has already. Credits also go with the pieces of the link back.
 *
 * What the kernel has can be a lot: what it may hold unsent, and what is in the queues of hosts and switches. So where a pair
 * has several connections, the first carries only what is urgent, unless all others are lost; and what the others have in those
 * queues is bounded (window.h).
 *
 * What comes changed takes its connection with it, once; a pair of which the same comes changed again is stopped, and its links
 * are at fault.
 *
 * A pair that is stopped moves notes only. What it is in the middle of is ended without the memory of links: what was to be
 * written from there is copied, what comes is read and dropped. New connections start with READY at once.
 *
 * Reading never writes and writing never reads; so nothing here is entered twice.
 */
#ifndef TUTTI_TRANSPORT_TCP_PAIR_H
#define TUTTI_TRANSPORT_TCP_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/link_set.h"
#include "transport/tcp/link.h"
#include "transport/tcp/notes.h"
#include "transport/tcp/stream.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/window.h"

/* What the pairs of a transport have in common. */
struct tcp_shared {
    int rank;
    int epoll_fd;
    unsigned stream_count;
    struct tcp_shape shape;
    uint64_t *const *signatures; /* the transport's, one a slot; links keep their address */
    void (*wants)(void *context, int peer, unsigned stream);
    void *wants_context;
    void (*hears)(void *context, int peer, const void *note, size_t bytes); /* or NULL */
    void *hears_context;
    char *discard;          /* room for the longest frame, that nobody reads */
    struct tcp_pair **busy; /* those that may have something to write: room for all that there are */
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
    bool is_cut;         /* nothing can be written any more; what came before is still read */
    bool bounds_queues;  /* what the peer has on its way is limited */
    bool dies_unsaid;    /* see tcp_path.h */
    uint64_t looks;      /* of the transport, when the window was last adjusted */
    struct tcp_window window;
    unsigned resume_next;                /* link of which the peer is to be told next */
    struct link_set resumed;             /* links to the peer of which it said what has come */
    uint64_t note_next;                  /* numbers of notes rise on a connection */
    char note[TCP_FRAME_NOTE_BYTES_MAX]; /* that is coming */
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
    struct tcp_notes notes;
    bool is_busy;                 /* one of shared->busy */
    bool is_stopped;              /* links are dead */
    bool is_at_fault, is_corrupt; /* links have to say so; the peer is corrupt: notes go on */
    bool has_changed_head; /* one came changed, and since then nothing that gets on with anything */
    uint64_t mended;
    enum peer_state state;
    uint64_t since_ns, heard_ns, tried_ns;
    uint64_t min_rtt_ns; /* of all its connections so far; 0: not known */
};

enum tutti_status tcp_pair_create(struct tcp_shared *shared, int rank, struct tcp_pair **pair);
void tcp_pair_free(struct tcp_pair *pair);
/* Says that all connections are wanted, if none was there yet. */
void tcp_pair_want(struct tcp_pair *pair);
enum tutti_status tcp_pair_attach(struct tcp_pair *pair, unsigned stream, struct byte_stream socket);
enum tutti_status tcp_pair_open_tx(struct tcp_pair *pair, unsigned index, struct tcp_tx **tx);
enum tutti_status tcp_pair_open_rx(struct tcp_pair *pair, unsigned index, struct tcp_rx **rx);

/* As tcp_tell says. */
enum tutti_status tcp_pair_tell(struct tcp_pair *pair, const void *note, size_t bytes,
                                bool is_final);
/* A link has got something to send; something of a link was consumed, or is expected. What is urgent is written at once. */
void tcp_pair_send(struct tcp_pair *pair, struct tcp_tx *tx);
void tcp_pair_consumed(struct tcp_pair *pair, struct tcp_rx *rx);

/* Tries all connections, also those that were full at the last try; true when something was written. */
bool tcp_pair_write(struct tcp_pair *pair);
/* The same, but those that were full only now and then: each try in vain costs a system call. */
bool tcp_pair_write_again(struct tcp_pair *pair, uint64_t now_ns);
bool tcp_pair_read(struct tcp_pair *pair, unsigned stream);
/* Makes what the peer may be told later something to tell now. */
void tcp_pair_tell_all(struct tcp_pair *pair);
/* Whether there is anything to write; what waits for credit is not. */
bool tcp_pair_has_output(const struct tcp_pair *pair);
/* The same, but for what the peer may be told later. */
bool tcp_pair_has_awaited_output(const struct tcp_pair *pair);
/* Whether every note was given to the kernel once. */
bool tcp_pair_has_told_all(const struct tcp_pair *pair);
/* Whether the peer has consumed and heard everything and knows what was here, or is gone. */
bool tcp_pair_is_finished(const struct tcp_pair *pair);
/* The same, but a peer whose connections are lost may come back. */
bool tcp_pair_is_settled(const struct tcp_pair *pair);
/* Data is: the peer has not consumed all, or does not know what was consumed here. */
bool tcp_pair_is_owed_data(const struct tcp_pair *pair);
/* Before a sleep on epoll: output that the kernel did not take is something to wake up for. */
void tcp_pair_watch(struct tcp_pair *pair);
/* As tcp_answered_ns says. */
uint64_t tcp_pair_answered_ns(const struct tcp_pair *pair, uint64_t now_ns);
/* As tcp_give_up_silent says. */
void tcp_pair_give_up_silent(struct tcp_pair *pair, unsigned first);
/* As tcp_give_up_dead says. */
void tcp_pair_give_up_dead(struct tcp_pair *pair);
/* Links are dead, and no memory of theirs is touched any more; notes go on. */
void tcp_pair_stop(struct tcp_pair *pair);

#endif
