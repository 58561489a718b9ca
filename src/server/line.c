#include "server/line.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct line_sent {
    struct line_sent *next;
    struct tutti_request *request;
    void *bytes;
    size_t size;
};

/* No deadline that anybody lives to see. */
static struct tutti_call_options without_deadline(void)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.timeout_ns = UINT64_MAX / 4;
    return options;
}

static enum tutti_status start_receive(struct line *line, void *to, size_t bytes, int tag)
{
    const struct tutti_call_options options = without_deadline();
    line->message = (struct tutti_message){.size_bytes = sizeof line->message};
    TRY(tutti_recv_start(to, bytes, TUTTI_UINT8, line->peer, tag, &line->message, &options,
                         line->comm, &line->receive));
    return tutti_notify(line->receive, line->event_fd);
}

enum tutti_status line_listen(struct line *line)
{
    free(line->payload);
    line->payload = NULL;
    line->state = LINE_HEADER;
    return start_receive(line, line->header, sizeof line->header, line->tag);
}

enum tutti_status line_open(struct line *line, struct tutti_comm *comm, int peer, int tag,
                            int event_fd)
{
    *line = (struct line){.comm = comm,
                          .peer = peer,
                          .tag = tag,
                          .event_fd = event_fd,
                          .is_borrowed = tutti_comm_size(comm) == 1};
    const enum tutti_status status = line_listen(line);
    if (status != TUTTI_OK) line_close(line, "no memory");
    return status;
}

enum tutti_status line_take(struct line *line, bool *has_come)
{
    *has_come = false;
    if (line->receive == NULL) return TUTTI_OK;
    const enum tutti_status status = tutti_test(&line->receive);
    if (status == TUTTI_IN_PROGRESS) return TUTTI_OK;
    if (status != TUTTI_OK) return status;
    line->state = LINE_TAKEN;
    *has_come = true;
    return TUTTI_OK;
}

enum tutti_status line_want_payload(struct line *line, size_t bytes)
{
    line->payload = malloc(bytes);
    if (line->payload == NULL)
        return error_set(TUTTI_NO_MEMORY, "no memory for a request of %zu bytes", bytes);
    line->state = LINE_PAYLOAD;
    return start_receive(line, line->payload, bytes, line->tag + 1);
}

/* -------------------------------------------------------------------------------------- sending */

enum tutti_status line_send_owned(struct line *line, int tag, void *bytes, size_t size)
{
    const struct tutti_call_options options = without_deadline();
    struct line_sent *const sent = malloc(sizeof *sent);
    enum tutti_status status =
        sent == NULL ? error_set(TUTTI_NO_MEMORY, "no memory for an answer") : TUTTI_OK;
    if (status == TUTTI_OK) {
        *sent = (struct line_sent){line->sent, NULL, bytes, size};
        status = tutti_send_start(bytes, size, TUTTI_UINT8, line->peer, tag, &options, line->comm,
                                  &sent->request);
    }
    if (status == TUTTI_OK) status = tutti_test(&sent->request); /* small messages are gone */
    if (status == TUTTI_IN_PROGRESS) {
        line->sent = sent;
        line->sent_bytes += size;
        line->sent_count++;
        return tutti_notify(sent->request, line->event_fd);
    }
    free(bytes);
    free(sent);
    return status;
}

enum tutti_status line_send(struct line *line, int tag, const void *bytes, size_t size)
{
    void *const copy = malloc(size);
    if (copy == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for an answer");
    memcpy(copy, bytes, size);
    return line_send_owned(line, tag, copy, size);
}

enum tutti_status line_reap(struct line *line)
{
    enum tutti_status first = TUTTI_OK;
    for (struct line_sent **at = &line->sent; *at != NULL;) {
        struct line_sent *const sent = *at;
        const enum tutti_status status = tutti_test(&sent->request);
        if (status == TUTTI_IN_PROGRESS) {
            at = &sent->next;
            continue;
        }
        if (first == TUTTI_OK) first = status;
        *at = sent->next;
        line->sent_bytes -= sent->size;
        line->sent_count--;
        free(sent->bytes);
        free(sent);
    }
    return first;
}

bool line_is_sending(const struct line *line)
{
    return line->sent != NULL;
}

/* The communicator has ended, so its requests are done, or will be at once. */
static void forget_requests(struct line *line)
{
    if (line->receive != NULL) (void)!tutti_wait(&line->receive);
    while (line->sent != NULL) {
        struct line_sent *const sent = line->sent;
        line->sent = sent->next;
        (void)!tutti_wait(&sent->request);
        free(sent->bytes);
        free(sent);
    }
}

void line_close(struct line *line, const char *why)
{
    if (line->comm == NULL) return;
    if (line->receive != NULL && tutti_cancel(&line->receive) != TUTTI_OK && why == NULL)
        why = "a parameter server has ended";
    if (why == NULL && line->sent != NULL) why = "a parameter server has ended";
    if (why != NULL) (void)tutti_comm_abort(line->comm, why);
    forget_requests(line);
    if (!line->is_borrowed) (void)tutti_comm_free(line->comm);
    free(line->payload);
    line->comm = NULL;
    line->sent_bytes = 0;
    line->sent_count = 0;
    line->payload = NULL;
    line->state = LINE_CLOSED;
}
