/* sparse_own.h - what a rank gives, in order: increasing indices, a row each. */
#ifndef TUTTI_TRAIN_SPARSE_OWN_H
#define TUTTI_TRAIN_SPARSE_OWN_H

#include <stddef.h>
#include <stdint.h>

#include "sparse_sum.h"
#include "tutti/sparse.h"

struct sparse_own {
    const int64_t *indices; /* increasing: the caller's, or made_indices */
    const void *values;     /* the caller's, or made_values; NULL without values */
    size_t count;
    int64_t *made_indices;
    void *made_values;
    size_t *places; /* without values, if the caller's indices were in another order: the place of
                       each of them among the increasing indices */
};

/* INVALID_COUNT: an index is not below row_count; the message begins with `function`. */
enum tutti_status sparse_check_indices(const char *function, const int64_t *indices, size_t count,
                                       uint64_t row_count);
/* Combines rows of one index in the order given. Indices are checked. The rows stay the caller's,
 * and must stay as they are until sparse_own_release. NO_MEMORY: *own is empty. */
enum tutti_status sparse_own_rows(struct sparse_own *own, const struct tutti_sparse_rows *rows,
                                  const struct sparse_sum *sum);
/* The same for indices alone. */
enum tutti_status sparse_own_indices(struct sparse_own *own, const int64_t *indices, size_t count,
                                     uint64_t row_count);
/* An empty one may be released, too. */
void sparse_own_release(struct sparse_own *own);

#endif
