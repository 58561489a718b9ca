/* lay.h - trees as a plan: data goes down them, and what is to be reduced comes up.
 *
 *     tree 0  ╲                 ╱ rank 0: lanes that receive, lanes that send
 *     tree 1  ── timetable.h ── ── rank 1: ...             lay_rank.h
 *     ...     ╱                 ╲ ...
 *
 * 1. A block is cut into `pieces` times as many chunks as a root has trees (by weight); a tree
 *    carries its chunks of each piece.
 * 2. A link is for all trees between two ranks. Its messages follow each other in the order of a
 *    timetable in which everything did happen with one message per link, and so do the steps of a
 *    lane: they cannot get stuck.
 * 3. Reductions go up trees that were found in the graph with its edges turned around. In an
 *    allreduce each piece that is complete goes down again, while others are still on their way up.
 */
#ifndef TUTTI_STUDIO_SYNTH_LAY_H
#define TUTTI_STUDIO_SYNTH_LAY_H

#include "plan/plan.h"
#include "studio/synth/forest.h"

enum { LAY_PIECES_MAX = 1024, LAY_LANES_MAX = 16 };

struct lay {
    enum collective collective; /* allgather, broadcast: down; reduce_scatter, reduce: up; allreduce: both */
    const struct forest *down; /* or NULL */
    const struct forest *up; /* of the graph turned around (synth_graph_reverse); may be the same; or NULL */
    int pieces;              /* 1 to LAY_PIECES_MAX */
    uint64_t deadline_ns; /* of clock_now_ns(); 0: never */
};

/* The plan is the caller's; it is not proven yet. UNSUPPORTED: too many chunks, or a collective
 * that trees are not for; TIMEOUT; NO_MEMORY. */
enum tutti_status lay_plan(const struct lay *lay, struct plan **plan);

#endif
