#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "membership/rank_set.h"
#include "server/serve_state.h"

static bool is_first(const struct serve *serve)
{
    return serve->config.server == 0;
}

static int worker_count(const struct serve *serve)
{
    return serve->config.division->worker_count;
}

static int left_here(const struct serve *serve)
{
    int count = 0;
    for (int i = 0; i < worker_count(serve); i++)
        count += serve->workers[i].presence == SERVE_THERE;
    return count;
}

/* ---------------------------------------------------------------------------------------- steps */

void serve_break(struct serve *serve, enum tutti_status status, const char *why)
{
    if (serve->broken != TUTTI_OK) return;
    serve->broken = status;
    snprintf(serve->why, sizeof serve->why, "%s", why);
    log_write(LOG_WARN, "rank %d: parameter server: %s", serve->config.rank, serve->why);
    serve_answer_broken(serve);
    /* Without this server's part, no step is a step: server 0 ends the clock. */
    if (is_first(serve)) return;
    serve->peers[0].is_over = true;
    line_close(&serve->peers[0].line, serve->why);
}

/* Applies the updates of the members, which are all here. */
static void apply(struct serve *serve, const uint64_t *members, uint64_t left_count)
{
    size_t count = 0;
    for (int i = 0; i < worker_count(serve); i++)
        if (rank_set_has(members, i)) serve->updates[count++] = &serve->workers[i].ended;
    serve_reap(serve);
    const float factor = serve->config.averages ? 1.0f / (float)left_count : 1.0f;
    const enum tutti_status status =
        update_apply(serve->config.tables, serve->firsts, serve->updates, count, factor);
    serve->steps++;
    for (int i = 0; i < worker_count(serve); i++) {
        struct serve_worker *const worker = &serve->workers[i];
        if (!rank_set_has(members, i)) continue;
        update_clear(&worker->ended);
        worker->has_ended = false;
        worker->decided++;
        worker->tick_number = serve->steps;
    }
    if (status == TUTTI_OK) return;
    char why[160], text[256];
    error_copy(why, sizeof why);
    snprintf(text, sizeof text, "the server at rank %d could not apply a step: %s",
             serve->config.rank, why);
    serve_break(serve, status, text);
}

static void keep_record(struct serve *serve, const uint64_t *members, uint64_t left_count)
{
    const uint64_t number = serve->steps, place = number % SERVE_RECORDS;
    const size_t words = rank_set_words(worker_count(serve));
    serve->records[place] = (struct serve_record){
        number, (uint32_t)left_count, (uint32_t)rank_set_count(members, worker_count(serve))};
    memcpy(serve->record_members + place * words, members, words * sizeof *members);
}

/* In one message if the payload is small. */
static enum tutti_status send_request(struct line *line, const struct server_request *request,
                                      const void *payload)
{
    char together[sizeof *request + SERVER_INLINE_BYTES];
    size_t bytes = sizeof *request;
    const bool is_inline =
        request->payload_bytes > 0 && request->payload_bytes <= SERVER_INLINE_BYTES;
    memcpy(together, request, sizeof *request);
    if (is_inline) {
        memcpy(together + bytes, payload, request->payload_bytes);
        bytes += request->payload_bytes;
    }
    TRY(line_send(line, SERVER_TAG_REQUEST, together, bytes));
    if (is_inline || request->payload_bytes == 0) return TUTTI_OK;
    return line_send(line, SERVER_TAG_PAYLOAD, payload, request->payload_bytes);
}

/* A message to another server; what fails there shows when the line is looked after. */
static void tell(struct serve *serve, int peer, const struct server_request *request,
                 const void *payload)
{
    struct line *const line = &serve->peers[peer].line;
    if (line->state == LINE_CLOSED) return;
    struct server_request whole = *request;
    whole.magic = SERVER_MAGIC;
    whole.version = SERVER_VERSION;
    const enum tutti_status status = send_request(line, &whole, payload);
    if (status == TUTTI_OK) return;
    char why[120];
    error_copy(why, sizeof why);
    serve_lose_peer(serve, peer, why);
}

static void tell_all(struct serve *serve, const struct server_request *request, const void *payload)
{
    for (int i = 0; i < serve->peer_count; i++) tell(serve, i, request, payload);
}

void serve_decide(struct serve *serve)
{
    const size_t bytes = rank_set_words(worker_count(serve)) * sizeof(uint64_t);
    serve_change_mode(serve);
    while (serve->broken == TUTTI_OK && worker_clock_decide(&serve->clock, serve->members)) {
        const uint64_t left_count = (uint64_t)serve->clock.left_count;
        tell_all(serve,
                 &(struct server_request){.kind = SERVER_DECIDED,
                                          .number = serve->clock.steps,
                                          .left_count = left_count,
                                          .payload_bytes = bytes},
                 serve->members);
        apply(serve, serve->members, left_count);
        keep_record(serve, serve->members, left_count);
        for (int i = 0; i < worker_count(serve) && serve->broken == TUTTI_OK; i++)
            if (rank_set_has(serve->members, i)) serve_answer_tick(serve, i);
    }
}

void serve_hear_has(struct serve *serve, int worker, uint64_t clock)
{
    struct serve_worker *const of = &serve->workers[worker];
    if (clock != serve->clock_workers[worker].clock) return; /* of a worker that is gone */
    if (++of->has_count < serve->config.division->server_count) return;
    of->has_count = 0;
    if (worker_clock_end(&serve->clock, worker, clock) == WORKER_CLOCK_NEW) serve_decide(serve);
}

void serve_end_clock(struct serve *serve, int worker)
{
    struct serve_worker *const of = &serve->workers[worker];
    update_move(&of->open, &of->ended);
    of->has_ended = true;
    const uint64_t clock = of->ticked++;
    if (is_first(serve))
        serve_hear_has(serve, worker, clock);
    else
        tell(serve, 0,
             &(struct server_request){.kind = SERVER_HAS, .number = (uint64_t)worker, .clock = clock},
             NULL);
}

enum tutti_status serve_hear_decided(struct serve *serve, const struct server_request *request,
                                     const uint64_t *members)
{
    if (request->number != serve->steps + 1)
        return error_set(TUTTI_MISMATCH, "step %" PRIu64 " comes after step %" PRIu64,
                         request->number, serve->steps);
    for (int i = 0; i < worker_count(serve); i++)
        if (rank_set_has(members, i) && !serve->workers[i].has_ended)
            return error_set(TUTTI_MISMATCH,
                             "step %" PRIu64 " has an update of worker %d, which is not here",
                             request->number, i);
    apply(serve, members, request->left_count);
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------------- who is gone */

/* Ends what only a worker that is there needs. Its ended update may be part of a step yet. */
static void close_worker(struct serve *serve, int worker, const char *why)
{
    struct serve_worker *const of = &serve->workers[worker];
    of->presence = why == NULL ? SERVE_LEFT : SERVE_LOST;
    of->awaits_tick = false;
    update_clear(&of->open);
    serve_drop_pulls(serve, worker);
    if (of->is_told && line_listen(&of->line) == TUTTI_OK) return;
    line_close(&of->line, why);
}

void serve_lose_worker(struct serve *serve, int worker, const char *why)
{
    struct serve_worker *const of = &serve->workers[worker];
    if (of->presence != SERVE_THERE) return;
    close_worker(serve, worker, why);
    if (why != NULL)
        log_write(LOG_WARN, "rank %d: parameter server: the worker at rank %d is gone (%d left): %s",
                  serve->config.rank, serve->config.worker_ranks[worker], left_here(serve), why);
    const struct server_request lost = {.kind = SERVER_LOST, .number = (uint64_t)worker};
    if (!is_first(serve)) {
        if (why != NULL) tell(serve, 0, &lost, NULL);
        return;
    }
    if (why != NULL) tell_all(serve, &lost, NULL);
    of->has_count = 0;
    worker_clock_remove(&serve->clock, worker);
    if (of->has_ended) {
        update_clear(&of->ended);
        of->has_ended = false;
    }
    serve_decide(serve);
}

void serve_lose_peer(struct serve *serve, int peer, const char *why)
{
    struct serve_peer *const of = &serve->peers[peer];
    if (of->line.state == LINE_CLOSED) return;
    const int rank = serve->config.server_ranks[is_first(serve) ? peer + 1 : 0];
    line_close(&of->line, why);
    if (of->is_over) return;
    of->is_over = true;
    char text[256];
    snprintf(text, sizeof text,
             "the server at rank %d, which had a part of the tables, is gone: %s", rank, why);
    serve_break(serve, TUTTI_PROC_FAILED, text);
}

bool serve_is_over(struct serve *serve)
{
    for (int i = 0; i < worker_count(serve); i++)
        if (serve->workers[i].line.state != LINE_CLOSED) return false;
    bool all = true, is_sending = false;
    for (int i = 0; i < serve->peer_count; i++) all &= serve->peers[i].is_over;
    if (!serve->has_told_over && (all || !is_first(serve))) {
        serve->has_told_over = true;
        tell_all(serve, &(struct server_request){.kind = SERVER_OVER}, NULL);
    }
    for (int i = 0; i < serve->peer_count; i++)
        is_sending |= line_is_sending(&serve->peers[i].line);
    return all && serve->has_told_over && !is_sending;
}
