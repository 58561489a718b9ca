#include "server/line.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct line_sent {
    struct line_sent *next;
    struct tutti_request *request;
    size_t size;
    void (*release)(void *owner);
    void *owner;
};

/* No deadline that anybody lives to see. */
static struct tutti_call_options without_deadline(void)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.timeout_ns = UINT64_MAX / 4;
    return options;
}

static enum tutti_status start_receive(const struct line *line, void *to, size_t bytes, int tag,
                                       struct tutti_message *message, struct tutti_request **receive)
{
    const struct tutti_call_options options = without_deadline();
    *message = (struct tutti_message){.size_bytes = sizeof *message};
    return tutti_recv_start(to, bytes, TUTTI_UINT8, line->peer, tag, message, &options, line->comm,
                            receive);
}

static void drop_payload(struct line *line)
{
    for (size_t i = 0; i < line->piece_count; i++) block_give(line->pieces[i].block);
    free(line->pieces);
    line->pieces = NULL;
    line->piece_count = 0;
}

enum tutti_status line_listen(struct line *line)
{
    drop_payload(line);
    line->state = LINE_HEADER;
    TRY(start_receive(line, line->header, sizeof line->header, line->tag, &line->message,
                      &line->receive));
    return tutti_notify(line->receive, line->event_fd);
}

enum tutti_status line_open(struct line *line, struct tutti_comm *comm, int peer, int tag,
                            int event_fd, struct block_pool *pool, struct closings *closings)
{
    *line = (struct line){.comm = comm,
                          .peer = peer,
                          .tag = tag,
                          .event_fd = event_fd,
                          .is_borrowed = tutti_comm_size(comm) == 1,
                          .pool = pool,
                          .closings = closings};
    const enum tutti_status status = line_listen(line);
    if (status != TUTTI_OK) line_close(line, "no memory");
    return status;
}

static enum tutti_status wake_for(struct line_piece *piece, int event_fd)
{
    if (piece->wakes) return TUTTI_OK;
    piece->wakes = true;
    return tutti_notify(piece->receive, event_fd);
}

/* Pieces come in their order, so it is enough to be woken for the first one that is missing. */
static enum tutti_status take_pieces(struct line *line, bool *all)
{
    *all = false;
    for (size_t i = 0; i < line->piece_count; i++) {
        struct line_piece *const piece = &line->pieces[i];
        if (piece->receive == NULL) continue;
        const enum tutti_status status = tutti_test(&piece->receive);
        if (status == TUTTI_IN_PROGRESS) return wake_for(piece, line->event_fd);
        TRY(status);
        if (piece->message.count != piece->bytes)
            return error_set(TUTTI_MISMATCH, "a piece of its payload has %zu bytes, not %zu",
                             piece->message.count, piece->bytes);
    }
    *all = true;
    return TUTTI_OK;
}

enum tutti_status line_take(struct line *line, bool *has_come)
{
    *has_come = false;
    if (line->state == LINE_PAYLOAD) {
        TRY(take_pieces(line, has_come));
    } else if (line->receive != NULL) {
        const enum tutti_status status = tutti_test(&line->receive);
        if (status == TUTTI_IN_PROGRESS) return TUTTI_OK;
        TRY(status);
        *has_come = true;
    }
    if (*has_come) line->state = LINE_TAKEN;
    return TUTTI_OK;
}

static enum tutti_status make_pieces(struct line *line, const size_t *sizes, size_t count)
{
    line->pieces = calloc(count, sizeof *line->pieces);
    if (line->pieces == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for a request");
    line->piece_count = count;
    for (size_t i = 0; i < count; i++) {
        struct line_piece *const piece = &line->pieces[i];
        piece->bytes = sizes[i];
        piece->block = block_take(line->pool, sizes[i]);
        if (piece->block == NULL)
            return error_set(TUTTI_NO_MEMORY, "no memory for a request of %zu bytes", sizes[i]);
    }
    return TUTTI_OK;
}

enum tutti_status line_want_payload(struct line *line, const size_t *sizes, size_t count)
{
    struct server_request request;
    memcpy(&request, line->header, sizeof request);
    const size_t head = sizeof request + request.part_count * sizeof(struct server_request_part);
    TRY(make_pieces(line, sizes, count));
    if (line->message.count > head) {
        memcpy(block_memory(line->pieces->block), line->header + head, sizes[0]);
        return TUTTI_OK;
    }
    line->state = LINE_PAYLOAD;
    for (size_t i = 0; i < count; i++) {
        struct line_piece *const piece = &line->pieces[i];
        if (piece->bytes == 0) continue;
        TRY(start_receive(line, block_memory(piece->block), piece->bytes, line->tag + 1,
                          &piece->message, &piece->receive));
    }
    return wake_for(&line->pieces[sizes[0] == 0], line->event_fd);
}

void *line_payload(const struct line *line)
{
    return line->piece_count > 0 ? block_memory(line->pieces[0].block) : NULL;
}

/* -------------------------------------------------------------------------------------- sending */

enum tutti_status line_send_held(struct line *line, int tag, const void *bytes, size_t size,
                                 void (*release)(void *owner), void *owner)
{
    const struct tutti_call_options options = without_deadline();
    struct line_sent *const sent = malloc(sizeof *sent);
    enum tutti_status status =
        sent == NULL ? error_set(TUTTI_NO_MEMORY, "no memory for an answer") : TUTTI_OK;
    if (status == TUTTI_OK) {
        *sent = (struct line_sent){line->sent, NULL, size, release, owner};
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
    release(owner);
    free(sent);
    return status;
}

enum tutti_status line_send(struct line *line, int tag, const void *bytes, size_t size)
{
    void *const copy = malloc(size);
    if (copy == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for an answer");
    memcpy(copy, bytes, size);
    return line_send_held(line, tag, copy, size, free, copy);
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
        sent->release(sent->owner);
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
    for (size_t i = 0; i < line->piece_count; i++)
        if (line->pieces[i].receive != NULL) (void)!tutti_wait(&line->pieces[i].receive);
    while (line->sent != NULL) {
        struct line_sent *const sent = line->sent;
        line->sent = sent->next;
        (void)!tutti_wait(&sent->request);
        sent->release(sent->owner);
        free(sent);
    }
}

void line_close(struct line *line, const char *why)
{
    static const char ended[] = "a parameter server has ended";
    if (line->comm == NULL) return;
    if (line->receive != NULL && tutti_cancel(&line->receive) != TUTTI_OK && why == NULL)
        why = ended;
    for (size_t i = 0; i < line->piece_count; i++)
        if (line->pieces[i].receive != NULL && tutti_cancel(&line->pieces[i].receive) != TUTTI_OK &&
            why == NULL)
            why = ended;
    if (why == NULL && line->sent != NULL) why = ended;
    if (why != NULL) (void)tutti_comm_abort(line->comm, why);
    forget_requests(line);
    if (!line->is_borrowed) closings_start(line->closings, line->comm);
    drop_payload(line);
    line->comm = NULL;
    line->sent_bytes = 0;
    line->sent_count = 0;
    line->state = LINE_CLOSED;
}
