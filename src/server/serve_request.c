#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "server/finite.h"
#include "server/serve_state.h"

/* ------------------------------------------------------------------------------ pushes and sets */

static enum tutti_status check_finite(const struct division_table *table, const float *values,
                                      size_t count)
{
    if (table->allows_nan) return TUTTI_OK;
    const size_t end = finite_end(count, values);
    if (end == count) return TUTTI_OK;
    return error_set(TUTTI_INVALID_BUFFER, "value %zu for table '%s' is %g", end, table->name,
                     (double)values[end]);
}

/* Fills a block from a part that came with others. */
static enum tutti_status fill(const struct server_ends *ends, const struct server_request *request,
                              const struct server_request_part *part, const char *rows,
                              const char *values, char *block)
{
    const size_t row_bytes = part->is_rows ? part->count * sizeof(int64_t) : 0;
    const size_t width = part->is_rows ? ends->division->tables[part->table].width : 1;
    const size_t elements = part->count * width;
    if (row_bytes > 0) memcpy(block, rows, row_bytes);
    if (elements > 0 && request->encoding != TUTTI_ENCODING_NONE)
        return tutti_decode((enum tutti_encoding)request->encoding, TUTTI_FLOAT32, values, elements,
                            block + row_bytes);
    if (elements > 0) memcpy(block + row_bytes, values, elements * sizeof(float));
    return TUTTI_OK;
}

/* A block with a part that came with others, at *at. */
static enum tutti_status copy_part(struct block_pool *pool, const struct server_ends *ends,
                                   const struct server_request *request,
                                   const struct server_request_part *part, const char **at,
                                   struct block **block)
{
    const size_t width = part->is_rows ? ends->division->tables[part->table].width : 1;
    size_t row_bytes, value_bytes;
    if (!server_part_bytes(ends->division, request, part, &row_bytes, &value_bytes))
        return error_set(TUTTI_INTERNAL, "a part was not checked");
    *block = block_take(pool, row_bytes + part->count * width * sizeof(float));
    if (*block == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for an update");
    const enum tutti_status status =
        fill(ends, request, part, *at, *at + row_bytes, block_memory(*block));
    if (status != TUTTI_OK) block_give(*block);
    *at += row_bytes + value_bytes;
    return status;
}

static enum tutti_status check_entry(const struct server_ends *ends, const struct serve_worker *from,
                                     const struct server_request_part *part, uint64_t bytes_max,
                                     struct update_entry *entry)
{
    const struct division_table *const table = &ends->division->tables[part->table];
    const size_t elements = part->count * (part->is_rows ? table->width : 1);
    const uint64_t growth = update_growth(&from->open, entry);
    if (growth > 0 && from->open.bytes + growth > bytes_max)
        return error_set(TUTTI_NO_MEMORY,
                         "the update of a clock has more than %" PRIu64
                         " bytes; raise queue_bytes, or push less before a tick",
                         bytes_max);
    if (part->is_rows)
        TRY(server_rows_check(ends, part->table, part->count, update_entry_rows(entry)));
    return check_finite(table, update_entry_values(entry), elements);
}

/* The block becomes the update's in any case. */
static enum tutti_status take_block(const struct server_ends *ends, struct serve_worker *from,
                                    const struct server_request_part *part, uint64_t bytes_max,
                                    struct block *block)
{
    const size_t width = part->is_rows ? ends->division->tables[part->table].width : part->count;
    struct update_entry *const entry = update_entry_create(
        part->table, from->request.kind == SERVER_SET, part->is_rows, part->count, width, block);
    if (entry == NULL) {
        block_give(block);
        return error_set(TUTTI_NO_MEMORY, "no memory for an update");
    }
    const enum tutti_status status = check_entry(ends, from, part, bytes_max, entry);
    if (status == TUTTI_OK)
        update_add(&from->open, entry);
    else
        update_entry_free(entry);
    return status;
}

static enum tutti_status take_values(struct serve *serve, int worker, const struct server_ends *ends)
{
    struct serve_worker *const from = &serve->workers[worker];
    struct line_piece *alone = from->line.pieces;
    const char *at = line_payload(&from->line);
    if (serve->broken != TUTTI_OK)
        return serve_answer_failure(serve, worker, from->request.slot, serve->broken, serve->why);
    if (from->request.clock != from->ticked)
        return error_set(TUTTI_MISMATCH, "it is for clock %" PRIu64 ", and %" PRIu64 " have ended",
                         from->request.clock, from->ticked);
    /* A request that fits is an update that fits. */
    const uint64_t bytes_max = from->open.first == NULL ? UINT64_MAX : ends->division->payload_max;
    for (uint32_t i = 0; i < from->request.part_count; i++) {
        const struct server_request_part *const part = &from->parts[i];
        struct block *block = NULL;
        if (server_alone_bytes(ends->division, &from->request, part) > 0) {
            block = (++alone)->block;
            alone->block = NULL;
        } else {
            TRY(copy_part(from->line.pool, ends, &from->request, part, &at, &block));
        }
        TRY(take_block(ends, from, part, bytes_max, block));
    }
    return serve_answer(serve, worker, from->request.slot, &(struct server_reply){0}, NULL);
}

/* -------------------------------------------------------------------------------- other requests */

static void await_tick(struct serve_worker *from)
{
    from->awaits_tick = true;
    from->asks = from->request.kind == SERVER_CHANGE;
    from->asks_round = from->request.clock;
    from->tick_slot = from->request.slot;
    from->tick_deadline_ns = serve_deadline_of(&from->request);
}

/* No step comes any more. The clock ends, so that pulls behind it get the reason, too. */
static enum tutti_status tick_in_vain(struct serve *serve, int worker)
{
    struct serve_worker *const from = &serve->workers[worker];
    if (from->request.clock == from->ticked) {
        update_clear(&from->open);
        from->ticked++;
    }
    if (!serve_has_clock(serve)) return TUTTI_OK;
    return serve_answer_failure(serve, worker, from->request.slot, serve->broken, serve->why);
}

static enum tutti_status tick(struct serve *serve, int worker)
{
    struct serve_worker *const from = &serve->workers[worker];
    const uint64_t clock = from->request.clock;
    const bool has_clock = serve_has_clock(serve);
    if (clock > from->ticked || clock + 1 < from->ticked)
        return error_set(TUTTI_MISMATCH,
                         "it ends clock %" PRIu64 " after %" PRIu64 " clocks have ended", clock,
                         from->ticked);
    if (serve->broken != TUTTI_OK) return tick_in_vain(serve, worker);
    if (has_clock) await_tick(from);
    if (clock == from->ticked)
        serve_end_clock(serve, worker);
    else if (has_clock && from->decided > clock)
        serve_answer_tick(serve, worker);
    return TUTTI_OK;
}

static enum tutti_status take_change(struct serve *serve, int worker)
{
    struct serve_worker *const from = &serve->workers[worker];
    if (!serve_has_clock(serve)) {
        from->asks_until_ns = serve_deadline_of(&from->request);
        return TUTTI_OK;
    }
    if (serve->broken != TUTTI_OK)
        return serve_answer_failure(serve, worker, from->request.slot, serve->broken, serve->why);
    await_tick(from);
    TRY(serve_take_change(serve, worker));
    serve_act(serve);
    return TUTTI_OK;
}

static enum tutti_status take_pull(struct serve *serve, int worker, const struct server_ends *ends)
{
    const struct serve_worker *const from = &serve->workers[worker];
    const int64_t *rows = line_payload(&from->line);
    if (from->request.clock > from->ticked)
        return error_set(TUTTI_MISMATCH, "it waits for clock %" PRIu64 ", which has not ended",
                         from->request.clock);
    for (uint32_t i = 0; i < from->request.part_count; i++) {
        const struct server_request_part *const part = &from->parts[i];
        if (!part->is_rows) continue;
        TRY(server_rows_check(ends, part->table, part->count, rows));
        rows += part->count;
    }
    return serve_take_pull(serve, worker);
}

static enum tutti_status leave(struct serve *serve, int worker)
{
    const uint32_t slot = serve->workers[worker].request.slot;
    TRY(serve_answer(serve, worker, slot, &(struct server_reply){0}, NULL));
    serve->workers[worker].leaves = true;
    return TUTTI_OK;
}

/* A request that came before, and was carried out: its answer may be lost. */
static enum tutti_status repeat(struct serve *serve, int worker, const struct server_ends *ends)
{
    const struct serve_worker *const from = &serve->workers[worker];
    switch (from->request.kind) {
    case SERVER_PULL: return take_pull(serve, worker, ends);
    case SERVER_TICK: return tick(serve, worker);
    case SERVER_CHANGE: return take_change(serve, worker);
    case SERVER_RECORD: return serve_answer_record(serve, worker, &from->request);
    case SERVER_BEGIN: return TUTTI_OK;
    case SERVER_ENTER: return serve_answer_enter(serve, worker);
    default:
        return serve_answer(serve, worker, from->request.slot, &(struct server_reply){0}, NULL);
    }
}

static enum tutti_status carry_out(struct serve *serve, int worker, const struct server_ends *ends)
{
    struct serve_worker *const from = &serve->workers[worker];
    const struct server_request *const request = &from->request;
    if (request->sequence > from->sequence + 1)
        return error_set(TUTTI_MISMATCH, "its number is %" PRIu64 " after %" PRIu64,
                         request->sequence, from->sequence);
    if (request->sequence <= from->sequence) {
        serve->seen.duplicates++;
        return repeat(serve, worker, ends);
    }
    from->sequence = request->sequence;
    from->asks_until_ns = 0; /* whatever it waited for is over */
    switch (request->kind) {
    case SERVER_PUSH:
    case SERVER_SET:
        serve->seen.pushes++;
        serve->seen.bytes += request->payload_bytes;
        return take_values(serve, worker, ends);
    case SERVER_PULL:
        serve->seen.pulls++;
        serve->seen.bytes += server_reply_bytes(ends->division, request, from->parts);
        return take_pull(serve, worker, ends);
    case SERVER_TICK: return tick(serve, worker);
    case SERVER_CHANGE: return take_change(serve, worker);
    case SERVER_LEAVE: return leave(serve, worker);
    case SERVER_ENTER: return serve_answer_enter(serve, worker);
    case SERVER_BEGIN:
        TRY(serve_take_begin(serve, worker));
        serve_act(serve);
        return TUTTI_OK;
    default: return serve_answer_record(serve, worker, request);
    }
}

static bool awaits_step(const struct serve *serve, const struct serve_worker *worker)
{
    return worker->has_ended && serve->broken == TUTTI_OK;
}

/* A worker that server 0 has let go on may end its next clock before this server has heard of the
 * step; it may ask for another mode before this spare has heard of all changes; and it may push, or ask, before
 * this seat has heard that it has come. A spare need never hear that, and the worker may leave all the same. */
static bool is_early(const struct serve *serve, const struct serve_worker *from)
{
    if (!from->is_in && from->request.kind != SERVER_LEAVE && serve->broken == TUTTI_OK)
        return true;
    if (from->request.kind == SERVER_TICK)
        return awaits_step(serve, from) && from->request.clock == from->ticked;
    return from->request.kind == SERVER_CHANGE && serve_has_clock(serve) &&
           serve->broken == TUTTI_OK && step_leader_is_early(&serve->leader, from->request.clock);
}

static enum tutti_status carry_out_or_hold(struct serve *serve, int worker,
                                           const struct server_ends *ends)
{
    struct serve_worker *const from = &serve->workers[worker];
    from->is_held = is_early(serve, from);
    return from->is_held ? TUTTI_OK : carry_out(serve, worker, ends);
}

/* Wants the payload of the request that a line has taken, in the pieces in which it comes. */
static enum tutti_status want_payload(struct line *line, const struct server_ends *ends,
                                      const struct server_request *request,
                                      const struct server_request_part *parts)
{
    size_t sizes[1 + TUTTI_SERVER_PARTS] = {request->payload_bytes}, count = 1;
    if (request->kind == SERVER_PUSH || request->kind == SERVER_SET) {
        sizes[0] = server_rest_bytes(ends->division, request, parts);
        for (uint32_t i = 0; i < request->part_count; i++) {
            sizes[count] = server_alone_bytes(ends->division, request, &parts[i]);
            count += sizes[count] > 0;
        }
    }
    return line_want_payload(line, sizes, count);
}

enum tutti_status serve_hear_worker(struct serve *serve, int worker)
{
    struct serve_worker *const from = &serve->workers[worker];
    const struct server_ends ends = serve_ends(serve, false);
    if (from->line.piece_count == 0) {
        TRY(server_request_read(&ends, from->line.header, from->line.message.count, &from->request,
                                from->parts));
        if (from->request.kind == SERVER_RECORD && !serve_has_clock(serve))
            return error_set(TUTTI_MISMATCH, "this server does not know steps");
        if (from->request.payload_bytes > 0)
            TRY(want_payload(&from->line, &ends, &from->request, from->parts));
        if (from->line.state == LINE_PAYLOAD) return TUTTI_OK;
    }
    return carry_out_or_hold(serve, worker, &ends);
}

enum tutti_status serve_go_on(struct serve *serve, int worker)
{
    struct serve_worker *const from = &serve->workers[worker];
    const struct server_ends ends = serve_ends(serve, false);
    if (from->line.state != LINE_TAKEN || from->leaves) return TUTTI_OK;
    if (from->is_held)
        return is_early(serve, from) ? TUTTI_OK : carry_out_or_hold(serve, worker, &ends);
    const bool may_ask = from->queued_bytes <= ends.division->payload_max &&
                         from->queued_count < SERVER_SLOTS && serve_has_room(serve, worker);
    return may_ask ? line_listen(&from->line) : TUTTI_OK;
}

/* ---------------------------------------------------------------------------------- other seats */

/* Whether a message must wait until this spare knows its share, or is behind the right entry (seat_fill.h). */
static bool must_wait(const struct serve *serve, int peer, const struct server_request *request)
{
    switch (request->kind) {
    case SERVER_BASE:
    case SERVER_GONE:
    case SERVER_OVER: return false;
    case SERVER_PIECE: return !seat_fill_may_load(&serve->fill, serve->heard, request->sequence);
    default: break;
    }
    if (serve->map.seats[serve->config.seat].state == SEAT_SPARE) return true;
    return request->kind != SERVER_CONFIRM && request->kind != SERVER_RESUME &&
           request->sequence > 0 && !seat_fill_may_hear(&serve->fill, peer, request->sequence);
}

/* Another seat says that this spare is to have the clock, since the only seat that had it is lost. If that is lost here,
 * too, the base does not come any more, and nobody has the clock. */
static bool has_no_base(const struct serve *serve, const struct server_request *request)
{
    return request->kind == SERVER_RESUME &&
           serve->map.seats[serve->config.seat].state == SEAT_SPARE &&
           serve->peers[request->number].line.state == LINE_CLOSED;
}

enum tutti_status serve_hear_peer(struct serve *serve, int peer)
{
    struct serve_peer *const from = &serve->peers[peer];
    const struct server_ends ends = serve_ends(serve, true);
    struct server_request request;
    struct server_request_part none[1];
    TRY(server_request_read(&ends, from->line.header, from->line.message.count, &request, none));
    if (from->line.piece_count == 0 && request.payload_bytes > 0)
        TRY(want_payload(&from->line, &ends, &request, none));
    if (from->line.state == LINE_PAYLOAD) return TUTTI_OK;
    if (request.kind == SERVER_PIECE) seat_fill_name(&serve->fill, request.sequence);
    if (has_no_base(serve, &request)) serve_stop_without(serve, (int)request.number);
    from->is_held = serve->broken == TUTTI_OK && must_wait(serve, peer, &request);
    if (from->is_held) return TUTTI_OK;
    TRY(serve_hear_seat(serve, peer, &request, line_payload(&from->line)));
    return from->line.state == LINE_CLOSED || from->is_silent ? TUTTI_OK : line_listen(&from->line);
}
