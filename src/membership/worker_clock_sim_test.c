/* Workers and their clock in 100,000 simulated schedules (tests/sim/clock_sim.h says what must
 * hold in each).
 *
 *     worker_clock_sim_test                          what CI runs
 *     worker_clock_sim_test --seeds N [--seed S]     as many as you like; stops at the first that fails
 *     worker_clock_sim_test --seed S --verbose       tells one, message by message
 *
 * One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/kit/sanitized.h"
#include "tests/sim/clock_sim.h"

static void what_must_hold_holds_in_every_schedule(void **state)
{
    (void)state;
    const uint64_t count = IS_SANITIZED ? 10000 : 100000;
    struct clock_sim_report report = {0};
    for (uint64_t seed = 1; seed <= count; seed++) {
        clock_sim_run(seed, false, &report);
        if (report.has_failed) fail_msg("%s", report.message);
    }
    /* It would hold, too, if nobody ever waited, or nothing ever went wrong. */
    assert_true(report.blocked > count * 5);
    assert_true(report.bounded > count / 3 && report.at_bound > report.bounded / 2);
    assert_true(report.quorums > count / 8 && report.late > count / 2);
    assert_true(report.crashed > count / 10 && report.joined > count / 10);
    assert_true(report.came > count / 4);
    assert_true(report.repeated > count);
    assert_true(report.changed > count / 4);
}

static void a_seed_says_everything(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct clock_sim_report once = {0}, again = {0};
        clock_sim_run(seed, false, &once);
        clock_sim_run(seed, false, &again);
        assert_true(once.fingerprint == again.fingerprint && once.events == again.events);
    }
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) return clock_sim_main(argument_count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_must_hold_holds_in_every_schedule),
        cmocka_unit_test(a_seed_says_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
