/* residual.h - what is left of a graph while trees are taken out of it, and which cuts limit what
 * may still be taken.
 *
 * 1. The promise: from the node before all roots, `needs` of each, all fits to every rank.
 *    Equivalently, no set S that leaves a rank out has a negative slack: what crosses out of S,
 *    less what starts inside of it.
 * 2. Code that takes something looks at the known cuts first, which is cheap, and asks from time to
 *    time whether the promise holds. If not, it goes back to where it held; the cuts that were
 *    found are known from then on.
 */
#ifndef TUTTI_STUDIO_SYNTH_RESIDUAL_H
#define TUTTI_STUDIO_SYNTH_RESIDUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "studio/synth/graph.h"
#include "studio/synth/max_flow.h"
#include "studio/synth/ratio.h"

enum { RESIDUAL_CUTS_MAX = 4096 };

struct residual_cut {
    bool *has; /* of each node: whether it is in S */
    int64_t slack;
    bool holds_tree; /* all of the tree that grows is in S: for forest.c */
};

struct residual {
    int rank_count, node_count;
    uint64_t deadline_ns;
    int64_t *room, *needs, needs_total; /* node_count squared, by from and to; rank_count */
    struct residual_cut *cuts;
    int cut_count;
    struct max_flow flow;
    int suspect; /* the rank that got too little last */
    uint64_t asked;
};

/* Makes the residual graph in which every edge carries floor(width * capacity), and `each` starts
 * at the root, or at every rank. NO_MEMORY. */
enum tutti_status residual_init(struct residual *residual, const struct synth_graph *graph, int root,
                                struct synth_ratio width, int64_t each, uint64_t deadline_ns);
void residual_release(struct residual *residual);

static inline int64_t *residual_room(const struct residual *residual, int from, int to)
{
    return &residual->room[(size_t)from * (size_t)residual->node_count + (size_t)to];
}

/* Whether the promise holds; if not, some cuts that say so are known, whose slack is to be counted.
 * TIMEOUT, NO_MEMORY. */
enum tutti_status residual_ask(struct residual *residual, bool *holds);
/* The cut that the last flow left. NO_MEMORY. */
enum tutti_status residual_learn(struct residual *residual);
/* Counts the slack of that cut, or of all cuts, anew. Once the time is over they count no cut, and
 * the next question says so. */
void residual_count(struct residual *residual, struct residual_cut *cut);
void residual_count_all(struct residual *residual);

/* Rooms and needs, to go back to. */
struct residual_mark {
    int64_t *room, *needs;
};
enum tutti_status residual_mark_init(const struct residual *residual, struct residual_mark *mark);
void residual_mark_set(const struct residual *residual, struct residual_mark *mark);
void residual_mark_return(struct residual *residual, const struct residual_mark *mark);
void residual_mark_release(struct residual_mark *mark);

#endif
