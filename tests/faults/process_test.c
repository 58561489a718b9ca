/* Ranks that are stopped or late are named while others wait for them, with what they have called
 * last, and nothing fails of it: on one host, and on two that one machine pretends to be. Nobody
 * else is named, not even by a rank that did not run itself for a second. At a deadline, the error
 * says of a stopped rank that it does not run.
 *
 * Where the machine kept a rank from running for longer than that, it may be named with good
 * reason, and it is tried again.
 *
 * With arguments it is one rank of a job of which somebody else breaks the network,
 * tests/faults/network_test.sh:
 *
 *     tests_faults_process_test FILE     reduces again and again, until it fails or the file is there, and says what came of it
 *
 * ctest: label=nosan label=once timeout=180 serial
 */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/cases.h"
#include "tests/kit/fault_time.h"
#include "tests/kit/log_reader.h"
#include "tests/worlds/ranks.h"
#include "tutti/tutti.h"

enum { RANKS = 4, VICTIM = 3, PAUSE_MS = 3000, COUNT = 1 << 16 };
enum { UNFIT_MS = 300, LONGER_MS = 100, ATTEMPTS = 5 };

/* What the ranks and the reader of their log tell the test. */
struct shared {
    _Atomic uint64_t fault_ns, paused_ns;
    uint64_t reported_ns; /* the first line that has the word */
    unsigned reports, recoveries, others;
    atomic_bool is_unfit; /* the machine let some rank wait for UNFIT_MS */
    atomic_bool is_told;  /* the deadline has passed */
    char report[1024];
};
static struct shared *shared;

struct fault {
    ranks_function *function;
    const char *word;    /* of the lines about the victim */
    const char *row;     /* of bench/faults; or NULL */
    const char *ignored; /* lines that have this; or NULL */
    int host_count;
    int stopped; /* this rank is; -1: none */
    long stopped_ms;
};

/* -------------------------------------------------------------------------------------- the log */

static void take_line(const char *line, void *context)
{
    const struct fault *const fault = context;
    const char *const word = fault->word;
    if (fault->ignored != NULL && strstr(line, fault->ignored) != NULL) return;
    if (strstr(line, word) != NULL) {
        if (shared->reports++ == 0) {
            shared->reported_ns = clock_now_ns();
            snprintf(shared->report, sizeof shared->report, "%s", line);
        }
    } else if (strstr(line, " goes on") != NULL) {
        shared->recoveries++;
    } else if (strstr(line, "tutti[") != NULL &&
               strstr(line, "STRAGGLER") == NULL) { /* a busy machine */
        shared->others++;
    }
}

/* ---------------------------------------------------------------------------------- the machine */

struct watch {
    atomic_bool is_over;
    long limit_ms; /* that it may not run for */
};

/* A thread that would see if its process did not run, or for longer than it should. */
static void *watch_the_machine(void *context)
{
    struct watch *const watch = context;
    uint64_t before_ns = clock_now_ns();
    while (!atomic_load(&watch->is_over)) {
        ranks_nap_ms(10);
        const uint64_t now_ns = clock_now_ns();
        if (now_ns - before_ns > (uint64_t)watch->limit_ms * 1000000)
            atomic_store(&shared->is_unfit, true);
        before_ns = now_ns;
    }
    return NULL;
}

/* --------------------------------------------------------------------------------------- faults */

static int reduce(struct tutti_comm *comm, int rank, int size, int round)
{
    static int32_t data[COUNT];
    for (int i = 0; i < COUNT; i++) data[i] = rank * (i % 100) + round;
    RANKS_EXPECT(tutti_allreduce(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    for (int i = 0; i < COUNT; i++)
        RANKS_EXPECT(data[i] == size * (size - 1) / 2 * (i % 100) + size * round);
    return 0;
}

/* Another process stops this one in the middle of what it does, and lets it go on. */
static pid_t begin_to_be_stopped(long after_ms, long pause_ms, _Atomic uint64_t *stopped_ns)
{
    const pid_t self = getpid(), other = fork();
    if (other != 0) return other;
    ranks_nap_ms(after_ms);
    kill(self, SIGSTOP);
    atomic_store(stopped_ns, clock_now_ns());
    ranks_nap_ms(pause_ms);
    kill(self, SIGCONT);
    _exit(0);
}

static int one_is_stopped(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    const uint64_t begin_ns = clock_now_ns();
    pid_t other = 0;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == VICTIM) other = begin_to_be_stopped(300, PAUSE_MS, &shared->fault_ns);
    RANKS_EXPECT(other >= 0);
    int32_t goes_on = 1;
    for (int round = 0; goes_on != 0; round++) {
        RANKS_EXPECT(reduce(comm, rank, size, round) == 0);
        goes_on = clock_now_ns() - begin_ns < (PAUSE_MS + 1000) * UINT64_C(1000000);
        RANKS_EXPECT(tutti_allreduce(&goes_on, &goes_on, 1, TUTTI_INT32, TUTTI_MIN, comm) ==
                     TUTTI_OK);
    }
    if (other > 0) waitpid(other, NULL, 0);
    return 0;
}

static int one_is_late(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    for (int round = 0; round < 4; round++) {
        if (rank == VICTIM && round == 2) {
            atomic_store(&shared->fault_ns, clock_now_ns());
            ranks_nap_ms(PAUSE_MS);
        }
        RANKS_EXPECT(reduce(comm, rank, size, round) == 0);
    }
    return 0;
}

/* When the late one goes on, rank 0 does not run: what it heard last of the others is a second old
 * as it does. */
static int one_is_late_and_another_does_not_run(struct tutti_comm *comm, int rank, int size,
                                                uint64_t seed, void *context)
{
    const struct fault *fault = context;
    pid_t other = 0;
    if (rank == fault->stopped)
        other = begin_to_be_stopped(PAUSE_MS + 350 - fault->stopped_ms, fault->stopped_ms,
                                    &shared->paused_ns);
    RANKS_EXPECT(other >= 0);
    const int result = one_is_late(comm, rank, size, seed, context);
    if (other > 0) waitpid(other, NULL, 0);
    return result;
}

static int be_rank_of_fault(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    const struct fault *fault = context;
    /* Who is stopped on purpose is close to being named, so little more is too much. */
    struct watch watch = {.limit_ms =
                              rank == fault->stopped ? fault->stopped_ms + LONGER_MS : UNFIT_MS};
    pthread_t watcher;
    const bool is_watched = rank != fault->stopped || fault->stopped_ms > 0;
    if (is_watched) RANKS_EXPECT(pthread_create(&watcher, NULL, watch_the_machine, &watch) == 0);
    const int result = fault->function(comm, rank, size, seed, context);
    atomic_store(&watch.is_over, true);
    if (is_watched) pthread_join(watcher, NULL);
    return result;
}

/* One line a host about the victim, another one when it goes on, and nothing of others. */
static bool is_as_promised(const struct fault *fault)
{
    char who[32];
    snprintf(who, sizeof who, "%s rank %d (", fault->word, VICTIM);
    return shared->reports >= 1 && (int)shared->reports <= fault->host_count &&
           shared->recoveries == shared->reports && shared->others == 0 &&
           strstr(shared->report, who) != NULL;
}

/* false: it may be the machine's fault. */
static bool run_fault(const struct fault *fault)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = comm_options.init_timeout_ns = 30000000000u;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .comm_options = &comm_options};
    struct fault copy = *fault;
    struct log_reader reader;
    char hosts[16];
    memset(shared, 0, sizeof *shared);
    snprintf(hosts, sizeof hosts, "%d", fault->host_count);
    if (fault->host_count > 1)
        setenv("TUTTI_TEST_HOSTS", hosts, 1);
    else
        unsetenv("TUTTI_TEST_HOSTS");
    log_reader_begin(&reader, take_line, &copy);
    const int bad = ranks_run(RANKS, &options, be_rank_of_fault, &copy);
    log_reader_end(&reader);
    assert_int_equal(bad, 0);
    const bool is_good = is_as_promised(fault);
    assert_true(is_good || atomic_load(&shared->is_unfit));
    return is_good;
}

static void expect_report(struct fault fault)
{
    int attempts = 1;
    while (!run_fault(&fault)) assert_true(attempts++ < ATTEMPTS);
    assert_non_null(strstr(shared->report, "allreduce(count"));
    const uint64_t took_ns = shared->reported_ns - atomic_load(&shared->fault_ns);
    print_message("said after %.2f s\n", (double)took_ns * 1e-9);
    if (fault.row != NULL) fault_time_print(fault.row, took_ns);
    assert_true(took_ns > 1000000000u && took_ns < PAUSE_MS * UINT64_C(1000000));
}

static void who_is_stopped_is_named_and_goes_on(void **state)
{
    (void)state;
    expect_report((struct fault){.function = one_is_stopped,
                                 .word = "STALLED:",
                                 .row = "stopped",
                                 .host_count = 1,
                                 .stopped = VICTIM});
}

static void who_is_stopped_on_another_host_is_named_and_goes_on(void **state)
{
    (void)state;
    expect_report((struct fault){.function = one_is_stopped,
                                 .word = "STALLED:",
                                 .row = "stopped_far",
                                 .host_count = 2,
                                 .stopped = VICTIM});
}

/* Its calls: a barrier and two allreduces. */
static void who_is_late_is_named_with_its_last_call(void **state)
{
    (void)state;
    expect_report((struct fault){
        .function = one_is_late, .word = "LATE:", .row = "late", .host_count = 1, .stopped = -1});
    assert_non_null(strstr(shared->report, " #4, it is at #3\n"));
}

static void who_is_late_on_another_host_is_named_with_its_last_call(void **state)
{
    (void)state;
    expect_report((struct fault){
        .function = one_is_late, .word = "LATE:", .row = "late_far", .host_count = 2, .stopped = -1});
    assert_non_null(strstr(shared->report, " #4, it is at #3\n"));
}

/* After a second nobody names it either (after 1.3 s ranks of other hosts do); after a longer time
 * somebody may. */
static void who_did_not_run_itself_names_nobody_else(void **state)
{
    (void)state;
    const struct fault fault = {.function = one_is_late_and_another_does_not_run,
                                .word = "LATE:",
                                .host_count = RANKS,
                                .stopped = 0,
                                .stopped_ms = 1050};
    struct fault longer = fault;
    longer.stopped_ms = 1700;
    longer.host_count = 2;
    longer.ignored = ": rank 0 (";
    expect_report(fault);
    assert_non_null(strstr(shared->report, " #4, it is at #3\n"));
    expect_report(longer);
}

/* Rank 1 does not run until the deadline of rank 0's call has passed. */
static int wait_for_a_stopped_rank(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                   void *context)
{
    (void)size, (void)seed;
    const char *const text = context;
    const pid_t self = getpid();
    int32_t data = 1;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 0) {
        const enum tutti_status status =
            tutti_allreduce(&data, &data, 1, TUTTI_INT32, TUTTI_SUM, comm);
        atomic_store(&shared->is_told, true);
        printf("%s\n", tutti_error_message());
        struct tutti_failure failure = {.size_bytes = sizeof failure};
        RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
        RANKS_EXPECT(status == TUTTI_TIMEOUT && failure.culprit == 1);
        RANKS_EXPECT(strstr(tutti_error_message(), text) != NULL);
        return 0;
    }
    const pid_t other = fork();
    RANKS_EXPECT(other >= 0);
    if (other == 0) {
        while (!atomic_load(&shared->is_told) && getppid() == self) ranks_nap_ms(10);
        kill(self, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    waitpid(other, NULL, 0);
    /* Rank 0's message of its last call may be there before the news that it has failed: that call
     * succeeds here, and no other one. */
    enum tutti_status status = tutti_allreduce(&data, &data, 1, TUTTI_INT32, TUTTI_SUM, comm);
    if (status == TUTTI_OK) status = tutti_allreduce(&data, &data, 1, TUTTI_INT32, TUTTI_SUM, comm);
    RANKS_EXPECT(status != TUTTI_OK);
    return 0;
}

static void a_deadline_says_that_a_rank_does_not_run(void **state)
{
    (void)state;
    static char *const texts[] = {
        "has not called it, and does not run (stopped by a signal or a debugger); deadline of 2 s",
        " s: its process does not run"};
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 2000000000u;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .comm_options = &comm_options};
    for (int hosts = 1; hosts <= 2; hosts++) {
        memset(shared, 0, sizeof *shared);
        if (hosts == 2)
            setenv("TUTTI_TEST_HOSTS", "2", 1);
        else
            unsetenv("TUTTI_TEST_HOSTS");
        const int bad = ranks_run(2, &options, wait_for_a_stopped_rank, texts[hosts - 1]);
        unsetenv("TUTTI_TEST_HOSTS");
        assert_int_equal(bad, 0);
    }
}

/* Rank 2 does not run. Rank 1 waits for it in a reduce, and rank 0, which is through with that, waits for
 * rank 1 in a barrier, whose deadline comes first. */
static int wait_behind_a_rank_that_waits(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                         void *context)
{
    (void)size, (void)seed, (void)context;
    const pid_t self = getpid();
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    int32_t data = 1, sum;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 2) {
        const pid_t other = fork();
        RANKS_EXPECT(other >= 0);
        if (other == 0) {
            while (!atomic_load(&shared->is_told) && getppid() == self) ranks_nap_ms(10);
            kill(self, SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
        waitpid(other, NULL, 0);
        return 0;
    }
    if (rank == 1) ranks_nap_ms(1000);
    enum tutti_status status = tutti_reduce(&data, &sum, 1, TUTTI_INT32, TUTTI_SUM, 1, comm);
    if (status == TUTTI_OK) status = tutti_barrier(comm);
    if (rank == 0) atomic_store(&shared->is_told, true);
    if (rank == 0) printf("%s\n", tutti_error_message());
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(status == TUTTI_TIMEOUT && failure.culprit == 2);
    return 0;
}

static void a_deadline_names_the_rank_for_which_others_wait_in_the_end(void **state)
{
    (void)state;
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 6000000000u;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .comm_options = &comm_options};
    for (int hosts = 1; hosts <= 3; hosts += 2) {
        memset(shared, 0, sizeof *shared);
        if (hosts > 1) setenv("TUTTI_TEST_HOSTS", "3", 1);
        const int bad = ranks_run(3, &options, wait_behind_a_rank_that_waits, NULL);
        unsetenv("TUTTI_TEST_HOSTS");
        assert_int_equal(bad, 0);
    }
}

/* ---------------------------------------------------------------------------- one rank of a job */

/* Of the clock that /proc/uptime shows, too. */
static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int be_rank(const char *path)
{
    static int32_t data[COUNT];
    struct tutti_comm *comm;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    enum tutti_status status = tutti_comm_create(NULL, &comm);
    if (status != TUTTI_OK) {
        printf("not created: %s\n", tutti_error_message());
        return 1;
    }
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    size_t wrong = 0;
    int32_t stops = 0;
    for (int round = 0; status == TUTTI_OK && stops == 0; round++) {
        for (int i = 0; i < COUNT; i++) data[i] = rank * (i % 100) + round;
        status = tutti_allreduce(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, comm);
        for (int i = 0; i < COUNT && status == TUTTI_OK; i++)
            wrong += data[i] != size * (size - 1) / 2 * (i % 100) + size * round;
        stops = access(path, F_OK) == 0;
        if (status == TUTTI_OK) status = tutti_broadcast(&stops, &stops, 1, TUTTI_INT32, 0, comm);
        if (rank == 0 && status == TUTTI_OK && (round == 10 || stops != 0)) {
            printf("round %d\n", round);
            fflush(stdout);
        }
    }
    const double failed_s = now_s();
    if (status == TUTTI_OK) {
        status = tutti_barrier(comm);
        printf("rank %d: %s\n", rank, status == TUTTI_OK && wrong == 0 ? "all right" : "wrong");
    } else {
        tutti_comm_failure(comm, &failure);
        printf("rank %d: %s culprit %d wrong %zu at %.3f: %s\n", rank, tutti_status_name(status),
               failure.culprit, wrong, failed_s, tutti_error_message());
    }
    fflush(stdout);
    tutti_comm_free(comm);
    return 0;
}

int main(int argument_count, char **arguments)
{
    if (argument_count == 2) return be_rank(arguments[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_stopped_is_named_and_goes_on),
        cmocka_unit_test(who_is_stopped_on_another_host_is_named_and_goes_on),
        cmocka_unit_test(who_is_late_is_named_with_its_last_call),
        cmocka_unit_test(who_is_late_on_another_host_is_named_with_its_last_call),
        cmocka_unit_test(who_did_not_run_itself_names_nobody_else),
        cmocka_unit_test(a_deadline_says_that_a_rank_does_not_run),
        cmocka_unit_test(a_deadline_names_the_rank_for_which_others_wait_in_the_end),
    };
    setenv("TUTTI_LOG", "warn", 1);
    setenv("TUTTI_SECRET", "a secret of these tests alone", 1);
    shared = ranks_share(sizeof *shared);
    return CASES_RUN_AT_ONCE(tests, 3);
}
