/* reduce_run.h - gpu_reduce_run (reduce.h): one reduction, by all threads of a device together.
 * Only kernels.cu and tests/gpu/twins.c include it.
 *
 * The meaning of elements is that of kernel/kernel_element.h, the same source as the CPU's, but for
 * conversions that would take the threads of a warp apart there: bits are the same. The device has
 * its own conversions of binary16.
 *
 *     destination 0    ..|....xxxx|xxxxxxxx|xxxxxxxx|xxxxxxxx|xx......|..      in vectors of 16 bytes, as they lie there
 *                         first      f u l l                   last
 *
 * If all destinations and sources lie alike, threads take several whole vectors at a time,
 * neighbours neighbouring ones, and have those of two sources under way before they use the first:
 * memory is far away. All else, also the first and the last vector if they are not whole, goes by a
 * slower loop: an element across two vectors is read as both and shifted together, and stored in
 * pieces as large as its alignment allows. So all threads that share an instruction do the same,
 * whatever the alignment, and no access is misaligned.
 *
 * Copies (one source, nothing to divide or multiply) are copies of bytes: unlike kernels of CPUs,
 * these leave signalling NaN signalling.
 *
 * *reduce and the pointers are read again and again, by ordinary loads: they should lie near the
 * threads, in shared memory. (The addresses of elements are of global memory.)
 */
#ifndef TUTTI_GPU_REDUCE_RUN_H
#define TUTTI_GPU_REDUCE_RUN_H

#include "gpu/device_code.h"
#include "gpu/reduce.h"

#if defined(__CUDA_ARCH__)
#pragma clang force_cuda_host_device begin
#endif
#include "encoding/codec_element.h"
#include "kernel/kernel_element.h"
#include "tutti/encode.h"
#if defined(__CUDA_ARCH__)
#pragma clang force_cuda_host_device end
#endif

enum { DEVICE_VECTOR_BYTES = 16 };

/* Loops, in which signed integers go with unsigned ones, and what only bits count in has one for
 * all. Floats first. */
#define REDUCE_LOOPS(X) \
    X(float32)          \
    X(float64)          \
    X(bfloat16)         \
    X(float16)          \
    X(float8)           \
    X(uint8)            \
    X(uint16)           \
    X(uint32)           \
    X(uint64)           \
    X(words)
enum reduce_loop {
#define X(name) REDUCE_##name,
    REDUCE_LOOPS(X)
#undef X
};

/* The treatment of a sum before it is stored. */
enum reduce_finish { REDUCE_PLAIN, REDUCE_DIVIDE, REDUCE_SCALE };

/* A format of 8 bits. Codes and numbers are without sign, numbers as bits of float32. */
struct reduce_float8 {
    uint32_t shift;   /* of a code, to the left: that makes it binary16, */
    float scale;      /* so many times too small */
    uint32_t cut;     /* bits of float32's mantissa that it lacks */
    uint32_t half;    /* half of what they can hold, less 1 */
    uint32_t bias;    /* what is too much in an exponent of float32, in a code */
    uint32_t least;   /* the smallest normal number */
    uint32_t coarse;  /* a power of two whose last bit is the smallest number of all */
    uint32_t largest; /* the code of infinity, or of NaN where there is none */
};

/* One reduction, seen from a thread. All of it lies in registers, so it is little: what is rarely
 * needed is read, or computed, again. */
struct reduce_work {
    const struct gpu_reduce *reduce;
    const uint64_t *destinations, *sources;
    uint32_t destination_count, source_count;
    uint32_t thread, threads;
    enum reduce_loop loop;
    enum op op;
    enum reduce_finish finish;
    bool is_signed; /* of integers */
    uint32_t lead;  /* vector i begins at the byte 16 i - lead */
    uint64_t end;   /* where they end: bytes of a place, and lead */
    uint64_t whole_begin,
        whole_end; /* whole vectors of which all places are aligned: for the fast loop */
};

/* -------------------------------------------------------------------------------------- vectors */

/* The 16 bytes that begin k bytes into 32. */
DEVICE_FUNCTION struct device_vector vector_shifted(struct device_vector low,
                                                    struct device_vector high, uint32_t k)
{
    uint32_t w[8];
    DEVICE_EACH (i, 4) w[i] = low.words[i], w[i + 4] = high.words[i];
    DEVICE_EACH (i, 6) {
        const uint32_t here = w[i], there = w[i + 2];
        w[i] = k & 8 ? there : here;
    }
    DEVICE_EACH (i, 5) {
        const uint32_t here = w[i], there = w[i + 1];
        w[i] = k & 4 ? there : here;
    }
    struct device_vector v;
    DEVICE_EACH (i, 4) v.words[i] = (uint32_t)(((uint64_t)w[i + 1] << 32 | w[i]) >> 8 * (k & 3));
    return v;
}

/* Up to 16 bytes from any address; what is behind them is undefined. */
DEVICE_FUNCTION struct device_vector vector_load(uint64_t address, uint32_t bytes)
{
    const uint32_t k = (uint32_t)address % DEVICE_VECTOR_BYTES, end = k + bytes;
    const uint64_t from = address - k;
    return vector_shifted(
        device_load_part(from, k, end < DEVICE_VECTOR_BYTES ? end : DEVICE_VECTOR_BYTES),
        device_load_part(from + DEVICE_VECTOR_BYTES, 0,
                         end > DEVICE_VECTOR_BYTES ? end - DEVICE_VECTOR_BYTES : 0),
        k);
}

/* Element j of a vector of elements of so many bytes; both are constants. */
DEVICE_FUNCTION uint64_t vector_lane(const struct device_vector *v, uint32_t bytes, uint32_t j)
{
    const uint32_t word = v->words[j * bytes / 4];
    if (bytes == 8) return (uint64_t)v->words[j * 2 + 1] << 32 | word;
    return bytes == 4 ? word : word >> j * bytes % 4 * 8 & ((1u << bytes % 4 * 8) - 1);
}

/* Of a vector that began as zeros. */
DEVICE_FUNCTION void vector_set_lane(struct device_vector *v, uint32_t bytes, uint32_t j,
                                     uint64_t lane)
{
    v->words[j * bytes / 4] |= (uint32_t)lane << j * bytes % 4 * 8;
    if (bytes == 8) v->words[j * 2 + 1] = (uint32_t)(lane >> 32);
}

DEVICE_FUNCTION struct device_vector vector_zero(void)
{
    const struct device_vector v = {{0, 0, 0, 0}};
    return v;
}

/* The first bytes of a vector to any address. */
DEVICE_FUNCTION void vector_store(uint64_t address, struct device_vector v, uint32_t bytes)
{
    const uint32_t alignment = (uint32_t)address | bytes;
    if (alignment % 16 == 0) {
        if (bytes != 0) device_store_vector(address, v, true);
    } else if (alignment % 8 == 0) {
        DEVICE_EACH (i, 2) {
            if (8 * i < bytes) device_store_piece64(address + 8 * i, vector_lane(&v, 8, i));
        }
    } else if (alignment % 4 == 0) {
        DEVICE_EACH (i, 4) {
            if (4 * i < bytes) device_store_piece32(address + 4 * i, v.words[i]);
        }
    } else if (alignment % 2 == 0) {
        DEVICE_EACH (i, 8) {
            if (2 * i < bytes)
                device_store_piece16(address + 2 * i, (uint16_t)vector_lane(&v, 2, i));
        }
    } else {
        DEVICE_EACH (i, 16) {
            if (i < bytes) device_store_piece8(address + i, (uint8_t)vector_lane(&v, 1, i));
        }
    }
}

/* ------------------------------------------------------------------------------------- elements */

/* For each dtype
 *   reduce_load_D, reduce_store_D    bits of an element <-> accumulator
 *   reduce_kept_D, reduce_keep_D     accumulators that all dtypes keep in the same words
 *   reduce_finish_D                  division or multiplication of a sum */
#define REDUCE_KEPT(dtype)                                                                      \
    DEVICE_FUNCTION accumulator_##dtype reduce_kept_##dtype(const uint32_t *kept, uint32_t i)   \
    {                                                                                           \
        accumulator_##dtype a;                                                                  \
        const uint64_t bits =                                                                   \
            sizeof(a) == 8 ? (uint64_t)kept[2 * i + 1] << 32 | kept[2 * i] : kept[i];           \
        memcpy(&a, &bits, sizeof(a));                                                           \
        return a;                                                                               \
    }                                                                                           \
    DEVICE_FUNCTION void reduce_keep_##dtype(uint32_t *kept, uint32_t i, accumulator_##dtype a) \
    {                                                                                           \
        uint64_t bits = 0;                                                                      \
        memcpy(&bits, &a, sizeof(a));                                                           \
        if (sizeof(a) == 8) {                                                                   \
            kept[2 * i] = (uint32_t)bits;                                                       \
            kept[2 * i + 1] = (uint32_t)(bits >> 32);                                           \
        } else {                                                                                \
            kept[i] = (uint32_t)bits;                                                           \
        }                                                                                       \
    }
/* clang-format off */
REDUCE_KEPT(float32) REDUCE_KEPT(float64)
REDUCE_KEPT(bfloat16) REDUCE_KEPT(float16)
REDUCE_KEPT(uint8) REDUCE_KEPT(uint16) REDUCE_KEPT(uint32) REDUCE_KEPT(uint64)
/* clang-format on */
#undef REDUCE_KEPT

#define REDUCE_PLAIN_FLOAT(dtype, type)                                                     \
    DEVICE_FUNCTION accumulator_##dtype reduce_load_##dtype(const struct reduce_work *work, \
                                                            uint64_t lane)                  \
    {                                                                                       \
        const type bits = (type)lane;                                                       \
        accumulator_##dtype a;                                                              \
        (void)work;                                                                         \
        memcpy(&a, &bits, sizeof(a));                                                       \
        return a;                                                                           \
    }                                                                                       \
    DEVICE_FUNCTION uint64_t reduce_store_##dtype(const struct reduce_work *work,           \
                                                  accumulator_##dtype a)                    \
    {                                                                                       \
        type bits;                                                                          \
        (void)work;                                                                         \
        memcpy(&bits, &a, sizeof(a));                                                       \
        return bits;                                                                        \
    }
        REDUCE_PLAIN_FLOAT(float32, uint32_t) REDUCE_PLAIN_FLOAT(float64, uint64_t)
#undef REDUCE_PLAIN_FLOAT

    /* For min and max the sign bit of signed integers, which are compared as unsigned ones. */
    DEVICE_FUNCTION uint64_t reduce_flip(const struct reduce_work *work, size_t bytes)
{
    return work->is_signed && (work->op == OP_MIN || work->op == OP_MAX)
               ? (uint64_t)1 << (8 * bytes - 1)
               : 0;
}

#define REDUCE_INTEGER(dtype)                                                                \
    DEVICE_FUNCTION accumulator_##dtype reduce_load_##dtype(const struct reduce_work *work,  \
                                                            uint64_t lane)                   \
    {                                                                                        \
        return (accumulator_##dtype)(lane ^ reduce_flip(work, sizeof(accumulator_##dtype))); \
    }                                                                                        \
    DEVICE_FUNCTION uint64_t reduce_store_##dtype(const struct reduce_work *work,            \
                                                  accumulator_##dtype a)                     \
    {                                                                                        \
        return (accumulator_##dtype)(a ^ reduce_flip(work, sizeof(a)));                      \
    }
REDUCE_INTEGER(uint8)
REDUCE_INTEGER(uint16)
REDUCE_INTEGER(uint32)
REDUCE_INTEGER(uint64)
#undef REDUCE_INTEGER

/* The same as kernel_element.h's, without branches, which threads would take apart. A device's NaN
 * is 0x7fffffff, which rounding would make a zero. */
DEVICE_FUNCTION float reduce_load_bfloat16(const struct reduce_work *work, uint64_t lane)
{
    (void)work;
    return float32_of_bits((uint32_t)lane << 16);
}
DEVICE_FUNCTION uint64_t reduce_store_bfloat16(const struct reduce_work *work, float a)
{
    const uint32_t bits = float32_bits(a);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    (void)work;
    return a != a ? 0x7fffu : rounded;
}

DEVICE_FUNCTION float reduce_load_float16(const struct reduce_work *work, uint64_t lane)
{
    const uint16_t code = (uint16_t)lane;
    (void)work;
#if defined(__CUDA_ARCH__)
    return device_float16_widen(code);
#else
    return load_one_float16((const unsigned char *)&code);
#endif
}
DEVICE_FUNCTION uint64_t reduce_store_float16(const struct reduce_work *work, float a)
{
    uint16_t code;
    (void)work;
#if defined(__CUDA_ARCH__)
    code = device_float16_narrow(a);
#else
    store_one_float16((unsigned char *)&code, a);
#endif
    return code;
}

DEVICE_FUNCTION struct reduce_float8 reduce_float8_of(bool is_e4m3)
{
    const uint32_t mantissa_bits = is_e4m3 ? 3 : 2,
                   least = is_e4m3 ? EXPONENT_LEAST(4) : EXPONENT_LEAST(5);
    struct reduce_float8 f;
    f.shift = 10 - mantissa_bits;
    f.scale = is_e4m3 ? 256 : 1;
    f.cut = 23 - mantissa_bits;
    f.half = (1u << (f.cut - 1)) - 1;
    f.bias = (least - 1) << mantissa_bits;
    f.least = least << 23;
    f.coarse = (least + f.cut) << 23;
    f.largest = is_e4m3 ? 0x7f : 0x7c;
    return f;
}

/* The formats of 8 bits have one loop: they are parts of binary16, but for one's largest exponent,
 * which holds numbers, and its scale. */
DEVICE_FUNCTION float reduce_widen_float8(struct reduce_float8 f, uint32_t byte)
{
    const uint32_t code = byte & 0x7f, sign = byte >> 7 & 1;
    const float a = f.scale * reduce_load_float16(NULL, sign << 15 | code << f.shift);
    return code == 0x7f ? float32_of_bits(FLOAT32_INFINITY | FLOAT32_QUIET) : a;
}

/* narrow_one of kernel_element.h without branches: adding the number whose last bit is the format's
 * smallest one rounds denormals, as the default rounding of floats is the one that is wanted. */
DEVICE_FUNCTION uint32_t reduce_narrow_float8(struct reduce_float8 f, float a)
{
    const uint32_t bits = float32_bits(a), magnitude = bits & 0x7fffffffu, sign = bits >> 31;
    const uint32_t normal = ((magnitude + f.half + (magnitude >> f.cut & 1u)) >> f.cut) - f.bias;
    const uint32_t denormal =
        float32_bits(float32_of_bits(magnitude) + float32_of_bits(f.coarse)) - f.coarse;
    const uint32_t code = magnitude < f.least ? denormal : normal;
    return (a != a ? 0x7fu : code < f.largest ? code : f.largest) | sign << 7;
}

DEVICE_FUNCTION bool reduce_is_e4m3(const struct reduce_work *work)
{
    return work->reduce->dtype == TUTTI_FLOAT8_E4M3;
}
DEVICE_FUNCTION float reduce_load_float8(const struct reduce_work *work, uint64_t lane)
{
    return reduce_widen_float8(reduce_float8_of(reduce_is_e4m3(work)), (uint32_t)lane);
}
DEVICE_FUNCTION uint64_t reduce_store_float8(const struct reduce_work *work, float a)
{
    return reduce_narrow_float8(reduce_float8_of(reduce_is_e4m3(work)), a);
}

DEVICE_FUNCTION bool reduce_is_power(uint32_t divisor)
{
    return (divisor & (divisor - 1)) == 0;
}

/* To divide by a power of two is to multiply by another, which is faster: both round the same
 * number. */
DEVICE_FUNCTION double reduce_factor(const struct gpu_reduce *reduce)
{
    if (reduce->divisor == 0) return reduce->factor;
    const uint64_t bits = (uint64_t)(1023 - __builtin_ctz(reduce->divisor)) << 52;
    double factor;
    memcpy(&factor, &bits, sizeof(factor));
    return factor;
}

#define REDUCE_FLOAT_FINISH(dtype)                                                            \
    DEVICE_FUNCTION accumulator_##dtype reduce_divide_##dtype(const struct reduce_work *work, \
                                                              accumulator_##dtype a)          \
    {                                                                                         \
        return divide_one_##dtype(a, (accumulator_##dtype)work->reduce->divisor);             \
    }                                                                                         \
    DEVICE_FUNCTION accumulator_##dtype reduce_scale_##dtype(const struct reduce_work *work,  \
                                                             accumulator_##dtype a)           \
    {                                                                                         \
        return scale_one_##dtype(a, (accumulator_##dtype)reduce_factor(work->reduce));        \
    }
REDUCE_FLOAT_FINISH(float32)
REDUCE_FLOAT_FINISH(float64)
REDUCE_FLOAT_FINISH(bfloat16)
REDUCE_FLOAT_FINISH(float16)
#undef REDUCE_FLOAT_FINISH

/* Truncated: magnitudes are divided. `wide` holds them and the divisor. Integers are not scaled. */
#define REDUCE_INTEGER_FINISH(dtype, wide)                                                    \
    DEVICE_FUNCTION accumulator_##dtype reduce_divide_##dtype(const struct reduce_work *work, \
                                                              accumulator_##dtype a)          \
    {                                                                                         \
        const bool is_negative = work->is_signed && a >> (8 * sizeof(a) - 1) != 0;            \
        const wide magnitude = is_negative ? (accumulator_##dtype) - a : a;                   \
        const wide quotient = magnitude / work->reduce->divisor;                              \
        return (accumulator_##dtype)(is_negative ? -quotient : quotient);                     \
    }                                                                                         \
    DEVICE_FUNCTION accumulator_##dtype reduce_scale_##dtype(const struct reduce_work *work,  \
                                                             accumulator_##dtype a)           \
    {                                                                                         \
        (void)work;                                                                           \
        return a;                                                                             \
    }
REDUCE_INTEGER_FINISH(uint8, uint32_t)
REDUCE_INTEGER_FINISH(uint16, uint32_t)
REDUCE_INTEGER_FINISH(uint32, uint32_t)
REDUCE_INTEGER_FINISH(uint64, uint64_t)
#undef REDUCE_INTEGER_FINISH

typedef float accumulator_float8;
enum { SIZE_float8 = 1 };
#define combine_one_float8 combine_one_float32
#define reduce_divide_float8 reduce_divide_float32
#define reduce_scale_float8 reduce_scale_float32
#define reduce_kept_float8 reduce_kept_float32
#define reduce_keep_float8 reduce_keep_float32

/* Words of 32 bits of elements of any size: for bitwise operations, and for copies. */
typedef uint32_t accumulator_words;
enum { SIZE_words = 4 };
#define combine_one_words combine_one_uint32
#define reduce_load_words reduce_load_uint32
#define reduce_store_words reduce_store_uint32
#define reduce_kept_words reduce_kept_uint32
#define reduce_keep_words reduce_keep_uint32
#define reduce_divide_words reduce_scale_uint32 /* there are no sums */
#define reduce_scale_words reduce_scale_uint32

/* ---------------------------------------------------------------------------------------- loops */

/* The part of a vector that there is, of those that are not for the fast loop: where it begins, and
 * how many bytes. */
DEVICE_FUNCTION uint32_t reduce_part(const struct reduce_work *work, uint64_t number,
                                     uint64_t *offset)
{
    if (number >= work->whole_begin) number += work->whole_end - work->whole_begin;
    const uint64_t begin = number * DEVICE_VECTOR_BYTES, end = begin + DEVICE_VECTOR_BYTES,
                   last = work->end;
    *offset = begin > work->lead ? begin - work->lead : 0;
    return (uint32_t)((end < last ? end : last) - work->lead - *offset);
}

/* The vectors that a thread has under way in the loops over whole vectors: the vector `first`, and
 * others at the distance of all threads. */
#define REDUCE_EACH_ROW(first, work, at_once)                                              \
    for (uint64_t first = (work)->whole_begin + (work)->thread; first < (work)->whole_end; \
         first += (uint64_t)(at_once) * (work)->threads)

/* at_once is a constant. Addresses are made anew each time: to keep them would cost registers. */
DEVICE_FUNCTION void reduce_load(const struct reduce_work *work, uint64_t first, uint64_t source,
                                 struct device_vector *v, uint32_t at_once)
{
    first = device_hidden(first);
    const uint64_t address = source + first * DEVICE_VECTOR_BYTES - work->lead;
    DEVICE_EACH (k, at_once) {
        const uint64_t further = (uint64_t)k * work->threads;
        v[k] = device_load_vector(address + further * DEVICE_VECTOR_BYTES,
                                  first + further < work->whole_end);
    }
}

DEVICE_FUNCTION void reduce_store(const struct reduce_work *work, uint64_t first,
                                  uint64_t destination, const struct device_vector *v,
                                  uint32_t at_once)
{
    first = device_hidden(first);
    const uint64_t address = destination + first * DEVICE_VECTOR_BYTES - work->lead;
    DEVICE_EACH (k, at_once) {
        const uint64_t further = (uint64_t)k * work->threads;
        device_store_vector(address + further * DEVICE_VECTOR_BYTES, v[k],
                            first + further < work->whole_end);
    }
}

#define REDUCE_FLOAT_OPERATIONS(X) X(OP_PROD) X(OP_MIN) X(OP_MAX)
#define REDUCE_INTEGER_OPERATIONS(X) X(OP_PROD) X(OP_MIN) X(OP_MAX) X(OP_LAND) X(OP_LOR) X(OP_LXOR)
#define REDUCE_WORD_OPERATIONS(X) X(OP_BOR) X(OP_BXOR)
/* Others are rare, and go by the slow loop: a driver has to compile less. So do divisions. */
#define REDUCE_OFTEN(op, bytes)                                                 \
    ((op) != OP_PROD && (op) != OP_LAND && (op) != OP_LOR && (op) != OP_LXOR && \
     !((bytes) == 1 && ((op) == OP_MIN || (op) == OP_MAX)))

#define DTYPE float32
#define OPERATIONS REDUCE_FLOAT_OPERATIONS
#define OTHERWISE OP_SUM
#define AT_ONCE 3
#include "gpu/reduce_loop.inc"
#define DTYPE float64
#define OPERATIONS REDUCE_FLOAT_OPERATIONS
#define OTHERWISE OP_SUM
#define AT_ONCE 4
#include "gpu/reduce_loop.inc"
#define DTYPE bfloat16
#define OPERATIONS REDUCE_FLOAT_OPERATIONS
#define OTHERWISE OP_SUM
#define AT_ONCE 4
#include "gpu/reduce_loop.inc"
#define DTYPE float16
#define OPERATIONS REDUCE_FLOAT_OPERATIONS
#define OTHERWISE OP_SUM
#define AT_ONCE 4
#include "gpu/reduce_loop.inc"
#define DTYPE float8
#define OPERATIONS REDUCE_FLOAT_OPERATIONS
#define OTHERWISE OP_SUM
#define AT_ONCE 1
#include "gpu/reduce_loop.inc"
#define DTYPE uint8
#define OPERATIONS REDUCE_INTEGER_OPERATIONS
#define OTHERWISE OP_SUM
#define AT_ONCE 2
#include "gpu/reduce_loop.inc"
#define DTYPE uint16
#define OPERATIONS REDUCE_INTEGER_OPERATIONS
#define OTHERWISE OP_SUM
#define AT_ONCE 4
#include "gpu/reduce_loop.inc"
#define DTYPE uint32
#define OPERATIONS REDUCE_INTEGER_OPERATIONS
#define OTHERWISE OP_SUM
#define AT_ONCE 4
#include "gpu/reduce_loop.inc"
#define DTYPE uint64
#define OPERATIONS REDUCE_INTEGER_OPERATIONS
#define OTHERWISE OP_SUM
#define AT_ONCE 4
#include "gpu/reduce_loop.inc"
#define DTYPE words
#define OPERATIONS REDUCE_WORD_OPERATIONS
#define OTHERWISE OP_BAND
#define AT_ONCE 4
#include "gpu/reduce_loop.inc"

#undef combine_one_float8
#undef reduce_divide_float8
#undef reduce_scale_float8
#undef reduce_kept_float8
#undef reduce_keep_float8
#undef combine_one_words
#undef reduce_load_words
#undef reduce_store_words
#undef reduce_kept_words
#undef reduce_keep_words
#undef reduce_divide_words
#undef reduce_scale_words

/* Copies whole vectors: with nothing to compute there is room for more of them. */
DEVICE_FUNCTION void reduce_copy(const struct reduce_work *work)
{
    enum { AT_ONCE = 8 };
    REDUCE_EACH_ROW (first, work, AT_ONCE) {
        struct device_vector v[AT_ONCE];
        reduce_load(work, first, work->sources[0], v, AT_ONCE);
        for (uint32_t d = 0; d < work->destination_count; d++)
            reduce_store(work, first, work->destinations[d], v, AT_ONCE);
    }
}

/* All vectors that are whole and aligned. */
DEVICE_FUNCTION void reduce_whole(const struct reduce_work *work)
{
    if (work->loop == REDUCE_words && work->source_count == 1) {
        reduce_copy(work);
        return;
    }
    switch (work->loop) {
#define X(name) \
    case REDUCE_##name: reduce_##name(work); break;
        REDUCE_LOOPS(X)
#undef X
    }
}

DEVICE_FUNCTION struct device_vector reduce_one(const struct reduce_work *work, uint32_t *kept,
                                                struct device_vector v, bool is_first, bool is_end)
{
    switch (work->loop) {
#define X(name) \
    case REDUCE_##name: return reduce_one_##name(work, kept, v, is_first, is_end);
        REDUCE_LOOPS(X)
#undef X
    }
    return v;
}

/* All others, at any address. Threads in reverse: the first ones may have had one vector more. */
DEVICE_FUNCTION void reduce_others(const struct reduce_work *work)
{
    const uint64_t others = (work->end + DEVICE_VECTOR_BYTES - 1) / DEVICE_VECTOR_BYTES -
                            (work->whole_end - work->whole_begin);
    const uint32_t source_count = work->source_count;
    for (uint64_t number = work->threads - 1 - work->thread; number < others;
         number += work->threads) {
        uint64_t offset;
        const uint32_t bytes = reduce_part(work, number, &offset);
        uint32_t kept[16];
        DEVICE_EACH (i, 16) kept[i] = 0;
        struct device_vector v = vector_zero(),
                             ahead = vector_load(work->sources[0] + offset, bytes);
        for (uint32_t s = 0; s <= source_count; s++) {
            v = ahead;
            if (s + 1 < source_count) ahead = vector_load(work->sources[s + 1] + offset, bytes);
            v = reduce_one(work, kept, v, s == 0, s == source_count);
        }
        for (uint32_t d = 0; d < work->destination_count; d++)
            vector_store(work->destinations[d] + offset, v, bytes);
    }
}

/* Sorts the vectors: which of them are for the fast loop, if any. */
DEVICE_FUNCTION void reduce_sort(struct reduce_work *work, uint64_t bytes, uint32_t element_bytes,
                                 bool is_often)
{
    work->lead = (uint32_t)work->destinations[0] % DEVICE_VECTOR_BYTES;
    if (work->lead % element_bytes != 0) work->lead = 0; /* vectors begin with an element */
    uint32_t misaligned = 0;
    for (uint32_t i = 0; i < work->destination_count; i++)
        misaligned |= (uint32_t)work->destinations[i] - work->lead;
    for (uint32_t i = 0; i < work->source_count; i++)
        misaligned |= (uint32_t)work->sources[i] - work->lead;
    work->end = bytes + work->lead;
    work->whole_begin = work->lead != 0;
    work->whole_end = work->end / DEVICE_VECTOR_BYTES;
    if (!is_often || misaligned % DEVICE_VECTOR_BYTES != 0 || work->whole_end < work->whole_begin)
        work->whole_begin = work->whole_end = 0;
}

DEVICE_FUNCTION bool reduce_is_bitwise(enum op op)
{
    return op == OP_BAND || op == OP_BOR || op == OP_BXOR;
}

#include "gpu/encoded_run.h"

/* See reduce.h. A kernel calls it at one place: each is a copy of all this, which a driver
 * compiles. */
DEVICE_FUNCTION void gpu_reduce_run(const struct gpu_reduce *reduce, const uint64_t *pointers,
                                    uint32_t thread, uint32_t threads)
{
    if (reduce->count == 0) return;
    const enum tutti_dtype dtype = (enum tutti_dtype)reduce->dtype;
    struct reduce_work work;
    work.destinations = pointers;
    work.sources = pointers + reduce->destination_count;
    work.destination_count = reduce->destination_count;
    work.source_count = reduce->source_count;
    work.thread = thread;
    work.threads = threads;
    work.op = (enum op)reduce->op;
    work.is_signed =
        dtype == TUTTI_INT8 || dtype == TUTTI_INT16 || dtype == TUTTI_INT32 || dtype == TUTTI_INT64;
    work.reduce = reduce;
    uint32_t element_bytes = 1;
    work.loop = REDUCE_uint8;
    switch (dtype) {
    case TUTTI_FLOAT32: work.loop = REDUCE_float32, element_bytes = 4; break;
    case TUTTI_FLOAT64: work.loop = REDUCE_float64, element_bytes = 8; break;
    case TUTTI_BFLOAT16: work.loop = REDUCE_bfloat16, element_bytes = 2; break;
    case TUTTI_FLOAT16: work.loop = REDUCE_float16, element_bytes = 2; break;
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2: work.loop = REDUCE_float8; break;
    case TUTTI_INT8:
    case TUTTI_UINT8: break;
    case TUTTI_INT16:
    case TUTTI_UINT16: work.loop = REDUCE_uint16, element_bytes = 2; break;
    case TUTTI_INT32:
    case TUTTI_UINT32: work.loop = REDUCE_uint32, element_bytes = 4; break;
    case TUTTI_INT64:
    case TUTTI_UINT64: work.loop = REDUCE_uint64, element_bytes = 8; break;
    }
    work.finish = REDUCE_PLAIN;
    if (work.op == OP_SUM || work.op == OP_AVG || work.op == OP_SCALED_SUM) {
        const bool is_float = work.loop < REDUCE_uint8;
        if (reduce->divisor != 0)
            work.finish =
                is_float && reduce_is_power(reduce->divisor) ? REDUCE_SCALE : REDUCE_DIVIDE;
        else if (is_float && reduce->factor != 0)
            work.finish = REDUCE_SCALE;
    }
    if (reduce->encoding != TUTTI_ENCODING_NONE) {
        gpu_encoded_run(&work);
        return;
    }
    const uint64_t bytes = reduce->count * element_bytes;
    if (reduce_is_bitwise(work.op) || (work.source_count == 1 && work.finish == REDUCE_PLAIN)) {
        work.loop = REDUCE_words;
        element_bytes = 1;
    }
    const bool is_often = REDUCE_OFTEN(work.op, element_bytes) && work.finish != REDUCE_DIVIDE;
    reduce_sort(&work, bytes, element_bytes, is_often || work.loop == REDUCE_words);
    reduce_whole(&work);
    reduce_others(&work);
}

#endif
