/* Checks in the plans the partners that swing.c names, and the load of a ring's links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "plan/verify.h"
#include "tests/plans/plan_rounds.h"

static struct plan *make(enum collective collective, const char *name, int ranks)
{
    const struct algo_params params = {.collective = collective, .rank_count = ranks};
    return plan_named(name, &params);
}

static bool sends(const struct plan_step *step)
{
    return step->target_count > 0;
}

/* The rank's message of that round; in all plans looked at here a rank sends one in every round. */
static const struct plan_step *message_of(const struct rank_plan *plan, int round)
{
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        assert_in_range(step->target_count, 0, 1);
        if (sends(step) && round-- == 0) return step;
    }
    return NULL;
}

static int receiver_of(const struct rank_plan *plan, int round)
{
    const struct plan_step *step = message_of(plan, round);
    assert_non_null(step);
    return plan->targets[step->first_target];
}

static int rounds_of(const struct plan *plan)
{
    int rounds = 0;
    while (message_of(plan->ranks[0], rounds) != NULL) rounds++;
    return rounds;
}

/* How far the receiver is from the sender, the shorter way around: ahead of it from 1 to p/2,
 * behind it below 0. */
static int way_to(int from, int to, int ranks)
{
    const int ahead = (to - from + ranks) % ranks;
    return ahead <= ranks / 2 ? ahead : ahead - ranks;
}

static int log2_of(int count)
{
    int log = 0;
    while (1 << log < count) log++;
    return log;
}

static int power(int base, int exponent)
{
    return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

/* ------------------------------------------------------------------------------------ partners */

static void distances_swing_from_side_to_side(void **state)
{
    (void)state;
    static const int distances[] = {1, -1, 3, -5, 11, -21, 43, -85};
    struct plan *plan = make(COLLECTIVE_REDUCE_SCATTER, "swing", 256);
    assert_int_equal(rounds_of(plan), 8);
    for (int round = 0; round < 8; round++)
        for (int rank = 0; rank < 256; rank++) {
            const int way = way_to(rank, receiver_of(plan->ranks[rank], round), 256);
            assert_int_equal(way, rank % 2 == 0 ? distances[round] : -distances[round]);
        }
    plan_free(plan);
}

static void partners_are_those_of_the_paper(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 128; ranks *= 2) {
        struct plan *allreduce = make(COLLECTIVE_ALLREDUCE, "swing", ranks);
        struct plan *allgather = make(COLLECTIVE_ALLGATHER, "swing", ranks);
        struct plan *latency = make(COLLECTIVE_ALLREDUCE, "swing_latency", ranks);
        const int rounds = log2_of(ranks);
        assert_int_equal(rounds_of(allreduce), 2 * rounds);
        assert_int_equal(rounds_of(allgather), rounds);
        assert_int_equal(rounds_of(latency), rounds);
        for (int s = 0; s < rounds; s++)
            for (int rank = 0; rank < ranks; rank++) {
                const int distance = (1 - power(-2, s + 1)) / 3;
                const int partner = rank % 2 == 0 ? rank + distance : rank - distance;
                const int expected = (partner % ranks + ranks) % ranks;
                const int back = rounds - 1 - s;
                assert_int_equal(receiver_of(allreduce->ranks[rank], s), expected);
                assert_int_equal(receiver_of(allreduce->ranks[rank], rounds + back), expected);
                assert_int_equal(receiver_of(allgather->ranks[rank], back), expected);
                assert_int_equal(receiver_of(latency->ranks[rank], back), expected);
            }
        plan_free(allreduce);
        plan_free(allgather);
        plan_free(latency);
    }
}

static void every_round_halves_what_is_sent(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 128; ranks *= 2) {
        struct plan *plan = make(COLLECTIVE_REDUCE_SCATTER, "swing", ranks);
        struct plan *allgather = make(COLLECTIVE_ALLGATHER, "swing", ranks);
        for (int round = 0; round < log2_of(ranks); round++)
            for (int rank = 0; rank < ranks; rank++) {
                assert_int_equal(message_of(plan->ranks[rank], round)->chunk_count,
                                 ranks >> (round + 1));
                assert_int_equal(message_of(allgather->ranks[rank], round)->chunk_count, 1 << round);
            }
        plan_free(plan);
        plan_free(allgather);
    }
}

/* --------------------------------------------------------------------------------------- links
 *
 * A bidirectional ring: link i leads from rank i to rank i+1, and another one back.  A message goes
 * the shorter way around, from rank r on for half of the ring, and loads every link on its way with
 * its part of the vector.  A round takes as long as its busiest link of either direction; rounds
 * are added up.  So the time is in units of n/B, the vector over a link's bandwidth. */

static void load_way(double *ahead, double *behind, int from, int way, int ranks, double load)
{
    for (int hop = 0; hop < abs(way); hop++) {
        if (way > 0)
            ahead[(from + hop) % ranks] += load;
        else
            behind[(from - hop - 1 + ranks) % ranks] += load;
    }
}

static double round_time(const struct plan *plan, int round, double chunk)
{
    enum { LINKS_MAX = 256 };
    const int ranks = plan->shape.rank_count;
    double ahead[LINKS_MAX] = {0}, behind[LINKS_MAX] = {0}, busiest = 0;
    assert_true(ranks <= LINKS_MAX);
    for (int rank = 0; rank < ranks; rank++) {
        const int way = way_to(rank, receiver_of(plan->ranks[rank], round), ranks);
        const double load = message_of(plan->ranks[rank], round)->chunk_count * chunk;
        load_way(ahead, behind, rank, way, ranks, load);
    }
    for (int link = 0; link < ranks; link++) {
        if (ahead[link] > busiest) busiest = ahead[link];
        if (behind[link] > busiest) busiest = behind[link];
    }
    return busiest;
}

/* The time of some of the plan's rounds; the blocks of all p ranks make up the vector. */
static double link_time(enum collective collective, const char *name, int ranks, int first_round,
                        int round_count)
{
    struct plan *plan = make(collective, name, ranks);
    const double chunks = collective == COLLECTIVE_ALLREDUCE ? (double)plan->shape.parts
                                                             : (double)plan->shape.parts * ranks;
    double time = 0;
    for (int round = first_round; round < first_round + round_count; round++)
        time += round_time(plan, round, 1 / chunks);
    plan_free(plan);
    return time;
}

/* Powers of two are exact. */
static void assert_same(double a, double b)
{
    if (!(a == b)) fail_msg("%.10g is not %.10g", a, b);
}

static void links_of_a_ring_are_busy_for_less_time_than_with_halving(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        double swing, halving;
    } cases[] = {{8, 1.0, 1.5}, {16, 1.1875, 2.0}, {64, 1.546875, 3.0}, {256, 1.88671875, 4.0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int ranks = cases[i].ranks, q = log2_of(ranks);
        const double swing = cases[i].swing, halving = cases[i].halving;
        assert_same(link_time(COLLECTIVE_REDUCE_SCATTER, "swing", ranks, 0, q), swing);
        assert_same(link_time(COLLECTIVE_ALLGATHER, "swing", ranks, 0, q), swing);
        assert_same(link_time(COLLECTIVE_ALLREDUCE, "swing", ranks, 0, q), swing);
        assert_same(link_time(COLLECTIVE_ALLREDUCE, "swing", ranks, q, q), swing);
        assert_same(link_time(COLLECTIVE_ALLREDUCE, "halving_doubling", ranks, 0, q), halving);
        assert_same(link_time(COLLECTIVE_ALLREDUCE, "halving_doubling", ranks, q, q), halving);
    }
}

/* Whole vectors: the order of rounds makes no difference to the links. */
static void links_carry_fewer_vectors_than_with_doubling(void **state)
{
    (void)state;
    for (int ranks = 8; ranks <= 256; ranks *= 2) {
        const int q = log2_of(ranks);
        const double swing = link_time(COLLECTIVE_ALLREDUCE, "swing_latency", ranks, 0, q);
        const double doubling = link_time(COLLECTIVE_ALLREDUCE, "doubling", ranks, 0, q);
        double expected = 0; /* partners are on every second rank: half of the distance on a link */
        for (int s = 0; s < q; s++) expected += (abs((1 - power(-2, s + 1)) / 3) + 1) / 2;
        assert_same(swing, expected);
        assert_same(doubling, ranks - 1);
        assert_true(swing < 0.6 * doubling);
    }
}

/* ---------------------------------------------------------------------------------------- bits */

/* All ranks' results are one expression, though every rank computes its own. */
static void latency_variant_has_one_tree_for_all_ranks(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 256; ranks *= 2) {
        struct plan *plan = make(COLLECTIVE_ALLREDUCE, "swing_latency", ranks);
        struct verify_report report;
        if (plan_verify(plan, &(struct verify_options){.associative_tree_uniform = true},
                        &report) != VERIFY_PROVEN)
            fail_msg("%d ranks: %s", ranks, report.message);
        plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_swing_from_side_to_side),
        cmocka_unit_test(partners_are_those_of_the_paper),
        cmocka_unit_test(every_round_halves_what_is_sent),
        cmocka_unit_test(links_of_a_ring_are_busy_for_less_time_than_with_halving),
        cmocka_unit_test(links_carry_fewer_vectors_than_with_doubling),
        cmocka_unit_test(latency_variant_has_one_tree_for_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
