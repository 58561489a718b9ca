/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/plans/plan_rounds.h"

static struct plan_rounds bruck(enum collective collective, int ranks, int radix, unsigned ports)
{
    const struct algo_params params = {
        .collective = collective, .rank_count = ranks, .radix = (unsigned)radix};
    return plan_rounds_of("bruck", &params, ports);
}

static void allgather_takes_the_fewest_rounds_and_blocks(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= ROUNDS_RANKS_MAX; ranks++)
        for (int radix = 2; radix <= 5; radix++) {
            struct plan_rounds of = bruck(COLLECTIVE_ALLGATHER, ranks, radix, 0);
            assert_int_equal(of.rounds.round_count, log_up(ranks, radix));
            assert_in_range(plan_rounds_peers_max(&of), 1, radix - 1);
            assert_in_range(plan_rounds_messages_max(&of), 1, 2);
            for (int rank = 0; rank < ranks; rank++)
                assert_int_equal(plan_rounds_chunks_sent(&of, rank), ranks - 1);
            plan_rounds_release(&of);
        }
}

/* Digits other than 0 of all distances. */
static uint32_t hops_of_all_blocks(int ranks, int radix)
{
    uint32_t hops = 0;
    for (int distance = 1; distance < ranks; distance++)
        for (int rest = distance; rest > 0; rest /= radix) hops += rest % radix != 0;
    return hops;
}

/* A message for each position and digit that some distance has. */
static uint32_t messages_of_a_rank(int ranks, int radix)
{
    uint32_t count = 0;
    for (int power = 1; power < ranks; power *= radix)
        for (int digit = 1; digit < radix && digit * power < ranks; digit++) count++;
    return count;
}

static void alltoall_sends_a_message_for_each_digit_of_a_position(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 40; ranks++)
        for (int radix = 2; radix <= 7; radix++) {
            struct plan_rounds of = bruck(COLLECTIVE_ALLTOALL, ranks, radix, 1);
            const uint32_t messages = messages_of_a_rank(ranks, radix);
            assert_int_equal(of.rounds.round_count, messages);
            assert_int_equal(of.rounds.message_count, messages * (uint32_t)ranks);
            assert_true(messages <= (uint32_t)(radix - 1) * log_up(ranks, radix));
            for (int rank = 0; rank < ranks; rank++)
                assert_int_equal(plan_rounds_chunks_sent(&of, rank),
                                 hops_of_all_blocks(ranks, radix));
            plan_rounds_release(&of);
        }
}

/* (r-1) log_r p rounds, and (r-1)/r of all blocks in each position. */
static void alltoall_of_a_power_is_as_published(void **state)
{
    (void)state;
    static const struct {
        int ranks, radix;
        uint32_t positions;
    } cases[] = {{2, 2, 1},  {8, 2, 3}, {32, 2, 5}, {64, 2, 6}, {3, 3, 1},
                 {27, 3, 3}, {4, 4, 1}, {64, 4, 3}, {25, 5, 2}, {64, 8, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t ranks = (uint32_t)cases[i].ranks, radix = (uint32_t)cases[i].radix;
        struct plan_rounds of = bruck(COLLECTIVE_ALLTOALL, cases[i].ranks, cases[i].radix, 1);
        assert_int_equal(of.rounds.round_count, (radix - 1) * cases[i].positions);
        for (int rank = 0; rank < cases[i].ranks; rank++)
            assert_int_equal(plan_rounds_chunks_sent(&of, rank),
                             ranks / radix * (radix - 1) * cases[i].positions);
        plan_rounds_release(&of);
    }
}

static void alltoall_with_enough_ports_takes_a_round_for_each_position(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 40; ranks++)
        for (int radix = 2; radix <= 7; radix++) {
            struct plan_rounds of = bruck(COLLECTIVE_ALLTOALL, ranks, radix, (unsigned)radix - 1);
            assert_int_equal(of.rounds.round_count, log_up(ranks, radix));
            assert_in_range(plan_rounds_peers_max(&of), 1, radix - 1);
            plan_rounds_release(&of);
        }
}

static void a_radix_of_all_ranks_is_direct(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 20; ranks++) {
        struct plan_rounds of = bruck(COLLECTIVE_ALLTOALL, ranks, 64, 0);
        assert_int_equal(of.rounds.round_count, 1);
        assert_int_equal(plan_rounds_chunks_sent(&of, 0), ranks - 1);
        plan_rounds_release(&of);
    }
}

static void dissemination_with_k_ports_takes_log_rounds(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= ROUNDS_RANKS_MAX; ranks++)
        for (int ports = 1; ports <= 6; ports++) {
            const struct algo_params params = {
                .collective = COLLECTIVE_BARRIER, .rank_count = ranks, .radix = (unsigned)ports + 1};
            struct plan_rounds of = plan_rounds_of("dissemination", &params, (unsigned)ports);
            assert_int_equal(of.rounds.round_count, log_up(ranks, ports + 1));
            assert_in_range(plan_rounds_peers_max(&of), 1, ports);
            plan_rounds_release(&of);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allgather_takes_the_fewest_rounds_and_blocks),
        cmocka_unit_test(alltoall_sends_a_message_for_each_digit_of_a_position),
        cmocka_unit_test(alltoall_of_a_power_is_as_published),
        cmocka_unit_test(alltoall_with_enough_ports_takes_a_round_for_each_position),
        cmocka_unit_test(a_radix_of_all_ranks_is_direct),
        cmocka_unit_test(dissemination_with_k_ports_takes_log_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
