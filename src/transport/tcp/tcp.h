/* tcp.h - the transport between hosts: links over TCP connections that others have made and authenticated.
 *
 *   rank a                                                               rank b
 *   link ─┐                    ┌─ connection 0 ─┐                  ┌─ link's places, or where
 *   link ─┼─ pair: deals out ──┼─ connection 1 ─┼── pair: puts ────┼─ the receiver expects it
 *   link ─┘  pieces in turn    └─ ...           ┘  pieces in order └─ ...
 *
 * What a link sends goes in *pieces* of up to 64 KiB, each in one frame on one connection; pieces of a link may take
 * different connections and are put in order by their numbers. A posted message is shown to the receiver piece by
 * piece, which it may take as messages of their own.
 *
 * Where there are several connections, the first carries only what is urgent: notes, credits, small pieces.
 *
 * Invariants
 *   1. A socket is always read: nothing is sent that has no room at the receiver. Each link has its own room, so links
 *      never wait for each other. A link's first message waits until the receiver has opened the link, too.
 *   2. The sender keeps a piece until the receiver has consumed it. When a connection is lost, the next one with its number
 *      starts with what each side has received, and the rest is sent again: nothing is lost, and nothing comes twice.
 *   3. What comes from a socket is foreign: checked before use. What makes no sense breaks the peer for good: its
 *      connections are closed and its links are at fault; the reason is logged once.
 *   4. What is found to have changed on its way (heads always, the rest where `checks` asks for that) counts as not received:
 *      its connection is given up as if it had been lost, and so it comes again. Nobody is shown it, wherever it was put. What comes
 *      changed twice never comes right: the peer is *corrupt* for good. Its links are at fault, but notes go on, so that it can
 *      be told why.
 *      Of what is encrypted the cipher finds all changes, and each time the connection is lost, the peer never corrupt.
 *   5. Only create, open, attach, stop and what is told to a peer for the first time allocate. Only sleep waits.
 *
 * What it does not do: connect, authenticate, agree on keys, decide that a peer is dead, links to all (UNSUPPORTED).
 *
 * Threads: one at a time for all of it; only wake and wake_all come from any thread. Where an operation is done as soon as
 * its bytes lie in links (small sends), somebody still has to call progress until tcp_is_idle.
 */
#ifndef TUTTI_TRANSPORT_TCP_TCP_H
#define TUTTI_TRANSPORT_TCP_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/byte_stream.h"
#include "transport/transport.h"

enum { TCP_STREAMS_MAX = 8, TCP_STREAMS_DEFAULT = 2, TCP_PIECE_COUNT_DEFAULT = 8 };

/* Both ends of a connection need the same piece_bytes and piece_count. One may have more streams: what it lacks of them does not
 * keep it from using the others. */
struct tcp_options {
    int rank, size;
    /* Connections to a peer, up to TCP_STREAMS_MAX, of which all but the first carry what is large (one alone: all);
     * 0: TCP_STREAMS_DEFAULT. */
    unsigned streams;
    size_t piece_bytes; /* a multiple of 64 from 1024 to 65536; 0: the largest */
    /* Pieces of a link that fit into it, read or not, 1 to 32; 0: as this module thinks best. A link takes up to twice as
     * many of piece_bytes at each end that carries more than small messages, touched as they are used. */
    unsigned piece_count;
    /* What this rank sends has checksums, and its peers compare them. Each side decides for what it sends. (A buffer that changes
     * while it is being sent shows as this, too.) */
    bool checks;
    /* Says that connection number `stream` to that peer is wanted: once when its first link is opened, and once after
     * each loss. Called from any function below but wake; may not call this module: remember it, connect, and attach
     * later. May be NULL. */
    void (*wants)(void *context, int peer, unsigned stream);
    void *wants_context;
    /* A note has come from that peer; valid during the call. Called from progress and what progresses, in the order of
     * telling. May call tcp_tell and nothing else of this module: remember it, and act later. NULL: notes are dropped. */
    void (*hears)(void *context, int peer, const void *note, size_t bytes);
    void *hears_context;
};

/* Failures: INVALID_OPTIONS, NO_MEMORY, NO_DESCRIPTORS. */
enum tutti_status tcp_create(const struct tcp_options *options, struct transport **transport);
/* Takes a connected and authenticated byte stream, plain or encrypted, also on failure, wanted or not; one that was there before with
 * that number is given up. One to a broken peer is closed. Failures leave that connection lost: INVALID_OPTIONS, NO_MEMORY, SYSTEM. */
enum tutti_status tcp_attach(struct transport *transport, int peer, unsigned stream,
                             struct byte_stream socket);

/* These are the functions of peers.h, which says what they do. */
enum tutti_status tcp_tell(struct transport *transport, int peer, const void *note, size_t bytes);
enum tutti_status tcp_tell_final(struct transport *transport, int peer, const void *note,
                                 size_t bytes);
unsigned tcp_unheard_notes(const struct transport *transport, int peer);
void tcp_report(const struct transport *transport, int peer, struct peer_report *report);
uint64_t tcp_answered_ns(const struct transport *transport, int peer);
/* What was consumed of messages that nobody waits for is told with what goes there next; so this can be false long before the transport
 * is idle, and progress can wait. */
bool tcp_is_awaited(const struct transport *transport);
bool tcp_finish(struct transport *transport);
bool tcp_is_settled(const struct transport *transport, int peer);
bool tcp_is_owed_data(const struct transport *transport, int peer);
/* What has half been written is ended from a copy, so a peer that goes on never sees other bytes than were sent. */
bool tcp_stop(struct transport *transport);

/* Whether nothing waits here for being sent: all was given to the kernel, and everything consumed and heard was told. That
 * does not say that peers have it: for that see `consumed` of the links, and tcp_is_settled. */
bool tcp_is_idle(const struct transport *transport);
/* Gives up those connections numbered `first` and above on which a peer's host has answered nothing for some seconds, so that they
 * are wanted again: for who has another way to that host. The kernel would wait for a quarter of an hour. */
void tcp_give_up_silent(struct transport *transport, unsigned first);
/* Gives up the connections that lead nowhere any more and of which the kernel does not say so (os/tcp_path.h). */
void tcp_give_up_dead(struct transport *transport);
/* Stops and frees. NULL is allowed. */
void tcp_close(struct transport *transport);

#endif
