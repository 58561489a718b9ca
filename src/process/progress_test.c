/* progress_test.c - the thread asks its clients as long as there is something to move, and sleeps where it is told. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/futex.h"
#include "process/progress.h"

static const uint64_t PATIENCE_NS = UINT64_C(20000000000);

struct source {
    struct progress_client client;
    _Atomic int left;  /* to be moved */
    _Atomic int asked; /* how often */
    _Atomic int cpu_count, cpu;
    _Atomic bool is_driven;   /* by somebody else, as it says */
    _Atomic uint32_t bell;    /* what it sleeps on */
    _Atomic int slept, woken; /* how often it slept, and was woken before its time */
};

static void note_cpus(struct source *source)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return;
    atomic_store(&source->cpu_count, CPU_COUNT(&cpus));
    atomic_store(&source->cpu, sched_getcpu());
}

/* Every other time there is nothing yet. */
static enum progress_result move(struct progress_client *client)
{
    struct source *const source = (struct source *)(void *)client;
    const int asked = atomic_fetch_add(&source->asked, 1);
    note_cpus(source);
    if (atomic_load(&source->left) == 0) return PROGRESS_NOTHING_TO_DO;
    if (atomic_load(&source->is_driven)) return PROGRESS_DRIVEN;
    if (atomic_load(&source->left) < 0) return PROGRESS_BLOCKED;
    if (asked % 2 == 0) return PROGRESS_BLOCKED;
    atomic_fetch_sub(&source->left, 1);
    return PROGRESS_MOVED;
}

/* Longer than it was told, so that whoever forgets to wake it is found out. */
static bool sleep_on_bell(struct progress_client *client, uint64_t timeout_ns)
{
    struct source *const source = (struct source *)(void *)client;
    (void)timeout_ns;
    const uint64_t begin_ns = clock_now_ns();
    const uint32_t bell = atomic_load(&source->bell);
    atomic_fetch_add(&source->slept, 1);
    while (!progress_is_called() && atomic_load(&source->bell) == bell &&
           clock_now_ns() - begin_ns < PATIENCE_NS)
        futex_wait(&source->bell, bell, PATIENCE_NS);
    if (clock_now_ns() - begin_ns < PATIENCE_NS) atomic_fetch_add(&source->woken, 1);
    return true;
}

static void ring_bell(struct progress_client *client)
{
    struct source *const source = (struct source *)(void *)client;
    atomic_fetch_add(&source->bell, 1);
    futex_wake(&source->bell);
}

static struct source source_with(int left)
{
    return (struct source){.client = {.progress = move, .sleep = sleep_on_bell, .wake = ring_bell},
                           .left = left};
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 20000000}, NULL);
}

static bool becomes_empty(struct source *source)
{
    const uint64_t begin_ns = clock_now_ns();
    while (atomic_load(&source->left) > 0 && clock_now_ns() - begin_ns < PATIENCE_NS) nap();
    return atomic_load(&source->left) == 0;
}

/* Nobody asks any more. */
static bool falls_asleep(struct source *source)
{
    const uint64_t begin_ns = clock_now_ns();
    for (int before = -1; clock_now_ns() - begin_ns < PATIENCE_NS; nap()) {
        const int now = atomic_load(&source->asked);
        if (now == before) return true;
        before = now;
    }
    return false;
}

static void what_is_there_is_moved_and_then_it_sleeps(void **state)
{
    struct source source = source_with(1000);
    (void)state;
    assert_int_equal(progress_register(&source.client), TUTTI_OK);
    assert_int_equal(progress_register(&source.client), TUTTI_OK); /* once more does nothing */
    assert_true(becomes_empty(&source));
    for (int turn = 0; turn < 3; turn++) {
        assert_true(falls_asleep(&source));
        atomic_store(&source.left, 10);
        progress_notify();
        assert_true(becomes_empty(&source));
    }
    progress_unregister(&source.client);
}

static bool becomes(_Atomic int *value, int least)
{
    const uint64_t begin_ns = clock_now_ns();
    while (atomic_load(value) < least && clock_now_ns() - begin_ns < PATIENCE_NS) nap();
    return atomic_load(value) >= least;
}

static void who_is_blocked_is_slept_on_until_somebody_calls(void **state)
{
    struct source source = source_with(-1);
    (void)state;
    assert_int_equal(progress_register(&source.client), TUTTI_OK);
    for (int turn = 0; turn < 5; turn++) {
        const int slept = atomic_load(&source.slept);
        progress_notify();
        assert_true(becomes(&source.slept, slept + 1));
    }
    atomic_store(&source.left, 10);
    progress_notify();
    assert_true(becomes_empty(&source));
    assert_int_equal(atomic_load(&source.woken), atomic_load(&source.slept));

    atomic_store(&source.left, -1);
    const int slept = atomic_load(&source.slept);
    progress_notify();
    assert_true(becomes(&source.slept, slept + 1));
    progress_unregister(&source.client); /* ends that sleep, too */
    assert_int_equal(atomic_load(&source.woken), atomic_load(&source.slept));
}

static void one_of_two_may_go_while_the_other_is_slept_on(void **state)
{
    struct source stays = source_with(-1), goes = source_with(0);
    (void)state;
    assert_int_equal(progress_register(&stays.client), TUTTI_OK);
    for (int turn = 0; turn < 20; turn++) {
        const int slept = atomic_load(&stays.slept);
        assert_int_equal(progress_register(&goes.client), TUTTI_OK);
        assert_true(becomes(&stays.slept, slept + 1));
        progress_unregister(&goes.client);
    }
    progress_unregister(&stays.client);
    assert_int_equal(atomic_load(&stays.woken), atomic_load(&stays.slept));
}

static void who_is_driven_is_left_alone_until_it_says(void **state)
{
    struct source source = source_with(10);
    (void)state;
    atomic_store(&source.is_driven, true);
    assert_int_equal(progress_register(&source.client), TUTTI_OK);
    assert_true(becomes(&source.asked, 1));
    nap();
    assert_int_equal(atomic_load(&source.left), 10);
    assert_int_equal(atomic_load(&source.slept), 0);
    atomic_store(&source.is_driven, false);
    progress_notify();
    assert_true(becomes_empty(&source));
    progress_unregister(&source.client);
}

static void it_keeps_to_the_cpus_that_it_is_told(void **state)
{
    struct source source = source_with(10);
    char text[16];
    (void)state;
    const int cpu = sched_getcpu();
    snprintf(text, sizeof text, "%d", cpu);
    setenv("TUTTI_PROGRESS_CPUS", text, 1);
    assert_int_equal(progress_check_options(), TUTTI_OK);
    assert_int_equal(progress_register(&source.client), TUTTI_OK);
    assert_true(becomes_empty(&source));
    progress_unregister(&source.client);
    assert_int_equal(atomic_load(&source.cpu_count), 1);
    assert_int_equal(atomic_load(&source.cpu), cpu);
    unsetenv("TUTTI_PROGRESS_CPUS");
}

static void cpus_that_are_not_there_are_an_error(void **state)
{
    struct source source = source_with(10);
    (void)state;
    setenv("TUTTI_PROGRESS_CPUS", "1023", 1);
    assert_int_equal(progress_register(&source.client), TUTTI_SYSTEM);
    unsetenv("TUTTI_PROGRESS_CPUS");
    assert_int_equal(progress_register(&source.client), TUTTI_OK); /* nothing is left of that */
    assert_true(becomes_empty(&source));
    progress_unregister(&source.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_is_moved_and_then_it_sleeps),
        cmocka_unit_test(who_is_blocked_is_slept_on_until_somebody_calls),
        cmocka_unit_test(one_of_two_may_go_while_the_other_is_slept_on),
        cmocka_unit_test(who_is_driven_is_left_alone_until_it_says),
        cmocka_unit_test(it_keeps_to_the_cpus_that_it_is_told),
        cmocka_unit_test(cpus_that_are_not_there_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
