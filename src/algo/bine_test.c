/* Checks in the plans the properties that bine.c gives its trees and butterflies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "tests/plans/plan_rounds.h"

enum { RANKS_MAX = 256 };

static struct plan *make(enum collective collective, const char *name, int ranks, int root)
{
    const struct algo_params params = {.collective = collective, .rank_count = ranks, .root = root};
    return plan_named(name, &params);
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

/* The parent of each rank in a broadcast, where each rank has one step; -1 for the root. */
static void parents_of(const char *name, int ranks, int root, int *parents)
{
    struct plan *plan = make(COLLECTIVE_BROADCAST, name, ranks, root);
    for (int rank = 0; rank < ranks; rank++) {
        const struct rank_plan *rank_plan = plan->ranks[rank];
        assert_int_equal(rank_plan->step_count, 1);
        parents[rank] = rank_plan->sources[0].is_link ? rank_plan->sources[0].peer : -1;
    }
    plan_free(plan);
}

/* The shorter way around. */
static int distance_between(int a, int b, int ranks)
{
    const int ahead = (b - a + ranks) % ranks;
    return ahead <= ranks / 2 ? ahead : ranks - ahead;
}

/* --------------------------------------------------------------------------------------- trees */

/* Digits to base -2 of the number that is congruent to `rank` and has so many digits. */
static unsigned digits_of(int rank, int ranks, int count)
{
    for (unsigned digits = 0; digits < 1U << count; digits++) {
        int number = 0;
        for (int i = 0; i < count; i++)
            if (digits >> i & 1) number += power(-2, i);
        if (((number - rank) % ranks + ranks) % ranks == 0) return digits;
    }
    fail_msg("%d has no %d digits to base -2", rank, count);
    return 0;
}

static void ranks_are_served_at_the_level_of_their_last_unlike_digit(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 64; ranks *= 2) {
        int parents[RANKS_MAX];
        parents_of("bine", ranks, 0, parents);
        assert_int_equal(parents[0], -1);
        for (int rank = 1; rank < ranks; rank++) {
            const int count = log2_of(ranks);
            const unsigned digits = digits_of(rank, ranks, count);
            int level = 0;
            while (level < count - 1 && (digits >> level & 1) == (digits >> (level + 1) & 1))
                level++;
            const int distance = (power(2, level + 1) + (level % 2 == 0 ? 1 : -1)) / 3;
            const int expected = distance <= ranks / 2 ? distance : ranks - distance;
            assert_int_equal(distance_between(rank, parents[rank], ranks), expected);
        }
    }
}

/* Marks the ranks below `top`, itself among them; returns how many. */
static int mark_subtree(const int *parents, int ranks, int top, bool *marks)
{
    int count = 0;
    for (int rank = 0; rank < ranks; rank++) {
        int at = rank;
        while (at != top && at != -1) at = parents[at];
        marks[rank] = at == top;
        count += marks[rank];
    }
    return count;
}

static void subtrees_are_runs_of_a_power_of_two_of_ranks(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 64; ranks *= 2)
        for (int root = 0; root < ranks; root += 1 + ranks / 8) {
            int parents[RANKS_MAX], counts[7] = {0};
            parents_of("bine", ranks, root, parents);
            for (int top = 0; top < ranks; top++) {
                bool marks[RANKS_MAX];
                const int count = mark_subtree(parents, ranks, top, marks);
                int begins = 0;
                for (int rank = 0; rank < ranks; rank++)
                    begins += marks[rank] && !marks[(rank + ranks - 1) % ranks];
                assert_int_equal(begins, top == root ? 0 : 1);
                assert_int_equal(count & (count - 1), 0);
                counts[log2_of(count)]++;
            }
            for (int level = 0; level < log2_of(ranks); level++)
                assert_int_equal(counts[level], ranks >> (level + 1)); /* as in a binomial tree */
        }
}

static void messages_go_two_thirds_of_the_way(void **state)
{
    (void)state;
    for (int ranks = 8; ranks <= RANKS_MAX; ranks *= 2) {
        int bine[RANKS_MAX], binomial[RANKS_MAX], bine_way = 0, binomial_way = 0;
        parents_of("bine", ranks, 0, bine);
        parents_of("tree", ranks, 0, binomial);
        for (int rank = 1; rank < ranks; rank++) {
            bine_way += distance_between(rank, bine[rank], ranks);
            binomial_way += distance_between(rank, binomial[rank], ranks);
        }
        assert_in_range(abs(3 * bine_way - 2 * binomial_way), 0, ranks);
    }
}

/* Messages between groups of neighbouring ranks, of broadcasts from every root. */
static int messages_between_groups(const char *name, int ranks, int group_size)
{
    int count = 0;
    for (int root = 0; root < ranks; root++) {
        int parents[RANKS_MAX];
        parents_of(name, ranks, root, parents);
        for (int rank = 0; rank < ranks; rank++)
            count += parents[rank] >= 0 && rank / group_size != parents[rank] / group_size;
    }
    return count;
}

static void fewer_messages_leave_their_group(void **state)
{
    (void)state;
    static const int sizes[] = {4, 5, 6, 7, 8, 12, 16, 20, 24, 32};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int bine = messages_between_groups("bine", 64, sizes[i]);
        const int binomial = messages_between_groups("tree", 64, sizes[i]);
        if (bine * 100 > binomial * 83 || bine * 100 < binomial * 66)
            fail_msg("groups of %d: %d, binomial %d", sizes[i], bine, binomial);
    }
}

/* -------------------------------------------------------------------------------- butterflies */

struct traffic {
    uint32_t messages, chunks;
};

static struct traffic traffic_of(const struct rank_plan *plan)
{
    struct traffic traffic = {0, 0};
    for (uint32_t i = 0; i < plan->step_count; i++) {
        traffic.messages += plan->steps[i].target_count;
        traffic.chunks += plan->steps[i].target_count * plan->steps[i].chunk_count;
    }
    return traffic;
}

static void butterflies_send_the_least_in_logarithmic_rounds(void **state)
{
    (void)state;
    static const struct {
        enum collective collective;
        uint32_t ways;
    } cases[] = {
        {COLLECTIVE_ALLREDUCE, 2}, {COLLECTIVE_REDUCE_SCATTER, 1}, {COLLECTIVE_ALLGATHER, 1}};
    for (int ranks = 2; ranks <= 64; ranks *= 2)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct plan *plan = make(cases[i].collective, "bine", ranks, 0);
            const uint32_t rounds = cases[i].ways * (uint32_t)log2_of(ranks);
            for (int rank = 0; rank < ranks; rank++) {
                const struct traffic traffic = traffic_of(plan->ranks[rank]);
                assert_int_equal(traffic.chunks, cases[i].ways * (uint32_t)(ranks - 1));
                assert_in_range(traffic.messages, rounds, 2 * rounds);
            }
            plan_free(plan);
        }
}

/* Only a run that passes the last rank is two messages. */
static void most_rounds_are_one_message(void **state)
{
    (void)state;
    for (int ranks = 8; ranks <= 256; ranks *= 2) {
        struct plan *scatter = make(COLLECTIVE_REDUCE_SCATTER, "bine", ranks, 0);
        struct plan *gather = make(COLLECTIVE_ALLGATHER, "bine", ranks, 0);
        uint32_t scattered = 0, gathered = 0;
        for (int rank = 0; rank < ranks; rank++) {
            const uint32_t messages = traffic_of(scatter->ranks[rank]).messages;
            assert_in_range(messages, log2_of(ranks), log2_of(ranks) + 1); /* in the first round */
            scattered += messages;
            gathered += traffic_of(gather->ranks[rank]).messages;
        }
        const uint32_t rounds = (uint32_t)(ranks * log2_of(ranks));
        assert_in_range(scattered - rounds, 1, ranks / 2);
        assert_in_range(gathered - rounds, 1, ranks);
        plan_free(scatter);
        plan_free(gather);
    }
}

static void allgather_begins_with_the_nearest(void **state)
{
    (void)state;
    struct plan *plan = make(COLLECTIVE_ALLGATHER, "bine", 128, 0);
    for (int rank = 0; rank < 128; rank++) {
        const struct rank_plan *rank_plan = plan->ranks[rank];
        int way = 0;
        for (uint32_t i = 0; i < rank_plan->target_count; i++) {
            const int next = distance_between(rank, rank_plan->targets[i], 128);
            assert_true(next >= way);
            way = next;
        }
        assert_int_equal(way, 43);
    }
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_served_at_the_level_of_their_last_unlike_digit),
        cmocka_unit_test(subtrees_are_runs_of_a_power_of_two_of_ranks),
        cmocka_unit_test(messages_go_two_thirds_of_the_way),
        cmocka_unit_test(fewer_messages_leave_their_group),
        cmocka_unit_test(butterflies_send_the_least_in_logarithmic_rounds),
        cmocka_unit_test(most_rounds_are_one_message),
        cmocka_unit_test(allgather_begins_with_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
