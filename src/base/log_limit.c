#include "base/log_limit.h"

#include <inttypes.h>
#include <stdio.h>

bool log_limit_allows(struct log_limit *limit, uint64_t now_ns,
                      char more[static LOG_LIMIT_TEXT_SIZE])
{
    if (now_ns < limit->next_ns) {
        limit->left_out++;
        return false;
    }
    more[0] = '\0';
    if (limit->left_out > 0)
        snprintf(more, LOG_LIMIT_TEXT_SIZE, " (%" PRIu64 " times more)", limit->left_out);
    *limit = (struct log_limit){.next_ns = now_ns + LOG_LIMIT_NS};
    return true;
}
