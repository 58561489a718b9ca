/* compress_low_rank.c - PowerSGD as a method of the compressor.
 *
 *     begin     M = gradient + residual, P = M Q             ─► average of P, with what is left alone
 *     middle    P := orthonormal P, Q = M^T P                ─► average of Q
 *     end       gradient = P Q^T, residual = M - P Q^T, and Q with columns of length 1 is the basis
 *
 * Averages of P and Q are the same on all ranks, so all ranks orthonormalise and decode to the same
 * bits. M lies in the gradient's memory from begin to end.
 */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "compress_state.h"
#include "low_rank.h"

static int least(int rank, size_t rows, size_t columns)
{
    const size_t most = rows < columns ? rows : columns;
    return (size_t)rank < most ? rank : (int)most;
}

static size_t measure(const struct tutti_compressor *c, struct compress_tensor *tensor)
{
    tensor->rank = least(c->options.rank, tensor->rows, tensor->columns);
    if (tensor->rows <= 1 || tensor->columns <= 1) return 0;
    return (size_t)tensor->rank * (tensor->rows + tensor->columns) * sizeof(float);
}

static enum tutti_status prepare(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    size_t p_count = 0, q_count = 0;
    struct compress_tensor *const tensors = c->tensors + bucket->first;
    for (size_t i = 0; i < bucket->count; i++)
        if (tensors[i].is_compressed) {
            p_count += (size_t)tensors[i].rank * tensors[i].rows;
            q_count += (size_t)tensors[i].rank * tensors[i].columns;
        }
    if (p_count == 0) return TUTTI_OK;
    TRY(compress_allocate(bucket, (p_count + q_count) * sizeof(float)));
    float *p = bucket->memory, *q = p + p_count;
    bucket->plain[bucket->plain_count++] = (struct tutti_tensor){p, p_count};
    const struct tutti_call_options options = compress_call_options(&c->options);
    TRY(tutti_allreduce_prepare(q, q, q_count, TUTTI_FLOAT32, TUTTI_AVG, &options, c->comm,
                                &bucket->prepared[EXCHANGE_SECOND]));
    for (size_t i = 0; i < bucket->count; i++)
        if (tensors[i].is_compressed) {
            tensors[i].p = p;
            tensors[i].q = q;
            p += (size_t)tensors[i].rank * tensors[i].rows;
            q += (size_t)tensors[i].rank * tensors[i].columns;
        }
    return TUTTI_OK;
}

static void begin(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    for (size_t i = 0; i < bucket->count; i++) {
        struct compress_tensor *const t = &c->tensors[bucket->first + i];
        if (t->is_compressed)
            low_rank_project(t->data, t->residual, t->rows, t->columns, t->rank, t->basis, t->p);
    }
}

static enum tutti_status middle(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    for (size_t i = 0; i < bucket->count; i++) {
        struct compress_tensor *const t = &c->tensors[bucket->first + i];
        if (!t->is_compressed) continue;
        t->is_finite = low_rank_is_finite(t->p, (size_t)t->rank * t->rows);
        low_rank_orthonormalise(t->p, t->rows, t->rank);
        low_rank_back_project(t->data, t->rows, t->columns, t->rank, t->p, t->q);
    }
    return TUTTI_OK;
}

/* Columns in which the next step begins: of this step's Q, or random. */
static void renew_basis(const struct tutti_compressor *c, struct compress_tensor *t)
{
    memcpy(t->basis, t->q, (size_t)t->rank * t->columns * sizeof *t->basis);
    for (int k = 0; k < t->rank; k++) {
        float *const column = t->basis + (size_t)k * t->columns;
        if (!c->options.warm_start || !low_rank_normalise(column, t->columns))
            low_rank_randomise(column, t->columns, hash_take(t->seed, c->steps + 1), k);
    }
}

static size_t end(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    size_t not_finite = 0;
    for (size_t i = 0; i < bucket->count; i++) {
        struct compress_tensor *const t = &c->tensors[bucket->first + i];
        if (!t->is_compressed) continue;
        if (!t->is_finite || !low_rank_is_finite(t->q, (size_t)t->rank * t->columns)) {
            for (size_t e = 0; e < t->count; e++) t->data[e] = NAN;
            not_finite++;
            continue;
        }
        low_rank_decode(t->data, t->residual, t->rows, t->columns, t->rank, t->p, t->q);
        renew_basis(c, t);
    }
    return not_finite;
}

const struct compress_method compress_low_rank = {"low rank", measure, prepare, begin, middle, end};
