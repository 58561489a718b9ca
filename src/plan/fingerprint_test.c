/* Equal plans have equal fingerprints, other plans other ones; and both are the same on every
 * machine. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "plan/fingerprint.h"
#include "plan/text.h"

static struct plan *parse(const char *text)
{
    struct plan *plan;
    char message[200];
    if (plan_parse(text, strlen(text), &plan, message, sizeof message) != TUTTI_OK)
        fail_msg("%s in %s", message, text);
    return plan;
}

static char *print(const struct plan *plan)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    plan_print(plan, file);
    assert_int_equal(fclose(file), 0);
    return text;
}

/* Everything that a plan can say. */
static const char *const everything = "plan allreduce ranks 3 parts 2\n"
                                      "rank 0\n"
                                      "  group 0: 0 1 2\n"
                                      "  group 1: 0 2\n"
                                      "  scratch like 0 1\n"
                                      "  lane 0\n"
                                      "    in[0..1] -> scratch[0..1], to 1, to 2\n"
                                      "    from 1 + in[0] + from 2 channel 3 -> out[0], to group 0 "
                                      "channel 1  final\n"
                                      "  lane 1\n"
                                      "    from 2 group 1 channel 2 -> out[1]  after 0.0 0.1\n"
                                      "    from 1 channel 4 -> to 2 channel 5  chunks 2\n"
                                      "rank 1\n"
                                      "rank 2\n"
                                      "  group 0: 0 2\n"
                                      "  lane 0\n"
                                      "    in[1] -> to group 0\n";
static const char *const barrier = "plan barrier ranks 2 parts 1\n"
                                   "rank 0\n"
                                   "  lane 0\n"
                                   "    in[] -> to 1\n"
                                   "    from 1 -> out[]\n"
                                   "rank 1\n"
                                   "  lane 0\n"
                                   "    in[] -> to 0\n"
                                   "    from 0 -> out[]\n";

/* Computed once by another program, in another language. */
static void fingerprints_are_the_same_everywhere(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t fingerprint;
    } known[] = {
        {"plan broadcast ranks 2 root 1 parts 1\nrank 0\nrank 1\n", UINT64_C(0x6df20da40d7a9e5a)},
        {everything, UINT64_C(0xf8f4efeacfe6fa8e)},
        {barrier, UINT64_C(0x24727cfc4ab5f314)}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct plan *plan = parse(known[i].text);
        if (plan_fingerprint(plan) != known[i].fingerprint)
            fail_msg("plan %zu: 0x%016" PRIx64, i, plan_fingerprint(plan));
        plan_free(plan);
    }
}

/* ----------------------------------------------------------------------------------- one change */

/* The plan that is changed, in one place at a time, and what it had at first. */
struct victim {
    struct plan *plan;
    uint64_t fingerprint;
    int changes;
};

static void expect_change(struct victim *victim, const char *what)
{
    if (plan_fingerprint(victim->plan) == victim->fingerprint) fail_msg("%s does not show", what);
    victim->changes++;
}

#define CHANGE(victim, field, value)            \
    do {                                        \
        const __typeof__(field) before = field; \
        field = value;                          \
        expect_change(victim, #field);          \
        field = before;                         \
    } while (0)

/* A field that the plan does not use has no part in the fingerprint. */
#define CHANGE_IN_VAIN(victim, field, value)                                    \
    do {                                                                        \
        const __typeof__(field) before = field;                                 \
        field = value;                                                          \
        assert_true(plan_fingerprint((victim)->plan) == (victim)->fingerprint); \
        field = before;                                                         \
    } while (0)

static void change_place(struct victim *victim, const struct plan_step *step,
                         struct plan_location *place)
{
    CHANGE(victim, place->buffer, (enum plan_buffer)((place->buffer + 1) % PLAN_BUFFER_COUNT));
    CHANGE(victim, place->buffer, (enum plan_buffer)((place->buffer + 2) % PLAN_BUFFER_COUNT));
    if (step->chunk_count > 0)
        CHANGE(victim, place->first, place->first + 1);
    else
        CHANGE_IN_VAIN(victim, place->first, place->first + 1);
}

static void change_source(struct victim *victim, const struct plan_step *step,
                          struct plan_source *source)
{
    CHANGE(victim, source->is_link, !source->is_link);
    if (source->is_link) {
        CHANGE(victim, source->peer, source->peer + 1);
        CHANGE(victim, source->group, source->group + 1);
        CHANGE(victim, source->channel, source->channel + 1);
        CHANGE_IN_VAIN(victim, source->location.first, 77);
    } else {
        change_place(victim, step, &source->location);
        CHANGE_IN_VAIN(victim, source->channel, 7);
    }
}

static void change_step(struct victim *victim, struct rank_plan *plan, struct plan_step *step)
{
    const bool sends = step->target_count > 0 || step->target_group != PLAN_NO_GROUP;
    CHANGE(victim, step->chunk_count, step->chunk_count + 1);
    CHANGE(victim, step->source_count, step->source_count - 1);
    CHANGE(victim, step->final, !step->final);
    CHANGE(victim, step->has_destination, !step->has_destination);
    for (uint32_t i = 0; i < step->source_count; i++)
        change_source(victim, step, &plan->sources[step->first_source + i]);
    for (uint32_t i = 0; i + 1 < step->source_count; i++) { /* another order of reduction */
        struct plan_source *two = &plan->sources[step->first_source + i];
        const struct plan_source first = two[0], second = two[1];
        two[0] = second, two[1] = first;
        expect_change(victim, "order of sources");
        two[0] = first, two[1] = second;
    }
    if (step->has_destination)
        change_place(victim, step, &step->destination);
    else
        CHANGE_IN_VAIN(victim, step->destination.first, 77);
    for (uint32_t i = 0; i < step->target_count; i++)
        CHANGE(victim, plan->targets[step->first_target + i],
               plan->targets[step->first_target + i] + 1);
    if (step->target_count > 0) CHANGE(victim, step->target_count, step->target_count - 1);
    CHANGE(victim, step->target_group, step->target_group + 1);
    if (sends)
        CHANGE(victim, step->target_channel, step->target_channel + 1);
    else
        CHANGE_IN_VAIN(victim, step->target_channel, 7);
    for (uint32_t i = 0; i < step->after_count; i++)
        CHANGE(victim, plan->afters[step->first_after + i], plan->afters[step->first_after + i] + 1);
    if (step->after_count > 0) CHANGE(victim, step->after_count, step->after_count - 1);
}

static void change_rank(struct victim *victim, struct rank_plan *plan)
{
    for (uint32_t i = 0; i < plan->step_count; i++) change_step(victim, plan, &plan->steps[i]);
    for (uint32_t l = 0; l + 1 < plan->lane_count; l++) { /* a step moves to the lane before */
        struct plan_lane *two = &plan->lanes[l];
        const struct plan_lane second = two[1];
        two[0].step_count++, two[1].first_step++, two[1].step_count--;
        expect_change(victim, "lanes");
        two[0].step_count--, two[1] = second;
    }
    for (uint32_t i = 0; i < plan->scratch_count; i++)
        CHANGE(victim, plan->scratch_like[i], plan->scratch_like[i] + 1);
    if (plan->scratch_count > 0) CHANGE(victim, plan->scratch_count, plan->scratch_count - 1);
    for (uint32_t i = 0; i < plan->member_count; i++)
        CHANGE(victim, plan->members[i], plan->members[i] + 1);
    if (plan->group_count > 0) CHANGE(victim, plan->group_count, plan->group_count - 1);
    for (uint32_t i = 0; i < plan->step_count; i++) { /* swapped with the next step */
        if (i + 1 == plan->step_count || plan->steps[i].lane != plan->steps[i + 1].lane) continue;
        const struct plan_step first = plan->steps[i], second = plan->steps[i + 1];
        plan->steps[i] = second, plan->steps[i + 1] = first;
        expect_change(victim, "order of steps");
        plan->steps[i] = first, plan->steps[i + 1] = second;
    }
}

static void change_plan(struct victim *victim)
{
    struct plan *plan = victim->plan;
    struct plan_shape *shape = &plan->shape;
    victim->fingerprint = plan_fingerprint(plan);
    CHANGE(victim, shape->collective, (enum collective)((shape->collective + 1) % COLLECTIVE_COUNT));
    CHANGE(victim, shape->root, shape->root + 1);
    CHANGE(victim, shape->parts, shape->parts + 1);
    CHANGE(victim, shape->rank_count, shape->rank_count - 1);
    for (int rank = 0; rank < shape->rank_count; rank++) change_rank(victim, plan->ranks[rank]);
    for (int rank = 0; rank + 1 < shape->rank_count; rank++) { /* ranks change places */
        struct rank_plan *first = plan->ranks[rank], *second = plan->ranks[rank + 1];
        char *before = print(plan);
        plan->ranks[rank] = second, plan->ranks[rank + 1] = first;
        second->rank = rank, first->rank = rank + 1;
        char *after = print(plan);
        if (strcmp(before, after) != 0) expect_change(victim, "order of ranks");
        plan->ranks[rank] = first, plan->ranks[rank + 1] = second;
        first->rank = rank, second->rank = rank + 1;
        free(before);
        free(after);
    }
}

static void every_single_change_shows(void **state)
{
    (void)state;
    struct victim victim = {0};
    for (int i = 0; i < 2; i++) {
        victim.plan = parse(i == 0 ? everything : barrier);
        change_plan(&victim);
        plan_free(victim.plan);
    }
    for (int i = 0; i < algo_count; i++) {
        const struct algo_params params = {.collective = algo_list[i].collective, .rank_count = 4};
        const char *message;
        if (!algo_supports(&algo_list[i], params.rank_count)) continue;
        assert_int_equal(algo_plan(&algo_list[i], &params, &victim.plan, &message), TUTTI_OK);
        change_plan(&victim);
        plan_free(victim.plan);
    }
    print_message("%d changes\n", victim.changes);
    assert_true(victim.changes > 10000);
}

/* -------------------------------------------------------------------------------- the same plan */

/* Puts sources, targets and steps to wait for back to front in a rank's arrays: their positions
 * there have no part in the fingerprint. */
static void turn_arrays_around(struct rank_plan *plan)
{
    struct plan_source *sources = calloc(plan->source_count + 1, sizeof *sources);
    int *targets = calloc(plan->target_count + 1, sizeof *targets);
    uint32_t *afters = calloc(plan->after_count + 1, sizeof *afters);
    uint32_t source = plan->source_count, target = plan->target_count, after = plan->after_count;
    assert_true(sources != NULL && targets != NULL && afters != NULL);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        struct plan_step *step = &plan->steps[i];
        source -= step->source_count, target -= step->target_count, after -= step->after_count;
        for (uint32_t k = 0; k < step->source_count; k++)
            sources[source + k] = plan->sources[step->first_source + k];
        for (uint32_t k = 0; k < step->target_count; k++)
            targets[target + k] = plan->targets[step->first_target + k];
        for (uint32_t k = 0; k < step->after_count; k++)
            afters[after + k] = plan->afters[step->first_after + k];
        step->first_source = source, step->first_target = target, step->first_after = after;
    }
    free(plan->sources);
    free(plan->targets);
    free(plan->afters);
    plan->sources = sources, plan->targets = targets, plan->afters = afters;
}

struct seen {
    uint64_t fingerprint;
    char *text;
};

static int compare_seen(const void *one, const void *other)
{
    const struct seen *a = one, *b = other;
    return (a->fingerprint > b->fingerprint) - (a->fingerprint < b->fingerprint);
}

enum { SEEN_MAX = 4000 };

static void look_at(const struct algorithm *algorithm, const struct algo_params *params,
                    struct seen *seen)
{
    struct plan *plan;
    const char *message;
    assert_int_equal(algo_plan(algorithm, params, &plan, &message), TUTTI_OK);
    *seen = (struct seen){plan_fingerprint(plan), print(plan)};
    struct plan *again = parse(seen->text);
    assert_true(plan_fingerprint(again) == seen->fingerprint);
    for (int rank = 0; rank < params->rank_count; rank++) turn_arrays_around(plan->ranks[rank]);
    assert_true(plan_fingerprint(plan) == seen->fingerprint);
    plan_free(again);
    plan_free(plan);
}

/* Compares the plans of all algorithms; the text form decides which plans are the same. */
static void two_plans_have_one_fingerprint_exactly_if_they_are_the_same(void **state)
{
    (void)state;
    struct seen *seen = calloc(SEEN_MAX, sizeof *seen);
    int count = 0, same = 0;
    assert_non_null(seen);
    for (int i = 0; i < algo_count; i++)
        for (int ranks = 2; ranks <= 9; ranks++)
            for (int root = 0; root < (collective_is_rooted(algo_list[i].collective) ? ranks : 1);
                 root++) {
                if (!algo_supports(&algo_list[i], ranks)) continue;
                const struct algo_params params = {
                    .collective = algo_list[i].collective, .rank_count = ranks, .root = root};
                assert_true(count < SEEN_MAX);
                look_at(&algo_list[i], &params, &seen[count++]);
            }
    qsort(seen, (size_t)count, sizeof *seen, compare_seen);
    for (int i = 1; i < count; i++) {
        if (seen[i].fingerprint != seen[i - 1].fingerprint) continue;
        assert_string_equal(seen[i].text, seen[i - 1].text);
        same++;
    }
    print_message("%d plans, %d of them like another one\n", count, same);
    assert_true(count > 500);
    for (int i = 0; i < count; i++) free(seen[i].text);
    free(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fingerprints_are_the_same_everywhere),
        cmocka_unit_test(every_single_change_shows),
        cmocka_unit_test(two_plans_have_one_fingerprint_exactly_if_they_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
