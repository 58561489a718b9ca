/* sparse_gather.c - every rank gets all rows, and combines them. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sparse_index.h"
#include "sparse_merge.h"
#include "sparse_reduce.h"

/* Memory of a gather: rows of all ranks, one rank behind the other. */
struct gathered {
    unsigned char *codes;
    int64_t *indices;
    char *values;
    struct sparse_list *lists; /* [size] */
    size_t *counts;            /* [size] */
};

static bool gathered_init(struct gathered *g, const struct sparse_reduction *r)
{
    const size_t size = (size_t)r->call->size;
    size_t code_bytes = 0;
    for (size_t i = 0; i < size; i++)
        code_bytes +=
            sparse_index_bytes((size_t)r->hellos[i].count, r->hellos[i].question.row_count);
    *g = (struct gathered){malloc(code_bytes + 1),
                           malloc(((size_t)r->total + 1) * sizeof *g->indices),
                           malloc((size_t)r->total * r->sum.row_bytes + 1),
                           calloc(size, sizeof *g->lists), calloc(size, sizeof *g->counts)};
    return g->codes != NULL && g->indices != NULL && g->values != NULL && g->lists != NULL &&
           g->counts != NULL;
}

static void gathered_release(struct gathered *g)
{
    free(g->codes);
    free(g->indices);
    free(g->values);
    free(g->lists);
    free(g->counts);
}

static enum tutti_status gather_indices(const struct sparse_reduction *r, struct gathered *g,
                                        uint64_t row_count, struct tutti_sparse *result)
{
    const struct sparse_call *const call = r->call;
    size_t at = 0;
    for (int i = 0; i < call->size; i++) {
        g->counts[i] = sparse_index_bytes((size_t)r->hellos[i].count, row_count);
        if (i == call->rank)
            sparse_index_encode(r->own->indices, r->own->count, 0, row_count, g->codes + at);
        at += g->counts[i];
    }
    TRY(sparse_allgatherv(call, g->codes, g->counts, TUTTI_UINT8));
    result->counters.sent_index_bytes = g->counts[call->rank] * ((unsigned)call->size - 1u);
    const unsigned char *code = g->codes;
    int64_t *to = g->indices;
    for (int i = 0; i < call->size; i++) {
        const size_t count = (size_t)r->hellos[i].count;
        if (!sparse_index_decode(code, count, 0, row_count, to))
            return sparse_give_up(call, error_set(TUTTI_CORRUPT,
                                                  "%s: the indices from rank %d make no sense",
                                                  call->function, i));
        g->lists[i] = (struct sparse_list){to, NULL, count};
        code += g->counts[i];
        to += count;
    }
    return TUTTI_OK;
}

static enum tutti_status gather_values(const struct sparse_reduction *r, struct gathered *g,
                                       struct tutti_sparse *result)
{
    const struct sparse_call *const call = r->call;
    char *at = g->values;
    for (int i = 0; i < call->size; i++) {
        const size_t bytes = g->lists[i].count * r->sum.row_bytes;
        if (i == call->rank && bytes > 0) memcpy(at, r->own->values, bytes);
        g->counts[i] = g->lists[i].count * r->sum.width;
        g->lists[i].values = at;
        at += bytes;
    }
    const uint64_t others = (unsigned)call->size - 1u;
    result->counters.sent_rows = r->own->count * others;
    result->counters.sent_value_bytes = r->own->count * r->sum.row_bytes * others;
    return sparse_allgatherv(call, g->values, g->counts, r->sum.dtype);
}

static enum tutti_status combine(const struct sparse_reduction *r, const struct gathered *g,
                                 struct tutti_sparse *result)
{
    struct sparse_merge merge;
    TRY(sparse_merge_init(&merge, g->lists, (size_t)r->call->size, 0, result->row_count,
                          r->sum.row_bytes));
    enum tutti_status status = TUTTI_NO_MEMORY;
    if (sparse_result_reserve(result, merge.count)) {
        if (merge.count > 0)
            memcpy(result->indices, merge.indices, merge.count * sizeof *merge.indices);
        status =
            sparse_sum_groups(&r->sum, merge.count, merge.starts, merge.sources, result->values);
        result->counters.merged_rows = r->total;
    }
    sparse_merge_release(&merge);
    return status;
}

enum tutti_status sparse_reduce_gather(const struct sparse_reduction *r, struct tutti_sparse *result)
{
    struct gathered g;
    enum tutti_status status = TUTTI_OK;
    if (!gathered_init(&g, r)) {
        status = sparse_lacks_memory(r->call);
        goto release;
    }
    status = gather_indices(r, &g, result->row_count, result);
    if (status == TUTTI_OK) status = gather_values(r, &g, result);
    if (status != TUTTI_OK) goto release;
    if (combine(r, &g, result) != TUTTI_OK) status = sparse_lacks_memory(r->call);
release:
    gathered_release(&g);
    return status;
}
