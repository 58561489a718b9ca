/* log_reader.h - a process that reads what this one and its children log, line by line, at the time
 * that they do.
 *
 * It takes the place of standard error, and copies each line to standard output. For a test's one
 * thread; what it cannot begin or end fails the test. */
#ifndef TUTTI_TESTS_KIT_LOG_READER_H
#define TUTTI_TESTS_KIT_LOG_READER_H

#include <sys/types.h>

struct log_reader {
    pid_t process;
    int standard_error;
};

/* Is called in the process that reads: what it finds has to go to shared memory. */
typedef void log_reader_line(const char *line, void *context);

void log_reader_begin(struct log_reader *reader, log_reader_line *function, void *context);
/* After it has read everything. All that log have to be gone: it waits for the last one. */
void log_reader_end(struct log_reader *reader);

#endif
