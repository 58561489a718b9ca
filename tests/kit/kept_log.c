#include "tests/kit/kept_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void kept_log_begin(struct kept_log *log)
{
    log->file = tmpfile();
    assert_non_null(log->file);
    log->standard_error = dup(STDERR_FILENO);
    assert_true(log->standard_error >= 0);
    assert_int_equal(dup2(fileno(log->file), STDERR_FILENO), STDERR_FILENO);
}

unsigned kept_log_end(struct kept_log *log, const char *word, const char *other)
{
    char line[1024];
    unsigned count = 0;
    assert_int_equal(dup2(log->standard_error, STDERR_FILENO), STDERR_FILENO);
    close(log->standard_error);
    rewind(log->file);
    while (fgets(line, sizeof line, log->file) != NULL) {
        fputs(line, stderr);
        count += strstr(line, word) != NULL && strstr(line, other) != NULL;
    }
    fclose(log->file);
    return count;
}
