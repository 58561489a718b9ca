/* log.h - one sink for what people should read. Silent unless TUTTI_LOG asks: warn (default), info, debug, off. */
#ifndef TUTTI_BASE_LOG_H
#define TUTTI_BASE_LOG_H

enum log_level { LOG_WARN = 1, LOG_INFO, LOG_DEBUG };

/* One line to stderr, prefixed; callers do the rate limiting. */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
