/* sparse_merge.h - which rows several lists of rows have together, and which of them belong to one
 * index.
 *
 *     lists      1 7 │ 1 4 │ 7          increasing each
 *     indices    1 4 7
 *     sources    rows 1 of lists 0, 1 │ row 4 of list 1 │ rows 7 of lists 0, 2
 *
 * Where lists have many of the rows of the range, a bitmap of the range finds the union; else lists
 * are merged in pairs.
 */
#ifndef TUTTI_TRAIN_SPARSE_MERGE_H
#define TUTTI_TRAIN_SPARSE_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct sparse_list {
    const int64_t *indices; /* increasing, in the range */
    const void *values;
    size_t count;
};

struct sparse_merge {
    int64_t *indices; /* the union, increasing */
    size_t count;
    /* As sparse_sum_groups takes them: the sources of index i, in the order of lists. */
    size_t *starts;
    const void **sources;
};

/* Merges lists whose indices are from `first` to first + range - 1. All counts together fit into
 * size_t; rows have row_bytes bytes. NO_MEMORY: *merge is empty. */
enum tutti_status sparse_merge_init(struct sparse_merge *merge, const struct sparse_list *lists,
                                    size_t list_count, int64_t first, uint64_t range,
                                    size_t row_bytes);
/* An empty one may be released, too. */
void sparse_merge_release(struct sparse_merge *merge);

#endif
