/* direct.h - an allreduce in few steps, in which every rank makes the whole sum itself, by one
 * tree.
 *
 *     before   0   1   2   3       blocks of the ranks whose contributions are summed: they only grow, and all ranks
 *     step 0   01  01  23  23      agree on them, so that all make the same sums in the same order and
 *     step 1   0123 0123 ...       replicas are equal to the bit
 *
 * In each step a rank passes on sums of blocks that it has; at its end it adds up those of which
 * the next larger block consists. Which blocks, and who passes which on over which edge, is asked
 * of the solver. Other allreduces, whose trees differ from rank to rank, are not looked for: that
 * there is none of this kind proves nothing about them (exact.h refutes those too).
 */
#ifndef TUTTI_STUDIO_SYNTH_DIRECT_H
#define TUTTI_STUDIO_SYNTH_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"
#include "studio/synth/graph.h"
#include "tutti/tutti.h"

struct direct_question {
    int chunk_count, step_count;
    int rounds_per_step; /* an edge of capacity w passes w times so many sums on in a step */
    bool in_place;       /* the plan is proven for that, too */
};

enum { DIRECT_RANKS_MAX = 16, DIRECT_STEPS_MAX = 8, DIRECT_CHUNKS_MAX = 64 };

/* *plan, the caller's, has been proven; NULL: there is none of this kind. Blocks for about
 * timeout_ns at most. INVALID_OPTIONS: out of range, or a graph with switches; TIMEOUT;
 * UNSUPPORTED: no solver here. */
enum tutti_status direct_allreduce(const struct synth_graph *graph,
                                   const struct direct_question *question, uint64_t timeout_ns,
                                   struct plan **plan);

#endif
