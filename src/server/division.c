#include "server/division.h"

void division_dense(const struct server_division *division, size_t table, int server,
                    uint64_t *first, uint64_t *share)
{
    const uint64_t width = division->tables[table].width;
    const uint64_t servers = (uint64_t)division->server_count, own = (uint64_t)server;
    if (width < DIVISION_WHOLE_BELOW) {
        *first = 0;
        *share = table % servers == own ? width : 0;
        return;
    }
    const uint64_t each = width / servers, more = width % servers;
    *first = own * each + (own < more ? own : more);
    *share = each + (own < more);
}

static uint64_t dense_bytes(const struct server_division *division, int server)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < division->table_count; i++) {
        uint64_t first, share;
        if (division->tables[i].is_rows) continue;
        division_dense(division, i, server, &first, &share);
        if (share > (DIVISION_QUEUE_MAX - bytes) / sizeof(float) - DIVISION_PADDING)
            return DIVISION_QUEUE_MAX;
        bytes += share * sizeof(float) + DIVISION_PADDING;
    }
    return bytes;
}

uint64_t division_queue_bytes(const struct server_division *division, uint64_t least)
{
    uint64_t most = 0;
    for (int server = 0; server < division->server_count; server++) {
        const uint64_t bytes = dense_bytes(division, server);
        if (bytes > most) most = bytes;
    }
    return most < DIVISION_QUEUE_MAX - least ? least + most : DIVISION_QUEUE_MAX;
}
