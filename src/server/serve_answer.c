#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "membership/rank_set.h"
#include "os/clock.h"
#include "server/serve_state.h"

static void give_block(void *owner)
{
    block_give(owner);
}

/* A reply, with the first `bytes` of its payload, which are all of it that lies in a block. */
static enum tutti_status send_reply(struct serve *serve, int worker, uint32_t slot,
                                    const struct server_reply *reply, struct block *block,
                                    size_t bytes)
{
    struct line *const line = &serve->workers[worker].line;
    const int tag = SERVER_TAG_REPLY + 2 * (int)slot;
    const bool is_inline = reply->payload_bytes <= SERVER_INLINE_BYTES;
    char together[sizeof *reply + SERVER_INLINE_BYTES];
    struct server_reply whole = *reply;
    whole.magic = SERVER_MAGIC;
    whole.version = SERVER_VERSION;
    memcpy(together, &whole, sizeof whole);
    if (is_inline && bytes > 0) memcpy(together + sizeof whole, block_memory(block), bytes);
    const enum tutti_status status =
        line_send(line, tag, together, sizeof whole + (is_inline ? bytes : 0));
    if (status == TUTTI_OK && !is_inline && bytes > 0)
        return line_send_held(line, tag + 1, block_memory(block), bytes, give_block, block);
    block_give(block);
    return status;
}

/* A reply with all of its payload, which may be NULL and becomes the line's. */
enum tutti_status serve_answer(struct serve *serve, int worker, uint32_t slot,
                               const struct server_reply *reply, struct block *block)
{
    if (serve->workers[worker].presence == SERVE_THERE)
        return send_reply(serve, worker, slot, reply, block, reply->payload_bytes);
    block_give(block);
    return TUTTI_OK;
}

enum tutti_status serve_answer_failure(struct serve *serve, int worker, uint32_t slot,
                                       enum tutti_status status, const char *text)
{
    struct server_reply reply = {.status = (uint16_t)status};
    snprintf(reply.text, sizeof reply.text, "%.200s", text);
    return serve_answer(serve, worker, slot, &reply, NULL);
}

enum tutti_status serve_answer_again(struct serve *serve, int worker)
{
    struct serve_worker *const to = &serve->workers[worker];
    const struct server_ends ends = serve_ends(serve, false);
    struct server_request request;
    TRY(server_request_read(&ends, to->line.header, to->line.message.count, &request, to->parts));
    if (request.kind == SERVER_BEGIN) return TUTTI_OK;
    if (!serve_has_clock(serve) && (request.kind == SERVER_TICK || request.kind == SERVER_CHANGE))
        return TUTTI_OK; /* nobody waits for an answer */
    struct server_reply reply = {.status = TUTTI_NO_MEMORY};
    snprintf(reply.text, sizeof reply.text, "%.200s",
             to->why_told != NULL ? to->why_told : "no memory");
    return send_reply(serve, worker, request.slot, &reply, NULL, 0);
}

/* ---------------------------------------------------------------------------------------- pulls */

static void pull_free(struct serve_pull *pull)
{
    free(pull->parts);
    free(pull->rows);
    free(pull);
}

static struct serve_pull *pull_create(const struct serve_worker *from)
{
    const size_t part_bytes = from->request.part_count * sizeof *from->parts;
    const size_t row_bytes = from->request.payload_bytes;
    struct serve_pull *const pull = calloc(1, sizeof *pull);
    if (pull == NULL) return NULL;
    pull->request = from->request;
    pull->parts = malloc(part_bytes + 1);
    pull->rows = malloc(row_bytes + 1);
    if (pull->parts == NULL || pull->rows == NULL) {
        pull_free(pull);
        return NULL;
    }
    memcpy(pull->parts, from->parts, part_bytes);
    if (row_bytes > 0) memcpy(pull->rows, line_payload(&from->line), row_bytes);
    return pull;
}

enum tutti_status serve_take_pull(struct serve *serve, int worker)
{
    struct serve_worker *const from = &serve->workers[worker];
    struct serve_pull *const pull = pull_create(from);
    if (pull == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for a pull");
    pull->worker = worker;
    pull->deadline_ns = serve_deadline_of(&pull->request);
    struct serve_pull **at = &serve->pulls;
    while (*at != NULL && (*at)->request.priority >= pull->request.priority) at = &(*at)->next;
    pull->next = *at;
    *at = pull;
    from->queued_bytes += pull->request.payload_bytes;
    from->queued_count++;
    return TUTTI_OK;
}

static enum tutti_status read_part(const struct serve *serve, const struct server_request_part *part,
                                   const int64_t *rows, float *values)
{
    const struct table *const table = tables_at(serve->config.tables, part->table);
    if (part->count == 0) return TUTTI_OK;
    if (part->is_rows) return table_read_rows(table, part->count, rows, values);
    return table_read_dense(table, serve->firsts[part->table], part->count, values);
}

/* The parts that go together, one after the other. */
static enum tutti_status read_rest(const struct serve *serve, const struct serve_pull *pull,
                                   float *values)
{
    const struct server_division *const division = serve->config.division;
    const int64_t *rows = pull->rows;
    for (uint32_t i = 0; i < pull->request.part_count; i++) {
        const struct server_request_part *const part = &pull->parts[i];
        const size_t width = part->is_rows ? division->tables[part->table].width : 1;
        if (server_alone_bytes(division, &pull->request, part) == 0) {
            TRY(read_part(serve, part, rows, values));
            values += part->count * width;
        }
        if (part->is_rows) rows += part->count;
    }
    return TUTTI_OK;
}

static void let_go(void *owner)
{
    table_let_go(owner);
}

/* A large part: of a dense tensor from where it lies. */
static enum tutti_status send_alone(struct serve *serve, const struct serve_pull *pull,
                                    const struct server_request_part *part, const int64_t *rows,
                                    size_t bytes)
{
    struct line *const line = &serve->workers[pull->worker].line;
    const int tag = SERVER_TAG_REPLY + 2 * (int)pull->request.slot + 1;
    if (!part->is_rows) {
        struct table_held *held;
        const float *values;
        TRY(table_hold_dense(tables_at(serve->config.tables, part->table),
                             serve->firsts[part->table], part->count, &values, &held));
        return line_send_held(line, tag, values, bytes, let_go, held);
    }
    struct block *const block = block_take(&serve->payloads, bytes);
    if (block == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for %zu bytes", bytes);
    const enum tutti_status status = read_part(serve, part, rows, block_memory(block));
    if (status == TUTTI_OK)
        return line_send_held(line, tag, block_memory(block), bytes, give_block, block);
    block_give(block);
    return status;
}

static enum tutti_status answer_pull(struct serve *serve, const struct serve_pull *pull)
{
    const struct server_division *const division = serve->config.division;
    const struct server_request *const request = &pull->request;
    const size_t rest = server_rest_bytes(division, request, pull->parts);
    const struct server_reply reply = {
        .payload_bytes = server_reply_bytes(division, request, pull->parts), .step = serve->steps};
    struct block *const block = block_take(&serve->payloads, rest);
    if (block == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for %zu bytes of values", rest);
    const enum tutti_status status = read_rest(serve, pull, block_memory(block));
    if (status != TUTTI_OK) {
        block_give(block);
        return status;
    }
    TRY(send_reply(serve, pull->worker, request->slot, &reply, block, rest));
    const int64_t *rows = pull->rows;
    for (uint32_t i = 0; i < request->part_count; i++) {
        const struct server_request_part *const part = &pull->parts[i];
        const size_t alone = server_alone_bytes(division, request, part);
        if (alone > 0) TRY(send_alone(serve, pull, part, rows, alone));
        if (part->is_rows) rows += part->count;
    }
    return TUTTI_OK;
}

void serve_reap(struct serve *serve)
{
    for (int i = 0; i < serve->config.division->worker_count; i++) {
        struct serve_worker *const worker = &serve->workers[i];
        worker->has_failed |=
            worker->presence == SERVE_THERE && line_reap(&worker->line) != TUTTI_OK;
    }
}

uint64_t serve_deadline_of(const struct server_request *request)
{
    const uint64_t now = clock_now_ns(), timeout = request->timeout_ns;
    return timeout == 0 || timeout > UINT64_MAX - now ? UINT64_MAX : now + timeout;
}

static bool is_ready(const struct serve *serve, const struct serve_pull *pull)
{
    return serve->has_all && serve->workers[pull->worker].decided >= pull->request.clock;
}

/* A worker that asks and does not listen must not fill the memory with answers. */
bool serve_has_room(const struct serve *serve, int worker)
{
    const struct line *const line = &serve->workers[worker].line;
    return line->sent_count < 2 * SERVER_SLOTS &&
           line->sent_bytes <= serve->config.division->payload_max;
}

/* Whether it waits no more; then *status is what came of it. */
static bool try_pull(struct serve *serve, const struct serve_pull *pull, uint64_t now_ns,
                     enum tutti_status *status)
{
    const struct serve_worker *const from = &serve->workers[pull->worker];
    if (from->presence != SERVE_THERE) return true;
    if (serve->broken != TUTTI_OK) {
        *status = serve_answer_failure(serve, pull->worker, pull->request.slot, serve->broken,
                                       serve->why);
        return true;
    }
    const bool ready = is_ready(serve, pull);
    if (ready ? !serve_has_room(serve, pull->worker) : now_ns < pull->deadline_ns) return false;
    *status = ready ? answer_pull(serve, pull)
                    : serve_answer_failure(serve, pull->worker, pull->request.slot, TUTTI_TIMEOUT,
                                           "the step of this worker's last tick has not come");
    return true;
}

bool serve_answer_pulls(struct serve *serve, uint64_t now_ns)
{
    bool any = false;
    for (struct serve_pull **at = &serve->pulls; *at != NULL;) {
        struct serve_pull *const pull = *at;
        enum tutti_status status = TUTTI_OK;
        if (!try_pull(serve, pull, now_ns, &status)) {
            at = &pull->next;
            continue;
        }
        serve->workers[pull->worker].has_failed |= status != TUTTI_OK;
        serve->workers[pull->worker].queued_bytes -= pull->request.payload_bytes;
        serve->workers[pull->worker].queued_count--;
        *at = pull->next;
        pull_free(pull);
        any = true;
    }
    return any;
}

void serve_drop_pulls(struct serve *serve, int worker)
{
    for (struct serve_pull **at = &serve->pulls; *at != NULL;) {
        struct serve_pull *const pull = *at;
        if (pull->worker != worker && worker >= 0) {
            at = &pull->next;
            continue;
        }
        *at = pull->next;
        pull_free(pull);
    }
    if (worker >= 0) serve->workers[worker].queued_bytes = serve->workers[worker].queued_count = 0;
}

/* ---------------------------------------------------------------------------------------- steps */

enum tutti_status serve_answer_record(struct serve *serve, int worker,
                                      const struct server_request *request)
{
    const uint64_t number =
        request->number != 0 ? request->number : serve->workers[worker].tick_number;
    const size_t words = rank_set_words(serve->config.division->worker_count);
    const struct serve_record *const record = &serve->records[number % SERVE_RECORDS];
    if (number == 0 || record->number != number) {
        char text[120];
        snprintf(text, sizeof text, "step %" PRIu64 " is not known; there were %" PRIu64, number,
                 serve->steps);
        return serve_answer_failure(serve, worker, request->slot, TUTTI_INVALID_COUNT, text);
    }
    struct block *const members = block_take(&serve->payloads, words * sizeof(uint64_t));
    if (members == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for an answer");
    memcpy(block_memory(members), serve->record_members + number % SERVE_RECORDS * words,
           words * sizeof(uint64_t));
    const struct server_reply reply = {.payload_bytes = words * sizeof(uint64_t),
                                       .step = number,
                                       .worker_count = record->left_count,
                                       .member_count = record->member_count};
    return serve_answer(serve, worker, request->slot, &reply, members);
}

static void answer_tick_with(struct serve *serve, int worker, const struct server_reply *reply)
{
    struct serve_worker *const to = &serve->workers[worker];
    struct server_reply whole = *reply;
    whole.worker_count = to->asks && to->asks_late;
    to->awaits_tick = false;
    to->has_failed |= serve_answer(serve, worker, to->tick_slot, &whole, NULL) != TUTTI_OK;
}

void serve_answer_tick(struct serve *serve, int worker)
{
    const struct serve_worker *const to = &serve->workers[worker];
    if (!to->awaits_tick) return;
    answer_tick_with(serve, worker,
                     &(struct server_reply){.clock = to->decided, .step = to->tick_number});
}

void serve_answer_tick_failure(struct serve *serve, int worker, enum tutti_status status,
                               const char *text)
{
    struct server_reply reply = {.status = (uint16_t)status};
    snprintf(reply.text, sizeof reply.text, "%.200s", text);
    if (serve->workers[worker].awaits_tick) answer_tick_with(serve, worker, &reply);
}

static void describe_awaited(const struct serve *serve, int worker, char *text, size_t bytes)
{
    const int count = serve->config.division->worker_count;
    uint64_t *const awaited = calloc(rank_set_words(count), sizeof *awaited);
    size_t used =
        (size_t)snprintf(text, bytes, "%s still waits for the worker at rank",
                         serve->workers[worker].asks ? "the change of the mode" : "the clock");
    if (awaited == NULL) return;
    worker_clock_awaited(&serve->leader.clock, worker, awaited);
    for (int i = 0; i < count && used < bytes; i++)
        if (rank_set_has(awaited, i))
            used +=
                (size_t)snprintf(text + used, bytes - used, " %d", serve->config.worker_ranks[i]);
    free(awaited);
}

bool serve_answer_late_ticks(struct serve *serve, uint64_t now_ns)
{
    bool any = false;
    for (int i = 0; i < serve->config.division->worker_count; i++) {
        const struct serve_worker *const worker = &serve->workers[i];
        if (!worker->awaits_tick || worker->tick_deadline_ns > now_ns) continue;
        struct server_reply reply = {.status = TUTTI_TIMEOUT};
        describe_awaited(serve, i, reply.text, sizeof reply.text);
        answer_tick_with(serve, i, &reply);
        any = true;
    }
    return any;
}

void serve_answer_broken(struct serve *serve)
{
    for (int i = 0; i < serve->config.division->worker_count; i++)
        serve_answer_tick_failure(serve, i, serve->broken, serve->why);
}

uint64_t serve_next_deadline(const struct serve *serve)
{
    uint64_t next = serve->farewell_ns != 0 ? serve->farewell_ns : UINT64_MAX;
    for (int i = 0; i < serve->config.division->worker_count; i++) {
        const struct serve_worker *const worker = &serve->workers[i];
        if (worker->awaits_tick && worker->tick_deadline_ns < next) next = worker->tick_deadline_ns;
        if (worker->asks_until_ns != 0 && worker->asks_until_ns < next)
            next = worker->asks_until_ns;
    }
    for (const struct serve_pull *pull = serve->pulls; pull != NULL; pull = pull->next)
        if (!is_ready(serve, pull) && pull->deadline_ns < next) next = pull->deadline_ns;
    return next;
}
