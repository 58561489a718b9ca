/* A rank that comes some milliseconds after the others to every call is named, once a host, with
 * how much it holds them up: on one host, and on some that one machine pretends to be. Where the
 * ranks are late in turns nobody is.
 *
 * ctest: label=nosan label=once timeout=180 serial
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/fault_time.h"
#include "tests/kit/log_reader.h"
#include "tests/worlds/ranks.h"
#include "tutti/tutti.h"

enum { RANKS = 4, VICTIM = 3, LATE_MS = 20, CALLS = 60, CALLS_MAX = 1200 };

/* What the ranks and the reader of their log tell the test. */
struct shared {
    _Atomic int reports, wrong;
    _Atomic int calls; /* when the first report came */
    char report[1024];
};
static struct shared *shared;

/* Of the log. */
static void take_line(const char *line, void *context)
{
    (void)context;
    char who[48];
    snprintf(who, sizeof who, "STRAGGLER: rank %d (", VICTIM);
    if (strstr(line, "STRAGGLER") == NULL) return;
    if (atomic_load(&shared->reports) == 0)
        snprintf(shared->report, sizeof shared->report, "%s", line);
    if (strstr(line, who) == NULL) atomic_fetch_add(&shared->wrong, 1);
    atomic_fetch_add(&shared->reports, 1);
}

struct scene {
    int hosts, calls;
    bool is_named; /* goes on after so many calls until somebody is: a busy machine is irregular itself */
    bool starts;   /* calls, and waits for them */
    bool in_turns; /* ranks are late one after the other */
};

/* *is_last: one of the ranks wants no further call. */
static int call(struct tutti_comm *comm, bool starts, int rank, int size, bool *is_last)
{
    int32_t value = *is_last ? 1 + size : 1;
    struct tutti_request *request;
    if (starts) {
        RANKS_EXPECT(tutti_allreduce_start(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, NULL, comm,
                                           &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    } else {
        RANKS_EXPECT(tutti_allreduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    }
    *is_last = value == 2 * size;
    RANKS_EXPECT(*is_last || value == size);
    return 0;
}

static int work(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct scene *scene = context;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    bool is_last = false;
    for (int i = 0; !is_last; i++) {
        const bool is_enough = !scene->is_named || atomic_load(&shared->reports) > 0;
        is_last = rank == VICTIM && i + 1 >= (is_enough ? scene->calls : CALLS_MAX);
        if (rank == (scene->in_turns ? i % size : VICTIM)) ranks_nap_ms(LATE_MS);
        RANKS_EXPECT(call(comm, scene->starts, rank, size, &is_last) == 0);
        if (rank == VICTIM && atomic_load(&shared->reports) == 0)
            atomic_store(&shared->calls, i + 1);
    }
    return 0;
}

static void run(const struct scene *scene)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = comm_options.init_timeout_ns = 60000000000u;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 100000, .comm_options = &comm_options};
    struct log_reader reader;
    char hosts[16];
    memset(shared, 0, sizeof *shared);
    snprintf(hosts, sizeof hosts, "%d", scene->hosts);
    setenv("TUTTI_TEST_HOSTS", hosts, 1);
    log_reader_begin(&reader, take_line, NULL);
    const int bad = ranks_run(RANKS, &options, work, (void *)(uintptr_t)scene);
    log_reader_end(&reader);
    assert_int_equal(bad, 0);
    assert_int_equal(atomic_load(&shared->wrong), 0);
}

static void expect_name(const struct scene *scene)
{
    unsigned held, calls;
    double ms;
    run(scene);
    const int reports = atomic_load(&shared->reports);
    assert_true(reports >= 1 && reports <= scene->hosts);
    const char *text = strstr(shared->report, ") held up ");
    assert_non_null(text);
    assert_int_equal(sscanf(text, ") held up %u of the last %u calls, by %lf ms on average\n",
                            &held, &calls, &ms),
                     3);
    assert_true(held >= 9 && held <= calls && calls <= 11);
    assert_true(ms > LATE_MS / 2.0 && ms < LATE_MS * 20);
    print_message("%d hosts: %d reports, the first after %d calls\n", scene->hosts, reports,
                  atomic_load(&shared->calls));
    fault_time_print_calls("straggler", atomic_load(&shared->calls));
}

static void who_is_always_late_is_named(void **state)
{
    (void)state;
    expect_name(&(struct scene){.hosts = 1, .calls = CALLS, .is_named = true});
}

static void who_is_late_for_started_calls_is_named(void **state)
{
    (void)state;
    expect_name(&(struct scene){.hosts = 1, .calls = CALLS, .is_named = true, .starts = true});
}

static void a_host_is_told_whom_another_one_waits_for(void **state)
{
    (void)state;
    expect_name(&(struct scene){.hosts = 2, .calls = CALLS, .is_named = true});
}

static void who_is_alone_on_its_host_is_named_by_the_others(void **state)
{
    (void)state;
    expect_name(&(struct scene){.hosts = RANKS, .calls = CALLS, .is_named = true});
}

static void who_is_late_in_turns_is_not_named(void **state)
{
    (void)state;
    for (int hosts = 1; hosts <= RANKS; hosts *= 2) {
        run(&(struct scene){.hosts = hosts, .calls = CALLS / 2, .in_turns = true});
        assert_int_equal(atomic_load(&shared->reports), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_always_late_is_named),
        cmocka_unit_test(who_is_late_for_started_calls_is_named),
        cmocka_unit_test(a_host_is_told_whom_another_one_waits_for),
        cmocka_unit_test(who_is_alone_on_its_host_is_named_by_the_others),
        cmocka_unit_test(who_is_late_in_turns_is_not_named),
    };
    setenv("TUTTI_LOG", "warn", 1);
    setenv("TUTTI_SECRET", "a secret of these tests alone", 1);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    shared = ranks_share(sizeof *shared);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
