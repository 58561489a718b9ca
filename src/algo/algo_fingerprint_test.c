/* The fingerprint covers everything on which ranks must agree, for few ranks and for many, and
 * nothing that is each rank's own matter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algo/algo_fingerprint.h"
#include "tests/worlds/host_map.h"

enum { FEW = 8, MANY = 64 };

static uint64_t fingerprint(const struct algorithm *algorithm, const struct algo_params *params)
{
    uint64_t found = 0;
    const char *message = "";
    if (algo_fingerprint(algorithm, params, &found, &message) != TUTTI_OK)
        fail_msg("%s %s of %d: %s", collective_name(algorithm->collective), algorithm->name,
                 params->rank_count, message);
    return found;
}

static struct algo_params usual(const struct algorithm *algorithm, int rank_count,
                                struct host_map *map)
{
    if (algorithm->needs_levels) host_map_init_mixed(map, rank_count);
    return (struct algo_params){.collective = algorithm->collective,
                                .rank_count = rank_count,
                                .levels = algorithm->needs_levels ? &map->levels : NULL};
}

typedef void check_one(const struct algorithm *algorithm, const struct algo_params *params);

static void for_all(check_one *check)
{
    static const int sizes[] = {1,   2, 3, FEW, ALGO_FINGERPRINT_RANKS, ALGO_FINGERPRINT_RANKS + 1,
                                MANY};
    static struct host_map map;
    for (int i = 0; i < algo_count; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            if (!algo_supports_levels(&algo_list[i], sizes[s])) continue;
            const struct algo_params params = usual(&algo_list[i], sizes[s], &map);
            check(&algo_list[i], &params);
        }
}

static void expect_same_in_place(const struct algorithm *algorithm, const struct algo_params *params)
{
    struct algo_params in_place = *params;
    in_place.in_place = true;
    assert_true(fingerprint(algorithm, params) == fingerprint(algorithm, &in_place));
}

static void being_in_place_does_not_show(void **state)
{
    (void)state;
    for_all(expect_same_in_place);
}

static void expect_other(const struct algorithm *algorithm, const struct algo_params *params,
                         struct algo_params other, const char *what)
{
    if (algo_supports_levels(algorithm, other.rank_count) &&
        fingerprint(algorithm, params) == fingerprint(algorithm, &other))
        fail_msg("%s %s of %d: another %s does not show", collective_name(algorithm->collective),
                 algorithm->name, params->rank_count, what);
}

static void expect_parameters_show(const struct algorithm *algorithm,
                                   const struct algo_params *params)
{
    static struct host_map map;
    int order[MANY];
    for (int i = 0; i < params->rank_count; i++) order[i] = params->rank_count - 1 - i;
    struct algo_params other = *params;
    if (params->rank_count == 1) return;
    other.order = order;
    expect_other(algorithm, params, other, "order");
    other = *params;
    other.root = 1;
    if (collective_is_rooted(algorithm->collective)) expect_other(algorithm, params, other, "root");
    other = *params;
    other.radix = 3;
    if (algorithm->has_radix) expect_other(algorithm, params, other, "radix");
    other =
        usual(algorithm,
              params->rank_count + (algorithm->needs_power_of_two ? params->rank_count : 1), &map);
    expect_other(algorithm, params, other, "number of ranks");
    if (params->levels == NULL || params->rank_count < FEW) return;
    host_map_init_mixed(&map, params->rank_count);
    other = *params;
    other.levels = &map.levels;
    map.levels.level_count--;
    expect_other(algorithm, params, other, "number of levels");
    map.levels.level_count++;
    for (int rank = 0; rank < params->rank_count; rank++)
        map.host_of[rank] = map.rack_of[rank] = rank;
    expect_other(algorithm, params, other, "map of hosts");
}

static void every_parameter_shows(void **state)
{
    (void)state;
    for_all(expect_parameters_show);
}

static void the_numbers_of_hosts_do_not_show(void **state)
{
    (void)state;
    static struct host_map map, other;
    for (int i = 0; i < algo_count; i++) {
        if (!algo_list[i].needs_levels) continue;
        for (int size = FEW; size <= MANY; size *= MANY / FEW) {
            struct algo_params params = usual(&algo_list[i], size, &map);
            const uint64_t known = fingerprint(&algo_list[i], &params);
            host_map_init_mixed(&other, size);
            for (int rank = 0; rank < size; rank++)
                other.host_of[rank] = 7000 - 3 * other.host_of[rank];
            params.levels = &other.levels;
            assert_true(fingerprint(&algo_list[i], &params) == known);
        }
    }
}

/* By the small plans that stand for large ones. For few ranks some algorithms are the same. */
static void algorithms_are_told_apart(void **state)
{
    (void)state;
    static struct host_map map, other_map;
    for (int i = 0; i < algo_count; i++)
        for (int k = 0; k < i; k++) {
            if (algo_list[k].collective != algo_list[i].collective) continue;
            const struct algo_params one = usual(&algo_list[i], MANY, &map),
                                     two = usual(&algo_list[k], MANY, &other_map);
            if (fingerprint(&algo_list[i], &one) == fingerprint(&algo_list[k], &two))
                fail_msg("%s: %s and %s", collective_name(one.collective), algo_list[i].name,
                         algo_list[k].name);
        }
}

/* ---------------------------------------------------------------------------- another generator */

static algo_generate *original;
static int changed_rank; /* of the rank whose first step is another one */

static void generate(const struct algo_params *params, int rank, struct plan_builder *builder)
{
    original(params, rank, builder);
    if (rank != changed_rank) return;
    plan_lane(builder);
    plan_copy(builder, PLAN_INPUT, 0, PLAN_OUTPUT, 0, 1);
}

static void one_more_step_of_one_rank_shows(void **state)
{
    (void)state;
    struct algorithm changed = *algo_find(COLLECTIVE_ALLREDUCE, "twoshot");
    original = changed.generate;
    for (int size = 2; size <= MANY; size++) {
        const struct algo_params params = {.collective = changed.collective, .rank_count = size};
        changed.generate = original;
        const uint64_t known = fingerprint(&changed, &params);
        changed.generate = generate;
        for (changed_rank = 0; changed_rank < size && changed_rank < FEW; changed_rank++)
            assert_true(fingerprint(&changed, &params) != known);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(being_in_place_does_not_show),
        cmocka_unit_test(every_parameter_shows),
        cmocka_unit_test(the_numbers_of_hosts_do_not_show),
        cmocka_unit_test(algorithms_are_told_apart),
        cmocka_unit_test(one_more_step_of_one_rank_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
