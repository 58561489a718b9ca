/* sparse_sum.h - reduces groups of rows to a row each, by the kernels of dense reductions.
 *
 *     sources    a b │ c │ d e f          a group has at least one source
 *     result     a+b │ c │ (d+e)+f        left to right, rounded once
 *
 * Wide rows go to the kernel as they lie. Narrow rows are first copied together, those of groups
 * with equally many sources in one piece, so that a call of the kernel has something to do.
 */
#ifndef TUTTI_TRAIN_SPARSE_SUM_H
#define TUTTI_TRAIN_SPARSE_SUM_H

#include <stddef.h>

#include "base/op.h"
#include "kernel/kernel.h"
#include "tutti/tutti.h"

struct sparse_sum {
    kernel_reduce *reduce;
    const struct tutti_operation *operation;
    enum tutti_dtype dtype;
    size_t width, row_bytes;
    unsigned divisor; /* as in struct kernel_call */
    double factor;
};

/* The reduction of the rows of `size` ranks; or of rows of one rank, before that: size 0. The
 * operation supports the dtype. */
void sparse_sum_init(struct sparse_sum *sum, const struct tutti_operation *operation,
                     enum tutti_dtype dtype, size_t width, int size);

/* Group g has the sources starts[g] to starts[g + 1] - 1, its result goes to row g of `out`. out
 * overlaps no source. NO_MEMORY: out is undefined. */
enum tutti_status sparse_sum_groups(const struct sparse_sum *sum, size_t group_count,
                                    const size_t *starts, const void *const *sources, void *out);

/* Copies a row, which is often short. */
static inline void sparse_copy_row(void *to, const void *from, size_t row_bytes)
{
    switch (row_bytes) {
    case 2: __builtin_memcpy(to, from, 2); break;
    case 4: __builtin_memcpy(to, from, 4); break;
    case 8: __builtin_memcpy(to, from, 8); break;
    case 64: __builtin_memcpy(to, from, 64); break;
    default: __builtin_memcpy(to, from, row_bytes);
    }
}

#endif
