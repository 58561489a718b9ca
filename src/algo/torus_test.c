/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* Checks in the plans the rounds, bytes and links that torus.c names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "studio/plan/rounds.h"
#include "tests/plans/plan_rounds.h"

enum { DIMENSIONS_MAX = 3, RANKS_MAX = 64, COPYING_RANKS_MAX = 49 };

struct shape {
    int ranks, dimensions, sizes[DIMENSIONS_MAX];
};

/* Row by row: neighbours in the last dimension are rank +-1. */
static const struct shape shapes[] = {
    {2, 1, {2}},        {3, 1, {3}},     {4, 2, {2, 2}},     {5, 1, {5}},      {6, 2, {2, 3}},
    {7, 1, {7}},        {8, 2, {2, 4}},  {9, 2, {3, 3}},     {12, 2, {3, 4}},  {13, 1, {13}},
    {16, 2, {4, 4}},    {18, 2, {3, 6}}, {20, 2, {4, 5}},    {22, 2, {2, 11}}, {25, 2, {5, 5}},
    {27, 3, {3, 3, 3}}, {31, 1, {31}},   {36, 3, {3, 3, 4}}, {29, 1, {29}},    {45, 3, {3, 3, 5}},
    {48, 3, {3, 4, 4}}, {49, 2, {7, 7}}, {60, 3, {3, 4, 5}}, {63, 2, {7, 9}},  {64, 3, {4, 4, 4}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const struct {
    enum collective collective;
    int ways;
} cases[] = {{COLLECTIVE_REDUCE_SCATTER, 1}, {COLLECTIVE_ALLGATHER, 1}, {COLLECTIVE_ALLREDUCE, 2}};
enum { CASES = sizeof cases / sizeof *cases };

static struct plan *make(enum collective collective, int ranks)
{
    const struct algo_params params = {.collective = collective, .rank_count = ranks};
    return plan_named("torus", &params);
}

/* In each every lane sends one message. */
static struct rounds unfold(const struct plan *plan)
{
    struct rounds rounds;
    const char *message;
    const struct rounds_options options = {.ports = 1};
    if (rounds_init(&rounds, plan, &options, &message) != TUTTI_OK) fail_msg("%s", message);
    return rounds;
}

static uint32_t rounds_of(const struct shape *shape)
{
    int rounds = 0;
    for (int i = 0; i < shape->dimensions; i++) rounds += shape->sizes[i] - 1;
    return (uint32_t)rounds;
}

static void every_dimension_takes_its_size_less_one_rounds(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++)
        for (int c = 0; c < CASES; c++) {
            if (cases[c].collective != COLLECTIVE_ALLREDUCE && shapes[s].ranks > COPYING_RANKS_MAX)
                continue; /* more steps than can be unfolded */
            struct plan *plan = make(cases[c].collective, shapes[s].ranks);
            struct rounds rounds = unfold(plan);
            for (int rank = 0; rank < shapes[s].ranks; rank++)
                assert_int_equal(plan->ranks[rank]->lane_count, 2 * shapes[s].dimensions);
            assert_int_equal(rounds.round_count, (uint32_t)cases[c].ways * rounds_of(&shapes[s]));
            rounds_release(&rounds);
            plan_free(plan);
        }
}

/* As a ring: (p-1)/p of the vector from every rank, or both ways of it. */
static void every_rank_sends_the_least(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++)
        for (int c = 0; c < CASES; c++) {
            const int ranks = shapes[s].ranks;
            struct plan *plan = make(cases[c].collective, ranks);
            const uint32_t blocks =
                cases[c].collective == COLLECTIVE_ALLREDUCE ? 1 : (uint32_t)ranks;
            const uint32_t vector = plan->shape.parts * blocks, p = (uint32_t)ranks;
            for (int rank = 0; rank < ranks; rank++) {
                const struct rank_plan *rank_plan = plan->ranks[rank];
                uint32_t chunks = 0;
                for (uint32_t i = 0; i < rank_plan->step_count; i++)
                    chunks += rank_plan->steps[i].chunk_count * rank_plan->steps[i].target_count;
                assert_int_equal(chunks * p, (uint32_t)cases[c].ways * (p - 1) * vector);
            }
            plan_free(plan);
        }
}

/* Links: one a rank, dimension and direction; -1 if the two are no neighbours. */
static int link_between(const struct shape *shape, int from, int to)
{
    int stride = shape->ranks;
    for (int i = 0; i < shape->dimensions; i++) {
        const int size = shape->sizes[i];
        stride /= size;
        const int a = from / stride % size, b = to / stride % size;
        if (a == b) continue;
        if (from + (b - a) * stride != to) return -1;
        if (b == (a + 1) % size) return (from * DIMENSIONS_MAX + i) * 2;
        return a == (b + 1) % size ? (from * DIMENSIONS_MAX + i) * 2 + 1 : -1;
    }
    return -1;
}

static bool is_cube(const struct shape *shape)
{
    for (int i = 1; i < shape->dimensions; i++)
        if (shape->sizes[i] != shape->sizes[0]) return false;
    return shape->sizes[0] > 2; /* else a neighbour is one on both sides */
}

static void messages_go_to_neighbours_and_in_a_cube_no_link_is_ever_idle(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++) {
        const struct shape *shape = &shapes[s];
        struct plan *plan = make(COLLECTIVE_ALLREDUCE, shape->ranks);
        struct rounds rounds = unfold(plan);
        uint64_t used[RANKS_MAX * DIMENSIONS_MAX * 2] = {0}; /* bit i: in round i + 1 */
        for (uint32_t m = 0; m < rounds.message_count; m++) {
            const struct round_message *message = &rounds.messages[m];
            const int link = link_between(shape, message->from, message->to);
            assert_in_range(link, 0, RANKS_MAX * DIMENSIONS_MAX * 2 - 1);
            const uint64_t round = (uint64_t)1 << (message->round - 1);
            if (is_cube(shape)) assert_int_equal(used[link] & round, 0);
            used[link] |= round;
        }
        for (int rank = 0; is_cube(shape) && rank < shape->ranks; rank++)
            for (int i = 0; i < 2 * shape->dimensions; i++)
                assert_int_equal(used[rank * DIMENSIONS_MAX * 2 + i],
                                 ((uint64_t)1 << rounds.round_count) - 1);
        rounds_release(&rounds);
        plan_free(plan);
    }
}

/* Rounds of a share's first phase move what is a dimension's part of it, those of the next one a
 * part of the part. */
static void buckets_shrink_from_phase_to_phase(void **state)
{
    (void)state;
    struct plan *plan = make(COLLECTIVE_REDUCE_SCATTER, 60);
    const struct rank_plan *rank_plan = plan->ranks[17];
    static const uint32_t sizes[3][3] = {{20, 5, 1}, {15, 3, 1}, {12, 4, 1}};
    static const int counts[3][3] = {{2, 3, 4}, {3, 4, 2}, {4, 2, 3}};
    for (int lane = 0; lane < 6; lane++) {
        uint32_t at = rank_plan->lanes[lane].first_step;
        for (int phase = 0; phase < 3; phase++)
            for (int message = 0; message < counts[lane % 3][phase]; message++) {
                while (rank_plan->steps[at].target_count == 0) at++;
                assert_int_equal(rank_plan->steps[at++].chunk_count, sizes[lane % 3][phase]);
            }
    }
    plan_free(plan);
}

static void only_the_blocks_with_owners_are_copied(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++)
        for (int c = 0; c < CASES; c++) {
            struct plan *plan = make(cases[c].collective, shapes[s].ranks);
            const struct rank_plan *rank_plan = plan->ranks[shapes[s].ranks - 1];
            int copies = 0;
            for (uint32_t i = 0; i < rank_plan->step_count; i++)
                copies += strcmp(plan_step_kind(rank_plan, &rank_plan->steps[i]), "copy") == 0;
            const bool in_order =
                cases[c].collective == COLLECTIVE_ALLREDUCE || shapes[s].dimensions == 1;
            assert_int_equal(copies, in_order ? 0 : 2 * shapes[s].dimensions * shapes[s].ranks);
            plan_free(plan);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dimension_takes_its_size_less_one_rounds),
        cmocka_unit_test(every_rank_sends_the_least),
        cmocka_unit_test(messages_go_to_neighbours_and_in_a_cube_no_link_is_ever_idle),
        cmocka_unit_test(buckets_shrink_from_phase_to_phase),
        cmocka_unit_test(only_the_blocks_with_owners_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
