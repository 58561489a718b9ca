#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "algo/levels.h"
#include "tests/worlds/host_map.h"

static struct hierarchy make(const struct host_map *map)
{
    struct hierarchy hierarchy;
    assert_int_equal(hierarchy_init(&hierarchy, &map->levels, NULL, map->rank_count), TUTTI_OK);
    return hierarchy;
}

/* ------------------------------------------------------------------------------------ the check */

static void expect_refused(const struct algo_levels *levels, int rank_count, const char *why)
{
    const struct algorithm *algorithm = algo_find(COLLECTIVE_ALLREDUCE, "hierarchical");
    const struct algo_params params = {
        .collective = COLLECTIVE_ALLREDUCE, .rank_count = rank_count, .levels = levels};
    struct rank_plan *rank_plan;
    struct plan *plan;
    const char *message = "";
    assert_int_equal(algo_check_levels(levels, rank_count, &message), TUTTI_INVALID_RANK);
    assert_non_null(strstr(message, why));
    assert_int_equal(algo_rank_plan(algorithm, &params, 0, &rank_plan, &message),
                     TUTTI_INVALID_RANK);
    assert_null(rank_plan);
    assert_int_equal(algo_plan(algorithm, &params, &plan, &message), TUTTI_INVALID_RANK);
    assert_null(plan);
}

static void levels_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const int hosts[] = {7, 7, 3, 3}, racks[] = {1, 1, 1, 2}, torn[] = {1, 2, 2, 2};
    const char *message;
    const struct algo_levels right = {1, {hosts}}, both = {2, {racks, racks}};
    assert_int_equal(algo_check_levels(&right, 4, &message), TUTTI_OK);
    assert_int_equal(algo_check_levels(&both, 4, &message), TUTTI_OK);
    expect_refused(&(struct algo_levels){0, {NULL}}, 4, "fewer levels");
    expect_refused(&(struct algo_levels){-1, {hosts}}, 4, "fewer levels");
    expect_refused(&(struct algo_levels){ALGO_LEVELS_MAX + 1, {hosts, hosts, hosts, hosts}}, 4,
                   "more");
    expect_refused(&(struct algo_levels){2, {hosts, NULL}}, 4, "which group");
    expect_refused(&(struct algo_levels){2, {hosts, racks}}, 4, "torn apart");
    expect_refused(&(struct algo_levels){2, {hosts, torn}}, 4, "torn apart");
    expect_refused(&(struct algo_levels){3, {hosts, hosts, torn}}, 4, "torn apart");
}

static void what_needs_levels_is_not_done_without(void **state)
{
    (void)state;
    int needing = 0;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        const struct algo_params params = {.collective = algorithm->collective, .rank_count = 4};
        struct rank_plan *plan;
        const char *message = "";
        if (!algorithm->needs_levels) continue;
        needing++;
        assert_false(algo_supports(algorithm, 4));
        assert_true(algo_supports_levels(algorithm, 4));
        assert_false(algo_supports_levels(algorithm, 0));
        assert_int_equal(algo_rank_plan(algorithm, &params, 0, &plan, &message),
                         TUTTI_INVALID_ALGORITHM);
        assert_null(plan);
        assert_non_null(strstr(message, "host"));
    }
    assert_true(needing >= COLLECTIVE_COUNT);
}

/* -------------------------------------------------------------------------------- the hierarchy */

/* Every unit is a run of positions, and units of a level are those of the level below put
 * together. */
static void expect_nested_runs(const struct hierarchy *h)
{
    for (int k = 0; k <= h->top + 1; k++) {
        assert_int_equal(h->units[k][0], 0);
        assert_int_equal(h->units[k][h->unit_count[k]], h->rank_count);
        for (int u = 0; u < h->unit_count[k]; u++)
            for (int i = h->units[k][u]; i < h->units[k][u + 1]; i++)
                assert_int_equal(h->unit_of[k][i], u);
        if (k == 0) continue;
        int unit = 0;
        for (int team = 0; team < h->unit_count[k]; team++) {
            const struct level_members members = hierarchy_members(h, k - 1, team);
            assert_int_equal(members.first, unit);
            assert_int_equal(h->units[k][team], h->units[k - 1][unit]);
            unit += members.count;
        }
        assert_int_equal(unit, h->unit_count[k - 1]);
    }
    assert_int_equal(h->unit_count[h->top + 1], 1);
    for (int i = 0; i < h->rank_count; i++) assert_int_equal(h->position[h->order[i]], i);
}

static void positions_put_together_what_is_near(void **state)
{
    (void)state;
    static const struct host_shape shape = {.hosts = {2, 1, 3, 1, 2}, .racks = {2, 3}};
    for (int n = 0; n < NUMBERING_COUNT; n++)
        for (uint32_t seed = 0; seed < 10; seed++) {
            struct host_map map;
            host_map_init(&map, &shape, (enum numbering)n, seed);
            struct hierarchy h = make(&map);
            expect_nested_runs(&h);
            assert_int_equal(h.top, 2);
            assert_int_equal(h.unit_count[1], 5);
            assert_int_equal(h.unit_count[2], 2);
            for (int i = 0; i < h.rank_count; i++)
                for (int j = 0; j < h.rank_count; j++) {
                    const int a = h.order[i], b = h.order[j];
                    assert_int_equal(h.unit_of[1][i] == h.unit_of[1][j],
                                     map.host_of[a] == map.host_of[b]);
                    assert_int_equal(h.unit_of[2][i] == h.unit_of[2][j],
                                     map.rack_of[a] == map.rack_of[b]);
                }
            for (int k = 0; k <= h.top; k++) /* in the order of smallest ranks */
                for (int team = 0; team < h.unit_count[k + 1]; team++) {
                    const struct level_members members = hierarchy_members(&h, k, team);
                    for (int u = members.first + 1; k == 1 && u < members.first + members.count; u++)
                        assert_true(h.order[h.units[1][u - 1]] < h.order[h.units[1][u]]);
                }
            hierarchy_release(&h);
        }
}

static void levels_that_say_nothing_are_left_out(void **state)
{
    (void)state;
    static const struct {
        struct host_shape shape;
        int top;
        bool has_hosts;
    } cases[] = {
        {{.hosts = {1, 1, 1}}, 0, false},
        {{.hosts = {3}}, 0, false},
        {{.hosts = {1}}, 0, false},
        {{.hosts = {2, 1}}, 1, true},
        {{.hosts = {2, 2}, .racks = {2}}, 1, true},
        {{.hosts = {2, 2}, .racks = {1, 1}}, 1, true},
        {{.hosts = {1, 1, 1}, .racks = {2, 1}}, 1, false},
        {{.hosts = {1, 2, 1, 1}, .racks = {2, 2}, .rooms = {1, 1}}, 2, true},
        {{.hosts = {1, 2, 1, 1}, .racks = {2, 1, 1}, .rooms = {1, 2}}, 3, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct host_map map;
        host_map_init(&map, &cases[i].shape, CONTIGUOUS, 0);
        struct hierarchy h = make(&map);
        expect_nested_runs(&h);
        assert_int_equal(h.top, cases[i].top);
        assert_int_equal(h.has_hosts, cases[i].has_hosts);
        hierarchy_release(&h);
    }
    struct hierarchy h;
    assert_int_equal(hierarchy_init(&h, NULL, NULL, 5), TUTTI_OK);
    assert_int_equal(h.top, 0);
    hierarchy_release(&h);
}

static void everybody_owns_a_shard_and_no_more_than_in_the_smallest_team(void **state)
{
    (void)state;
    for (int least = 1; least <= 9; least++)
        for (int most = least > 1 ? least : 2; most <= 20; most++) {
            const struct host_shape shape = {.hosts = {most, least, (most + least) / 2}};
            struct host_map map;
            host_map_init(&map, &shape, INTERLEAVED, 0);
            struct hierarchy h = make(&map);
            const int shards = h.shard_count[0];
            assert_true(shards % least == 0 && shards >= most && shards < most + least);
            for (int count = least; count <= most; count++) {
                assert_int_equal(shard_first(shards, count, 0), 0);
                assert_int_equal(shard_first(shards, count, count), shards);
                for (int m = 0; m < count; m++) {
                    const int first = shard_first(shards, count, m),
                              end = shard_first(shards, count, m + 1);
                    assert_in_range(end - first, 1, shards / least);
                    for (int s = first; s < end; s++)
                        assert_int_equal(shard_owner(shards, count, s), m);
                }
            }
            for (int i = 0; i < h.rank_count; i++) {
                const int team = hierarchy_subgroup(&h, 0, i);
                const int members = hierarchy_members(&h, 0, team).count;
                assert_int_equal(shard_owner(shards, members, hierarchy_block_shard(&h, 0, i)),
                                 hierarchy_member(&h, 0, i));
            }
            hierarchy_release(&h);
        }
}

static void the_root_leads_its_units_and_first_ranks_the_others(void **state)
{
    (void)state;
    static const struct host_shape shape = {.hosts = {2, 3, 1}};
    struct host_map map;
    host_map_init(&map, &shape, CONTIGUOUS, 0);
    struct hierarchy h = make(&map);
    assert_int_equal(hierarchy_leader(&h, 1, 0, 3), 0);
    assert_int_equal(hierarchy_leader(&h, 1, 1, 3), 3);
    assert_int_equal(hierarchy_leader(&h, 1, 2, 3), 5);
    assert_int_equal(hierarchy_leader(&h, 2, 0, 3), 3);
    hierarchy_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_that_make_no_sense_are_refused),
        cmocka_unit_test(what_needs_levels_is_not_done_without),
        cmocka_unit_test(positions_put_together_what_is_near),
        cmocka_unit_test(levels_that_say_nothing_are_left_out),
        cmocka_unit_test(everybody_owns_a_shard_and_no_more_than_in_the_smallest_team),
        cmocka_unit_test(the_root_leads_its_units_and_first_ranks_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
