/* graph.h - what a schedule is synthesised for: ranks, switches, and how much fits through which
 * link.
 *
 *        rank 0 ══2══► rank 1          nodes 0 .. rank_count-1 are the ranks, in their order;
 *          ▲              │            whatever comes after them are switches: they pass on, and hold nothing
 *          1              3
 *          │              ▼
 *        switch 3 ◄──1── rank 2
 *
 * An edge goes one way; a cable is two edges. Capacities are integers in a unit of the graph's
 * (bytes_per_second each), so that what is computed from them is exact. Between two nodes there is
 * at most one edge in each direction: parallel links add up.
 */
#ifndef TUTTI_STUDIO_SYNTH_GRAPH_H
#define TUTTI_STUDIO_SYNTH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum { SYNTH_NODES_MAX = 1 << 12, SYNTH_CAPACITY_MAX = 1 << 24 };

struct synth_edge {
    int from, to;
    uint32_t capacity; /* 1 to SYNTH_CAPACITY_MAX, in units */
    double latency_ns; /* one way; 0: nobody said */
};

/* All zero is the empty graph. The arrays are its own. */
struct synth_graph {
    int rank_count, node_count;
    double bytes_per_second; /* of one unit of capacity; 0: nobody said */
    struct synth_edge *edges;
    int edge_count, edge_room;
    int *slots;     /* by ends: 1 + an edge, 0: none; at least twice as many as edges */
    int slot_count; /* a power of two, or 0 */
};

/* Adds to the capacity where there is such an edge already, and keeps the longer latency.
 * INVALID_OPTIONS: ends that are not two nodes, or a capacity out of range; NO_MEMORY. */
enum tutti_status synth_graph_add(struct synth_graph *graph, int from, int to, uint32_t capacity,
                                  double latency_ns);
/* NULL: there is none. Takes as long however many edges there are. */
const struct synth_edge *synth_graph_find(const struct synth_graph *graph, int from, int to);
/* *copy, which is overwritten, gets edges of its own. */
enum tutti_status synth_graph_copy(const struct synth_graph *graph, struct synth_graph *copy);
/* A copy with every edge turned round. */
enum tutti_status synth_graph_reverse(const struct synth_graph *graph, struct synth_graph *reversed);
/* A caller that has moved edges, or changed their ends, calls this before it adds an edge or looks
 * for one. NO_MEMORY, but never if there are no more edges than before. */
enum tutti_status synth_graph_reindex(struct synth_graph *graph);
/* Whether turning it round makes no difference. */
bool synth_graph_is_even(const struct synth_graph *graph);
/* Leaves the empty graph. */
void synth_graph_release(struct synth_graph *graph);

#endif
