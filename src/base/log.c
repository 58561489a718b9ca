#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/option.h"
#include "base/printable.h"

/* A line is all or nothing in a pipe up to PIPE_BUF bytes. */
enum { LINE_BYTES = 640, PATIENCE_MS = 10 };
static_assert((int)LINE_BYTES <= PIPE_BUF, "lines of several processes do not mix");

/* Another open file of the same pipe or terminal, which does not block: the flags of stderr's own
 * belong to the application, and are shared with other processes. -1: there is none, or it needs
 * none. */
static int open_beside(mode_t mode)
{
    char name[32];
    if (!S_ISFIFO(mode) && !(S_ISCHR(mode) && isatty(STDERR_FILENO))) return -1;
    snprintf(name, sizeof name, "/proc/self/fd/%d", STDERR_FILENO);
    return open(name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* One write, so that lines of several ranks do not mix. False: it would have blocked, or nobody is
 * there to read it. */
static bool put_line(const char *line, size_t bytes, int patience_ms)
{
    struct pollfd sink = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct stat about;
    if (fstat(STDERR_FILENO, &about) != 0) return false;
    /* If the last reader has gone, a write would raise SIGPIPE. */
    if (poll(&sink, 1, patience_ms) <= 0 || (sink.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
        return false;
    ssize_t written;
    if (S_ISSOCK(about.st_mode)) {
        written = send(STDERR_FILENO, line, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
        /* Another thread or process may have used up the room that poll saw, so we write to a
         * descriptor that does not block; if there is none, we trust poll. */
        const int beside = open_beside(about.st_mode);
        written = write(beside >= 0 ? beside : STDERR_FILENO, line, bytes);
        if (beside >= 0) close(beside);
    }
    return written == (ssize_t)bytes;
}

/* Callers may hold locks that a whole job waits for, so a reader of stderr that does not read may
 * cost a moment once, and then nothing: lines that find no room are counted, and the next one that
 * does says how many. */
static void put(const char *line, size_t bytes)
{
    static _Atomic unsigned lost;
    char before[96];
    const unsigned missing = atomic_exchange_explicit(&lost, 0, memory_order_relaxed);
    const int used = snprintf(before, sizeof before,
                              "tutti[%d]: %u lines before this one found no room in stderr\n",
                              (int)getpid(), missing);
    unsigned more = missing;
    if (missing == 0 || put_line(before, (size_t)used, 0)) {
        more = 0;
        if (put_line(line, bytes, missing == 0 ? PATIENCE_MS : 0)) return;
    }
    atomic_fetch_add_explicit(&lost, more + 1, memory_order_relaxed);
}

bool log_is_wanted(enum log_level level)
{
    static atomic_int chosen = -1;
    int limit = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (limit < 0) {
        limit = option_wish(OPTION_LOG); /* the places of its words are the levels; off is 0 */
        atomic_store_explicit(&chosen, limit, memory_order_relaxed);
    }
    return (int)level <= limit;
}

void log_write(enum log_level level, const char *format, ...)
{
    if (!log_is_wanted(level)) return;
    char line[LINE_BYTES];
    int used = snprintf(line, sizeof line, "tutti[%d]: ", (int)getpid());
    va_list arguments;
    va_start(arguments, format);
    const int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    va_end(arguments);
    used += more < 0 ? 0 : more;
    if ((size_t)used > sizeof line - 2) used = (int)sizeof line - 2;
    line[used] = '\0';
    printable_make(line);
    used = (int)strlen(line);
    line[used++] = '\n';
    const int error = errno;
    put(line, (size_t)used);
    errno = error;
}
