/* timetable.h - in which order the ranks pass on pieces of trees, so that edges are kept busy and nothing gets stuck.
 *
 *     rank 0  lane 0   tree 0 piece 0 | tree 3 piece 0 | tree 0 piece 1 | ...       found by letting it happen: an event after the other,
 *     rank 1  lane 0   tree 3 piece 0 | tree 0 piece 0 | ...                        every rank takes what has come if it has room to pass it on
 *
 * Steps of a lane run in the plan's order, and whoever is early waits behind whoever is late. So the order is that in which pieces come
 * when nobody waits for others. It is one in which everything did happen with one message a link; the same steps in the same order
 * cannot get stuck then, at whatever speed.
 */
#ifndef TUTTI_SYNTH_TIMETABLE_H
#define TUTTI_SYNTH_TIMETABLE_H

#include <stdint.h>

#include "synth/forest.h"

struct timetable_tree {
    const struct forest_tree *tree;
    int lane;      /* of its links and steps, 0 to PLAN_LANES_MAX - 1 */
    double weight; /* of the room of an edge, as the forest counts it */
};

struct timetable_entry {
    int rank, tree, piece; /* tree: which of those given */
};

/* (*entries)[i], of which there are tree_count * rank_count * pieces, in the order in which they happen; the caller frees them.
 * UNSUPPORTED: too many; NO_MEMORY. Any thread; pure. */
enum tutti_status timetable_make(const struct forest *forest, const struct timetable_tree *trees,
                                 int tree_count, int pieces, struct timetable_entry **entries);

#endif
