/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* Replicas on encoded links: the plans of which the list says so are proven, on 2 to 17 ranks and
 * over hosts and racks, and the others are refused; what the list says of units is so; wrong rules
 * of rounding are found, for sums and for what only moves. */
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
    const struct algo_params params = {
        .collective = algorithm->collective,
        .rank_count = size,
        .root = collective_is_rooted(algorithm->collective) ? size / 2 : 0,
        .in_place = in_place,
        .encodes = true,
        .radix = radix,
        .levels = levels};
    struct plan *plan;
    const char *message = "";
    if (algo_plan(algorithm, &params, &plan, &message) != TUTTI_OK)
        fail_msg("%s of %s, %d ranks: %s", algorithm->name, collective_name(algorithm->collective),
                 size, message);
    return plan;
}

/* The findings about the plans of an algorithm, with one rule or another. */
struct proof {
    struct verify_report report; /* of the plan that is wrong, or the last */
    uint32_t roundings;          /* at most */
    uint32_t limit;              /* of a plan that sends to owners */
    bool is_over_limit, keeps_units;
};

static bool keeps_units(const struct plan *plan)
{
    for (int rank = 0; rank < plan->shape.rank_count; rank++)
        if (!rounding_keeps_units(plan->ranks[rank])) return false;
    return true;
}

/* With all radixes that matter. */
static enum verify_verdict prove(const struct algorithm *algorithm, int size, int in_place,
                                 const int *places, const struct algo_levels *levels,
                                 rounding_rule *rule, struct proof *proof)
{
    enum verify_verdict verdict = VERIFY_PROVEN;
    const int radixes = algorithm->has_radix ? 3 : 1; /* the default, 3 and 4 */
    for (int r = 0; r < radixes && verdict == VERIFY_PROVEN; r++) {
        struct plan *plan =
            make(algorithm, size, in_place != 0, r == 0 ? 0 : 2 + (unsigned)r, levels);
        const struct verify_options options = {
            .in_place = in_place != 0, .places = places, .rounding = rule};
        verdict = plan_verify(plan, &options, &proof->report);
        if (proof->roundings < proof->report.roundings) proof->roundings = proof->report.roundings;
        proof->is_over_limit |= proof->report.roundings > proof->limit;
        proof->keeps_units &= keeps_units(plan);
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

/* The most roundings of a contribution if every owner has all contributions from their ranks: one
 * on each level of links that are encoded, and another one where results go on (those of a flat
 * reduce that scatters first do). */
static uint32_t least_roundings(const struct algorithm *algorithm, int encoded_levels)
{
    const bool go_on = algorithm->collective == COLLECTIVE_ALLREDUCE ||
                       (algorithm->collective == COLLECTIVE_REDUCE && !algorithm->needs_levels);
    return (uint32_t)encoded_levels + go_on;
}

/* The list denies nothing that holds, and claims nothing that does not. */
static void expect_list_is_right(const struct algorithm *algorithm, const struct proof *proof,
                                 bool is_refused)
{
    const bool reduces = collective_reduces(algorithm->collective);
    assert_true(is_refused || algorithm->has_owners);
    if (!reduces) assert_int_equal(proof->roundings, 1);
    if (algorithm->sends_to_owners != (reduces && !is_refused && !proof->is_over_limit))
        fail_msg("%s of %s: rounds %u times", algorithm->name,
                 collective_name(algorithm->collective), proof->roundings);
    if (algorithm->keeps_units != proof->keeps_units)
        fail_msg("%s of %s: %s units", algorithm->name, collective_name(algorithm->collective),
                 proof->keeps_units ? "keeps" : "parts");
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
        if (algorithm->collective == COLLECTIVE_BARRIER || algorithm->needs_levels) continue;
        struct proof proof = {.limit = least_roundings(algorithm, 1), .keeps_units = true};
        for (int size = 2; size <= RANKS_MAX; size++) {
            if (!algo_supports(algorithm, size)) continue;
            for (int in_place = 0; in_place < 2; in_place++) {
                const enum verify_verdict verdict =
                    prove(algorithm, size, in_place, places, NULL, NULL, &proof);
                if (verdict != VERIFY_PROVEN) expect_replicas_differ(algorithm, &proof.report);
                if (verdict != VERIFY_PROVEN && algorithm->has_owners)
                    fail_msg("%s of %s, %d ranks: %s", algorithm->name,
                             collective_name(algorithm->collective), size, proof.report.message);
                is_refused |= verdict != VERIFY_PROVEN;
            }
        }
        expect_list_is_right(algorithm, &proof, is_refused);
        accepted += algorithm->collective == COLLECTIVE_ALLREDUCE && algorithm->has_owners;
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
    {.hosts = {1, 1, 1, 1, 1, 1, 1, 1}},
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

/* Of hosts, racks and so on, and of the ranks of a host: those whose links are encoded. */
static int encoded_levels(const struct host_map *map, int class)
{
    static const int beside_hosts[CLASSES] = {0, -1, 1};
    return map->levels.level_count + beside_hosts[class];
}

static void plans_over_hosts_are_what_the_list_says(void **state)
{
    (void)state;
    int own[HOST_MAP_RANKS_MAX];
    for (int r = 0; r < HOST_MAP_RANKS_MAX; r++) own[r] = r;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        bool is_refused = false;
        struct proof proof = {.keeps_units = true};
        if (algorithm->collective == COLLECTIVE_BARRIER) continue;
        for (int s = 0; s < SHAPES * CLASSES; s++) {
            struct host_map map;
            host_map_init(&map, &shapes[s / CLASSES],
                          (enum numbering)((i + s / CLASSES) % NUMBERING_COUNT), 7);
            const int *const places = places_of(&map, s % CLASSES, own);
            if (places == NULL || !algo_supports_levels(algorithm, map.rank_count)) continue;
            proof.limit = least_roundings(algorithm, encoded_levels(&map, s % CLASSES));
            if (prove(algorithm, map.rank_count, (i + s) % 2, places, &map.levels, NULL, &proof) ==
                VERIFY_PROVEN)
                continue;
            expect_replicas_differ(algorithm, &proof.report);
            if (algorithm->has_owners)
                fail_msg("%s of %s, %d: %s", algorithm->name,
                         collective_name(algorithm->collective), s, proof.report.message);
            is_refused = true;
        }
        if (algorithm->needs_levels) expect_list_is_right(algorithm, &proof, is_refused);
        if (algorithm->keeps_units) assert_true(proof.keeps_units);
    }
}

/* The sums of a team, be it a host or a rack, go to their owners at once, whatever the number of
 * ranks. */
static void sums_go_straight_to_their_owners_on_each_level(void **state)
{
    (void)state;
    int own[HOST_MAP_RANKS_MAX], proven = 0;
    for (int r = 0; r < HOST_MAP_RANKS_MAX; r++) own[r] = r;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        if (!algorithm->needs_levels || !algorithm->sends_to_owners) continue;
        for (int size = 2; size <= RANKS_MAX; size++)
            for (int way = 0; way < 2 * CLASSES; way++) {
                struct host_map map;
                host_map_init_mixed(&map, size);
                const int *const places = places_of(&map, way / 2, own);
                if (places == NULL) continue;
                struct proof proof = {
                    .limit = least_roundings(algorithm, encoded_levels(&map, way / 2))};
                if (prove(algorithm, size, way % 2, places, &map.levels, NULL, &proof) !=
                        VERIFY_PROVEN ||
                    proof.is_over_limit)
                    fail_msg("%s of %s, %d ranks, %d roundings: %s", algorithm->name,
                             collective_name(algorithm->collective), size, (int)proof.roundings,
                             proof.report.message);
                proven++;
            }
    }
    assert_true(proven >= 2 * RANKS_MAX);
}

/* --------------------------------------------------------------------------------- planted bugs */

/* The owner of a result keeps it as it was before it was encoded. */
static bool never(const struct rank_plan *rank_plan, uint32_t step, const int *places, bool in_place)
{
    (void)rank_plan, (void)step, (void)places, (void)in_place;
    return false;
}

/* The owner rounds only what it sends on an encoded link itself: the ranks of its host get the
 * result as it was. */
static bool for_encoded_links(const struct rank_plan *rank_plan, uint32_t step, const int *places,
                              bool in_place)
{
    (void)in_place;
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
        struct proof proof = {0};
        if (algorithm->collective != COLLECTIVE_ALLREDUCE || !algorithm->has_owners ||
            algorithm->needs_levels)
            continue;
        for (int size = 2; size <= RANKS_MAX; size++) {
            if (!algo_supports(algorithm, size)) continue;
            assert_int_equal(prove(algorithm, size, size % 2, places, NULL, never, &proof),
                             VERIFY_WRONG);
            expect_replicas_differ(algorithm, &proof.report);
        }
    }
}

/* Also where only links between hosts, or between racks, are encoded. */
static void an_owner_on_hosts_that_keeps_its_result_unrounded_is_found(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        if (algorithm->collective != COLLECTIVE_ALLREDUCE || !algorithm->has_owners ||
            !algorithm->needs_levels)
            continue;
        for (int s = 0; s < SHAPES * 2; s++) {
            struct host_map map;
            struct proof proof = {0};
            host_map_init(&map, &shapes[s / 2], (enum numbering)(s % NUMBERING_COUNT), 7);
            const int *const places = places_of(&map, s % 2, NULL);
            if (places == NULL) continue;
            assert_int_equal(
                prove(algorithm, map.rank_count, s % 2, places, &map.levels, never, &proof),
                VERIFY_WRONG);
            expect_replicas_differ(algorithm, &proof.report);
        }
    }
}

/* The owners of the first host, or rack, keep their results unrounded, and so do the ranks there that
 * get these. */
static bool but_at_the_first_place(const struct rank_plan *rank_plan, uint32_t step,
                                   const int *places, bool in_place)
{
    return places[rank_plan->rank] != places[0] &&
           rounding_of_step(rank_plan, step, places, in_place);
}

static void owners_of_one_place_that_keep_their_results_unrounded_are_found(void **state)
{
    (void)state;
    static const struct host_shape even = {.hosts = {2, 2, 2, 2}, .racks = {2, 2}};
    struct host_map map;
    int found = 0;
    host_map_init(&map, &even, CONTIGUOUS, 1);
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        if (algorithm->collective != COLLECTIVE_ALLREDUCE || !algorithm->sends_to_owners) continue;
        for (int way = 0; way < 4; way++) {
            struct proof proof = {0};
            assert_int_equal(prove(algorithm, map.rank_count, way % 2,
                                   way < 2 ? map.host_of : map.rack_of, &map.levels,
                                   but_at_the_first_place, &proof),
                             VERIFY_WRONG);
            expect_replicas_differ(algorithm, &proof.report);
            found++;
        }
    }
    assert_true(found >= 8);
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
        struct proof proof = {0};
        if (algorithm->collective != COLLECTIVE_ALLREDUCE || !algorithm->has_owners ||
            !algo_supports_levels(algorithm, map.rank_count))
            continue;
        found += prove(algorithm, map.rank_count, 0, map.host_of, &map.levels, for_encoded_links,
                       &proof) == VERIFY_WRONG;
    }
    assert_true(found >= 1);
}

/* The owner of a block rounds what it sends, and keeps the block as it was. */
static bool only_what_is_sent(const struct rank_plan *rank_plan, uint32_t step, const int *places,
                              bool in_place)
{
    const struct plan_step *const at = &rank_plan->steps[step];
    return (at->target_count > 0 || at->target_group != PLAN_NO_GROUP) &&
           rounding_of_step(rank_plan, step, places, in_place);
}

/* The owner rounds what goes over encoded links, and sends its own host the block as it was. */
static bool only_what_leaves(const struct rank_plan *rank_plan, uint32_t step, const int *places,
                             bool in_place)
{
    return for_encoded_links(rank_plan, step, places, in_place);
}

static bool leaves_a_copy(const struct algorithm *algorithm)
{
    return algorithm->collective == COLLECTIVE_ALLGATHER ||
           algorithm->collective == COLLECTIVE_BROADCAST;
}

static void an_owner_that_keeps_its_block_unrounded_is_found(void **state)
{
    (void)state;
    int places[RANKS_MAX], wrong[2] = {0};
    own_places(places);
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        if (!leaves_a_copy(algorithm) || algorithm->needs_levels) continue;
        for (int size = 2; size <= RANKS_MAX; size++)
            for (int in_place = 0; in_place < 2; in_place++) {
                struct proof proof = {0};
                if (!algo_supports(algorithm, size)) continue;
                assert_int_equal(prove(algorithm, size, in_place, places, NULL, never, &proof),
                                 VERIFY_WRONG);
                expect_replicas_differ(algorithm, &proof.report);
                /* Some plans copy and send in one step: then nothing is kept as it was. */
                if (prove(algorithm, size, in_place, places, NULL, only_what_is_sent, &proof) ==
                    VERIFY_PROVEN)
                    continue;
                expect_replicas_differ(algorithm, &proof.report);
                wrong[in_place]++;
            }
    }
    assert_true(wrong[0] > RANKS_MAX && wrong[1] > RANKS_MAX);
}

static void a_host_of_an_owner_that_keeps_its_block_unrounded_is_found(void **state)
{
    (void)state;
    static const struct host_shape shape = {.hosts = {3, 3}};
    struct host_map map;
    host_map_init(&map, &shape, CONTIGUOUS, 1);
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        struct proof proof = {0};
        if (!leaves_a_copy(algorithm) || !algo_supports_levels(algorithm, map.rank_count)) continue;
        assert_int_equal(
            prove(algorithm, map.rank_count, 0, map.host_of, &map.levels, only_what_leaves, &proof),
            VERIFY_WRONG);
    }
}

/* In place, a plan that was not given its first step races, or keeps what it sends rounded. */
static void a_plan_in_place_without_its_first_step_is_refused(void **state)
{
    (void)state;
    int places[RANKS_MAX];
    own_places(places);
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        if (!leaves_a_copy(algorithm) || algorithm->needs_levels || !algo_supports(algorithm, 4))
            continue;
        const struct algo_params params = {
            .collective = algorithm->collective, .rank_count = 4, .in_place = true};
        const struct verify_options options = {.in_place = true, .places = places};
        struct verify_report report;
        struct plan *plan;
        const char *message = "";
        assert_int_equal(algo_plan(algorithm, &params, &plan, &message), TUTTI_OK);
        if (plan->ranks[0]->steps[0].has_destination) { /* it is its first step already */
            plan_free(plan);
            continue;
        }
        assert_int_equal(plan_verify(plan, &options, &report), VERIFY_WRONG);
        plan_free(plan);
    }
}

static void ranks_at_one_place_round_nothing_but_results(void **state)
{
    (void)state;
    const int places[4] = {5, 5, 5, 5};
    struct proof proof = {0};
    const struct algorithm *ring = algo_find(COLLECTIVE_ALLREDUCE, "ring");
    assert_int_equal(prove(ring, 4, 0, places, NULL, NULL, &proof), VERIFY_PROVEN);
    assert_int_equal(proof.roundings, 1);
    assert_false(rounding_on_any(places, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_plans_are_what_the_list_says),
        cmocka_unit_test(plans_over_hosts_are_what_the_list_says),
        cmocka_unit_test(sums_go_straight_to_their_owners_on_each_level),
        cmocka_unit_test(an_owner_that_keeps_its_result_unrounded_is_found),
        cmocka_unit_test(an_owner_on_hosts_that_keeps_its_result_unrounded_is_found),
        cmocka_unit_test(owners_of_one_place_that_keep_their_results_unrounded_are_found),
        cmocka_unit_test(a_host_of_an_owner_that_keeps_its_result_unrounded_is_found),
        cmocka_unit_test(an_owner_that_keeps_its_block_unrounded_is_found),
        cmocka_unit_test(a_host_of_an_owner_that_keeps_its_block_unrounded_is_found),
        cmocka_unit_test(a_plan_in_place_without_its_first_step_is_refused),
        cmocka_unit_test(ranks_at_one_place_round_nothing_but_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
