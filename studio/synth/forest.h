/* forest.h - trees that bring all data to all ranks as fast as the graph allows, or nearly so.
 *
 *         root 0          of every root k trees, each over all ranks; of all trees together
 *         ╱    ╲          no edge carries more than it has room for
 *        1      3
 *        │
 *        2
 *
 * 1. The bound is a fraction (bound.h). With the right unit every edge carries a whole number of
 *    trees, and k trees of each root attain it.
 * 2. Switches are taken out (split.h), so that trees have ranks only.
 * 3. Trees grow edge by edge, the widest first, so that no known cut becomes too narrow for the
 *    rest; a flow finds the cuts. A tree that does not come about so grows anew, with a flow for
 *    every edge: then it always does (Edmonds, "Edge-Disjoint Branchings", 1973; Bérczi, Frank,
 *    "Packing Arborescences", 2010; ForestColl).
 * 4. Pairs of edges make up a switch only if as much leads into it as out of it. Otherwise the
 *    surplus is left unused. Then, and if k was given, the ratio attained may be above the bound.
 *    Both are told.
 */
#ifndef TUTTI_STUDIO_SYNTH_FOREST_H
#define TUTTI_STUDIO_SYNTH_FOREST_H

#include <stdint.h>

#include "studio/synth/bound.h"
#include "studio/synth/graph.h"
#include "studio/synth/split.h"

enum { FOREST_K_MAX = 256 };

struct forest_tree {
    int root;
    int64_t weight; /* so many of the root's k */
    int *parent;    /* of each rank; -1: the root */
    int *order;     /* all ranks, parents before children; the root first */
};

/* All zero is the empty forest; the arrays are its own. */
struct forest {
    int rank_count, root;               /* or SYNTH_EVERY_RANK */
    int64_t k;                          /* trees of each root, by weight */
    struct synth_ratio bound, attained; /* bound.h; never below it */
    struct forest_tree *trees;
    int tree_count, tree_room;
    bool is_trimmed; /* some capacity of switches was left unused */
    int64_t *room; /* of edges between ranks, by from and to: in trees, before any was taken out */
    struct splits splits;     /* over which switches edges of trees go */
    struct synth_ratio width; /* trees that a unit of capacity had room for when switches were split */
};

struct forest_options {
    int root;  /* or SYNTH_EVERY_RANK */
    int64_t k; /* 0: what attains the bound, or comes near to it with at most FOREST_K_MAX */
    uint64_t deadline_ns; /* of clock_now_ns(); 0: never */
};

/* *forest is overwritten. INVALID_OPTIONS, INVALID_ROOT: as synth_bound_find; TIMEOUT; UNSUPPORTED;
 * NO_MEMORY. Then it is empty. Any thread; pure. */
enum tutti_status forest_make(const struct synth_graph *graph, const struct forest_options *options,
                              struct forest *forest);
void forest_release(struct forest *forest);

#endif
