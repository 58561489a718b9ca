/* message.c - point to point on a communicator: requests for p2p's messages, and why one is stuck.
 *
 * Messages are moved with everything else (calls_progress) by whoever holds the domain; once
 * somebody has sent or received, also by ranks that only wait in a collective, so that small
 * messages leave their senders. Messages of threads that find the domain taken line up for whoever
 * has it: who has it may be waiting for just these. Their slot on the board says when this rank may
 * be reading a peer's memory, so that peers can wait for that when something fails.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "base/sized.h"
#include "base/status.h"
#include "call/communicator.h"
#include "call/diagnose.h"
#include "call/encoded.h"
#include "call/message.h"
#include "call/request.h"
#include "call/staged.h"
#include "encoding/encoding.h"
#include "health/failure.h"
#include "health/known.h"
#include "health/lock.h"
#include "health/network.h"
#include "health/quiesce.h"
#include "health/remote_rank.h"
#include "team/options.h"

enum {
    UNEXPECTED_COUNT_MAX = 65536,
    LONG_NS = 1500000000u, /* after this, whether the peer runs is of interest */
    STUCK_NS = 100000000   /* a receive that nothing can reach is given up after this */
};

/* ------------------------------------------------------------------------ a communicator of one */

/* Messages to oneself need no links, and the rest of a transport never. */
static const struct path_table alone_paths = {.name = "alone", .sizes = PATH_SIZES};

static void alone_limits(struct transport *transport, size_t *piece_bytes_max,
                         unsigned *piece_count_max)
{
    (void)transport;
    *piece_bytes_max = alone_paths.sizes.piece_bytes_max;
    *piece_count_max = 1;
}

static enum tutti_status alone_open_tx(struct transport *transport, int slot, int channel, int peer,
                                       size_t bytes, struct link_tx **link)
{
    (void)transport, (void)slot, (void)channel, (void)peer, (void)bytes, (void)link;
    return error_set(TUTTI_INTERNAL, "a communicator of one has no links");
}

static enum tutti_status alone_open_rx(struct transport *transport, int slot, int channel, int peer,
                                       struct link_rx **link)
{
    (void)transport, (void)slot, (void)channel, (void)peer, (void)link;
    return error_set(TUTTI_INTERNAL, "a communicator of one has no links");
}

static void alone_sleep_unsupported(struct transport *transport)
{
    (void)transport;
}

static void alone_sleep_for_unsupported(struct transport *transport, uint64_t timeout_ns)
{
    (void)transport, (void)timeout_ns;
}

static const struct transport_ops alone_ops = {
    .limits = alone_limits,
    .open_tx = alone_open_tx,
    .open_rx = alone_open_rx,
    .sleep_begin = alone_sleep_unsupported,
    .sleep_cancel = alone_sleep_unsupported,
    .sleep = alone_sleep_for_unsupported,
    .wake = alone_sleep_unsupported,
    .wake_all = alone_sleep_unsupported,
    .progress = transport_no_progress,
    .flush = transport_no_flush,
    .is_awaited = transport_not_awaited,
    .is_settled = transport_owes_nothing,
    .stop = transport_stops_nothing,
    .descriptor = transport_no_descriptor,
    .corrupt_rank = transport_no_corrupt_rank,
    .shortage = transport_no_shortage,
    .add_footprint = transport_no_footprint,
};

/* ---------------------------------------------------------------------------- lists of requests */

static void count(struct tutti_comm *comm, uint32_t more)
{
    atomic_store_explicit(&comm->messages.count,
                          atomic_load_explicit(&comm->messages.count, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static void add(struct tutti_comm *comm, struct message_request *request)
{
    message_list_insert(&comm->messages.watch.first, &request->base);
    count(comm, 1);
}

static void take_out(struct tutti_comm *comm, struct message_request *request)
{
    message_list_take_out(&request->base);
    count(comm, UINT32_MAX);
}

static enum tutti_status truncated(const struct message_request *request)
{
    const struct p2p_request *m = &request->message;
    char what[96];
    message_describe(&request->call, what, sizeof what);
    return error_set(TUTTI_TRUNCATED, "%s: rank %d sent %zu elements of %s with tag %d", what,
                     m->source, m->sent_bytes / dtype_size(m->sent_dtype),
                     tutti_dtype_name(m->sent_dtype), m->message_tag);
}

/* A receive did not agree to the encoding of a message. */
static enum tutti_status mismatched(const struct message_request *request)
{
    const struct p2p_request *m = &request->message;
    const struct tutti_comm *comm = request->base.comm;
    char what[96], who[128], asks[ENCODING_WISH_TEXT_MAX + 32] = "allows no encoding of it";
    struct call_encoding own;
    message_describe(&request->call, what, sizeof what);
    health_name_rank(&comm->health, m->source, who, sizeof who);
    call_encoding_find_message(comm, request->call.encoding, m->dtype, m->sent_bytes, m->source,
                               &own);
    if (own.encoding != NULL) {
        char wish[ENCODING_WISH_TEXT_MAX];
        encoding_wish_describe(&own.wish, wish, sizeof wish);
        snprintf(asks, sizeof asks, "asks for %s", wish);
    }
    const bool is_encoded = m->encoding != NULL;
    return error_set(
        TUTTI_MISMATCH, "%s: %s sent %zu elements of %s with tag %d, %sencoded%s%s, and rank %d %s",
        what, who, m->sent_bytes / dtype_size(m->sent_dtype), tutti_dtype_name(m->sent_dtype),
        m->message_tag, is_encoded ? "" : "not ", is_encoded ? " as " : "",
        is_encoded ? m->encoding->name : "", comm->team.rank, asks);
}

static enum tutti_status received(const struct message_request *request)
{
    switch (request->message.status) {
    case TUTTI_TRUNCATED: return truncated(request);
    case TUTTI_MISMATCH: return mismatched(request);
    default: return request->message.status;
    }
}

/* p2p asks this of a message that has met a receive; the domain is held. */
static bool agrees(const struct p2p_request *message)
{
    const struct message_request *request =
        (const struct message_request *)((const char *)message -
                                         offsetof(struct message_request, message));
    struct call_encoding own;
    call_encoding_find_message(request->base.comm, request->call.encoding, message->sent_dtype,
                               message->sent_bytes, message->source, &own);
    return message->encoding == own.encoding || (message->encoding == NULL && !own.wish.is_required);
}

/* p2p calls this when a message is done; the domain is held. */
static void finished(struct p2p_request *message)
{
    struct message_request *request =
        (struct message_request *)((char *)message - offsetof(struct message_request, message));
    struct tutti_message *result = request->call.result;
    if (result != NULL && !message->is_send) {
        const struct tutti_message own = {.source = message->source,
                                          .tag = message->message_tag,
                                          .count =
                                              message->received_bytes / dtype_size(message->dtype)};
        SIZED_WRITE(tutti_message, result, request->call.result_bytes, &own);
    }
    if (message->encoding != NULL && !message->is_send)
        recorder_note_encoding(&request->base.comm->health.message_recorder, request->record,
                               encoding_named(message->encoding));
    take_out(request->base.comm, request);
    request_finish(&request->base, received(request));
}

/* --------------------------------------------------------------------------------------- moving */

static enum tutti_status open_p2p(struct tutti_comm *comm)
{
    board_begin_messages(comm->health.board);
    struct p2p_options options = {.unexpected_count_max = UNEXPECTED_COUNT_MAX,
                                  .shares_cores = comm->team.members.oversubscribed,
                                  .finished = finished,
                                  .agrees = agrees,
                                  .level = comm->team.settings.level};
    TRY(options_unexpected(&options.unexpected_bytes_max));
    TRY(recorder_init(&comm->health.message_recorder));
    struct transport *transport = comm->team.transports.set.all;
    if (comm->team.size == 1) {
        comm->messages.alone = (struct transport){.ops = &alone_ops,
                                                  .sharing = &transport_shares_nothing,
                                                  .size = 1,
                                                  .paths.tables = {&alone_paths}};
        transport_own_slots(&comm->messages.alone);
        transport = &comm->messages.alone;
    }
    options.eager_bytes_max = transport->paths.tables[0]->sizes.eager_bytes_max;
    struct p2p *created;
    TRY(p2p_create(transport, TRANSPORT_SLOT_MESSAGES, &options, &created));
    const enum tutti_status status = p2p_listen(created);
    if (status == TUTTI_OK)
        comm->messages.p2p = created;
    else
        p2p_free(created);
    return status;
}

static inline enum tutti_status ensure_p2p(struct tutti_comm *comm)
{
    return __builtin_expect(comm->messages.p2p != NULL, 1) ? TUTTI_OK : open_p2p(comm);
}

/* Nothing of the failed communicator moves any more. Peers may be reading what was posted to
 * them. */
static void fail_all(struct tutti_comm *comm)
{
    const enum tutti_status status = health_check(&comm->health);
    const struct engagement engagement = {.slot = TRANSPORT_SLOT_MESSAGES,
                                          .begun = comm->messages.pass,
                                          .any_referenced = comm->messages.p2p != NULL &&
                                                            p2p_is_referenced(comm->messages.p2p)};
    if (comm->team.size > 1) health_quiesce(&comm->health, &engagement);
    for (struct tutti_request *any; (any = message_watch_any(&comm->messages.watch)) != NULL;) {
        struct message_request *request = request_message(any);
        take_out(comm, request);
        request_finish(&request->base, status);
    }
}

static bool move_messages(struct tutti_comm *comm)
{
    struct board_call *calls = health_own_calls(&comm->health, TRANSPORT_SLOT_MESSAGES);
    static const struct call_description nothing;
    board_begin(calls, &nothing, ++comm->messages.pass);
    health_publish(&comm->team);
    const bool moved = !board_has_failed(comm->health.board) && p2p_progress(comm->messages.p2p);
    board_end(calls, comm->messages.pass);
    return moved;
}

/* As the recorder has it, in the place of an op. */
static unsigned encoding_of_message(const struct p2p_request *message)
{
    return message->encoding == NULL ? TUTTI_ENCODING_NONE : encoding_named(message->encoding);
}

static void record(struct tutti_comm *comm, struct message_request *request)
{
    const struct message_call *call = &request->call;
    request->record = recorder_next(&comm->health.message_recorder);
    recorder_begin(&comm->health.message_recorder, request->record, clock_ticks(),
                   record_what(call->is_send ? RECORD_SEND : RECORD_RECV, call->dtype,
                               encoding_of_message(&request->message), TRANSPORT_SLOT_MESSAGES,
                               false, false, CALL_FOR_USER),
                   call->count, call->peer, (uint64_t)(int64_t)call->tag, NULL);
}

/* How a message goes to its receiver. Of a receive it follows when a message has met it. */
static enum tutti_status find_encoding(const struct tutti_comm *comm,
                                       const struct message_call *call, struct p2p_request *message)
{
    struct call_encoding found;
    message->minds_encoding = call->encoding != 0 || comm->team.settings.encodings != NULL;
    if (!message->minds_encoding || !call->is_send) return TUTTI_OK;
    call_encoding_find_message(comm, call->encoding, call->dtype, message->bytes, call->peer,
                               &found);
    TRY(call_encoding_choose_message(comm, call->dtype, message->bytes, call->peer, &found));
    message->encoding = found.encoding;
    return TUTTI_OK;
}

static enum tutti_status begin(struct tutti_comm *comm, struct message_request *request)
{
    const struct message_call *call = &request->call;
    if (board_has_failed(comm->health.board)) return health_check(&comm->health);
    TRY(ensure_p2p(comm));
    if (call->is_send) remote_invite(&comm->health, call->peer);
    request->message = (struct p2p_request){.is_send = call->is_send,
                                            .buffer = message_memory(call),
                                            .bytes = call->count * dtype_size(call->dtype),
                                            .dtype = call->dtype,
                                            .peer = call->peer,
                                            .tag = call->tag};
    TRY(find_encoding(comm, call, &request->message));
    record(comm, request);
    add(comm, request);
    const enum tutti_status status = p2p_start(comm->messages.p2p, &request->message);
    if (status == TUTTI_OK) return TUTTI_OK;
    take_out(comm, request);
    recorder_end(&comm->health.message_recorder, request->record, status, false);
    return status;
}

/* A receive that has begun; IN_PROGRESS: it goes on, or is done. */
static enum tutti_status take_back(struct tutti_comm *comm, struct message_request *receive)
{
    if (atomic_load_explicit(&receive->base.done, memory_order_relaxed) ||
        !p2p_take_back(comm->messages.p2p, &receive->message))
        return TUTTI_IN_PROGRESS;
    take_out(comm, receive);
    request_finish(&receive->base, TUTTI_OK);
    return TUTTI_OK;
}

static void begin_one(struct tutti_comm *comm, struct message_request *request)
{
    struct message_request *receive = request->takes_back;
    if (receive != NULL) {
        request_finish(&request->base, take_back(comm, receive));
        return;
    }
    const enum tutti_status status = begin(comm, request); /* OK: it may be done, and used again */
    if (status != TUTTI_OK) request_finish(&request->base, status);
}

/* Begins the requests that threads queued while another thread had the domain, in their order. */
static bool begin_queued(struct tutti_comm *comm)
{
    struct tutti_request *request;
    bool any = false;
    while ((request = request_dequeue(comm, &comm->messages.queue)) != NULL) {
        begin_one(comm, request_message(request));
        atomic_fetch_sub_explicit(&comm->messages.queue.count, 1, memory_order_release);
        any = true;
    }
    return any;
}

/* Fails the communicator if something came that cannot be received. Peers send when they like: a
 * message or call of this rank that is under way need have nothing to do with it, and there may be
 * none. */
static void look_for_faults(struct tutti_comm *comm)
{
    char why[ERROR_TEXT_MAX], who[128];
    const int peer = p2p_fault(comm->messages.p2p);
    const enum tutti_status status = p2p_status(comm->messages.p2p);
    if ((peer < 0 && status == TUTTI_OK) || board_has_failed(comm->health.board)) return;
    error_copy(why, sizeof why); /* of the pass that found it, which was this thread's */
    health_name_rank(&comm->health, peer >= 0 ? peer : comm->team.rank, who, sizeof who);
    if (peer < 0)
        call_fail(comm, NULL, status, comm->team.rank, "%s cannot receive %s", who, why);
    else if (!diagnose_corruption(comm, NULL))
        call_fail(comm, NULL, TUTTI_INTERNAL, peer, "%s sent rank %d %s", who, comm->team.rank, why);
}

bool messages_progress(struct tutti_comm *comm)
{
    bool moved = begin_queued(comm);
    if (comm->messages.p2p == NULL) { /* a peer has begun to send */
        const enum tutti_status status = ensure_p2p(comm);
        if (status != TUTTI_OK) {
            health_fail(&comm->health, NULL, status, comm->team.rank, "%s", tutti_error_message());
            return true;
        }
    }
    moved |= move_messages(comm);
    look_for_faults(comm);
    if (!board_has_failed(comm->health.board) || message_watch_any(&comm->messages.watch) == NULL)
        return moved;
    fail_all(comm);
    return true;
}

/* With the domain held: behind the requests that lined up before. */
enum tutti_status message_begin_held(struct tutti_comm *comm, struct message_request *request)
{
    begin_queued(comm);
    return begin(comm, request);
}

/* Without it. */
void message_enqueue(struct tutti_comm *comm, struct message_request *request)
{
    request_enqueue(comm, &comm->messages.queue, &request->base);
    if (comm->team.transports.set.all != NULL)
        comm->team.transports.set.all->ops->wake(comm->team.transports.set.all);
    if (!domain_try_lock(&comm->team.domain))
        return; /* the thread that has it begins the request */
    begin_queued(comm);
    health_unlock(&comm->health);
}

enum tutti_status message_begin(struct tutti_comm *comm, struct message_request *request)
{
    if (domain_try_lock(&comm->team.domain)) {
        const enum tutti_status status = message_begin_held(comm, request);
        health_unlock(&comm->health);
        TRY(status);
    } else {
        message_enqueue(comm, request);
    }
    if (!atomic_load_explicit(&request->base.done, memory_order_acquire)) progress_notify();
    return TUTTI_OK;
}

/* Any number of threads may send and receive at once: free requests belong to the domain, and
 * others to the line before it. */
struct message_request *message_request_make(struct tutti_comm *comm, bool has_domain)
{
    struct tutti_request *request;
    if (has_domain) {
        request = request_take_free(&comm->messages.free);
    } else {
        pthread_mutex_lock(&comm->requests.lock);
        request = request_take_free(&comm->messages.free_queued);
        pthread_mutex_unlock(&comm->requests.lock);
    }
    if (request == NULL)
        request = request_make(comm, true,
                               has_domain ? &comm->messages.free : &comm->messages.free_queued);
    if (request == NULL) return NULL;
    request_reset(comm, request);
    request_message(request)->takes_back = NULL;
    return request_message(request);
}

enum tutti_status message_take_back(struct tutti_comm *comm, struct message_request *receive)
{
    begin_queued(comm); /* it may be among them */
    return take_back(comm, receive);
}

void messages_free(struct tutti_comm *comm)
{
    p2p_free(comm->messages.p2p);
    comm->messages.p2p = NULL;
}

/* ------------------------------------------------------------------------------ why it is stuck */

/* A rank that left sends nothing more, and receives nothing; of any rank: when all others have
 * left. */
static int leaver_waited_for(const struct tutti_comm *comm, int peer)
{
    if (peer != TUTTI_ANY_RANK)
        return peer != comm->team.rank && known_state(&comm->health, peer) == RANK_LEFT ? peer : -1;
    int leaver = -1;
    for (int r = 0; r < comm->team.size; r++) {
        if (r == comm->team.rank) continue;
        if (known_state(&comm->health, r) != RANK_LEFT) return -1;
        leaver = r;
    }
    return leaver;
}

/* A rank whose messages have no room here, if no other one can send what is waited for either;
 * -1. */
static int held_back(const struct tutti_comm *comm, int peer)
{
    if (peer != TUTTI_ANY_RANK) return p2p_held_back(comm->messages.p2p, peer);
    int held = -1;
    for (int r = 0; r < comm->team.size; r++) {
        if (p2p_held_back(comm->messages.p2p, r) >= 0)
            held = r;
        else if (r != comm->team.rank && known_state(&comm->health, r) != RANK_LEFT)
            return -1;
    }
    return held;
}

/* Whether what would be received cannot come, because others fill the room for unexpected
 * messages. */
static bool fail_held_back(struct tutti_comm *comm, const struct message_request *request, int peer)
{
    if (peer < 0 || request->message.is_send ||
        !atomic_load_explicit(&request->base.is_waited_for, memory_order_relaxed))
        return false;
    char first[64];
    p2p_describe_unexpected(comm->messages.p2p, first, sizeof first);
    call_fail(comm, &request->base, TUTTI_UNEXPECTED_FULL, comm->team.rank,
              "rank %d has no room for messages of rank %d before others are received, first that "
              "of %s",
              comm->team.rank, peer, first);
    return true;
}

/* Everything that a rank ever sent was visible before it left, or has come since. */
static void fail_left(struct tutti_comm *comm, const struct message_request *request, int leaver)
{
    char who[128];
    health_name_rank(&comm->health, leaver, who, sizeof who);
    call_fail(comm, &request->base, TUTTI_PROC_FAILED, leaver,
              "%s left the communicator without this message", who);
}

static void fail_late(struct tutti_comm *comm, const struct message_request *request)
{
    const int peer = request->message.peer;
    char who[128] = "any rank", trouble[COMM_TROUBLE_MAX], why[KNOWN_SILENCE_MAX];
    const bool is_silent =
        peer != TUTTI_ANY_RANK && known_silence(&comm->health, peer, clock_now_ns(), why);
    if (peer != TUTTI_ANY_RANK) health_name_rank(&comm->health, peer, who, sizeof who);
    remote_trouble(&comm->health, peer != TUTTI_ANY_RANK ? peer : -1, trouble);
    call_fail(comm, &request->base, TUTTI_TIMEOUT, peer,
              "rank %d still waits for %s%s%s; deadline of %.3g s%s", comm->team.rank, who,
              is_silent ? ", which " : "", is_silent ? why : "",
              (double)request->call.timeout_ns * 1e-9, trouble);
}

bool diagnose_message(struct tutti_comm *comm, struct message_request *request, uint64_t now_ns)
{
    const uint64_t waited_ns = now_ns - request->base.started_ns;
    const int peer = request->message.peer;
    if (atomic_load_explicit(&request->base.is_waited_for, memory_order_relaxed)) {
        recorder_wait(&comm->health.message_recorder, request->record, peer,
                      request->base.started_ns, now_ns);
        if (waited_ns >= LONG_NS || waited_ns >= request->call.timeout_ns)
            recorder_set_stopped(&comm->health.message_recorder, request->record, peer,
                                 peer != TUTTI_ANY_RANK &&
                                     known_to_be_stopped(&comm->health, peer, now_ns));
    }
    const int leaver = leaver_waited_for(comm, peer);
    comm->messages.watch.looks_again |= leaver >= 0;
    /* Messages of the rank that left may still lie here, and have no room. */
    if (leaver >= 0 && (request->message.is_send || p2p_held_back(comm->messages.p2p, peer) < 0)) {
        network_read_all(&comm->health);
        if (move_messages(comm)) return true;
        if (diagnose_await_last_words(comm, &request->base, peer)) return false;
        fail_left(comm, request, leaver);
        return false;
    }
    const int held = waited_ns >= STUCK_NS ? held_back(comm, peer) : -1;
    if (held >= 0) {
        /* The last message of a rank that has left may have come since the last pass. */
        if (move_messages(comm)) return true;
        if (fail_held_back(comm, request, held)) return false;
    }
    if (waited_ns < request->call.timeout_ns) return false;
    if (!fail_held_back(comm, request, p2p_held_back(comm->messages.p2p, peer)))
        fail_late(comm, request);
    return false;
}
