/* Tests which rank is named a straggler: a rank that is always last by about as much, and nobody if
 * ranks wait for each other in turns. */
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

static struct straggler_delays delays[SLOW + 1];

static int begin(void **state)
{
    (void)state;
    for (int r = 0; r <= SLOW; r++) delays[r] = (struct straggler_delays){0, 0};
    straggler = (struct straggler){.delays = delays};
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

/* Two ranks, each as late as the exponential distribution says: the most irregular there are, and
 * nobody is slow. */
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

/* ------------------------------------------------------------------------------- a busy machine */

/* Two ranks, each of which judges the other. A call takes a rank `work` ms, and `delay` ms more in
 * which it has no processor. */
enum { SIDES = 2 };
static struct side {
    struct straggler straggler;
    struct straggler_delays delays[SIDES];
    uint64_t waits, delayed_ns, named_ns;
    int named;     /* how often it would name the other rank */
    bool is_blind; /* the system does not tell delays */
} sides[SIDES];

static void begin_sides(bool are_blind)
{
    now_ns = 1000 * (uint64_t)MS;
    for (int s = 0; s < SIDES; s++) {
        sides[s] = (struct side){.is_blind = are_blind, .delayed_ns = MS};
        sides[s].straggler.delays = sides[s].delays;
    }
}

static uint32_t delay_of(const struct side *side)
{
    return side->is_blind ? 0 : (uint32_t)(side->delayed_ns / STRAGGLER_DELAY_NS);
}

static void call_of_sides(const double work[SIDES], const double delay[SIDES])
{
    const double late = work[1] + delay[1] - work[0] - delay[0];
    for (int s = 0; s < SIDES; s++) sides[s].delayed_ns += (uint64_t)(delay[s] * MS);
    const uint64_t since_ns = now_ns;
    now_ns += (uint64_t)(fmax(work[0] + delay[0], work[1] + delay[1]) * MS);
    if (fabs(late) < 1) return;
    struct side *const waiting = &sides[late > 0 ? 0 : 1], *const slow = &sides[late > 0 ? 1 : 0];
    struct straggler_wait wait = {.rank = late > 0 ? 1 : 0,
                                  .rank_waits = slow->waits,
                                  .since_ns = since_ns,
                                  .ns = (uint64_t)(fabs(late) * MS)};
    const struct straggler_delays known = {delay_of(slow), delay_of(waiting)};
    waiting->waits++;
    straggler_excuse(&waiting->straggler, &wait, &known);
    straggler_add(&waiting->straggler, &wait);
    if (!straggler_judge(&waiting->straggler, wait.rank_waits, now_ns, &name)) return;
    waiting->named_ns = now_ns;
    if (slow->named_ns == 0 || !straggler_is_mutual(slow->named_ns, now_ns)) waiting->named++;
}

/* Other programs take the processor of one rank for a while, and then of the other. */
static void phases_of_others(int phases, int calls)
{
    for (int phase = 0; phase < phases; phase++)
        for (int i = 0; i < calls; i++)
            call_of_sides((double[]){10, 10},
                          (double[]){phase % 2 == 0 ? 0 : 5, phase % 2 == 0 ? 5 : 0});
}

static void a_rank_that_the_machine_holds_up_is_not_named(void **state)
{
    (void)state;
    begin_sides(false);
    phases_of_others(1, 500);
    assert_int_equal(sides[0].named + sides[1].named, 0);
    begin_sides(false);
    phases_of_others(20, 30);
    assert_int_equal(sides[0].named + sides[1].named, 0);
}

/* A delay that both ranks have is no excuse. */
static void a_slow_rank_on_a_busy_machine_is_named(void **state)
{
    (void)state;
    srand48(8);
    begin_sides(false);
    for (int i = 0; i < 40; i++)
        call_of_sides((double[]){10, 16}, (double[]){4 * drand48(), 4 * drand48()});
    assert_true(sides[0].named > 20);
    assert_int_equal(sides[1].named, 0);
}

static void ranks_that_share_cores_are_not_named(void **state)
{
    (void)state;
    srand48(9);
    begin_sides(false);
    for (int i = 0; i < 10000; i++) /* either has the core first, for whole turns */
        call_of_sides((double[]){6, 6}, drand48() < 0.95 ? (double[]){0, 6} : (double[]){6, 0});
    assert_int_equal(sides[0].named + sides[1].named, 0);
}

static void where_delays_are_not_told_only_the_first_of_two_is_named(void **state)
{
    (void)state;
    begin_sides(true);
    phases_of_others(1, 15);
    assert_true(sides[0].named > 0);
    assert_int_equal(sides[1].named, 0);
    const int before = sides[0].named;
    for (int phase = 0; phase < 20; phase++) {
        phases_of_others(2, 30);
        assert_int_equal(sides[1].named, 0);
    }
    assert_true(sides[0].named <= before + 30);
    begin_sides(true);
    phases_of_others(2, 30);
    const int named = sides[0].named;
    phases_of_others(1, 200); /* of 15 ms: within half a minute of the other one's last finding */
    assert_int_equal(sides[0].named, named);
}

static void a_finding_of_the_other_rank_speaks_for_half_a_minute(void **state)
{
    (void)state;
    const uint64_t then_ns = 100 * UINT64_C(1000000000);
    assert_true(straggler_is_mutual(then_ns, then_ns + 29 * UINT64_C(1000000000)));
    assert_false(straggler_is_mutual(then_ns, then_ns + 31 * UINT64_C(1000000000)));
    assert_true(straggler_is_mutual(then_ns, then_ns - MS));
}

/* The counters of delays go round after twelve hours. */
static void delays_are_counted_round_their_end(void **state)
{
    (void)state;
    struct straggler_wait wait = {.rank = SLOW, .ns = 20 * MS};
    const uint32_t ms = MS / STRAGGLER_DELAY_NS;
    straggler_excuse(&straggler, &wait, &(struct straggler_delays){UINT32_MAX - 2 * ms, 5});
    assert_int_equal(wait.ns, 20 * MS); /* how long it was delayed since is not known */
    straggler_excuse(&straggler, &wait, &(struct straggler_delays){6 * ms - 1, 5 + 3 * ms});
    assert_int_equal(wait.ns, 15 * MS);
    straggler_excuse(&straggler, &wait, &(struct straggler_delays){0, 5 + 3 * ms});
    straggler_excuse(&straggler, &wait, &(struct straggler_delays){100 * ms, 5 + 3 * ms});
    assert_int_equal(wait.ns, 15 * MS);
    straggler_excuse(&straggler, &wait, &(struct straggler_delays){200 * ms, 5 + 3 * ms});
    assert_int_equal(wait.rank, -1);
    assert_int_equal(wait.ns, 0);
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
        cmocka_unit_test(a_rank_that_the_machine_holds_up_is_not_named),
        cmocka_unit_test(a_slow_rank_on_a_busy_machine_is_named),
        cmocka_unit_test(ranks_that_share_cores_are_not_named),
        cmocka_unit_test(where_delays_are_not_told_only_the_first_of_two_is_named),
        cmocka_unit_test(a_finding_of_the_other_rank_speaks_for_half_a_minute),
        cmocka_unit_test_setup(delays_are_counted_round_their_end, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
