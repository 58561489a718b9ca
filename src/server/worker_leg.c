#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "server/worker_state.h"

static enum tutti_status start_pieces(struct worker_leg *leg, const struct worker_line *line,
                                      const struct tutti_call_options *options, bool are_received)
{
    const size_t from = are_received ? leg->sent_count : 0;
    const size_t to = are_received ? leg->piece_count : leg->sent_count;
    for (size_t i = from; i < to; i++) {
        struct leg_piece *const piece = &leg->pieces[i];
        piece->message.size_bytes = sizeof piece->message;
        if (piece->size == 0) continue;
        if (are_received)
            TRY(tutti_recv_start(piece->bytes, piece->size, TUTTI_UINT8, line->peer,
                                 SERVER_TAG_REPLY + 2 * leg->slot + 1, &piece->message, options,
                                 line->comm, &piece->request));
        else
            TRY(tutti_send_start(piece->bytes, piece->size, TUTTI_UINT8, line->peer,
                                 SERVER_TAG_PAYLOAD, options, line->comm, &piece->request));
    }
    return TUTTI_OK;
}

static enum tutti_status start_messages(struct worker_leg *leg, const struct worker_line *line,
                                        const struct tutti_call_options *options)
{
    const int tag = SERVER_TAG_REPLY + 2 * leg->slot;
    leg->reply_message.size_bytes = sizeof leg->reply_message;
    if (!leg->has_no_reply)
        TRY(tutti_recv_start(&leg->reply, sizeof leg->reply, TUTTI_UINT8, line->peer, tag,
                             &leg->reply_message, options, line->comm, &leg->reply_received));
    TRY(start_pieces(leg, line, options, true));
    TRY(tutti_send_start(leg->request, leg->request_bytes, TUTTI_UINT8, line->peer,
                         SERVER_TAG_REQUEST, options, line->comm, &leg->request_sent));
    return start_pieces(leg, line, options, false);
}

static void keep_failure(struct worker_leg *leg, enum tutti_status status)
{
    const struct worker_line *const line = leg->line;
    char text[ERROR_TEXT_MAX];
    if (leg->status != TUTTI_OK) return;
    error_copy(text, sizeof text);
    const bool has_failed = line->failed != TUTTI_OK; /* and what came of it is not the reason */
    leg->status = has_failed ? line->failed : status;
    leg->text = strdup(has_failed && line->why != NULL ? line->why : text);
}

/* The server has not kept a push, so its update would lack something: the connection ends. */
static void end_line(const struct worker_leg *leg)
{
    struct worker_line *const line = leg->line;
    if (line->failed != TUTTI_OK) return;
    line->failed = leg->status;
    line->why = leg->text != NULL ? strdup(leg->text) : NULL;
    (void)tutti_comm_abort(line->comm, line->why);
}

void leg_start(struct worker_leg *leg, struct worker_line *line, uint64_t timeout_ns)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.timeout_ns = timeout_ns;
    leg->last_line = line;
    if (line->failed != TUTTI_OK) {
        leg->status = line->failed;
        leg->text = line->why != NULL ? strdup(line->why) : NULL;
        leg->is_answered = true;
        return;
    }
    leg->slot = __builtin_ctzll(~line->used);
    line->used |= UINT64_C(1) << leg->slot;
    leg->line = line;
    leg->request->magic = SERVER_MAGIC;
    leg->request->version = SERVER_VERSION;
    leg->request->slot = (uint32_t)leg->slot;
    leg->request->sequence = ++line->sequence;
    const enum tutti_status status = start_messages(leg, line, &options);
    if (status == TUTTI_OK) return;
    /* Half a request would be taken for one with the payload of the next. */
    keep_failure(leg, status);
    (void)tutti_comm_abort(line->comm, "a request could not be sent as a whole");
}

/* False: it is still on its way. */
static bool end_message(struct worker_leg *leg, struct tutti_request **message, bool blocks)
{
    if (*message == NULL) return true;
    const enum tutti_status status = blocks ? tutti_wait(message) : tutti_test(message);
    if (status == TUTTI_IN_PROGRESS) return false;
    if (status != TUTTI_OK) keep_failure(leg, status);
    return true;
}

/* The server refused, so no payload comes. */
static void give_up_payload(struct worker_leg *leg)
{
    for (size_t i = leg->sent_count; i < leg->piece_count; i++) {
        struct tutti_request **const message = &leg->pieces[i].request;
        if (*message == NULL || tutti_cancel(message) == TUTTI_OK || *message == NULL) continue;
        (void)tutti_comm_abort(leg->line->comm, "the server's answer makes no sense");
        (void)!tutti_wait(message);
    }
}

static void read_reply(struct worker_leg *leg)
{
    const enum tutti_status status =
        server_reply_read(&leg->reply.head, leg->reply_message.count, leg->reply_bytes);
    leg->is_answered = status != TUTTI_INTERNAL;
    if (status != TUTTI_OK)
        keep_failure(leg, status);
    else if (leg->reply.head.payload_bytes != leg->reply_bytes)
        keep_failure(leg, error_set(TUTTI_INTERNAL, "the server's answer has the wrong size"));
    if (leg->status == TUTTI_OK) return;
    if (leg->request->kind == SERVER_PUSH || leg->request->kind == SERVER_SET) end_line(leg);
    give_up_payload(leg);
}

static void check_pieces(struct worker_leg *leg)
{
    for (size_t i = leg->sent_count; i < leg->piece_count && leg->status == TUTTI_OK; i++)
        if (leg->pieces[i].message.count != leg->pieces[i].size)
            keep_failure(leg, error_set(TUTTI_INTERNAL, "the server's values have the wrong size"));
}

bool leg_is_lost(const struct worker_leg *leg)
{
    const bool may_go_on = leg->status == TUTTI_TIMEOUT || leg->status == TUTTI_INVALID_COUNT ||
                           leg->status == TUTTI_MISMATCH;
    return leg->status != TUTTI_OK && !(leg->is_answered && may_go_on);
}

bool leg_finish(struct worker_leg *leg, bool blocks)
{
    if (leg->line == NULL) return true;
    if (leg->reply_received != NULL) {
        if (!end_message(leg, &leg->reply_received, blocks)) return false;
        if (leg->status == TUTTI_OK) read_reply(leg);
    }
    if (!end_message(leg, &leg->request_sent, blocks)) return false;
    for (size_t i = 0; i < leg->piece_count; i++)
        if (!end_message(leg, &leg->pieces[i].request, blocks)) return false;
    check_pieces(leg);
    leg->line->used &= ~(UINT64_C(1) << leg->slot);
    if (leg_is_lost(leg)) leg->line->is_lost = true;
    leg->line = NULL;
    return true;
}

bool leg_move(struct worker_leg *leg, struct worker_line *line, uint64_t timeout_ns)
{
    if (line->used == UINT64_MAX) return false;
    free(leg->text);
    leg->text = NULL;
    leg->status = TUTTI_OK;
    leg->is_answered = false;
    leg_start(leg, line, timeout_ns);
    return true;
}

enum tutti_status leg_copy(const struct worker_leg *from, struct worker_leg *leg)
{
    leg->request = malloc(from->request_bytes);
    leg->pieces = calloc(from->sent_count + 1, sizeof *leg->pieces);
    if (leg->request == NULL || leg->pieces == NULL)
        return error_set(TUTTI_NO_MEMORY, "no memory for a request");
    memcpy(leg->request, from->request, from->request_bytes);
    leg->request_bytes = from->request_bytes;
    leg->payload_bytes = from->payload_bytes;
    for (size_t i = 0; i < from->sent_count; i++)
        leg->pieces[i] =
            (struct leg_piece){.bytes = from->pieces[i].bytes, .size = from->pieces[i].size};
    leg->sent_count = leg->piece_count = from->sent_count;
    return TUTTI_OK;
}

void leg_release(struct worker_leg *leg)
{
    free(leg->request);
    for (size_t i = 0; i < leg->piece_count; i++) block_give(leg->pieces[i].block);
    free(leg->pieces);
    free(leg->text);
}
