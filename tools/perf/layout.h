/* layout.h - where the elements of one buffer lie, and to which rank they belong.
 *
 *     blocks     | block 0 | block 1 | gap | block 2 | ...       v forms: counts and displacements
 *     tensors    | tensor 0 ..... | gap | tensor 1 | tensor 2 |  lists: cut anywhere, also within blocks
 *     pieces     what lies in one block and in one tensor
 *
 * In place, the smaller buffer is one block of the larger one, and shares its pieces; no tensor
 * crosses the edge of a block then. Every rank cuts its lists differently.
 */
#ifndef TUTTI_TOOLS_PERF_LAYOUT_H
#define TUTTI_TOOLS_PERF_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "operation.h"

/* Elements in a row in memory: a block, or a tensor of a list. */
struct extent {
    size_t offset; /* elements from the start of the memory */
    size_t count;
};

/* Elements that are in a row both in memory and at their source. */
struct layout_piece {
    size_t offset;
    size_t count;
    size_t block;
    int rank; /* of the source, or SOURCE_ALL_RANKS; its inputs from first on */
    size_t first;
};

struct perf_layout {
    size_t block_count; /* 0: this rank has no such buffer, and the rest is empty */
    size_t *counts;     /* of the blocks */
    size_t *displs;     /* of the blocks, from the start of the buffer; lists have none */
    size_t start;       /* of the buffer in its memory, elements */
    size_t span;        /* elements of memory, with the gaps */
    size_t extent_count;
    struct extent *extents; /* in the order of the buffer */
    size_t piece_count;
    struct layout_piece *pieces; /* in the order of the buffer, none of them empty */
};

/* Lays out the buffer of that side, alone in its memory. False: out of memory; layout_release is
 * allowed all the same. */
bool layout_init(struct perf_layout *layout, const struct perf_operation *operation,
                 const struct perf_shape *shape, enum side side);
/* The same for a buffer that lies in the memory of the other side's buffer, which is not
 * smaller. */
bool layout_init_within(struct perf_layout *layout, const struct perf_operation *operation,
                        const struct perf_shape *shape, enum side side,
                        const struct perf_layout *other);
void layout_release(struct perf_layout *layout);

#endif
