/* If a rank makes a blocking call that others start, or the other way round, the failure names both
 * ranks, with what each did, long before a deadline, and all ranks have the same failure. If ranks
 * only start a call and then compute, a line reports them, and nothing fails. Ranks that make all
 * calls in one order raise no alarm, whatever is outstanding, stands in line or comes late.
 *
 * The test runs on one host over shared memory and over TCP, and on two pretended hosts.
 *
 * ctest: label=nosan label=once timeout=300 waits first
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/cases.h"
#include "tests/kit/log_reader.h"
#include "tests/worlds/ranks.h"
#include "tests/worlds/ways.h"
#include "tutti/tutti.h"

enum { RANKS_MAX = 4, COUNT = 7 };
static const uint64_t DEADLINE_NS = UINT64_C(40000000000), LIMIT_NS = UINT64_C(15000000000);

enum form { STARTED, PREPARED, GROUPED, BLOCKING };

struct scene {
    enum form forms[RANKS_MAX]; /* of each rank's call */
    int before; /* calls that all make first, half of them started and not waited for */
};

/* Of all ranks. */
static struct shared {
    _Atomic int statuses[RANKS_MAX], culprits[RANKS_MAX];
    _Atomic uint64_t slowest_ns;
    char messages[RANKS_MAX][256];
    int lines; /* that say what was called instead */
    char line[1024];
} * shared;

/* ---------------------------------------------------------------------------------------- calls */

static int32_t data[64][COUNT];

static enum tutti_status call(enum form form, struct tutti_comm *comm)
{
    struct tutti_request *request;
    struct tutti_prepared *prepared;
    enum tutti_status status;
    switch (form) {
    case STARTED:
        status = tutti_allreduce_start(data[0], data[0], COUNT, TUTTI_INT32, TUTTI_SUM, NULL, comm,
                                       &request);
        return status == TUTTI_OK ? tutti_wait(&request) : status;
    case PREPARED:
        status = tutti_allreduce_prepare(data[0], data[0], COUNT, TUTTI_INT32, TUTTI_SUM, NULL,
                                         comm, &prepared);
        if (status == TUTTI_OK) status = tutti_start(prepared, &request);
        if (status == TUTTI_OK) status = tutti_wait(&request);
        (void)tutti_prepared_free(prepared);
        return status;
    case GROUPED:
        if (tutti_group_begin() != TUTTI_OK) return TUTTI_INTERNAL;
        status = tutti_allreduce(data[0], data[0], COUNT, TUTTI_INT32, TUTTI_SUM, comm);
        return status == TUTTI_OK ? tutti_group_end() : status;
    default: return tutti_allreduce(data[0], data[0], COUNT, TUTTI_INT32, TUTTI_SUM, comm);
    }
}

/* Started ones, of which nobody waits for the last four. */
static int call_before(int count, struct tutti_comm *comm, int rank)
{
    static struct tutti_request *requests[64];
    for (int i = 0; i < count; i++) {
        RANKS_EXPECT(tutti_allreduce_start(data[i], data[i], COUNT, TUTTI_INT32, TUTTI_SUM, NULL,
                                           comm, &requests[i]) == TUTTI_OK);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        if (i >= 4) RANKS_EXPECT(tutti_wait(&requests[i - 4]) == TUTTI_OK);
    }
    return 0;
}

static int call_in_forms(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)size;
    const struct scene *scene = context;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    if (call_before(scene->before, comm, rank) != 0) return 1;
    const uint64_t begin_ns = clock_now_ns();
    const enum tutti_status status = call(scene->forms[rank], comm);
    const uint64_t took_ns = clock_now_ns() - begin_ns;
    uint64_t slowest_ns = atomic_load(&shared->slowest_ns);
    while (took_ns > slowest_ns &&
           !atomic_compare_exchange_weak(&shared->slowest_ns, &slowest_ns, took_ns)) {
    }
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    atomic_store(&shared->statuses[rank], (int)status);
    atomic_store(&shared->culprits[rank], failure.culprit);
    snprintf(shared->messages[rank], sizeof shared->messages[rank], "%s", failure.message);
    return 0;
}

/* ------------------------------------------------------------------------------------- failures */

static int run(int size, ranks_function *function, void *context)
{
    const struct tutti_comm_options patient = {.size_bytes = sizeof patient,
                                               .rank = -1,
                                               .size = -1,
                                               .timeout_ns = DEADLINE_NS,
                                               .init_timeout_ns = DEADLINE_NS};
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 100000, .comm_options = &patient};
    memset(shared, 0, sizeof *shared);
    return ranks_run(size, &options, function, context);
}

/* In the pair that is named. */
static bool is_named(const char *message, int rank)
{
    char name[32];
    snprintf(name, sizeof name, "rank %d (", rank);
    return strstr(message, name) != NULL;
}

/* Which of several is named depends on who came when; it is the same for all. */
static void expect_named(int size, struct scene scene)
{
    assert_int_equal(run(size, call_in_forms, &scene), 0);
    const char *const message = shared->messages[0];
    const int starter = shared->culprits[0];
    printf("%.2f s: %s\n", (double)shared->slowest_ns * 1e-9, message);
    assert_in_range(starter, 0, size - 1);
    assert_true(scene.forms[starter] != BLOCKING && is_named(message, starter));
    int callers = 0;
    for (int r = 0; r < size; r++) {
        callers += scene.forms[r] == BLOCKING && is_named(message, r);
        assert_int_equal(shared->statuses[r], TUTTI_MISMATCH);
        assert_int_equal(shared->culprits[r], starter);
        assert_string_equal(shared->messages[r], message);
    }
    assert_int_equal(callers, 1);
    assert_non_null(strstr(message, "blocking"));
    assert_true(shared->slowest_ns < LIMIT_NS);
}

static void one_that_blocks_is_named(void **state)
{
    (void)state;
    expect_named(2, (struct scene){.forms = {STARTED, BLOCKING}});
    expect_named(3, (struct scene){.forms = {BLOCKING, PREPARED, GROUPED}});
}

static void one_that_starts_is_named(void **state)
{
    (void)state;
    expect_named(2, (struct scene){.forms = {BLOCKING, GROUPED}});
    expect_named(4, (struct scene){.forms = {BLOCKING, BLOCKING, PREPARED, BLOCKING}});
}

static void two_pairs_have_one_name(void **state)
{
    (void)state;
    expect_named(4, (struct scene){.forms = {BLOCKING, BLOCKING, STARTED, STARTED}});
    expect_named(4, (struct scene){.forms = {STARTED, BLOCKING, STARTED, BLOCKING}});
}

static void it_is_so_after_other_calls(void **state)
{
    (void)state;
    expect_named(3, (struct scene){.forms = {STARTED, BLOCKING, STARTED}, .before = 21});
}

/* -------------------------------------------------------------------------------------- reports */

static void take_line(const char *line, void *context)
{
    (void)context;
    if (strstr(line, "LATE") == NULL || strstr(line, "rank 0: LATE: rank 1 (") == NULL ||
        strstr(line, "has not called allreduce(count 7, int32, sum) #2 as a blocking call, it "
                     "started allreduce(count 7, int32, sum) and is at #2") == NULL)
        return;
    shared->lines++;
    snprintf(shared->line, sizeof shared->line, "%s", line);
}

/* Rank 1 makes two calls in another order, and no call keeps it from coming to the other one: so
 * that is only said. */
static int comes_right_by_itself(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    (void)seed, (void)size, (void)context;
    struct tutti_request *request;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 0) RANKS_EXPECT(call(BLOCKING, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce_start(data[1], data[1], COUNT, TUTTI_INT32, TUTTI_SUM, NULL, comm,
                                       &request) == TUTTI_OK);
    if (rank == 1) {
        for (int ms = 0; ms < 20000 && shared->lines == 0; ms += 50) ranks_nap_ms(50);
        RANKS_EXPECT(call(BLOCKING, comm) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    return 0;
}

static void a_rank_that_computes_is_only_said(void **state)
{
    (void)state;
    struct log_reader reader;
    log_reader_begin(&reader, take_line, NULL);
    const int bad = run(2, comes_right_by_itself, NULL);
    log_reader_end(&reader);
    assert_int_equal(bad, 0);
    assert_true(shared->lines > 0);
}

/* The same, and its caller's patience ends. */
static int runs_out_of_time(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)seed, (void)size, (void)context;
    struct tutti_call_options soon = TUTTI_CALL_OPTIONS_INIT;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    struct tutti_request *request;
    enum tutti_status status = TUTTI_IN_PROGRESS;
    soon.timeout_ns = 1200000000;
    if (rank == 0)
        status = tutti_allreduce_with(data[0], data[0], COUNT, TUTTI_INT32, TUTTI_SUM, &soon, comm);
    if (rank != 0)
        RANKS_EXPECT(tutti_allreduce_start(data[0], data[0], COUNT, TUTTI_INT32, TUTTI_SUM, NULL,
                                           comm, &request) == TUTTI_OK);
    for (int ms = 0; ms < 20000 && status == TUTTI_IN_PROGRESS; ms += 10) { /* it does not wait */
        ranks_nap_ms(10);
        status = tutti_test(&request);
    }
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(status == TUTTI_MISMATCH && failure.culprit == 1);
    RANKS_EXPECT(strstr(failure.message, "has not called it as a blocking call, it started "
                                         "allreduce(count 7, int32, sum)") != NULL);
    return 0;
}

static void at_the_deadline_it_is_named(void **state)
{
    (void)state;
    assert_int_equal(run(2, runs_out_of_time, NULL), 0);
}

/* --------------------------------------------------------------------------------- false alarms */

/* All in one order, with many that stand in line, ranks that wait for other ones, and one that
 * comes later than any look. */
static int keeps_the_order(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { STARTS = 40, LATE_MS = 2500 };
    struct tutti_request *requests[STARTS];
    for (int i = 0; i < STARTS; i++) data[i][0] = 1;
    if (rank == size - 1) ranks_nap_ms(LATE_MS);
    for (int i = 0; i < STARTS; i++)
        RANKS_EXPECT(tutti_broadcast_start(data[i], data[i], 1, TUTTI_INT32, i % size, NULL, comm,
                                           &requests[i]) == TUTTI_OK);
    if (rank == 0) RANKS_EXPECT(tutti_wait(&requests[STARTS - 1]) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    for (int i = 0; i < STARTS; i++)
        if (requests[i] != NULL) RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_OK);
    return 0;
}

static void ranks_that_keep_the_order_are_left_alone(void **state)
{
    (void)state;
    assert_int_equal(run(3, keeps_the_order, NULL), 0);
}

int main(void)
{
    shared = ranks_share(sizeof *shared);
#define CASES(way)                                                                                  \
    CASE_OF(one_that_blocks_is_named, way), CASE_OF(one_that_starts_is_named, way),                 \
        CASE_OF(two_pairs_have_one_name, way), CASE_OF(it_is_so_after_other_calls, way),            \
        CASE_OF(a_rank_that_computes_is_only_said, way), CASE_OF(at_the_deadline_it_is_named, way), \
        CASE_OF(ranks_that_keep_the_order_are_left_alone, way)
    const struct CMUnitTest tests[] = {CASES(in_shared_memory), CASES(over_tcp_on_one_host),
                                       CASES(on_two_hosts)};
    return CASES_RUN_AT_ONCE(tests, 4);
}
