/* split.h - switches are taken out of a graph: what went over them becomes edges between ranks, and
 * as much still gets everywhere.
 *
 *     a ══2══► switch ══2══► b                a ═════════2═════════► b
 *     c ══2══► switch ══2══► d     becomes    c ═════════2═════════► d
 *
 * Edge splitting: wherever as much leads into a switch as out of it, pairs can be found until
 * nothing is left of it (Bang-Jensen, Frank, Jackson, "Preserving and Increasing Local
 * Edge-Connectivity in Mixed Graphs", 1995; used so by ForestColl). Elsewhere some edges of the
 * switch stay unpaired, and what is left may not suffice.
 */
#ifndef TUTTI_STUDIO_SYNTH_SPLIT_H
#define TUTTI_STUDIO_SYNTH_SPLIT_H

#include "studio/synth/residual.h"

/* So much from one node to another goes over that switch, along the edges as they were then. In the
 * order in which it was done. */
struct split {
    int from, via, to;
    int64_t amount;
};

struct splits {
    struct split *of;
    int count, room;
};

/* Afterwards no edge of the residual has a switch for an end, or *holds is false: what it promises
 * does not hold without the switches. TIMEOUT, NO_MEMORY. */
enum tutti_status split_switches(struct residual *residual, struct splits *splits, bool *holds);
void splits_release(struct splits *splits);

#endif
