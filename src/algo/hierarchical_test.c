/* The hierarchical algorithms over hosts, racks and rooms of many shapes, ranks in any order, every root: proven, with
 * the bytes and messages across hosts that their files promise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "algo/levels.h"
#include "host_map.h"
#include "plan/verify.h"

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

/* What proofs showed of an algorithm. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_is_proven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
