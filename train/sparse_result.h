/* sparse_result.h - the result of a sparse call: rows, how the call went, and why that way. */
#ifndef TUTTI_TRAIN_SPARSE_RESULT_H
#define TUTTI_TRAIN_SPARSE_RESULT_H

#include "sparse_choose.h"
#include "tutti/sparse.h"

struct tutti_sparse {
    size_t row_count, width;
    enum tutti_dtype dtype;
    size_t count;
    int64_t *indices;
    void *values;
    struct tutti_sparse_counters counters;
    struct sparse_choice choice; /* of a push: OWNER, given */
};

/* An empty result for rows like these. NULL: out of memory. */
struct tutti_sparse *sparse_result_create(const struct tutti_sparse_rows *like);
/* Makes room for `count` rows, whose bytes fit into size_t; there were none. false: out of
 * memory. */
bool sparse_result_reserve(struct tutti_sparse *result, size_t count);

#endif
