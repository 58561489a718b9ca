#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "server/serve_state.h"

/* ------------------------------------------------------------------------------ pushes and sets */

static enum tutti_status check_finite(const struct division_table *table, const float *values,
                                      size_t count)
{
    if (table->allows_nan) return TUTTI_OK;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return error_set(TUTTI_INVALID_BUFFER, "value %zu for table '%s' is %g", i, table->name,
                             (double)values[i]);
    return TUTTI_OK;
}

/* Fills an entry from what came. */
static enum tutti_status fill(const struct server_ends *ends, const struct server_request *request,
                              const struct server_request_part *part, const char *rows,
                              const char *values, struct update_entry *entry)
{
    const struct division_table *const table = &ends->division->tables[part->table];
    const size_t elements = part->count * (part->is_rows ? table->width : 1);
    float *const own = update_entry_values(entry);
    if (part->is_rows) {
        memcpy(update_entry_rows(entry), rows, part->count * sizeof(int64_t));
        TRY(server_rows_check(ends, part->table, part->count, update_entry_rows(entry)));
    }
    if (elements == 0) return TUTTI_OK;
    if (request->encoding == TUTTI_ENCODING_NONE)
        memcpy(own, values, elements * sizeof(float));
    else
        TRY(tutti_decode((enum tutti_encoding)request->encoding, TUTTI_FLOAT32, values, elements,
                         own));
    return check_finite(table, own, elements);
}

static enum tutti_status take_part(const struct server_ends *ends, struct serve_worker *from,
                                   const struct server_request_part *part, uint64_t bytes_max,
                                   const char **at)
{
    const struct division_table *const table = &ends->division->tables[part->table];
    const size_t width = part->is_rows ? table->width : part->count;
    size_t row_bytes, value_bytes;
    if (!server_part_bytes(ends->division, &from->request, part, &row_bytes, &value_bytes))
        return error_set(TUTTI_INTERNAL, "a part was not checked");
    struct update_entry *const entry = update_entry_create(
        part->table, from->request.kind == SERVER_SET, part->is_rows, part->count, width);
    if (entry == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for an update");
    enum tutti_status status = TUTTI_OK;
    const uint64_t growth = update_growth(&from->open, entry);
    if (growth > 0 && from->open.bytes + growth > bytes_max)
        status = error_set(TUTTI_NO_MEMORY,
                           "the update of a clock has more than %" PRIu64
                           " bytes; raise queue_bytes, or push less before a tick",
                           bytes_max);
    if (status == TUTTI_OK) status = fill(ends, &from->request, part, *at, *at + row_bytes, entry);
    if (status != TUTTI_OK) {
        update_entry_free(entry);
        return status;
    }
    *at += row_bytes + value_bytes;
    update_add(&from->open, entry);
    return TUTTI_OK;
}

static enum tutti_status take_values(struct serve *serve, int worker, const struct server_ends *ends)
{
    struct serve_worker *const from = &serve->workers[worker];
    const char *at = from->line.payload;
    if (serve->broken != TUTTI_OK)
        return serve_answer_failure(serve, worker, from->request.slot, serve->broken, serve->why);
    if (from->request.clock != from->ticked)
        return error_set(TUTTI_MISMATCH, "it is for clock %" PRIu64 ", and %" PRIu64 " have ended",
                         from->request.clock, from->ticked);
    /* A request that fits is an update that fits. */
    const uint64_t bytes_max = from->open.first == NULL ? UINT64_MAX : ends->division->payload_max;
    for (uint32_t i = 0; i < from->request.part_count; i++)
        TRY(take_part(ends, from, &from->parts[i], bytes_max, &at));
    return serve_answer(serve, worker, from->request.slot, &(struct server_reply){0}, NULL);
}

/* -------------------------------------------------------------------------------- other requests */

static void await_tick(struct serve_worker *from)
{
    from->awaits_tick = true;
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

static enum tutti_status take_pull(struct serve *serve, int worker, const struct server_ends *ends)
{
    const struct serve_worker *const from = &serve->workers[worker];
    const int64_t *rows = from->line.payload;
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
    case SERVER_RECORD: return serve_answer_record(serve, worker, &from->request);
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
    case SERVER_LEAVE: return leave(serve, worker);
    default: return serve_answer_record(serve, worker, request);
    }
}

static bool awaits_step(const struct serve *serve, const struct serve_worker *worker)
{
    return worker->has_ended && serve->broken == TUTTI_OK;
}

/* A worker that server 0 has let go on may end its next clock before this server has heard of the
 * step. */
static enum tutti_status carry_out_or_hold(struct serve *serve, int worker,
                                           const struct server_ends *ends)
{
    struct serve_worker *const from = &serve->workers[worker];
    from->is_held = from->request.kind == SERVER_TICK && awaits_step(serve, from) &&
                    from->request.clock == from->ticked;
    return from->is_held ? TUTTI_OK : carry_out(serve, worker, ends);
}

enum tutti_status serve_hear_worker(struct serve *serve, int worker)
{
    struct serve_worker *const from = &serve->workers[worker];
    const struct server_ends ends = {serve->config.division, serve->config.seat, false};
    if (from->line.payload == NULL) {
        TRY(server_request_read(&ends, from->line.header, from->line.message.count, &from->request,
                                from->parts));
        if (from->request.kind == SERVER_RECORD && !serve_has_clock(serve))
            return error_set(TUTTI_MISMATCH, "this server does not know steps");
        if (from->request.payload_bytes > 0)
            return line_want_payload(&from->line, from->request.payload_bytes);
    } else if (from->line.message.count != from->request.payload_bytes) {
        return error_set(TUTTI_MISMATCH, "its payload has %zu bytes, not %" PRIu64,
                         from->line.message.count, from->request.payload_bytes);
    }
    return carry_out_or_hold(serve, worker, &ends);
}

enum tutti_status serve_go_on(struct serve *serve, int worker)
{
    struct serve_worker *const from = &serve->workers[worker];
    const struct server_ends ends = {serve->config.division, serve->config.seat, false};
    if (from->line.state != LINE_TAKEN || from->leaves) return TUTTI_OK;
    if (from->is_held)
        return awaits_step(serve, from) ? TUTTI_OK : carry_out_or_hold(serve, worker, &ends);
    const bool may_ask = from->queued_bytes <= ends.division->payload_max &&
                         from->queued_count < SERVER_SLOTS && serve_has_room(serve, worker);
    return may_ask ? line_listen(&from->line) : TUTTI_OK;
}

/* ---------------------------------------------------------------------------------- other seats */

enum tutti_status serve_hear_peer(struct serve *serve, int peer)
{
    struct serve_peer *const from = &serve->peers[peer];
    const struct server_ends ends = {serve->config.division, serve->config.seat, true};
    struct server_request request;
    struct server_request_part none[1];
    const bool is_payload = from->line.payload != NULL;
    TRY(server_request_read(&ends, from->line.header,
                            is_payload ? sizeof request : from->line.message.count, &request, none));
    if (!is_payload && request.payload_bytes > 0)
        return line_want_payload(&from->line, request.payload_bytes);
    if (is_payload && from->line.message.count != request.payload_bytes)
        return error_set(TUTTI_MISMATCH, "its payload has %zu bytes", from->line.message.count);
    TRY(serve_hear_seat(serve, peer, &request, from->line.payload));
    /* Nothing follows the last message, unless the leader dies. */
    const bool is_last = from->is_over && (serve->config.division->backup_count == 0 || peer == 0);
    return from->line.state == LINE_CLOSED || is_last ? TUTTI_OK : line_listen(&from->line);
}
