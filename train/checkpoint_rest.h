/* checkpoint_rest.h - the part of a box that is still missing while boxes that cover it come one
 * after the other.
 *
 *     wanted ######   comes ..####   left ##....   comes ##....   left nothing
 *            ######         ......        ######         ######
 *
 * Boxes that come from a file are hostile: n of them that cross each other can leave n^dims boxes.
 * So only so many boxes are looked at as the number of those that come allows.
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_REST_H
#define TUTTI_TRAIN_CHECKPOINT_REST_H

#include "checkpoint_box.h"
#include "tutti/tutti.h"

/* Boxes that are looked at: on average for each box that comes, and for all boxes. If a thousand
 * slices of columns come row by row, a thousand boxes are missing in part. */
enum { REST_LOOKS_A_BOX = 1024, REST_LOOKS_LEAST = 1 << 14 };

struct rest {
    const char *name;  /* of the tensor, for messages */
    struct box *boxes; /* boxes that do not overlap */
    size_t count, room;
    size_t comes; /* boxes, in all */
    size_t next;  /* of those in front of it a part may be common with the box that came last */
    uint64_t looks_left, looks_max; /* for all of them */
};

/* `name` and `comes` (how many boxes will come) are for the limit and its message; the name stays
 * the caller's. NO_MEMORY. */
enum tutti_status rest_init(struct rest *rest, const char *name, const struct box *wanted,
                            size_t comes);
/* The next box comes: from now on rest_take is called for it. */
void rest_come(struct rest *rest);
/* Takes away a box that has a common part with `box`, and gives that part; the rest of the box goes
 * back. *taken: whether there was such a box. Called until there is none. NO_MEMORY; UNSUPPORTED:
 * so many boxes of the tensor cross each other that it would take too long. */
enum tutti_status rest_take(struct rest *rest, const struct box *box, struct box *common,
                            bool *taken);
void rest_release(struct rest *rest);

#endif
