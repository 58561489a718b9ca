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
