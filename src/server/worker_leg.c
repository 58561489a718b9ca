#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "server/worker_state.h"

static enum tutti_status start_messages(struct worker_leg *leg, const struct worker_line *line,
                                        const struct tutti_call_options *options)
{
    const int tag = SERVER_TAG_REPLY + 2 * leg->slot;
    leg->reply_message.size_bytes = leg->reply_payload_message.size_bytes =
        sizeof leg->reply_message;
    if (!leg->has_no_reply)
        TRY(tutti_recv_start(&leg->reply, sizeof leg->reply, TUTTI_UINT8, line->peer, tag,
                             &leg->reply_message, options, line->comm, &leg->messages[LEG_REPLY]));
    if (leg->reply_bytes > 0)
        TRY(tutti_recv_start(leg->reply_payload, leg->reply_bytes, TUTTI_UINT8, line->peer, tag + 1,
                             &leg->reply_payload_message, options, line->comm,
                             &leg->messages[LEG_REPLY_PAYLOAD]));
    TRY(tutti_send_start(leg->request, leg->request_bytes, TUTTI_UINT8, line->peer,
                         SERVER_TAG_REQUEST, options, line->comm, &leg->messages[LEG_REQUEST]));
    if (leg->payload_bytes == 0) return TUTTI_OK;
    return tutti_send_start(leg->payload, leg->payload_bytes, TUTTI_UINT8, line->peer,
                            SERVER_TAG_PAYLOAD, options, line->comm, &leg->messages[LEG_PAYLOAD]);
}

static void keep_failure(struct worker_leg *leg, enum tutti_status status)
{
    char text[ERROR_TEXT_MAX];
    if (leg->status != TUTTI_OK) return;
    error_copy(text, sizeof text);
    leg->status = status;
    leg->text = strdup(text);
}

void leg_start(struct worker_leg *leg, struct worker_line *line, uint64_t timeout_ns)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.timeout_ns = timeout_ns;
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
static bool end_message(struct worker_leg *leg, int which, bool blocks)
{
    struct tutti_request **const message = &leg->messages[which];
    if (*message == NULL) return true;
    const enum tutti_status status = blocks ? tutti_wait(message) : tutti_test(message);
    if (status == TUTTI_IN_PROGRESS) return false;
    if (status != TUTTI_OK) keep_failure(leg, status);
    return true;
}

/* The server refused, so no payload comes. */
static void give_up_payload(struct worker_leg *leg)
{
    struct tutti_request **const message = &leg->messages[LEG_REPLY_PAYLOAD];
    if (*message != NULL && tutti_cancel(message) != TUTTI_OK && *message != NULL) {
        (void)tutti_comm_abort(leg->line->comm, "the server's answer makes no sense");
        (void)!tutti_wait(message);
    }
}

static void read_reply(struct worker_leg *leg)
{
    const enum tutti_status status =
        server_reply_read(&leg->reply, leg->reply_message.count, leg->reply_bytes);
    leg->is_answered = status != TUTTI_INTERNAL;
    if (status != TUTTI_OK)
        keep_failure(leg, status);
    else if (leg->reply.payload_bytes != leg->reply_bytes)
        keep_failure(leg, error_set(TUTTI_INTERNAL, "the server's answer has the wrong size"));
    if (leg->status != TUTTI_OK) give_up_payload(leg);
}

bool leg_is_lost(const struct worker_leg *leg)
{
    return leg->status != TUTTI_OK && !(leg->is_answered && (leg->status == TUTTI_TIMEOUT ||
                                                             leg->status == TUTTI_INVALID_COUNT));
}

bool leg_finish(struct worker_leg *leg, bool blocks)
{
    if (leg->line == NULL) return true;
    if (leg->messages[LEG_REPLY] != NULL) {
        if (!end_message(leg, LEG_REPLY, blocks)) return false;
        if (leg->status == TUTTI_OK) read_reply(leg);
    }
    for (int i = 0; i < LEG_MESSAGES; i++)
        if (!end_message(leg, i, blocks)) return false;
    if (leg->status == TUTTI_OK && leg->reply_bytes > 0 &&
        leg->reply_payload_message.count != leg->reply_bytes)
        keep_failure(leg, error_set(TUTTI_INTERNAL, "the server's values have the wrong size"));
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
    if (leg->request == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for a request");
    memcpy(leg->request, from->request, from->request_bytes);
    leg->request_bytes = from->request_bytes;
    leg->payload = from->payload;
    leg->payload_bytes = from->payload_bytes;
    leg->shares_payload = true;
    return TUTTI_OK;
}

void leg_release(struct worker_leg *leg)
{
    free(leg->request);
    if (!leg->shares_payload) free(leg->payload);
    free(leg->reply_payload);
    free(leg->text);
}
