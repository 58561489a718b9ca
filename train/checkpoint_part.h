/* checkpoint_part.h - a rank's tensors as pieces that are boxes, each with its memory. */
#ifndef TUTTI_TRAIN_CHECKPOINT_PART_H
#define TUTTI_TRAIN_CHECKPOINT_PART_H

#include "checkpoint_table.h"
#include "tutti/train/checkpoint.h"

struct parts {
    struct piece *pieces; /* their names are the caller's */
    char **data;          /* of each piece, without gaps */
    size_t count;
    struct table_bytes table; /* of the pieces */
};

/* Checks the tensors of this rank for `function` of the interface. INVALID_OPTIONS, INVALID_BUFFER,
 * INVALID_DTYPE, NO_MEMORY; the caller releases *parts even then. */
enum tutti_status parts_init(struct parts *parts, const char *function, int rank,
                             const struct tutti_checkpoint_tensor *tensors, size_t count);
void parts_release(struct parts *parts);

#endif
