/* Whatever a peer sends to a server, or a server to a worker: what is taken for a request is
 * about tables, rows, workers and bytes that there are, and what is taken for a reply has no
 * more than its room.
 *
 * The input: who hears it, the bytes of a request, and behind them rows. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "membership/rank_set.h"
#include "server/server_message_seeds.h"

static void must(bool holds)
{
    if (!holds) abort();
}

static void check_parts(const struct server_ends *ends, const struct server_request *request,
                        const struct server_request_part *parts)
{
    must(request->part_count == 0 || ends->share >= 0);
    if (request->kind == SERVER_CHANGE) must(request->left_count <= SEED_WORKERS);
    uint64_t payload = 0;
    must(request->part_count <= TUTTI_SERVER_PARTS && request->slot < SERVER_SLOTS);
    for (uint32_t i = 0; i < request->part_count; i++) {
        size_t rows, values;
        must(parts[i].table < seed_division.table_count);
        must(server_part_bytes(&seed_division, request, &parts[i], &rows, &values));
        payload += rows + values;
        if (parts[i].is_rows) continue;
        uint64_t first, share;
        division_dense(&seed_division, parts[i].table, ends->share, &first, &share);
        must(parts[i].count == share && first + share <= seed_tables[parts[i].table].width);
    }
    must(payload == request->payload_bytes && payload <= seed_division.payload_max);
    must(server_rest_bytes(&seed_division, request, parts) <= seed_division.payload_max);
    must(server_reply_bytes(&seed_division, request, parts) <= seed_division.payload_max);
}

static void check_rows(const struct server_ends *ends, const uint8_t *data, size_t bytes)
{
    int64_t rows[64];
    size_t count = bytes / sizeof *rows;
    if (count > 64) count = 64;
    memcpy(rows, data, count * sizeof *rows);
    if (server_rows_check(ends, 2, count, rows) != TUTTI_OK) return;
    for (size_t i = 0; i < count; i++)
        must(rows[i] >= 0 && rows[i] < 100 && rows[i] % SEED_SERVERS == ends->share);
}

static void read_reply(const uint8_t *data, size_t bytes)
{
    struct server_reply reply = {0};
    const size_t room = 64, size = bytes < sizeof reply + room ? bytes : sizeof reply + room;
    memcpy(&reply, data, size < sizeof reply ? size : sizeof reply);
    const enum tutti_status status = server_reply_read(&reply, size, room);
    must((unsigned)status < STATUS_COUNT);
    if (status == TUTTI_OK)
        must(size == sizeof reply + reply.payload_bytes && size <= sizeof reply + room);
}

static bool is_about_worker(unsigned kind)
{
    return kind == SERVER_HAS || kind == SERVER_LOST || kind == SERVER_LEFT ||
           kind == SERVER_LINKED || kind == SERVER_CAME || kind == SERVER_BEGUN ||
           kind == SERVER_KEPT;
}

static bool is_entry_of_seat(unsigned kind)
{
    return kind == SERVER_INVITED || kind == SERVER_JOINED || kind == SERVER_FULL ||
           kind == SERVER_OUT;
}

/* Messages between seats are about workers, seats and shares that there are. */
static void check_seats(const struct server_request *request)
{
    const unsigned kind = request->kind;
    must(request->part_count == 0);
    if (kind == SERVER_PIECE)
        must(request->payload_bytes <= SERVER_PIECE_BYTES_MAX);
    else if (kind == SERVER_BASE)
        must(request->payload_bytes == server_base_bytes(&seed_division));
    else
        must(request->payload_bytes <= rank_set_words(SEED_WORKERS) * sizeof(uint64_t));
    if (is_about_worker(kind)) must(request->number < SEED_WORKERS);
    if (is_entry_of_seat(kind)) must(request->left_count < SEED_SERVERS);
    if (is_entry_of_seat(kind) || kind == SERVER_GONE || kind == SERVER_RESUME)
        must(request->number < SEED_SERVERS);
    if (is_entry_of_seat(kind) || kind == SERVER_LEFT || kind == SERVER_CAME ||
        kind == SERVER_DECIDED)
        must(request->sequence > 0);
    if (kind == SERVER_OVER || kind == SERVER_PIECE) must(request->number <= 1);
    if (kind == SERVER_CHANGED) must(request->left_count <= SEED_WORKERS);
    if (kind == SERVER_KEPT) must(request->left_count < SEED_WORKERS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct server_request_part parts[TUTTI_SERVER_PARTS];
    struct server_request request;
    if (bytes < 1) return 0;
    const struct server_ends ends = seed_ends(data[0]);
    data++, bytes--;
    read_reply(data, bytes);
    check_rows(&ends, data, bytes);
    if (server_request_read(&ends, data, bytes, &request, parts) != TUTTI_OK) return 0;
    must(request.magic == SERVER_MAGIC && request.version == SERVER_VERSION);
    must((request.kind >= SERVER_HAS) == ends.is_from_server);
    if (!ends.is_from_server)
        check_parts(&ends, &request, parts);
    else
        check_seats(&request);
    if (request.kind == SERVER_CHANGE) must(request.left_count <= SEED_WORKERS);
    return 0;
}
