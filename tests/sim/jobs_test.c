/* Whole jobs in thousands of simulated worlds (tests/sim/engine_sim.h says what must hold in each).
 *
 *     tests_sim_jobs_test                       what CI runs; with TUTTI_LONG=1 many more
 *     tests_sim_jobs_test --seeds N [--seed S]  as many as you like; stops at the first that fails and prints its seed
 *     tests_sim_jobs_test --seed S --verbose    tells one, event by event
 *
 * One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan timeout=600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/kit/sanitized.h"
#include "tests/sim/engine_sim.h"

static void what_must_hold_holds_in_every_schedule(void **state)
{
    (void)state;
    const unsigned count = getenv("TUTTI_LONG") != NULL ? 100000 : IS_SPARSE ? 700 : 2000;
    struct engine_sim_report report = {0};
    for (uint64_t seed = 1; seed <= count; seed++) {
        engine_sim_run(seed, ENGINE_SIM_CONNECTIONS, false, &report);
        if (report.has_failed) fail_msg("%s", report.message);
    }
    /* It would hold, too, if nothing ever went wrong. */
    assert_true(report.operations > 10 * count && report.finished > 3 * count);
    assert_true(report.crashed > count / 8 && report.vanished > count / 16);
    assert_true(report.cut > count / 20 && report.short_cuts > count / 20);
    assert_true(report.reset > count && report.stalled > count / 8);
    assert_true(report.verdicts > count / 10 && report.taken_back > count / 30);
    assert_true(report.shrunk > count / 2 && report.minority > count / 10);
    assert_true((IS_SPARSE || report.excluded > 0) && report.held_up > count / 3); /* 1 of 600 */
    assert_true(report.again > count / 3 && report.halves_lost > count / 200);
    assert_true(report.by_reference > count / 6 && report.expected > count / 5);
}

static void a_seed_says_everything(void **state)
{
    (void)state;
    struct engine_sim_report before = {0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct engine_sim_report once = {0}, again = {0};
        engine_sim_run(seed, ENGINE_SIM_CONNECTIONS, false, &once);
        engine_sim_run(seed, ENGINE_SIM_CONNECTIONS, false, &again);
        assert_true(once.fingerprint == again.fingerprint && once.events == again.events);
        assert_true(once.fingerprint != before.fingerprint);
        before = once;
    }
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) return engine_sim_main(argument_count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_must_hold_holds_in_every_schedule),
        cmocka_unit_test(a_seed_says_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
