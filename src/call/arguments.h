/* arguments.h - the arguments of one call of a public function, as the caller gave them. */
#ifndef TUTTI_CALL_ARGUMENTS_H
#define TUTTI_CALL_ARGUMENTS_H

#include <stddef.h>

#include "base/collective.h"
#include "tutti/tutti.h"

enum arguments_shape { SHAPE_EVEN, SHAPE_VARYING, SHAPE_LIST };

/* VARYING, of the buffers that have a block for each rank. */
struct block_arguments {
    const size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
};

/* Small, since each call fills one. */
struct arguments {
    enum collective collective;
    enum arguments_shape shape;
    const void *send; /* LIST: struct tutti_list */
    void *recv;       /* LIST: const struct tutti_list */
    size_t count; /* EVEN: of a block; VARYING: of the buffer that is one block and has no counts */
    enum tutti_dtype dtype;
    tutti_op op;
    int root;
    const struct block_arguments *blocks; /* VARYING; else NULL */
};

#endif
