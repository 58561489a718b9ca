#include "algo/loaded.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan/fingerprint.h"
#include "plan/verify.h"

/* In one piece, so that one pointer is all there is to keep. */
struct loaded {
    struct algorithm algorithm;
    char name[];
};

static enum tutti_status check_size(const char *name, const struct plan *plan)
{
    const int ranks = plan->shape.rank_count;
    uint64_t steps = 0;
    if (ranks < 2 || ranks > LOADED_RANKS_MAX)
        return error_set(TUTTI_INVALID_ALGORITHM,
                         "%.200s: a plan must be for 2 to %d ranks, is for %d", name,
                         LOADED_RANKS_MAX, ranks);
    for (int r = 0; r < ranks; r++) steps += plan->ranks[r]->step_count;
    if (steps > LOADED_STEPS_MAX)
        return error_set(TUTTI_INVALID_ALGORITHM,
                         "%.200s: a plan must have at most %d steps, has %llu", name,
                         LOADED_STEPS_MAX, (unsigned long long)steps);
    return TUTTI_OK;
}

enum tutti_status loaded_create(const char *name, struct plan *plan, struct algorithm **algorithm)
{
    *algorithm = NULL;
    enum tutti_status status = check_size(name, plan);
    if (status != TUTTI_OK) goto free_plan;
    struct loaded *const loaded = calloc(1, sizeof *loaded + strlen(name) + 1);
    if (loaded == NULL) {
        status = error_set(TUTTI_NO_MEMORY, "%.200s: out of memory", name);
        goto free_plan;
    }
    strcpy(loaded->name, name);
    loaded->algorithm = (struct algorithm){.name = loaded->name,
                                           .collective = plan->shape.collective,
                                           .needs_commutative = true,
                                           .rank_count_max = plan->shape.rank_count,
                                           .summary = "a plan that was loaded",
                                           .cost = "",
                                           .source = "",
                                           .plan = plan,
                                           .plan_fingerprint = plan_fingerprint(plan)};
    *algorithm = &loaded->algorithm;
    return TUTTI_OK;
free_plan:
    plan_free(plan);
    return status;
}

void loaded_free(struct algorithm *algorithm)
{
    if (algorithm == NULL) return;
    plan_free((struct plan *)algorithm->plan);
    free(algorithm); /* the first member of what was allocated */
}

/* ---------------------------------------------------------------------------------------- proof */

static int count_proofs(const struct plan_shape *shape)
{
    int count = collective_reduces(shape->collective) ? 4 : 2;
    for (int bit = 1; bit < shape->rank_count; bit *= 2) count += 2;
    return count;
}

/* Looks that all proofs take, at least. */
static uint64_t work_of(const struct plan *plan)
{
    return verify_cost_of(plan).work * (uint64_t)count_proofs(&plan->shape);
}

/* So that nothing is begun that cannot be ended. */
static enum tutti_status check_cost(const struct algorithm *algorithm,
                                    const struct plan_budget *budget)
{
    const struct verify_cost cost = verify_cost_of(algorithm->plan);
    const uint64_t work = work_of(algorithm->plan);
    if (work <= budget->work_max && cost.bytes <= budget->bytes_max) return TUTTI_OK;
    return error_set(TUTTI_INVALID_ALGORITHM,
                     "the plan %.100s of %s is too costly to be proven: with %" PRIu64
                     " chunks on all ranks it would take %" PRIu64 " looks and %" PRIu64
                     " MiB or more, and %" PRIu64 " looks and %" PRIu64 " MiB are allowed",
                     algorithm->name, collective_name(algorithm->collective), cost.chunk_count,
                     work, cost.bytes >> 20, budget->work_max, budget->bytes_max >> 20);
}

static enum tutti_status refuse(const struct algorithm *algorithm, const struct plan_budget *budget)
{
    char why[160];
    const enum tutti_status status = plan_budget_explain(budget, why, sizeof why);
    return error_set(
        status,
        "the proof of the plan %.100s of %s was given up: %s; all of it takes %" PRIu64 " or more",
        algorithm->name, collective_name(algorithm->collective), why, work_of(algorithm->plan));
}

/* WRONG and PROVEN are left to the caller. */
static enum tutti_status find_verdict(const struct algorithm *algorithm,
                                      const struct verify_options *options,
                                      struct verify_report *report, bool *is_proven)
{
    const enum verify_verdict verdict = plan_verify(algorithm->plan, options, report);
    *is_proven = verdict == VERIFY_PROVEN;
    if (verdict == VERIFY_TOO_COSTLY) return refuse(algorithm, options->budget);
    if (verdict == VERIFY_NO_MEMORY)
        return error_set(TUTTI_NO_MEMORY, "proving %.100s: out of memory", algorithm->name);
    return TUTTI_OK;
}

static enum tutti_status prove(const struct algorithm *algorithm,
                               const struct verify_options *options, const char *how,
                               struct verify_report *report)
{
    bool is_proven;
    TRY(find_verdict(algorithm, options, report, &is_proven));
    if (is_proven) return TUTTI_OK;
    return error_set(TUTTI_INVALID_ALGORITHM, "the plan %.100s of %s is wrong, %s: %s",
                     algorithm->name, collective_name(algorithm->collective), how, report->message);
}

static enum tutti_status prove_mixed(const struct algorithm *algorithm, struct plan_budget *budget)
{
    bool in_place[LOADED_RANKS_MAX];
    struct verify_report report;
    const struct verify_options mixed = {.ranks_in_place = in_place, .budget = budget};
    const int ranks = algorithm->plan->shape.rank_count;
    for (int bit = 1; bit < ranks; bit *= 2)
        for (int wanted = 0; wanted < 2; wanted++) {
            for (int r = 0; r < ranks; r++) in_place[r] = ((r & bit) != 0) == (wanted != 0);
            TRY(prove(algorithm, &mixed, "with some ranks in place", &report));
        }
    return TUTTI_OK;
}

static enum tutti_status look_for_one_tree(const struct algorithm *algorithm,
                                           struct plan_budget *budget, bool *has_one_tree)
{
    *has_one_tree = true;
    for (int in_place = 0; in_place < 2 && *has_one_tree; in_place++) {
        struct verify_report report;
        const struct verify_options uniform = {
            .in_place = in_place != 0, .associative_tree_uniform = true, .budget = budget};
        TRY(find_verdict(algorithm, &uniform, &report, has_one_tree));
    }
    return TUTTI_OK;
}

enum tutti_status loaded_prove(const struct algorithm *algorithm, struct plan_budget *budget,
                               struct loaded_proof *proof)
{
    struct verify_report separate, in_place;
    *proof = (struct loaded_proof){.in_rank_order = false};
    TRY(check_cost(algorithm, budget));
    TRY(prove(algorithm, &(struct verify_options){.in_place = false, .budget = budget},
              "with separate buffers", &separate));
    TRY(prove(algorithm, &(struct verify_options){.in_place = true, .budget = budget}, "in place",
              &in_place));
    TRY(prove_mixed(algorithm, budget));
    if (!collective_reduces(algorithm->collective)) {
        *proof = (struct loaded_proof){true, true};
        return TUTTI_OK;
    }
    proof->in_rank_order = separate.rank_ordered && in_place.rank_ordered;
    return look_for_one_tree(algorithm, budget, &proof->has_one_tree);
}

void loaded_set_proof(struct algorithm *algorithm, const struct loaded_proof *proof)
{
    algorithm->needs_commutative = !proof->in_rank_order;
    algorithm->deterministic = proof->has_one_tree;
}
