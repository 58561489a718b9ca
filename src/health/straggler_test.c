/* Who is named a straggler: a rank that is always the last by about as much, and nobody where waiting goes in turns. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "health/straggler.h"

enum { MS = 1000000, OTHER = 2, SLOW = 3 };

static struct straggler straggler;
static struct straggler_name name;
static uint64_t now_ns, its_waits;

static int begin(void **state)
{
    (void)state;
    straggler = (struct straggler){0};
    now_ns = 1000 * (uint64_t)MS;
    its_waits = 0;
    return 0;
}

/* A call of 10 ms in which this rank waits for another one. */
static bool wait_for(int rank, uint64_t ns)
{
    const struct straggler_wait wait = {
        .rank = rank, .rank_waits = its_waits, .since_ns = now_ns, .ns = ns};
    now_ns += 10 * MS;
    straggler_add(&straggler, &wait);
    return straggler_judge(&straggler, its_waits, now_ns, &name);
}

static void who_is_always_last_is_named_after_ten_calls(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) assert_false(wait_for(SLOW, (uint64_t)(4 + i % 3) * MS));
    assert_true(wait_for(SLOW, 5 * MS));
    assert_int_equal(name.rank, SLOW);
    assert_int_equal(name.held, 10);
    assert_int_equal(name.calls, 10);
    assert_int_equal(name.mean_ns, 5 * MS);
}

static void one_exception_in_ten_does_not_hide_it(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) wait_for(i == 4 ? OTHER : SLOW, 5 * MS);
    assert_true(wait_for(SLOW, 5 * MS));
    assert_int_equal(name.held, 9);
    begin(NULL);
    for (int i = 0; i < 9; i++) wait_for(i == 4 || i == 6 ? OTHER : SLOW, 5 * MS);
    assert_false(wait_for(SLOW, 5 * MS));
}

static void one_long_wait_does_not_hide_it(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) wait_for(SLOW, (uint64_t)(i == 4 ? 500 : 5) * MS);
    assert_true(wait_for(SLOW, 5 * MS));
}

static void its_own_waits_count_against_it(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) wait_for(SLOW, 5 * MS);
    its_waits = 1;
    assert_true(wait_for(SLOW, 5 * MS));
    assert_int_equal(name.calls, 11);
    begin(NULL);
    for (int i = 0; i < 9; i++) wait_for(SLOW, 5 * MS);
    its_waits = 3;
    assert_false(wait_for(SLOW, 5 * MS));
}

static void its_waits_for_the_exception_count_once(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) {
        its_waits += i == 4;
        wait_for(i == 4 ? OTHER : SLOW, 5 * MS);
    }
    assert_true(wait_for(SLOW, 5 * MS));
    assert_int_equal(name.calls, 10);
}

static void waits_that_matter_little_name_nobody(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        now_ns += 200 * MS; /* of computing */
        assert_false(wait_for(SLOW, 5 * MS));
    }
}

/* Two ranks, each as late as the exponential distribution says: the most irregular there are, and nobody is slow. */
static void irregular_ranks_are_hardly_ever_named(void **state)
{
    (void)state;
    enum { CALLS = 100000 };
    int named = 0;
    srand48(7);
    for (int i = 0; i < CALLS; i++) {
        const double mine = -5 * log(1 - drand48()), theirs = -5 * log(1 - drand48());
        if (mine > theirs + 1) its_waits++;
        if (theirs > mine + 1) named += wait_for(SLOW, (uint64_t)((theirs - mine) * MS));
    }
    print_message("%d of %d\n", named, CALLS);
    assert_true(named < CALLS / 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_is_always_last_is_named_after_ten_calls, begin),
        cmocka_unit_test_setup(one_exception_in_ten_does_not_hide_it, begin),
        cmocka_unit_test_setup(one_long_wait_does_not_hide_it, begin),
        cmocka_unit_test_setup(its_own_waits_count_against_it, begin),
        cmocka_unit_test_setup(its_waits_for_the_exception_count_once, begin),
        cmocka_unit_test_setup(waits_that_matter_little_name_nobody, begin),
        cmocka_unit_test_setup(irregular_ranks_are_hardly_ever_named, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
