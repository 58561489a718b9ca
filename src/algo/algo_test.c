/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=nosan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "algo/compose.h"
#include "algo/embed.h"
#include "plan/verify.h"
#include "tests/kit/sanitized.h"

/* -------------------------------------------------------------------------------------- helpers */

static const struct algorithm *find(enum collective collective, const char *name)
{
    const struct algorithm *algorithm = algo_find(collective, name);
    if (algorithm == NULL) fail_msg("%s/%s is not listed", collective_name(collective), name);
    return algorithm;
}

static struct plan *make(const struct algorithm *algorithm, const struct algo_params *params)
{
    struct plan *plan;
    const char *message;
    if (algo_plan(algorithm, params, &plan, &message) != TUTTI_OK)
        fail_msg("%s/%s, %d ranks, root %d: %s", collective_name(algorithm->collective),
                 algorithm->name, params->rank_count, params->root, message);
    return plan;
}

static struct plan *make_named(enum collective collective, const char *name, int rank_count)
{
    const struct algo_params params = {.collective = collective, .rank_count = rank_count};
    return make(find(collective, name), &params);
}

static struct rank_plan *make_rank(enum collective collective, const char *name, int rank_count,
                                   int rank)
{
    const struct algo_params params = {
        .collective = collective, .rank_count = rank_count, .in_place = true};
    struct rank_plan *plan;
    const char *message;
    if (algo_rank_plan(find(collective, name), &params, rank, &plan, &message) != TUTTI_OK)
        fail_msg("%s/%s: %s", collective_name(collective), name, message);
    return plan;
}

static struct verify_report prove(const struct plan *plan, const struct verify_options *options,
                                  const char *what)
{
    struct verify_report report;
    if (plan_verify(plan, options, &report) != VERIFY_PROVEN)
        fail_msg("%s, %d ranks, root %d%s: %s", what, plan->shape.rank_count, plan->shape.root,
                 options->in_place ? ", in place" : "", report.message);
    return report;
}

static struct plan *empty_plan(int rank_count)
{
    struct plan *plan = calloc(1, sizeof *plan);
    assert_non_null(plan);
    plan->shape.rank_count = rank_count;
    plan->ranks = calloc((size_t)rank_count, sizeof(struct rank_plan *));
    assert_non_null(plan->ranks);
    return plan;
}

static bool sends(const struct plan_step *step)
{
    return step->target_count > 0 || step->target_group != PLAN_NO_GROUP;
}

/* Steps that send; a message to several ranks counts once. */
static uint32_t sending_steps(const struct rank_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) count += sends(&plan->steps[i]);
    return count;
}

/* Chunks sent to one rank or another. */
static uint32_t chunks_sent(const struct rank_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        count += step->chunk_count * step->target_count;
        if (step->target_group != PLAN_NO_GROUP)
            count += step->chunk_count * (plan->groups[step->target_group].member_count - 1);
    }
    return count;
}

static uint32_t log2_up(int count)
{
    uint32_t log = 0;
    while ((1 << log) < count) log++;
    return log;
}

static int rank_count_max(void)
{
    const char *is_long = getenv("TUTTI_LONG");
    return is_long != NULL && strcmp(is_long, "1") == 0 ? 33 : 17;
}

/* ------------------------------------------------------------------------------------- the list */

static void names_are_unique_for_each_collective(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++)
        assert_ptr_equal(algo_find(algo_list[i].collective, algo_list[i].name), &algo_list[i]);
    assert_null(algo_find(COLLECTIVE_ALLREDUCE, "no such thing"));
    assert_null(algo_find(COLLECTIVE_BARRIER, "ring"));
}

static void names_may_carry_a_radix(void **state)
{
    (void)state;
    static const struct {
        enum collective collective;
        const char *text, *name;
        unsigned radix;
    } right[] = {
        {COLLECTIVE_BROADCAST, "tree", "tree", 0},
        {COLLECTIVE_BROADCAST, "tree/2", "tree", 2},
        {COLLECTIVE_ALLTOALL, "bruck/4", "bruck", 4},
        {COLLECTIVE_BARRIER, "dissemination/64", "dissemination", 64},
        {COLLECTIVE_ALLREDUCE, "ring", "ring", 0},
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        const struct algorithm *algorithm = NULL;
        unsigned radix = 77;
        assert_true(algo_parse(right[i].collective, right[i].text, &algorithm, &radix));
        assert_ptr_equal(algorithm, find(right[i].collective, right[i].name));
        assert_int_equal(radix, right[i].radix);
    }
    static const char *const wrong[] = {
        "",        "/",       "tree/",   "tree/1",  "tree/0",   "tree/65",         "tree/02",
        "tree/3 ", "tree/ 3", "tree/+3", "tree/-3", "tree/3/3", "tree/4294967298", "tree/x",
        "/3",      "tre",     "tre/3",   "trees",   "Tree",     "chain/3",         "bruck",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct algorithm *algorithm = NULL;
        unsigned radix = 77;
        if (algo_parse(COLLECTIVE_BROADCAST, wrong[i], &algorithm, &radix))
            fail_msg("'%s' is taken", wrong[i]);
        assert_null(algorithm);
        assert_int_equal(radix, 77);
    }
}

static struct rank_plan *make_rank_with_radix(const struct algorithm *algorithm, unsigned radix)
{
    const struct algo_params params = {
        .collective = algorithm->collective, .rank_count = 16, .radix = radix};
    struct rank_plan *plan;
    const char *message;
    if (algo_rank_plan(algorithm, &params, 0, &plan, &message) != TUTTI_OK) fail_msg("%s", message);
    return plan;
}

static void exactly_those_that_say_so_take_a_radix(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++) {
        if (algo_list[i].needs_levels) continue;
        struct rank_plan *two = make_rank_with_radix(&algo_list[i], 2);
        struct rank_plan *four = make_rank_with_radix(&algo_list[i], 4);
        const bool differ =
            two->step_count != four->step_count || two->source_count != four->source_count ||
            two->target_count != four->target_count ||
            memcmp(two->targets, four->targets, two->target_count * sizeof *two->targets) != 0;
        if (differ != algo_list[i].has_radix)
            fail_msg("%s/%s", collective_name(algo_list[i].collective), algo_list[i].name);
        plan_rank_free(two);
        plan_rank_free(four);
    }
}

static void entries_are_complete(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        assert_non_null(algorithm->generate);
        assert_true(strlen(algorithm->summary) > 0 && strlen(algorithm->cost) > 0);
        assert_true(strlen(algorithm->source) > 0);
        assert_in_range(algorithm->rank_count_max, 1000, PLAN_RANKS_MAX);
        if (algorithm->deterministic) assert_true(collective_reduces(algorithm->collective));
        if (algorithm->needs_commutative) assert_true(collective_reduces(algorithm->collective));
    }
}

static void every_collective_has_two_algorithms_for_any_rank_count(void **state)
{
    (void)state;
    for (int c = 0; c < COLLECTIVE_COUNT; c++)
        for (int rank_count = 1; rank_count <= 40; rank_count++) {
            int supported = 0;
            for (int i = 0; i < algo_count; i++)
                supported +=
                    (int)algo_list[i].collective == c && algo_supports(&algo_list[i], rank_count);
            assert_true(supported >= 2);
        }
}

static void deterministic_reductions_exist_for_any_rank_count(void **state)
{
    (void)state;
    for (int c = 0; c < COLLECTIVE_COUNT; c++) {
        if (!collective_reduces((enum collective)c)) continue;
        int found = 0;
        for (int i = 0; i < algo_count; i++)
            found += (int)algo_list[i].collective == c && algo_list[i].deterministic &&
                     !algo_list[i].needs_commutative && !algo_list[i].needs_power_of_two;
        assert_true(found > 0);
    }
}

static void impossible_demands_are_refused(void **state)
{
    (void)state;
    const struct algorithm *doubling = find(COLLECTIVE_ALLGATHER, "doubling");
    assert_true(algo_supports(doubling, 8));
    assert_false(algo_supports(doubling, 6));
    assert_false(algo_supports(doubling, 0));
    assert_false(algo_supports(doubling, -4));
    assert_false(algo_supports(find(COLLECTIVE_ALLREDUCE, "ring"), PLAN_RANKS_MAX + 1));

    static const struct {
        enum collective collective;
        const char *name;
        struct algo_params params;
        int rank;
    } cases[] = {
        {COLLECTIVE_ALLGATHER, "doubling", {.collective = COLLECTIVE_ALLGATHER, .rank_count = 6}, 0},
        {COLLECTIVE_ALLGATHER, "ring", {.collective = COLLECTIVE_ALLREDUCE, .rank_count = 4}, 0},
        {COLLECTIVE_ALLGATHER, "ring", {.collective = COLLECTIVE_ALLGATHER, .rank_count = 0}, 0},
        {COLLECTIVE_ALLGATHER, "ring", {.collective = COLLECTIVE_ALLGATHER, .rank_count = 4}, 4},
        {COLLECTIVE_ALLGATHER, "ring", {.collective = COLLECTIVE_ALLGATHER, .rank_count = 4}, -1},
        {COLLECTIVE_ALLGATHER,
         "ring",
         {.collective = COLLECTIVE_ALLGATHER, .rank_count = 4, .root = 1},
         0},
        {COLLECTIVE_BROADCAST,
         "tree",
         {.collective = COLLECTIVE_BROADCAST, .rank_count = 4, .root = 4},
         0},
        {COLLECTIVE_BROADCAST,
         "tree",
         {.collective = COLLECTIVE_BROADCAST, .rank_count = 4, .root = -1},
         0},
        {COLLECTIVE_REDUCE,
         "twoshot",
         {.collective = COLLECTIVE_REDUCE, .rank_count = 4, .root = 9},
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct algorithm *algorithm = find(cases[i].collective, cases[i].name);
        struct rank_plan *rank_plan;
        const char *message = "";
        assert_int_not_equal(
            algo_rank_plan(algorithm, &cases[i].params, cases[i].rank, &rank_plan, &message),
            TUTTI_OK);
        assert_null(rank_plan);
        assert_true(strlen(message) > 0);
        if (cases[i].rank != 0) continue;
        struct plan *plan;
        assert_int_not_equal(algo_plan(algorithm, &cases[i].params, &plan, &message), TUTTI_OK);
        assert_null(plan);
    }
}

/* --------------------------------------------------------------------------------------- proofs */

/* The result of verifying an algorithm, over all its plans. */
struct evidence {
    bool rank_ordered, one_tree;
};

static void prove_both_ways(const struct algorithm *algorithm, struct algo_params params,
                            struct evidence *evidence)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        params.in_place = in_place;
        struct plan *plan = make(algorithm, &params);
        const struct verify_options options = {
            .in_place = in_place, .associative_tree_uniform = algorithm->deterministic};
        char what[64];
        snprintf(what, sizeof what, "%s/%s radix %u", collective_name(algorithm->collective),
                 algorithm->name, params.radix);
        const struct verify_report report = prove(plan, &options, what);
        if (!algorithm->needs_commutative && collective_reduces(algorithm->collective) &&
            params.order == NULL && !report.rank_ordered)
            fail_msg("%s, %d ranks, root %d: not in rank order", what, params.rank_count,
                     params.root);
        evidence->rank_ordered &= report.rank_ordered;
        if (collective_reduces(algorithm->collective) && !algorithm->deterministic) {
            const struct verify_options uniform = {.in_place = in_place,
                                                   .associative_tree_uniform = true};
            struct verify_report ignored;
            evidence->one_tree &= plan_verify(plan, &uniform, &ignored) == VERIFY_PROVEN;
        }
        plan_free(plan);
    }
}

/* Some roots, and of every radix that says something the smaller ones. */
static void prove_all(const struct algorithm *algorithm, int rank_count, struct evidence *evidence)
{
    static const unsigned radixes[] = {0, 3, 5};
    const int roots[] = {0, 1, rank_count / 2, rank_count - 1};
    for (int r = 0; r < 4; r++) {
        const bool is_new = r == 0 || (roots[r] > roots[r - 1] && roots[r] < rank_count);
        if (!is_new || (r > 0 && !collective_is_rooted(algorithm->collective))) continue;
        for (int k = 0; k < (algorithm->has_radix ? 3 : 1); k++)
            prove_both_ways(algorithm,
                            (struct algo_params){.collective = algorithm->collective,
                                                 .rank_count = rank_count,
                                                 .root = roots[r],
                                                 .radix = radixes[k]},
                            evidence);
    }
}

static void a_rank_that_keeps_its_partner_sends_to_nobody_else(void **state)
{
    (void)state;
    enum { RANKS = 7 };
    int count = 0;
    for (int i = 0; i < algo_count; i++) {
        if (!algo_list[i].keeps_partner || algo_list[i].needs_levels) continue;
        for (int rank = 0; rank < RANKS; rank++) {
            struct rank_plan *plan =
                make_rank(algo_list[i].collective, algo_list[i].name, RANKS, rank);
            for (uint32_t t = 0; t < plan->target_count; t++)
                assert_int_equal(plan->targets[t], plan->targets[0]);
            plan_rank_free(plan);
        }
        count++;
    }
    assert_int_equal(count, 5);
}

static void a_paced_rank_sends_to_two_and_then_waits(void **state)
{
    (void)state;
    enum { RANKS = 7 };
    int count = 0;
    for (int i = 0; i < algo_count; i++) {
        if (!algo_list[i].is_paced) continue;
        for (int rank = 0; rank < RANKS; rank++) {
            struct rank_plan *plan =
                make_rank(algo_list[i].collective, algo_list[i].name, RANKS, rank);
            int under_way = 0;
            for (uint32_t s = 0; s < plan->step_count; s++) {
                const struct plan_step *step = &plan->steps[s];
                under_way += (int)step->target_count;
                assert_true(under_way <= 2);
                if (step->source_count == 1 && plan->sources[step->first_source].is_link)
                    under_way--;
            }
            plan_rank_free(plan);
        }
        count++;
    }
    assert_int_equal(count, 1);
}

/* And flags are set only where they are needed: an algorithm that could do more is not kept from
 * it. */
static void every_algorithm_is_proven_for_every_rank_count(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        struct evidence evidence = {true, true};
        if (algorithm->needs_levels) continue; /* hierarchical_test.c */
        for (int rank_count = 1; rank_count <= rank_count_max(); rank_count++) {
            if (rank_count > 9 && is_left_out((unsigned)(i + rank_count))) continue;
            if (algo_supports(algorithm, rank_count)) prove_all(algorithm, rank_count, &evidence);
        }
        if (algorithm->needs_commutative) assert_false(evidence.rank_ordered);
        if (collective_reduces(algorithm->collective) && !algorithm->deterministic)
            assert_false(evidence.one_tree);
    }
}

static void every_algorithm_is_proven_for_some_large_rank_counts(void **state)
{
    (void)state;
    static const int rank_counts[] = {64, 100, 128};
    struct evidence evidence = {true, true};
    for (int i = 0; i < algo_count; i++)
        for (size_t k = 0; k < sizeof rank_counts / sizeof *rank_counts; k++) {
            const struct algo_params params = {
                .collective = algo_list[i].collective,
                .rank_count = rank_counts[k],
                .root = collective_is_rooted(algo_list[i].collective) ? 63 : 0};
            if (algo_supports(&algo_list[i], rank_counts[k]) &&
                !is_left_out((unsigned)i + (unsigned)k))
                prove_both_ways(&algo_list[i], params, &evidence);
        }
}

static void logarithmic_algorithms_are_proven_for_a_thousand_ranks(void **state)
{
    (void)state;
    static const char *const names[] = {"tree", "chain", "dissemination"};
    struct evidence evidence = {true, true};
    for (int i = 0; i < algo_count; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            const struct algo_params params = {.collective = algo_list[i].collective,
                                               .rank_count = 1000};
            if (strcmp(algo_list[i].name, names[k]) == 0)
                prove_both_ways(&algo_list[i], params, &evidence);
        }
}

/* ------------------------------------------------------------------------------- order of ranks */

enum { ORDER_RANKS_MAX = 12 };

static void shuffle(int *order, int count, uint32_t *random)
{
    for (int i = 0; i < count; i++) order[i] = i;
    for (int i = count; i > 1; i--) {
        *random = *random * 1664525 + 1013904223;
        const int j = (int)((*random >> 8) % (uint32_t)i), kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

/* Covers algorithms that heed the order and algorithms that do not. */
static void every_algorithm_is_proven_in_any_order_of_ranks(void **state)
{
    (void)state;
    uint32_t random = 1;
    struct evidence evidence = {true, true};
    for (int i = 0; i < algo_count; i++)
        for (int rank_count = 1; rank_count <= ORDER_RANKS_MAX; rank_count++) {
            int order[ORDER_RANKS_MAX];
            shuffle(order, rank_count, &random);
            const struct algo_params params = {
                .collective = algo_list[i].collective,
                .rank_count = rank_count,
                .root = collective_is_rooted(algo_list[i].collective) ? rank_count / 2 : 0,
                .order = order};
            if (algo_supports(&algo_list[i], rank_count))
                prove_both_ways(&algo_list[i], params, &evidence);
        }
}

/* A broadcast along the order, round from its end to its beginning, as far as all have got it. */
static void broadcast_along_the_order(const struct algo_params *params, int rank,
                                      struct plan_builder *b)
{
    const int count = params->rank_count;
    int at = 0;
    while (params->order[at] != rank) at++;
    const int previous = params->order[(at + count - 1) % count];
    const int next = params->order[(at + 1) % count];
    plan_lane(b);
    plan_begin(b, 1);
    if (rank == params->root)
        plan_read(b, PLAN_INPUT, 0);
    else
        plan_receive(b, previous);
    plan_write(b, PLAN_OUTPUT, 0);
    if (next != params->root) plan_send(b, next);
    plan_end(b);
}

static void generators_get_the_order_of_ranks(void **state)
{
    (void)state;
    const struct algorithm along = {.name = "along the order",
                                    .collective = COLLECTIVE_BROADCAST,
                                    .generate = broadcast_along_the_order,
                                    .rank_count_max = ORDER_RANKS_MAX};
    uint32_t random = 2;
    for (int count = 2; count <= ORDER_RANKS_MAX; count++) {
        int order[ORDER_RANKS_MAX];
        shuffle(order, count, &random);
        const struct algo_params params = {.collective = COLLECTIVE_BROADCAST,
                                           .rank_count = count,
                                           .root = order[0],
                                           .order = order};
        struct plan *plan = make(&along, &params);
        prove(plan, &(struct verify_options){.in_place = false}, along.name);
        for (int i = 0; i + 1 < count; i++) {
            assert_int_equal(plan->ranks[order[i]]->target_count, 1);
            assert_int_equal(plan->ranks[order[i]]->targets[0], order[i + 1]);
        }
        assert_int_equal(plan->ranks[order[count - 1]]->target_count, 0);
        plan_free(plan);
    }
}

static void an_order_has_every_rank_once(void **state)
{
    (void)state;
    static const int right[] = {2, 0, 1};
    static const int wrong[][3] = {{0, 1, 1}, {0, 0, 0}, {0, 1, 3}, {-1, 0, 1}, {1 << 30, 0, 1}};
    const struct algorithm *ring = find(COLLECTIVE_ALLREDUCE, "ring");
    struct algo_params params = {.collective = COLLECTIVE_ALLREDUCE, .rank_count = 3};
    struct rank_plan *rank_plan;
    struct plan *plan;
    const char *message;
    params.order = right;
    assert_int_equal(algo_check_order(right, 3, &message), TUTTI_OK);
    assert_int_equal(algo_rank_plan(ring, &params, 1, &rank_plan, &message), TUTTI_OK);
    plan_rank_free(rank_plan);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        params.order = wrong[i];
        message = "";
        assert_int_equal(algo_rank_plan(ring, &params, 1, &rank_plan, &message), TUTTI_INVALID_RANK);
        assert_null(rank_plan);
        assert_non_null(strstr(message, "order"));
        message = "";
        assert_int_equal(algo_plan(ring, &params, &plan, &message), TUTTI_INVALID_RANK);
        assert_null(plan);
        assert_non_null(strstr(message, "order"));
    }
}

/* Being in place is each rank's own matter. */
static void ranks_may_differ_in_being_in_place(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++)
        for (int ranks = 2; ranks <= 9; ranks++) {
            if (!algo_supports(&algo_list[i], ranks)) continue;
            struct algo_params params = {.collective = algo_list[i].collective, .rank_count = ranks};
            struct plan *mixed = make(&algo_list[i], &params);
            bool in_place[9];
            for (int rank = 0; rank < ranks; rank++) {
                const char *message;
                in_place[rank] = params.in_place = rank % 3 == 1;
                plan_rank_free(mixed->ranks[rank]);
                assert_int_equal(
                    algo_rank_plan(&algo_list[i], &params, rank, &mixed->ranks[rank], &message),
                    TUTTI_OK);
            }
            prove(mixed, &(struct verify_options){.ranks_in_place = in_place}, algo_list[i].name);
            plan_free(mixed);
        }
}

/* A rank's plan is linear in the ranks, so that even the largest communicator gets one. */
static void one_rank_of_the_most_is_planned(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        const int ranks = algorithm->rank_count_max, somewhere[] = {0, 1, ranks / 2, ranks - 1};
        const struct algo_params params = {.collective = algorithm->collective, .rank_count = ranks};
        if (!algo_supports(algorithm, ranks)) continue;
        for (int k = 0; k < 4; k++) {
            struct rank_plan *plan;
            const char *message;
            if (algo_rank_plan(algorithm, &params, somewhere[k], &plan, &message) != TUTTI_OK)
                fail_msg("%s/%s: %s", collective_name(algorithm->collective), algorithm->name,
                         message);
            assert_in_range(plan->lane_count, 1, 6);
            assert_true(plan->step_count <= (plan->lane_count + 2) * ((uint32_t)ranks + 1));
            assert_true(plan->source_count <= (plan->lane_count + 2) * ((uint32_t)ranks + 1));
            plan_rank_free(plan);
        }
    }
}

/* ---------------------------------------------------------------------------------- step counts */

static void a_single_rank_only_copies(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++) {
        if (algo_list[i].needs_levels) continue;
        struct plan *plan = make_named(algo_list[i].collective, algo_list[i].name, 1);
        const struct rank_plan *rank = plan->ranks[0];
        assert_int_equal(rank->step_count, algo_list[i].collective != COLLECTIVE_BARRIER);
        if (rank->step_count > 0)
            assert_string_equal(plan_step_kind(rank, &rank->steps[0]), "copy");
        plan_free(plan);
    }
}

static void oneshot_is_two_steps_and_one_message_to_all(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 17; ranks++) {
        struct rank_plan *plan = make_rank(COLLECTIVE_ALLREDUCE, "oneshot", ranks, ranks - 1);
        assert_int_equal(plan->step_count, 2);
        assert_int_equal(plan->lane_count, 1);
        assert_int_equal(sending_steps(plan), 1);
        assert_int_equal(plan->steps[1].source_count, ranks);
        plan_rank_free(plan);
    }
}

/* 2 (p-1)/p of the vector from every rank, the least that an allreduce can do. */
static void bandwidth_optimal_allreduces_send_the_least(void **state)
{
    (void)state;
    static const char *const names[] = {"twoshot", "ring", "halving_doubling"};
    for (int ranks = 2; ranks <= 32; ranks *= 2)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            struct plan *plan = make_named(COLLECTIVE_ALLREDUCE, names[k], ranks);
            for (int rank = 0; rank < ranks; rank++)
                assert_int_equal(chunks_sent(plan->ranks[rank]) * (uint32_t)ranks,
                                 2 * (uint32_t)(ranks - 1) * plan->shape.parts);
            plan_free(plan);
        }
}

static void rings_send_one_chunk_to_one_neighbour_in_every_step(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 17; ranks++) {
        static const struct {
            enum collective collective;
            uint32_t rounds;
        } cases[] = {
            {COLLECTIVE_ALLREDUCE, 2}, {COLLECTIVE_REDUCE_SCATTER, 1}, {COLLECTIVE_ALLGATHER, 1}};
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            struct rank_plan *plan = make_rank(cases[k].collective, "ring", ranks, 1);
            const uint32_t messages = cases[k].rounds * (uint32_t)(ranks - 1);
            assert_int_equal(sending_steps(plan), messages);
            assert_int_equal(chunks_sent(plan), messages);
            assert_int_equal(plan->step_count, messages + 1);
            for (uint32_t i = 0; i < plan->target_count; i++)
                assert_int_equal(plan->targets[i], 2 % ranks);
            plan_rank_free(plan);
        }
    }
}

static void doubling_takes_log2_rounds(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 64; ranks *= 2)
        for (int rank = 0; rank < ranks; rank++) {
            struct rank_plan *allreduce = make_rank(COLLECTIVE_ALLREDUCE, "doubling", ranks, rank);
            assert_int_equal(sending_steps(allreduce), log2_up(ranks));
            assert_int_equal(chunks_sent(allreduce), log2_up(ranks));
            plan_rank_free(allreduce);
            struct rank_plan *allgather = make_rank(COLLECTIVE_ALLGATHER, "doubling", ranks, rank);
            assert_int_equal(sending_steps(allgather), log2_up(ranks));
            assert_int_equal(chunks_sent(allgather), ranks - 1);
            plan_rank_free(allgather);
        }
}

static void halving_takes_log2_rounds_each_way(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 64; ranks *= 2)
        for (int rank = 0; rank < ranks; rank++) {
            struct rank_plan *allreduce =
                make_rank(COLLECTIVE_ALLREDUCE, "halving_doubling", ranks, rank);
            assert_int_equal(sending_steps(allreduce), 2 * log2_up(ranks));
            plan_rank_free(allreduce);
            struct rank_plan *reduce_scatter =
                make_rank(COLLECTIVE_REDUCE_SCATTER, "halving", ranks, rank);
            assert_int_equal(sending_steps(reduce_scatter), log2_up(ranks));
            assert_int_equal(chunks_sent(reduce_scatter), ranks - 1);
            plan_rank_free(reduce_scatter);
        }
}

static void dissemination_takes_log2_rounds_for_any_count(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 70; ranks++) {
        struct rank_plan *plan = make_rank(COLLECTIVE_BARRIER, "dissemination", ranks, ranks / 2);
        assert_int_equal(sending_steps(plan), log2_up(ranks));
        plan_rank_free(plan);
    }
}

/* In a broadcast along a tree, each rank has one step. */
static uint32_t tree_depth(const struct plan *plan, int rank)
{
    const struct rank_plan *rank_plan = plan->ranks[rank];
    assert_int_equal(rank_plan->step_count, 1);
    if (!rank_plan->sources[0].is_link) return 0;
    return 1 + tree_depth(plan, rank_plan->sources[0].peer);
}

/* Digits of the largest virtual rank. */
static uint32_t digits(int largest, int radix)
{
    uint32_t count = 0;
    for (; largest > 0; largest /= radix) count++;
    return count;
}

static void trees_are_as_deep_as_the_radix_says(void **state)
{
    (void)state;
    for (int radix = 2; radix <= 9; radix++)
        for (int ranks = 2; ranks <= 30; ranks++) {
            const struct algo_params params = {.collective = COLLECTIVE_BROADCAST,
                                               .rank_count = ranks,
                                               .root = ranks / 3,
                                               .radix = (unsigned)radix};
            struct plan *plan = make(find(COLLECTIVE_BROADCAST, "tree"), &params);
            uint32_t deepest = 0;
            for (int rank = 0; rank < ranks; rank++) {
                const uint32_t depth = tree_depth(plan, rank);
                if (depth > deepest) deepest = depth;
            }
            assert_in_range(deepest, 1, digits(ranks - 1, radix));
            assert_true(deepest + 1 >= digits(ranks - 1, radix));
            plan_free(plan);
        }
}

static void chains_are_one_step_a_rank(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 9; ranks++) {
        struct plan *broadcast = make_named(COLLECTIVE_BROADCAST, "chain", ranks);
        struct plan *reduce = make_named(COLLECTIVE_REDUCE, "chain", ranks);
        for (int rank = 0; rank < ranks; rank++) {
            assert_int_equal(broadcast->ranks[rank]->step_count, 1);
            assert_int_equal(reduce->ranks[rank]->step_count, 1);
        }
        assert_int_equal(tree_depth(broadcast, ranks - 1), ranks - 1);
        plan_free(broadcast);
        plan_free(reduce);
    }
}

static void pairwise_has_one_exchange_in_flight(void **state)
{
    (void)state;
    struct rank_plan *plan = make_rank(COLLECTIVE_ALLTOALL, "pairwise", 7, 3);
    assert_int_equal(plan->lane_count, 1);
    for (uint32_t i = 1; i < plan->step_count; i++) assert_int_equal(sends(&plan->steps[i]), i % 2);
    plan_rank_free(plan);
}

/* ----------------------------------------------------------------------------------------- bits */

enum { BITS_RANKS_MAX = 17, BITS_CHUNKS_MAX = 64, BITS_STEPS_MAX = 256, BITS_CHANNELS = 2 };

/* Plans run with one number a chunk. Nothing is ever too full: that is the verifier's matter. */
struct pipe {
    float numbers[BITS_STEPS_MAX];
    uint32_t sent, taken;
};

struct bits_run {
    float buffers[BITS_RANKS_MAX][PLAN_BUFFER_COUNT][BITS_CHUNKS_MAX];
    uint32_t next[BITS_RANKS_MAX][PLAN_LANES_MAX];
    struct pipe pipes[BITS_RANKS_MAX][BITS_RANKS_MAX][BITS_CHANNELS]; /* from, to */
};

static bool messages_are_there(struct bits_run *run, const struct rank_plan *plan,
                               const struct plan_step *step)
{
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &plan->sources[step->first_source + i];
        if (!source->is_link) continue;
        const struct pipe *pipe = &run->pipes[source->peer][plan->rank][source->channel];
        if (pipe->sent - pipe->taken < step->chunk_count) return false;
    }
    return true;
}

static void put(struct bits_run *run, const struct rank_plan *plan, const struct plan_step *step,
                int to, float number)
{
    struct pipe *pipe = &run->pipes[plan->rank][to][step->target_channel];
    assert_true(pipe->sent < BITS_STEPS_MAX);
    pipe->numbers[pipe->sent++] = number;
}

static void run_step(struct bits_run *run, const struct rank_plan *plan,
                     const struct plan_step *step)
{
    for (uint32_t k = 0; k < step->chunk_count; k++) {
        float sum = 0;
        for (uint32_t i = 0; i < step->source_count; i++) {
            const struct plan_source *source = &plan->sources[step->first_source + i];
            struct pipe *pipe = &run->pipes[source->peer][plan->rank][source->channel];
            const float operand =
                source->is_link
                    ? pipe->numbers[pipe->taken++]
                    : run->buffers[plan->rank][source->location.buffer][source->location.first + k];
            sum = i == 0 ? operand : sum + operand;
        }
        if (step->has_destination)
            run->buffers[plan->rank][step->destination.buffer][step->destination.first + k] = sum;
        for (uint32_t i = 0; i < step->target_count; i++)
            put(run, plan, step, plan->targets[step->first_target + i], sum);
        for (int to = 0; step->target_group != PLAN_NO_GROUP && to < plan->shape.rank_count; to++)
            if (to != plan->rank) put(run, plan, step, to, sum); /* the one group is that of all */
    }
}

/* The bits of all ranks' results, which must be one number; every chunk of a rank has the same
 * input. */
static float allreduce_bits(const char *name, int ranks, const float *inputs)
{
    struct plan *plan = make_named(COLLECTIVE_ALLREDUCE, name, ranks);
    struct bits_run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    for (int rank = 0; rank < ranks; rank++)
        for (uint32_t i = 0; i < plan->shape.parts; i++)
            run->buffers[rank][PLAN_INPUT][i] = inputs[rank];
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < ranks; rank++)
            for (uint32_t l = 0; l < plan->ranks[rank]->lane_count; l++) {
                const struct rank_plan *rank_plan = plan->ranks[rank];
                const struct plan_lane *lane = &rank_plan->lanes[l];
                if (run->next[rank][l] == lane->step_count) continue;
                const struct plan_step *step =
                    &rank_plan->steps[lane->first_step + run->next[rank][l]];
                if (!messages_are_there(run, rank_plan, step)) continue;
                run_step(run, rank_plan, step);
                run->next[rank][l]++;
                moved = true;
            }
    }
    const float result = run->buffers[0][PLAN_OUTPUT][0];
    for (int rank = 0; rank < ranks; rank++) {
        for (uint32_t l = 0; l < plan->ranks[rank]->lane_count; l++)
            assert_int_equal(run->next[rank][l], plan->ranks[rank]->lanes[l].step_count);
        for (uint32_t i = 0; i < plan->shape.parts; i++)
            assert_memory_equal(&run->buffers[rank][PLAN_OUTPUT][i], &result, sizeof result);
    }
    free(run);
    plan_free(plan);
    return result;
}

/* Numbers of many magnitudes, so that another order of additions gives other bits. */
static void halving_gives_the_bits_of_doubling(void **state)
{
    (void)state;
    int others_differ = 0;
    for (int ranks = 2; ranks <= BITS_RANKS_MAX; ranks++)
        for (uint32_t trial = 0; trial < 20; trial++) {
            float inputs[BITS_RANKS_MAX];
            uint32_t random = trial * 977 + (uint32_t)ranks;
            for (int i = 0; i < ranks; i++) {
                random = random * 1664525 + 1013904223;
                inputs[i] = (float)(random >> 8) / (float)(1 << (random >> 28));
            }
            const float doubling = allreduce_bits("doubling", ranks, inputs);
            const float halving = allreduce_bits("halving_doubling", ranks, inputs);
            const float oneshot = allreduce_bits("oneshot", ranks, inputs);
            const float twoshot = allreduce_bits("twoshot", ranks, inputs);
            assert_memory_equal(&halving, &doubling, sizeof doubling);
            assert_memory_equal(&twoshot, &oneshot, sizeof oneshot);
            others_differ += memcmp(&oneshot, &doubling, sizeof oneshot) != 0;
        }
    assert_true(others_differ > 0);
}

/* ---------------------------------------------------------------------------------- composition */

static void ring_allreduce_is_its_halves_composed(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 17; ranks++) {
        struct plan *direct = make_named(COLLECTIVE_ALLREDUCE, "ring", ranks),
                    *whole = empty_plan(ranks);
        struct plan *scatter = make_named(COLLECTIVE_REDUCE_SCATTER, "ring", ranks);
        struct plan *gather = make_named(COLLECTIVE_ALLGATHER, "ring", ranks);
        for (int rank = 0; rank < ranks; rank++) {
            const struct composition composition = {.first = scatter->ranks[rank],
                                                    .second = gather->ranks[rank],
                                                    .collective = COLLECTIVE_ALLREDUCE,
                                                    .second_channel = 2};
            const char *message;
            assert_int_equal(compose_rank(&composition, &whole->ranks[rank], &message), TUTTI_OK);
            assert_int_equal(whole->ranks[rank]->step_count, direct->ranks[rank]->step_count);
            assert_int_equal(chunks_sent(whole->ranks[rank]), chunks_sent(direct->ranks[rank]));
        }
        whole->shape = whole->ranks[0]->shape;
        assert_int_equal(whole->shape.parts, ranks);
        for (int in_place = 0; in_place < 2; in_place++)
            prove(whole, &(struct verify_options){.in_place = in_place}, "composed ring");
        plan_free(direct);
        plan_free(scatter);
        plan_free(gather);
        plan_free(whole);
    }
}

static void composition_makes_no_idle_copies(void **state)
{
    (void)state;
    struct rank_plan *plan = make_rank(COLLECTIVE_REDUCE, "twoshot", 5, 0);
    for (uint32_t i = 0; i < plan->step_count; i++)
        assert_string_not_equal(plan_step_kind(plan, &plan->steps[i]), "copy");
    plan_rank_free(plan);
}

static void plans_that_do_not_fit_are_not_composed(void **state)
{
    (void)state;
    static const struct {
        enum collective first, second, whole;
        int first_ranks, second_ranks;
    } cases[] = {
        {COLLECTIVE_GATHER, COLLECTIVE_GATHER, COLLECTIVE_GATHER, 4, 4},
        {COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_BROADCAST, COLLECTIVE_ALLREDUCE, 4, 4},
        {COLLECTIVE_REDUCE, COLLECTIVE_BROADCAST, COLLECTIVE_REDUCE, 4, 4},
        {COLLECTIVE_REDUCE, COLLECTIVE_BROADCAST, COLLECTIVE_ALLREDUCE, 4, 5},
        {COLLECTIVE_ALLTOALL, COLLECTIVE_ALLTOALL, COLLECTIVE_ALLTOALL, 4, 4},
        {COLLECTIVE_BARRIER, COLLECTIVE_BARRIER, COLLECTIVE_BARRIER, 4, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const names[COLLECTIVE_COUNT] = {
            [COLLECTIVE_GATHER] = "tree",       [COLLECTIVE_REDUCE_SCATTER] = "ring",
            [COLLECTIVE_BROADCAST] = "tree",    [COLLECTIVE_REDUCE] = "tree",
            [COLLECTIVE_ALLTOALL] = "pairwise", [COLLECTIVE_BARRIER] = "tree",
        };
        struct rank_plan *first =
            make_rank(cases[i].first, names[cases[i].first], cases[i].first_ranks, 1);
        struct rank_plan *second =
            make_rank(cases[i].second, names[cases[i].second], cases[i].second_ranks, 1);
        struct rank_plan *whole;
        const char *message = "";
        const struct composition composition = {
            .first = first, .second = second, .collective = cases[i].whole};
        assert_int_equal(compose_rank(&composition, &whole, &message), TUTTI_INVALID_ALGORITHM);
        assert_null(whole);
        assert_string_equal(message, "the composed plans do not fit each other");
        plan_rank_free(first);
        plan_rank_free(second);
    }
}

static void reduce_then_broadcast_is_allreduce(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 9; ranks++) {
        struct plan *whole = empty_plan(ranks);
        for (int rank = 0; rank < ranks; rank++) {
            struct rank_plan *first = make_rank(COLLECTIVE_REDUCE, "tree", ranks, rank);
            struct rank_plan *second = make_rank(COLLECTIVE_BROADCAST, "chain", ranks, rank);
            const struct composition composition = {.first = first,
                                                    .second = second,
                                                    .collective = COLLECTIVE_ALLREDUCE,
                                                    .second_channel = 1};
            const char *message;
            assert_int_equal(compose_rank(&composition, &whole->ranks[rank], &message), TUTTI_OK);
            plan_rank_free(first);
            plan_rank_free(second);
        }
        whole->shape = whole->ranks[0]->shape;
        assert_int_equal(whole->ranks[0]->step_count, 1); /* the root sends on what it has reduced */
        for (int in_place = 0; in_place < 2; in_place++)
            prove(whole,
                  &(struct verify_options){.in_place = in_place, .associative_tree_uniform = true},
                  "reduce, broadcast");
        plan_free(whole);
    }
}

/* ------------------------------------------------------------------------------------ embedding */

/* Hosts of `locals` ranks each: reduce_scatter on the host, allreduce of each part between equals
 * of all hosts, allgather on the host. */
static struct rank_plan *hierarchical_rank(int hosts, int locals, const char *across_name, int rank)
{
    const int host = rank / locals, local = rank % locals;
    int on_host[8], equals[8];
    for (int i = 0; i < locals; i++) on_host[i] = host * locals + i;
    for (int i = 0; i < hosts; i++) equals[i] = i * locals + local;
    struct rank_plan *scatter = make_rank(COLLECTIVE_REDUCE_SCATTER, "direct", locals, local);
    struct rank_plan *across = make_rank(COLLECTIVE_ALLREDUCE, across_name, hosts, host);
    struct rank_plan *gather = make_rank(COLLECTIVE_ALLGATHER, "direct", locals, local);
    const uint32_t parts = across->shape.parts, own = (uint32_t)local * parts;
    const struct embedding embeddings[] = {
        {.plan = scatter,
         .ranks = on_host,
         .scale = parts,
         .input = {PLAN_INPUT, 0},
         .output = {PLAN_OUTPUT, own},
         .partial = true},
        {.plan = across,
         .ranks = equals,
         .scale = 1,
         .first_class = own,
         .input = {PLAN_OUTPUT, own},
         .output = {PLAN_OUTPUT, own},
         .first_channel = 2},
        {.plan = gather,
         .ranks = on_host,
         .scale = parts,
         .input = {PLAN_OUTPUT, own},
         .output = {PLAN_OUTPUT, 0},
         .first_channel = 4},
    };
    const struct plan_shape whole = {COLLECTIVE_ALLREDUCE, hosts * locals, 0,
                                     (uint32_t)locals * parts};
    struct plan_builder *builder = plan_builder_create(whole.collective, whole.rank_count, 0, rank);
    struct rank_plan *plan;
    const char *message;
    assert_non_null(builder);
    plan_parts(builder, whole.parts);
    compose_sequence(builder, &whole, embeddings, 3);
    if (plan_builder_finish(builder, &plan, &message) != TUTTI_OK) fail_msg("%s", message);
    plan_builder_free(builder);
    plan_rank_free(scatter);
    plan_rank_free(across);
    plan_rank_free(gather);
    return plan;
}

static void hierarchical_allreduce_is_three_embedded_plans(void **state)
{
    (void)state;
    static const char *const across[] = {"oneshot", "twoshot", "doubling", "halving_doubling",
                                         "ring",    "chain",   "tree"};
    for (size_t k = 0; k < sizeof across / sizeof *across; k++)
        for (int hosts = 2; hosts <= 5; hosts++)
            for (int locals = 2; locals <= 4; locals++) {
                struct plan *plan = empty_plan(hosts * locals);
                for (int rank = 0; rank < hosts * locals; rank++)
                    plan->ranks[rank] = hierarchical_rank(hosts, locals, across[k], rank);
                plan->shape = plan->ranks[0]->shape;
                for (int in_place = 0; in_place < 2; in_place++)
                    prove(plan, &(struct verify_options){.in_place = in_place}, across[k]);
                plan_free(plan);
            }
}

enum { SHARES_MAX = 9 };

/* An allreduce in which rank i has shares[i] chunks of the vector, none perhaps. */
static struct rank_plan *uneven_rank(const char *scatter_name, const char *gather_name,
                                     const uint32_t *shares, int ranks, int rank)
{
    uint32_t starts[SHARES_MAX + 1] = {0}, like[SHARES_MAX * 4];
    for (int i = 0; i < ranks; i++) starts[i + 1] = starts[i] + shares[i];
    for (uint32_t i = 0; i < starts[ranks]; i++) like[i] = i;
    struct rank_plan *scatter = make_rank(COLLECTIVE_REDUCE_SCATTER, scatter_name, ranks, rank);
    struct rank_plan *gather = make_rank(COLLECTIVE_ALLGATHER, gather_name, ranks, rank);
    const struct plan_location own = {PLAN_OUTPUT, starts[rank]};
    const struct embedding embeddings[] = {
        {.plan = scatter, .starts = starts, .like = like, .input = {PLAN_INPUT, 0}, .output = own},
        {.plan = gather,
         .starts = starts,
         .like = like,
         .input = own,
         .output = {PLAN_OUTPUT, 0},
         .first_channel = 2},
    };
    const struct plan_shape whole = {COLLECTIVE_ALLREDUCE, ranks, 0, starts[ranks]};
    struct plan_builder *builder = plan_builder_create(COLLECTIVE_ALLREDUCE, ranks, 0, rank);
    struct rank_plan *plan;
    const char *message;
    assert_non_null(builder);
    plan_parts(builder, whole.parts);
    compose_sequence(builder, &whole, embeddings, 2);
    if (plan_builder_finish(builder, &plan, &message) != TUTTI_OK) fail_msg("%s", message);
    plan_builder_free(builder);
    plan_rank_free(scatter);
    plan_rank_free(gather);
    return plan;
}

static void shares_of_embedded_plans_may_be_uneven_and_empty(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"direct", "direct"},   {"ring", "ring"},
                                           {"circulant", "bruck"}, {"halving", "circulant"},
                                           {"pairwise", "direct"}, {"ring", "two_way_ring"}};
    uint32_t random = 3;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int ranks = 2; ranks <= SHARES_MAX; ranks++) {
            uint32_t shares[SHARES_MAX], sum = 0, sent = 0;
            for (int i = 0; i < ranks; i++) {
                random = random * 1664525 + 1013904223;
                sum += shares[i] = i == ranks / 2 ? 3 : (random >> 8) % 4;
            }
            struct plan *plan = empty_plan(ranks);
            for (int rank = 0; rank < ranks; rank++) {
                plan->ranks[rank] = uneven_rank(names[k][0], names[k][1], shares, ranks, rank);
                sent += chunks_sent(plan->ranks[rank]);
            }
            plan->shape = plan->ranks[0]->shape;
            for (int in_place = 0; in_place < 2; in_place++)
                prove(plan, &(struct verify_options){.in_place = in_place}, names[k][0]);
            if (strcmp(names[k][0], "halving") != 0) /* each chunk from p-1 ranks and to as many */
                assert_int_equal(sent, 2 * (uint32_t)(ranks - 1) * sum);
            plan_free(plan);
        }
}

static void uneven_ranges_lie_in_one_piece(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    static const uint32_t starts[] = {0, 1, 2, 3, 4}, like[] = {0, 1, 2, 3}, torn[] = {0, 2, 1, 3};
    struct rank_plan *gather = make_rank(COLLECTIVE_ALLGATHER, "doubling", RANKS, 0), *plan;
    struct embedding embedding = {
        .plan = gather, .starts = starts, .like = like, .output = {PLAN_OUTPUT, 0}};
    const struct plan_shape whole = {COLLECTIVE_ALLGATHER, RANKS, 0, 1};
    for (int is_torn = 0; is_torn < 2; is_torn++) {
        struct plan_builder *builder = plan_builder_create(COLLECTIVE_ALLGATHER, RANKS, 0, 0);
        const char *message = "";
        assert_non_null(builder);
        embedding.output_at = is_torn ? torn : like;
        compose_sequence(builder, &whole, &embedding, 1);
        assert_int_equal(plan_builder_finish(builder, &plan, &message),
                         is_torn ? TUTTI_INVALID_ALGORITHM : TUTTI_OK);
        if (is_torn) assert_non_null(strstr(message, "several pieces"));
        if (!is_torn) plan_rank_free(plan);
        plan_builder_free(builder);
    }
    plan_rank_free(gather);
}

static void ranks_without_a_part_may_be_left_out(void **state)
{
    (void)state;
    static const int upper[] = {1, 2, 4}, both[] = {0, 1};
    struct plan *plan = empty_plan(5);
    for (int rank = 0; rank < 5;
         rank++) { /* from 0 to 1, and from there to 2 and 4; 3 hears from 4 */
        struct rank_plan *first = rank < 2 ? make_rank(COLLECTIVE_BROADCAST, "tree", 2, rank) : NULL;
        const int place = rank == 4 ? 2 : rank - 1;
        struct rank_plan *second =
            rank == 0 || rank == 3 ? NULL : make_rank(COLLECTIVE_BROADCAST, "direct", 3, place);
        static const int last[] = {3, 4};
        const struct algo_params from_4 = {
            .collective = COLLECTIVE_BROADCAST, .rank_count = 2, .root = 1};
        struct rank_plan *third = NULL;
        const char *message;
        if (rank >= 3)
            assert_int_equal(algo_rank_plan(find(COLLECTIVE_BROADCAST, "tree"), &from_4, rank - 3,
                                            &third, &message),
                             TUTTI_OK);
        const struct plan_location output = {PLAN_OUTPUT, 0};
        const struct embedding embeddings[] = {
            {.plan = first, .ranks = both, .scale = 1, .input = {PLAN_INPUT, 0}, .output = output},
            {.plan = second,
             .ranks = upper,
             .scale = 1,
             .input = output,
             .output = output,
             .first_channel = 1},
            {.plan = third,
             .ranks = last,
             .scale = 1,
             .input = output,
             .output = output,
             .first_channel = 2},
        };
        const struct plan_shape whole = {COLLECTIVE_BROADCAST, 5, 0, 1};
        struct plan_builder *builder = plan_builder_create(COLLECTIVE_BROADCAST, 5, 0, rank);
        assert_non_null(builder);
        compose_sequence(builder, &whole, embeddings, 3);
        if (plan_builder_finish(builder, &plan->ranks[rank], &message) != TUTTI_OK)
            fail_msg("%s", message);
        plan_builder_free(builder);
        plan_rank_free(first);
        plan_rank_free(second);
        plan_rank_free(third);
    }
    plan->shape = plan->ranks[0]->shape;
    prove(plan, &(struct verify_options){.in_place = false}, "three broadcasts");
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_for_each_collective),
        cmocka_unit_test(names_may_carry_a_radix),
        cmocka_unit_test(exactly_those_that_say_so_take_a_radix),
        cmocka_unit_test(entries_are_complete),
        cmocka_unit_test(every_collective_has_two_algorithms_for_any_rank_count),
        cmocka_unit_test(deterministic_reductions_exist_for_any_rank_count),
        cmocka_unit_test(impossible_demands_are_refused),
        cmocka_unit_test(a_rank_that_keeps_its_partner_sends_to_nobody_else),
        cmocka_unit_test(a_paced_rank_sends_to_two_and_then_waits),
        cmocka_unit_test(every_algorithm_is_proven_for_every_rank_count),
        cmocka_unit_test(every_algorithm_is_proven_for_some_large_rank_counts),
        cmocka_unit_test(logarithmic_algorithms_are_proven_for_a_thousand_ranks),
        cmocka_unit_test(every_algorithm_is_proven_in_any_order_of_ranks),
        cmocka_unit_test(generators_get_the_order_of_ranks),
        cmocka_unit_test(an_order_has_every_rank_once),
        cmocka_unit_test(ranks_may_differ_in_being_in_place),
        cmocka_unit_test(one_rank_of_the_most_is_planned),
        cmocka_unit_test(a_single_rank_only_copies),
        cmocka_unit_test(oneshot_is_two_steps_and_one_message_to_all),
        cmocka_unit_test(bandwidth_optimal_allreduces_send_the_least),
        cmocka_unit_test(rings_send_one_chunk_to_one_neighbour_in_every_step),
        cmocka_unit_test(doubling_takes_log2_rounds),
        cmocka_unit_test(halving_takes_log2_rounds_each_way),
        cmocka_unit_test(dissemination_takes_log2_rounds_for_any_count),
        cmocka_unit_test(trees_are_as_deep_as_the_radix_says),
        cmocka_unit_test(chains_are_one_step_a_rank),
        cmocka_unit_test(pairwise_has_one_exchange_in_flight),
        cmocka_unit_test(halving_gives_the_bits_of_doubling),
        cmocka_unit_test(ring_allreduce_is_its_halves_composed),
        cmocka_unit_test(composition_makes_no_idle_copies),
        cmocka_unit_test(plans_that_do_not_fit_are_not_composed),
        cmocka_unit_test(reduce_then_broadcast_is_allreduce),
        cmocka_unit_test(hierarchical_allreduce_is_three_embedded_plans),
        cmocka_unit_test(shares_of_embedded_plans_may_be_uneven_and_empty),
        cmocka_unit_test(uneven_ranges_lie_in_one_piece),
        cmocka_unit_test(ranks_without_a_part_may_be_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
