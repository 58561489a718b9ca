/* compress_encoded.c - an encoding of elements (tutti/encode.h), with two residuals, as a method of
 * the compressor. Each tensor is cut into a range for each rank, its owner:
 *
 *     begin     gradient + residual ─ encode ─► message; what it loses lies in the gradient's memory
 *                                               ─► alltoallv: each range to its owner
 *     middle    owner: average of what ranks sent, decoded, + owner's residual ─ encode ─► message
 *                                               ─► allgatherv: ranges of all owners
 *     end       residual = what begin lost, owner's residual = what middle lost, gradient = decoded
 *
 *     message   ranges owned by rank 0: of tensor a, b, c │ by rank 1: of a, b, c │ ...
 *     received  own ranges, of rank 0: of a, b, c         │ of rank 1: ...
 *
 * An element is encoded twice, however many ranks there are, and each time what is lost comes in a
 * later step (Tang et al., "DoubleSqueeze", arXiv 1905.05957). Ranks send 2 (ranks - 1) / ranks
 * times the message. Owners add up in the order of ranks, in float32.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "compress_state.h"

/* A multiple of the elements of every encoding's unit, so that ranges encode to whole units. */
enum { BLOCK = 128, CHUNK = 8 * BLOCK };

/* ----------------------------------------------------------------------------------------- ranges */

struct range {
    size_t first, count;
};

/* Small tensors have fewer blocks than there are ranks; their names decide who owns these. */
static struct range range_of(const struct tutti_compressor *c, const struct compress_tensor *t,
                             int owner)
{
    const size_t size = (size_t)c->size, blocks = (t->count + BLOCK - 1) / BLOCK;
    const size_t turn = ((size_t)owner + (size_t)(t->seed % size)) % size;
    const size_t first = blocks / size * turn + blocks % size * turn / size;
    const size_t next = blocks / size * (turn + 1) + blocks % size * (turn + 1) / size;
    const size_t end = next * BLOCK < t->count ? next * BLOCK : t->count;
    return (struct range){first * BLOCK, first < next ? end - first * BLOCK : 0};
}

/* For a count and an encoding that were good at the start. */
static size_t encoded_bytes(const struct tutti_compressor *c, size_t count)
{
    size_t bytes = 0;
    (void)!tutti_encoded_size(c->options.encoding, TUTTI_FLOAT32, count, &bytes);
    return bytes;
}

static size_t measure(const struct tutti_compressor *c, struct compress_tensor *t)
{
    const struct range own = range_of(c, t, c->rank);
    t->own_first = own.first;
    t->own_count = own.count;
    return encoded_bytes(c, t->count);
}

/* ----------------------------------------------------------------------------------------- making */

/* The bytes of the message that go to each rank, or come from each owner. */
static void fill_counts(const struct tutti_compressor *c, const struct compress_bucket *bucket,
                        size_t *counts)
{
    for (int r = 0; r < c->size; r++)
        for (size_t i = 0; i < bucket->count; i++) {
            const struct compress_tensor *const t = &c->tensors[bucket->first + i];
            if (t->is_compressed) counts[r] += encoded_bytes(c, range_of(c, t, r).count);
        }
}

static size_t own_elements(const struct tutti_compressor *c, const struct compress_bucket *bucket)
{
    size_t count = 0;
    for (size_t i = 0; i < bucket->count; i++)
        if (c->tensors[bucket->first + i].is_compressed)
            count += c->tensors[bucket->first + i].own_count;
    return count;
}

static enum tutti_status prepare_exchanges(struct tutti_compressor *c,
                                           struct compress_bucket *bucket, const size_t *counts,
                                           const size_t *received_counts)
{
    const struct tutti_call_options options = compress_call_options(&c->options);
    unsigned char *const message = bucket->memory;
    TRY(tutti_alltoallv_prepare(message, counts, NULL, bucket->received, received_counts, NULL,
                                TUTTI_UINT8, &options, c->comm, &bucket->prepared[EXCHANGE_FIRST]));
    return tutti_allgatherv_prepare(message + bucket->own_offset, message, counts, NULL, TUTTI_UINT8,
                                    &options, c->comm, &bucket->prepared[EXCHANGE_SECOND]);
}

static enum tutti_status make_exchanges(struct tutti_compressor *c, struct compress_bucket *bucket,
                                        size_t *counts, size_t *received_counts)
{
    const size_t size = (size_t)c->size, aligned = sizeof(float);
    fill_counts(c, bucket, counts);
    size_t message_bytes = 0;
    for (size_t r = 0; r < size; r++) {
        if ((int)r == c->rank) bucket->own_offset = message_bytes;
        message_bytes += counts[r];
        received_counts[r] = counts[c->rank];
    }
    if (message_bytes == 0) return TUTTI_OK;
    bucket->payload_bytes = counts[c->rank];
    const size_t before = message_bytes + size * bucket->payload_bytes + aligned;
    TRY(compress_allocate(bucket, before + own_elements(c, bucket) * sizeof(float)));
    bucket->received = (unsigned char *)bucket->memory + message_bytes;
    bucket->owner_next = (float *)bucket->memory + before / aligned;
    return prepare_exchanges(c, bucket, counts, received_counts);
}

static enum tutti_status prepare(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    size_t *const counts = calloc(2 * (size_t)c->size, sizeof *counts);
    if (counts == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_compressor_create: out of memory");
    const enum tutti_status status = make_exchanges(c, bucket, counts, counts + c->size);
    free(counts);
    return status;
}

/* ---------------------------------------------------------------------------------------- a step */

/* Sender: what is lost takes the place of the elements. */
static void begin(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    unsigned char *to = bucket->memory;
    for (size_t i = 0; i < bucket->count; i++) {
        struct compress_tensor *const t = &c->tensors[bucket->first + i];
        if (t->is_compressed && t->residual != NULL)
            for (size_t e = 0; e < t->count; e++) t->data[e] += t->residual[e];
    }
    for (int r = 0; r < c->size; r++)
        for (size_t i = 0; i < bucket->count; i++) {
            const struct compress_tensor *const t = &c->tensors[bucket->first + i];
            if (!t->is_compressed) continue;
            const struct range range = range_of(c, t, r);
            float *const elements = t->data + range.first;
            (void)!tutti_encode_residual(c->options.encoding, TUTTI_FLOAT32, elements, range.count,
                                         to, elements);
            to += encoded_bytes(c, range.count);
        }
}

/* The average of a chunk of an own range over all ranks. `at` is where rank 0's lies. */
static void average(const struct tutti_compressor *c, const struct compress_bucket *bucket,
                    const unsigned char *at, size_t count, float *sum)
{
    float part[CHUNK];
    for (int r = 0; r < c->size; r++, at += bucket->payload_bytes) {
        (void)!tutti_decode(c->options.encoding, TUTTI_FLOAT32, at, count, r == 0 ? sum : part);
        for (size_t e = 0; r > 0 && e < count; e++) sum[e] += part[e];
    }
    for (size_t e = 0; e < count; e++) sum[e] /= (float)c->size;
}

/* Owner: the averages of an own range, encoded, and what that loses. */
static void encode_own(const struct tutti_compressor *c, const struct compress_bucket *bucket,
                       const struct compress_tensor *t, const unsigned char *from,
                       unsigned char *to, float *lost)
{
    float sum[CHUNK];
    for (size_t first = 0; first < t->own_count; first += CHUNK) {
        const size_t left = t->own_count - first, count = left < CHUNK ? left : CHUNK;
        const size_t offset = encoded_bytes(c, first);
        average(c, bucket, from + offset, count, sum);
        for (size_t e = 0; t->owner != NULL && e < count; e++) sum[e] += t->owner[first + e];
        (void)!tutti_encode_residual(c->options.encoding, TUTTI_FLOAT32, sum, count, to + offset,
                                     lost + first);
    }
}

static enum tutti_status middle(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    const unsigned char *from = bucket->received;
    unsigned char *to = bucket->memory;
    float *lost = bucket->owner_next;
    if (to == NULL) return TUTTI_OK;
    to += bucket->own_offset;
    for (size_t i = 0; i < bucket->count; i++) {
        const struct compress_tensor *const t = &c->tensors[bucket->first + i];
        if (!t->is_compressed) continue;
        encode_own(c, bucket, t, from, to, lost);
        from += encoded_bytes(c, t->own_count);
        to += encoded_bytes(c, t->own_count);
        lost += t->own_count;
    }
    return TUTTI_OK;
}

static void keep_residuals(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    const float *lost = bucket->owner_next;
    for (size_t i = 0; i < bucket->count; i++) {
        struct compress_tensor *const t = &c->tensors[bucket->first + i];
        if (!t->is_compressed) continue;
        if (t->residual != NULL) memcpy(t->residual, t->data, t->count * sizeof(float));
        if (t->owner != NULL) memcpy(t->owner, lost, t->own_count * sizeof(float));
        lost += t->own_count;
    }
}

static size_t count_not_finite(const struct tutti_compressor *c,
                               const struct compress_bucket *bucket)
{
    size_t tensors = 0;
    for (size_t i = 0; i < bucket->count; i++) {
        const struct compress_tensor *const t = &c->tensors[bucket->first + i];
        size_t e = 0;
        while (t->is_compressed && e < t->count && isfinite(t->data[e])) e++;
        tensors += t->is_compressed && e < t->count;
    }
    return tensors;
}

static size_t end(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    const unsigned char *from = bucket->memory;
    keep_residuals(c, bucket);
    for (int r = 0; r < c->size; r++)
        for (size_t i = 0; i < bucket->count; i++) {
            const struct compress_tensor *const t = &c->tensors[bucket->first + i];
            if (!t->is_compressed) continue;
            const struct range range = range_of(c, t, r);
            (void)!tutti_decode(c->options.encoding, TUTTI_FLOAT32, from, range.count,
                                t->data + range.first);
            from += encoded_bytes(c, range.count);
        }
    return count_not_finite(c, bucket);
}

const struct compress_method compress_encoded = {"encoded", measure, prepare, begin, middle, end};
