/* kept_log.h - what this process logs meanwhile, to be counted by line. It takes the place of
 * standard error, and copies the lines there at the end. For a test's one thread; what it cannot
 * begin or end fails the test. */
#ifndef TUTTI_TESTS_KIT_KEPT_LOG_H
#define TUTTI_TESTS_KIT_KEPT_LOG_H

#include <stdio.h>

struct kept_log {
    FILE *file;
    int standard_error;
};

void kept_log_begin(struct kept_log *log);
/* The number of lines that contain both words. */
unsigned kept_log_end(struct kept_log *log, const char *word, const char *other);

#endif
