#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
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
                             "more than %llu bytes (queue_bytes) for one server",
                             (unsigned long long)division->payload_max);
    }
    request->payload_bytes = leg->payload_bytes = payload;
    if (request->kind == SERVER_PULL) leg->reply_bytes = server_reply_bytes(division, request, own);
    if (leg->reply_bytes > division->payload_max)
        return error_set(TUTTI_INVALID_COUNT, "more than %llu bytes (queue_bytes) from one server",
                         (unsigned long long)division->payload_max);
    return TUTTI_OK;
}

/* The values of a part for the server, one after the other: where they lie, or copied to `room`. */
static const float *values_for(const struct server_division *division, int server,
                               const struct tutti_server_part *part, float *room)
{
    const struct division_table *const table = &division->tables[part->table];
    uint64_t first, share;
    if (!table->is_rows) {
        division_dense(division, part->table, server, &first, &share);
        return (const float *)part->values + first;
    }
    float *at = room;
    for (size_t i = 0; i < part->row_count; i++) {
        if (division_of_row(division, (uint64_t)part->rows[i]) != server) continue;
        memcpy(at, (const float *)part->values + i * table->width, table->width * sizeof *at);
        at += table->width;
    }
    return room;
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
    for (size_t i = 0; i < elements && status == TUTTI_OK; i++)
        if (!isfinite(decoded[i]))
            status = error_set(TUTTI_INVALID_BUFFER,
                               "%g, a value for table '%s', is too large for its encoding",
                               (double)values[i], table->name);
    free(decoded);
    return status;
}

static enum tutti_status put_values(const struct server_division *division, int server,
                                    const struct tutti_server_part *part, uint32_t encoding,
                                    size_t elements, char *to)
{
    float *room = NULL;
    if (elements == 0) return TUTTI_OK;
    if (division->tables[part->table].is_rows) {
        room = malloc(elements * sizeof *room);
        if (room == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for %zu values", elements);
    }
    const float *const values = values_for(division, server, part, room);
    enum tutti_status status = TUTTI_OK;
    if (encoding == TUTTI_ENCODING_NONE)
        memcpy(to, values, elements * sizeof *values);
    else
        status = tutti_encode((enum tutti_encoding)encoding, TUTTI_FLOAT32, values, elements, to);
    if (status == TUTTI_OK && encoding != TUTTI_ENCODING_NONE)
        status = check_encoded(&division->tables[part->table], encoding, values, elements, to);
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

static enum tutti_status fill(const struct server_division *division, int server,
                              const struct tutti_server_part *parts, struct worker_leg *leg)
{
    const struct server_request *const request = leg->request;
    const struct server_request_part *const own = (const struct server_request_part *)(request + 1);
    char *at = leg->payload;
    for (uint32_t i = 0; i < request->part_count; i++) {
        size_t row_bytes, value_bytes;
        if (!server_part_bytes(division, request, &own[i], &row_bytes, &value_bytes))
            return error_set(TUTTI_INTERNAL, "a part was not measured");
        if (own[i].is_rows) put_rows(division, server, &parts[i], at);
        at += row_bytes;
        if (value_bytes > 0)
            TRY(put_values(
                division, server, &parts[i], request->encoding,
                own[i].count * (own[i].is_rows ? division->tables[own[i].table].width : 1), at));
        at += value_bytes;
    }
    return TUTTI_OK;
}

enum tutti_status parts_pack(const struct server_division *division, int server,
                             const struct server_request *head,
                             const struct tutti_server_part *parts, size_t part_count,
                             struct worker_leg *leg)
{
    leg->request_bytes = sizeof *head + part_count * sizeof(struct server_request_part);
    leg->request = calloc(1, leg->request_bytes);
    if (leg->request == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for a request");
    *leg->request = *head;
    leg->request->part_count = (uint32_t)part_count;
    TRY(measure(division, server, parts, leg));
    leg->payload = calloc(1, leg->payload_bytes + 1);
    leg->reply_payload = malloc(leg->reply_bytes + 1);
    if (leg->payload == NULL || leg->reply_payload == NULL)
        return error_set(TUTTI_NO_MEMORY, "no memory for a request of %zu bytes",
                         leg->payload_bytes);
    return fill(division, server, parts, leg);
}

void parts_unpack(const struct server_division *division, int server,
                  const struct tutti_server_part *parts, size_t part_count, const char *values)
{
    for (size_t p = 0; p < part_count; p++) {
        const struct tutti_server_part *const part = &parts[p];
        const struct division_table *const table = &division->tables[part->table];
        uint64_t first, share;
        if (!table->is_rows) {
            division_dense(division, part->table, server, &first, &share);
            if (share > 0) memcpy((float *)part->values + first, values, share * sizeof(float));
            values += share * sizeof(float);
            continue;
        }
        const size_t row_bytes = table->width * sizeof(float);
        for (size_t i = 0; i < part->row_count; i++) {
            if (division_of_row(division, (uint64_t)part->rows[i]) != server) continue;
            memcpy((float *)part->values + i * table->width, values, row_bytes);
            values += row_bytes;
        }
    }
}
