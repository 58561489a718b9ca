/* mutation_test.c - damages right plans in one place, sometimes two, and asks two judges.
 *
 * The verifier proves or refutes each mutant; the search of tests/plans/explore.c runs it in all
 * orders. A mutant that the verifier proves must be right in every order, in every mode of the
 * search; so whatever the search finds wrong is refuted by the verifier, with rank, lane and step.
 * The verifier may be stricter.
 *
 * The same with results that are placed in their receivers' memory, by the engine's rule
 * (placement.h) and by weaker ones: of those, too, the verifier proves nothing that the search
 * finds wrong.
 *
 * ctest: label=notsan timeout=300
 * TUTTI_MUTANTS and TUTTI_SEED choose how many mutants, and which.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "plan/verify.h"
#include "tests/plans/explore.h"
#include "tests/plans/placement_plans.h"
#include "tests/plans/sample_plans.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MUTANTS = 3000 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
enum { MUTANTS = 3000 };
#else
enum { MUTANTS = 30000 };
#endif
#else
enum { MUTANTS = 30000 };
#endif

enum { RANKS_MAX = 5, LIST_MAX = 20, STEPS_MAX = 96, BASES_MAX = 1024, EVENTS_MAX = 60000 };

static uint64_t random_state;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

static uint32_t random_below(uint32_t bound)
{
    return bound == 0 ? 0 : (uint32_t)(random_bits() % bound);
}

static bool chance(uint32_t one_in)
{
    return random_below(one_in) == 0;
}

/* --------------------------------------------------------------------------------------- drafts */

/* One rank's steps, each with its own short lists, so that they can be changed. */
struct draft_step {
    struct plan_step step;
    uint32_t id; /* the number by which other steps' afters name it */
    struct plan_source sources[LIST_MAX];
    int targets[LIST_MAX];
    uint32_t afters[LIST_MAX];
};

struct draft {
    const struct rank_plan *from;
    uint32_t lane_count, step_count, next_id;
    struct draft_step steps[STEPS_MAX]; /* in order of lanes */
};

static void draft_open(struct draft *draft, const struct rank_plan *from)
{
    draft->from = from;
    draft->lane_count = from->lane_count;
    draft->step_count = draft->next_id = from->step_count;
    for (uint32_t i = 0; i < from->step_count; i++) {
        struct draft_step *to = &draft->steps[i];
        to->step = from->steps[i];
        to->id = i;
        memcpy(to->sources, from->sources + to->step.first_source,
               to->step.source_count * sizeof to->sources[0]);
        if (to->step.target_count > 0)
            memcpy(to->targets, from->targets + to->step.first_target,
                   to->step.target_count * sizeof to->targets[0]);
        if (to->step.after_count > 0)
            memcpy(to->afters, from->afters + to->step.first_after,
                   to->step.after_count * sizeof to->afters[0]);
    }
}

static bool fits_draft(const struct rank_plan *from)
{
    if (from->step_count + 2 > STEPS_MAX || from->lane_count + 2 > PLAN_LANES_MAX) return false;
    for (uint32_t i = 0; i < from->step_count; i++)
        if (from->steps[i].source_count + 2 > LIST_MAX ||
            from->steps[i].target_count + 2 > LIST_MAX || from->steps[i].after_count + 2 > LIST_MAX)
            return false;
    return true;
}

static void *copy_array(const void *from, size_t count, size_t item_bytes)
{
    void *copy = calloc(count + 1, item_bytes);
    assert_non_null(copy);
    if (count > 0) memcpy(copy, from, count * item_bytes);
    return copy;
}

/* Dropped steps are no longer waited for. */
static uint32_t index_of(const struct draft *draft, uint32_t id)
{
    uint32_t i = 0;
    while (i < draft->step_count && draft->steps[i].id != id) i++;
    return i;
}

static struct rank_plan *draft_close(const struct draft *draft)
{
    const struct rank_plan *from = draft->from;
    struct rank_plan *plan = copy_array(from, 1, sizeof *plan);
    plan->lane_count = draft->lane_count;
    plan->step_count = draft->step_count;
    plan->groups = copy_array(from->groups, from->group_count, sizeof *from->groups);
    plan->members = copy_array(from->members, from->member_count, sizeof *from->members);
    plan->scratch_like =
        copy_array(from->scratch_like, from->scratch_count, sizeof *from->scratch_like);
    plan->lanes = calloc(draft->lane_count + 1, sizeof *plan->lanes);
    plan->steps = calloc(draft->step_count + 1, sizeof *plan->steps);
    plan->sources = calloc(draft->step_count * LIST_MAX + 1, sizeof *plan->sources);
    plan->targets = calloc(draft->step_count * LIST_MAX + 1, sizeof *plan->targets);
    plan->afters = calloc(draft->step_count * LIST_MAX + 1, sizeof *plan->afters);
    assert_true(plan->lanes && plan->steps && plan->sources && plan->targets && plan->afters);
    plan->source_count = plan->target_count = plan->after_count = 0;
    for (uint32_t i = 0; i < draft->step_count; i++) {
        const struct draft_step *s = &draft->steps[i];
        struct plan_step *step = &plan->steps[i];
        *step = s->step;
        step->first_source = plan->source_count;
        for (uint32_t k = 0; k < s->step.source_count; k++)
            plan->sources[plan->source_count++] = s->sources[k];
        step->first_target = plan->target_count;
        for (uint32_t k = 0; k < s->step.target_count; k++)
            plan->targets[plan->target_count++] = s->targets[k];
        step->first_after = plan->after_count;
        step->after_count = 0;
        for (uint32_t k = 0; k < s->step.after_count; k++) {
            const uint32_t index = index_of(draft, s->afters[k]);
            if (index == draft->step_count) continue;
            plan->afters[plan->after_count++] = index;
            step->after_count++;
        }
        plan->lanes[step->lane].step_count++;
    }
    for (uint32_t i = 1; i < plan->lane_count; i++)
        plan->lanes[i].first_step = plan->lanes[i - 1].first_step + plan->lanes[i - 1].step_count;
    return plan;
}

/* ------------------------------------------------------------------------------------ mutations */

static void remove_step(struct draft *d, uint32_t at)
{
    d->step_count--;
    memmove(&d->steps[at], &d->steps[at + 1], (d->step_count - at) * sizeof d->steps[0]);
}

static void insert_step(struct draft *d, uint32_t at, const struct draft_step *step)
{
    memmove(&d->steps[at + 1], &d->steps[at], (d->step_count - at) * sizeof d->steps[0]);
    d->steps[at] = *step;
    d->step_count++;
}

/* The index of a lane's first step, where all earlier lanes end. */
static uint32_t lane_begin(const struct draft *d, uint32_t lane)
{
    uint32_t i = 0;
    while (i < d->step_count && d->steps[i].step.lane < lane) i++;
    return i;
}

static void move_step(struct draft *d, uint32_t at, uint32_t lane)
{
    struct draft_step step = d->steps[at];
    step.step.lane = lane;
    remove_step(d, at);
    const uint32_t begin = lane_begin(d, lane), end = lane_begin(d, lane + 1);
    insert_step(d, begin + random_below(end - begin + 1), &step);
}

static void swap_steps(struct draft *d, uint32_t at)
{
    const uint32_t lane = d->steps[at].step.lane;
    const uint32_t begin = lane_begin(d, lane), end = lane_begin(d, lane + 1);
    const uint32_t other = begin + random_below(end - begin);
    const struct draft_step step = d->steps[at];
    d->steps[at] = d->steps[other];
    d->steps[other] = step;
}

static uint32_t chunk_limit(const struct draft *d, enum plan_buffer buffer)
{
    return buffer == PLAN_SCRATCH ? d->from->scratch_count
                                  : plan_chunk_count(&d->from->shape, d->from->rank, buffer);
}

/* Mostly within the buffer and so that the range fits, since what does not is refuted before it is
 * run. */
static void change_place(const struct draft *d, struct plan_location *place, uint32_t chunk_count,
                         bool for_writing)
{
    enum plan_buffer buffer = place->buffer;
    if (chance(2)) buffer = (enum plan_buffer)random_below(PLAN_BUFFER_COUNT);
    if (for_writing && buffer == PLAN_INPUT && !chance(20)) buffer = PLAN_SCRATCH;
    const uint32_t limit = chunk_limit(d, buffer);
    place->buffer = buffer;
    if (limit >= chunk_count) place->first = random_below(limit - chunk_count + 1);
}

/* Any other rank; seldom one that cannot be, which is refuted before anything is run. */
static int random_peer(const struct draft *d)
{
    const uint32_t rank_count = (uint32_t)d->from->shape.rank_count;
    if (chance(20)) return (int)random_below(rank_count + 1);
    return (int)(((uint32_t)d->from->rank + 1 + random_below(rank_count - 1)) % rank_count);
}

static struct plan_source random_source(const struct draft *d, uint32_t chunk_count)
{
    struct plan_source source = {.group = PLAN_NO_GROUP};
    if (chance(2)) {
        source.is_link = true;
        source.peer = random_peer(d);
    } else {
        change_place(d, &source.location, chunk_count, false);
    }
    return source;
}

static void mutate_source(struct draft *d, struct draft_step *s)
{
    struct plan_step *step = &s->step;
    if (step->source_count == 0) return;
    struct plan_source *source = &s->sources[random_below(step->source_count)];
    switch (random_below(7)) {
    case 0: /* drop */ *source = s->sources[--step->source_count]; break;
    case 1: /* read twice */ s->sources[step->source_count++] = *source; break;
    case 2: s->sources[step->source_count++] = random_source(d, step->chunk_count); break;
    case 3: { /* another order of reduction */
        const struct plan_source first = s->sources[0];
        s->sources[0] = *source;
        *source = first;
        break;
    }
    case 4:
        if (source->is_link)
            source->channel = (int)random_below(2);
        else
            change_place(d, &source->location, step->chunk_count, false);
        break;
    case 5:
        if (source->is_link && d->from->group_count > 0 && chance(3))
            source->group = source->group == PLAN_NO_GROUP ? (int)random_below(d->from->group_count)
                                                           : PLAN_NO_GROUP;
        else if (source->is_link)
            source->peer = random_peer(d);
        else
            change_place(d, &source->location, step->chunk_count, false);
        break;
    default: *source = random_source(d, step->chunk_count);
    }
}

static void mutate_target(struct draft *d, struct draft_step *s)
{
    struct plan_step *step = &s->step;
    const int peer = random_peer(d);
    if (step->target_group != PLAN_NO_GROUP) {
        step->target_group = PLAN_NO_GROUP;
        if (chance(2)) s->targets[step->target_count++] = peer;
        return;
    }
    if (step->target_count == 0 || chance(4)) {
        s->targets[step->target_count++] = peer;
        return;
    }
    const uint32_t at = random_below(step->target_count);
    if (chance(3))
        s->targets[at] = s->targets[--step->target_count];
    else if (chance(3))
        step->target_channel = (int)random_below(2);
    else
        s->targets[at] = peer;
}

static void mutate_after(struct draft *d, struct draft_step *s)
{
    struct plan_step *step = &s->step;
    if (step->after_count > 0 && !chance(3)) {
        const uint32_t at = random_below(step->after_count--);
        s->afters[at] = s->afters[step->after_count];
    } else {
        s->afters[step->after_count++] = d->steps[random_below(d->step_count)].id;
    }
}

/* Lists grow by one item at most: fits_draft left room for two mutations. */
static void mutate(struct draft *d)
{
    const uint32_t at = random_below(d->step_count);
    struct draft_step *s = &d->steps[at];
    struct draft_step again = *s;
    again.id = d->next_id;
    switch (random_below(16)) {
    case 0: remove_step(d, at); break;
    case 1: insert_step(d, at, &again); break;
    case 2:
    case 3: swap_steps(d, at); break;
    case 4: move_step(d, at, s->step.lane); break;
    case 5: /* to another lane, perhaps a new one */
    case 6:
        if (chance(2)) d->lane_count++;
        move_step(d, at, random_below(d->lane_count));
        break;
    case 7:
        if (!chance(4)) break;
        s->step.final = !s->step.final;
        break;
    case 8: s->step.has_destination = !s->step.has_destination; break;
    case 9:
        change_place(d, &s->step.destination, s->step.chunk_count, true);
        s->step.has_destination = true;
        break;
    case 10: s->step.chunk_count += chance(2) ? 1 : (uint32_t)-1; break;
    case 11:
    case 12: mutate_after(d, s); break;
    case 13: mutate_target(d, s); break;
    default: mutate_source(d, s);
    }
}

/* ---------------------------------------------------------------------------------------- bases */

struct base {
    char name[64];
    struct plan *plan;
    bool in_place;
};

static struct base *bases;
static int base_count, sample_base_count; /* the bases from samples come first */

static void add_base(const char *name, struct plan *plan, bool in_place)
{
    assert_true(base_count < BASES_MAX);
    struct base *base = &bases[base_count++];
    snprintf(base->name, sizeof base->name, "%s of %d%s", name, plan->shape.rank_count,
             in_place ? " in place" : "");
    base->plan = plan;
    base->in_place = in_place;
    for (int rank = 0; rank < plan->shape.rank_count; rank++)
        assert_true(fits_draft(plan->ranks[rank]));
}

static void add_algorithm(const struct algorithm *algorithm, int rank_count, int root, bool in_place)
{
    char name[48];
    struct plan *plan;
    const char *message;
    const struct algo_params params = {.collective = algorithm->collective,
                                       .rank_count = rank_count,
                                       .root = root,
                                       .in_place = in_place};
    if (!algo_supports(algorithm, rank_count)) return;
    if (algo_plan(algorithm, &params, &plan, &message) != TUTTI_OK)
        fail_msg("%s: %s", algorithm->name, message);
    snprintf(name, sizeof name, "%s %s", collective_name(algorithm->collective), algorithm->name);
    add_base(name, plan, in_place);
}

static int make_bases(void **state)
{
    (void)state;
    bases = calloc(BASES_MAX, sizeof *bases);
    assert_non_null(bases);
    for (int i = 0; i < sample_count; i++) {
        const struct sample *sample = &sample_list[i];
        for (int in_place = 0; in_place <= sample->in_place; in_place++)
            add_base(
                sample->name,
                sample_plan(sample->collective, sample->rank_count, sample->root, sample->generate),
                in_place);
    }
    for (int i = 0; i < PLACEMENT_OTHER_MESSAGE; i++)
        add_base(placement_plans[i].name, placement_plan_make(i), placement_plans[i].in_place);
    sample_base_count = base_count;
    for (int i = 0; i < algo_count; i++)
        for (int rank_count = 2; rank_count <= RANKS_MAX; rank_count++)
            for (int in_place = 0; in_place < 2; in_place++)
                add_algorithm(&algo_list[i], rank_count,
                              collective_is_rooted(algo_list[i].collective) ? rank_count / 2 : 0,
                              in_place);
    return 0;
}

static int free_bases(void **state)
{
    (void)state;
    for (int i = 0; i < base_count; i++) plan_free(bases[i].plan);
    free(bases);
    return 0;
}

/* --------------------------------------------------------------------------------------- judges */

enum { MODES = 16 };

static enum explore_outcome search_placing(const struct plan *plan, bool in_place, unsigned mode,
                                           placement_rule *rule, struct explore_report *report)
{
    const struct explore_options options = {.in_place = in_place,
                                            .placement = rule,
                                            .eager = mode & 1,
                                            .capacity = mode & 2 ? 2 : 1,
                                            .run_count = mode & 4 ? 2 : 1,
                                            .scratch_outlives_run = mode & 8,
                                            .events_max = EVENTS_MAX};
    return explore(plan, &options, report);
}

static enum explore_outcome search(const struct plan *plan, bool in_place, unsigned mode,
                                   struct explore_report *report)
{
    return search_placing(plan, in_place, mode, NULL, report);
}

static enum verify_verdict verify(const struct plan *plan, bool in_place, bool scratch_outlives_run,
                                  struct verify_report *report)
{
    const struct verify_options options = {.in_place = in_place,
                                           .scratch_outlives_run = scratch_outlives_run};
    return plan_verify(plan, &options, report);
}

static void right_plans_are_right_in_every_order(void **state)
{
    uint64_t executions = 0;
    (void)state;
    for (int i = 0; i < base_count; i++) {
        const struct base *base = &bases[i];
        struct verify_report report;
        if (verify(base->plan, base->in_place, false, &report) != VERIFY_PROVEN)
            fail_msg("%s: %s", base->name, report.message);
        for (unsigned mode = 0; mode < MODES / 2; mode++) {
            struct explore_report found;
            if (search(base->plan, base->in_place, mode, &found) != EXPLORE_RIGHT)
                fail_msg("%s, mode %u: %s", base->name, mode, found.message);
            executions += found.executions;
        }
    }
    print_message("%d plans, %" PRIu64 " executions\n", base_count, executions);
}

struct tally {
    int mutants, proven, refuted, found_wrong, malformed, inconclusive, stricter;
};

/* The verdict of `never written` has no step; everything else has. */
static void check_place(const struct verify_report *report)
{
    char place[64];
    const bool nowhere = strstr(report->message, "never written") != NULL ||
                         strstr(report->message, "may end") != NULL;
    if (report->rank >= 0 && nowhere && report->step < 0) return;
    if (report->rank < 0 || report->lane < 0 || report->step < 0)
        fail_msg("names no place: %s", report->message);
    snprintf(place, sizeof place, "rank %d lane %d step %d (", report->rank, report->lane,
             report->step);
    assert_memory_equal(report->message, place, strlen(place));
}

/* A proven plan is right in all modes; a refuted one is searched once, to count what the search
 * finds. */
static void judge(const struct base *base, const struct plan *mutant, int rank, void *context)
{
    struct tally *const tally = context;
    struct verify_report report;
    struct explore_report found;
    const bool scratch_outlives_run = chance(8);
    const enum verify_verdict verdict =
        verify(mutant, base->in_place, scratch_outlives_run, &report);
    tally->mutants++;
    assert_int_not_equal(verdict, VERIFY_NO_MEMORY);
    if (verdict == VERIFY_WRONG) {
        check_place(&report);
        const enum explore_outcome outcome =
            search(mutant, base->in_place, random_below(MODES / 2) | 4, &found);
        tally->refuted++;
        tally->found_wrong += outcome == EXPLORE_WRONG;
        tally->malformed += outcome == EXPLORE_MALFORMED;
        tally->stricter += outcome == EXPLORE_RIGHT;
        tally->inconclusive += outcome == EXPLORE_BOUND;
        return;
    }
    bool bound = false;
    tally->proven++;
    for (unsigned mode = 0; mode < MODES / 2; mode++) {
        const unsigned all = mode | (scratch_outlives_run ? 8 : 0);
        const enum explore_outcome outcome = search(mutant, base->in_place, all, &found);
        bound |= outcome == EXPLORE_BOUND;
        if (outcome != EXPLORE_RIGHT && outcome != EXPLORE_BOUND)
            fail_msg("%s, mutant %d (of rank %d) was proven, but in mode %u: %s", base->name,
                     tally->mutants, rank, all, found.message);
    }
    tally->inconclusive += bound;
}

static bool same_source(const struct plan_source *a, const struct plan_source *b)
{
    if (a->is_link != b->is_link) return false;
    if (a->is_link) return a->peer == b->peer && a->group == b->group && a->channel == b->channel;
    return a->location.buffer == b->location.buffer && a->location.first == b->location.first;
}

static bool same_step(const struct rank_plan *p, const struct plan_step *a,
                      const struct rank_plan *q, const struct plan_step *b)
{
    if (a->chunk_count != b->chunk_count || a->source_count != b->source_count ||
        a->has_destination != b->has_destination || a->final != b->final ||
        a->target_count != b->target_count || a->target_group != b->target_group ||
        a->after_count != b->after_count || a->lane != b->lane)
        return false;
    if (a->has_destination && (a->destination.buffer != b->destination.buffer ||
                               a->destination.first != b->destination.first))
        return false;
    if ((a->target_count > 0 || a->target_group != PLAN_NO_GROUP) &&
        a->target_channel != b->target_channel)
        return false;
    for (uint32_t i = 0; i < a->source_count; i++)
        if (!same_source(&p->sources[a->first_source + i], &q->sources[b->first_source + i]))
            return false;
    for (uint32_t i = 0; i < a->target_count; i++)
        if (p->targets[a->first_target + i] != q->targets[b->first_target + i]) return false;
    for (uint32_t i = 0; i < a->after_count; i++)
        if (p->afters[a->first_after + i] != q->afters[b->first_after + i]) return false;
    return true;
}

static bool same_steps(const struct rank_plan *a, const struct rank_plan *b)
{
    if (a->step_count != b->step_count) return false;
    for (uint32_t i = 0; i < a->step_count; i++)
        if (!same_step(a, &a->steps[i], b, &b->steps[i])) return false;
    return true;
}

/* Judges a mutant that differs from the base in one rank's steps. */
typedef void judge_mutant(const struct base *base, const struct plan *mutant, int rank,
                          void *context);

static void mutate_and_judge(const struct base *base, judge_mutant *judge_it, void *context)
{
    const int rank = (int)random_below((uint32_t)base->plan->shape.rank_count);
    static struct draft draft;
    draft_open(&draft, base->plan->ranks[rank]);
    if (draft.step_count == 0) return;
    mutate(&draft);
    if (draft.step_count > 0 && draft.step_count + 1 < STEPS_MAX && chance(4)) mutate(&draft);
    struct plan mutant = *base->plan;
    struct rank_plan *ranks[RANKS_MAX];
    memcpy(ranks, base->plan->ranks, (size_t)mutant.shape.rank_count * sizeof ranks[0]);
    ranks[rank] = draft_close(&draft);
    mutant.ranks = ranks;
    if (!same_steps(ranks[rank], base->plan->ranks[rank])) judge_it(base, &mutant, rank, context);
    plan_rank_free(ranks[rank]);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 0);
}

static void no_wrong_mutant_is_proven(void **state)
{
    (void)state;
    struct tally tally = {0};
    const uint64_t seed = number_from("TUTTI_SEED", UINT64_C(20240607));
    const int wanted = (int)number_from("TUTTI_MUTANTS", MUTANTS);
    random_state = seed * 2 + 1;
    print_message("seed %" PRIu64 "\n", seed);
    while (tally.mutants < wanted)
        mutate_and_judge(&bases[random_below((uint32_t)(chance(4) ? sample_base_count : base_count))],
                         judge, &tally);
    print_message(
        "%d mutants: %d refuted, of which the search finds %d wrong, %d malformed, %d right; "
        "%d proven; %d searches inconclusive\n",
        tally.mutants, tally.refuted, tally.found_wrong, tally.malformed, tally.stricter,
        tally.proven, tally.inconclusive);
    /* Both judges have to have had something to say. */
    assert_true(tally.proven > wanted / 100);
    assert_true(tally.found_wrong > tally.refuted / 2);
    assert_true(tally.inconclusive < wanted / 50);
}

/* ------------------------------------------------------------------------------------ placement */

struct placement_tally {
    const struct placement_test_rule *rule;
    int judged, proven, refuted, raced;
    int raced_bases; /* raced plans that were not mutated */
};

static void judge_placement(const struct base *base, const struct plan *mutant, int rank,
                            void *context)
{
    struct placement_tally *const tally = context;
    const struct verify_options options = {.in_place = base->in_place,
                                           .placement = tally->rule->rule};
    const struct verify_options letter = {
        .in_place = base->in_place, .placement = placement_rules[PLACEMENT_RULE_NOTHING].rule};
    struct verify_report report, ignored;
    struct explore_report found;
    tally->judged++;
    if (plan_verify(mutant, &options, &report) != VERIFY_PROVEN) {
        check_place(&report);
        if (plan_verify(mutant, &letter, &ignored) != VERIFY_PROVEN) return;
        tally->refuted++;
        for (unsigned mode = 0; mode < MODES / 2; mode++)
            if (search_placing(mutant, base->in_place, mode, tally->rule->rule, &found) ==
                EXPLORE_WRONG) {
                tally->raced++;
                tally->raced_bases += rank < 0;
                return;
            }
        return;
    }
    tally->proven++;
    for (unsigned mode = 0; mode < MODES / 2; mode++)
        if (search_placing(mutant, base->in_place, mode, tally->rule->rule, &found) == EXPLORE_WRONG)
            fail_msg("%s, judged %d (of rank %d) was proven with the rule %s, but in mode %u: %s",
                     base->name, tally->judged, rank, tally->rule->name, mode, found.message);
}

/* Whether results of the plan are placed by the engine's rule. */
static bool places(const struct base *base)
{
    for (int rank = 0; rank < base->plan->shape.rank_count; rank++)
        for (uint32_t i = 0; i < base->plan->ranks[rank]->step_count; i++)
            if (placement_of_step(base->plan->ranks[rank], i, base->in_place) == PLACEMENT_PLACES)
                return true;
    return false;
}

static void what_is_placed_in_a_race_is_not_proven(void **state)
{
    (void)state;
    const int wanted = (int)number_from("TUTTI_MUTANTS", MUTANTS) / 10;
    const struct base **const placing = calloc((size_t)base_count + 1, sizeof *placing);
    uint32_t placing_count = 0;
    assert_non_null(placing);
    const struct base other_message = {.name = "other message",
                                       .plan = placement_plan_make(PLACEMENT_OTHER_MESSAGE),
                                       .in_place = true};
    for (int i = 0; i < base_count; i++)
        if (places(&bases[i])) placing[placing_count++] = &bases[i];
    for (int r = 0; r < placement_rule_count; r++) {
        const bool is_weak = r >= PLACEMENT_WEAK_RULES;
        struct placement_tally tally = {.rule = &placement_rules[r]};
        random_state = number_from("TUTTI_SEED", UINT64_C(20240607)) * 2 + 1;
        for (int i = 0; i < base_count; i++) judge_placement(&bases[i], bases[i].plan, -1, &tally);
        if (!is_weak) assert_int_equal(tally.proven, base_count);
        while (tally.judged < base_count + wanted)
            mutate_and_judge(chance(8) ? &other_message : placing[random_below(placing_count)],
                             judge_placement, &tally);
        print_message("%s: %d plans, %d proven, %d refuted for what they place, of which the "
                      "search finds %d wrong; %d of those not mutated\n",
                      placement_rules[r].name, tally.judged, tally.proven, tally.refuted,
                      tally.raced, tally.raced_bases);
        assert_true(tally.proven > tally.judged / 20);
        assert_int_equal(tally.raced > 0, r != PLACEMENT_RULE_NOTHING);
    }
    plan_free(other_message.plan);
    free(placing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_plans_are_right_in_every_order),
        cmocka_unit_test(no_wrong_mutant_is_proven),
        cmocka_unit_test(what_is_placed_in_a_race_is_not_proven),
    };
    return cmocka_run_group_tests(tests, make_bases, free_bases);
}
