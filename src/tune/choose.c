#include "tune/choose.h"

#include <stdint.h>

#include "base/status.h"

/* The preferences on one host, best first for its sizes: bytes of a block up to which, and ranks up to which. */
struct preference {
    enum collective collective;
    size_t bytes_max;
    int rank_count_max;
    const char *name;
    bool shares_cores; /* only where ranks outnumber cores */
    bool mapped;       /* only where all memory is */
};

static const struct preference preferences[] = {
    {COLLECTIVE_ALLREDUCE, 4 << 10, 2, "oneshot", false, false},
    {COLLECTIVE_ALLREDUCE, 8 << 20, 2, "twoshot", false, false},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, 2, "twoshot", false, true},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, 2, "chain", false, false},
    {COLLECTIVE_ALLREDUCE, 16 << 10, 16, "oneshot", true, false},
    {COLLECTIVE_ALLREDUCE, 8 << 10, 16, "oneshot", false, false},
    {COLLECTIVE_ALLREDUCE, 8 << 10, PLAN_RANKS_MAX, "doubling", false, false},
    {COLLECTIVE_ALLREDUCE, 128 << 10, 16, "twoshot", false, false},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, 32, "twoshot", true, true},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, 32, "relay", true, false},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, 16, "twoshot", false, false},
    {COLLECTIVE_ALLREDUCE, 1 << 20, PLAN_RANKS_MAX, "halving_doubling", false, false},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, PLAN_RANKS_MAX, "ring", false, false},
    {COLLECTIVE_REDUCE, SIZE_MAX, 2, "direct", false, false},
    {COLLECTIVE_REDUCE, 2 << 20, 16, "direct", true, false},
    {COLLECTIVE_REDUCE, SIZE_MAX, 32, "chain", true, false},
    {COLLECTIVE_REDUCE, 32 << 10, 32, "direct", false, false},
    {COLLECTIVE_REDUCE, 64 << 10, PLAN_RANKS_MAX, "tree", false, false},
    {COLLECTIVE_REDUCE, SIZE_MAX, 16, "twoshot", false, false},
    {COLLECTIVE_REDUCE, SIZE_MAX, PLAN_RANKS_MAX, "chain", false, false},
    {COLLECTIVE_BROADCAST, SIZE_MAX, 32, "direct", false, false},
    {COLLECTIVE_BROADCAST, 64 << 10, PLAN_RANKS_MAX, "tree", false, false},
    {COLLECTIVE_BROADCAST, SIZE_MAX, PLAN_RANKS_MAX, "chain", false, false},
    {COLLECTIVE_GATHER, SIZE_MAX, 16, "direct", false, false},
    {COLLECTIVE_GATHER, 1 << 10, PLAN_RANKS_MAX, "tree", false, false},
    {COLLECTIVE_GATHER, SIZE_MAX, PLAN_RANKS_MAX, "direct", false, false},
    {COLLECTIVE_SCATTER, SIZE_MAX, 16, "direct", false, false},
    {COLLECTIVE_SCATTER, 1 << 10, PLAN_RANKS_MAX, "tree", false, false},
    {COLLECTIVE_SCATTER, SIZE_MAX, PLAN_RANKS_MAX, "direct", false, false},
    {COLLECTIVE_ALLGATHER, SIZE_MAX, 16, "direct", false, false},
    {COLLECTIVE_ALLGATHER, SIZE_MAX, PLAN_RANKS_MAX, "ring", false, false},
    {COLLECTIVE_REDUCE_SCATTER, SIZE_MAX, 16, "direct", false, false},
    {COLLECTIVE_REDUCE_SCATTER, SIZE_MAX, PLAN_RANKS_MAX, "ring", false, false},
    {COLLECTIVE_ALLTOALL, 1 << 20, 32, "direct", false, false},
    {COLLECTIVE_ALLTOALL, SIZE_MAX, PLAN_RANKS_MAX, "pairwise", false, false},
    {COLLECTIVE_BARRIER, SIZE_MAX, 16, "mesh", false, false},
    {COLLECTIVE_BARRIER, SIZE_MAX, PLAN_RANKS_MAX, "dissemination", false, false},
};

/* Where ranks of one host talk over sockets each message costs the kernel microseconds and each byte two copies, so what counts is
 * messages, and how few bytes are under way at once: they stay in caches. What is not here is as on one host, or as the model
 * of a network has it. */
static const struct preference over_sockets[] = {
    {COLLECTIVE_ALLREDUCE, 512 << 10, 2, "doubling", false, false},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, 2, "chain", false, false},
    {COLLECTIVE_ALLREDUCE, 24 << 10, PLAN_RANKS_MAX, "doubling", false, false},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, 4, "halving_doubling", false, false},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, PLAN_RANKS_MAX, "circulant", false, false},
    {COLLECTIVE_REDUCE, 512 << 10, 4, "direct", false, false},
    {COLLECTIVE_REDUCE, SIZE_MAX, PLAN_RANKS_MAX, "double_tree", false, false},
    {COLLECTIVE_BROADCAST, 64 << 10, PLAN_RANKS_MAX, "tree", false, false},
    {COLLECTIVE_BROADCAST, 512 << 10, 4, "direct", false, false},
    {COLLECTIVE_BROADCAST, SIZE_MAX, PLAN_RANKS_MAX, "double_tree", false, false},
};

/* Deterministic reductions: one tree, that of rank order, for every size; what a size changes is only who computes it. */
static const struct preference in_rank_order[] = {
    {COLLECTIVE_ALLREDUCE, 8 << 10, PLAN_RANKS_MAX, "oneshot", false, false},
    {COLLECTIVE_ALLREDUCE, SIZE_MAX, PLAN_RANKS_MAX, "twoshot", false, false},
    {COLLECTIVE_REDUCE, 32 << 10, PLAN_RANKS_MAX, "direct", false, false},
    {COLLECTIVE_REDUCE, SIZE_MAX, PLAN_RANKS_MAX, "twoshot", false, false},
    {COLLECTIVE_REDUCE_SCATTER, SIZE_MAX, PLAN_RANKS_MAX, "direct", false, false},
};

static bool supports(const struct algorithm *algorithm, const struct choose_call *call)
{
    return call->network != NULL ? algo_supports_levels(algorithm, call->rank_count)
                                 : algo_supports(algorithm, call->rank_count);
}

static bool is_usable(const struct choose_call *call, const struct algorithm *algorithm)
{
    return algorithm != NULL && supports(algorithm, call) &&
           (!call->deterministic || algorithm->deterministic ||
            !collective_reduces(call->collective)) &&
           (!call->in_rank_order || !algorithm->needs_commutative) &&
           (!call->counts_are_local || algorithm->is_direct);
}

/* What was asked for, or why not. */
static enum tutti_status insist(const struct choose_call *call, const struct algorithm *algorithm)
{
    if (is_usable(call, algorithm)) return TUTTI_OK;
    const char *why = "is not deterministic";
    if (algorithm->needs_levels && call->network == NULL)
        return error_set(TUTTI_INVALID_ALGORITHM,
                         "%s of %s needs to know which ranks are on one host", algorithm->name,
                         collective_name(call->collective));
    if (!supports(algorithm, call))
        return error_set(TUTTI_INVALID_ALGORITHM, "%s of %s cannot do %d ranks", algorithm->name,
                         collective_name(call->collective), call->rank_count);
    if (call->in_rank_order && algorithm->needs_commutative) why = "needs a commutative operation";
    if (call->counts_are_local && !algorithm->is_direct)
        why = "passes blocks through ranks that do not know their counts";
    return error_set(TUTTI_INVALID_ALGORITHM, "%s of %s %s", algorithm->name,
                     collective_name(call->collective), why);
}

/* The first of the table that suits and is not forbidden; NULL. */
static const struct algorithm *first_preferred(const struct choose_call *call,
                                               const struct preference *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (table[i].collective != call->collective || call->bytes > table[i].bytes_max ||
            call->rank_count > table[i].rank_count_max ||
            (table[i].shares_cores && !call->oversubscribed) || (table[i].mapped && !call->mapped) ||
            rules_forbids(call->rules, call->collective, call->bytes, table[i].name))
            continue;
        const struct algorithm *algorithm = algo_find(call->collective, table[i].name);
        if (is_usable(call, algorithm)) return algorithm;
    }
    return NULL;
}

/* The one that the model of the network takes to be the fastest; NULL. */
static const struct algorithm *fastest(const struct choose_call *call, bool *only_hosts)
{
    const double bytes =
        call->counts_are_local ? (double)NETWORK_ASSUMED_BLOCK_BYTES : (double)call->bytes;
    const struct algorithm *best = NULL;
    double best_ns = 0;
    for (int i = 0; i < network_candidate_count; i++) {
        const struct network_candidate *candidate = &network_candidates[i];
        if (candidate->collective != call->collective || !network_suits(candidate, call->network) ||
            rules_forbids(call->rules, call->collective, call->bytes, candidate->name))
            continue;
        const struct algorithm *algorithm = algo_find(call->collective, candidate->name);
        if (!is_usable(call, algorithm)) continue;
        struct network_cost cost = {0};
        candidate->cost(call->network, call->rank_count, bytes, &cost);
        const double ns = network_time_ns(&cost);
        if (best != NULL && ns >= best_ns) continue;
        best = algorithm;
        best_ns = ns;
        *only_hosts = !candidate->heeds_racks;
    }
    return best;
}

/* By the tables of one host, or the model of several; NULL where rules leave nothing of that. */
static const struct algorithm *preferred(const struct choose_call *call, bool *only_hosts)
{
    if (call->deterministic && collective_reduces(call->collective))
        return first_preferred(call, in_rank_order, sizeof in_rank_order / sizeof *in_rank_order);
    if (call->over_sockets) {
        const struct algorithm *const algorithm =
            first_preferred(call, over_sockets, sizeof over_sockets / sizeof *over_sockets);
        if (algorithm != NULL) return algorithm;
    }
    if (call->network != NULL) return fastest(call, only_hosts);
    return first_preferred(call, preferences, sizeof preferences / sizeof *preferences);
}

enum tutti_status choose_algorithm(const struct choose_call *call, struct choice *choice)
{
    *choice = (struct choice){.algorithm = call->algorithm, .radix = call->radix};
    if (call->algorithm != NULL) return insist(call, call->algorithm);
    if (rules_wanted(call->rules, call->collective, call->bytes, &choice->algorithm, &choice->radix))
        return insist(call, choice->algorithm);

    const bool ordered = call->deterministic && collective_reduces(call->collective);
    choice->algorithm = preferred(call, &choice->only_hosts);
    if (choice->algorithm != NULL) return TUTTI_OK;
    /* Beyond the table sizes may get different trees, so what promises one tree stops here. */
    for (int i = 0; i < algo_count && !ordered; i++) {
        choice->algorithm = &algo_list[i];
        if (algo_list[i].collective == call->collective && is_usable(call, &algo_list[i]) &&
            !rules_forbids(call->rules, call->collective, call->bytes, algo_list[i].name))
            return TUTTI_OK;
    }
    return error_set(TUTTI_INVALID_ALGORITHM, "the rules leave no algorithm for %s on %d ranks",
                     collective_name(call->collective), call->rank_count);
}
