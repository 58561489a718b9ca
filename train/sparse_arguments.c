#include "sparse_arguments.h"

#include <stdio.h>

#include "base/dtype.h"
#include "base/sized.h"
#include "base/status.h"
#include "os/clock.h"
#include "sparse_choose.h"

enum tutti_status sparse_read_options(struct sparse_call *call,
                                      const struct tutti_sparse_options *given, bool allows_way,
                                      struct tutti_sparse_options *own)
{
    *own = (struct tutti_sparse_options)TUTTI_SPARSE_OPTIONS_INIT;
    if (given == NULL) return TUTTI_OK;
    char what[64];
    snprintf(what, sizeof what, "%s: options", call->function);
    TRY(SIZED_READ(what, tutti_sparse_options, given, own));
    if ((unsigned)own->way >= SPARSE_WAYS)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: options.way is %d, which is not a way",
                         call->function, (int)own->way);
    if (!allows_way && own->way != TUTTI_SPARSE_CHOSEN)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: options.way must be TUTTI_SPARSE_CHOSEN, is %s",
                         call->function, sparse_way_name(own->way));
    if (own->timeout_ns != 0) {
        const uint64_t now = clock_now_ns();
        call->deadline_ns = own->timeout_ns < UINT64_MAX - now ? now + own->timeout_ns : UINT64_MAX;
    }
    return TUTTI_OK;
}

enum tutti_status sparse_check_rows(const char *function, const struct tutti_sparse_rows *rows)
{
    size_t bytes;
    if (!dtype_is_valid(rows->dtype))
        return error_set(TUTTI_INVALID_DTYPE, "%s: %d is not a dtype", function, (int)rows->dtype);
    if (rows->row_count > (size_t)INT64_MAX)
        return error_set(TUTTI_INVALID_COUNT, "%s: row_count is %zu, more than indices reach",
                         function, rows->row_count);
    if (rows->width == 0 || __builtin_mul_overflow(rows->width, dtype_size(rows->dtype), &bytes) ||
        __builtin_mul_overflow(bytes, rows->count, &bytes) || bytes > SIZE_MAX / 2 ||
        rows->count > SIZE_MAX / 2 / sizeof *rows->indices)
        return error_set(TUTTI_INVALID_COUNT, "%s: %zu rows of width %zu cannot be in memory",
                         function, rows->count, rows->width);
    if (rows->count > 0 && (rows->indices == NULL || rows->values == NULL))
        return error_set(TUTTI_INVALID_BUFFER, "%s: %s is NULL, but there are %zu rows", function,
                         rows->indices == NULL ? "indices" : "values", rows->count);
    return sparse_check_indices(function, rows->indices, rows->count, rows->row_count);
}

enum tutti_status sparse_check_op(const char *function, tutti_op op, enum tutti_dtype dtype,
                                  const struct tutti_operation **operation)
{
    *operation = op_resolve(op);
    if (*operation == NULL)
        return error_set(TUTTI_INVALID_OP, "%s: op is not an operation", function);
    if (!op_supports(*operation, dtype))
        return error_set(TUTTI_INVALID_OP, "%s: there is no %s of %s", function, (*operation)->name,
                         tutti_dtype_name(dtype));
    return TUTTI_OK;
}

struct sparse_question sparse_question_of(enum sparse_function function,
                                          const struct tutti_sparse_rows *rows,
                                          const struct tutti_operation *operation,
                                          const struct tutti_sparse_options *options)
{
    return (struct sparse_question){.function = function,
                                    .row_count = rows->row_count,
                                    .width = rows->width,
                                    .dtype = (uint64_t)rows->dtype,
                                    .operation = operation != NULL ? operation->identity : 0,
                                    .way = (uint64_t)options->way,
                                    .deterministic = options->deterministic != 0};
}
