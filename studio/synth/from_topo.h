/* from_topo.h - a topology as a graph of ranks, switches and whole capacities.
 *
 *     machine ─┬─ switch NVSwitch ══ 300 GB/s ══ accelerator ── rank 0          accelerator and rank are one node
 *              └─ nic ══ 25 GB/s ══ accelerator of rank 0                        nic and switches are switches
 *
 * 1. A link carries what it says, in each direction. A link that says nothing is an error: a bound
 *    would mean nothing.
 * 2. An accelerator with one rank is that rank.
 * 3. Parts of a machine that no links join are joined by standing there (standing.h). The topology
 *    does not say how much that carries: it gets as much as all links of the topology together, so
 *    that it limits nothing. So ranks are joined here wherever there is a path between them
 *    (topo/path.h).
 * 4. Capacities are multiples of one unit. Measured ones are rounded by up to 2 % for it. If there
 *    is none that fits all of them, all are rounded; by how much is told, and more than a tenth is
 *    an error.
 */
#ifndef TUTTI_STUDIO_SYNTH_FROM_TOPO_H
#define TUTTI_STUDIO_SYNTH_FROM_TOPO_H

#include "studio/synth/graph.h"
#include "topo/topo.h"

struct from_topo_notes {
    double rounded_most; /* by which part of itself a capacity was changed at most; 0: all are exact */
    int assumed_count; /* parts that are joined to the rest of their machine by standing there */
    int switch_count;  /* nodes of the graph that are no ranks */
};

/* A valid topology, whose ranks are 0 to n - 1. *graph, which is overwritten, has bytes_per_second
 * of its unit. INVALID_OPTIONS, INVALID_RANK, UNSUPPORTED: the message names the node, the link, or
 * the ranks that nothing joins; NO_MEMORY. Then the graph is empty. Any thread; pure. */
enum tutti_status synth_graph_from_topo(const struct topo *topo, struct synth_graph *graph,
                                        struct from_topo_notes *notes);

#endif
