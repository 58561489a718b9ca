#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "server/finite.h"
#include "server/worker_state.h"

static uint64_t rows_of(const struct server_division *division, int server,
                        const struct tutti_server_part *part)
{
    uint64_t count = 0;
    for (size_t i = 0; i < part->row_count; i++)
        count += division_of_row(division, (uint64_t)part->rows[i]) == server;
    return count;
}

static struct server_request_part part_for(const struct server_division *division, int server,
                                           const struct tutti_server_part *part)
{
    uint64_t first, share;
    const bool is_rows = division->tables[part->table].is_rows;
    if (is_rows)
        share = rows_of(division, server, part);
    else
        division_dense(division, part->table, server, &first, &share);
    return (struct server_request_part){(uint32_t)part->table, is_rows, share};
}

/* Counts the bytes of all parts, which are filled in. */
static enum tutti_status measure(const struct server_division *division, int server,
                                 const struct tutti_server_part *parts, struct worker_leg *leg)
{
    struct server_request *const request = leg->request;
    struct server_request_part *const own = (struct server_request_part *)(request + 1);
    uint64_t payload = 0;
    for (uint32_t i = 0; i < request->part_count; i++) {
        size_t row_bytes, value_bytes;
        own[i] = part_for(division, server, &parts[i]);
        const bool fits = server_part_bytes(division, request, &own[i], &row_bytes, &value_bytes);
        if (fits) payload += (uint64_t)row_bytes + value_bytes;
        if (!fits || payload > division->payload_max)
            return error_set(TUTTI_INVALID_COUNT,
                             "more than %llu bytes for one server; raise queue_bytes, or use more "
                             "servers or more calls",
                             (unsigned long long)division->payload_max);
    }
    request->payload_bytes = leg->payload_bytes = payload;
    if (request->kind == SERVER_PULL) leg->reply_bytes = server_reply_bytes(division, request, own);
    if (leg->reply_bytes > division->payload_max)
        return error_set(TUTTI_INVALID_COUNT,
                         "more than %llu bytes from one server; raise queue_bytes, or use more "
                         "servers or more calls",
                         (unsigned long long)division->payload_max);
    return TUTTI_OK;
}

/* Elements of a part that are for a server. */
static size_t elements_for(const struct server_division *division,
                           const struct server_request_part *own)
{
    return own->count * (own->is_rows ? division->tables[own->table].width : 1);
}

static const float *dense_values(const struct server_division *division, int server,
                                 const struct tutti_server_part *part)
{
    uint64_t first, share;
    division_dense(division, part->table, server, &first, &share);
    return (const float *)part->values + first;
}

static void gather_values(const struct server_division *division, int server,
                          const struct tutti_server_part *part, char *to)
{
    const size_t bytes = division->tables[part->table].width * sizeof(float);
    for (size_t i = 0; i < part->row_count; i++) {
        if (division_of_row(division, (uint64_t)part->rows[i]) != server) continue;
        memcpy(to, (const char *)part->values + i * bytes, bytes);
        to += bytes;
    }
}

/* A server refuses what an encoding has made infinite, and would end the connection. */
static enum tutti_status check_encoded(const struct division_table *table, uint32_t encoding,
                                       const float *values, size_t elements, const char *encoded)
{
    if (table->allows_nan) return TUTTI_OK;
    float *const decoded = malloc(elements * sizeof *decoded);
    if (decoded == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for %zu values", elements);
    enum tutti_status status =
        tutti_decode((enum tutti_encoding)encoding, TUTTI_FLOAT32, encoded, elements, decoded);
    if (status == TUTTI_OK) {
        const size_t end = finite_end(elements, decoded);
        if (end < elements)
            status =
                error_set(TUTTI_INVALID_BUFFER, "%g, a value for table '%s', is too large for %s",
                          (double)values[end], table->name,
                          tutti_encoding_name((enum tutti_encoding)encoding));
    }
    free(decoded);
    return status;
}

static enum tutti_status encode(const struct division_table *table, uint32_t encoding,
                                const float *values, size_t elements, char *to)
{
    TRY(tutti_encode((enum tutti_encoding)encoding, TUTTI_FLOAT32, values, elements, to));
    return check_encoded(table, encoding, values, elements, to);
}

static enum tutti_status put_values(const struct server_division *division, int server,
                                    const struct tutti_server_part *part, uint32_t encoding,
                                    size_t elements, char *to)
{
    const struct division_table *const table = &division->tables[part->table];
    if (elements == 0) return TUTTI_OK;
    if (!table->is_rows) {
        const float *const values = dense_values(division, server, part);
        if (encoding != TUTTI_ENCODING_NONE) return encode(table, encoding, values, elements, to);
        memcpy(to, values, elements * sizeof *values);
        return TUTTI_OK;
    }
    if (encoding == TUTTI_ENCODING_NONE) {
        gather_values(division, server, part, to);
        return TUTTI_OK;
    }
    float *const room = malloc(elements * sizeof *room);
    if (room == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for %zu values", elements);
    gather_values(division, server, part, (char *)room);
    const enum tutti_status status = encode(table, encoding, room, elements, to);
    free(room);
    return status;
}

static void put_rows(const struct server_division *division, int server,
                     const struct tutti_server_part *part, char *to)
{
    for (size_t i = 0; i < part->row_count; i++) {
        if (division_of_row(division, (uint64_t)part->rows[i]) != server) continue;
        memcpy(to, &part->rows[i], sizeof part->rows[i]);
        to += sizeof part->rows[i];
    }
}

static enum tutti_status put_part(const struct server_division *division, int server,
                                  const struct tutti_server_part *part, uint32_t encoding,
                                  const struct server_request_part *own, char *to)
{
    if (own->is_rows) {
        put_rows(division, server, part, to);
        to += own->count * sizeof(int64_t);
    }
    return put_values(division, server, part, encoding, elements_for(division, own), to);
}

/* All parts that go together, one after the other. */
static enum tutti_status put_rest(const struct server_division *division, int server,
                                  const struct tutti_server_part *parts,
                                  const struct server_request *request, char *to)
{
    const struct server_request_part *const own = (const struct server_request_part *)(request + 1);
    for (uint32_t i = 0; i < request->part_count; i++) {
        size_t row_bytes, value_bytes;
        if (request->kind != SERVER_PULL && server_alone_bytes(division, request, &own[i]) > 0)
            continue;
        if (!server_part_bytes(division, request, &own[i], &row_bytes, &value_bytes))
            return error_set(TUTTI_INTERNAL, "a part was not measured");
        if (value_bytes > 0) memset(to + row_bytes + value_bytes - 8, 0, 8); /* the padding */
        if (request->kind == SERVER_PULL && own[i].is_rows)
            put_rows(division, server, &parts[i], to);
        else if (request->kind != SERVER_PULL)
            TRY(put_part(division, server, &parts[i], request->encoding, &own[i], to));
        to += row_bytes + value_bytes;
    }
    return TUTTI_OK;
}

static enum tutti_status take_piece(struct worker *worker, size_t size, struct leg_piece *piece)
{
    piece->block = block_take(&worker->payloads, size);
    if (piece->block == NULL)
        return error_set(TUTTI_NO_MEMORY, "no memory for a request of %zu bytes", size);
    piece->bytes = block_memory(piece->block);
    piece->size = size;
    return TUTTI_OK;
}

/* A large part of a push or set: from where it lies, if it is in one piece there and stays. */
static enum tutti_status pack_alone(struct worker *worker, int server,
                                    const struct tutti_server_part *part,
                                    const struct server_request_part *own, size_t size, bool stays,
                                    struct leg_piece *piece)
{
    const struct server_division *const division = worker->config.division;
    if (stays && !own->is_rows) {
        piece->bytes = (float *)(uintptr_t)dense_values(division, server, part);
        piece->size = size;
        return TUTTI_OK;
    }
    TRY(take_piece(worker, size, piece));
    return put_part(division, server, part, TUTTI_ENCODING_NONE, own, piece->bytes);
}

static enum tutti_status pack_payload(struct worker *worker, int server,
                                      const struct tutti_server_part *parts, bool stays,
                                      struct worker_leg *leg)
{
    const struct server_division *const division = worker->config.division;
    struct server_request *const request = leg->request;
    const struct server_request_part *const own = (const struct server_request_part *)(request + 1);
    const bool is_pull = request->kind == SERVER_PULL;
    const size_t rest = is_pull ? leg->payload_bytes : server_rest_bytes(division, request, own);
    if (leg->payload_bytes <= SERVER_INLINE_BYTES) {
        char *const behind = (char *)request + leg->request_bytes;
        leg->request_bytes += leg->payload_bytes;
        return put_rest(division, server, parts, request, behind);
    }
    leg->sent_count = leg->piece_count = 1;
    TRY(take_piece(worker, rest, &leg->pieces[0]));
    TRY(put_rest(division, server, parts, request, leg->pieces[0].bytes));
    for (uint32_t i = 0; i < request->part_count && !is_pull; i++) {
        const size_t alone = server_alone_bytes(division, request, &own[i]);
        if (alone == 0) continue;
        leg->sent_count = ++leg->piece_count;
        TRY(pack_alone(worker, server, &parts[i], &own[i], alone, stays,
                       &leg->pieces[leg->piece_count - 1]));
    }
    return TUTTI_OK;
}

/* Whether the values of a part from a server lie in one piece. */
static bool is_whole(const struct server_division *division, const struct server_request_part *own)
{
    return !own->is_rows || division->server_count == 1;
}

static float *first_value(const struct server_division *division, int server,
                          const struct tutti_server_part *part)
{
    uint64_t first = 0, share;
    if (!division->tables[part->table].is_rows)
        division_dense(division, part->table, server, &first, &share);
    return (float *)part->values + first;
}

/* Room for the answer to a pull: where the values belong, or in a block, from which they are put there. */
static enum tutti_status make_room(struct worker *worker, int server,
                                   const struct tutti_server_part *parts, struct worker_leg *leg)
{
    const struct server_division *const division = worker->config.division;
    const struct server_request *const request = leg->request;
    const struct server_request_part *const own = (const struct server_request_part *)(request + 1);
    if (leg->reply_bytes <= SERVER_INLINE_BYTES) return TUTTI_OK;
    leg->piece_count++;
    TRY(take_piece(worker, server_rest_bytes(division, request, own),
                   &leg->pieces[leg->piece_count - 1]));
    for (uint32_t i = 0; i < request->part_count; i++) {
        const size_t alone = server_alone_bytes(division, request, &own[i]);
        if (alone == 0) continue;
        struct leg_piece *const piece = &leg->pieces[leg->piece_count++];
        if (is_whole(division, &own[i]))
            *piece = (struct leg_piece){.bytes = first_value(division, server, &parts[i]),
                                        .size = alone};
        else
            TRY(take_piece(worker, alone, piece));
    }
    return TUTTI_OK;
}

enum tutti_status parts_pack(struct worker *worker, int server, const struct server_request *head,
                             const struct tutti_server_part *parts, size_t part_count, bool stays,
                             struct worker_leg *leg)
{
    leg->request_bytes = sizeof *head + part_count * sizeof(struct server_request_part);
    leg->request = calloc(1, leg->request_bytes + SERVER_INLINE_BYTES);
    leg->pieces = calloc(part_count + 2, sizeof *leg->pieces);
    if (leg->request == NULL || leg->pieces == NULL)
        return error_set(TUTTI_NO_MEMORY, "no memory for a request");
    *leg->request = *head;
    leg->request->part_count = (uint32_t)part_count;
    TRY(measure(worker->config.division, server, parts, leg));
    TRY(pack_payload(worker, server, parts, stays, leg));
    return head->kind == SERVER_PULL ? make_room(worker, server, parts, leg) : TUTTI_OK;
}

enum tutti_status parts_make_room(struct worker *worker, size_t bytes, struct worker_leg *leg)
{
    leg->reply_bytes = bytes;
    if (bytes <= SERVER_INLINE_BYTES) return TUTTI_OK;
    leg->pieces = calloc(1, sizeof *leg->pieces);
    if (leg->pieces == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for an answer");
    leg->piece_count = 1;
    return take_piece(worker, bytes, &leg->pieces[0]);
}

const void *parts_rest(const struct worker_leg *leg)
{
    return leg->reply_bytes <= SERVER_INLINE_BYTES ? leg->reply.payload
                                                   : leg->pieces[leg->sent_count].bytes;
}

static void scatter_values(const struct server_division *division, int server,
                           const struct tutti_server_part *part, const char *values)
{
    const size_t row_bytes = division->tables[part->table].width * sizeof(float);
    for (size_t i = 0; i < part->row_count; i++) {
        if (division_of_row(division, (uint64_t)part->rows[i]) != server) continue;
        memcpy((char *)part->values + i * row_bytes, values, row_bytes);
        values += row_bytes;
    }
}

void parts_unpack(const struct server_division *division, int server,
                  const struct tutti_server_part *parts, size_t part_count,
                  const struct worker_leg *leg)
{
    const struct server_request_part *const own =
        (const struct server_request_part *)(leg->request + 1);
    const char *rest = parts_rest(leg);
    const struct leg_piece *alone = leg->pieces + leg->sent_count;
    for (size_t p = 0; p < part_count; p++) {
        const bool is_alone = server_alone_bytes(division, leg->request, &own[p]) > 0;
        const size_t bytes = elements_for(division, &own[p]) * sizeof(float);
        const char *const from = is_alone ? (++alone)->bytes : rest;
        if (!is_alone) rest += bytes;
        if (own[p].is_rows && (!is_alone || alone->block != NULL))
            scatter_values(division, server, &parts[p], from);
        else if (!is_alone && bytes > 0)
            memcpy(first_value(division, server, &parts[p]), from, bytes);
    }
}
