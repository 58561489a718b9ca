/* bound.h - how fast data that some ranks have can be at all ranks: no schedule is faster, and one
 * is as fast.
 *
 *         ┌───────────── S ─────────────┐
 *         │ rank 0   rank 1   switch 4  │ ══B+(S)══►  a rank that is outside of S has to get
 *         └─────────────────────────────┘             everything that starts in S through there
 *
 * A *ratio* is the time that a block of one byte per rank takes, where a unit of capacity is a byte
 * in a unit of time: its bound is the largest one of weight(S) / B+(S), over all sets S of nodes
 * that leave a rank out. Every rank has weight 1 in an allgather, the root alone in a broadcast.
 * The bound is attained by trees (forest.h): Zhao et al., "ForestColl: Throughput-Optimal
 * Collective Communications on Heterogeneous Network Fabrics", 2024; for one root, Edmonds,
 * "Edge-Disjoint Branchings", 1973.
 *
 * How: a flow says whether a ratio suffices, and a narrowest cut why not; the ratio of that cut is
 * the next one to try (Dinkelbach, "On Nonlinear Fractional Programming", 1967). It ends at the
 * bound itself, since every ratio tried is that of a cut. All exact.
 */
#ifndef TUTTI_STUDIO_SYNTH_BOUND_H
#define TUTTI_STUDIO_SYNTH_BOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "studio/synth/graph.h"
#include "studio/synth/ratio.h"

enum { SYNTH_EVERY_RANK = -1 };

struct synth_bound {
    struct synth_ratio ratio; /* in lowest terms */
    bool *is_before_cut;      /* of each node: whether it is in S; the bound's own */
};

/* Data starts at `root`, or at SYNTH_EVERY_RANK. INVALID_OPTIONS: less than two ranks, or a rank
 * that nothing leads to; TIMEOUT: the time of clock_now_ns() has come, 0 never does; NO_MEMORY. Any
 * thread; pure. */
enum tutti_status synth_bound_find(const struct synth_graph *graph, int root, uint64_t deadline_ns,
                                   struct synth_bound *bound);
void synth_bound_release(struct synth_bound *bound);

/* For an alltoall, in which every rank has a byte for each other one: the largest ratio of bytes to
 * capacity over the narrowest cuts that part the ranks into two halves, each a run of their numbers
 * (after the last comes the first); at most 64 such halves, evenly apart. INVALID_OPTIONS: less
 * than two ranks, or nothing leads from one half to the other; TIMEOUT, NO_MEMORY. Any thread;
 * pure. */
enum tutti_status synth_bound_halves(const struct synth_graph *graph, uint64_t deadline_ns,
                                     struct synth_ratio *ratio);

/* The least ratio that exactly k trees of one width for each root attain: `width` is what a unit of
 * capacity has room for then, in trees, and the ratio is width / k. Edges carry whole trees,
 * floor(width * capacity) of them. Reaches the bound for some k. As above. */
enum tutti_status synth_bound_with(const struct synth_graph *graph, int root, int64_t k,
                                   uint64_t deadline_ns, struct synth_ratio *width);

#endif
