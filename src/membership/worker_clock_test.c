#include "worker_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { COUNT = 3 };

static struct worker_clock_worker workers[COUNT];

static struct worker_clock with(uint64_t staleness, int quorum)
{
    struct worker_clock clock;
    worker_clock_init(&clock, &(struct worker_clock_rule){staleness, quorum}, COUNT, COUNT, workers);
    return clock;
}

static void end(struct worker_clock *clock, int worker, uint64_t number)
{
    assert_int_equal(worker_clock_end(clock, worker, number), WORKER_CLOCK_NEW);
}

/* The members of the next step; 0: there is none. */
static uint64_t next(struct worker_clock *clock)
{
    uint64_t members = UINT64_MAX;
    return worker_clock_decide(clock, &members) ? members : 0;
}

static void a_synchronous_step_has_the_updates_of_all(void **state)
{
    (void)state;
    struct worker_clock clock = with(0, 0);
    end(&clock, 2, 0);
    end(&clock, 0, 0);
    assert_int_equal(next(&clock), 0);
    end(&clock, 1, 0);
    assert_int_equal(next(&clock), 7);
    assert_int_equal(next(&clock), 0);
    assert_int_equal(clock.steps, 1);
    assert_int_equal(worker_clock_lowest(&clock), 1);
}

static void without_a_bound_each_update_is_a_step(void **state)
{
    (void)state;
    struct worker_clock clock = with(WORKER_CLOCK_UNBOUNDED, 0);
    for (uint64_t number = 0; number < 100; number++) {
        end(&clock, 1, number);
        assert_int_equal(next(&clock), 2);
        assert_int_equal(next(&clock), 0);
    }
}

static void a_worker_is_at_most_so_far_ahead(void **state)
{
    (void)state;
    struct worker_clock clock = with(2, 0);
    for (uint64_t number = 0; number < 2; number++) {
        end(&clock, 0, number);
        assert_int_equal(next(&clock), 1);
    }
    end(&clock, 0, 2); /* would begin clock 3, and the others are in clock 0 */
    assert_int_equal(next(&clock), 0);
    uint64_t awaited;
    worker_clock_awaited(&clock, 0, &awaited);
    assert_int_equal(awaited, 6);
    end(&clock, 1, 0);
    assert_int_equal(next(&clock), 2);
    worker_clock_awaited(&clock, 0, &awaited);
    assert_int_equal(awaited, 4);
    assert_int_equal(next(&clock), 0);
    end(&clock, 2, 0);
    assert_int_equal(next(&clock), 4); /* the lowest clock first */
    assert_int_equal(next(&clock), 1);
    assert_int_equal(next(&clock), 0);
}

static void a_quorum_goes_on_and_late_updates_count_for_the_next_step(void **state)
{
    (void)state;
    struct worker_clock clock = with(0, 2);
    end(&clock, 2, 0);
    assert_int_equal(next(&clock), 0);
    end(&clock, 0, 0);
    assert_int_equal(next(&clock), 5);
    end(&clock, 1, 0); /* late */
    assert_int_equal(next(&clock), 0);
    end(&clock, 0, 1);
    assert_int_equal(next(&clock), 3);
    assert_int_equal(clock.steps, 2);
}

static void nobody_waits_for_those_who_are_gone(void **state)
{
    (void)state;
    struct worker_clock clock = with(0, 0);
    end(&clock, 0, 0);
    end(&clock, 1, 0);
    worker_clock_remove(&clock, 1); /* with its update */
    worker_clock_remove(&clock, 1);
    assert_int_equal(clock.left_count, 2);
    assert_int_equal(next(&clock), 0);
    worker_clock_remove(&clock, 2);
    assert_int_equal(next(&clock), 1);
    assert_int_equal(worker_clock_end(&clock, 1, 0), WORKER_CLOCK_REFUSED);

    clock = with(0, 3); /* so many are no longer left */
    end(&clock, 0, 0);
    end(&clock, 2, 0);
    assert_int_equal(next(&clock), 0);
    worker_clock_remove(&clock, 1);
    assert_int_equal(next(&clock), 5);
    worker_clock_remove(&clock, 0);
    worker_clock_remove(&clock, 2);
    assert_int_equal(next(&clock), 0);
    assert_true(worker_clock_lowest(&clock) == UINT64_MAX);
}

static void a_clock_ends_once(void **state)
{
    (void)state;
    struct worker_clock clock = with(0, 0);
    assert_int_equal(worker_clock_end(&clock, 0, 1), WORKER_CLOCK_REFUSED); /* not yet */
    end(&clock, 0, 0);
    assert_int_equal(worker_clock_end(&clock, 0, 0), WORKER_CLOCK_KNOWN);
    assert_int_equal(worker_clock_end(&clock, 0, 1), WORKER_CLOCK_REFUSED); /* it waits */
    end(&clock, 1, 0);
    end(&clock, 2, 0);
    assert_int_equal(next(&clock), 7);
    assert_int_equal(worker_clock_end(&clock, 0, 0), WORKER_CLOCK_KNOWN);
    assert_int_equal(next(&clock), 0);
    assert_int_equal(worker_clock_end(&clock, 0, UINT64_MAX), WORKER_CLOCK_REFUSED);
    end(&clock, 0, 1);
}

static void wish(struct worker_clock *clock, int worker, uint64_t round, uint64_t staleness)
{
    const struct worker_clock_rule rule = {staleness, 0};
    assert_int_equal(worker_clock_wish(clock, worker, round, &rule), WORKER_CLOCK_NEW);
}

static void the_rule_changes_when_all_have_asked(void **state)
{
    (void)state;
    struct worker_clock clock = with(0, 0);
    int differing[2];
    uint64_t awaited;
    wish(&clock, 0, 0, 2);
    wish(&clock, 0, 0, 2); /* said again */
    assert_int_equal(worker_clock_change(&clock, differing), WORKER_CLOCK_STAYS);
    worker_clock_awaited(&clock, 0, &awaited);
    assert_int_equal(awaited, 6);
    end(&clock, 1, 0); /* nothing waits for a worker that may not end its clock, but all others do */
    assert_int_equal(next(&clock), 0);
    assert_int_equal(worker_clock_wish(&clock, 1, 0, &(struct worker_clock_rule){2, 0}),
                     WORKER_CLOCK_REFUSED);
    end(&clock, 0, 0); /* has given up */
    end(&clock, 2, 0);
    assert_int_equal(next(&clock), 7);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(worker_clock_change(&clock, differing), WORKER_CLOCK_STAYS);
        wish(&clock, i, 0, 2);
    }
    assert_int_equal(worker_clock_change(&clock, differing), WORKER_CLOCK_AGREES);
    assert_int_equal(clock.rule.staleness, 2);
    assert_int_equal(worker_clock_change(&clock, differing), WORKER_CLOCK_STAYS);
    assert_int_equal(worker_clock_wish(&clock, 1, 0, &(struct worker_clock_rule){2, 0}),
                     WORKER_CLOCK_KNOWN);
    assert_true(worker_clock_has_changed(&clock, 0));
    for (uint64_t number = 1; number < 3; number++) {
        end(&clock, 0, number);
        assert_int_equal(next(&clock), 1);
    }
}

static void different_wishes_change_nothing(void **state)
{
    (void)state;
    struct worker_clock clock = with(1, 0);
    int differing[2];
    wish(&clock, 0, 0, 0);
    wish(&clock, 2, 0, 3);
    assert_int_equal(worker_clock_change(&clock, differing), WORKER_CLOCK_DIFFERS);
    assert_true(differing[0] == 0 && differing[1] == 2);
    assert_int_equal(clock.rule.staleness, 1);
    assert_int_equal(worker_clock_wish(&clock, 1, 0, &(struct worker_clock_rule){0, 0}),
                     WORKER_CLOCK_KNOWN);
    assert_false(worker_clock_has_changed(&clock, 0));
    assert_int_equal(worker_clock_wish(&clock, 1, 2, &(struct worker_clock_rule){0, 0}),
                     WORKER_CLOCK_REFUSED);
    wish(&clock, 0, 1, 0);
    wish(&clock, 1, 1, 0);
    worker_clock_remove(&clock, 2); /* is not waited for any more */
    assert_int_equal(worker_clock_change(&clock, differing), WORKER_CLOCK_AGREES);
    assert_int_equal(clock.rule.staleness, 0);
}

static void a_quorum_does_not_wait_for_wishes(void **state)
{
    (void)state;
    struct worker_clock clock = with(0, 2);
    wish(&clock, 0, 0, 0);
    wish(&clock, 1, 0, 0);
    end(&clock, 2, 0);
    assert_int_equal(next(&clock), 4);
    wish(&clock, 2, 0, 0);
    int differing[2];
    assert_int_equal(worker_clock_change(&clock, differing), WORKER_CLOCK_AGREES);
    assert_int_equal(clock.rule.quorum, 0);
}

static void a_worker_comes_back_beside_the_slowest(void **state)
{
    (void)state;
    struct worker_clock clock = with(1, 0);
    worker_clock_remove(&clock, 2);
    for (uint64_t number = 0; number < 5; number++) {
        end(&clock, 0, number);
        end(&clock, 1, number);
        while (next(&clock) != 0) continue;
    }
    worker_clock_join(&clock, 2);
    assert_int_equal(workers[2].clock, 5);
    assert_int_equal(clock.left_count, 3);
    end(&clock, 2, 5);
    assert_int_equal(next(&clock), 4);
    for (int i = 0; i < COUNT; i++) worker_clock_remove(&clock, i);
    worker_clock_join(&clock, 0); /* was in clock 5; another worker has been in 6 */
    assert_int_equal(workers[0].clock, 6);
}

static void a_worker_that_comes_begins_beside_the_slowest_and_is_not_waited_for_before(void **state)
{
    (void)state;
    struct worker_clock clock;
    uint64_t awaited;
    worker_clock_init(&clock, &(struct worker_clock_rule){0, 0}, COUNT, 2, workers);
    assert_int_equal(clock.left_count, 2);
    assert_int_equal(worker_clock_end(&clock, 2, 0), WORKER_CLOCK_REFUSED);
    end(&clock, 0, 0);
    worker_clock_awaited(&clock, 0, &awaited);
    assert_int_equal(awaited, 2); /* worker 1 alone */
    end(&clock, 1, 0);
    assert_int_equal(next(&clock), 3);
    end(&clock, 0, 1); /* waits for worker 1 */
    worker_clock_join(&clock, 2);
    assert_int_equal(workers[2].clock, 1);
    assert_int_equal(clock.left_count, 3);
    worker_clock_join(&clock, 2); /* changes nothing */
    assert_false(worker_clock_follow_join(&clock, 2, 5));
    assert_int_equal(workers[2].clock, 1);
    assert_int_equal(clock.left_count, 3);
    end(&clock, 1, 1);
    assert_int_equal(next(&clock), 0);
    end(&clock, 2, 1);
    assert_int_equal(next(&clock), 7);
}

static void a_worker_that_never_comes_changes_nothing(void **state)
{
    (void)state;
    struct worker_clock clock;
    int differing[2];
    const struct worker_clock_rule other = {0, 2};
    worker_clock_init(&clock, &(struct worker_clock_rule){0, 3}, COUNT, 2, workers);
    worker_clock_remove(&clock, 2);
    assert_int_equal(clock.left_count, 2);
    end(&clock, 0, 0);
    end(&clock, 1, 0);
    assert_int_equal(next(&clock), 3);
    for (int i = 0; i < 2; i++)
        assert_int_equal(worker_clock_wish(&clock, i, 0, &other), WORKER_CLOCK_NEW);
    assert_int_equal(worker_clock_change(&clock, differing), WORKER_CLOCK_AGREES);
    assert_int_equal(worker_clock_wish(&clock, 2, 1, &other), WORKER_CLOCK_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_synchronous_step_has_the_updates_of_all),
        cmocka_unit_test(without_a_bound_each_update_is_a_step),
        cmocka_unit_test(a_worker_is_at_most_so_far_ahead),
        cmocka_unit_test(a_quorum_goes_on_and_late_updates_count_for_the_next_step),
        cmocka_unit_test(nobody_waits_for_those_who_are_gone),
        cmocka_unit_test(a_clock_ends_once),
        cmocka_unit_test(the_rule_changes_when_all_have_asked),
        cmocka_unit_test(different_wishes_change_nothing),
        cmocka_unit_test(a_quorum_does_not_wait_for_wishes),
        cmocka_unit_test(a_worker_comes_back_beside_the_slowest),
        cmocka_unit_test(a_worker_that_comes_begins_beside_the_slowest_and_is_not_waited_for_before),
        cmocka_unit_test(a_worker_that_never_comes_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
