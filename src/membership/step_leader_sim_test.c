/* Servers with backups, and spares that become backups, in simulated schedules (tests/sim/step_sim.h says
 * what must hold in each).
 *
 *     step_leader_sim_test                          what CI runs; with TUTTI_LONG 110,000 schedules
 *     step_leader_sim_test --seeds N [--seed S]     as many as you like; stops at the first that fails
 *     step_leader_sim_test --seed S --verbose       tells one, message by message
 *
 * One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/kit/sanitized.h"
#include "tests/sim/step_sim.h"

static void what_must_hold_holds_in_every_schedule(void **state)
{
    (void)state;
    const uint64_t few = IS_SANITIZED ? 1000 : 10000;
    const uint64_t count = getenv("TUTTI_LONG") != NULL ? 11 * few : few;
    struct step_sim_report report = {0};
    for (uint64_t seed = 1; seed <= count; seed++) {
        step_sim_run(seed, STEP_BUG_NONE, false, &report);
        if (report.has_failed) fail_msg("%s", report.message);
    }
    /* It would hold, too, if nobody ever died. */
    assert_true(report.servers_died > count / 2 && report.workers_died > count / 4);
    assert_true(report.taken_over > count / 10 && report.ended > count / 20);
    assert_true(report.moved > count / 10 && report.resumed > count / 100);
    assert_true(report.changed > count / 10 && report.kept > count / 20);
    assert_true(report.refilled > count / 10 && report.learned > count / 20);
    assert_true(report.served > count / 100);
    assert_true(report.came > count / 4 && report.came_late > count / 5);
    assert_true(report.refused > count / 100);
}

static void every_planted_bug_is_found(void **state)
{
    (void)state;
    for (enum step_bug bug = STEP_BUG_NONE + 1; bug < STEP_BUG_END; bug++) {
        struct step_sim_report report = {0};
        for (uint64_t seed = 1; seed <= 3000 && !report.has_failed; seed++)
            step_sim_run(seed, bug, false, &report);
        if (!report.has_failed) fail_msg("bug %d was not found", bug);
    }
}

static void a_seed_says_everything(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct step_sim_report once = {0}, again = {0};
        step_sim_run(seed, STEP_BUG_NONE, false, &once);
        step_sim_run(seed, STEP_BUG_NONE, false, &again);
        assert_true(once.fingerprint == again.fingerprint && once.events == again.events);
    }
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) return step_sim_main(argument_count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_must_hold_holds_in_every_schedule),
        cmocka_unit_test(every_planted_bug_is_found),
        cmocka_unit_test(a_seed_says_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
