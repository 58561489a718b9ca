/* log_limit.h - keeps lines that somebody else causes from filling the log: one line is written,
 * and then none for ten seconds.
 *
 * A peer, or a stranger, may send the same nonsense without end. The line that is written next says
 * how many were left out before it, if any. */
#ifndef TUTTI_BASE_LOG_LIMIT_H
#define TUTTI_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

static const uint64_t LOG_LIMIT_NS = 10000000000u;
enum { LOG_LIMIT_TEXT_SIZE = 40 };

/* All zero at first. Its owner's threads are its own. */
struct log_limit {
    uint64_t next_ns, left_out;
};

/* Whether the line may be written now. If so, `more` is " (5 times more)" for the lines that were
 * left out since the last line, or "" if there were none. */
bool log_limit_allows(struct log_limit *limit, uint64_t now_ns,
                      char more[static LOG_LIMIT_TEXT_SIZE]);

#endif
