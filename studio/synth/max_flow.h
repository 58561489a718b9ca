/* max_flow.h - how much fits from one node of a network to another, and the cut that says why not
 * more.
 *
 *     source ══3══► a ──1──► sink        flow 2; the source's side of the narrowest cut is {source, a}
 *          └───1───► b ──2──►┘
 *
 * Dinic's algorithm: Dinic, "Algorithm for solution of a problem of maximum flow in a network with
 * power estimation", 1970. Capacities are whole numbers, and so is every flow. It stops as soon as
 * the flow has reached a limit: most questions are whether enough fits, and not how much.
 */
#ifndef TUTTI_STUDIO_SYNTH_MAX_FLOW_H
#define TUTTI_STUDIO_SYNTH_MAX_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* More than any sum of capacities, and twice of it is still a number. */
#define MAX_FLOW_UNBOUNDED (INT64_MAX / 4)

/* All zero is the empty network. The arrays are its own; an arc and its reverse are neighbours. */
struct max_flow {
    int node_count, arc_count, arc_room;
    int *head;                  /* of each node: its last arc, or -1 */
    int *next, *to;             /* of each arc */
    int64_t *capacity, *spare;  /* as given; as the present flow leaves it */
    int *level, *cursor, *line; /* of each node, while it searches */
};

/* A network without arcs, in the place of what was there. NO_MEMORY leaves the empty one. */
enum tutti_status max_flow_init(struct max_flow *flow, int node_count);
void max_flow_release(struct max_flow *flow);
/* An arc between two nodes, of capacity 0 to MAX_FLOW_UNBOUNDED. NO_MEMORY. */
enum tutti_status max_flow_add(struct max_flow *flow, int from, int to, int64_t capacity);
/* A flow from source to sink, as large as possible, but at most `limit`. The sums of capacities
 * around a node must be numbers. */
int64_t max_flow_run(struct max_flow *flow, int source, int sink, int64_t limit);
/* After a run that stayed below its limit: whether the node is on the source's side of a narrowest
 * cut. */
bool max_flow_is_before_cut(const struct max_flow *flow, int node);

#endif
