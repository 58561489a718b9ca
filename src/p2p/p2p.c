/* p2p.c - messages over links: where each message waits.
 *
 *     a send      sends ──► done (eager)
 *                   └─────► announced ── come ──► payloads ──► done (copied)
 *                               │                    └───────► referenced ── all consumed ──► done
 *                               └─ drop, or copied by its reference ► done
 *     a receive   posted ── message ──► its payload comes with it ──► done
 *                   └── announcement ─► answers ──► coming ──► done
 *                            │             └─ drop ► done (TRUNCATED)
 *                            └ its reference ─► copying ──► answers ──► done
 *     Every arrow is a queue of one peer, which only its head can leave, but for posted (tags) and
 *     announced (the receiver's order).
 *
 * Copies: an eager payload is copied into the link and out of it, once more if nobody expected it.
 * The copies into and out of the link encode and decode; sizes are bytes of memory (engine/wire.h).
 * A rendezvous payload is copied once where the receiver can read it, else twice, through slots
 * that stay in cache.
 */
#include "p2p/p2p.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "p2p/envelope.h"
#include "p2p/match.h"
#include "p2p/meet.h"
#include "p2p/payload.h"

enum {
    MESSAGES_A_PASS = 16, /* per peer and kind, so that nobody starves */
    /* A link says when all of it is consumed, not what: after so many payloads it is fed no more
     * until then, so that an endless stream does not keep the first of it waiting. */
    REFERENCES_MAX = 8
};

enum request_state { SEND_EAGER, SEND_RENDEZVOUS, RECV_COME, RECV_DROP, RECV_COPIED };

struct outlet {
    struct link_tx *link;
    size_t bytes_max; /* of a message that it is prepared for */
};

/* The eager message of which a part has come. */
struct incoming {
    size_t left;                            /* of memory; 0: there is none */
    enum tutti_dtype dtype;                 /* of its sender */
    const struct kernel_encoding *encoding; /* NULL: it is not encoded */
    char *destination;                      /* for the bytes that are left; NULL: they go nowhere */
    struct p2p_request *request;            /* done when all has come; or NULL */
    struct arrival *arrival; /* that waits for its request meanwhile, as it came; or NULL */
};

struct peer {
    struct link_rx *messages_in;
    struct match_queue sends, announced, payloads, referenced, copying, answers, coming;
    bool held; /* the next message has no place here */
    unsigned sent_since_reference;
    struct incoming incoming;
    struct link_rx *payloads_in, *answers_in;
    struct outlet messages_out, payloads_out, answers_out;
};

struct p2p {
    struct transport *transport;
    int slot, rank, size;
    size_t eager_bytes_max, piece_bytes, payload_piece_bytes;
    bool shares_cores;
    bool listens;
    int fault_peer;
    enum tutti_status status;
    int held_count;
    int turn; /* whose messages are looked at first */
    uint64_t announced_count;
    size_t active_count; /* requests that are not done */
    size_t coming_count; /* of them: receives whose payloads were asked for, or are being copied */
    size_t referred_count; /* of them: sends whose receivers may copy the payloads at any time */
    void (*finished)(struct p2p_request *request);
    bool (*agrees)(const struct p2p_request *receive);
    enum kernel_level level;
    struct matcher matcher;
    struct peer peers[];
};

/* ------------------------------------------------------------------------------------- requests */

/* The request is the caller's again. It must be in no queue. */
static void finish(struct p2p *p2p, struct p2p_request *request, enum tutti_status status)
{
    p2p->active_count--;
    request->status = status;
    request->done = true;
    if (p2p->finished != NULL) p2p->finished(request);
}

static const struct path_sizes *sizes_of(const struct p2p *p2p)
{
    return &p2p->transport->paths.tables[0]->sizes;
}

/* Without bytes there may be no memory either. */
static void copy(void *destination, const void *source, size_t bytes)
{
    if (bytes > 0) memcpy(destination, source, bytes);
}

static bool blame(struct p2p *p2p, int rank, const char *what)
{
    p2p->fault_peer = rank;
    error_set(TUTTI_INTERNAL, "a message that makes no sense: %s", what);
    return false;
}

/* This rank lacks the means to receive a message. Keeps the cause. */
static bool give_up(struct p2p *p2p, int source, const struct envelope *envelope,
                    enum tutti_status status)
{
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    p2p->status = error_set(status, "a message of rank %d (tag %d, %zu bytes): %s", source,
                            (int)envelope->tag, (size_t)envelope->bytes, why);
    return false;
}

static inline bool is_stopped(const struct p2p *p2p)
{
    return p2p->fault_peer >= 0 || p2p->status != TUTTI_OK;
}

/* --------------------------------------------------------------------------------- holding back */

static void hold_back(struct p2p *p2p, struct peer *peer)
{
    peer->held = true;
    p2p->held_count++;
}

/* Looks again at messages that were held back, which may find a place now: a receive of that rank
 * was posted, or (any rank) room was made. */
static void look_again(struct p2p *p2p, int rank)
{
    for (int r = 0; p2p->held_count > 0 && r < p2p->size; r++) {
        if ((rank != TUTTI_ANY_RANK && rank != r) || !p2p->peers[r].held) continue;
        p2p->peers[r].held = false;
        p2p->held_count--;
    }
}

/* -------------------------------------------------------------------------------------- opening */

static enum tutti_status open_out(struct p2p *p2p, int rank, int channel, size_t bytes,
                                  struct outlet *outlet)
{
    if (outlet->link != NULL && bytes <= outlet->bytes_max) return TUTTI_OK;
    const size_t small_bytes = path_inline_bytes(path_table_to(&p2p->transport->paths, rank));
    bytes = bytes <= small_bytes ? small_bytes : p2p->piece_bytes;
    struct transport *const transport = p2p->transport;
    TRY(transport->ops->open_tx(transport, p2p->slot, channel, rank, bytes, &outlet->link));
    outlet->bytes_max = bytes;
    return TUTTI_OK;
}

static enum tutti_status open_in(struct p2p *p2p, int rank, int channel, struct link_rx **link)
{
    if (*link != NULL) return TUTTI_OK;
    struct transport *const transport = p2p->transport;
    return transport->ops->open_rx(transport, p2p->slot, channel, rank, link);
}

/* Whether a payload goes by reference: if the receiver can read it, or had best copy it out.
 * both_ways: payloads come to this rank meanwhile. */
static bool goes_by_reference(const struct p2p *p2p, struct link_tx *link,
                              const struct p2p_request *request, bool both_ways)
{
    if (request->moved_bytes > 0 || request->encoding != NULL) return false;
    const struct path_case message = {.bytes = request->bytes,
                                      .traffic = both_ways ? PATH_MESSAGE_BOTH_WAYS : PATH_MESSAGE,
                                      .readers = PATH_TO_ONE,
                                      .step = PATH_SENDS,
                                      .cores =
                                          p2p->shares_cores ? PATH_SHARED_CORES : PATH_OWN_CORES,
                                      .senders = PATH_FEW_SENDERS,
                                      .rank_count = p2p->size};
    const struct path_list paths =
        path_choose(path_table_to(&p2p->transport->paths, request->peer), &message);
    if (!path_has(&paths, PATH_READ) && !path_has(&paths, PATH_COPY)) return false;
    const enum link_reach reach = link->ops->reach(link, request->buffer, request->bytes);
    return (reach == REACH_READ && path_has(&paths, PATH_READ)) ||
           (reach == REACH_COPY && path_has(&paths, PATH_COPY));
}

static enum tutti_status open_for_send(struct p2p *p2p, const struct p2p_request *request)
{
    const int rank = request->peer;
    struct peer *const peer = &p2p->peers[rank];
    if (request->state == SEND_EAGER) {
        const size_t room = p2p->piece_bytes - sizeof(struct envelope);
        const size_t whole = payload_on_link(request->encoding, request->dtype, request->bytes);
        const size_t bytes = whole < room ? whole : room;
        return open_out(p2p, rank, P2P_CHANNEL_MESSAGES, sizeof(struct envelope) + bytes,
                        &peer->messages_out);
    }
    TRY(open_out(p2p, rank, P2P_CHANNEL_MESSAGES, sizeof(struct announcement), &peer->messages_out));
    TRY(open_in(p2p, rank, P2P_CHANNEL_ANSWERS, &peer->answers_in));
    TRY(open_out(p2p, rank, P2P_CHANNEL_PAYLOADS, 0, &peer->payloads_out));
    if (goes_by_reference(p2p, peer->payloads_out.link, request, false)) return TUTTI_OK;
    return open_out(p2p, rank, P2P_CHANNEL_PAYLOADS, p2p->payload_piece_bytes, &peer->payloads_out);
}

/* What the payload of an announced message needs. */
static enum tutti_status open_for_payload(struct p2p *p2p, int source)
{
    struct peer *const peer = &p2p->peers[source];
    TRY(open_out(p2p, source, P2P_CHANNEL_ANSWERS, sizeof(struct answer), &peer->answers_out));
    return open_in(p2p, source, P2P_CHANNEL_PAYLOADS, &peer->payloads_in);
}

/* -------------------------------------------------------------------------------------- sending */

enum push_result { PUSH_BLOCKED, PUSH_PART, PUSH_ALL };

/* The reference that goes with an announcement, if any. */
static struct link_reference reference_to(const struct p2p *p2p, struct link_tx *link,
                                          const struct p2p_request *request)
{
    struct link_reference reference;
    const bool refers = (link->capabilities & LINK_REFERS) != 0 &&
                        goes_by_reference(p2p, link, request, false) &&
                        link->ops->refer(link, request->buffer, request->bytes, &reference);
    return refers ? reference : (struct link_reference){0};
}

static enum push_result push_announcement(struct p2p *p2p, struct link_tx *link,
                                          struct p2p_request *request)
{
    const struct announcement announcement = {{ENVELOPE_ANNOUNCEMENT, (uint8_t)request->dtype,
                                               payload_encoding(request), 0, request->tag,
                                               request->bytes},
                                              p2p->announced_count,
                                              reference_to(p2p, link, request)};
    void *const place = link->ops->reserve(link, sizeof announcement);
    if (place == NULL) return PUSH_BLOCKED;
    memcpy(place, &announcement, sizeof announcement);
    link->ops->commit(link, sizeof announcement);
    request->id = p2p->announced_count++;
    request->reference = announcement.reference;
    p2p->referred_count += announcement.reference.kind != 0;
    return PUSH_ALL;
}

/* The first piece has the envelope; where more follow, it has payload as well. */
static enum push_result push_eager(struct p2p *p2p, struct link_tx *link,
                                   struct p2p_request *request)
{
    const struct envelope envelope = {
        ENVELOPE_EAGER, (uint8_t)request->dtype, payload_encoding(request), 0,
        request->tag,   request->bytes};
    const size_t head_bytes = request->moved_bytes == 0 ? sizeof envelope : 0;
    size_t on_link;
    const size_t bytes = payload_next(request, p2p->piece_bytes - head_bytes, &on_link);
    char *const place = link->ops->reserve(link, head_bytes + on_link);
    if (place == NULL) return PUSH_BLOCKED;
    memcpy(place, &envelope, head_bytes);
    payload_put(p2p->level, request, place + head_bytes, bytes);
    link->ops->commit(link, head_bytes + on_link);
    return request->moved_bytes == request->bytes ? PUSH_ALL : PUSH_PART;
}

static bool push_messages(struct p2p *p2p, struct peer *peer)
{
    struct link_tx *const link = peer->messages_out.link;
    bool moved = false;
    for (int i = 0; i < MESSAGES_A_PASS && peer->sends.first != NULL; i++, moved = true) {
        struct p2p_request *const request = peer->sends.first;
        const bool eager = request->state == SEND_EAGER;
        const enum push_result result =
            eager ? push_eager(p2p, link, request) : push_announcement(p2p, link, request);
        if (result == PUSH_BLOCKED) break;
        if (result == PUSH_PART) continue;
        queue_take(&peer->sends, NULL);
        if (eager)
            finish(p2p, request, TUTTI_OK);
        else
            queue_push(&peer->announced, request);
    }
    return moved;
}

static enum push_result push_payload_copy(const struct p2p *p2p, struct link_tx *link,
                                          struct p2p_request *request)
{
    size_t on_link;
    const size_t bytes = payload_next(request, p2p->payload_piece_bytes, &on_link);
    void *const place = link->ops->reserve(link, on_link);
    if (place == NULL) return PUSH_BLOCKED;
    payload_put(p2p->level, request, place, bytes);
    link->ops->commit(link, on_link);
    return request->moved_bytes == request->bytes ? PUSH_ALL : PUSH_PART;
}

/* Payloads that were asked for. */
static bool push_payloads(struct p2p *p2p, struct peer *peer)
{
    struct link_tx *const link = peer->payloads_out.link;
    bool moved = false;
    for (int i = 0; i < MESSAGES_A_PASS && peer->payloads.first != NULL; i++, moved = true) {
        struct p2p_request *const request = peer->payloads.first;
        const bool reference = goes_by_reference(p2p, link, request, p2p->coming_count > 0);
        if (peer->sent_since_reference == REFERENCES_MAX) break;
        if (reference) {
            if (!link->ops->post(link, request->buffer, request->bytes)) break;
        } else {
            const enum push_result result = push_payload_copy(p2p, link, request);
            if (result == PUSH_BLOCKED) break;
            if (result == PUSH_PART) continue;
        }
        queue_take(&peer->payloads, NULL);
        if (reference)
            queue_push(&peer->referenced, request);
        else
            finish(p2p, request, TUTTI_OK);
        if (peer->referenced.first != NULL) peer->sent_since_reference++;
    }
    return moved;
}

static bool release_referenced(struct p2p *p2p, struct peer *peer)
{
    struct link_tx *const link = peer->payloads_out.link;
    if (!link->ops->consumed(link)) return false;
    while (peer->referenced.first != NULL)
        finish(p2p, queue_take(&peer->referenced, NULL), TUTTI_OK);
    peer->sent_since_reference = 0;
    return true;
}

/* ------------------------------------------------------------------------------------ receiving */

/* The next message of a link, where it can be read. */
static enum link_state look(struct p2p *p2p, int rank, struct link_rx *link, struct link_view *view)
{
    enum link_state state = link->ops->peek(link, view);
    if (state == LINK_READY && view->data == NULL && view->bytes > 0) {
        if (!link->ops->fetch(link)) return LINK_EMPTY;
        state = link->ops->peek(link, view);
    }
    if (state == LINK_FAULT) blame(p2p, rank, "it belongs to something else");
    return state;
}

/* Payload of the eager message that is coming; what waits for its receive stays encoded. False: it
 * is too long, or ends within a unit. */
static bool feed(struct p2p *p2p, struct incoming *incoming, const void *data, size_t on_link)
{
    size_t bytes = on_link;
    if (incoming->encoding == NULL ? on_link > incoming->left
                                   : !wire_to_memory(incoming->encoding, dtype_size(incoming->dtype),
                                                     on_link, incoming->left, &bytes))
        return false;
    if (incoming->arrival != NULL) {
        copy(incoming->destination, data, on_link);
        incoming->destination += on_link;
    } else if (incoming->destination != NULL) {
        payload_get(p2p->level, incoming->encoding, incoming->dtype, data, bytes,
                    incoming->destination);
        incoming->destination += bytes;
    }
    incoming->left -= bytes;
    if (incoming->left > 0) return true;
    if (incoming->request != NULL) finish(p2p, incoming->request, TUTTI_OK);
    *incoming = (struct incoming){0};
    return true;
}

/* A receive has met an announcement: it says so, or copies first. */
static void answer(struct p2p *p2p, struct p2p_request *request, uint64_t id,
                   const struct link_reference *reference, bool fits)
{
    struct peer *const peer = &p2p->peers[request->source];
    request->id = id;
    request->reference = *reference;
    request->state = fits ? RECV_COME : RECV_DROP;
    if (!fits || reference->kind == 0 || (peer->messages_in->capabilities & LINK_REFERS) == 0) {
        queue_push(&peer->answers, request);
        return;
    }
    queue_push(&peer->copying, request);
    p2p->coming_count++;
}

/* A new message meets the receive that was posted for it. */
static void receive_posted(struct p2p *p2p, int source, const struct announcement *message,
                           struct p2p_request *request)
{
    const struct envelope *envelope = &message->envelope;
    const struct meeting met = {source,
                                envelope->tag,
                                (enum tutti_dtype)envelope->dtype,
                                envelope->bytes,
                                envelope_encoding(envelope),
                                p2p->agrees};
    const bool fits = meet(&met, request);
    if (envelope->kind == ENVELOPE_ANNOUNCEMENT) {
        answer(p2p, request, message->id, &message->reference, fits);
        return;
    }
    p2p->peers[source].incoming = (struct incoming){.left = envelope->bytes,
                                                    .dtype = met.dtype,
                                                    .encoding = met.encoding,
                                                    .destination = fits ? request->buffer : NULL,
                                                    .request = fits ? request : NULL};
    if (!fits) finish(p2p, request, request->status);
}

/* A new message has nobody to receive it yet; false where there is no room for it to wait. */
static bool keep_unexpected(struct p2p *p2p, int source, const struct announcement *message)
{
    const struct envelope *envelope = &message->envelope;
    const bool announced = envelope->kind == ENVELOPE_ANNOUNCEMENT;
    const enum tutti_dtype dtype = (enum tutti_dtype)envelope->dtype;
    const struct kernel_encoding *const encoding = envelope_encoding(envelope);
    struct arrival *const arrival =
        match_add_arrival(&p2p->matcher, source, envelope->tag,
                          announced ? 0 : payload_on_link(encoding, dtype, envelope->bytes));
    if (arrival == NULL) return false;
    arrival->dtype = dtype;
    arrival->encoding = encoding;
    arrival->bytes = envelope->bytes;
    arrival->announced = announced;
    arrival->id = message->id;
    arrival->reference = message->reference;
    if (!announced)
        p2p->peers[source].incoming = (struct incoming){.left = envelope->bytes,
                                                        .dtype = dtype,
                                                        .encoding = encoding,
                                                        .destination = arrival->payload,
                                                        .arrival = arrival};
    return true;
}

/* The first piece of a message; false: it stays where it is. */
static bool take_message(struct p2p *p2p, int source, const struct link_view *view)
{
    struct peer *const peer = &p2p->peers[source];
    struct announcement message;
    const char *const wrong = envelope_read(view->data, view->bytes, &message);
    if (wrong != NULL) return blame(p2p, source, wrong);
    const bool announced = message.envelope.kind == ENVELOPE_ANNOUNCEMENT;
    if (announced) {
        const enum tutti_status status = open_for_payload(p2p, source);
        if (status != TUTTI_OK) return give_up(p2p, source, &message.envelope, status);
    }
    struct p2p_request *const request =
        match_take_posted(&p2p->matcher, source, message.envelope.tag);
    if (request != NULL) {
        receive_posted(p2p, source, &message, request);
    } else if (!keep_unexpected(p2p, source, &message)) {
        hold_back(p2p, peer);
        return false;
    }
    return announced ||
           feed(p2p, &peer->incoming, (const char *)view->data + sizeof message.envelope,
                view->bytes - sizeof message.envelope) ||
           blame(p2p, source, "it is not as long as it says");
}

/* A later piece. */
static bool take_piece(struct p2p *p2p, int source, const struct link_view *view)
{
    struct incoming *const incoming = &p2p->peers[source].incoming;
    return (view->bytes > 0 && feed(p2p, incoming, view->data, view->bytes)) ||
           blame(p2p, source, "it is not as long as it says");
}

static bool receive_messages(struct p2p *p2p, int source)
{
    struct peer *const peer = &p2p->peers[source];
    struct link_rx *const link = peer->messages_in;
    bool moved = false;
    for (int i = 0; i < MESSAGES_A_PASS && !peer->held; i++, moved = true) {
        struct link_view view;
        if (look(p2p, source, link, &view) != LINK_READY) break;
        if (peer->incoming.left > 0 ? !take_piece(p2p, source, &view)
                                    : !take_message(p2p, source, &view))
            break;
        link->ops->consume(link, view.bytes);
    }
    return moved;
}

/* Tells senders of announced messages that they may come, or that nobody wants them. */
static bool push_answers(struct p2p *p2p, struct peer *peer)
{
    struct link_tx *const link = peer->answers_out.link;
    bool moved = false;
    for (int i = 0; i < MESSAGES_A_PASS && peer->answers.first != NULL; i++, moved = true) {
        static const uint32_t kinds[] = {
            [RECV_COME] = ANSWER_COME, [RECV_DROP] = ANSWER_DROP, [RECV_COPIED] = ANSWER_COPIED};
        const int state = peer->answers.first->state;
        const struct answer answer = {kinds[state], 0, peer->answers.first->id};
        void *const place = link->ops->reserve(link, sizeof answer);
        if (place == NULL) break;
        memcpy(place, &answer, sizeof answer);
        link->ops->commit(link, sizeof answer);
        struct p2p_request *const request = queue_take(&peer->answers, NULL);
        if (state != RECV_COME) {
            finish(p2p, request, request->status);
            continue;
        }
        queue_push(&peer->coming, request);
        p2p->coming_count++;
    }
    return moved;
}

static bool take_answer(struct p2p *p2p, int rank, const struct link_view *view)
{
    struct peer *const peer = &p2p->peers[rank];
    struct answer answer;
    const char *const wrong = answer_read(view->data, view->bytes, &answer);
    if (wrong != NULL) return blame(p2p, rank, wrong);
    struct p2p_request *previous = NULL, *request = peer->announced.first;
    while (request != NULL && request->id != answer.id) {
        previous = request;
        request = request->next;
    }
    if (request == NULL) return blame(p2p, rank, "it answers what was not asked");
    const bool refers = request->reference.kind != 0;
    if (answer.kind == ANSWER_COPIED && !refers)
        return blame(p2p, rank, "it has copied what it cannot know");
    queue_take(&peer->announced, previous);
    p2p->referred_count -= refers;
    if (answer.kind == ANSWER_COME)
        queue_push(&peer->payloads, request);
    else
        finish(p2p, request, TUTTI_OK);
    return true;
}

static bool receive_answers(struct p2p *p2p, int rank)
{
    struct peer *const peer = &p2p->peers[rank];
    struct link_rx *const link = peer->answers_in;
    bool moved = false;
    for (int i = 0; i < MESSAGES_A_PASS && peer->announced.first != NULL; i++, moved = true) {
        struct link_view view;
        if (look(p2p, rank, link, &view) != LINK_READY || !take_answer(p2p, rank, &view)) break;
        link->ops->consume(link, view.bytes);
    }
    return moved;
}

/* The next bytes of a link are the rest of a payload. */
static void expect(struct link_rx *link, struct p2p_request *request, size_t left)
{
    if (request->is_expected || request->encoding != NULL ||
        (link->capabilities & LINK_PLACES_DIRECTLY) == 0)
        return;
    request->is_expected = true;
    link->ops->place_directly(link, (char *)request->buffer + request->moved_bytes, left);
}

/* Payloads of announced messages, straight to where they belong. */
static bool receive_payloads(struct p2p *p2p, int source)
{
    struct peer *const peer = &p2p->peers[source];
    struct link_rx *const link = peer->payloads_in;
    const size_t most = sizes_of(p2p)->message_bytes_a_pass;
    size_t budget = most;
    while (peer->coming.first != NULL && budget > 0) {
        struct p2p_request *const request = peer->coming.first;
        struct link_view view;
        const enum link_state state = link->ops->peek(link, &view);
        const size_t left = request->sent_bytes - request->moved_bytes;
        if (state == LINK_EMPTY) {
            expect(link, request, left);
            break;
        }
        size_t bytes;
        if (state == LINK_FAULT || !payload_take(p2p->level, link, &view, budget, request, &bytes)) {
            blame(p2p, source, "its payload is not as long as announced");
            break;
        }
        if (bytes == 0) break;
        link->ops->consume(link, bytes);
        budget -= bytes < budget ? bytes : budget;
        if (request->moved_bytes < request->sent_bytes) continue;
        queue_take(&peer->coming, NULL);
        p2p->coming_count--;
        finish(p2p, request, TUTTI_OK);
    }
    return budget < most;
}

/* Payloads of announced messages that came with a reference. */
static bool copy_referred(struct p2p *p2p, int source)
{
    struct peer *const peer = &p2p->peers[source];
    struct link_rx *const link = peer->messages_in;
    const size_t most = sizes_of(p2p)->message_bytes_a_pass;
    size_t budget = most;
    while (peer->copying.first != NULL && budget > 0) {
        struct p2p_request *const request = peer->copying.first;
        const size_t left = request->sent_bytes - request->moved_bytes,
                     bytes = left < budget ? left : budget;
        const enum link_state state =
            link->ops->copy(link, &request->reference, request->moved_bytes,
                            (char *)request->buffer + request->moved_bytes, bytes);
        if (state == LINK_FAULT) blame(p2p, source, "it refers to no memory of its own");
        if (state != LINK_READY) break;
        budget -= bytes;
        request->moved_bytes += bytes;
        if (request->moved_bytes < request->sent_bytes) continue;
        request->state = RECV_COPIED;
        queue_push(&peer->answers, queue_take(&peer->copying, NULL));
        p2p->coming_count--;
    }
    return budget < most;
}

/* --------------------------------------------------------------------------- unexpected and own */

static void receive_own(struct p2p *p2p, struct p2p_request *receive, struct p2p_request *send)
{
    const struct meeting met = {p2p->rank, send->tag, send->dtype, send->bytes, NULL, p2p->agrees};
    if (meet(&met, receive) && send->bytes > 0) memmove(receive->buffer, send->buffer, send->bytes);
    finish(p2p, send, TUTTI_OK);
    finish(p2p, receive, receive->status);
}

/* A message to this rank itself that nobody receives yet. A small message leaves its sender as it
 * does with other ranks. */
static bool keep_own(struct p2p *p2p, struct p2p_request *send)
{
    struct matcher *const matcher = &p2p->matcher;
    struct arrival *arrival = NULL;
    if (send->state == SEND_EAGER)
        arrival = match_add_arrival(matcher, p2p->rank, send->tag, send->bytes);
    const bool announced = arrival == NULL;
    if (announced) arrival = match_add_arrival(matcher, p2p->rank, send->tag, 0);
    if (arrival == NULL) return false;
    arrival->dtype = send->dtype;
    arrival->encoding = NULL;
    arrival->bytes = send->bytes;
    arrival->announced = announced;
    queue_take(&p2p->peers[p2p->rank].sends, NULL);
    if (announced) {
        arrival->sender = send;
    } else {
        copy(arrival->payload, send->buffer, send->bytes);
        finish(p2p, send, TUTTI_OK);
    }
    return true;
}

static bool deliver_own(struct p2p *p2p)
{
    struct peer *const own = &p2p->peers[p2p->rank];
    bool moved = false;
    for (; own->sends.first != NULL && !own->held; moved = true) {
        struct p2p_request *const receive =
            match_take_posted(&p2p->matcher, p2p->rank, own->sends.first->tag);
        if (receive != NULL) {
            receive_own(p2p, receive, queue_take(&own->sends, NULL));
        } else if (!keep_own(p2p, own->sends.first)) {
            hold_back(p2p, own);
            break;
        }
    }
    return moved;
}

/* A new receive meets a message that came before it. */
static void receive_arrival(struct p2p *p2p, struct p2p_request *request, struct arrival *arrival)
{
    if (arrival->sender != NULL) {
        receive_own(p2p, request, arrival->sender);
        return;
    }
    const struct meeting met = {arrival->source, arrival->tag,      arrival->dtype,
                                arrival->bytes,  arrival->encoding, p2p->agrees};
    const bool fits = meet(&met, request);
    if (arrival->announced) {
        answer(p2p, request, arrival->id, &arrival->reference, fits);
        push_answers(p2p, &p2p->peers[arrival->source]);
        return;
    }
    struct incoming *const incoming = &p2p->peers[arrival->source].incoming;
    const bool whole = incoming->arrival != arrival;
    const size_t bytes = whole ? arrival->bytes : arrival->bytes - incoming->left;
    if (fits)
        payload_get(p2p->level, arrival->encoding, arrival->dtype, arrival->payload, bytes,
                    request->buffer);
    if (!whole) { /* the rest goes to the receive, or nowhere */
        incoming->arrival = NULL;
        incoming->destination = fits ? (char *)request->buffer + bytes : NULL;
        incoming->request = fits ? request : NULL;
    }
    if (!fits || whole) finish(p2p, request, request->status);
}

/* --------------------------------------------------------------------------------------- public */

enum tutti_status p2p_create(struct transport *transport, int slot,
                             const struct p2p_options *options, struct p2p **p2p)
{
    *p2p = NULL;
    size_t piece_bytes;
    unsigned piece_count;
    transport->ops->limits(transport, &piece_bytes, &piece_count);
    if (piece_bytes < sizeof(struct announcement))
        return error_set(TUTTI_UNSUPPORTED, "messages: a link takes only %zu bytes at once",
                         piece_bytes);
    const size_t size = (size_t)transport->size;
    struct p2p *const created = calloc(1, sizeof *created + size * sizeof *created->peers);
    if (created == NULL) return error_set(TUTTI_NO_MEMORY, "messages: out of memory");
    created->transport = transport;
    created->slot = slot;
    created->rank = transport->rank;
    created->size = transport->size;
    created->eager_bytes_max = options->eager_bytes_max;
    created->piece_bytes = piece_bytes;
    const size_t payload_bytes_max = transport->paths.tables[0]->sizes.piece_bytes_max;
    created->payload_piece_bytes = piece_bytes < payload_bytes_max ? piece_bytes : payload_bytes_max;
    created->shares_cores = options->shares_cores;
    created->fault_peer = -1;
    created->finished = options->finished;
    created->agrees = options->agrees;
    created->level = options->level;
    const enum tutti_status status =
        match_init(&created->matcher, transport->size, options->unexpected_bytes_max,
                   options->unexpected_count_max);
    if (status != TUTTI_OK) {
        free(created);
        return status;
    }
    transport->signatures[slot] = P2P_SIGNATURE;
    *p2p = created;
    return TUTTI_OK;
}

void p2p_free(struct p2p *p2p)
{
    if (p2p == NULL) return;
    match_release(&p2p->matcher);
    free(p2p);
}

enum tutti_status p2p_listen(struct p2p *p2p)
{
    if (p2p->listens) return TUTTI_OK;
    for (int r = 0; r < p2p->size; r++)
        if (r != p2p->rank) TRY(open_in(p2p, r, P2P_CHANNEL_MESSAGES, &p2p->peers[r].messages_in));
    p2p->listens = true;
    return TUTTI_OK;
}

static void start_receive(struct p2p *p2p, struct p2p_request *request)
{
    struct arrival *const arrival = match_take_arrival(&p2p->matcher, request->peer, request->tag);
    if (arrival == NULL) {
        match_post(&p2p->matcher, request);
        look_again(p2p, request->peer);
        return;
    }
    receive_arrival(p2p, request, arrival);
    match_free_arrival(&p2p->matcher, arrival);
    look_again(p2p, TUTTI_ANY_RANK);
}

static bool fits_pieces(const struct p2p *p2p, const struct kernel_encoding *encoding)
{
    return encoding == NULL || (encoding->unit_bytes <= p2p->payload_piece_bytes &&
                                encoding->unit_bytes <= p2p->piece_bytes - sizeof(struct envelope));
}

enum tutti_status p2p_start(struct p2p *p2p, struct p2p_request *request)
{
    assert(request->bytes % tutti_dtype_size(request->dtype) == 0);
    assert(request->peer < p2p->size && (request->peer >= 0 || !request->is_send));
    assert(request->tag >= 0 || !request->is_send);
    TRY(p2p_listen(p2p));
    request->done = false;
    request->moved_bytes = 0;
    request->is_expected = false;
    if (!request->is_send) {
        p2p->active_count++;
        start_receive(p2p, request);
        return TUTTI_OK;
    }
    assert(request->encoding == NULL || request->peer != p2p->rank);
    if (!fits_pieces(p2p, request->encoding))
        return error_set(TUTTI_UNSUPPORTED, "a message: no unit of %s fits a piece of %zu bytes",
                         request->encoding->name, p2p->payload_piece_bytes);
    request->state =
        payload_on_link(request->encoding, request->dtype, request->bytes) <= p2p->eager_bytes_max
            ? SEND_EAGER
            : SEND_RENDEZVOUS;
    if (request->peer != p2p->rank) TRY(open_for_send(p2p, request));
    struct peer *const peer = &p2p->peers[request->peer];
    p2p->active_count++;
    queue_push(&peer->sends, request);
    if (request->peer == p2p->rank)
        deliver_own(p2p);
    else
        push_messages(p2p, peer);
    return TUTTI_OK;
}

bool p2p_take_back(struct p2p *p2p, struct p2p_request *request)
{
    assert(!request->is_send);
    if (request->done || !match_take_back(&p2p->matcher, request)) return false;
    p2p->active_count--;
    return true;
}

static bool progress_peer(struct p2p *p2p, int rank)
{
    struct peer *const peer = &p2p->peers[rank];
    bool moved = receive_messages(p2p, rank);
    if (peer->announced.first != NULL) moved |= receive_answers(p2p, rank);
    if (peer->answers.first != NULL) moved |= push_answers(p2p, peer);
    if (peer->sends.first != NULL) moved |= push_messages(p2p, peer);
    /* Before anything is copied out here, which takes long: then the peer copies meanwhile. */
    if (peer->payloads.first != NULL) moved |= push_payloads(p2p, peer);
    if (peer->coming.first != NULL) moved |= receive_payloads(p2p, rank);
    if (peer->copying.first != NULL && copy_referred(p2p, rank)) {
        moved = true;
        push_answers(p2p, peer);
    }
    if (peer->referenced.first != NULL) moved |= release_referenced(p2p, peer);
    return moved;
}

bool p2p_progress(struct p2p *p2p)
{
    bool moved = false;
    if (!p2p->listens) return false;
    p2p->turn = p2p->turn + 1 < p2p->size ? p2p->turn + 1 : 0;
    int rank = p2p->turn;
    for (int i = 0; i < p2p->size && !is_stopped(p2p); i++) {
        moved |= rank == p2p->rank ? deliver_own(p2p) : progress_peer(p2p, rank);
        rank = rank + 1 < p2p->size ? rank + 1 : 0;
    }
    return moved;
}

bool p2p_is_busy(const struct p2p *p2p)
{
    return p2p->active_count > 0;
}

bool p2p_is_referenced(const struct p2p *p2p)
{
    if (p2p->referred_count > 0) return true;
    for (int r = 0; r < p2p->size; r++)
        if (p2p->peers[r].referenced.first != NULL) return true;
    return false;
}

int p2p_fault(const struct p2p *p2p)
{
    return p2p->fault_peer;
}

enum tutti_status p2p_status(const struct p2p *p2p)
{
    return p2p->status;
}

int p2p_held_back(const struct p2p *p2p, int peer)
{
    for (int r = 0; p2p->held_count > 0 && r < p2p->size; r++)
        if ((peer == TUTTI_ANY_RANK || peer == r) && p2p->peers[r].held) return r;
    return -1;
}

void p2p_describe_unexpected(const struct p2p *p2p, char *text, size_t text_bytes)
{
    const struct arrival *const first = p2p->matcher.arrivals.oldest;
    if (first != NULL)
        snprintf(text, text_bytes, "rank %d with tag %d", first->source, first->tag);
    else if (text_bytes > 0)
        text[0] = '\0';
}
