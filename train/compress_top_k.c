/* compress_top_k.c - the largest elements of each tensor, as a method of the compressor.
 *
 *     begin     M = gradient + residual, selection of M      ─► allgather of all ranks' selections
 *     middle    are the places good that ranks sent?
 *     end       residual = M without this rank's selection, gradient = sum of selections / ranks
 *
 * Every rank adds selections up in the order of ranks. A rank receives ranks x payload bytes: where
 * these are more than the gradient, the method costs more than it saves.
 */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "compress_state.h"
#include "top_k.h"

static size_t measure(const struct tutti_compressor *c, struct compress_tensor *tensor)
{
    if (tensor->count == 0 || tensor->count > TOP_K_COUNT_MAX) return 0;
    tensor->selected = top_k_of(tensor->count, c->options.share);
    return top_k_bytes(tensor->selected);
}

static enum tutti_status prepare(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    for (size_t i = 0; i < bucket->count; i++) {
        const struct compress_tensor *const t = &c->tensors[bucket->first + i];
        if (t->is_compressed) bucket->payload_bytes += top_k_bytes(t->selected);
    }
    if (bucket->payload_bytes == 0) return TUTTI_OK;
    if (bucket->payload_bytes > SIZE_MAX / 4 / (size_t)c->size)
        return error_set(TUTTI_INVALID_COUNT,
                         "tutti_compressor_create: the selections of %d ranks are too large",
                         c->size);
    TRY(compress_allocate(bucket, bucket->payload_bytes * (size_t)c->size));
    const struct tutti_call_options options = compress_call_options(&c->options);
    unsigned char *const all = bucket->memory;
    return tutti_allgather_prepare(all + bucket->payload_bytes * (size_t)c->rank, all,
                                   bucket->payload_bytes, TUTTI_UINT8, &options, c->comm,
                                   &bucket->prepared[EXCHANGE_FIRST]);
}

static void begin(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    unsigned char *own = bucket->memory;
    own += bucket->payload_bytes * (size_t)c->rank;
    for (size_t i = 0; i < bucket->count; i++) {
        struct compress_tensor *const t = &c->tensors[bucket->first + i];
        if (!t->is_compressed) continue;
        if (t->residual != NULL)
            for (size_t e = 0; e < t->count; e++) t->data[e] += t->residual[e];
        top_k_select(t->data, t->count, t->selected, c->room, own);
        own += top_k_bytes(t->selected);
    }
}

static enum tutti_status middle(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    const unsigned char *at = bucket->memory;
    for (int r = 0; r < c->size; r++)
        for (size_t i = 0; i < bucket->count; i++) {
            const struct compress_tensor *const t = &c->tensors[bucket->first + i];
            if (!t->is_compressed) continue;
            if (!top_k_is_valid(at, t->selected, t->count))
                return error_set(TUTTI_CORRUPT,
                                 "tutti_compressor_finish: rank %d sent places that tensor '%s' of "
                                 "%zu elements does not have",
                                 r, t->name, t->count);
            at += top_k_bytes(t->selected);
        }
    return TUTTI_OK;
}

static void keep_residual(struct compress_tensor *t, const unsigned char *own)
{
    if (t->residual == NULL) return;
    memcpy(t->residual, t->data, t->count * sizeof *t->residual);
    top_k_clear(own, t->selected, t->residual);
    for (size_t e = 0; e < t->count; e++) /* more of them than were selected */
        if (!isfinite(t->residual[e])) t->residual[e] = 0;
}

static size_t end(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    const unsigned char *all = bucket->memory; /* of rank 0 */
    size_t not_finite = 0;
    for (size_t i = 0; i < bucket->count; i++) {
        struct compress_tensor *const t = &c->tensors[bucket->first + i];
        if (!t->is_compressed) continue;
        keep_residual(t, all + bucket->payload_bytes * (size_t)c->rank);
        memset(t->data, 0, t->count * sizeof *t->data);
        for (size_t r = 0; r < (size_t)c->size; r++)
            top_k_add(all + bucket->payload_bytes * r, t->selected, t->data);
        bool is_finite = true;
        for (size_t e = 0; e < t->count; e++) {
            t->data[e] /= (float)c->size;
            is_finite = is_finite && isfinite(t->data[e]);
        }
        not_finite += !is_finite;
        all += top_k_bytes(t->selected);
    }
    return not_finite;
}

const struct compress_method compress_top_k = {"top k", measure, prepare, begin, middle, end};
