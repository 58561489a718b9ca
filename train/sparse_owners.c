#include "sparse_owners.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "sparse_index.h"
#include "sparse_ranges.h"

/* Four arrays of a number for each rank: the blocks that go, and those that come. */
struct transfer {
    size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
};

static struct transfer transfer_of(const struct sparse_owners *owners)
{
    const size_t n = (size_t)owners->call->size;
    size_t *const at = owners->numbers;
    return (struct transfer){at, at + n, at + 2 * n, at + 3 * n};
}

enum tutti_status sparse_owners_init(struct sparse_owners *owners, const struct sparse_call *call)
{
    const size_t n = (size_t)call->size;
    *owners = (struct sparse_owners){.call = call,
                                     .firsts = calloc(n + 1, sizeof *owners->firsts),
                                     .begins = calloc(n + 1, sizeof *owners->begins),
                                     .lists = calloc(n, sizeof *owners->lists),
                                     .numbers = calloc(n, 4 * sizeof *owners->numbers)};
    if (owners->firsts != NULL && owners->begins != NULL && owners->lists != NULL &&
        owners->numbers != NULL)
        return TUTTI_OK;
    sparse_owners_release(owners);
    return error_set(TUTTI_NO_MEMORY, "out of memory");
}

void sparse_owners_release(struct sparse_owners *owners)
{
    free(owners->firsts);
    free(owners->begins);
    free(owners->lists);
    free(owners->indices);
    free(owners->values);
    free(owners->numbers);
    *owners = (struct sparse_owners){0};
}

static uint64_t range_of(const struct sparse_owners *owners, int rank)
{
    return (uint64_t)(owners->firsts[rank + 1] - owners->firsts[rank]);
}

/* Lays blocks of counts[r] things one behind the other; returns how many things there are. */
static size_t lay(const size_t *counts, size_t *displs, int size)
{
    size_t at = 0;
    for (int r = 0; r < size; r++) {
        displs[r] = at;
        at += counts[r];
    }
    return at;
}

/* ------------------------------------------------------------------------------------- how many */

static void cut(struct sparse_owners *owners, const struct sparse_own *own)
{
    const int size = owners->call->size;
    for (int r = 0; r < size; r++)
        owners->begins[r] = sparse_find(own->indices, own->count, owners->firsts[r]);
    owners->begins[size] = own->count;
}

static size_t sent_count(const struct sparse_owners *owners, int rank)
{
    return owners->begins[rank + 1] - owners->begins[rank];
}

/* lists[r].count becomes the number of indices of rank r in this rank's range. */
static enum tutti_status exchange_counts(struct sparse_owners *owners, uint64_t total)
{
    const struct sparse_call *const call = owners->call;
    const uint64_t range = range_of(owners, call->rank);
    uint64_t *const sent = calloc((size_t)call->size, 2 * sizeof *sent);
    if (sent == NULL) return sparse_lacks_memory(call);
    uint64_t *const received = sent + call->size;
    for (int r = 0; r < call->size; r++) sent[r] = sent_count(owners, r);
    enum tutti_status status = sparse_alltoall(call, sent, received, sizeof *sent);
    for (int r = 0; r < call->size && status == TUTTI_OK; r++) {
        owners->lists[r].count = (size_t)received[r];
        if (received[r] > range || received[r] > total - owners->received_count)
            status =
                sparse_give_up(call, error_set(TUTTI_CORRUPT,
                                               "%s: rank %d says that it has %" PRIu64
                                               " of %" PRIu64 " rows of rank %d",
                                               call->function, r, received[r], range, call->rank));
        else if (r != call->rank)
            owners->received_count += (size_t)received[r];
    }
    free(sent);
    return status;
}

/* -------------------------------------------------------------------------------------- indices */

/* Codes of the indices for the others, block by block. Returns their bytes, or with code NULL only
 * that. */
static size_t encode(const struct sparse_owners *owners, const struct sparse_own *own,
                     const struct transfer *t, unsigned char *code)
{
    const struct sparse_call *const call = owners->call;
    for (int r = 0; r < call->size; r++)
        t->send_counts[r] =
            r == call->rank ? 0 : sparse_index_bytes(sent_count(owners, r), range_of(owners, r));
    const size_t bytes = lay(t->send_counts, t->send_displs, call->size);
    for (int r = 0; r < call->size && code != NULL; r++)
        if (r != call->rank)
            sparse_index_encode(own->indices + owners->begins[r], sent_count(owners, r),
                                owners->firsts[r], range_of(owners, r), code + t->send_displs[r]);
    return bytes;
}

static enum tutti_status decode(struct sparse_owners *owners, const struct transfer *t,
                                const unsigned char *code)
{
    const struct sparse_call *const call = owners->call;
    int64_t *to = owners->indices;
    for (int r = 0; r < call->size; r++) {
        struct sparse_list *const list = &owners->lists[r];
        if (r == call->rank) continue;
        if (!sparse_index_decode(code + t->recv_displs[r], list->count, owners->firsts[call->rank],
                                 range_of(owners, call->rank), to))
            return sparse_give_up(call, error_set(TUTTI_CORRUPT,
                                                  "%s: the indices from rank %d make no sense",
                                                  call->function, r));
        list->indices = to;
        to += list->count;
    }
    return TUTTI_OK;
}

static enum tutti_status exchange_indices(struct sparse_owners *owners, const struct sparse_own *own)
{
    const struct sparse_call *const call = owners->call;
    const struct transfer t = transfer_of(owners);
    owners->index_bytes = encode(owners, own, &t, NULL);
    for (int r = 0; r < call->size; r++)
        t.recv_counts[r] = r == call->rank ? 0
                                           : sparse_index_bytes(owners->lists[r].count,
                                                                range_of(owners, call->rank));
    const size_t recv_bytes = lay(t.recv_counts, t.recv_displs, call->size);
    unsigned char *const code = malloc(owners->index_bytes + recv_bytes + 1);
    owners->indices = malloc((owners->received_count + 1) * sizeof *owners->indices);
    if (code == NULL || owners->indices == NULL) {
        free(code);
        return sparse_lacks_memory(call);
    }
    (void)encode(owners, own, &t, code);
    unsigned char *const received = code + owners->index_bytes;
    const struct sparse_blocks send = {t.send_counts, t.send_displs};
    const struct sparse_blocks recv = {t.recv_counts, t.recv_displs};
    enum tutti_status status = sparse_alltoallv(call, code, &send, received, &recv, TUTTI_UINT8);
    if (status == TUTTI_OK) status = decode(owners, &t, received);
    free(code);
    return status;
}

enum tutti_status sparse_owners_tell(struct sparse_owners *owners, const struct sparse_own *own,
                                     uint64_t total)
{
    const int rank = owners->call->rank;
    cut(owners, own);
    TRY(exchange_counts(owners, total));
    TRY(exchange_indices(owners, own));
    owners->lists[rank].indices = own->indices + owners->begins[rank];
    owners->sent_rows = own->count - sent_count(owners, rank);
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------------------- rows */

/* The blocks of rows, as elements: those whose indices this rank has told, and those of which it
 * was told. Own rows do not travel. */
static void lay_rows(const struct sparse_owners *owners, size_t width, size_t *told_counts,
                     size_t *told_displs, size_t *heard_counts, size_t *heard_displs)
{
    const struct sparse_call *const call = owners->call;
    for (int r = 0; r < call->size; r++) {
        told_counts[r] = r == call->rank ? 0 : sent_count(owners, r) * width;
        told_displs[r] = owners->begins[r] * width;
        heard_counts[r] = r == call->rank ? 0 : owners->lists[r].count * width;
    }
    (void)lay(heard_counts, heard_displs, call->size);
}

enum tutti_status sparse_owners_push(struct sparse_owners *owners, const struct sparse_own *own,
                                     enum tutti_dtype dtype, size_t width)
{
    const struct sparse_call *const call = owners->call;
    const struct transfer t = transfer_of(owners);
    const size_t row_bytes = width * dtype_size(dtype);
    owners->values = malloc(owners->received_count * row_bytes + 1);
    if (owners->values == NULL) return sparse_lacks_memory(call);
    lay_rows(owners, width, t.send_counts, t.send_displs, t.recv_counts, t.recv_displs);
    const struct sparse_blocks send = {t.send_counts, t.send_displs};
    const struct sparse_blocks recv = {t.recv_counts, t.recv_displs};
    TRY(sparse_alltoallv(call, own->values, &send, owners->values, &recv, dtype));
    for (int r = 0; r < call->size; r++)
        owners->lists[r].values =
            r == call->rank
                ? (own->count > 0 ? (const char *)own->values + owners->begins[r] * row_bytes : NULL)
                : (const char *)owners->values + t.recv_displs[r] / width * row_bytes;
    return TUTTI_OK;
}

/* Copies rows of this rank's range together. */
static void look_up(const struct sparse_list *list, int64_t first, const char *rows,
                    size_t row_bytes, char *to)
{
    for (size_t i = 0; i < list->count; i++)
        sparse_copy_row(to + i * row_bytes, rows + (size_t)(list->indices[i] - first) * row_bytes,
                        row_bytes);
}

enum tutti_status sparse_owners_pull(struct sparse_owners *owners, const void *rows, void *found,
                                     enum tutti_dtype dtype, size_t width)
{
    const struct sparse_call *const call = owners->call;
    const struct transfer t = transfer_of(owners);
    const size_t row_bytes = width * dtype_size(dtype);
    const int64_t first = owners->firsts[call->rank];
    char *const replies = owners->values = malloc(owners->received_count * row_bytes + 1);
    if (replies == NULL) return sparse_lacks_memory(call);
    lay_rows(owners, width, t.recv_counts, t.recv_displs, t.send_counts, t.send_displs);
    for (int r = 0; r < call->size; r++) {
        char *const to =
            r == call->rank ? (found == NULL ? NULL : (char *)found + owners->begins[r] * row_bytes)
                            : replies + t.send_displs[r] / width * row_bytes;
        look_up(&owners->lists[r], first, rows, row_bytes, to);
    }
    const struct sparse_blocks send = {t.send_counts, t.send_displs};
    const struct sparse_blocks recv = {t.recv_counts, t.recv_displs};
    return sparse_alltoallv(call, replies, &send, found, &recv, dtype);
}
