/* progress_test.c - the thread asks its clients as long as there is something to move, and sleeps
 * where it is told. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "process/progress.h"
#include "tests/worlds/ranks.h"

static const uint64_t PATIENCE_NS = UINT64_C(20000000000);

struct source {
    struct progress_client client;
    _Atomic int left;  /* to be moved */
    _Atomic int asked; /* how often */
    _Atomic int cpu_count, cpu;
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
    if (asked % 2 == 0) return PROGRESS_BLOCKED;
    atomic_fetch_sub(&source->left, 1);
    return PROGRESS_MOVED;
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
    struct source source = {.client = {.progress = move}, .left = 1000};
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

static void it_keeps_to_the_cpus_that_it_is_told(void **state)
{
    struct source source = {.client = {.progress = move}, .left = 10};
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
    struct source source = {.client = {.progress = move}, .left = 10};
    (void)state;
    setenv("TUTTI_PROGRESS_CPUS", "1023", 1);
    assert_int_equal(progress_register(&source.client), TUTTI_SYSTEM);
    unsetenv("TUTTI_PROGRESS_CPUS");
    assert_int_equal(progress_register(&source.client), TUTTI_OK); /* nothing is left of that */
    assert_true(becomes_empty(&source));
    progress_unregister(&source.client);
}

/* ---------------------------------------------------------------------------------------- forks */

struct pair {
    struct progress_client client;
    volatile unsigned first, second; /* equal between two passes */
    atomic_bool forks;
    _Atomic int result; /* of that fork: 1 with the child as it should be */
};

static bool ends_well(pid_t pid)
{
    int fate;
    return pid > 0 && waitpid(pid, &fate, 0) == pid && WIFEXITED(fate) && WEXITSTATUS(fate) == 0;
}

/* A child has no client, and can have one of its own, but not under the thread sanitizer: no thread
 * may start in a child there. */
static bool has_progress_of_its_own(void)
{
    if (ranks_are_threads()) return true;
    struct source source = {.client = {.progress = move}, .left = 10};
    if (progress_register(&source.client) != TUTTI_OK || !becomes_empty(&source)) return false;
    progress_unregister(&source.client);
    return true;
}

static void fork_in_pass(struct pair *pair)
{
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        _exit(!has_progress_of_its_own());
    }
    atomic_store(&pair->result, ends_well(pid) ? 1 : -1);
}

static enum progress_result change_pair(struct progress_client *client)
{
    struct pair *const pair = (struct pair *)(void *)client;
    pair->first++;
    for (int i = 0; i < 10000; i++) cpu_relax();
    if (atomic_exchange(&pair->forks, false)) fork_in_pass(pair);
    pair->second++;
    return PROGRESS_MOVED;
}

static void a_fork_comes_between_two_passes(void **state)
{
    (void)state;
    int bad = 0;
    for (int turn = 0; turn < 10; turn++) {
        struct pair pair = {.client = {.progress = change_pair}};
        assert_int_equal(progress_register(&pair.client), TUTTI_OK); /* and it is just starting */
        for (int i = 0; i < 5; i++) {
            const pid_t pid = fork();
            if (pid == 0) {
                alarm(60);
                _exit(pair.first != pair.second || !has_progress_of_its_own());
            }
            bad += !ends_well(pid);
        }
        progress_unregister(&pair.client);
    }
    assert_int_equal(bad, 0);
}

/* As a reduction of the application may. */
static void a_client_may_fork(void **state)
{
    struct pair pair = {.client = {.progress = change_pair}, .forks = true};
    (void)state;
    assert_int_equal(progress_register(&pair.client), TUTTI_OK);
    const uint64_t begin_ns = clock_now_ns();
    while (atomic_load(&pair.result) == 0 && clock_now_ns() - begin_ns < 2 * PATIENCE_NS) nap();
    progress_unregister(&pair.client);
    assert_int_equal(atomic_load(&pair.result), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_is_moved_and_then_it_sleeps),
        cmocka_unit_test(it_keeps_to_the_cpus_that_it_is_told),
        cmocka_unit_test(cpus_that_are_not_there_are_an_error),
        cmocka_unit_test(a_fork_comes_between_two_passes),
        cmocka_unit_test(a_client_may_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
