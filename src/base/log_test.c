#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

enum { LINES = 3, WRITERS = 4, WAIT_S = 20 };

/* The descriptor that stands in for stderr, and its other end. */
struct sink {
    int saved, ends[2]; /* read, write */
};

static void use(struct sink *sink)
{
    fflush(stderr);
    sink->saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    assert_true(sink->saved >= 0);
    assert_true(dup2(sink->ends[1], STDERR_FILENO) >= 0);
}

static void put_back(struct sink *sink)
{
    assert_true(dup2(sink->saved, STDERR_FILENO) >= 0);
    close(sink->saved);
    for (int i = 0; i < 2; i++)
        if (sink->ends[i] >= 0) close(sink->ends[i]);
}

/* Up to the last byte: then it blocks again, as the application has it. */
static void fill(int fd)
{
    static const char block[4096];
    const int flags = fcntl(fd, F_GETFL);
    assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    for (size_t bytes = sizeof block; bytes > 0;)
        if (write(fd, block, bytes) < 0) bytes /= 2;
    assert_int_equal(fcntl(fd, F_SETFL, flags), 0);
}

/* All that is there, of which the last bytes are kept. */
static void drain(int fd, char *text, size_t size)
{
    static char block[65536];
    ssize_t got;
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
    text[0] = '\0';
    while ((got = read(fd, block, sizeof block - 1)) > 0) {
        const size_t kept = (size_t)got < size ? (size_t)got : size - 1;
        memcpy(text, block + got - kept, kept);
        text[kept] = '\0';
    }
}

static void *write_lines(void *count)
{
    for (int i = 0; i < *(int *)count; i++) log_write(LOG_WARN, "line %d", i);
    return NULL;
}

/* Whether somebody who writes that many comes back while nobody reads. */
static bool comes_back(int count)
{
    pthread_t writer;
    struct timespec until;
    assert_int_equal(pthread_create(&writer, NULL, write_lines, &count), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    const bool came = pthread_timedjoin_np(writer, NULL, &until) == 0;
    if (came) return true;
    fprintf(stdout, "a line did not come back for %d s\n", WAIT_S);
    fflush(stdout);
    _exit(1);
}

static void check_full(struct sink *sink)
{
    char text[512];
    fill(sink->ends[1]);
    const int flags = fcntl(sink->ends[1], F_GETFL);
    use(sink);
    const bool came = comes_back(LINES);
    const int flags_then = fcntl(STDERR_FILENO, F_GETFL);
    drain(sink->ends[0], text, sizeof text);
    errno = EXDEV;
    log_write(LOG_WARN, "the next");
    const int error = errno;
    drain(sink->ends[0], text, sizeof text);
    put_back(sink);
    assert_true(came);
    assert_int_equal(flags_then, flags);
    assert_int_equal(error, EXDEV);
    assert_non_null(strstr(text, ": 3 lines before this one found no room in stderr\ntutti["));
    assert_non_null(strstr(text, ": the next\n"));
}

static void a_full_pipe_holds_up_nobody(void **state)
{
    (void)state;
    struct sink sink;
    assert_int_equal(pipe2(sink.ends, O_CLOEXEC), 0);
    check_full(&sink);
}

static void a_full_socket_holds_up_nobody(void **state)
{
    (void)state;
    struct sink sink;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sink.ends), 0);
    check_full(&sink);
}

/* Each sees room that another takes. */
static void writers_who_fill_it_together_come_back(void **state)
{
    (void)state;
    struct sink sink;
    pthread_t writers[WRITERS];
    int count = 3000, left = 0;
    char text[512];
    assert_int_equal(pipe2(sink.ends, O_CLOEXEC), 0);
    assert_true(fcntl(sink.ends[1], F_SETPIPE_SZ, 16384) > 0);
    use(&sink);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, write_lines, &count), 0);
    for (int i = 0; i < WRITERS; i++) left += pthread_timedjoin_np(writers[i], NULL, &until) != 0;
    if (left > 0) _exit(1);
    drain(sink.ends[0], text, sizeof text);
    put_back(&sink);
    assert_non_null(strstr(text, "\ntutti[")); /* whole lines */
}

static void without_a_reader_there_is_no_signal(void **state)
{
    (void)state;
    struct sink sink;
    assert_int_equal(pipe2(sink.ends, O_CLOEXEC), 0);
    close(sink.ends[0]);
    sink.ends[0] = -1;
    use(&sink);
    log_write(LOG_WARN, "nobody hears this");
    put_back(&sink);
}

/* Its offset is that of the application's own lines. */
static void a_file_is_written_where_others_left_off(void **state)
{
    (void)state;
    char path[] = "/tmp/tutti-log-XXXXXX", text[256] = "";
    struct sink sink = {.ends = {-1, mkstemp(path)}};
    assert_true(sink.ends[1] >= 0);
    use(&sink);
    const bool wrote = write(STDERR_FILENO, "before\n", 7) == 7;
    log_write(LOG_WARN, "between");
    const bool wrote_more = write(STDERR_FILENO, "after\n", 6) == 6;
    const ssize_t got = pread(STDERR_FILENO, text, sizeof text - 1, 0);
    put_back(&sink);
    unlink(path);
    assert_true(wrote && wrote_more && got > 0);
    const char *line = strstr(text, ": between\nafter\n");
    assert_memory_equal(text, "before\ntutti[", 13);
    assert_non_null(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_pipe_holds_up_nobody),
        cmocka_unit_test(a_full_socket_holds_up_nobody),
        cmocka_unit_test(writers_who_fill_it_together_come_back),
        cmocka_unit_test(without_a_reader_there_is_no_signal),
        cmocka_unit_test(a_file_is_written_where_others_left_off),
    };
    setenv("TUTTI_LOG", "warn", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
