/* sparse.h - collectives of sparse tensors: ranks that have values for a few rows of a large matrix
 * sum them up, send them to their owners, and look rows up.
 *
 *     rank 0 has rows 1, 7      rank 1 has rows 1, 4            a matrix of 8 rows
 *
 *       row 1  2 2                row 1  3 3
 *       row 7  1 1                row 4  9 9
 *           │                         │
 *           └────── allreduce ────────┘
 *                       │
 *           row 1  5 5                on every rank: the rows that any rank has,
 *           row 4  9 9                in the order of their indices, each the sum
 *           row 7  1 1                of the ranks that have it
 *
 * A matrix has row_count rows of `width` elements each; a sparse vector is a matrix of width 1.
 * Each rank gives the rows that it has, as indices and values.
 *
 *     struct tutti_sparse_rows sum;
 *     struct tutti_sparse_rows gradient = {1000000, 16, TUTTI_FLOAT32, count, indices, values};
 *     struct tutti_sparse *result;
 *     tutti_sparse_allreduce(&gradient, TUTTI_SUM, NULL, comm, &result);
 *     tutti_sparse_view(result, &sum);
 *     for (size_t i = 0; i < sum.count; i++) use row sum.indices[i];
 *     tutti_sparse_free(result);
 *
 * A table of embeddings that is too large for one rank is divided into ranges of rows, one for each
 * rank (tutti_sparse_range). tutti_sparse_pull looks up rows of the table, whichever rank owns
 * them, and tutti_sparse_push brings the gradients of rows to their owners.
 *
 * Indices.  A rank may give its indices in any order, and an index several times: Tutti first
 * combines the rows that this rank has for an index, in the order given. It copies nothing if the
 * indices are increasing. An index below 0, or not below row_count, is refused.
 *
 * Order of operations.  A row of the result is the reduction of the rows of those ranks that have
 * it, in the order of their ranks: ((rank 0 op rank 1) op rank 2). 8- and 16-bit floats accumulate
 * in float32, and are rounded once within a rank and once between ranks. So results are the same
 * on all ranks bit for bit, and do not depend on how Tutti brings rows together. There is one
 * exception: TUTTI_SPARSE_DENSE leaves the order of sums to tutti_allreduce.
 *
 * Errors.  Ranks first tell each other how much they have, and whether all is well. If the
 * arguments of one rank are invalid, that rank gets the status that says why, and all others get
 * MISMATCH with the rank and its message; ranks that gave different row counts, widths, dtypes,
 * operations or options all get MISMATCH. The communicator then lives on, as if the call had not
 * been made. Any other failure ends the communicator, as for all collectives.
 *
 * All calls here block, consist of several collectives, and must not be made between
 * tutti_group_begin and tutti_group_end: they return INVALID_REQUEST there. Buffers lie in the memory
 * of the host.
 */
#ifndef TUTTI_SPARSE_H
#define TUTTI_SPARSE_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------------------- sparse rows */

struct tutti_sparse; /* opaque: the result of a call */

/* Rows of a matrix; the other rows are not there. */
struct tutti_sparse_rows {
    size_t row_count; /* of the matrix; the same on all ranks */
    size_t width;     /* elements of a row, at least 1; the same on all ranks */
    enum tutti_dtype dtype;
    size_t count;           /* rows that are there */
    const int64_t *indices; /* [count], each from 0 to row_count - 1; NULL if count is 0 */
    const void *values;     /* [count][width]; NULL if count is 0 */
};

/* How rows come together. */
enum tutti_sparse_way {
    TUTTI_SPARSE_CHOSEN, /* the way that an estimate from all ranks' counts finds the fastest */
    /* Every rank gets the rows of all ranks, and combines them. The fewest exchanges: for few
     * rows. */
    TUTTI_SPARSE_GATHER,
    /* Each rank owns a range of indices, combines the rows of that range, and sends the result to
     * all. Ranges have about equally many rows. Every row of the result travels once to each
     * rank. */
    TUTTI_SPARSE_OWNER,
    /* tutti_allreduce of the whole matrix, with zeros for rows that are not there: for matrices of
     * which ranks have most rows. For TUTTI_SUM, TUTTI_AVG and scaled sums. NO_MEMORY on all ranks
     * if the matrix does not fit into the memory of one of them; the communicator lives on. */
    TUTTI_SPARSE_DENSE
};

struct tutti_sparse_options {
    size_t size_bytes;         /* sizeof(struct tutti_sparse_options); _INIT sets it */
    uint64_t timeout_ns;       /* deadline of the call; 0: the communicator's, for each exchange */
    enum tutti_sparse_way way; /* of tutti_sparse_allreduce; the same on all ranks */
    int deterministic; /* not 0: CHOSEN never is DENSE, so bits do not depend on how many rows there
                          are; the same on all ranks */
};
#define TUTTI_SPARSE_OPTIONS_INIT                                                \
    {                                                                            \
        sizeof(struct tutti_sparse_options), (uint64_t)0, TUTTI_SPARSE_CHOSEN, 0 \
    }

/* allreduce of sparse rows: *result has, on every rank, the reduction of each row that any rank
 * has. Ranks that do not have a row take no part in its reduction; TUTTI_AVG divides by the number
 * of all ranks nevertheless. A row that is there stays in the result, even if its sum is 0. All
 * ranks give the same row_count, width, dtype, operation and options (NULL: defaults); count may
 * differ. Every operation is allowed that tutti_allreduce has for the dtype. The buffers of `rows`
 * are only read, and are the caller's again when the call returns. *result is the caller's until
 * tutti_sparse_free. Collective; blocks until the deadline. On failure *result is NULL:
 * INVALID_BUFFER, INVALID_COUNT (also an index that is out of range), INVALID_DTYPE, INVALID_OP,
 * INVALID_OPTIONS, NO_MEMORY, MISMATCH, or a status of a collective. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_sparse_allreduce(const struct tutti_sparse_rows *rows, tutti_op op,
                       const struct tutti_sparse_options *options, struct tutti_comm *comm,
                       struct tutti_sparse **result);

/* ------------------------------------------------------------------------------ shared tables */

/* The rows that a rank owns of a table of row_count rows that is divided among `size` ranks:
 * *count rows from *first on. Ranges follow each other in the order of ranks; the first row_count
 * modulo `size` ranks own one row more than the others. Local; any thread; does not block.
 * INVALID_RANK: rank and size make no communicator. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_sparse_range(size_t row_count, int size, int rank,
                                                              size_t *first, size_t *count);

/* Brings sparse rows to their owners: *result has those rows of this rank's range that any rank
 * gave, each reduced as in tutti_sparse_allreduce. Its indices are those of the whole table.
 * Arguments, ownership and failures are those of tutti_sparse_allreduce, but options->way must be
 * TUTTI_SPARSE_CHOSEN. Collective; blocks until the deadline. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_sparse_push(const struct tutti_sparse_rows *rows, tutti_op op,
                  const struct tutti_sparse_options *options, struct tutti_comm *comm,
                  struct tutti_sparse **result);

/* A table divided among the ranks of a communicator. */
struct tutti_sparse_table {
    size_t row_count; /* of the whole table; the same on all ranks */
    size_t width;     /* elements of a row, at least 1; the same on all ranks */
    enum tutti_dtype dtype;
    const void *rows; /* [rows of this rank's range][width]; NULL if the range is empty */
};
/* Looks rows up in a table, whichever ranks own them: out[i] becomes row indices[i], `count` rows
 * of table->width elements. Indices may have any order and come several times; each rank gives its
 * own. A row travels once to each rank that asks for it. The table, indices and out stay the
 * caller's. No rank changes the table before all have returned from the call. options may be NULL;
 * the way must be TUTTI_SPARSE_CHOSEN. Collective; blocks until the deadline. On failure out is
 * undefined: INVALID_BUFFER, INVALID_COUNT (also an index that is out of range), INVALID_DTYPE,
 * INVALID_OPTIONS, NO_MEMORY, MISMATCH, or a status of a collective. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_sparse_pull(const struct tutti_sparse_table *table, const int64_t *indices, size_t count,
                  void *out, const struct tutti_sparse_options *options, struct tutti_comm *comm);

/* ------------------------------------------------------------------------------------ results */

/* Describes the rows of a result in *rows. Indices are increasing. The arrays belong to the
 * result, and stay valid until tutti_sparse_free; values are 64-byte aligned, and the caller may
 * change them. Local; any thread; does not block. INVALID_BUFFER: result or rows is NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_sparse_view(const struct tutti_sparse *result,
                                                             struct tutti_sparse_rows *rows);
/* Frees a result. NULL is allowed. Local; does not block. */
TUTTI_API enum tutti_status tutti_sparse_free(struct tutti_sparse *result);

/* How the call that made a result went. Bytes are those of indices and values that this rank gave
 * to collectives for other ranks, as if each block went straight to the ranks that need it. */
struct tutti_sparse_counters {
    size_t size_bytes;         /* set by the caller to sizeof(struct tutti_sparse_counters) */
    uint64_t sent_rows;        /* rows of values for other ranks; 0 with DENSE */
    uint64_t sent_index_bytes; /* bytes that say which rows they are */
    uint64_t sent_value_bytes;
    uint64_t merged_rows; /* rows that this rank combined, of its own and of other ranks */
    uint64_t way;         /* enum tutti_sparse_way; never CHOSEN */
};
/* Fills *counters for a result. Local; any thread; does not block. INVALID_BUFFER: result is NULL.
 * INVALID_OPTIONS: counters->size_bytes is not set. */
TUTTI_API enum tutti_status tutti_sparse_count(const struct tutti_sparse *result,
                                               struct tutti_sparse_counters *counters);
/* Says which way the call that made a result took, and why: a line for each way, with the time that
 * was estimated for it from the counts of all ranks, and the bytes that it sends. text: gets as
 * much as fits into text_bytes, and a zero at the end. Local; any thread; does not block.
 * INVALID_BUFFER: result or text is NULL, or text_bytes is 0. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_sparse_explain(const struct tutti_sparse *result,
                                                                char *text, size_t text_bytes);

#ifdef __cplusplus
}
#endif

#endif
