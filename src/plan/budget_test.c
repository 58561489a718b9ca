#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "os/clock.h"
#include "plan/budget.h"

static void expect_end(struct plan_budget *budget, enum plan_budget_end end,
                       enum tutti_status status, const char *words)
{
    char why[200];
    assert_int_equal(budget->end, end);
    assert_false(plan_budget_work(budget, 0)); /* for good */
    assert_false(plan_budget_hold(budget, 0));
    assert_int_equal(plan_budget_explain(budget, why, sizeof why), status);
    if (strstr(why, words) == NULL) fail_msg("%s", why);
}

static void work_ends_at_its_bound(void **state)
{
    (void)state;
    struct plan_budget budget = plan_budget_default();
    budget.work_max = 1000000;
    for (int i = 0; i < 1000; i++) assert_true(plan_budget_work(&budget, 1000));
    assert_false(plan_budget_work(&budget, 1));
    expect_end(&budget, PLAN_BUDGET_WORK, TUTTI_INVALID_ALGORITHM,
               "at least 1000001 looks at chunks, and 1000000 are allowed");
}

static void memory_that_is_released_can_be_held_again(void **state)
{
    (void)state;
    struct plan_budget budget = plan_budget_default();
    budget.bytes_max = 10 << 20;
    for (int i = 0; i < 3; i++) {
        assert_true(plan_budget_hold(&budget, 10 << 20));
        plan_budget_release(&budget, 10 << 20);
    }
    assert_true(plan_budget_hold(&budget, 8 << 20));
    assert_false(plan_budget_hold(&budget, 4 << 20));
    expect_end(&budget, PLAN_BUDGET_BYTES, TUTTI_INVALID_ALGORITHM,
               "at least 12 MiB of memory, and 10 are allowed");
}

static void a_deadline_that_has_passed_ends_it(void **state)
{
    (void)state;
    struct plan_budget budget = plan_budget_default();
    budget.deadline_ns = clock_now_ns();
    assert_false(plan_budget_work(&budget, 1));
    expect_end(&budget, PLAN_BUDGET_DEADLINE, TUTTI_TIMEOUT, "the deadline passed");
}

static bool is_third(const void *context)
{
    return --**(int *const *)context == 0;
}

static void it_is_asked_now_and_then_whether_to_stop(void **state)
{
    (void)state;
    int left = 3, *const counter = &left;
    struct plan_budget budget = plan_budget_default();
    budget.is_stopped = is_third;
    budget.context = &counter;
    while (plan_budget_work(&budget, 100)) assert_true(budget.work < 1 << 20);
    expect_end(&budget, PLAN_BUDGET_STOPPED, TUTTI_ABORTED, "stopped");
    assert_int_equal(left, 0);
}

static void without_a_budget_there_is_no_end(void **state)
{
    (void)state;
    assert_true(plan_budget_work(NULL, UINT64_MAX));
    assert_true(plan_budget_hold(NULL, UINT64_MAX));
    plan_budget_release(NULL, UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_ends_at_its_bound),
        cmocka_unit_test(memory_that_is_released_can_be_held_again),
        cmocka_unit_test(a_deadline_that_has_passed_ends_it),
        cmocka_unit_test(it_is_asked_now_and_then_whether_to_stop),
        cmocka_unit_test(without_a_budget_there_is_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
