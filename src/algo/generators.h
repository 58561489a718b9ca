/* generators.h - the generators of all families, for the list (list.c) and for plans that are made
 * of several (composed.c and hierarchical*.c), and for no other file.
 *
 * A generator is called for two ranks and more: generate.c writes the plan of one rank, a copy.
 */
#ifndef TUTTI_ALGO_GENERATORS_H
#define TUTTI_ALGO_GENERATORS_H

#include "algo/generate.h"

/* mesh.c */
algo_generate mesh_oneshot, mesh_twoshot, mesh_direct_allreduce, mesh_broadcast, mesh_reduce,
    mesh_gather, mesh_scatter, mesh_allgather, mesh_reduce_scatter, mesh_alltoall, mesh_barrier;
/* ring.c */
algo_generate ring_allreduce, ring_reduce_scatter, ring_allgather, ring_allgather_two_ways;
/* chain.c */
algo_generate chain_broadcast, chain_reduce, chain_allreduce, relay_allreduce;
/* doubling.c */
algo_generate doubling_allreduce, doubling_allgather, doubling_barrier;
/* halving.c */
algo_generate halving_allreduce, halving_reduce_scatter;
/* leaders.c */
algo_generate leaders_allreduce;
/* tree.c */
algo_generate tree_broadcast, tree_reduce, tree_allreduce, tree_gather, tree_scatter, tree_barrier;
/* pairwise.c */
algo_generate pairwise_alltoall, pairwise_reduce_scatter;
/* circulant.c */
algo_generate circulant_reduce_scatter, circulant_allgather;
/* circulant_broadcast.c */
algo_generate circulant_broadcast, circulant_reduce;
/* bruck.c */
algo_generate bruck_allgather, bruck_alltoall;
/* composed.c */
algo_generate composed_allreduce, composed_direct_allreduce, composed_allgather, composed_broadcast,
    composed_broadcast_twoshot, composed_reduce, composed_reduce_twoshot;
/* double_tree.c */
algo_generate double_tree_allreduce, double_tree_broadcast, double_tree_reduce;
/* swing.c */
algo_generate swing_allreduce, swing_latency_allreduce, swing_reduce_scatter, swing_allgather;
/* bine.c */
algo_generate bine_allreduce, bine_reduce, bine_broadcast, bine_gather, bine_scatter,
    bine_allgather, bine_reduce_scatter;
/* torus.c */
algo_generate torus_allreduce, torus_reduce_scatter, torus_allgather;
/* hierarchical.c */
algo_generate hierarchical_allreduce, hierarchical_ring_allreduce, hierarchical_direct_allreduce,
    hierarchical_broadcast, hierarchical_reduce;
/* hierarchical_blocks.c */
algo_generate hierarchical_reduce_scatter, hierarchical_direct_reduce_scatter,
    hierarchical_allgather;
/* hierarchical_leaders.c */
algo_generate hierarchical_tree_allreduce, hierarchical_tree_broadcast, hierarchical_tree_reduce,
    hierarchical_tree_allgather, hierarchical_tree_reduce_scatter, hierarchical_gather,
    hierarchical_scatter;
/* hierarchical_exchange.c */
algo_generate hierarchical_alltoall, hierarchical_barrier;

/* The rank `distance` further on in the circle of all ranks; a negative distance goes back. */
static inline int rank_at(int rank, int distance, int rank_count)
{
    const int at = (rank + distance) % rank_count;
    return at < 0 ? at + rank_count : at;
}

/* A rank's place among all, in the order of nearness where one is given: `self` is the place, not
 * the rank. */
struct circle {
    const int *order; /* NULL: as ranks are numbered */
    int self, rank_count;
};
static inline struct circle circle_of(const struct algo_params *params, int rank)
{
    struct circle circle = {params->order, rank, params->rank_count};
    if (circle.order != NULL)
        for (circle.self = 0; circle.order[circle.self] != rank;) circle.self++;
    return circle;
}
/* The rank at that distance further on; a negative distance goes back. */
static inline int circle_at(const struct circle *circle, int distance)
{
    const int place = rank_at(circle->self, distance, circle->rank_count);
    return circle->order != NULL ? circle->order[place] : place;
}

/* 2 if none is given, and never more than there are ranks. */
static inline int radix_of(const struct algo_params *params)
{
    const unsigned most = (unsigned)params->rank_count;
    if (params->radix < 2) return 2;
    return params->radix < most ? (int)params->radix : (int)most;
}

static inline bool is_power_of_two(int count)
{
    return (count & (count - 1)) == 0;
}

/* The largest power of two that is not above count. */
static inline int power_of_two_within(int count)
{
    int power = 1;
    while (power <= count / 2) power *= 2;
    return power;
}

#endif
