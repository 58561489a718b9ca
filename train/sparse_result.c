#include "sparse_result.h"

#include <stdlib.h>

#include "base/dtype.h"
#include "base/sized.h"
#include "base/status.h"

enum { ALIGNMENT = 64 };

struct tutti_sparse *sparse_result_create(const struct tutti_sparse_rows *like)
{
    struct tutti_sparse *const result = calloc(1, sizeof *result);
    if (result == NULL) return NULL;
    result->row_count = like->row_count;
    result->width = like->width;
    result->dtype = like->dtype;
    return result;
}

bool sparse_result_reserve(struct tutti_sparse *result, size_t count)
{
    const size_t bytes = count * result->width * dtype_size(result->dtype);
    result->count = count;
    result->indices = malloc((count + 1) * sizeof *result->indices);
    result->values = aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
    return result->indices != NULL && result->values != NULL;
}

enum tutti_status tutti_sparse_view(const struct tutti_sparse *result,
                                    struct tutti_sparse_rows *rows)
{
    if (result == NULL || rows == NULL)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_sparse_view: %s is NULL",
                         result == NULL ? "result" : "rows");
    *rows = (struct tutti_sparse_rows){result->row_count, result->width,   result->dtype,
                                       result->count,     result->indices, result->values};
    return TUTTI_OK;
}

enum tutti_status tutti_sparse_free(struct tutti_sparse *result)
{
    if (result == NULL) return TUTTI_OK;
    free(result->indices);
    free(result->values);
    free(result);
    return TUTTI_OK;
}

enum tutti_status tutti_sparse_count(const struct tutti_sparse *result,
                                     struct tutti_sparse_counters *counters)
{
    if (result == NULL)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_sparse_count: result is NULL");
    TRY(SIZED_CHECK_RESULT("tutti_sparse_count: counters", tutti_sparse_counters, counters));
    SIZED_WRITE(tutti_sparse_counters, counters, counters->size_bytes, &result->counters);
    return TUTTI_OK;
}

enum tutti_status tutti_sparse_explain(const struct tutti_sparse *result, char *text,
                                       size_t text_bytes)
{
    if (result == NULL || text == NULL || text_bytes == 0)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_sparse_explain: %s",
                         result == NULL ? "result is NULL" : "there is no room for text");
    sparse_explain(&result->choice, text, text_bytes);
    return TUTTI_OK;
}
