/* All collectives with all stand-ins (tests/engine/engine_dummies.h says what must hold).
 *
 *     tests_engine_dummies_test                       what CI runs; with TUTTI_LONG=1 many more
 *     tests_engine_dummies_test --seeds N [--seed S]  as many as you like; stops at the first that fails and prints its seed
 *
 * One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan timeout=600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/collective.h"
#include "tests/engine/engine_dummies.h"
#include "tests/kit/sanitized.h"

static uint64_t seed;

static int say_seed(void **state)
{
    (void)state;
    print_message("the last seed was %llu\n", (unsigned long long)seed);
    return 0;
}

static void results_are_right_with_every_dummy(void **state)
{
    (void)state;
    const unsigned each = getenv("TUTTI_LONG") != NULL ? 10000
                          : IS_SPARSE                  ? 180
                                                       : 450; /* seeds of a dummy */
    const uint64_t seeds = (uint64_t)each / COLLECTIVE_COUNT * engine_dummies_round();
    struct engine_dummies_report report = {0};
    for (seed = 1; seed <= seeds; seed++) engine_dummies_run(seed, &report);
    /* Every path of a message was taken. */
    assert_true(report.done > seeds && report.given_up > seeds / 20);
    assert_true(report.written > 0 && report.handed_on > seeds / 20);
    assert_true(report.shared > seeds / 20 && report.multicast > seeds / 10);
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) return engine_dummies_main(argument_count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(results_are_right_with_every_dummy, say_seed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
