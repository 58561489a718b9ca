/* encoding_reduce.c - reductions of plain and encoded sources to plain and encoded places, block by
 * block, so that everything between the first load and the last store stays in the first cache.
 *
 * float32 that lies plain is read where it is, and stored where it goes. Everything else passes
 * through a block of float32. The sums are those of the kernels of float32, so they have their bits.
 */
#include <assert.h>

#include "encoding/codec.h"
#include "encoding/encoding.h"

enum {
    BLOCK_ELEMENTS = 1024, /* whole units of every encoding */
    BLOCK_BYTES = BLOCK_ELEMENTS * SIZE_float32,
    ENCODED_BYTES = BLOCK_ELEMENTS * 2, /* the most that a block has when encoded */
    GROUP = 4                           /* sources that are decoded at once */
};
#define X(enumerator, name, elements, bytes, ...)                              \
    _Static_assert(BLOCK_ELEMENTS % (elements) == 0 &&                         \
                       BLOCK_ELEMENTS / (elements) * (bytes) <= ENCODED_BYTES, \
                   "a block holds whole units, and has room for them when they are encoded");
ENCODING_LIST(X)
#undef X

/* One block of a call, and the buffers that it goes through. */
struct block {
    const struct encoding_codec *codecs;
    kernel_reduce *sum; /* of float32 */
    enum tutti_dtype dtype;
    size_t first, count;            /* elements */
    const unsigned char *result;    /* float32 */
    bool has_halves;                /* `halves` is the result in a dtype of 16 bits */
    enum tutti_encoding encoded_as; /* which `encoded` is of the result; NONE: not there */
    _Alignas(64) unsigned char sources[GROUP][BLOCK_BYTES];
    _Alignas(64) unsigned char total[BLOCK_BYTES];
    _Alignas(64) unsigned char halves[ENCODED_BYTES];
    _Alignas(64) unsigned char encoded[ENCODED_BYTES];
};

static const struct encoding_codec *codec_of_dtype(const struct block *block)
{
    return &block->codecs[block->dtype == TUTTI_BFLOAT16 ? TUTTI_ENCODING_BFLOAT16
                                                         : TUTTI_ENCODING_FLOAT16];
}

/* How far into a place the block begins. */
static size_t offset_in(const struct block *block, const struct kernel_format *format)
{
    return format->encoding != NULL ? kernel_encoded_bytes(format->encoding, block->first)
                                    : block->first * dtype_size(block->dtype);
}

/* The block of a source as float32: where it lies, or at `room`. */
static const unsigned char *load(const struct block *block, const void *source,
                                 const struct kernel_format *format, unsigned char *room)
{
    const unsigned char *const from = (const unsigned char *)source + offset_in(block, format);
    if (format->encoding != NULL)
        block->codecs[encoding_named(format->encoding)].decode(room, from, block->count);
    else if (block->dtype == TUTTI_FLOAT32)
        return from;
    else
        codec_of_dtype(block)->decode(room, from, block->count);
    return room;
}

/* Sums the sources from left to right, a group at a time, to `total`. */
static void sum_sources(struct block *block, const struct kernel_call *call, unsigned char *total)
{
    const bool scales = call->divisor != 0 || call->factor != 0;
    const void *terms[GROUP];
    unsigned term_count = 0;
    for (unsigned s = 0; s < call->source_count; s++) {
        terms[term_count] =
            load(block, call->sources[s], &call->formats->sources[s], block->sources[term_count]);
        term_count++;
        const bool is_last = s + 1 == call->source_count;
        if (term_count < GROUP && !is_last) continue;
        if (term_count == 1 && !scales) break;
        unsigned char *const to = is_last ? total : block->total;
        const struct kernel_call part = {.destination = to,
                                         .sources = terms,
                                         .source_count = term_count,
                                         .divisor = is_last ? call->divisor : 0,
                                         .factor = is_last ? call->factor : 0,
                                         .count = block->count,
                                         .dtype = TUTTI_FLOAT32};
        block->sum(&part);
        terms[0] = to;
        term_count = 1;
    }
    block->result = terms[0];
}

/* Rounds the result to 16 bits. It is float32 again afterwards, if `widens`. */
static void round_to_dtype(struct block *block, bool widens)
{
    codec_of_dtype(block)->encode(block->halves, block->result, block->count);
    if (widens) {
        codec_of_dtype(block)->decode(block->total, block->halves, block->count);
        block->result = block->total;
    }
    block->has_halves = true;
}

static const unsigned char *encode_as(struct block *block, enum tutti_encoding encoding)
{
    if (block->encoded_as != encoding)
        block->codecs[encoding].encode(block->encoded, block->result, block->count);
    block->encoded_as = encoding;
    return block->encoded;
}

/* The result becomes what it is after it was encoded. */
static void pass_through(struct block *block, const struct kernel_encoding *encoding)
{
    const enum tutti_encoding through = encoding_named(encoding);
    block->codecs[through].decode(block->total, encode_as(block, through), block->count);
    block->result = block->total;
    if (block->has_halves) codec_of_dtype(block)->encode(block->halves, block->total, block->count);
}

static void store(struct block *block, void *place, const struct kernel_format *format)
{
    unsigned char *const to = (unsigned char *)place + offset_in(block, format);
    if (format->encoding != NULL)
        memcpy(to, encode_as(block, encoding_named(format->encoding)),
               kernel_encoded_bytes(format->encoding, block->count));
    else if (block->has_halves)
        memcpy(to, block->halves, block->count * dtype_size(block->dtype));
    else if (to != block->result)
        memcpy(to, block->result, block->count * SIZE_float32);
}

static bool stores_encoded(const struct kernel_call *call)
{
    const struct kernel_formats *const formats = call->formats;
    bool any = formats->destination.encoding != NULL || formats->through != NULL ||
               (call->also != NULL && formats->also.encoding != NULL);
    for (unsigned i = 0; i < call->other_count; i++) any |= formats->others[i].encoding != NULL;
    return any;
}

static void reduce_block(struct block *block, const struct kernel_call *call, bool widens)
{
    const struct kernel_formats *const formats = call->formats;
    const bool is_plain = formats->destination.encoding == NULL && formats->through == NULL &&
                          block->dtype == TUTTI_FLOAT32;
    block->encoded_as = TUTTI_ENCODING_NONE;
    block->has_halves = false;
    sum_sources(block, call,
                is_plain ? (unsigned char *)call->destination + block->first * SIZE_float32
                         : block->total);
    if (block->dtype != TUTTI_FLOAT32) round_to_dtype(block, widens);
    if (formats->through != NULL) pass_through(block, formats->through);
    store(block, call->destination, &formats->destination);
    if (call->also != NULL) store(block, call->also, &formats->also);
    for (unsigned i = 0; i < call->other_count; i++)
        store(block, call->others[i], &formats->others[i]);
}

bool encoding_moves_bytes(const struct kernel_call *call)
{
    const struct kernel_formats *const formats = call->formats;
    const struct kernel_encoding *const encoding = formats->destination.encoding;
    return encoding != NULL && call->source_count == 1 && call->divisor == 0 && call->factor == 0 &&
           formats->sources[0].encoding == encoding && call->also == NULL &&
           call->other_count == 0 && (formats->through == NULL || formats->through == encoding);
}

static void reduce(const struct kernel_call *call, enum kernel_level level, enum tutti_dtype dtype)
{
    assert(call->formats != NULL && call->source_count > 0);
    if (encoding_moves_bytes(call)) {
        if (call->destination != call->sources[0])
            kernel_copy(call->destination, call->sources[0],
                        kernel_encoded_bytes(call->formats->destination.encoding, call->count));
        return;
    }
    struct block block;
    block.codecs = codec_table_of(level)->codecs;
    block.sum = kernel_get(level, TUTTI_FLOAT32, OP_SUM).reduce;
    block.dtype = dtype;
    const bool widens = stores_encoded(call);
    for (block.first = 0; block.first < call->count; block.first += BLOCK_ELEMENTS) {
        const size_t left = call->count - block.first;
        block.count = left < BLOCK_ELEMENTS ? left : BLOCK_ELEMENTS;
        reduce_block(&block, call, widens);
    }
}

#define REDUCE(level, dtype)                                             \
    static void reduce_##level##_##dtype(const struct kernel_call *call) \
    {                                                                    \
        reduce(call, KERNEL_##level, TUTTI_##dtype);                     \
    }
#define REDUCES(level)      \
    REDUCE(level, FLOAT32)  \
    REDUCE(level, BFLOAT16) \
    REDUCE(level, FLOAT16)
REDUCES(SCALAR)
#if defined(__x86_64__)
REDUCES(AVX2)
REDUCES(AVX512)
#elif defined(__aarch64__)
REDUCES(NEON)
#endif

#define SETS(level)                                                                                \
    [KERNEL_##level] = {[TUTTI_FLOAT32] = {reduce_##level##_FLOAT32, reduce_##level##_FLOAT32},    \
                        [TUTTI_BFLOAT16] = {reduce_##level##_BFLOAT16, reduce_##level##_BFLOAT16}, \
                        [TUTTI_FLOAT16] = {reduce_##level##_FLOAT16, reduce_##level##_FLOAT16}}

struct kernel_set encoding_kernels(enum kernel_level level, enum tutti_dtype dtype)
{
    static const struct kernel_set sets[KERNEL_LEVEL_COUNT][DTYPE_COUNT] = {
        SETS(SCALAR),
#if defined(__x86_64__)
        SETS(AVX2),
        SETS(AVX512),
#elif defined(__aarch64__)
        SETS(NEON),
#endif
    };
    const struct kernel_set set = sets[level][dtype];
    assert(set.reduce != NULL);
    return set;
}
