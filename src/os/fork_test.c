/* fork() holds what takes part in a declared order, waits for none of it for ever, and leaves no
 * lock closed in the child.
 *
 * ctest: waits
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/fork.h"
#include "tests/kit/cases.h"
#include "tests/kit/sanitized.h"

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, middle = PTHREAD_MUTEX_INITIALIZER,
                       inner = PTHREAD_MUTEX_INITIALIZER;

/* The calls so far, in order. */
static char calls[32];
static size_t call_count;

static void note(char call)
{
    if (call_count < sizeof calls - 1) calls[call_count++] = call;
}

static void forget_calls(void)
{
    memset(calls, 0, sizeof calls);
    call_count = 0;
}

static int unwatch_all(void **state)
{
    static const struct fork_participant nobody = {.lock = NULL};
    (void)state;
    for (int rank = 0; rank < FORK_RANK_COUNT; rank++) fork_watch((enum fork_rank)rank, &nobody);
    forget_calls();
    return 0;
}

/* Returns the exit status of a child, which is the result of run(). A signal ends a child that
 * hangs; the result is then -1. */
static int run_child(int (*run)(void *context), void *context)
{
    int fate;
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        _exit(run(context));
    }
    if (pid < 0 || waitpid(pid, &fate, 0) != pid || !WIFEXITED(fate)) return -1;
    return WEXITSTATUS(fate);
}

static bool is_free(pthread_mutex_t *lock)
{
    if (pthread_mutex_trylock(lock) != 0) return false;
    pthread_mutex_unlock(lock);
    return true;
}

static bool are_free(void)
{
    return is_free(&outer) && is_free(&middle) && is_free(&inner);
}

/* ---------------------------------------------------------------------------------------- order */

static bool outer_is_quiet(void)
{
    note('O');
    return true;
}

static bool middle_is_quiet(void)
{
    note('M');
    return true;
}

static bool inner_is_quiet(void)
{
    note('I');
    return true;
}

static void outer_in_child(bool is_held)
{
    note(is_held ? 'o' : '-');
}

static void middle_in_child(bool is_held)
{
    note(is_held ? 'm' : '-');
}

static void inner_in_child(bool is_held)
{
    note(is_held ? 'i' : '-');
}

static const struct fork_participant outermost = {
    .lock = &outer, .is_quiet = outer_is_quiet, .child = outer_in_child};
static const struct fork_participant between = {
    .lock = &middle, .is_quiet = middle_is_quiet, .child = middle_in_child};
static const struct fork_participant innermost = {
    .lock = &inner, .is_quiet = inner_is_quiet, .child = inner_in_child};

/* Not in their order. */
static void watch_three(void)
{
    fork_watch(FORK_HEAP, &innermost);
    fork_watch(FORK_MONITOR, &outermost);
    fork_watch(FORK_PROGRESS, &between);
}

static int compare_calls(void *expected)
{
    return strcmp(calls, expected) == 0 && are_free() ? 0 : 1;
}

static void the_outermost_is_held_first_and_let_go_last(void **state)
{
    (void)state;
    watch_three();
    assert_int_equal(run_child(compare_calls, "OMIimo"), 0);
    assert_string_equal(calls, "OMI");
    assert_true(are_free());
}

static int fork_again(void *expected)
{
    const bool was_right = compare_calls(expected) == 0;
    forget_calls();
    return was_right ? run_child(compare_calls, expected) : 2;
}

static void a_child_forks_as_its_parent_does(void **state)
{
    (void)state;
    watch_three();
    assert_int_equal(run_child(fork_again, "OMIimo"), 0);
}

static void children_are_put_in_order_without_locks_too(void **state)
{
    static const struct fork_participant has_no_lock = {.child = outer_in_child};
    (void)state;
    watch_three();
    fork_watch(FORK_MONITOR, &has_no_lock);
    assert_int_equal(run_child(compare_calls, "MIim-"), 0);
    assert_string_equal(calls, "MI");
}

/* --------------------------------------------------------------------------------------- bounds */

static int times_to_ask;

static bool is_quiet_at_last(void)
{
    return --times_to_ask <= 0;
}

static void a_lock_is_held_when_all_is_quiet(void **state)
{
    static const struct fork_participant noisy = {
        .lock = &outer, .is_quiet = is_quiet_at_last, .child = outer_in_child};
    (void)state;
    fork_watch(FORK_PROGRESS, &noisy);
    times_to_ask = 30;
    assert_int_equal(run_child(compare_calls, "o"), 0);
    assert_int_equal(times_to_ask, 0);
}

static bool is_never_quiet(void)
{
    return false;
}

static void what_never_is_quiet_is_not_awaited_for_ever(void **state)
{
    static const struct fork_participant noisy = {
        .lock = &outer, .is_quiet = is_never_quiet, .child = outer_in_child};
    (void)state;
    watch_three();
    fork_watch(FORK_MONITOR, &noisy);
    const uint64_t begin_ns = clock_now_ns();
    assert_int_equal(run_child(compare_calls, "MIim-"), 0);
    assert_true(clock_now_ns() - begin_ns >= FORK_WAIT_NS);
    assert_true(are_free());
}

static bool is_inside_always(void)
{
    return true;
}

static void a_thread_does_not_wait_for_itself(void **state)
{
    static const struct fork_participant own = {.lock = &outer,
                                                .is_inside = is_inside_always,
                                                .is_quiet = outer_is_quiet,
                                                .child = outer_in_child};
    (void)state;
    fork_watch(FORK_PROGRESS, &own);
    pthread_mutex_lock(&outer);
    assert_int_equal(run_child(compare_calls, "-"), 0);
    assert_string_equal(calls, ""); /* it has not even tried */
    assert_false(is_free(&outer));  /* still this thread's */
    pthread_mutex_unlock(&outer);
}

struct owner {
    atomic_bool has_it, is_to_end;
};

static void *keep_middle(void *context)
{
    struct owner *const owner = context;
    pthread_mutex_lock(&middle);
    atomic_store(&owner->has_it, true);
    while (!atomic_load(&owner->is_to_end)) nanosleep(&(struct timespec){0, 1000000}, NULL);
    pthread_mutex_unlock(&middle);
    return NULL;
}

static void a_lock_that_nobody_lets_go_of_is_new_in_the_child(void **state)
{
    struct owner owner = {false, false};
    pthread_t thread;
    (void)state;
    watch_three();
    assert_int_equal(pthread_create(&thread, NULL, keep_middle, &owner), 0);
    while (!atomic_load(&owner.has_it)) nanosleep(&(struct timespec){0, 1000000}, NULL);
    const uint64_t begin_ns = clock_now_ns();
    const int result = run_child(compare_calls, "OIi-o");
    const uint64_t waited_ns = clock_now_ns() - begin_ns;
    const bool is_kept = !is_free(&middle);
    atomic_store(&owner.is_to_end, true);
    pthread_join(thread, NULL);
    assert_int_equal(result, 0);
    assert_true(waited_ns >= FORK_WAIT_NS);
    assert_true(is_kept);
    assert_true(are_free());
}

/* --------------------------------------------------------------------------------- pthread_once */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int once_runs;
static _Atomic bool once_may_end;

static void run_once(void)
{
    atomic_fetch_add(&once_runs, 1);
    while (!atomic_load(&once_may_end)) sched_yield();
}

static void *begin_once(void *unused)
{
    pthread_once(&once, run_once);
    return unused;
}

static int run_once_again(void *unused)
{
    (void)unused;
    atomic_store(&once_may_end, true);
    pthread_once(&once, run_once);
    return atomic_load(&once_runs) == 2 ? 0 : 1;
}

/* Tests the C library: code that it runs once need not take part here if that code may run a second
 * time. */
static void what_runs_once_runs_again_in_a_child_of_a_fork_meanwhile(void **state)
{
    pthread_t thread;
    (void)state;
    if (IS_THREAD_SANITIZED) skip(); /* it has a pthread_once of its own */
    assert_int_equal(pthread_create(&thread, NULL, begin_once, NULL), 0);
    while (atomic_load(&once_runs) == 0) sched_yield();
    const int result = run_child(run_once_again, NULL);
    atomic_store(&once_may_end, true);
    pthread_join(thread, NULL);
    assert_int_equal(result, 0);
    assert_int_equal(atomic_load(&once_runs), 1);
}

/* ----------------------------------------------------------------------------------- many forks */

enum { FORKERS = 4, FORKS = 15 };

/* Equal while nobody has the lock. */
static struct {
    volatile unsigned first, second;
} pair;
static atomic_bool is_over;

/* Has the lock nearly always, as a busy progress thread does. */
static void *change_pair(void *unused)
{
    (void)unused;
    while (!atomic_load(&is_over)) {
        pthread_mutex_lock(&outer);
        pair.first++;
        for (int i = 0; i < 10000; i++) cpu_relax();
        pair.second++;
        pthread_mutex_unlock(&outer);
        for (int naps = 0; naps < 100 && fork_awaits(FORK_PROGRESS); naps++)
            nanosleep(&(struct timespec){0, 20000}, NULL);
    }
    return NULL;
}

static int look_at_pair(void *unused)
{
    (void)unused;
    return pair.first == pair.second && are_free() && !fork_awaits(FORK_PROGRESS) ? 0 : 1;
}

static void *fork_often(void *bad)
{
    for (int i = 0; i < FORKS; i++)
        if (run_child(look_at_pair, NULL) != 0) atomic_fetch_add((_Atomic int *)bad, 1);
    return NULL;
}

static void threads_that_fork_at_once_do_not_disturb_each_other(void **state)
{
    static const struct fork_participant first = {.lock = &outer}, second = {.lock = &inner};
    pthread_t changer, forkers[FORKERS];
    _Atomic int bad = 0;
    (void)state;
    fork_watch(FORK_PROGRESS, &first);
    fork_watch(FORK_HEAP, &second);
    assert_int_equal(pthread_create(&changer, NULL, change_pair, NULL), 0);
    for (int i = 0; i < FORKERS; i++)
        assert_int_equal(pthread_create(&forkers[i], NULL, fork_often, &bad), 0);
    for (int i = 0; i < FORKERS; i++) pthread_join(forkers[i], NULL);
    atomic_store(&is_over, true);
    pthread_join(changer, NULL);
    assert_int_equal(atomic_load(&bad), 0);
    assert_true(are_free());
    assert_false(fork_awaits(FORK_PROGRESS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_outermost_is_held_first_and_let_go_last, unwatch_all),
        cmocka_unit_test_setup(a_child_forks_as_its_parent_does, unwatch_all),
        cmocka_unit_test_setup(what_runs_once_runs_again_in_a_child_of_a_fork_meanwhile, unwatch_all),
        cmocka_unit_test_setup(children_are_put_in_order_without_locks_too, unwatch_all),
        cmocka_unit_test_setup(a_lock_is_held_when_all_is_quiet, unwatch_all),
        cmocka_unit_test_setup(what_never_is_quiet_is_not_awaited_for_ever, unwatch_all),
        cmocka_unit_test_setup(a_thread_does_not_wait_for_itself, unwatch_all),
        cmocka_unit_test_setup(a_lock_that_nobody_lets_go_of_is_new_in_the_child, unwatch_all),
        cmocka_unit_test_setup(threads_that_fork_at_once_do_not_disturb_each_other, unwatch_all),
    };
    return CASES_RUN_AT_ONCE(tests, 4);
}
