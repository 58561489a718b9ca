/* sparse_owner.c - owners combine the rows of their ranges, and give all ranks the result.
 *
 * The ranges follow each other in the order of ranks, and so do the results: gathered, they are
 * the rows of all ranges in order, where they belong.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sparse_index.h"
#include "sparse_merge.h"
#include "sparse_reduce.h"

/* Rows to their owners, and which of them belong together. */
static enum tutti_status bring_together(const struct sparse_reduction *r,
                                        struct sparse_owners *owners, struct sparse_merge *merge,
                                        struct tutti_sparse *result)
{
    const struct sparse_call *const call = r->call;
    const int64_t first = owners->firsts[call->rank];
    TRY(sparse_owners_tell(owners, r->own, r->total));
    TRY(sparse_owners_push(owners, r->own, r->sum.dtype, r->sum.width));
    result->counters.sent_rows = owners->sent_rows;
    result->counters.sent_index_bytes = owners->index_bytes;
    result->counters.sent_value_bytes = owners->sent_rows * r->sum.row_bytes;
    result->counters.merged_rows = owners->received_count + owners->lists[call->rank].count;
    if (sparse_merge_init(merge, owners->lists, (size_t)call->size, first,
                          (uint64_t)(owners->firsts[call->rank + 1] - first),
                          r->sum.row_bytes) != TUTTI_OK)
        return sparse_lacks_memory(call);
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------- to owners alone */

static enum tutti_status keep(const struct sparse_reduction *r, const struct sparse_merge *merge,
                              struct tutti_sparse *result)
{
    if (!sparse_result_reserve(result, merge->count) ||
        sparse_sum_groups(&r->sum, merge->count, merge->starts, merge->sources, result->values) !=
            TUTTI_OK)
        return sparse_lacks_memory(r->call);
    if (merge->count > 0)
        memcpy(result->indices, merge->indices, merge->count * sizeof *merge->indices);
    return TUTTI_OK;
}

enum tutti_status sparse_reduce_to_owner(const struct sparse_reduction *r,
                                         struct tutti_sparse *result)
{
    struct sparse_owners owners;
    struct sparse_merge merge = {NULL, 0, NULL, NULL};
    if (sparse_owners_init(&owners, r->call) != TUTTI_OK) return sparse_lacks_memory(r->call);
    sparse_ranges_even(result->row_count, r->call->size, owners.firsts);
    enum tutti_status status = bring_together(r, &owners, &merge, result);
    if (status == TUTTI_OK) status = keep(r, &merge, result);
    sparse_merge_release(&merge);
    sparse_owners_release(&owners);
    return status;
}

/* ------------------------------------------------------------------------------ and back to all */

/* Sets counts[i] to the number of rows of rank i's range, and *before to those of the ranks before
 * this one. The sizes of all are checked: *total rows fit into memory. */
static enum tutti_status exchange_counts(const struct sparse_reduction *r,
                                         const struct sparse_owners *owners, size_t own_count,
                                         uint64_t *counts, size_t *before, size_t *total)
{
    const struct sparse_call *const call = r->call;
    const uint64_t own = own_count;
    TRY(sparse_allgather(call, &own, counts, sizeof own));
    *before = *total = 0;
    for (int i = 0; i < call->size; i++) {
        const uint64_t range = (uint64_t)(owners->firsts[i + 1] - owners->firsts[i]);
        if (counts[i] > range || counts[i] > r->total - *total)
            return sparse_give_up(call, error_set(TUTTI_CORRUPT,
                                                  "%s: rank %d says that it has %" PRIu64
                                                  " of %" PRIu64 " rows of its range",
                                                  call->function, i, counts[i], range));
        if (i < call->rank) *before += (size_t)counts[i];
        *total += (size_t)counts[i];
    }
    return TUTTI_OK;
}

/* The result of each range, and where it lies: rows, and bytes of the codes of indices. */
struct back {
    uint64_t *rows;       /* [size] */
    size_t *sizes;        /* [size]: of what is gathered next */
    unsigned char *codes; /* of the indices of all ranges */
};

static enum tutti_status gather_indices(const struct sparse_reduction *r,
                                        const struct sparse_owners *owners,
                                        const struct sparse_merge *merge, struct back *back,
                                        struct tutti_sparse *result)
{
    const struct sparse_call *const call = r->call;
    const int64_t *const firsts = owners->firsts;
    size_t bytes = 0, at = 0, row = 0;
    for (int i = 0; i < call->size; i++)
        bytes += back->sizes[i] =
            sparse_index_bytes((size_t)back->rows[i], (uint64_t)(firsts[i + 1] - firsts[i]));
    back->codes = malloc(bytes + 1);
    if (back->codes == NULL) return sparse_lacks_memory(call);
    for (int i = 0; i < call->rank; i++) at += back->sizes[i];
    sparse_index_encode(merge->indices, merge->count, firsts[call->rank],
                        (uint64_t)(firsts[call->rank + 1] - firsts[call->rank]), back->codes + at);
    TRY(sparse_allgatherv(call, back->codes, back->sizes, TUTTI_UINT8));
    result->counters.sent_index_bytes += back->sizes[call->rank] * ((unsigned)call->size - 1u);
    at = 0;
    for (int i = 0; i < call->size; i++) {
        if (!sparse_index_decode(back->codes + at, (size_t)back->rows[i], firsts[i],
                                 (uint64_t)(firsts[i + 1] - firsts[i]), result->indices + row))
            return sparse_give_up(call, error_set(TUTTI_CORRUPT,
                                                  "%s: the indices from rank %d make no sense",
                                                  call->function, i));
        at += back->sizes[i];
        row += (size_t)back->rows[i];
    }
    return TUTTI_OK;
}

static enum tutti_status give_back(const struct sparse_reduction *r,
                                   const struct sparse_owners *owners,
                                   const struct sparse_merge *merge, struct back *back,
                                   struct tutti_sparse *result)
{
    const struct sparse_call *const call = r->call;
    const uint64_t others = (unsigned)call->size - 1u;
    size_t before, total;
    TRY(exchange_counts(r, owners, merge->count, back->rows, &before, &total));
    if (!sparse_result_reserve(result, total)) return sparse_lacks_memory(call);
    char *const own = (char *)result->values + before * r->sum.row_bytes;
    if (sparse_sum_groups(&r->sum, merge->count, merge->starts, merge->sources, own) != TUTTI_OK)
        return sparse_lacks_memory(call);
    TRY(gather_indices(r, owners, merge, back, result));
    for (int i = 0; i < call->size; i++) back->sizes[i] = (size_t)back->rows[i] * r->sum.width;
    result->counters.sent_rows += merge->count * others;
    result->counters.sent_value_bytes += merge->count * r->sum.row_bytes * others;
    return sparse_allgatherv(call, result->values, back->sizes, r->sum.dtype);
}

enum tutti_status sparse_reduce_owner(const struct sparse_reduction *r, struct tutti_sparse *result)
{
    const size_t size = (size_t)r->call->size;
    struct sparse_owners owners;
    struct sparse_merge merge = {NULL, 0, NULL, NULL};
    struct back back = {calloc(size, sizeof *back.rows), calloc(size, sizeof *back.sizes), NULL};
    const bool is_there = sparse_owners_init(&owners, r->call) == TUTTI_OK && back.rows != NULL &&
                          back.sizes != NULL &&
                          sparse_agreed_ranges(r->hellos, r->call->size, owners.firsts) == TUTTI_OK;
    enum tutti_status status =
        is_there ? bring_together(r, &owners, &merge, result) : sparse_lacks_memory(r->call);
    if (status == TUTTI_OK) status = give_back(r, &owners, &merge, &back, result);
    free(back.rows);
    free(back.sizes);
    free(back.codes);
    sparse_merge_release(&merge);
    sparse_owners_release(&owners);
    return status;
}
