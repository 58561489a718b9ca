/* lay.h - trees as a plan: data goes down them, and what is to be reduced comes up.
 *
 *     lane 0    piece 0 of tree 0 | piece 0 of tree 16 | ... | piece 1 of tree 0 | ...      of every rank alike
 *     lane 1    piece 0 of tree 1 | piece 0 of tree 17 | ...
 *
 * 1. A block is cut into `pieces` times as many chunks as a root has trees (by weight); a tree carries its chunks of each piece.
 * 2. A tree has one lane at all ranks, which is also its channel; so a link has one writer and one reader. All ranks do the trees of a
 *    lane in the same order. So a plan cannot get stuck with one message a link: the first step that is not done waits for nothing.
 * 3. Reductions go up trees that were found in the graph with its edges turned around; an allreduce goes up and down again, and its root
 *    passes each piece on as it is complete.
 */
#ifndef TUTTI_SYNTH_LAY_H
#define TUTTI_SYNTH_LAY_H

#include "plan/plan.h"
#include "synth/forest.h"

enum { LAY_PIECES_MAX = 1024 };

struct lay {
    enum collective collective; /* allgather, broadcast: down; reduce_scatter, reduce: up; allreduce: both */
    const struct forest *down; /* or NULL */
    const struct forest *up; /* of the graph turned around (synth_graph_turn); may be the same; or NULL */
    int pieces;              /* 1 to LAY_PIECES_MAX */
};

/* The plan is the caller's; it is not proven yet. UNSUPPORTED: too many chunks, or a collective that trees are not for; NO_MEMORY. */
enum tutti_status lay_plan(const struct lay *lay, struct plan **plan);

/* *turned, which is overwritten, has every edge the other way around. NO_MEMORY. */
enum tutti_status synth_graph_turn(const struct synth_graph *graph, struct synth_graph *turned);
/* Whether that makes no difference. */
bool synth_graph_is_even(const struct synth_graph *graph);

#endif
