/* checkpoint_rest.h - the part of a box that is still missing while boxes that cover it come one
 * after the other.
 *
 *     wanted ######   comes ..####   left ##....   comes ##....   left nothing
 *            ######         ......        ######         ######
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_REST_H
#define TUTTI_TRAIN_CHECKPOINT_REST_H

#include "checkpoint_box.h"
#include "tutti/tutti.h"

struct rest {
    struct box *boxes; /* that do not overlap */
    size_t count, room;
};

/* NO_MEMORY. */
enum tutti_status rest_init(struct rest *rest, const struct box *wanted);
/* Takes away the last box that has a common part with `box`, and gives that part; the rest of the
 * box goes back. *taken: whether there was such a box. Called until there is none. NO_MEMORY. */
enum tutti_status rest_take(struct rest *rest, const struct box *box, struct box *common,
                            bool *taken);
void rest_release(struct rest *rest);

#endif
