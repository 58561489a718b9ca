#include "tune/choose.h"

#include <stdint.h>

#include "base/status.h"

/* The preferences on one host, best first for its sizes: bytes of a block up to which, and ranks up to which. */
struct preference {
    enum collective collective;
    size_t bytes_max;
    int rank_count_max;
    const char *name;
};

static const struct preference preferences[] = {
    {COLLECTIVE_ALLREDUCE, 8 << 10, 16, "oneshot"},
    {COLLECTIVE_ALLREDUCE, 8 << 10, PLAN_RANKS_MAX, "doubling"},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, 16, "twoshot"},
    {COLLECTIVE_ALLREDUCE, 1 << 20, PLAN_RANKS_MAX, "halving_doubling"},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, PLAN_RANKS_MAX, "ring"},
    {COLLECTIVE_REDUCE, 32 << 10, 32, "direct"},
    {COLLECTIVE_REDUCE, 64 << 10, PLAN_RANKS_MAX, "tree"},
    {COLLECTIVE_REDUCE, SIZE_MAX, 16, "twoshot"},
    {COLLECTIVE_REDUCE, SIZE_MAX, PLAN_RANKS_MAX, "chain"},
    {COLLECTIVE_BROADCAST, SIZE_MAX, 32, "direct"},
    {COLLECTIVE_BROADCAST, 64 << 10, PLAN_RANKS_MAX, "tree"},
    {COLLECTIVE_BROADCAST, SIZE_MAX, PLAN_RANKS_MAX, "chain"},
    {COLLECTIVE_GATHER, 1 << 10, PLAN_RANKS_MAX, "tree"},
    {COLLECTIVE_GATHER, SIZE_MAX, PLAN_RANKS_MAX, "direct"},
    {COLLECTIVE_SCATTER, 1 << 10, PLAN_RANKS_MAX, "tree"},
    {COLLECTIVE_SCATTER, SIZE_MAX, PLAN_RANKS_MAX, "direct"},
    {COLLECTIVE_ALLGATHER, SIZE_MAX, 16, "direct"},
    {COLLECTIVE_ALLGATHER, SIZE_MAX, PLAN_RANKS_MAX, "ring"},
    {COLLECTIVE_REDUCE_SCATTER, SIZE_MAX, 16, "direct"},
    {COLLECTIVE_REDUCE_SCATTER, SIZE_MAX, PLAN_RANKS_MAX, "ring"},
    {COLLECTIVE_ALLTOALL, SIZE_MAX, 32, "direct"},
    {COLLECTIVE_ALLTOALL, SIZE_MAX, PLAN_RANKS_MAX, "pairwise"},
    {COLLECTIVE_BARRIER, SIZE_MAX, 16, "mesh"},
    {COLLECTIVE_BARRIER, SIZE_MAX, PLAN_RANKS_MAX, "dissemination"},
};

/* Deterministic reductions: one tree, that of rank order, for every size; what a size changes is only who computes it. */
static const struct preference in_rank_order[] = {
    {COLLECTIVE_ALLREDUCE, 8 << 10, PLAN_RANKS_MAX, "oneshot"},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, PLAN_RANKS_MAX, "twoshot"},
    {COLLECTIVE_REDUCE, 32 << 10, PLAN_RANKS_MAX, "direct"},
    {COLLECTIVE_REDUCE, SIZE_MAX, PLAN_RANKS_MAX, "twoshot"},
    {COLLECTIVE_REDUCE_SCATTER, SIZE_MAX, PLAN_RANKS_MAX, "direct"},
};

static bool is_usable(const struct choose_call *call, const struct algorithm *algorithm)
{
    return algorithm != NULL && algo_supports(algorithm, call->rank_count) &&
           (!call->deterministic || algorithm->deterministic ||
            !collective_reduces(call->collective));
}

static enum tutti_status choose_by_name(const struct choose_call *call, const char *name,
                                        const struct algorithm **algorithm)
{
    *algorithm = algo_find(call->collective, name);
    if (*algorithm == NULL)
        return error_set(TUTTI_INVALID_ALGORITHM, "%s has no algorithm \"%.40s\"",
                         collective_name(call->collective), name);
    if (!algo_supports(*algorithm, call->rank_count))
        return error_set(TUTTI_INVALID_ALGORITHM, "%s of %s cannot do %d ranks", name,
                         collective_name(call->collective), call->rank_count);
    if (!is_usable(call, *algorithm))
        return error_set(TUTTI_INVALID_ALGORITHM, "%s of %s is not deterministic", name,
                         collective_name(call->collective));
    return TUTTI_OK;
}

/* The first of the table that suits and is not forbidden; NULL. */
static const struct algorithm *first_preferred(const struct choose_call *call,
                                               const struct preference *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (table[i].collective != call->collective || call->bytes > table[i].bytes_max ||
            call->rank_count > table[i].rank_count_max ||
            rules_forbids(call->rules, call->collective, call->bytes, table[i].name))
            continue;
        const struct algorithm *algorithm = algo_find(call->collective, table[i].name);
        if (is_usable(call, algorithm)) return algorithm;
    }
    return NULL;
}

enum tutti_status choose_algorithm(const struct choose_call *call,
                                   const struct algorithm **algorithm)
{
    const char *wanted = call->algorithm;
    if (wanted == NULL) wanted = rules_wanted(call->rules, call->collective, call->bytes);
    if (wanted != NULL) return choose_by_name(call, wanted, algorithm);

    const bool ordered = call->deterministic && collective_reduces(call->collective);
    *algorithm =
        ordered ? first_preferred(call, in_rank_order, sizeof in_rank_order / sizeof *in_rank_order)
                : first_preferred(call, preferences, sizeof preferences / sizeof *preferences);
    if (*algorithm != NULL) return TUTTI_OK;
    /* Beyond the table sizes may get different trees, so what promises one tree stops here. */
    for (int i = 0; i < algo_count && !ordered; i++) {
        *algorithm = &algo_list[i];
        if ((*algorithm)->collective == call->collective && is_usable(call, *algorithm) &&
            !rules_forbids(call->rules, call->collective, call->bytes, (*algorithm)->name))
            return TUTTI_OK;
    }
    return error_set(TUTTI_INVALID_ALGORITHM, "the rules leave no algorithm for %s on %d ranks",
                     collective_name(call->collective), call->rank_count);
}
