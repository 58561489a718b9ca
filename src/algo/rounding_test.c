/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* Replicas on encoded links: the plans of which the list says so are proven, on 2 to 17 ranks and
 * over hosts and racks, and the others are refused; two wrong rules of rounding are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "plan/verify.h"
#include "tests/worlds/host_map.h"

enum { RANKS_MAX = 17 };

/* radix: 0 where the algorithm has none. */
static struct plan *make(const struct algorithm *algorithm, int size, bool in_place, unsigned radix,
                         const struct algo_levels *levels)
{
    const struct algo_params params = {.collective = algorithm->collective,
                                       .rank_count = size,
                                       .in_place = in_place,
                                       .radix = radix,
                                       .levels = levels};
    struct plan *plan;
    const char *message = "";
    if (algo_plan(algorithm, &params, &plan, &message) != TUTTI_OK)
        fail_msg("%s, %d ranks: %s", algorithm->name, size, message);
    return plan;
}

static enum verify_verdict prove(const struct algorithm *algorithm, int size, const int *places,
                                 const struct algo_levels *levels, rounding_rule *rule,
                                 struct verify_report *report)
{
    enum verify_verdict verdict = VERIFY_PROVEN;
    const int radixes = algorithm->has_radix ? 3 : 1; /* the default, 3 and 4 */
    for (int r = 0; r < radixes && verdict == VERIFY_PROVEN; r++) {
        const bool in_place = (size + r) % 2 != 0;
        struct plan *plan = make(algorithm, size, in_place, r == 0 ? 0 : 2 + (unsigned)r, levels);
        const struct verify_options options = {
            .in_place = in_place, .places = places, .rounding = rule};
        verdict = plan_verify(plan, &options, report);
        plan_free(plan);
    }
    return verdict;
}

/* Whether a refusal is that of replicas which would differ. */
static void expect_replicas_differ(const struct algorithm *algorithm,
                                   const struct verify_report *report)
{
    if (strstr(report->message, "replicas would differ") == NULL)
        fail_msg("%s: %s", algorithm->name, report->message);
}

static void own_places(int places[RANKS_MAX])
{
    for (int r = 0; r < RANKS_MAX; r++) places[r] = r;
}

static void flat_plans_are_what_the_list_says(void **state)
{
    (void)state;
    int places[RANKS_MAX], accepted = 0;
    own_places(places);
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        bool is_refused = false;
        if (algorithm->collective != COLLECTIVE_ALLREDUCE || algorithm->needs_levels) continue;
        for (int size = 2; size <= RANKS_MAX; size++) {
            struct verify_report report;
            if (!algo_supports(algorithm, size)) continue;
            const enum verify_verdict verdict = prove(algorithm, size, places, NULL, NULL, &report);
            if (verdict != VERIFY_PROVEN) expect_replicas_differ(algorithm, &report);
            if (verdict != VERIFY_PROVEN && algorithm->has_owners)
                fail_msg("%s, %d ranks: %s", algorithm->name, size, report.message);
            is_refused |= verdict != VERIFY_PROVEN;
            if (algorithm->sends_to_owners) assert_int_equal(report.roundings, 2);
            if (verdict == VERIFY_PROVEN) assert_true(report.roundings >= 2);
        }
        assert_true(is_refused || algorithm->has_owners); /* the list denies nothing that holds */
        accepted += algorithm->has_owners;
    }
    assert_true(accepted >= 3);
}

/* --------------------------------------------------------------------------------------- levels */

static const struct host_shape shapes[] = {
    {.hosts = {1, 1}},
    {.hosts = {2, 1, 3}},
    {.hosts = {4, 4}},
    {.hosts = {1, 4, 2, 3}},
    {.hosts = {5, 3, 3}},
    {.hosts = {1, 1, 1, 1}, .racks = {2, 2}},
    {.hosts = {2, 2, 2, 2}, .racks = {2, 2}},
    {.hosts = {2, 1, 1, 3, 2}, .racks = {3, 2}},
    {.hosts = {2, 2, 2, 2, 2, 2, 2, 2}, .racks = {4, 4}},
    {.hosts = {1, 1, 2, 1, 1, 1, 1, 2}, .racks = {2, 2, 2, 2}, .rooms = {2, 2}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, CLASSES = 3 };

/* Of links between hosts, between racks (NULL: there are none), and of all links. */
static const int *places_of(const struct host_map *map, int class, const int *own)
{
    if (class == 0) return map->host_of;
    if (class == 1) return map->levels.level_count > 1 ? map->rack_of : NULL;
    return own;
}

static void plans_over_hosts_are_what_the_list_says(void **state)
{
    (void)state;
    int own[HOST_MAP_RANKS_MAX];
    for (int r = 0; r < HOST_MAP_RANKS_MAX; r++) own[r] = r;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        bool is_refused = false;
        if (algorithm->collective != COLLECTIVE_ALLREDUCE) continue;
        for (int s = 0; s < SHAPES * CLASSES; s++) {
            struct host_map map;
            struct verify_report report;
            host_map_init(&map, &shapes[s / CLASSES],
                          (enum numbering)((i + s / CLASSES) % NUMBERING_COUNT), 7);
            const int *const places = places_of(&map, s % CLASSES, own);
            if (places == NULL || !algo_supports_levels(algorithm, map.rank_count)) continue;
            if (prove(algorithm, map.rank_count, places, &map.levels, NULL, &report) == VERIFY_PROVEN)
                continue;
            expect_replicas_differ(algorithm, &report);
            if (algorithm->has_owners) fail_msg("%s, %d: %s", algorithm->name, s, report.message);
            is_refused = true;
        }
        assert_true(is_refused || algorithm->has_owners);
    }
}

/* --------------------------------------------------------------------------------- planted bugs */

/* The owner of a result keeps it as it was before it was encoded. */
static bool never(const struct rank_plan *rank_plan, uint32_t step, const int *places)
{
    (void)rank_plan, (void)step, (void)places;
    return false;
}

/* The owner rounds only what it sends on an encoded link itself: the ranks of its host get the
 * result as it was. */
static bool for_encoded_links(const struct rank_plan *rank_plan, uint32_t step, const int *places)
{
    const struct plan_step *const at = &rank_plan->steps[step];
    bool any = false;
    for (uint32_t i = 0; i < at->target_count; i++)
        any |= rounding_on_link(places, rank_plan->rank, rank_plan->targets[at->first_target + i]);
    return at->final && any;
}

static void an_owner_that_keeps_its_result_unrounded_is_found(void **state)
{
    (void)state;
    int places[RANKS_MAX];
    own_places(places);
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        struct verify_report report;
        if (!algorithm->has_owners || algorithm->needs_levels) continue;
        for (int size = 2; size <= RANKS_MAX; size++) {
            if (!algo_supports(algorithm, size)) continue;
            assert_int_equal(prove(algorithm, size, places, NULL, never, &report), VERIFY_WRONG);
            expect_replicas_differ(algorithm, &report);
        }
    }
}

static void a_host_of_an_owner_that_keeps_its_result_unrounded_is_found(void **state)
{
    (void)state;
    static const struct host_shape shape = {.hosts = {3, 3}};
    struct host_map map;
    int found = 0;
    host_map_init(&map, &shape, CONTIGUOUS, 1);
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        struct verify_report report;
        if (!algorithm->has_owners || !algo_supports_levels(algorithm, map.rank_count)) continue;
        found += prove(algorithm, map.rank_count, map.host_of, &map.levels, for_encoded_links,
                       &report) == VERIFY_WRONG;
    }
    assert_true(found >= 1);
}

static void ranks_at_one_place_round_nothing_but_results(void **state)
{
    (void)state;
    const int places[4] = {5, 5, 5, 5};
    struct verify_report report;
    const struct algorithm *ring = algo_find(COLLECTIVE_ALLREDUCE, "ring");
    assert_int_equal(prove(ring, 4, places, NULL, NULL, &report), VERIFY_PROVEN);
    assert_int_equal(report.roundings, 1);
    assert_false(rounding_on_any(places, 4));
}

static void what_only_moves_is_refused(void **state)
{
    (void)state;
    int places[RANKS_MAX];
    struct verify_report report;
    own_places(places);
    const struct algorithm *ring = algo_find(COLLECTIVE_ALLGATHER, "ring");
    assert_int_equal(prove(ring, 4, places, NULL, NULL, &report), VERIFY_WRONG);
    assert_non_null(strstr(report.message, "no owner rounds"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_plans_are_what_the_list_says),
        cmocka_unit_test(plans_over_hosts_are_what_the_list_says),
        cmocka_unit_test(an_owner_that_keeps_its_result_unrounded_is_found),
        cmocka_unit_test(a_host_of_an_owner_that_keeps_its_result_unrounded_is_found),
        cmocka_unit_test(ranks_at_one_place_round_nothing_but_results),
        cmocka_unit_test(what_only_moves_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
