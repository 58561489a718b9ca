#include "algo/loaded.h"

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
    struct loaded *loaded = NULL;
    if (status == TUTTI_OK && (loaded = calloc(1, sizeof *loaded + strlen(name) + 1)) == NULL)
        status = error_set(TUTTI_NO_MEMORY, "%.200s: out of memory", name);
    if (status != TUTTI_OK) {
        plan_free(plan);
        return status;
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
}

void loaded_free(struct algorithm *algorithm)
{
    if (algorithm == NULL) return;
    plan_free((struct plan *)algorithm->plan);
    free(algorithm); /* the first member of what was allocated */
}

/* ---------------------------------------------------------------------------------------------------- proof */

static enum tutti_status prove(const struct algorithm *algorithm,
                               const struct verify_options *options, const char *how,
                               struct verify_report *report)
{
    switch (plan_verify(algorithm->plan, options, report)) {
    case VERIFY_PROVEN: return TUTTI_OK;
    case VERIFY_NO_MEMORY:
        return error_set(TUTTI_NO_MEMORY, "proving %.100s: out of memory", algorithm->name);
    case VERIFY_WRONG: break;
    }
    return error_set(TUTTI_INVALID_ALGORITHM, "the plan %.100s of %s is wrong, %s: %s",
                     algorithm->name, collective_name(algorithm->collective), how, report->message);
}

static enum tutti_status prove_mixed(const struct algorithm *algorithm)
{
    bool in_place[LOADED_RANKS_MAX];
    struct verify_report report;
    const int ranks = algorithm->plan->shape.rank_count;
    for (int bit = 1; bit < ranks; bit *= 2)
        for (int wanted = 0; wanted < 2; wanted++) {
            for (int r = 0; r < ranks; r++) in_place[r] = ((r & bit) != 0) == (wanted != 0);
            TRY(prove(algorithm, &(struct verify_options){.ranks_in_place = in_place},
                      "with some ranks in place", &report));
        }
    return TUTTI_OK;
}

static enum tutti_status look_for_one_tree(const struct algorithm *algorithm, bool *has_one_tree)
{
    *has_one_tree = true;
    for (int in_place = 0; in_place < 2 && *has_one_tree; in_place++) {
        struct verify_report report;
        const struct verify_options uniform = {.in_place = in_place != 0,
                                               .associative_tree_uniform = true};
        const enum verify_verdict verdict = plan_verify(algorithm->plan, &uniform, &report);
        if (verdict == VERIFY_NO_MEMORY)
            return error_set(TUTTI_NO_MEMORY, "proving %.100s: out of memory", algorithm->name);
        *has_one_tree = verdict == VERIFY_PROVEN;
    }
    return TUTTI_OK;
}

enum tutti_status loaded_prove(const struct algorithm *algorithm, struct loaded_proof *proof)
{
    struct verify_report separate, in_place;
    *proof = (struct loaded_proof){.in_rank_order = false};
    TRY(prove(algorithm, &(struct verify_options){.in_place = false}, "with separate buffers",
              &separate));
    TRY(prove(algorithm, &(struct verify_options){.in_place = true}, "in place", &in_place));
    TRY(prove_mixed(algorithm));
    if (!collective_reduces(algorithm->collective)) {
        *proof = (struct loaded_proof){true, true};
        return TUTTI_OK;
    }
    proof->in_rank_order = separate.rank_ordered && in_place.rank_ordered;
    return look_for_one_tree(algorithm, &proof->has_one_tree);
}

void loaded_set_proof(struct algorithm *algorithm, const struct loaded_proof *proof)
{
    algorithm->needs_commutative = !proof->in_rank_order;
    algorithm->deterministic = proof->has_one_tree;
}
