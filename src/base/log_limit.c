#include "base/log_limit.h"

bool log_limit_allows(struct log_limit *limit, uint64_t now_ns, uint64_t *left_out)
{
    if (now_ns < limit->next_ns) {
        limit->left_out++;
        return false;
    }
    *left_out = limit->left_out;
    *limit = (struct log_limit){.next_ns = now_ns + LOG_LIMIT_NS};
    return true;
}
