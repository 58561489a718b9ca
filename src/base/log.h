/* log.h - one sink for lines that people should read. Silent unless TUTTI_LOG asks: warn (default),
 * info, debug, off. */
#ifndef TUTTI_BASE_LOG_H
#define TUTTI_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_WARN = 1, LOG_INFO, LOG_DEBUG };

/* Whether lines of that level are written: for callers that would have to find out first what to
 * say. Any thread. */
bool log_is_wanted(enum log_level level);

/* Writes one line to stderr, prefixed and made printable; callers do the rate limiting. Any thread,
 * also under locks: if stderr is a pipe, socket or terminal that nobody reads, one call waits 10
 * ms, and from then on lines are dropped and counted; the next line that finds room says how many.
 * Keeps errno. */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
