#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "studio/load.h"

static const uint64_t BURNT_NS = 500000000;

static void burn(const struct load *load)
{
    static volatile unsigned count;
    while (load_own_ns(load) < BURNT_NS)
        for (int i = 0; i < 100000; i++) count++;
}

/* The difference is the time that this process used, however much others use meanwhile. */
static void who_measures_is_not_another_one(void **state)
{
    (void)state;
    struct load load;
    load_begin(&load);
    const uint64_t begin_ns = clock_now_ns();
    burn(&load);
    const double own_ns = (double)load_own_ns(&load);
    const struct load_verdict all = load_end(&load, 0);
    const struct load_verdict others = load_end(&load, (uint64_t)own_ns);
    const double percent =
        100 * own_ns / (double)(clock_now_ns() - begin_ns) / (double)sysconf(_SC_NPROCESSORS_ONLN);
    print_message("%.1f %% of all processors: %.1f %% with them, %.1f %% without\n", percent,
                  all.others_percent, others.others_percent);
    assert_true(all.others_percent - others.others_percent > percent / 2);
    assert_true(all.others_percent - others.others_percent < percent * 2);
    assert_true(all.got_percent == 100);
}

static void processors_that_others_share_give_less(void **state)
{
    (void)state;
    struct load load;
    load_begin(&load);
    load_computed(&load, 1000, 1000);
    load_computed(&load, 1000, 800);
    const struct load_verdict verdict = load_end(&load, 0);
    assert_true(verdict.got_percent == 90);
    assert_true(verdict.is_loaded);
}

static void a_machine_has_one_name(void **state)
{
    (void)state;
    char name[LOAD_MACHINE_SIZE], again[LOAD_MACHINE_SIZE];
    load_machine(name);
    load_machine(again);
    assert_true(strlen(name) > 30);
    assert_string_equal(name, again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_measures_is_not_another_one),
        cmocka_unit_test(processors_that_others_share_give_less),
        cmocka_unit_test(a_machine_has_one_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
