#include "sparse_sum.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"

/* Rows of so many bytes are worth a call of the kernel each. */
enum { WIDE_BYTES = 512 };
/* Rows that are copied together stay in the first cache. */
enum { STAGE_BYTES = 16384 };

void sparse_sum_init(struct sparse_sum *sum, const struct tutti_operation *operation,
                     enum tutti_dtype dtype, size_t width, int size)
{
    const bool is_final = size > 0;
    const bool scales = operation->kind == OP_AVG || operation->kind == OP_SCALED_SUM;
    *sum = (struct sparse_sum){
        .operation = scales ? op_builtin(OP_SUM) : operation,
        .dtype = dtype,
        .width = width,
        .row_bytes = width * dtype_size(dtype),
        .divisor = is_final && operation->kind == OP_AVG ? (unsigned)size : 0,
        .factor = is_final && operation->kind == OP_SCALED_SUM ? operation->factor : 0};
    sum->reduce = kernel_get(kernel_level_chosen(), dtype, sum->operation->kind).reduce;
}

static void reduce(const struct sparse_sum *sum, void *to, const void *const *sources,
                   size_t source_count, size_t row_count)
{
    const struct kernel_call call = {.destination = to,
                                     .sources = sources,
                                     .source_count = (unsigned)source_count,
                                     .divisor = sum->divisor,
                                     .factor = sum->factor,
                                     .count = row_count * sum->width,
                                     .operation = sum->operation,
                                     .dtype = sum->dtype};
    sum->reduce(&call);
}

/* Groups that have equally many sources, and memory to copy their rows together. */
struct stage {
    char *bytes;          /* STAGE_BYTES, or the sources of one group */
    const void **columns; /* where the first, second, ... sources of all groups are */
};

static void sum_alike(const struct sparse_sum *sum, const struct stage *stage, const size_t *groups,
                      size_t group_count, size_t source_count, const size_t *starts,
                      const void *const *sources, char *out)
{
    const size_t row = sum->row_bytes, column = group_count * row;
    for (size_t s = 0; s < source_count; s++) {
        char *const to = stage->bytes + s * column;
        stage->columns[s] = to;
        for (size_t i = 0; i < group_count; i++)
            sparse_copy_row(to + i * row, sources[starts[groups[i]] + s], row);
    }
    reduce(sum, stage->bytes, stage->columns, source_count, group_count);
    for (size_t i = 0; i < group_count; i++)
        sparse_copy_row(out + groups[i] * row, stage->bytes + i * row, row);
}

/* Narrow rows: groups in the order of how many sources they have, those of one source first. */
static void sum_sorted(const struct sparse_sum *sum, const struct stage *stage, const size_t *order,
                       size_t group_count, const size_t *starts, const void *const *sources,
                       char *out)
{
    for (size_t at = 0; at < group_count;) {
        const size_t g = order[at], k = starts[g + 1] - starts[g];
        const size_t room = STAGE_BYTES / sum->row_bytes / k;
        size_t count = 1;
        while (count < room && at + count < group_count &&
               starts[order[at + count] + 1] - starts[order[at + count]] == k)
            count++;
        if (count == 1)
            reduce(sum, out + g * sum->row_bytes, sources + starts[g], k, 1);
        else
            sum_alike(sum, stage, order + at, count, k, starts, sources, out);
        at += count;
    }
}

/* order[] becomes the groups that are not merely copied, by the number of their sources; counts has
 * source_count_max + 2 zeros. Returns how many. */
static size_t order_by_sources(size_t group_count, const size_t *starts, size_t least,
                               size_t source_count_max, size_t *counts, size_t *order)
{
    size_t begin = 0;
    for (size_t g = 0; g < group_count; g++) counts[starts[g + 1] - starts[g]]++;
    for (size_t k = least; k <= source_count_max; k++) {
        const size_t of_size = counts[k];
        counts[k] = begin;
        begin += of_size;
    }
    for (size_t g = 0; g < group_count; g++) {
        const size_t k = starts[g + 1] - starts[g];
        if (k >= least) order[counts[k]++] = g;
    }
    return begin;
}

static enum tutti_status sum_narrow(const struct sparse_sum *sum, size_t group_count,
                                    const size_t *starts, const void *const *sources, char *out)
{
    const size_t least = sum->divisor != 0 || sum->factor != 0 ? 1 : 2;
    size_t most = 1;
    for (size_t g = 0; g < group_count; g++) {
        const size_t k = starts[g + 1] - starts[g];
        if (k > most) most = k;
        if (k < least)
            sparse_copy_row(out + g * sum->row_bytes, sources[starts[g]], sum->row_bytes);
    }
    if (most < least) return TUTTI_OK;
    size_t *const counts = calloc(most + 2, sizeof *counts);
    size_t *const order = malloc(group_count * sizeof *order);
    const struct stage stage = {malloc(STAGE_BYTES), malloc(most * sizeof(void *))};
    const bool is_there =
        counts != NULL && order != NULL && stage.bytes != NULL && stage.columns != NULL;
    if (is_there) {
        const size_t count = order_by_sources(group_count, starts, least, most, counts, order);
        sum_sorted(sum, &stage, order, count, starts, sources, out);
    }
    free(counts);
    free(order);
    free(stage.bytes);
    free(stage.columns);
    return is_there ? TUTTI_OK : error_set(TUTTI_NO_MEMORY, "out of memory");
}

enum tutti_status sparse_sum_groups(const struct sparse_sum *sum, size_t group_count,
                                    const size_t *starts, const void *const *sources, void *out)
{
    if (group_count == 0) return TUTTI_OK;
    if (sum->row_bytes < WIDE_BYTES) return sum_narrow(sum, group_count, starts, sources, out);
    for (size_t g = 0; g < group_count; g++)
        reduce(sum, (char *)out + g * sum->row_bytes, sources + starts[g],
               starts[g + 1] - starts[g], 1);
    return TUTTI_OK;
}
