#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int level_of_environment(void)
{
    static const char *const names[] = {"off", "warn", "info", "debug"};
    const char *value = getenv("TUTTI_LOG");
    for (int i = 0; value != NULL && i < 4; i++)
        if (strcmp(value, names[i]) == 0) return i;
    return LOG_WARN;
}

void log_write(enum log_level level, const char *format, ...)
{
    static atomic_int chosen = -1;
    int limit = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (limit < 0) {
        limit = level_of_environment();
        atomic_store_explicit(&chosen, limit, memory_order_relaxed);
    }
    if ((int)level > limit) return;

    char line[640];
    int used = snprintf(line, sizeof line, "tutti[%d]: ", (int)getpid());
    va_list arguments;
    va_start(arguments, format);
    const int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    va_end(arguments);
    used += more < 0 ? 0 : more;
    if ((size_t)used > sizeof line - 2) used = (int)sizeof line - 2;
    line[used++] = '\n';
    /* One write, so that lines of several ranks do not mix; nothing can be done about a failure. */
    const ssize_t written = write(STDERR_FILENO, line, (size_t)used);
    (void)written;
}
