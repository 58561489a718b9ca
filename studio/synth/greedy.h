/* greedy.h - schedules for graphs that are too large for exact ones: in time, a link that is free
 * takes what helps its receiver most.
 *
 *     time ──►  0→1 ▓a▓▓b▓▓▓c▓        Links through switches are paths from rank to rank; a transfer begins when all edges of its path are free,
 *               1→2    ▓a▓▓b▓         keeps each for bytes / capacity, and arrives after the slowest edge's time and all latencies.
 *
 * Of the chunks that the sender has and the receiver neither has nor gets, one is taken that would
 * take longest from where it is otherwise, the rarest first among equals, and then by chance. A
 * link that would deliver later than others could is left idle; by how much later is another thing
 * that attempts vary. (In the manner of TACOS, Won et al., MICRO 2024; the time model is that of
 * TE-CCL, Liu et al., SIGCOMM 2024.)
 *
 * All collectives but the barrier: reductions and scatters are made over the reversed graph and
 * turned round, an allreduce is both halves. Nothing is optimal here. Several hundred ranks are
 * planned in seconds to minutes, by the number of chunks.
 */
#ifndef TUTTI_STUDIO_SYNTH_GREEDY_H
#define TUTTI_STUDIO_SYNTH_GREEDY_H

#include <stdint.h>

#include "studio/synth/graph.h"
#include "studio/synth/steps.h"
#include "tutti/tutti.h"

struct greedy_options {
    uint64_t seed;
    int attempt_count;  /* 1 or more; the best one counts */
    double block_bytes; /* of one block, as plan/plan.h has it */
    uint64_t timeout_ns; /* further attempts are not begun, and the first one fails, after so much time */
};

/* A unit of capacity without bytes_per_second counts as 1 GB/s. The steps are dependencies here,
 * not rounds: a transfer's step is one more than that which brought the chunk, and transfers are in
 * the order of their beginnings; so synth_steps_plan takes them, and synth_steps_check is not for
 * them. duration_ns: how long the best attempt takes in this model. INVALID_OPTIONS: ranks that
 * cannot reach each other, or options out of range; TIMEOUT. */
enum tutti_status greedy_schedule(const struct synth_graph *graph, const struct plan_shape *shape,
                                  const struct greedy_options *options, struct synth_steps *steps,
                                  double *duration_ns);

#endif
