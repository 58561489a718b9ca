/* synth_graphs.h - graphs for tests of synthesis. A graph is the caller's; a failure ends the
 * process. */
#ifndef TUTTI_TESTS_PLANS_SYNTH_GRAPHS_H
#define TUTTI_TESTS_PLANS_SYNTH_GRAPHS_H

#include <stdint.h>

#include "studio/synth/graph.h"

/* The hybrid cube mesh of eight V100; an NVLink has that capacity. */
struct synth_graph graph_dgx1(uint32_t link);
/* Each neighbour once: a ring of two is one cable. A side of 1 has no cables. */
struct synth_graph graph_torus(int width, int height);
struct synth_graph graph_cube(int dimensions);
/* Boxes of ranks around a switch; and, if `outside` is not 0, all of them around one more. */
struct synth_graph graph_boxes(int boxes, int ranks, uint32_t inside, uint32_t outside);
/* Racks of ranks around a switch, and these around a spine. */
struct synth_graph graph_racks(int racks, int ranks, uint32_t host, uint32_t uplink);
/* Two boxes as TE-CCL has them, in half GB/s: some ranks send to the switch between the boxes,
 * others receive from it. Of DGX-2, eight of 16 ranks each; of NDv2, which has the links of a
 * DGX-1, one. */
struct synth_graph graph_two_dgx2(void);
struct synth_graph graph_two_ndv2(void);
/* 2 to 4 ranks and up to two switches, any edges, capacities up to 7. */
struct synth_graph graph_by_chance(uint64_t seed);

#endif
