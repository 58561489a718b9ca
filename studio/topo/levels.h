/* levels.h - which ranks stand together, from those on one core to those in one rack: what
 * hierarchical plans take.
 *
 *     8 ranks on 2 machines of 2 packages:     package   0 0 1 1 2 2 3 3
 *                                              machine   0 0 0 0 1 1 1 1
 *
 * 1. Levels go from the finest to the coarsest, and groups nest: ranks that are together stay
 *    together.
 * 2. A level that tells nothing apart is left out: all ranks alone, all ranks together, or the same
 *    groups as the next coarser level (which gives its name). So there may be none. All ranks
 *    together stand above the last level.
 * 3. Groups are numbered by their lowest ranks. A rank that stands in nothing of a level's kind is
 *    alone in it.
 */
#ifndef TUTTI_STUDIO_TOPO_LEVELS_H
#define TUTTI_STUDIO_TOPO_LEVELS_H

#include "topo/topo.h"

enum { TOPO_LEVELS_MAX = 16 };

struct topo_level {
    char name[16]; /* "core", "L3", "machine" */
    int group_count;
    int *group_of_rank; /* rank_count numbers from 0 to group_count - 1; the levels' own */
};

struct topo_levels {
    int rank_count, count;
    struct topo_level levels[TOPO_LEVELS_MAX];
};

/* Fills *levels, which the caller releases. INVALID_RANK, and nothing to release, when the ranks in
 * the topology are not numbered from 0 without a gap, or there are none. Any thread. */
enum tutti_status topo_levels_init(struct topo_levels *levels, const struct topo *topo);
void topo_levels_release(struct topo_levels *levels);

#endif
