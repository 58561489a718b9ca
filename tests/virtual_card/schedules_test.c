/* Whole jobs over simulated network cards in thousands of simulated worlds (tests/sim/engine_sim.h
 * says what must hold in each): ranks crash in the middle of a remote write, stall, are cut off,
 * and give up links while peers write into what they offered.
 *
 *     tests_virtual_card_schedules_test                              what CI runs; with TUTTI_LONG=1 many more
 *     tests_virtual_card_schedules_test --seeds N [--seed S]     as many as you like; stops at the first that fails, prints its seed
 *     tests_virtual_card_schedules_test --seed S --verbose       tells one, event by event
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
    const unsigned count = getenv("TUTTI_LONG") != NULL ? 10000 : IS_SPARSE ? 350 : 700;
    struct engine_sim_report report = {0};
    for (uint64_t seed = 1; seed <= count; seed++) {
        engine_sim_run(seed, ENGINE_SIM_CARDS, false, &report);
        if (report.has_failed) fail_msg("%s", report.message);
    }
    /* The checks would also hold if nothing ever went wrong, so faults are counted. */
    assert_true(report.operations > 10 * count && report.finished > 3 * count);
    assert_true(report.crashed > count / 8 && report.vanished > count / 16);
    assert_true(report.cut > count / 20 && report.stalled > count / 8);
    assert_true(report.shrunk > count / 2 && report.held_up > count / 2);
    assert_true(report.writes > 5 * count && report.messages > 100 * count);
    assert_true(report.turned > 20 * count);
    assert_true(IS_SPARSE || report.refused > count / 400);
}

/* Much data, in bad weather: long operations do not wait for ever. */
static void slow_schedules_have_the_time_that_they_take(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {1135, 9030, 10010};
    struct engine_sim_report report = {0};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        engine_sim_run(seeds[i], ENGINE_SIM_CARDS, false, &report);
        if (report.has_failed) fail_msg("%s", report.message);
    }
}

/* A rank dies, and before another rank learns of it, so does its host. */
static void a_death_that_a_host_takes_with_it_is_found(void **state)
{
    (void)state;
    struct engine_sim_report report = {0};
    engine_sim_run(10678, ENGINE_SIM_CARDS, false, &report);
    if (report.has_failed) fail_msg("%s", report.message);
    assert_true(report.crashed == 2 && report.vanished == 1);
}

static void a_seed_says_everything(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct engine_sim_report once = {0}, again = {0};
        engine_sim_run(seed, ENGINE_SIM_CARDS, false, &once);
        engine_sim_run(seed, ENGINE_SIM_CARDS, false, &again);
        assert_true(once.fingerprint == again.fingerprint && once.events == again.events);
    }
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) return engine_sim_card_main(argument_count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_must_hold_holds_in_every_schedule),
        cmocka_unit_test(slow_schedules_have_the_time_that_they_take),
        cmocka_unit_test(a_death_that_a_host_takes_with_it_is_found),
        cmocka_unit_test(a_seed_says_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
