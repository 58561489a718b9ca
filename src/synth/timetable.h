/* timetable.h - when pieces of trees go over which edge, so that edges are kept busy.
 *
 *     edge 0 → 1   tree 0 piece 0 | tree 3 piece 0 | tree 0 piece 1 | ...       found by letting it happen, event after event:
 *     edge 3 → 1   tree 3 piece 0 | tree 7 piece 0 | ...                        an edge that is free takes the most urgent of what has come
 *
 * 1. A rank may pass on what it has received completely, to each child in a message of its own, at any time from then on.
 * 2. An edge takes one message after the other, as its room allows, and never rests while there is one for it.
 * 3. An edge prefers the piece that started earlier; of one piece, the tree that has the longest way to go behind the edge.
 *
 * The order of the entries is one in which everything did happen with one message an edge: the same steps in that order cannot get stuck,
 * at whatever speed.
 */
#ifndef TUTTI_SYNTH_TIMETABLE_H
#define TUTTI_SYNTH_TIMETABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "synth/forest.h"

struct timetable_tree {
    const struct forest_tree *tree;
    double weight; /* of the room of an edge, as the forest counts it */
};

struct timetable_entry {
    int child, tree,
        piece; /* over the edge from the child's parent in that tree (of those given) to the child */
    bool is_end; /* the child receives it now; else the parent sends it now */
};

/* (*entries)[i], of which there are *entry_count, in the order in which they happen; the caller frees them.
 * UNSUPPORTED: too many; NO_MEMORY. Any thread; pure. */
enum tutti_status timetable_make(const struct forest *forest, const struct timetable_tree *trees,
                                 int tree_count, int pieces, struct timetable_entry **entries,
                                 size_t *entry_count);

#endif
