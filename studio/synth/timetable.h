/* timetable.h - when pieces of trees go over which edge, so that edges are kept busy.
 *
 *     edge 0 → 1   tree 0 piece 0 | tree 3 piece 0 | tree 0 piece 1 | ...       found by letting it happen, event after event:
 *     edge 3 → 1   tree 3 piece 0 | tree 7 piece 0 | ...                        an edge that is free takes the most urgent of what has come
 *
 * 1. Down a tree, a rank may pass on what it has received completely, to each child in a message of
 *    its own, at any time from then on. Up a tree, a rank may pass on a sum that all its children's
 *    messages are in. At a root what is complete goes down.
 * 2. An edge takes one message after the other, as its room allows, and never rests while there is
 *    one for it.
 * 3. An edge prefers the piece that started earlier; of one piece, the tree that has the longest
 *    way to go behind the edge.
 * 4. Links are not as regular as this, and behind a message that is late all others of its edge
 *    wait, since their order is fixed. So no step counts on a message for some time after it has
 *    come: for as long as it takes the whole no longer than about half a percent.
 *
 * The order of the entries is one in which everything did happen with one message per edge: the
 * same steps in that order cannot get stuck, at whatever speed.
 */
#ifndef TUTTI_STUDIO_SYNTH_TIMETABLE_H
#define TUTTI_STUDIO_SYNTH_TIMETABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "studio/synth/forest.h"

struct timetable_tree {
    const struct forest_tree *up, *down; /* of one root; or NULL */
    double part;                         /* of the root's block that goes over it */
};

/* The trees to be put into order. */
struct timetable {
    const struct forest *up, *down; /* whose rooms count; or NULL; up: of the graph turned around */
    const struct timetable_tree *trees;
    int tree_count, pieces;
    uint64_t deadline_ns; /* of clock_now_ns(); 0: never */
};

/* An end of a message between a rank, the child, and its parent in that tree: up from the child, or
 * down to it. */
struct timetable_entry {
    int child, tree, piece;
    bool is_up, is_end; /* is_end: somebody receives it now; else somebody sends it now */
};

/* (*entries)[i], of which there are *entry_count, in the order in which they happen; the caller
 * frees them. UNSUPPORTED: too many; TIMEOUT; NO_MEMORY. Any thread; pure. */
enum tutti_status timetable_make(const struct timetable *timetable,
                                 struct timetable_entry **entries, size_t *entry_count);

#endif
