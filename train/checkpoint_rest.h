/* checkpoint_rest.h - what is still missing of a box while boxes that cover it come one after the other.
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
/* Takes the last box that has something of `box` away, and gives their common part; the rest of it goes back. *taken: whether
 * there was one. To be called until there is none. NO_MEMORY. */
enum tutti_status rest_take(struct rest *rest, const struct box *box, struct box *common,
                            bool *taken);
void rest_release(struct rest *rest);

#endif
