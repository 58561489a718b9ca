/* Processes that are asked what they do: all at once, answers of any length, and those that do not
 * answer, by name.
 *
 * ctest: waits
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/monitor.h"
#include "tools/trace/choices.c"
#include "tools/trace/query.c"
#include "tools/trace/text.c"

enum { TEXT_SIZE = 1 << 20 };
static const uint64_t SECOND = 1000000000;

/* ---------------------------------------------------------------------- processes that are none */

/* Of this test alone: no process has such a number. */
static int number(int i)
{
    return 1000000000 + (int)getpid() % 10000000 * 10 + i;
}

static int listen_as(int i)
{
    char name[MONITOR_NAME_SIZE];
    int fd;
    monitor_name(number(i), 0, name);
    assert_int_equal(local_socket_listen(name, &fd), TUTTI_OK);
    return fd;
}

/* One that asks, and its request; -1: nobody comes. */
static int accept_asker(int listening_fd)
{
    char request[8];
    int descriptor_count;
    struct pollfd entry = {listening_fd, POLLIN, 0};
    const uint64_t deadline_ns = clock_now_ns() + 20 * SECOND;
    if (poll(&entry, 1, 20000) != 1) return -1;
    const int fd = accept(listening_fd, NULL, NULL);
    if (fd >= 0 && local_socket_receive(fd, request, sizeof request, NULL, 0, &descriptor_count,
                                        deadline_ns) != TUTTI_OK) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Of rank i of three; it waits for the one that is given, or for nobody: -1. */
static void say_rank(int fd, int i, int waits_for)
{
    char text[1000];
    int length = snprintf(text, sizeof text,
                          "{\"tutti_trace\": 1, \"communicator\": \"feedbeef\", \"rank\": %d, "
                          "\"size\": 3, \"host\": \"h\", \"pid\": %d, \"monotonic_ns\": 900, "
                          "\"calls\": 4, \"messages\": [], \"operations\": [",
                          i, number(i));
    if (waits_for >= 0)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "{\"sequence\": 4, \"call\": \"barrier\", \"state\": \"running\", "
                           "\"begin_ns\": 5, \"waits_for\": {\"rank\": %d, \"host\": \"h\", "
                           "\"pid\": %d, \"since_ns\": 7}}",
                           waits_for, number(waits_for));
    length += snprintf(text + length, sizeof text - (size_t)length, "]}\n");
    local_socket_send(fd, text, (size_t)length, NULL, 0, clock_now_ns() + 20 * SECOND);
}

/* --------------------------------------------------------------------------------------- asking */

static char out[TEXT_SIZE], err[TEXT_SIZE];

static void read_back(FILE *file, char *text)
{
    rewind(file);
    text[fread(text, 1, TEXT_SIZE - 1, file)] = '\0';
    fclose(file);
}

/* The result of query_processes; its output is in out and err. */
static int query(const int *pids, int count, bool with_choices)
{
    FILE *const lines = tmpfile(), *const complaints = tmpfile();
    assert_true(lines != NULL && complaints != NULL);
    fflush(stderr);
    const int kept = dup(STDERR_FILENO);
    assert_true(kept >= 0 && dup2(fileno(complaints), STDERR_FILENO) >= 0);
    const int missing = query_processes(pids, count, with_choices, lines);
    fflush(stderr);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    read_back(lines, out);
    read_back(complaints, err);
    return missing;
}

/* The first answers only after the second has been asked, too. */
static void *answer_after_the_other(void *argument)
{
    const int *const listening_fds = argument;
    const int first = accept_asker(listening_fds[0]), second = accept_asker(listening_fds[1]);
    if (second >= 0) say_rank(second, 1, -1);
    if (second >= 0) close(second);
    if (first >= 0) say_rank(first, 0, -1);
    if (first >= 0) close(first);
    return NULL;
}

static void all_are_asked_at_once(void **state)
{
    (void)state;
    int listening_fds[2] = {listen_as(0), listen_as(1)};
    const int pids[2] = {number(0), number(1)};
    pthread_t thread;
    char expected[200];
    assert_int_equal(pthread_create(&thread, NULL, answer_after_the_other, listening_fds), 0);
    const int missing = query(pids, 2, false);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) close(listening_fds[i]);
    if (missing != 0) fail_msg("%d did not answer: %s", missing, err);
    snprintf(expected, sizeof expected,
             "pid %d  feedbeef  rank 0 of 3: in no call\npid %d  feedbeef  rank 1 of 3: in no "
             "call\n",
             number(0), number(1));
    assert_string_equal(out, expected);
}

/* The first says nothing, the second waits for it, and the third is about to end. */
static void *answer_for_one(void *argument)
{
    const int *const listening_fds = argument;
    const int silent = accept_asker(listening_fds[0]), good = accept_asker(listening_fds[1]);
    if (good >= 0) say_rank(good, 1, 0);
    if (good >= 0) close(good);
    close(accept_asker(listening_fds[2]));
    char byte;
    struct pollfd entry = {silent, POLLIN, 0};
    if (silent >= 0) poll(&entry, 1, 20000); /* until the asker has given up */
    if (silent >= 0 && recv(silent, &byte, sizeof byte, 0) == 0) close(silent);
    return NULL;
}

static void those_that_do_not_answer_are_named_with_their_ranks(void **state)
{
    (void)state;
    int listening_fds[3];
    const int pids[] = {number(0), number(2), number(1)};
    pthread_t thread;
    char expected[400];
    for (int i = 0; i < 3; i++) listening_fds[i] = listen_as(i);
    assert_int_equal(pthread_create(&thread, NULL, answer_for_one, listening_fds), 0);
    const int missing = query(pids, 3, false);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++) close(listening_fds[i]);
    assert_int_equal(missing, 2);
    snprintf(expected, sizeof expected,
             "pid %d  feedbeef  rank 1 of 3: barrier() #4 for 895 ns, waits for rank 0 (host h, "
             "pid %d) for 893 ns\n",
             number(1), number(0));
    assert_string_equal(out, expected);
    snprintf(expected, sizeof expected,
             "tutti-trace: process %d (rank 0 of 3, communicator feedbeef) does not answer: is it "
             "short of processors?\n"
             "tutti-trace: process %d has no communicator that could be asked\n",
             number(0), number(2));
    assert_string_equal(err, expected);
}

static void *answer_by_half(void *argument)
{
    static char part[MONITOR_MESSAGE_BYTES_MAX];
    const int fd = accept_asker(*(const int *)argument);
    if (fd < 0) return NULL;
    say_rank(fd, 0, -1);
    memset(part, ' ', sizeof part);
    local_socket_send(fd, part, sizeof part, NULL, 0, clock_now_ns() + 20 * SECOND);
    close(fd);
    return NULL;
}

static void half_an_answer_is_none(void **state)
{
    (void)state;
    int listening_fd = listen_as(0);
    const int pid = number(0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer_by_half, &listening_fd), 0);
    const int missing = query(&pid, 1, false);
    pthread_join(thread, NULL);
    close(listening_fd);
    assert_int_equal(missing, 1);
    assert_non_null(strstr(out, "rank 0 of 3: in no call\n")); /* what was whole is shown */
    assert_non_null(strstr(err, "ends in the middle of its answer\n"));
}

/* --------------------------------------------------------------------------------- long answers */

enum { CHOICES = 40, UNUSED = 16 };
static size_t padded_bytes;

/* As many choices, of which each has many plans that are not used; then blanks up to a length. */
static void describe_choices(struct monitor_client *client, FILE *file)
{
    (void)client;
    fprintf(file,
            "{\"tutti_trace\": 1, \"communicator\": \"feedbeef\", \"rank\": 0, \"size\": 1, "
            "\"host\": \"h\", \"pid\": %d, \"monotonic_ns\": 900, \"calls\": 0, \"operations\": "
            "[], \"messages\": [], \"choices\": [",
            (int)getpid());
    for (int i = 0; i < CHOICES; i++) {
        fprintf(file,
                "%s{\"call\": \"alltoall\", \"dtype\": \"int8\", \"bytes\": %d, \"algorithm\": "
                "\"mesh\", \"reason\": \"it is\", \"unused\": [",
                i > 0 ? ", " : "", i);
        for (int k = 0; k < UNUSED; k++)
            fprintf(file, "%s{\"algorithm\": \"plan-%d\", \"reason\": \"%0380d\"}",
                    k > 0 ? ", " : "", k, k);
        fputs("]}", file);
    }
    fputs("]}\n", file);
    while ((size_t)ftell(file) < padded_bytes) fputc(' ', file);
}

static void nothing(struct monitor_client *client)
{
    (void)client;
}

static void measure_nothing(struct monitor_client *client, struct metrics_counts *sum,
                            struct metrics_communicator *own)
{
    (void)client, (void)sum, (void)own;
}

static void long_answers_are_shown_whole(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 8 * MONITOR_MESSAGE_BYTES_MAX,
                                     8 * MONITOR_MESSAGE_BYTES_MAX - 1,
                                     8 * MONITOR_MESSAGE_BYTES_MAX + 1};
    const int pid = (int)getpid();
    struct monitor_client client = {
        .describe = describe_choices, .look = nothing, .dump = nothing, .measure = measure_nothing};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        padded_bytes = lengths[i];
        monitor_register(&client);
        const int missing = query(&pid, 1, true);
        monitor_unregister(&client);
        if (missing != 0) fail_msg("it did not answer: %s", err);
        int lines = 0;
        for (const char *c = out; *c != '\0'; c++) lines += *c == '\n';
        assert_int_equal(lines, 1 + CHOICES * (1 + UNUSED));
        assert_non_null(strstr(out, "\n    alltoall of int8, 39 bytes: mesh, because it is\n"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_asked_at_once),
        cmocka_unit_test(those_that_do_not_answer_are_named_with_their_ranks),
        cmocka_unit_test(half_an_answer_is_none),
        cmocka_unit_test(long_answers_are_shown_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
