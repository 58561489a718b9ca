/* p2p.h - point to point: tags, any source, bounded unexpected messages, rendezvous for large ones.
 *
 *     sender                                             receiver
 *     eager (up to eager_bytes_max):
 *       ── envelope, payload ──────────────────────────► matches a posted receive, or waits as unexpected
 *     rendezvous (above):
 *       ── announcement(id, bytes) ────────────────────► matches, or waits (only the envelope is kept)
 *       ◄───────────────────────────────── come(id) ──── when it has matched
 *       ── payload, on a channel of its own ───────────► straight into the buffer, in the order of the comes
 *     Where the receiver can read the sender's memory, the payload goes by reference.
 *
 * Invariants
 *   1. Messages of one sender with fitting tags are received in the order in which they were started; receives
 *      that fit the same message take it in the order in which they were started.
 *   2. Unexpected payloads and envelopes are bounded: beyond the bounds a sender's link is left alone, so its
 *      messages wait with their sender.
 *   3. What comes over a link is foreign: read once, checked, and only then used. What makes no sense is a fault
 *      that names the peer.
 *   4. Nothing here waits, sleeps or reads a clock. Links are opened on first use of a peer.
 *
 * A request is the caller's memory, and must stay where it is until it is done. Threads: one at a time.
 */
#ifndef TUTTI_P2P_P2P_H
#define TUTTI_P2P_P2P_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"
#include "tutti/tutti.h"

struct p2p; /* opaque: the messages of one communicator */

struct p2p_options {
    size_t eager_bytes_max;
    size_t unexpected_bytes_max; /* of payloads that wait here, of all senders together */
    size_t unexpected_count_max; /* of envelopes */
};

struct p2p_request {
    /* what is wanted */
    bool is_send;
    void *buffer; /* only read when sending */
    size_t bytes; /* to send, or room to receive */
    enum tutti_dtype dtype;
    int peer; /* or TUTTI_ANY_RANK to receive */
    int tag;  /* or TUTTI_ANY_TAG to receive */
    /* what has come of it, when done: OK, or TRUNCATED (a receive that was too short, or of another dtype) */
    bool done;
    enum tutti_status status;
    int source, message_tag; /* of what was received */
    size_t received_bytes;
    enum tutti_dtype sent_dtype; /* of TRUNCATED: what came */
    size_t sent_bytes;
    /* of the module */
    struct p2p_request *next;
    uint64_t id;
    size_t moved_bytes;
    int state;
};

/* Uses that slot of the transport, and nobody else does. */
enum tutti_status p2p_create(struct transport *transport, int slot,
                             const struct p2p_options *options, struct p2p **p2p);
/* Requests that are not done are forgotten. NULL is allowed. */
void p2p_free(struct p2p *p2p);
/* Takes over a request. Fails only before anything was sent (NO_MEMORY, NO_SPACE). */
enum tutti_status p2p_start(struct p2p *p2p, struct p2p_request *request);
/* Moves what can be moved; true when something was. */
bool p2p_progress(struct p2p *p2p);
/* Whether anything is under way: requests that are not done, or payloads that peers still read. */
bool p2p_is_busy(const struct p2p *p2p);
/* The peer whose message made no sense, or -1. */
int p2p_fault(const struct p2p *p2p);
/* A peer whose messages are left waiting because the bounds are reached, or -1. A receive that waits then may
 * wait for ever. */
int p2p_held_back(const struct p2p *p2p);
/* For messages to people: "rank 2 with tag 7", the first of the unexpected. "" when there is none. */
void p2p_describe_unexpected(const struct p2p *p2p, char *text, size_t text_bytes);

#endif
