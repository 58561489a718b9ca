#include "tests/kit/log_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void read_lines(int fd, log_reader_line *function, void *context)
{
    char line[1024];
    FILE *const log = fdopen(fd, "r");
    while (log != NULL && fgets(line, sizeof line, log) != NULL) {
        fputs(line, stdout);
        function(line, context);
    }
    fflush(stdout);
    _exit(0);
}

void log_reader_begin(struct log_reader *reader, log_reader_line *function, void *context)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    reader->process = fork();
    assert_true(reader->process >= 0);
    if (reader->process == 0) {
        close(ends[1]);
        read_lines(ends[0], function, context);
    }
    reader->standard_error = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
}

void log_reader_end(struct log_reader *reader)
{
    int status;
    dup2(reader->standard_error, STDERR_FILENO);
    close(reader->standard_error);
    assert_int_equal(waitpid(reader->process, &status, 0), reader->process);
}
