#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/circulant.h"
#include "tests/plans/plan_rounds.h"

static void skips_are_halves_rounded_up(void **state)
{
    (void)state;
    static const int skips_of_22[] = {1, 2, 3, 6, 11, 22};
    const struct circulant of_22 = circulant_of(22, 2);
    assert_int_equal(of_22.round_count, 5);
    assert_memory_equal(of_22.skips, skips_of_22, sizeof skips_of_22);
    for (int ranks = 2; ranks <= 2000; ranks++)
        for (int radix = 2; radix <= 9; radix++) {
            const struct circulant circulant = circulant_of(ranks, radix);
            assert_int_equal(circulant.round_count, log_up(ranks, radix));
            assert_int_equal(circulant.skips[0], 1);
            assert_int_equal(circulant.skips[circulant.round_count], ranks);
            for (int i = 0; i < circulant.round_count; i++) {
                const int skip = circulant.skips[i], next = circulant.skips[i + 1];
                assert_true(skip * radix >= next && (skip - 1) * radix < next);
            }
        }
}

static void skips_are_powers_where_these_are_wanted(void **state)
{
    (void)state;
    static const int skips_of_22[] = {1, 3, 9, 22};
    const struct circulant of_22 = circulant_of_powers(22, 3);
    assert_int_equal(of_22.round_count, 3);
    assert_memory_equal(of_22.skips, skips_of_22, sizeof skips_of_22);
    for (int ranks = 2; ranks <= 2000; ranks++)
        for (int radix = 2; radix <= 9; radix++)
            assert_int_equal(circulant_of_powers(ranks, radix).round_count, log_up(ranks, radix));
}

/* For any number of ranks and of ports: the fewest rounds, the fewest blocks, and not more than two
 * messages where a run of blocks passes the last rank. */
static void check(enum collective collective, int ranks, int ports, int phases)
{
    const struct algo_params params = {
        .collective = collective, .rank_count = ranks, .radix = (unsigned)ports + 1};
    struct plan_rounds of = plan_rounds_of("circulant", &params, 0);
    assert_int_equal(of.rounds.round_count, (uint32_t)phases * log_up(ranks, ports + 1));
    assert_in_range(plan_rounds_peers_max(&of), 1, ports);
    assert_in_range(plan_rounds_messages_max(&of), 1, 2);
    for (int rank = 0; rank < ranks; rank++)
        assert_int_equal(plan_rounds_chunks_sent(&of, rank), phases * (ranks - 1));
    plan_rounds_release(&of);
}

static void reduce_scatter_takes_q_rounds_and_sends_p_minus_1_blocks(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= ROUNDS_RANKS_MAX; ranks++)
        for (int ports = 1; ports <= 4; ports++) check(COLLECTIVE_REDUCE_SCATTER, ranks, ports, 1);
}

static void allgather_takes_q_rounds_and_sends_p_minus_1_blocks(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= ROUNDS_RANKS_MAX; ranks++)
        for (int ports = 1; ports <= 4; ports++) check(COLLECTIVE_ALLGATHER, ranks, ports, 1);
}

static void allreduce_takes_both(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= ROUNDS_RANKS_MAX; ranks += 3)
        for (int ports = 1; ports <= 4; ports++) check(COLLECTIVE_ALLREDUCE, ranks, ports, 2);
}

/* The last local block of an odd number joins the partial sums; nothing else is copied. */
static void reduce_scatter_copies_one_block_at_most(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 33; ranks++)
        for (unsigned radix = 2; radix <= 5; radix++) {
            const struct algo_params params = {
                .collective = COLLECTIVE_REDUCE_SCATTER, .rank_count = ranks, .radix = radix};
            struct plan_rounds of = plan_rounds_of("circulant", &params, 0);
            const struct rank_plan *plan = of.plan->ranks[ranks / 2];
            uint32_t copied = 0;
            for (uint32_t i = 0; i < plan->step_count; i++)
                if (plan->steps[i].source_count == 1 && plan->steps[i].has_destination)
                    copied += plan->steps[i].chunk_count;
            assert_int_equal(copied, radix == 2 && ranks % 2 == 1);
            plan_rounds_release(&of);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skips_are_halves_rounded_up),
        cmocka_unit_test(skips_are_powers_where_these_are_wanted),
        cmocka_unit_test(reduce_scatter_takes_q_rounds_and_sends_p_minus_1_blocks),
        cmocka_unit_test(allgather_takes_q_rounds_and_sends_p_minus_1_blocks),
        cmocka_unit_test(allreduce_takes_both),
        cmocka_unit_test(reduce_scatter_copies_one_block_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
