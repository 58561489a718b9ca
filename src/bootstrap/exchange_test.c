/* The same exchange over every means, by processes; PMIx needs a server and is tried by
 * tests/startup/launchers_test.sh.
 * ctest: label=notsan waits */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/exchange.h"
#include "bootstrap/folder.h"
#include "bootstrap/pmix_service.h"
#include "os/clock.h"
#include "tests/startup/pmi_manager.h"

enum { RANKS_MAX = 9 };

static char folder[] = "/tmp/tutti-exchange-XXXXXX";

static uint64_t later(void)
{
    return clock_now_ns() + 30000000000u;
}

static uint64_t in_ms(unsigned ms)
{
    return clock_now_ns() + ms * 1000000ull;
}

/* ---------------------------------------------------------------------------------- rank's part */

#define EXPECT(condition)                                                             \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "rank %d: line %d: %s: %s\n", rank, __LINE__, #condition, \
                    tutti_error_message());                                           \
            return 1;                                                                 \
        }                                                                             \
    } while (0)

static size_t value_of(int rank, const char *key, unsigned char *value)
{
    static const size_t sizes[] = {0, 1, 479, 480, 481, 4096, 37};
    const size_t bytes = sizes[(size_t)(rank + key[0]) % 7];
    for (size_t i = 0; i < bytes; i++) value[i] = (unsigned char)(i * 7 + (size_t)rank * 31);
    return bytes;
}

static int check_value(struct exchange *exchange, int rank, int other, const char *key)
{
    unsigned char expected[EXCHANGE_VALUE_BYTES_MAX], got[EXCHANGE_VALUE_BYTES_MAX];
    size_t got_bytes = 99999;
    const size_t bytes = value_of(other, key, expected);
    EXPECT(exchange_get(exchange, other, key, got, sizeof got, &got_bytes, later()) == TUTTI_OK);
    EXPECT(got_bytes == bytes && memcmp(got, expected, bytes) == 0);
    if (bytes == 0) return 0;
    EXPECT(exchange_get(exchange, other, key, got, bytes - 1, &got_bytes, later()) ==
           TUTTI_INVALID_OPTIONS);
    EXPECT(exchange_get(exchange, other, key, got, bytes, &got_bytes, later()) == TUTTI_OK);
    return 0;
}

static int exchange_all(int rank, int size, const char *run_id, enum exchange_means means)
{
    static const char *const keys[] = {"address", "b-2", "c_3", "ABCDEFGHIJKLMNOPQRSTUVWX"};
    struct launcher_facts facts = {.launcher = "test", .rank = rank, .size = size};
    unsigned char value[EXCHANGE_VALUE_BYTES_MAX + 1] = {0};
    size_t bytes;
    struct exchange *exchange;
    snprintf(facts.run_id, sizeof facts.run_id, "%s", run_id);
    facts.service = means == EXCHANGE_PMI1 ? LAUNCHER_SERVICE_PMI1 : LAUNCHER_SERVICE_NONE;
    const unsigned all = EXCHANGE_FOLDER | EXCHANGE_PMI1 | EXCHANGE_PMIX;
    EXPECT(exchange_open(&facts, all, later(), &exchange) == TUTTI_OK);
    EXPECT(exchange_means_of(exchange) == means);
    for (int i = 0; i < 4; i++) {
        bytes = value_of(rank, keys[i], value);
        EXPECT(exchange_put(exchange, keys[i], value, bytes, later()) == TUTTI_OK);
        if (i == 1) EXPECT(exchange_fence(exchange, later()) == TUTTI_OK);
        for (int other = 0; i == 1 && other < size; other++)
            if (check_value(exchange, rank, other, keys[0]) != 0) return 1;
    }
    EXPECT(exchange_put(exchange, "long", value, sizeof value, later()) == TUTTI_INVALID_OPTIONS);
    EXPECT(exchange_put(exchange, "a b", value, 1, later()) == TUTTI_INVALID_OPTIONS);
    EXPECT(exchange_put(exchange, "../a", value, 1, later()) == TUTTI_INVALID_OPTIONS);
    EXPECT(exchange_put(exchange, "", value, 1, later()) == TUTTI_INVALID_OPTIONS);
    EXPECT(exchange_fence(exchange, later()) == TUTTI_OK);
    for (int i = 0; i < 4; i++)
        for (int other = 0; other < size; other++)
            if (check_value(exchange, rank, other, keys[i]) != 0) return 1;
    EXPECT(exchange_get(exchange, size, "address", value, 1, &bytes, later()) == TUTTI_INVALID_RANK);
    EXPECT(exchange_get(exchange, -1, "address", value, 1, &bytes, later()) == TUTTI_INVALID_RANK);
    EXPECT(exchange_fence(exchange, later()) == TUTTI_OK);
    exchange_close(exchange);
    return 0;
}

/* -------------------------------------------------------------------------------------- harness */

static pid_t fork_or_fail(void)
{
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    return pid;
}

static void expect_ends_well(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tutti-exchange-XXXXXX");
    if (mkdtemp(folder) == NULL) return 1;
    return setenv("TUTTI_RENDEZVOUS_DIR", folder, 1);
}

static int remove_folder(void **state)
{
    (void)state;
    char command[PATH_MAX + 16];
    unsetenv("TUTTI_RENDEZVOUS_DIR");
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0;
}

static int count_entries(const char *path)
{
    DIR *const entries = opendir(path);
    assert_non_null(entries);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(entries);
    return count;
}

static void run_in_folder(int size, const char *run_id)
{
    pid_t pids[RANKS_MAX];
    for (int r = 0; r < size; r++) {
        pids[r] = fork_or_fail();
        if (pids[r] == 0) _exit(exchange_all(r, size, run_id, EXCHANGE_FOLDER));
    }
    for (int r = 0; r < size; r++) expect_ends_well(pids[r]);
}

/* --------------------------------------------------------------------------------------- folder */

static void ranks_exchange_through_a_folder_and_leave_it_empty(void **state)
{
    (void)state;
    for (int size = 1; size <= RANKS_MAX; size += 4) {
        run_in_folder(size, "a run");
        assert_int_equal(count_entries(folder), 0);
    }
}

static void runs_one_after_the_other_and_at_the_same_time_do_not_mix(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) run_in_folder(3, "the same");
    const pid_t other = fork_or_fail();
    if (other == 0) {
        run_in_folder(3, "one");
        _exit(0);
    }
    run_in_folder(3, "two");
    expect_ends_well(other);
    assert_int_equal(count_entries(folder), 0);
}

/* Opens as one rank and ends without a goodbye. */
/* Runs of one rank, by the same id: each makes the run's folder, or finds it, and removes it when
 * it leaves. */
static int come_and_go(void)
{
    enum { TIMES = 1000 };
    const int rank = 0;
    for (int i = 0; i < TIMES; i++) {
        struct folder *opened;
        EXPECT(folder_open(folder, "again and again", rank, 1, later(), &opened) == TUTTI_OK);
        folder_close(opened);
    }
    return 0;
}

static void a_run_begins_while_an_earlier_one_leaves(void **state)
{
    (void)state;
    pid_t pids[3];
    for (int i = 0; i < 3; i++) {
        pids[i] = fork_or_fail();
        if (pids[i] == 0) _exit(come_and_go());
    }
    for (int i = 0; i < 3; i++) expect_ends_well(pids[i]);
}

static void open_and_die(int rank, int size, uint64_t deadline_ns)
{
    struct folder *opened;
    const enum tutti_status status = folder_open(folder, "again", rank, size, deadline_ns, &opened);
    if (status == TUTTI_OK) (void)folder_put(opened, "address", "old", 3);
    if (status == TUTTI_OK) (void)folder_fence(opened, clock_now_ns());
    _exit(status == TUTTI_OK || status == TUTTI_INIT_TIMEOUT ? 0 : 1);
}

static void what_an_earlier_run_left_is_not_taken_for_this_ones(void **state)
{
    (void)state;
    enum { SIZE = 3 };
    for (int missing = -1; missing < SIZE; missing++) { /* -1: all came, and died at the fence */
        pid_t pids[SIZE];
        int count = 0;
        for (int r = 0; r < SIZE; r++) {
            if (r == missing) continue;
            pids[count] = fork_or_fail();
            if (pids[count] == 0) open_and_die(r, SIZE, missing < 0 ? later() : in_ms(100));
            count++;
        }
        for (int i = 0; i < count; i++) expect_ends_well(pids[i]);
        run_in_folder(SIZE, "again");
    }
}

/* The worst that may lie there: a whole roster, and hellos of all. */
static void a_roster_of_another_run_is_waited_out(void **state)
{
    (void)state;
    enum { SIZE = 3 };
    const pid_t other_run = fork_or_fail();
    if (other_run == 0)
        open_and_die(1, SIZE, in_ms(50)); /* makes the run's folder, and leaves it */
    expect_ends_well(other_run);
    char command[PATH_MAX + 300];
    snprintf(command, sizeof command,
             "set -e; mkdir -p -m 700 %s/x; cd %s/tutti-* 2>/dev/null || exit 3;"
             "t=0123456789abcdef0123456789abcdef; printf %%s $t$t$t >roster; mkdir -m 700 $t;"
             "printf %%s $t >hello.1; printf %%s $t >hello.2; echo >hello.0; echo old "
             ">$t/1.value.address;"
             "echo >$t/1.joined; echo >$t/2.joined; echo >$t/fence.0",
             folder, folder);
    assert_int_equal(system(command), 0);
    run_in_folder(SIZE, "again");
}

static void missing_ranks_are_named_at_the_deadline(void **state)
{
    (void)state;
    enum { SIZE = 4 };
    const pid_t first = fork_or_fail();
    if (first == 0) {
        struct folder *opened;
        const bool late = folder_open(folder, "m", 1, SIZE, later(), &opened) == TUTTI_OK &&
                          folder_fence(opened, later()) != TUTTI_OK;
        _exit(!late || strstr(tutti_error_message(), "given up") == NULL);
    }
    struct folder *opened;
    const uint64_t began_ns = clock_now_ns();
    assert_int_equal(folder_open(folder, "m", 0, SIZE, in_ms(300), &opened), TUTTI_INIT_TIMEOUT);
    assert_null(opened);
    if (strstr(tutti_error_message(), "2 of 4 ranks are missing: 2 3") == NULL)
        fail_msg("%s", tutti_error_message());
    expect_ends_well(first);
    assert_true(clock_now_ns() - began_ns < 10000000000u);

    assert_int_equal(folder_open(folder, "m", 3, SIZE, in_ms(100), &opened), TUTTI_INIT_TIMEOUT);
    assert_non_null(strstr(tutti_error_message(), "rank 0 is missing"));
}

static void who_does_not_come_to_a_fence_is_named(void **state)
{
    (void)state;
    enum { SIZE = 3 };
    pid_t pids[SIZE];
    for (int r = 0; r < SIZE; r++) {
        pids[r] = fork_or_fail();
        if (pids[r] != 0) continue;
        struct folder *opened;
        size_t bytes;
        char value[8];
        if (folder_open(folder, "f", r, SIZE, later(), &opened) != TUTTI_OK) _exit(1);
        if (folder_fence(opened, later()) != TUTTI_OK) _exit(2);
        if (r == 1) _exit(0);
        if (folder_fence(opened, in_ms(200)) != TUTTI_INIT_TIMEOUT) _exit(3);
        if (strstr(tutti_error_message(), "1 of 3 ranks are missing: 1") == NULL) {
            fprintf(stderr, "%s\n", tutti_error_message());
            _exit(4);
        }
        if (folder_get(opened, 1, "none", value, 8, &bytes, in_ms(20)) != TUTTI_INIT_TIMEOUT ||
            strstr(tutti_error_message(), "rank 1") == NULL)
            _exit(5);
        _exit(0); /* not closed: the other may still be looking */
    }
    for (int r = 0; r < SIZE; r++) expect_ends_well(pids[r]);
}

static void folders_of_others_are_refused(void **state)
{
    (void)state;
    struct folder *opened;
    assert_int_equal(folder_open("/nowhere/at/all", "x", 0, 1, later(), &opened), TUTTI_SYSTEM);
    assert_non_null(strstr(tutti_error_message(), "/nowhere/at/all"));
    assert_int_equal(folder_open(folder, "x", 0, 1, later(), &opened), TUTTI_OK);
    char command[PATH_MAX + 100];
    snprintf(command, sizeof command, "chmod 777 %s/tutti-*", folder);
    assert_int_equal(system(command), 0);
    struct folder *second;
    assert_int_equal(folder_open(folder, "x", 0, 1, later(), &second), TUTTI_AUTH_FAILED);
    folder_close(opened);
    assert_int_equal(count_entries(folder), 0);
}

/* ---------------------------------------------------------------------------------------- PMI-1 */

/* The connection is the parent's alone: its answers go to nobody else, and its goodbye comes from
 * nobody else. */
static int open_in_child(int rank, int size)
{
    const struct launcher_facts facts = {
        .launcher = "test", .rank = rank, .size = size, .service = LAUNCHER_SERVICE_PMI1};
    struct exchange *exchange;
    int status;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        exit(exchange_open(&facts, EXCHANGE_PMI1, later(), &exchange) != TUTTI_UNSUPPORTED);
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    return 0;
}

static void exchange_with_manager(int size, int vallen_max)
{
    int managers[RANKS_MAX], clients[RANKS_MAX];
    for (int r = 0; r < size; r++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        managers[r] = ends[0];
        clients[r] = ends[1];
    }
    const pid_t manager = fork_or_fail();
    if (manager == 0) {
        for (int r = 0; r < size; r++) close(clients[r]);
        _exit(pmi_manager_serve(managers, size, vallen_max));
    }
    pid_t pids[RANKS_MAX];
    for (int r = 0; r < size; r++) {
        pids[r] = fork_or_fail();
        if (pids[r] != 0) continue;
        for (int i = 0; i < size; i++) {
            close(managers[i]);
            if (i != r) close(clients[i]);
        }
        char fd[12];
        snprintf(fd, sizeof fd, "%d", clients[r]);
        setenv("PMI_FD", fd, 1);
        /* One connection for both, left at exit. */
        int code = exchange_all(r, size, "", EXCHANGE_PMI1);
        if (code == 0) code = exchange_all(r, size, "", EXCHANGE_PMI1);
        exit(code != 0 ? code : open_in_child(r, size));
    }
    for (int r = 0; r < size; r++) {
        close(managers[r]);
        close(clients[r]);
    }
    for (int r = 0; r < size; r++) expect_ends_well(pids[r]);
    expect_ends_well(manager);
}

static void ranks_exchange_over_pmi1(void **state)
{
    (void)state;
    exchange_with_manager(1, 1024);
    exchange_with_manager(4, 1024);
    exchange_with_manager(5, 256); /* more pieces */
    exchange_with_manager(3, 4096);
}

static void nonsense_in_pmi_fd_is_named(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "x", "-1", "7x", "99999999999"};
    const struct launcher_facts facts = {.size = 1, .service = LAUNCHER_SERVICE_PMI1};
    struct exchange *exchange;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        setenv("PMI_FD", texts[i], 1);
        assert_int_equal(exchange_open(&facts, EXCHANGE_PMI1, later(), &exchange),
                         TUTTI_INVALID_OPTIONS);
        assert_non_null(strstr(tutti_error_message(), "PMI_FD"));
    }
    unsetenv("PMI_FD");
}

/* --------------------------------------------------------------------------- while one connects */

static const struct launcher_facts alone = {
    .launcher = "test", .size = 1, .service = LAUNCHER_SERVICE_PMI1};

static void *connect_to_nobody(void *unused)
{
    struct exchange *exchange;
    return exchange_open(&alone, EXCHANGE_PMI1, later(), &exchange) == TUTTI_OK ? &folder : unused;
}

static int be_refused(enum tutti_status status, uint64_t deadline_ns, const char *why)
{
    struct exchange *exchange;
    const int rank = 0;
    EXPECT(exchange_open(&alone, EXCHANGE_PMI1, deadline_ns, &exchange) == status);
    EXPECT(strstr(tutti_error_message(), why) != NULL);
    return 0;
}

/* The process manager has the first line of a thread, and does not answer. */
static int fork_while_a_thread_connects(void)
{
    const int rank = 0;
    int ends[2], fate;
    char number[16], byte;
    pthread_t thread;
    void *result;
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    snprintf(number, sizeof number, "%d", ends[1]);
    setenv("PMI_FD", number, 1);
    EXPECT(pthread_create(&thread, NULL, connect_to_nobody, NULL) == 0);
    EXPECT(read(ends[0], &byte, 1) == 1);
    const pid_t child = fork_or_fail();
    if (child == 0) {
        alarm(20);
        _exit(be_refused(TUTTI_UNSUPPORTED, later(), "forked"));
    }
    EXPECT(be_refused(TUTTI_INIT_TIMEOUT, in_ms(20), "another thread") == 0);
    EXPECT(waitpid(child, &fate, 0) == child && fate == 0);
    shutdown(ends[0], SHUT_RDWR);
    pthread_join(thread, &result);
    EXPECT(result == NULL);
    return 0;
}

static void a_child_that_is_forked_while_a_thread_connects_is_refused(void **state)
{
    (void)state;
    int fate;
    const pid_t process = fork_or_fail();
    if (process == 0) {
        alarm(60);
        _exit(fork_while_a_thread_connects());
    }
    assert_int_equal(waitpid(process, &fate, 0), process);
    assert_int_equal(fate, 0);
}

/* --------------------------------------------------------------------------------------- choice */

static void means_that_are_not_there_or_not_allowed_are_not_taken(void **state)
{
    (void)state;
    struct exchange *exchange = (struct exchange *)&state;
    struct launcher_facts facts = {.launcher = "test", .size = 1};
    assert_int_equal(exchange_open(&facts, ~0u, later(), &exchange), TUTTI_UNSUPPORTED);
    assert_null(exchange);
    assert_non_null(strstr(tutti_error_message(), "TUTTI_RENDEZVOUS_DIR"));
    facts.service = LAUNCHER_SERVICE_PMI1;
    assert_int_equal(exchange_open(&facts, EXCHANGE_FOLDER | EXCHANGE_PMIX, later(), &exchange),
                     TUTTI_UNSUPPORTED);
    exchange_close(NULL);
}

static void pmix_without_a_server_says_so(void **state)
{
    (void)state;
    struct pmix_service *service = (struct pmix_service *)&state;
    unsetenv("PMIX_NAMESPACE");
    assert_int_equal(pmix_service_open(0, 1, UINT64_MAX, &service), TUTTI_UNSUPPORTED);
    assert_null(service);
    assert_non_null(strstr(tutti_error_message(), "PMI"));
    pmix_service_close(NULL);
}

int main(void)
{
#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(ranks_exchange_through_a_folder_and_leave_it_empty),
        IN_FOLDER(runs_one_after_the_other_and_at_the_same_time_do_not_mix),
        IN_FOLDER(a_run_begins_while_an_earlier_one_leaves),
        IN_FOLDER(what_an_earlier_run_left_is_not_taken_for_this_ones),
        IN_FOLDER(a_roster_of_another_run_is_waited_out),
        IN_FOLDER(missing_ranks_are_named_at_the_deadline),
        IN_FOLDER(who_does_not_come_to_a_fence_is_named),
        IN_FOLDER(folders_of_others_are_refused),
        cmocka_unit_test(ranks_exchange_over_pmi1),
        cmocka_unit_test(nonsense_in_pmi_fd_is_named),
        cmocka_unit_test(a_child_that_is_forked_while_a_thread_connects_is_refused),
        cmocka_unit_test(means_that_are_not_there_or_not_allowed_are_not_taken),
        cmocka_unit_test(pmix_without_a_server_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
