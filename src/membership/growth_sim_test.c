/* Teams that grow in thousands of simulated worlds (tests/sim/growth_sim.h says what must hold in
 * each).
 *
 *     growth_sim_test                          what CI runs; with TUTTI_LONG=1 many more
 *     growth_sim_test --seeds N [--seed S]     as many as you like; stops at the first that fails and prints its seed
 *     growth_sim_test --seed S --verbose       tells one, event by event
 *
 * One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/sim/growth_sim.h"

static void what_must_hold_holds_in_every_schedule(void **state)
{
    (void)state;
    const uint64_t count = getenv("TUTTI_LONG") != NULL ? 100000 : 3000;
    struct growth_sim_report report = {0};
    for (uint64_t seed = 1; seed <= count; seed++) {
        growth_sim_run(seed, false, &report);
        if (report.has_failed) fail_msg("%s", report.message);
    }
    /* It would hold, too, if nothing ever went wrong. */
    assert_true(report.made > count && report.refused > count / 20);
    assert_true(report.again > count / 4 && report.failed_meetings > count / 4);
    assert_true(report.undecided > count / 200 && report.left_out > count / 200);
    assert_true(report.crashed > count / 4 && report.partitioned > count / 10);
    assert_true(report.replaced > count / 20);
}

static void a_seed_says_everything(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct growth_sim_report once = {0}, again = {0};
        growth_sim_run(seed, false, &once);
        growth_sim_run(seed, false, &again);
        assert_true(once.fingerprint == again.fingerprint && once.messages == again.messages);
    }
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) return growth_sim_main(argument_count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_must_hold_holds_in_every_schedule),
        cmocka_unit_test(a_seed_says_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
