/* A turn is one thread's; others have it afterwards or give up at their deadline; a child of fork()
 * takes over what its parent had begun. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/turn.h"

enum { THREADS = 4, ROUNDS = 500, LATE_NS = 1000000 };
static const uint64_t PATIENCE_NS = 60000000000;

static struct turn turn;
static int count; /* whose turn it is, counts */

static uint64_t later(void)
{
    return clock_now_ns() + PATIENCE_NS;
}

static void *count_up(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (turn_take(&turn, later()) != TURN_TAKEN) return &count;
        count++;
        if (i % 50 == 0) sched_yield();
        turn_give(&turn);
    }
    return unused;
}

static void it_is_one_threads_at_a_time(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, count_up, NULL), 0);
    for (int t = 0; t < THREADS; t++) {
        void *result;
        pthread_join(threads[t], &result);
        assert_null(result);
    }
    assert_int_equal(count, THREADS * ROUNDS);
}

static void *take_too_late(void *result)
{
    *(enum turn_result *)result = turn_take(&turn, clock_now_ns() + LATE_NS);
    return NULL;
}

static void who_waits_has_a_deadline(void **state)
{
    pthread_t thread;
    enum turn_result result = TURN_TAKEN;
    (void)state;
    assert_int_equal(turn_take(&turn, later()), TURN_TAKEN);
    assert_int_equal(pthread_create(&thread, NULL, take_too_late, &result), 0);
    pthread_join(thread, NULL);
    assert_int_equal(result, TURN_LATE);
    turn_give(&turn);
    assert_int_equal(turn_take(&turn, 0), TURN_TAKEN);
    turn_give(&turn);
}

/* The first to take it is told, and nobody else. */
static int take_over(void)
{
    if (turn_take(&turn, 0) != TURN_TAKEN_OVER) return 1;
    if (turn_take(&turn, 0) != TURN_LATE) return 2;
    turn_give(&turn);
    if (turn_take(&turn, 0) != TURN_TAKEN) return 3;
    turn_give(&turn);
    return 0;
}

static int run_child(int (*run)(void))
{
    int fate = -1;
    const pid_t pid = fork();
    if (pid == 0) _exit(run());
    return waitpid(pid, &fate, 0) == pid && WIFEXITED(fate) ? WEXITSTATUS(fate) : -1;
}

static void a_child_takes_over_what_was_begun(void **state)
{
    (void)state;
    assert_int_equal(turn_take(&turn, later()), TURN_TAKEN);
    assert_int_equal(run_child(take_over), 0);
    assert_int_equal(turn_take(&turn, 0), TURN_LATE); /* it is the parent's still */
    turn_give(&turn);
    assert_int_equal(turn_take(&turn, 0), TURN_TAKEN);
    turn_give(&turn);
}

static int give_late(void)
{
    turn_give(&turn); /* this thread had it before the fork */
    if (turn_take(&turn, 0) != TURN_TAKEN_OVER) return 1;
    turn_give(&turn);
    return 0;
}

static void a_child_that_was_forked_with_the_turn_does_not_give_it(void **state)
{
    (void)state;
    assert_int_equal(turn_take(&turn, later()), TURN_TAKEN);
    assert_int_equal(run_child(give_late), 0);
    turn_give(&turn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_one_threads_at_a_time),
        cmocka_unit_test(who_waits_has_a_deadline),
        cmocka_unit_test(a_child_takes_over_what_was_begun),
        cmocka_unit_test(a_child_that_was_forked_with_the_turn_does_not_give_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
