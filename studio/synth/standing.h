/* standing.h - which parts of a machine nothing but the machine joins: no link leads from them to
 * the rest of it.
 *
 *     machine ─┬─ numa 0 ══ gpu 0 ══ gpu 1       two islands; both sockets stand in the machine,
 *              └─ numa 1 ══ gpu 2 ══ gpu 3       and that joins them, as in topo.h
 *
 * 1. An island is what links within a machine join. Of two parts of one island only links say how
 *    much fits between them, so standing must not offer a way around these.
 * 2. An island is joined by its part that is nearest to the machine: by all its packages, sockets
 *    and the like that are equally near, unless a link joins one to another of them; where it has
 *    none there, by one switch or card, or else by one accelerator or rank.
 * 3. Only where a machine has several islands with ranks, or with links that leave it, there is
 *    something to join.
 */
#ifndef TUTTI_STUDIO_SYNTH_STANDING_H
#define TUTTI_STUDIO_SYNTH_STANDING_H

#include <stdbool.h>

#include "topo/topo.h"

/* stand_in[i] is the node that stands for node i of the valid topology, at times itself. Fills
 * is_joined[node_count]: whether the node, which stands for itself, is joined to what its parent
 * belongs to. NO_MEMORY leaves it undefined. Any thread; pure. */
enum tutti_status standing_find(const struct topo *topo, const int *stand_in, bool *is_joined);

/* A part that only contains others, and passes everything on. */
bool standing_is_container(enum topo_kind kind);

#endif
