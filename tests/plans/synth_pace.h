/* synth_pace.h - how long a plan of trees takes over the edges that its trees were packed into.
 *
 *     step ── post ──► edge: one message after the other, at its rate ── arrived ──► step of the receiver, which takes it
 *
 * A link takes one message until its reader has taken it; a step waits for its messages and for
 * room. Messages arrive whole. An edge between two ranks has the room that was left there when
 * switches had been split, so no edge of the graph carries more than it can. Without latencies.
 */
#ifndef TUTTI_TESTS_PLANS_SYNTH_PACE_H
#define TUTTI_TESTS_PLANS_SYNTH_PACE_H

#include "plan/plan.h"
#include "studio/synth/forest.h"

enum { PACE_RANKS_MAX = 64 };

/* In units of the time that the forest's ratio promises: 1 is as fast as it can be. `pieces` as in
 * the layout of the plan. The graph is that of the forest: of a plan that only reduces, one that is
 * turned around. An allreduce has one forest for both ways, of a graph that has no switches and is
 * the same turned around; it takes 2. */
double pace_of(const struct plan *plan, const struct synth_graph *graph,
               const struct forest *forest, int pieces);

/* How long one piece alone takes from its root to all leaves, of the slowest tree: nothing of it
 * comes earlier. In the same units. */
double pace_fill(const struct forest *forest, int pieces);

#endif
