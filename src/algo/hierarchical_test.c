/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* The hierarchical algorithms over hosts, racks and rooms of many shapes, ranks in any order, every
 * root: proven, with the bytes and messages across hosts that their files promise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "algo/levels.h"
#include "plan/verify.h"
#include "tests/worlds/host_map.h"

/* -------------------------------------------------------------------------------------- helpers */

static struct plan *make(const struct algorithm *algorithm, const struct host_map *map, int root,
                         bool in_place, const char *what)
{
    const struct algo_params params = {.collective = algorithm->collective,
                                       .rank_count = map->rank_count,
                                       .root = root,
                                       .in_place = in_place,
                                       .levels = &map->levels};
    struct plan *plan;
    const char *message;
    if (algo_plan(algorithm, &params, &plan, &message) != TUTTI_OK)
        fail_msg("%s %s, %s, root %d: %s", collective_name(algorithm->collective), algorithm->name,
                 what, root, message);
    return plan;
}

static struct plan *make_named(enum collective collective, const char *name,
                               const struct host_shape *shape, enum numbering numbering)
{
    struct host_map map;
    const struct algorithm *algorithm = algo_find(collective, name);
    assert_non_null(algorithm);
    host_map_init(&map, shape, numbering, 5);
    return make(algorithm, &map, 0, false, host_map_text(shape, numbering));
}

/* The result of proving an algorithm's plans. */
struct evidence {
    bool rank_ordered, one_tree;
};

static void prove(const struct algorithm *algorithm, const struct host_map *map, int root,
                  const char *what, struct evidence *evidence)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        struct plan *plan = make(algorithm, map, root, in_place, what);
        const struct verify_options options = {
            .in_place = in_place, .associative_tree_uniform = algorithm->deterministic};
        struct verify_report report;
        if (plan_verify(plan, &options, &report) != VERIFY_PROVEN)
            fail_msg("%s %s, %s, root %d%s: %s", collective_name(algorithm->collective),
                     algorithm->name, what, root, in_place ? ", in place" : "", report.message);
        evidence->rank_ordered &= report.rank_ordered;
        if (collective_reduces(algorithm->collective) && !algorithm->deterministic &&
            evidence->one_tree) {
            const struct verify_options uniform = {.in_place = in_place,
                                                   .associative_tree_uniform = true};
            evidence->one_tree = plan_verify(plan, &uniform, &report) == VERIFY_PROVEN;
        }
        plan_free(plan);
    }
}

static void prove_all_roots(const struct algorithm *algorithm, const struct host_shape *shape,
                            enum numbering numbering, uint32_t seed, struct evidence *evidence)
{
    struct host_map map;
    host_map_init(&map, shape, numbering, seed);
    const int roots = collective_is_rooted(algorithm->collective) ? map.rank_count : 1;
    for (int root = 0; root < roots; root++)
        prove(algorithm, &map, root, host_map_text(shape, numbering), evidence);
}

/* --------------------------------------------------------------------------------------- proofs */

static const struct host_shape shapes[] = {
    {.hosts = {1, 2}},
    {.hosts = {2, 1}},
    {.hosts = {1, 1, 2}},
    {.hosts = {2, 1, 5}},
    {.hosts = {3, 2, 1}},
    {.hosts = {4, 3}},
    {.hosts = {1, 4, 2, 3}},
    {.hosts = {1, 1, 1, 6}},
    {.hosts = {5, 3, 3}},
    {.hosts = {1, 1}, .racks = {1, 1}},
    {.hosts = {1, 1, 1, 1}, .racks = {2, 2}},
    {.hosts = {1, 1, 1, 1, 1, 1, 1, 1}, .racks = {4, 4}},
    {.hosts = {1, 1, 1, 1, 1, 1, 1}, .racks = {3, 4}},
    {.hosts = {2, 2, 2, 2}, .racks = {2, 2}},
    {.hosts = {2, 2}, .racks = {2}},
    {.hosts = {2, 2, 2}, .racks = {1, 2}},
    {.hosts = {1, 2, 2, 1}, .racks = {1, 3}},
    {.hosts = {2, 1, 1, 3, 2}, .racks = {3, 2}},
    {.hosts = {1, 3, 2, 1, 1}, .racks = {2, 1, 2}},
    {.hosts = {2, 2, 2, 2, 2, 2}, .racks = {3, 3}},
    {.hosts = {3, 3, 3, 3}, .racks = {2, 2}},
    {.hosts = {1, 1, 2, 1, 1, 1, 1, 2}, .racks = {2, 2, 2, 2}, .rooms = {2, 2}},
    {.hosts = {2, 1, 2, 1, 3}, .racks = {2, 1, 2}, .rooms = {1, 2}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void every_algorithm_is_proven(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        struct evidence evidence = {true, true};
        if (!algorithm->needs_levels) continue;
        for (int hosts = 1; hosts <= 4; hosts++)
            for (int locals = 1; locals <= 4; locals++)
                for (int n = 0; n < NUMBERING_COUNT; n++) {
                    struct host_shape shape = {.hosts = {0}};
                    for (int h = 0; h < hosts; h++) shape.hosts[h] = locals;
                    prove_all_roots(algorithm, &shape, (enum numbering)n, (uint32_t)locals,
                                    &evidence);
                }
        for (int s = 0; s < SHAPES; s++)
            for (int n = 0; n < NUMBERING_COUNT; n++)
                prove_all_roots(algorithm, &shapes[s], (enum numbering)n, (uint32_t)s, &evidence);
        /* Nothing is demanded that is not needed, and nothing promised that could not be. */
        if (algorithm->needs_commutative) assert_false(evidence.rank_ordered);
        if (collective_reduces(algorithm->collective) && !algorithm->needs_commutative)
            assert_true(evidence.rank_ordered);
        if (collective_reduces(algorithm->collective) && !algorithm->deterministic)
            assert_false(evidence.one_tree);
    }
}

static void ranks_may_differ_in_being_in_place(void **state)
{
    (void)state;
    static const struct host_shape shape = {.hosts = {2, 1, 3, 2}, .racks = {3, 1}};
    struct host_map map;
    host_map_init(&map, &shape, SHUFFLED, 3);
    bool in_place[HOST_MAP_RANKS_MAX];
    for (int rank = 0; rank < map.rank_count; rank++) in_place[rank] = rank % 2 == 1;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        if (!algorithm->needs_levels) continue;
        struct plan *mixed = make(algorithm, &map, 0, false, "mixed");
        struct verify_report report;
        for (int rank = 1; rank < map.rank_count; rank += 2) {
            const struct algo_params params = {.collective = algorithm->collective,
                                               .rank_count = map.rank_count,
                                               .in_place = true,
                                               .levels = &map.levels};
            const char *message;
            plan_rank_free(mixed->ranks[rank]);
            assert_int_equal(
                algo_rank_plan(algorithm, &params, rank, &mixed->ranks[rank], &message), TUTTI_OK);
        }
        if (plan_verify(mixed, &(struct verify_options){.ranks_in_place = in_place}, &report) !=
            VERIFY_PROVEN)
            fail_msg("%s %s: %s", collective_name(algorithm->collective), algorithm->name,
                     report.message);
        plan_free(mixed);
    }
}

static void every_algorithm_is_proven_for_up_to_33_ranks(void **state)
{
    (void)state;
    struct evidence evidence = {true, true};
    for (int i = 0; i < algo_count; i++)
        for (int ranks = 1; ranks <= 33; ranks += ranks < 27 ? 5 : 1) {
            struct host_map map;
            host_map_init_mixed(&map, ranks);
            const int root = collective_is_rooted(algo_list[i].collective) ? ranks * 2 / 3 : 0;
            if (algo_list[i].needs_levels)
                prove(&algo_list[i], &map, root, "mixed hosts and racks", &evidence);
        }
}

/* A rank's plan is linear in the ranks: even the most ranks get one. */
static void one_rank_of_very_many_is_planned(void **state)
{
    (void)state;
    enum { RANKS = 8192, LOCALS = 8 };
    int *host_of = malloc(sizeof *host_of * RANKS);
    assert_non_null(host_of);
    for (int r = 0; r < RANKS; r++) host_of[r] = r / LOCALS;
    const struct algo_levels levels = {.level_count = 1, .group_of = {host_of}};
    for (int i = 0; i < algo_count; i++) {
        if (!algo_list[i].needs_levels) continue;
        const struct algo_params params = {
            .collective = algo_list[i].collective, .rank_count = RANKS, .levels = &levels};
        struct rank_plan *plan;
        const char *message;
        if (algo_rank_plan(&algo_list[i], &params, RANKS / 3, &plan, &message) != TUTTI_OK)
            fail_msg("%s: %s", algo_list[i].name, message);
        assert_in_range(plan->lane_count, 1, 6);
        assert_true(plan->step_count <= 8 * RANKS);
        plan_rank_free(plan);
    }
    free(host_of);
}

/* -------------------------------------------------------------------------------------- traffic */

struct traffic {
    int rank_count;
    uint32_t parts;
    /* [from][to] */
    uint32_t messages[HOST_MAP_UNITS_MAX][HOST_MAP_UNITS_MAX],
        chunks[HOST_MAP_UNITS_MAX][HOST_MAP_UNITS_MAX];
};

static void count_step(struct traffic *traffic, const struct rank_plan *plan,
                       const struct plan_step *step)
{
    for (uint32_t t = 0; t < step->target_count; t++) {
        const int to = plan->targets[step->first_target + t];
        traffic->messages[plan->rank][to]++;
        traffic->chunks[plan->rank][to] += step->chunk_count;
    }
    if (step->target_group == PLAN_NO_GROUP) return;
    const struct plan_group *group = &plan->groups[step->target_group];
    for (uint32_t m = 0; m < group->member_count; m++) {
        const int to = plan->members[group->first_member + m];
        traffic->messages[plan->rank][to] += to != plan->rank;
        traffic->chunks[plan->rank][to] += to != plan->rank ? step->chunk_count : 0;
    }
}

static void count_traffic(const struct plan *plan, struct traffic *traffic)
{
    memset(traffic, 0, sizeof *traffic);
    traffic->rank_count = plan->shape.rank_count;
    traffic->parts = plan->shape.parts;
    assert_true(traffic->rank_count <= HOST_MAP_UNITS_MAX);
    for (int r = 0; r < plan->shape.rank_count; r++)
        for (uint32_t i = 0; i < plan->ranks[r]->step_count; i++)
            count_step(traffic, plan->ranks[r], &plan->ranks[r]->steps[i]);
}

static void count_named(enum collective collective, const char *name, const struct host_map *map,
                        int root, struct traffic *traffic)
{
    const struct algorithm *algorithm = algo_find(collective, name);
    assert_non_null(algorithm);
    struct plan *plan = make(algorithm, map, root, false, name);
    count_traffic(plan, traffic);
    plan_free(plan);
}

/* Chunks that a rank sends to other hosts. */
static uint32_t sent_across(const struct traffic *traffic, const struct host_map *map, int rank)
{
    uint32_t count = 0;
    for (int to = 0; to < traffic->rank_count; to++)
        if (map->host_of[to] != map->host_of[rank]) count += traffic->chunks[rank][to];
    return count;
}

static uint32_t received_across(const struct traffic *traffic, const struct host_map *map, int rank)
{
    uint32_t count = 0;
    for (int from = 0; from < traffic->rank_count; from++)
        if (map->host_of[from] != map->host_of[rank]) count += traffic->chunks[from][rank];
    return count;
}

static uint32_t messages_across(const struct traffic *traffic, const struct host_map *map, int rank)
{
    uint32_t count = 0;
    for (int to = 0; to < traffic->rank_count; to++)
        if (map->host_of[to] != map->host_of[rank]) count += traffic->messages[rank][to];
    return count;
}

static void even_hosts(struct host_map *map, int hosts, int locals, int racks, int numbering)
{
    struct host_shape shape = {.hosts = {0}};
    for (int h = 0; h < hosts; h++) shape.hosts[h] = locals;
    for (int r = 0; r < racks; r++) shape.racks[r] = hosts / racks;
    host_map_init(map, &shape, (enum numbering)numbering, 9);
}

static const char *const rail_allreduces[] = {"hierarchical", "hierarchical_ring"};

/* 2 (N-1)/N n/L, the published number; of racks as well. */
static void allreduce_sends_the_least_bytes_through_every_card(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= 6; hosts++)
        for (int locals = 1; locals <= 5; locals++)
            for (int racks = 0; racks <= hosts; racks++)
                for (int way = 0; way < 2 * NUMBERING_COUNT; way++) {
                    struct host_map map;
                    struct traffic traffic;
                    if (racks > 0 && hosts % racks != 0) continue;
                    even_hosts(&map, hosts, locals, racks, way / 2);
                    count_named(COLLECTIVE_ALLREDUCE, rail_allreduces[way % 2], &map, 0, &traffic);
                    for (int r = 0; r < map.rank_count; r++) {
                        assert_int_equal(sent_across(&traffic, &map, r) * (uint32_t)(hosts * locals),
                                         2 * (uint32_t)(hosts - 1) * traffic.parts);
                        assert_int_equal(received_across(&traffic, &map, r),
                                         sent_across(&traffic, &map, r));
                    }
                }
}

static void uneven_hosts_burden_no_card_more_than_the_smallest_one_does(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++) {
        struct host_map map;
        struct traffic traffic;
        uint32_t hosts = 0;
        int least = shapes[s].hosts[0];
        if (shapes[s].racks[0] > 0) continue;
        for (; shapes[s].hosts[hosts] > 0; hosts++)
            if (shapes[s].hosts[hosts] < least) least = shapes[s].hosts[hosts];
        host_map_init(&map, &shapes[s], INTERLEAVED, 0);
        for (int way = 0; way < 2; way++) {
            uint32_t most = 0, all = 0;
            count_named(COLLECTIVE_ALLREDUCE, rail_allreduces[way], &map, 0, &traffic);
            for (int r = 0; r < map.rank_count; r++) {
                const uint32_t sent = sent_across(&traffic, &map, r);
                if (sent > most) most = sent;
                all += sent;
            }
            assert_int_equal(most * hosts * (uint32_t)least, 2 * (hosts - 1) * traffic.parts);
            assert_int_equal(all, 2 * (hosts - 1) * traffic.parts); /* of every host the least */
        }
    }
}

static void only_leaders_send_across_in_trees(void **state)
{
    (void)state;
    static const enum collective collectives[] = {COLLECTIVE_ALLREDUCE, COLLECTIVE_BROADCAST,
                                                  COLLECTIVE_REDUCE, COLLECTIVE_ALLGATHER,
                                                  COLLECTIVE_REDUCE_SCATTER};
    for (size_t c = 0; c < sizeof collectives / sizeof *collectives; c++)
        for (int n = 0; n < NUMBERING_COUNT; n++) {
            struct host_map map;
            struct traffic traffic;
            int senders = 0;
            even_hosts(&map, 4, 3, 2, n);
            count_named(collectives[c], "hierarchical_tree", &map, 0, &traffic);
            for (int r = 0; r < map.rank_count; r++) senders += sent_across(&traffic, &map, r) > 0;
            assert_in_range(senders, 1, 4);
        }
}

/* Each block goes to each other host once, or comes as one sum from there. */
static void blocks_cross_to_each_host_once(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= 5; hosts++)
        for (int locals = 1; locals <= 4; locals++)
            for (int n = 0; n < NUMBERING_COUNT; n++) {
                struct host_map map;
                struct traffic traffic;
                even_hosts(&map, hosts, locals, 0, n);
                count_named(COLLECTIVE_ALLGATHER, "hierarchical", &map, 0, &traffic);
                for (int r = 0; r < map.rank_count; r++)
                    assert_int_equal(sent_across(&traffic, &map, r),
                                     (uint32_t)(hosts - 1) * traffic.parts);
                count_named(COLLECTIVE_REDUCE_SCATTER, "hierarchical", &map, 0, &traffic);
                for (int r = 0; r < map.rank_count; r++)
                    assert_int_equal(sent_across(&traffic, &map, r),
                                     (uint32_t)(hosts - 1) * traffic.parts);
            }
}

/* A broadcast comes to every host once, a share through each card; a reduce leaves it so. */
static void vectors_cross_once_and_through_all_cards(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= 4; hosts++)
        for (int locals = 1; locals <= 4; locals++)
            for (int root = 0; root < hosts * locals; root++) {
                struct host_map map;
                struct traffic traffic;
                even_hosts(&map, hosts, locals, 0, root % NUMBERING_COUNT);
                count_named(COLLECTIVE_BROADCAST, "hierarchical", &map, root, &traffic);
                for (int r = 0; r < map.rank_count; r++)
                    assert_int_equal(received_across(&traffic, &map, r) * (uint32_t)locals,
                                     map.host_of[r] == map.host_of[root] ? 0 : traffic.parts);
                count_named(COLLECTIVE_REDUCE, "hierarchical", &map, root, &traffic);
                for (int r = 0; r < map.rank_count; r++)
                    assert_int_equal(sent_across(&traffic, &map, r) * (uint32_t)locals,
                                     map.host_of[r] == map.host_of[root] ? 0 : traffic.parts);
            }
}

static void gather_and_scatter_send_one_message_a_host(void **state)
{
    (void)state;
    static const enum collective collectives[] = {COLLECTIVE_GATHER, COLLECTIVE_SCATTER};
    for (int c = 0; c < 2; c++)
        for (int s = 0; s < SHAPES; s++)
            for (int n = 0; n < NUMBERING_COUNT; n++) {
                struct host_map map;
                struct traffic traffic;
                uint32_t hosts = 0, messages = 0;
                while (shapes[s].hosts[hosts] > 0) hosts++;
                host_map_init(&map, &shapes[s], (enum numbering)n, 4);
                count_named(collectives[c], "hierarchical", &map, 0, &traffic);
                for (int r = 0; r < map.rank_count; r++)
                    messages += messages_across(&traffic, &map, r);
                /* A subtree that wraps around needs two messages for its blocks; with root 0 none
                 * does. */
                assert_int_equal(messages, hosts - 1);
            }
}

/* To every rank one message from every other host, with what all of that host have for it. */
static void alltoall_sends_one_message_a_rail_and_pair_of_hosts(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++)
        for (int n = 0; n < NUMBERING_COUNT; n++) {
            struct host_map map;
            struct traffic traffic;
            host_map_init(&map, &shapes[s], (enum numbering)n, 6);
            /* Hosts of one rank say nothing: there the racks are heeded. */
            if (shapes[s].hosts[0] + shapes[s].hosts[1] == 2 && shapes[s].racks[0] > 0) continue;
            count_named(COLLECTIVE_ALLTOALL, "hierarchical", &map, 0, &traffic);
            for (int to = 0; to < map.rank_count; to++)
                for (int of = 0; of < map.rank_count; of++) {
                    uint32_t messages = 0, chunks = 0, size = 0;
                    for (int from = 0; from < map.rank_count; from++) {
                        if (map.host_of[from] != map.host_of[of]) continue;
                        messages += traffic.messages[from][to];
                        chunks += traffic.chunks[from][to];
                        size++;
                    }
                    if (map.host_of[to] == map.host_of[of]) continue;
                    assert_int_equal(messages, 1);
                    assert_int_equal(chunks, size);
                }
        }
}

static void alltoall_spreads_its_messages_over_all_ranks(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= 5; hosts++)
        for (int locals = 1; locals <= 5; locals++) {
            struct host_map map;
            struct traffic traffic;
            even_hosts(&map, hosts, locals, 0, INTERLEAVED);
            count_named(COLLECTIVE_ALLTOALL, "hierarchical", &map, 0, &traffic);
            for (int r = 0; r < map.rank_count; r++) {
                assert_int_equal(messages_across(&traffic, &map, r), hosts - 1);
                assert_int_equal(sent_across(&traffic, &map, r), (hosts - 1) * locals);
            }
        }
}

static void barrier_sends_logarithmically_many_messages_across(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= 9; hosts++) {
        struct host_map map;
        struct traffic traffic;
        uint32_t messages = 0, rounds = 0;
        while (1 << rounds < hosts) rounds++;
        even_hosts(&map, hosts, 3, 0, SHUFFLED);
        count_named(COLLECTIVE_BARRIER, "hierarchical", &map, 0, &traffic);
        for (int r = 0; r < map.rank_count; r++) messages += messages_across(&traffic, &map, r);
        assert_int_equal(messages, (uint32_t)hosts * rounds);
    }
}

/* ------------------------------------------------------------------------------------ structure */

/* The rank that is where another one would be, were ranks numbered host by host. */
static void map_ranks(const struct host_map *map, int *rank_at)
{
    struct hierarchy hierarchy;
    assert_int_equal(hierarchy_init(&hierarchy, &map->levels, NULL, map->rank_count), TUTTI_OK);
    memcpy(rank_at, hierarchy.order, sizeof *rank_at * (size_t)map->rank_count);
    hierarchy_release(&hierarchy);
}

static void interleaved_ranks_send_what_contiguous_ones_do(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        if (!algorithm->needs_levels) continue;
        for (int hosts = 2; hosts <= 4; hosts++)
            for (int locals = 1; locals <= 4; locals++) {
                struct host_map here, there;
                struct traffic contiguous, interleaved;
                int rank_at[HOST_MAP_RANKS_MAX];
                even_hosts(&here, hosts, locals, hosts % 2 == 0 ? 2 : 0, CONTIGUOUS);
                even_hosts(&there, hosts, locals, hosts % 2 == 0 ? 2 : 0, INTERLEAVED);
                map_ranks(&there, rank_at);
                const int root =
                    collective_is_rooted(algorithm->collective) ? hosts * locals * 2 / 3 : 0;
                count_named(algorithm->collective, algorithm->name, &here, root, &contiguous);
                count_named(algorithm->collective, algorithm->name, &there, rank_at[root],
                            &interleaved);
                for (int a = 0; a < here.rank_count; a++)
                    for (int b = 0; b < here.rank_count; b++) {
                        assert_int_equal(contiguous.messages[a][b],
                                         interleaved.messages[rank_at[a]][rank_at[b]]);
                        assert_int_equal(contiguous.chunks[a][b],
                                         interleaved.chunks[rank_at[a]][rank_at[b]]);
                    }
            }
    }
}

/* Each slice takes its way through all levels in lanes of its own: nothing waits for the other
 * one. */
static void slices_do_not_wait_for_each_other(void **state)
{
    (void)state;
    static const struct host_shape shape = {.hosts = {3, 3, 2, 2}, .racks = {2, 2}};
    for (int i = 0; i < algo_count; i++) {
        if (strcmp(algo_list[i].name, "hierarchical") != 0) continue;
        struct plan *plan = make_named(algo_list[i].collective, "hierarchical", &shape, INTERLEAVED);
        const struct rank_plan *rank = plan->ranks[1];
        if (rank->shape.parts > 1) {
            assert_in_range(rank->lane_count, 2, 4);
            assert_int_equal(rank->lane_count % 2, 0);
            for (uint32_t s = 0; s < rank->step_count; s++)
                for (uint32_t a = 0; a < rank->steps[s].after_count; a++) {
                    const uint32_t before =
                        rank->steps[rank->afters[rank->steps[s].first_after + a]].lane;
                    assert_int_equal(before / (rank->lane_count / 2),
                                     rank->steps[s].lane / (rank->lane_count / 2));
                }
        }
        plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_is_proven),
        cmocka_unit_test(every_algorithm_is_proven_for_up_to_33_ranks),
        cmocka_unit_test(ranks_may_differ_in_being_in_place),
        cmocka_unit_test(one_rank_of_very_many_is_planned),
        cmocka_unit_test(allreduce_sends_the_least_bytes_through_every_card),
        cmocka_unit_test(uneven_hosts_burden_no_card_more_than_the_smallest_one_does),
        cmocka_unit_test(only_leaders_send_across_in_trees),
        cmocka_unit_test(blocks_cross_to_each_host_once),
        cmocka_unit_test(vectors_cross_once_and_through_all_cards),
        cmocka_unit_test(gather_and_scatter_send_one_message_a_host),
        cmocka_unit_test(alltoall_sends_one_message_a_rail_and_pair_of_hosts),
        cmocka_unit_test(alltoall_spreads_its_messages_over_all_ranks),
        cmocka_unit_test(barrier_sends_logarithmically_many_messages_across),
        cmocka_unit_test(interleaved_ranks_send_what_contiguous_ones_do),
        cmocka_unit_test(slices_do_not_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
