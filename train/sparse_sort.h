/* sparse_sort.h - puts indices in increasing order, and remembers where each of them stood. */
#ifndef TUTTI_TRAIN_SPARSE_SORT_H
#define TUTTI_TRAIN_SPARSE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sparse_key {
    int64_t index;
    size_t position; /* where it stood */
};

/* Whether each index is larger than the index before it. */
bool sparse_is_increasing(const int64_t *indices, size_t count);
/* Sorts keys, whose indices are below row_count, by their indices; equal indices keep their order.
 * `spare` has room for as many keys. Returns the sorted keys, which are in one of both. O(count) for
 * each 11 bits of an index. */
struct sparse_key *sparse_sort(struct sparse_key *keys, struct sparse_key *spare, size_t count,
                               uint64_t row_count);

#endif
