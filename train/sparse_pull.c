/* sparse_pull.c - tutti_sparse_pull and tutti_sparse_range: rows of a table that ranks share. */
#include <stdlib.h>

#include "base/dtype.h"
#include "base/status.h"
#include "sparse_arguments.h"
#include "sparse_owners.h"
#include "tutti/sparse.h"

enum tutti_status tutti_sparse_range(size_t row_count, int size, int rank, size_t *first,
                                     size_t *count)
{
    if (size <= 0 || rank < 0 || rank >= size)
        return error_set(TUTTI_INVALID_RANK, "tutti_sparse_range: rank %d is not one of %d ranks",
                         rank, size);
    const size_t share = row_count / (unsigned)size, rest = row_count % (unsigned)size;
    const size_t before = (unsigned)rank;
    *first = share * before + (before < rest ? before : rest);
    *count = share + (before < rest);
    return TUTTI_OK;
}

/* The caller's indices and options, checked and in order. */
struct asked {
    struct tutti_sparse_rows table; /* its shape; no rows */
    struct tutti_sparse_options options;
    struct sparse_own own;
    void *found; /* the rows of own.indices: out, or memory beside it */
};

/* A failure leaves what there is for the caller to release. */
static enum tutti_status ask(struct asked *asked, struct sparse_call *call,
                             const struct tutti_sparse_table *table, const int64_t *indices,
                             size_t count, void *out, const struct tutti_sparse_options *options)
{
    *asked = (struct asked){.options = TUTTI_SPARSE_OPTIONS_INIT};
    if (table == NULL) return error_set(TUTTI_INVALID_BUFFER, "%s: table is NULL", call->function);
    asked->table =
        (struct tutti_sparse_rows){table->row_count, table->width, table->dtype, 0, NULL, NULL};
    TRY(sparse_read_options(call, options, false, &asked->options));
    if (count > 0 && out == NULL)
        return error_set(TUTTI_INVALID_BUFFER, "%s: out is NULL, but there are %zu indices",
                         call->function, count);
    const struct tutti_sparse_rows wanted = {table->row_count, table->width, table->dtype, count,
                                             indices,          out};
    TRY(sparse_check_rows(call->function, &wanted));
    size_t first, owned;
    TRY(tutti_sparse_range(table->row_count, call->size, call->rank, &first, &owned));
    if (owned > 0 && table->rows == NULL)
        return error_set(TUTTI_INVALID_BUFFER,
                         "%s: table->rows is NULL, but this rank owns %zu rows", call->function,
                         owned);
    if (sparse_own_indices(&asked->own, indices, count, table->row_count) != TUTTI_OK)
        return error_set(TUTTI_NO_MEMORY, "%s: out of memory", call->function);
    asked->found = out;
    if (asked->own.places == NULL) return TUTTI_OK;
    asked->found = malloc(asked->own.count * table->width * dtype_size(table->dtype) + 1);
    if (asked->found == NULL)
        return error_set(TUTTI_NO_MEMORY, "%s: out of memory", call->function);
    return TUTTI_OK;
}

static void spread(const struct asked *asked, size_t count, size_t row_bytes, void *out)
{
    if (asked->own.places == NULL) return;
    for (size_t i = 0; i < count; i++)
        sparse_copy_row((char *)out + i * row_bytes,
                        (const char *)asked->found + asked->own.places[i] * row_bytes, row_bytes);
}

static enum tutti_status pull(const struct sparse_call *call, const struct asked *asked,
                              const struct sparse_hello *hellos, const void *rows)
{
    struct sparse_owners owners;
    uint64_t total = 0;
    for (int i = 0; i < call->size; i++) total += hellos[i].count;
    if (sparse_owners_init(&owners, call) != TUTTI_OK) return sparse_lacks_memory(call);
    sparse_ranges_even(asked->table.row_count, call->size, owners.firsts);
    enum tutti_status status = sparse_owners_tell(&owners, &asked->own, total);
    if (status == TUTTI_OK)
        status =
            sparse_owners_pull(&owners, rows, asked->found, asked->table.dtype, asked->table.width);
    sparse_owners_release(&owners);
    return status;
}

enum tutti_status tutti_sparse_pull(const struct tutti_sparse_table *table, const int64_t *indices,
                                    size_t count, void *out,
                                    const struct tutti_sparse_options *options,
                                    struct tutti_comm *comm)
{
    struct sparse_call call;
    struct asked asked;
    struct sparse_hello *hellos;
    TRY(sparse_call_init(&call, "tutti_sparse_pull", comm));
    enum tutti_status status = ask(&asked, &call, table, indices, count, out, options);
    const struct sparse_question question =
        sparse_question_of(SPARSE_PULL, &asked.table, NULL, &asked.options);
    const size_t row_bytes = status == TUTTI_OK ? table->width * dtype_size(table->dtype) : 1;
    status = sparse_agree(&call, status, &question, &asked.own, row_bytes, &hellos);
    if (status == TUTTI_OK) {
        status = pull(&call, &asked, hellos, table->rows);
        if (status == TUTTI_OK) spread(&asked, count, row_bytes, out);
        free(hellos);
    }
    if (asked.own.places != NULL) free(asked.found);
    sparse_own_release(&asked.own);
    return status;
}
