/* composed.c - algorithms that are two others, one after the other (compose.h).
 *
 *     allreduce   circulant               reduce_scatter and allgather of circulant.c
 *     allreduce   of hierarchical.c       direct reduce_scatter, ring allgather
 *     allgather   gather_broadcast        tree gather to 0, tree broadcast
 *     broadcast   scatter_allgather       tree scatter, ring allgather
 *     broadcast   twoshot                 the same, directly
 *     reduce      reduce_scatter_gather   recursive halving, tree gather
 *     reduce      twoshot                 the same, directly
 *
 * Cost: the sum of both; all but the first send 2 (p-1)/p n at the busiest rank, not n log2 p.
 *
 * Source: Barnett, Gupta, Payne, Shuler, van de Geijn, Watts, "Interprocessor Collective
 * Communication Library", SHPCC 1994; Rabenseifner 2004 (see halving.c) for reduce; Träff 2024 (see
 * circulant.c) for allreduce.
 */
#include "algo/compose.h"
#include "algo/generators.h"

struct part {
    enum collective collective;
    algo_generate *generate;
};

struct pair {
    struct part first, second;
    int second_channel; /* 0 where the second may use the first one's links */
};

/* The rank's plan of a part; NULL, with the error in the builder, where it cannot be made. */
static struct rank_plan *make(struct plan_builder *b, const struct algo_params *params,
                              const struct part *part, int rank)
{
    struct algo_params own = *params;
    struct rank_plan *plan;
    const char *message;
    own.collective = part->collective;
    own.in_place = true; /* the data between the two parts may lie in the whole's output */
    if (!collective_is_rooted(part->collective)) own.root = 0;
    const enum tutti_status status = generate_rank_plan(part->generate, &own, rank, &plan, &message);
    if (status != TUTTI_OK) plan_fail(b, status, message);
    return plan;
}

static void compose_pair(const struct algo_params *params, int rank, struct plan_builder *b,
                         const struct pair *pair)
{
    struct rank_plan *first = make(b, params, &pair->first, rank);
    struct rank_plan *second = make(b, params, &pair->second, rank);
    const struct composition composition = {.first = first,
                                            .second = second,
                                            .collective = params->collective,
                                            .root = params->root,
                                            .second_channel = pair->second_channel};
    if (first != NULL && second != NULL) compose_into(b, &composition);
    plan_rank_free(first);
    plan_rank_free(second);
}

void composed_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    compose_pair(params, rank, b,
                 &(struct pair){{COLLECTIVE_REDUCE_SCATTER, circulant_reduce_scatter},
                                {COLLECTIVE_ALLGATHER, circulant_allgather},
                                0});
}

void composed_direct_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    compose_pair(params, rank, b,
                 &(struct pair){{COLLECTIVE_REDUCE_SCATTER, mesh_reduce_scatter},
                                {COLLECTIVE_ALLGATHER, ring_allgather},
                                0});
}

void composed_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    compose_pair(
        params, rank, b,
        &(struct pair){{COLLECTIVE_GATHER, tree_gather}, {COLLECTIVE_BROADCAST, tree_broadcast}, 0});
}

void composed_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    compose_pair(params, rank, b,
                 &(struct pair){
                     {COLLECTIVE_SCATTER, tree_scatter}, {COLLECTIVE_ALLGATHER, ring_allgather}, 1});
}

void composed_broadcast_twoshot(const struct algo_params *params, int rank, struct plan_builder *b)
{
    compose_pair(params, rank, b,
                 &(struct pair){
                     {COLLECTIVE_SCATTER, mesh_scatter}, {COLLECTIVE_ALLGATHER, mesh_allgather}, 1});
}

void composed_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    compose_pair(params, rank, b,
                 &(struct pair){{COLLECTIVE_REDUCE_SCATTER, halving_reduce_scatter},
                                {COLLECTIVE_GATHER, tree_gather},
                                0});
}

void composed_reduce_twoshot(const struct algo_params *params, int rank, struct plan_builder *b)
{
    compose_pair(params, rank, b,
                 &(struct pair){{COLLECTIVE_REDUCE_SCATTER, mesh_reduce_scatter},
                                {COLLECTIVE_GATHER, mesh_gather},
                                0});
}
