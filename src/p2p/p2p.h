/* p2p.h - point to point: tags, any source, bounded unexpected messages, rendezvous for large ones.
 *
 *     sender                                             receiver
 *     eager (up to eager_bytes_max):
 *       ── envelope, payload ──────────────────────────► matches a posted receive, or waits as unexpected
 *     rendezvous (above):
 *       ── announcement(id, bytes) ────────────────────► matches, or waits (only the envelope is kept)
 *       ◄───────────────────────────────── come(id) ──── when it has matched; or drop(id): it does not fit
 *       ── payload, on a channel of its own ───────────► straight into the buffer, in the order of the comes
 *     Where the receiver can read the sender's memory, the payload goes by reference: of small and
 *     medium ones that is in the announcement, and the receiver answers when it has copied them:
 *       ── announcement(id, bytes, reference) ─────────► copies when it has matched
 *       ◄─────────────────────────────── copied(id) ────
 *
 * A payload may go encoded (kernel/format.h), never by reference: its sender encodes it piece by
 * piece into places of the link, and its receiver decodes each piece into the buffer. If nobody
 * expects it, it waits as it came.
 *
 * Invariants
 *   1. Messages of one sender with fitting tags are received in the order in which they were
 *      started; receives that fit the same message take it in the order in which they were started.
 *   2. Unexpected payloads and envelopes are bounded: beyond the bounds a sender's link is left
 *      alone, so its messages wait with their sender. Answers (come, drop) and payloads have
 *      channels of their own, so what is held back never keeps this rank's own sends from being
 *      received.
 *   3. Data that comes over a link is foreign: it is read once, checked, and only then used. A
 *      message that makes no sense is a fault that names the peer.
 *   4. Nothing here waits, sleeps or reads a clock. Links to a peer are opened on its first use,
 *      links from all peers by the first start: any peer may send, and a message that is not looked
 *      at keeps its sender waiting.
 *   5. Once warm, nothing is allocated (see match.h).
 *
 * A request is the caller's memory, and must stay where it is until it is done; then it is not
 * touched again. Threads: one at a time.
 */
#ifndef TUTTI_P2P_P2P_H
#define TUTTI_P2P_P2P_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/kernel.h"
#include "transport/transport.h"
#include "tutti/tutti.h"

struct p2p; /* opaque: the messages of one communicator */

struct p2p_request;

/* Ranks may have different options. */
struct p2p_options {
    size_t eager_bytes_max;
    size_t unexpected_bytes_max; /* of payloads that wait here, of all senders together */
    size_t unexpected_count_max; /* of envelopes */
    bool shares_cores;           /* a saved copy saves somebody's time, whichever rank makes it */
    /* Told of every request that becomes done, in p2p_start or p2p_progress, as the last thing that
     * happens to it; or NULL. May not call this module. */
    void (*finished)(struct p2p_request *request);
    /* Whether a receive takes a message that has met it, as far as the encoding matters: dtype and
     * encoding are set there. It is asked for messages that are encoded, and for receives that
     * mind. NULL: all do that have the dtype. May not call this module. */
    bool (*agrees)(const struct p2p_request *receive);
    enum kernel_level level; /* of the codecs */
};

struct p2p_request {
    /* the wish */
    bool is_send;
    void *buffer; /* only read when sending */
    size_t bytes; /* to send, or room to receive; a multiple of the dtype's size */
    enum tutti_dtype dtype;
    int peer; /* a rank, also the own one; or TUTTI_ANY_RANK to receive */
    int tag;  /* 0 or more; or TUTTI_ANY_TAG to receive */
    /* To send: how, which must be for the dtype; NULL: as it is. To another rank. To receive: how
     * the message came. */
    const struct kernel_encoding *encoding;
    bool minds_encoding; /* to receive: `agrees` is asked about every message */
    /* its result, when done: OK, TRUNCATED (a receive that was too short, or of another
     * dtype), or MISMATCH (a receive that does not agree to the encoding). After the last two
     * nothing was written, and the message is lost. A send is OK when its buffer may be used
     * again. */
    bool done;
    enum tutti_status status;
    /* of a receive: the message, also when it was not taken */
    int source, message_tag;
    size_t received_bytes; /* written to the buffer: 0 when it was not taken */
    enum tutti_dtype sent_dtype;
    size_t sent_bytes;
    /* of the module */
    struct p2p_request *next;
    uint64_t id;
    struct link_reference reference; /* to a payload, as it was announced */
    size_t moved_bytes;              /* of memory */
    bool is_expected;                /* its link knows where the payload belongs */
    int state;
};

/* Uses that slot of the transport, which nothing else uses. UNSUPPORTED: its pieces are too
 * small. */
enum tutti_status p2p_create(struct transport *transport, int slot,
                             const struct p2p_options *options, struct p2p **p2p);
/* Requests that are not done are forgotten. NULL is allowed. */
void p2p_free(struct p2p *p2p);
/* Opens the links from all peers, so that messages can come before this rank has started anything;
 * p2p_start does it, too. Fails with NO_MEMORY, NO_SPACE, and may be tried again. */
enum tutti_status p2p_listen(struct p2p *p2p);
/* Takes over a request whose wish is set, and takes its first steps: it may be done on return.
 * Fails only before anything was sent (NO_MEMORY, NO_SPACE; UNSUPPORTED: a unit of the encoding does
 * not fit a piece), and has then not taken it. */
enum tutti_status p2p_start(struct p2p *p2p, struct p2p_request *request);
/* Gives a receive back that no message has met; `finished` is not told. False: one has, or it is
 * done. */
bool p2p_take_back(struct p2p *p2p, struct p2p_request *request);
/* Moves what can be moved, a bounded amount; true when something was. False: nothing moves before a
 * peer does something or something is started. */
bool p2p_progress(struct p2p *p2p);
/* Whether anything is under way: requests that are not done, and so payloads that peers still
 * read. */
bool p2p_is_busy(const struct p2p *p2p);
/* Whether peers may be reading buffers of this rank where they lie: of interest when it gives
 * up. */
bool p2p_is_referenced(const struct p2p *p2p);
/* The peer whose message made no sense, or -1. Nothing moves any more then. The error message of
 * the thread that found it says what was wrong with the message; no request need have been under
 * way. */
int p2p_fault(const struct p2p *p2p);
/* OK, or why progress is over although no peer is to blame: a link could not be opened (NO_MEMORY,
 * NO_SPACE). The error message of the thread that found it names the message that needed the
 * link. */
enum tutti_status p2p_status(const struct p2p *p2p);
/* Returns that peer (for TUTTI_ANY_RANK: the first such peer) if its messages are left waiting
 * because the bounds are reached; else -1. A receive from it that is not done after p2p_progress
 * then waits until others are started. */
int p2p_held_back(const struct p2p *p2p, int peer);
/* For messages to people: "rank 2 with tag 7", the first of the unexpected. "" when there is
 * none. */
void p2p_describe_unexpected(const struct p2p *p2p, char *text, size_t text_bytes);

#endif
