/* tcp.h - the transport between hosts: links over TCP connections that its callers have made and
 * authenticated.
 *
 *   rank a                                                               rank b
 *   link ─┐                    ┌─ connection 0 ─┐                  ┌─ link's places, or where
 *   link ─┼─ pair: deals out ──┼─ connection 1 ─┼── pair: puts ────┼─ the receiver expects it
 *   link ─┘  pieces in turn    └─ ...           ┘  pieces in order └─ ...
 *
 * A link sends its messages in *pieces* of up to 64 KiB, each in one frame on one connection.
 * Pieces of a link may take different connections, and are put in order by their numbers. The
 * receiver is shown a posted message piece by piece, and may take each piece as a message of its
 * own.
 *
 * If there are several connections, the first carries only urgent frames: control messages,
 * credits, small pieces.
 *
 * Invariants
 *   1. A socket is always read, since nothing is sent that has no room at the receiver. Each link
 *      has its own room, so links never wait for each other. A link's first message waits until the
 *      receiver has opened the link, too.
 *   2. The sender keeps a piece until the receiver has consumed it. When a connection is lost, the
 *      next one with its number starts by saying what each side has received, and the rest is sent
 *      again: nothing is lost, and nothing comes twice.
 *   3. Whatever comes from a socket is foreign, and is checked before use. Bytes that make no sense
 *      break the peer for good: its connections are closed and its links are at fault; the reason
 *      is logged once.
 *   4. A frame that is found to have changed on its way (heads are always checked, the rest if
 *      `checks` asks for it) counts as not received: its connection is given up as if it had been
 *      lost, so the frame comes again. The changed bytes are never shown, wherever they were put.
 *      If the same frame comes changed twice, the peer is *corrupt* for good. Its links are at
 *      fault, but control messages go on, so that the peer can be told why. On an encrypted
 *      connection the cipher finds all changes; each time the connection is lost, and the peer is
 *      never corrupt.
 *   5. Only create, open, attach, stop and the first control message to a peer allocate memory.
 *      Only sleep waits.
 *
 * If no rank waits for a message, the peer is told that it was consumed only with the next frame
 * that goes there, or by `flush`: so nothing may be awaited long before the transport is idle.
 * `stop` ends a frame that was written in part from a copy, so a peer that goes on never sees other
 * bytes than were sent.
 *
 * It does not connect, authenticate, agree on keys, or decide that a peer is dead, and has no links
 * to all ranks (UNSUPPORTED).
 *
 * Threads: one at a time for all of it; only wake and wake_all come from any thread. If an
 * operation is done as soon as its bytes lie in links (small sends), some thread still has to call
 * progress until tcp_is_idle.
 */
#ifndef TUTTI_TRANSPORT_TCP_TCP_H
#define TUTTI_TRANSPORT_TCP_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/byte_stream.h"
#include "transport/transport.h"

enum { TCP_STREAMS_MAX = 8, TCP_STREAMS_DEFAULT = 2, TCP_PIECE_COUNT_DEFAULT = 8 };

/* Both ends of a connection need the same piece_bytes and piece_count. If one end has more streams,
 * the two still use the streams that both have. */
struct tcp_options {
    int rank, size;
    /* Connections to a peer, up to TCP_STREAMS_MAX, of which all but the first carry large pieces
     * (a single one carries everything); 0: TCP_STREAMS_DEFAULT. */
    unsigned streams;
    size_t piece_bytes; /* a multiple of 64 from 1024 to 65536; 0: the largest */
    /* The number of pieces that fit into a link, read or not, 1 to 32; 0: as this module thinks
     * best. A link that carries more than small messages takes up to twice that number of
     * piece_bytes at each end, touched as they are used. */
    unsigned piece_count;
    /* All bytes that this rank sends have checksums, and its peers compare them. Each side decides
     * for its own bytes. (A buffer that is modified while it is being sent shows as a changed
     * frame, too.) */
    bool checks;
    /* Says that connection number `stream` to that peer is wanted: once when its first link is
     * opened, and once after each loss. Called from any function below but wake. It may not call
     * this module: it should remember the connection, and connect and attach later. May be NULL. */
    void (*wants)(void *context, int peer, unsigned stream);
    void *wants_context;
    /* A control message has come from that peer; valid during the call. Called from progress and
     * functions that make progress, in the order in which control messages were told. remote_options.h
     * says what it may call. NULL: control messages are dropped. */
    void (*hears)(void *context, int peer, const void *message, size_t bytes);
    void *hears_context;
};

/* Failures: INVALID_OPTIONS, NO_MEMORY, NO_DESCRIPTORS. */
enum tutti_status tcp_create(const struct tcp_options *options, struct transport **transport);
/* Takes a connected and authenticated byte stream, plain or encrypted, also on failure, and whether
 * it was wanted or not. A connection that had that number before is given up. A connection to a
 * broken peer is closed. Failures leave that connection lost: INVALID_OPTIONS, NO_MEMORY,
 * SYSTEM. */
enum tutti_status tcp_attach(struct transport *transport, int peer, unsigned stream,
                             struct byte_stream socket);

/* These are what control (transport/control.h) needs, which says what they do. */
enum tutti_status tcp_tell(struct transport *transport, int peer, const void *message, size_t bytes);
enum tutti_status tcp_tell_final(struct transport *transport, int peer, const void *message,
                                 size_t bytes);
unsigned tcp_unheard_control(const struct transport *transport, int peer);
void tcp_report(const struct transport *transport, int peer, struct peer_report *report);
uint64_t tcp_answered_ns(const struct transport *transport, int peer);
/* Whether a peer has consumed and heard all that was sent to it, and knows what was consumed and
 * heard here. When stopped only control messages count. */
bool tcp_is_settled(const struct transport *transport, int peer);

/* Whether nothing waits here to be sent: all was given to the kernel, and peers were told of
 * everything that was consumed and heard here. That does not say that peers have it: for that see
 * `consumed` of the links, and tcp_is_settled. */
bool tcp_is_idle(const struct transport *transport);
/* Whether a link to or from the peer was opened; else its connections are for messages alone. */
bool tcp_has_links(const struct transport *transport, int peer);
/* Gives up those connections numbered `first` and above on which a peer's host has answered nothing
 * for some seconds, so that they become wanted again: for callers that have another path to that
 * host. The kernel would wait for a quarter of an hour. */
void tcp_give_up_silent(struct transport *transport, unsigned first);
/* Gives up connections that no longer lead anywhere although the kernel does not say so
 * (os/tcp_path.h). */
void tcp_give_up_dead(struct transport *transport);
/* Stops and frees. NULL is allowed. */
void tcp_close(struct transport *transport);

#endif
