/* Ranks that put others out, or shrink, in thousands of simulated worlds (tests/sim/exclusion_sim.h says what
 * must hold in each).
 *
 *     exclusion_sim_test                          what CI runs; with TUTTI_LONG=1 many more
 *     exclusion_sim_test --seeds N [--seed S]     as many as you like; stops at the first that fails and prints its seed
 *     exclusion_sim_test --seed S --verbose       tells one, event by event
 *
 * One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/sim/exclusion_sim.h"

static void what_must_hold_holds_in_every_schedule(void **state)
{
    (void)state;
    const uint64_t count = getenv("TUTTI_LONG") != NULL ? 100000 : 3000;
    struct exclusion_sim_report report = {0};
    for (uint64_t seed = 1; seed <= count; seed++) {
        exclusion_sim_run(seed, false, &report);
        if (report.has_failed) fail_msg("%s", report.message);
    }
    /* It would hold, too, if nothing ever went wrong. */
    assert_true(report.made > count && report.put_out > count / 5);
    assert_true(report.outvoted > count / 2 && report.given_up > count / 4);
    assert_true(report.left_out > count / 100);
    assert_true(report.crashed > count / 10 && report.partitioned > count / 20);
}

static void a_seed_says_everything(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct exclusion_sim_report once = {0}, again = {0};
        exclusion_sim_run(seed, false, &once);
        exclusion_sim_run(seed, false, &again);
        assert_true(once.fingerprint == again.fingerprint && once.messages == again.messages);
    }
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) return exclusion_sim_main(argument_count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_must_hold_holds_in_every_schedule),
        cmocka_unit_test(a_seed_says_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
