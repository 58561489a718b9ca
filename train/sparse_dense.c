/* sparse_dense.c - a dense allreduce of the whole matrix, and a bit for each row that is there. */
#include <stdlib.h>

#include "base/status.h"
#include "sparse_reduce.h"

enum { WORD_BITS = 64 };

/* The bitmap of rows that are there, and the matrix. */
struct dense {
    uint64_t *words; /* behind them, a word that is not 0 if a rank has no memory for the matrix */
    size_t word_count;
    char *rows;
};

/* false: there is no memory for the bitmap. The matrix may be missing. */
static bool dense_init(struct dense *d, const struct sparse_reduction *r, size_t row_count)
{
    size_t bytes;
    *d = (struct dense){.word_count = row_count / WORD_BITS + (row_count % WORD_BITS != 0)};
    d->words = calloc(d->word_count + 1, sizeof *d->words);
    if (d->words == NULL) return false;
    if (!__builtin_mul_overflow(row_count, r->sum.row_bytes, &bytes))
        d->rows = calloc(bytes / WORD_BITS + 1, WORD_BITS);
    d->words[d->word_count] = d->rows == NULL;
    for (size_t i = 0; d->rows != NULL && i < r->own->count; i++) {
        const size_t row = (size_t)r->own->indices[i];
        d->words[row / WORD_BITS] |= UINT64_C(1) << row % WORD_BITS;
        sparse_copy_row(d->rows + row * r->sum.row_bytes,
                        (const char *)r->own->values + i * r->sum.row_bytes, r->sum.row_bytes);
    }
    return true;
}

/* All ranks learn which rows there are, and whether all have the matrix: it may be much larger than
 * what ranks have of it. So a rank without memory for it ends this call alone. */
static enum tutti_status exchange_words(const struct dense *d, const struct sparse_reduction *r,
                                        size_t row_count)
{
    TRY(sparse_allreduce_dense(r->call, d->words, d->word_count + 1, TUTTI_UINT64, TUTTI_BOR));
    if (d->words[d->word_count] == 0) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY,
                     "%s: the whole matrix, %zu rows of %zu bytes, does not fit into the memory of "
                     "%s",
                     r->call->function, row_count, r->sum.row_bytes,
                     d->rows == NULL ? "this rank" : "another rank");
}

/* The rows that any rank has. false: out of memory. */
static bool take_rows(const struct dense *d, const struct sparse_reduction *r,
                      struct tutti_sparse *result)
{
    size_t count = 0, taken = 0;
    for (size_t w = 0; w < d->word_count; w++) count += (unsigned)__builtin_popcountll(d->words[w]);
    if (!sparse_result_reserve(result, count)) return false;
    for (size_t w = 0; w < d->word_count; w++)
        for (uint64_t word = d->words[w]; word != 0; word &= word - 1) {
            const size_t row = w * WORD_BITS + (unsigned)__builtin_ctzll(word);
            result->indices[taken] = (int64_t)row;
            sparse_copy_row((char *)result->values + taken++ * r->sum.row_bytes,
                            d->rows + row * r->sum.row_bytes, r->sum.row_bytes);
        }
    return true;
}

/* The bytes that a rank sends, for itself and others, in an allreduce of so many bytes. */
static uint64_t sent_bytes(uint64_t bytes, int size)
{
    return 2 * (bytes - bytes / (unsigned)size);
}

enum tutti_status sparse_reduce_dense(const struct sparse_reduction *r, struct tutti_sparse *result)
{
    const struct sparse_call *const call = r->call;
    struct dense d;
    enum tutti_status status;
    if (!dense_init(&d, r, result->row_count)) {
        status = sparse_lacks_memory(call);
        goto release;
    }
    status = exchange_words(&d, r, result->row_count);
    if (status == TUTTI_OK)
        status = sparse_allreduce_dense(call, d.rows, result->row_count * r->sum.width,
                                        r->sum.dtype, r->op);
    if (status != TUTTI_OK) goto release;
    result->counters.sent_index_bytes = sent_bytes((d.word_count + 1) * sizeof *d.words, call->size);
    result->counters.sent_value_bytes = sent_bytes(result->row_count * r->sum.row_bytes, call->size);
    if (!take_rows(&d, r, result)) status = sparse_lacks_memory(call);
release:
    free(d.words);
    free(d.rows);
    return status;
}
