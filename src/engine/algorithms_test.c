/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* The demands of binding and links on the algorithms in the list: direct ones need no counts but a
 * rank's own, and none uses more channels or lanes than there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "base/status.h"
#include "engine/bind.h"
#include "tests/kit/call.h"
#include "tests/worlds/host_map.h"
#include "transport/paths.h"

enum { RANKS_MAX = 9, PLACING_RANKS_MAX = 17 };

static struct path_map paths;

/* Hosts of several sizes for algorithms that need them. */
static const struct algo_levels *levels_for(const struct algorithm *algorithm, int size,
                                            struct host_map *map)
{
    if (!algorithm->needs_levels) return NULL;
    host_map_init_mixed(map, size);
    return &map->levels;
}

static struct rank_plan *planned(const struct algorithm *algorithm,
                                 const struct algo_params *params, int rank)
{
    struct rank_plan *plan;
    const char *message = "";
    if (algo_rank_plan(algorithm, params, rank, &plan, &message) != TUTTI_OK)
        fail_msg("%s by %s, %d ranks, radix %u: %s", collective_name(algorithm->collective),
                 algorithm->name, params->rank_count, params->radix, message);
    return plan;
}

static int root_count(enum collective collective, int size)
{
    return collective_is_rooted(collective) ? size : 1;
}

/* The collectives whose v forms tell a rank only the counts that it sends and receives itself. */
static bool has_local_counts(enum collective collective)
{
    return collective == COLLECTIVE_GATHER || collective == COLLECTIVE_SCATTER ||
           collective == COLLECTIVE_ALLTOALL;
}

typedef void rank_check(const struct algorithm *algorithm, const struct algo_params *params,
                        int rank, void *context);

/* Calls a check for every rank of every shape from 2 to RANKS_MAX ranks. */
static void for_all_ranks(const struct algorithm *algorithm, rank_check *check, void *context)
{
    for (int size = 2; size <= RANKS_MAX; size++) {
        if (!algo_supports_levels(algorithm, size)) continue;
        struct host_map map;
        const int roots = root_count(algorithm->collective, size);
        for (int variant = 0; variant < 2 * roots; variant++) {
            const struct algo_params params = {.collective = algorithm->collective,
                                               .rank_count = size,
                                               .root = variant / 2,
                                               .in_place = variant % 2 == 1,
                                               .levels = levels_for(algorithm, size, &map)};
            for (int rank = 0; rank < size; rank++) check(algorithm, &params, rank, context);
        }
    }
}

/* --------------------------------------------------------------------------------------- direct */

/* The number of elements from one rank to another one; some ranks send nothing. */
static size_t count_between(int source, int destination)
{
    return (size_t)((source * 5 + destination * 3) % 7 * 11);
}

/* Binds as for a call of a v form: with the counts that this rank sends and receives, and no
 * others. */
static enum tutti_status bind_with_own_counts(const struct algorithm *algorithm,
                                              const struct algo_params *params, int rank)
{
    const enum collective collective = algorithm->collective;
    const int size = params->rank_count, root = params->root;
    size_t sends[RANKS_MAX], receives[RANKS_MAX];
    for (int r = 0; r < size; r++) {
        sends[r] = count_between(rank, r);
        receives[r] = count_between(r, rank);
    }
    const bool has_sends = test_send_blocks(collective, rank, size, root) > 1,
               has_receives = test_recv_blocks(collective, rank, size, root) > 1;
    const struct bind_options options = {.count = collective == COLLECTIVE_SCATTER ? receives[root]
                                                                                   : sends[root],
                                         .input_counts = has_sends ? sends : NULL,
                                         .output_counts = has_receives ? receives : NULL,
                                         .dtype = TUTTI_FLOAT64,
                                         .op = op_builtin(OP_SUM),
                                         .level = KERNEL_SCALAR,
                                         .paths = &paths,
                                         .piece_bytes_max = 64 << 10,
                                         .piece_count_max = 4};
    struct rank_plan *plan = planned(algorithm, params, rank);
    struct program *program;
    const enum tutti_status status = bind_program(plan, &options, &program);
    plan_rank_free(plan);
    if (status == TUTTI_OK) program_free(program);
    return status;
}

static void expect_bound(const struct algorithm *algorithm, const struct algo_params *params,
                         int rank, void *context)
{
    (void)context;
    if (bind_with_own_counts(algorithm, params, rank) != TUTTI_OK)
        fail_msg("%s by %s, rank %d of %d, root %d: %s", collective_name(algorithm->collective),
                 algorithm->name, rank, params->rank_count, params->root, tutti_error_message());
}

static void direct_algorithms_bind_with_counts_that_only_the_rank_knows(void **state)
{
    (void)state;
    int direct = 0;
    for (int i = 0; i < algo_count; i++) {
        if (!algo_list[i].is_direct) continue;
        direct++;
        assert_true(has_local_counts(algo_list[i].collective));
        for_all_ranks(&algo_list[i], expect_bound, NULL);
    }
    assert_true(direct >= 3);
}

static void count_refusals(const struct algorithm *algorithm, const struct algo_params *params,
                           int rank, void *context)
{
    const enum tutti_status status = bind_with_own_counts(algorithm, params, rank);
    assert_true(status == TUTTI_OK || status == TUTTI_UNSUPPORTED);
    *(int *)context += status == TUTTI_UNSUPPORTED;
}

static void an_alltoall_that_is_not_direct_does_not_bind_with_them(void **state)
{
    (void)state;
    int seen = 0;
    for (int i = 0; i < algo_count; i++) {
        if (algo_list[i].collective != COLLECTIVE_ALLTOALL || algo_list[i].is_direct) continue;
        int refusals = 0;
        for_all_ranks(&algo_list[i], count_refusals, &refusals);
        assert_true(refusals > 0);
        seen++;
    }
    assert_true(seen > 0);
}

/* Whether a chunk that goes from one rank to another one belongs to the block that the first rank
 * has for the second. */
static bool is_between(const struct plan_shape *shape, uint32_t class, int from, int to)
{
    const int block = (int)(class / shape->parts), size = shape->rank_count;
    switch (shape->collective) {
    case COLLECTIVE_GATHER: return block == from && to == shape->root;
    case COLLECTIVE_SCATTER: return from == shape->root && block == to;
    default: return block / size == from && block % size == to;
    }
}

/* The place of a step's chunks in memory, which shows their classes. */
static bool find_place(const struct rank_plan *plan, const struct plan_step *step,
                       struct plan_location *place)
{
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &plan->sources[step->first_source + i];
        if (source->is_link) continue;
        *place = source->location;
        return true;
    }
    *place = step->destination;
    return step->has_destination;
}

static bool step_is_direct(const struct rank_plan *plan, const struct plan_step *step)
{
    if (step->target_group != PLAN_NO_GROUP) return false; /* a block has one destination */
    struct plan_location place;
    if (step->target_count > 0 && !find_place(plan, step, &place)) return false;
    for (uint32_t t = 0; t < step->target_count; t++)
        for (uint32_t c = 0; c < step->chunk_count; c++)
            if (!is_between(&plan->shape, plan_location_class(plan, place.buffer, place.first + c),
                            plan->rank, plan->targets[step->first_target + t]))
                return false;
    return true;
}

static void look_for_third_ranks(const struct algorithm *algorithm,
                                 const struct algo_params *params, int rank, void *context)
{
    struct rank_plan *plan = planned(algorithm, params, rank);
    for (uint32_t s = 0; s < plan->step_count; s++)
        if (!step_is_direct(plan, &plan->steps[s])) *(bool *)context = false;
    plan_rank_free(plan);
}

static void exactly_those_are_direct_whose_blocks_pass_through_nobody(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        if (!has_local_counts(algorithm->collective)) continue;
        bool is_direct = true;
        for_all_ranks(algorithm, look_for_third_ranks, &is_direct);
        if (is_direct != algorithm->is_direct)
            fail_msg("%s by %s is%s direct, and says that it is%s",
                     collective_name(algorithm->collective), algorithm->name,
                     is_direct ? "" : " not", algorithm->is_direct ? "" : " not");
    }
}

/* ------------------------------------------------------------------------------------ placement */

/* Steps of all ranks, for 2 to 17 ranks, with separate buffers and in place, with and without
 * multicast to all. */
struct placement_counts {
    const char *collective, *algorithm;
    int advertise, place;
};

static void count_placements(const struct algorithm *algorithm, int size, bool in_place,
                             bool to_all, struct placement_counts *counts)
{
    struct host_map map;
    int everybody[PLACING_RANKS_MAX];
    for (int r = 0; r < size; r++) everybody[r] = r;
    const struct transport_group all = {everybody, size};
    const struct algo_params params = {
        .collective = algorithm->collective,
        .rank_count = size,
        .root = collective_is_rooted(algorithm->collective) ? size / 2 : 0,
        .in_place = in_place,
        .levels = levels_for(algorithm, size, &map)};
    for (int rank = 0; rank < size; rank++) {
        const struct bind_options options = {.count = (size_t)size * 40000,
                                             .dtype = TUTTI_FLOAT64,
                                             .op = op_builtin(OP_SUM),
                                             .level = KERNEL_SCALAR,
                                             .in_place = in_place,
                                             .paths = &paths,
                                             .piece_bytes_max = 64 << 10,
                                             .piece_count_max = 4,
                                             .groups = &all,
                                             .group_count = to_all};
        struct rank_plan *plan = planned(algorithm, &params, rank);
        struct program *program;
        assert_int_equal(bind_program(plan, &options, &program), TUTTI_OK);
        for (uint32_t s = 0; s < program->step_count; s++) {
            counts->advertise += step_has(&program->steps[s], STEP_EXPECTS);
            counts->place += step_has(&program->steps[s], STEP_PLACES);
        }
        program_free(program);
        plan_rank_free(plan);
    }
}

/* Every plan is proven with its placement (plan/placement.h), so placement is safe. This test shows
 * that no placement gets lost. */
static void results_are_placed_by_these_algorithms(void **state)
{
    (void)state;
    static const struct placement_counts expected[] = {
        {"allreduce", "twoshot", 6528, 608},
        {"allreduce", "doubling", 144, 0},
        {"allreduce", "tree", 320, 64},
        {"allreduce", "leaders", 480, 0},
        {"allreduce", "halving_doubling", 144, 0},
        {"allreduce", "ring", 8, 8},
        {"allreduce", "chain", 128, 128},
        {"allreduce", "relay", 548, 8},
        {"allreduce", "circulant", 1402, 608},
        {"allreduce", "double_tree", 576, 128},
        {"allreduce", "torus", 16, 0},
        {"allreduce", "direct", 544, 64},
        {"allreduce", "hierarchical", 1624, 2344},
        {"allreduce", "hierarchical_ring", 1640, 256},
        {"allreduce", "hierarchical_direct", 1580, 2344},
        {"allreduce", "hierarchical_tree", 384, 0},
        {"reduce", "twoshot", 0, 544},
        {"reduce", "reduce_scatter_gather", 60, 116},
        {"reduce", "hierarchical", 160, 0},
        {"reduce_scatter", "halving", 72, 0},
        {"reduce_scatter", "hierarchical_tree", 190, 0},
    };
    size_t next = 0;
    for (int i = 0; i < algo_count; i++) {
        struct placement_counts found = {collective_name(algo_list[i].collective),
                                         algo_list[i].name, 0, 0};
        for (int size = 2; size <= PLACING_RANKS_MAX; size++)
            for (int variant = 0; algo_supports_levels(&algo_list[i], size) && variant < 4;
                 variant++)
                count_placements(&algo_list[i], size, variant % 2 == 1, variant / 2 == 1, &found);
        if (found.advertise == 0 && found.place == 0) continue;
        const struct placement_counts *wanted =
            next < sizeof expected / sizeof *expected
                ? &expected[next++]
                : &(struct placement_counts){"no", "algorithm", 0, 0};
        if (strcmp(found.collective, wanted->collective) != 0 ||
            strcmp(found.algorithm, wanted->algorithm) != 0 ||
            found.advertise != wanted->advertise || found.place != wanted->place)
            fail_msg("{\"%s\", \"%s\", %d, %d} and not {\"%s\", \"%s\", %d, %d}", found.collective,
                     found.algorithm, found.advertise, found.place, wanted->collective,
                     wanted->algorithm, wanted->advertise, wanted->place);
    }
    assert_int_equal(next, sizeof expected / sizeof *expected);
}

/* --------------------------------------------------------------------------------------- limits */

struct most {
    int channel;
    uint32_t lanes;
};

static void look_at(const struct algorithm *algorithm, int size, unsigned radix, int rank,
                    struct most *most)
{
    if (!algo_supports_levels(algorithm, size)) return;
    struct host_map map;
    const struct algo_params params = {
        .collective = algorithm->collective,
        .rank_count = size,
        .root = collective_is_rooted(algorithm->collective) ? (size - 1) / 2 : 0,
        .in_place = size % 2 == 0,
        .radix = radix,
        .levels = levels_for(algorithm, size, &map)};
    struct rank_plan *plan = planned(algorithm, &params, rank);
    if (plan->lane_count > most->lanes) most->lanes = plan->lane_count;
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const struct plan_step *step = &plan->steps[s];
        const bool sends = step->target_count > 0 || step->target_group != PLAN_NO_GROUP;
        if (sends && step->target_channel > most->channel) most->channel = step->target_channel;
    }
    for (uint32_t s = 0; s < plan->source_count; s++)
        if (plan->sources[s].is_link && plan->sources[s].channel > most->channel)
            most->channel = plan->sources[s].channel;
    plan_rank_free(plan);
}

static void no_algorithm_needs_more_channels_or_lanes_than_there_are(void **state)
{
    (void)state;
    static const unsigned radixes[] = {0, 2, 3, 5, 8, 16, ALGO_RADIX_MAX};
    struct most of_all = {0, 0};
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        const int variants = algorithm->has_radix ? sizeof radixes / sizeof *radixes : 1;
        struct most most = {0, 0};
        for (int size = 1; size <= 33; size++)
            for (int variant = 0; variant < variants; variant++)
                for (int rank = 0; rank < size; rank++)
                    look_at(algorithm, size, radixes[variant], rank, &most);
        for (int size = 64; size <= 1024; size *= 2) look_at(algorithm, size, 0, size / 3, &most);
        if (most.channel >= TRANSPORT_CHANNEL_COUNT || most.lanes > PLAN_LANES_MAX)
            fail_msg("%s by %s uses channel %d of %d, and %u lanes of %d",
                     collective_name(algorithm->collective), algorithm->name, most.channel,
                     TRANSPORT_CHANNEL_COUNT, most.lanes, PLAN_LANES_MAX);
        if (most.channel > of_all.channel) of_all.channel = most.channel;
        if (most.lanes > of_all.lanes) of_all.lanes = most.lanes;
    }
    print_message("at most %d channels and %u lanes\n", of_all.channel + 1, of_all.lanes);
    assert_true(of_all.channel > 0 && of_all.lanes > 1); /* some use several */
}

static int know_paths(void **state)
{
    (void)state;
    paths.tables[0] = transport_paths("local");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_algorithms_bind_with_counts_that_only_the_rank_knows),
        cmocka_unit_test(an_alltoall_that_is_not_direct_does_not_bind_with_them),
        cmocka_unit_test(exactly_those_are_direct_whose_blocks_pass_through_nobody),
        cmocka_unit_test(results_are_placed_by_these_algorithms),
        cmocka_unit_test(no_algorithm_needs_more_channels_or_lanes_than_there_are),
    };
    return cmocka_run_group_tests(tests, know_paths, NULL);
}
