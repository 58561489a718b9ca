/* time_cut.h - why a schedule cannot exist: a cut through links and time.
 *
 *     node      0    1    2    3          A cut gives every node a time, until which it is inside: -1 never, S to the end.
 *     step 0    ·    ·    ·    █          What has to get inside is at most what fits through the links into it, each counted in
 *     step 1    ·    ·   (█)   █          those steps in which its sender is already outside and its receiver, at the step's end,
 *     the end   ·    ·    ·    █          still inside.
 *
 * All chunks that come from a node with time -1 and are wanted by a node with time S have to get
 * in. If they are more than fit, there is no schedule, however clever. time_cut_check adds this up,
 * and trusts no finder of a cut. A reduction is judged backwards, as the collective whose reverse
 * it is; an allreduce by what one rank's contribution needs to get to another.
 */
#ifndef TUTTI_STUDIO_SYNTH_TIME_CUT_H
#define TUTTI_STUDIO_SYNTH_TIME_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"
#include "studio/synth/graph.h"
#include "studio/synth/steps.h"
#include "tutti/tutti.h"

/* Proves that no schedule of this shape with these rounds exists: true only then. until_step has a
 * time for each node; edges of `graph` as they are, for a shape that does not reduce. Any thread;
 * pure. */
bool time_cut_check(const struct synth_graph *graph, const struct plan_shape *shape,
                    const int *rounds, int step_count, const int *until_step);

/* Looks for such a cut by maximum flow, to each destination and from each source, and for up to
 * TIME_CUT_HALVES_MAX ranks also between each two and between each two halves; and checks it.
 * *found says whether there is one; until_step has it. When the time of clock_now_ns() has come (0
 * never does), it stops looking. NO_MEMORY. */
enum { TIME_CUT_HALVES_MAX = 10 };
enum tutti_status time_cut_find(const struct synth_graph *graph, const struct plan_shape *shape,
                                const int *rounds, int step_count, uint64_t deadline_ns,
                                int *until_step, bool *found);

/* A gather is a flow, so it needs no search: *found, and a schedule, where the maximum flow to the
 * root has room for all chunks; where it has not, there is a cut. *steps is the caller's, empty
 * where none is found, or not in time. NO_MEMORY. */
enum tutti_status time_flow_gather(const struct synth_graph *graph, const struct plan_shape *shape,
                                   const int *rounds, int step_count, uint64_t deadline_ns,
                                   struct synth_steps *steps, bool *found);

#endif
