/* Agreements in thousands of simulated worlds (tests/sim/agreement_sim.h says what must hold in
 * each).
 *
 *     agreement_sim_test                          what CI runs; with TUTTI_LONG=1 many more
 *     agreement_sim_test --seeds N [--seed S]     as many as you like; stops at the first that fails and prints its seed
 *     agreement_sim_test --seed S --verbose       tells one, event by event
 *
 * One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/sim/agreement_sim.h"

static void what_must_hold_holds_in_every_schedule(void **state)
{
    (void)state;
    const uint64_t count = getenv("TUTTI_LONG") != NULL ? 200000 : 3000;
    struct agreement_sim_report report = {0};
    for (uint64_t seed = 1; seed <= count; seed++) {
        agreement_sim_run(seed, false, &report);
        if (report.has_failed) fail_msg("%s", report.message);
    }
    /* It would hold, too, if nothing ever went wrong. */
    assert_true(report.decided > 4 * count && report.minority > count / 20 &&
                report.late > count / 100);
    assert_true(report.crashed > count / 2 && report.crashed_within > count / 5);
    assert_true(report.stalled > count / 10 && report.suspected_wrongly > count / 5);
    assert_true(report.partitioned > count / 10 && report.excluded > count / 20);
    assert_true(report.by_all > count / 10 && report.taken > count / 100);
    assert_true(report.with_learners > count / 5);
}

static void a_seed_says_everything(void **state)
{
    (void)state;
    struct agreement_sim_report before = {0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct agreement_sim_report once = {0}, again = {0};
        agreement_sim_run(seed, false, &once);
        agreement_sim_run(seed, false, &again);
        assert_true(once.fingerprint == again.fingerprint && once.messages == again.messages);
        assert_true(once.fingerprint != before.fingerprint);
        before = once;
    }
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) return agreement_sim_main(argument_count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_must_hold_holds_in_every_schedule),
        cmocka_unit_test(a_seed_says_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
