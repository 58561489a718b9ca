/* kernel_vector.h - the same operations on vectors of VECTOR_BYTES, bit for bit.
 *
 * A dtype D has a vector of accumulators (vector_D, LANES_D of them), what that is in memory
 * (raw_D), and
 *     load_D, unpack_D, pack_D                      memory or raw_D <-> vector_D
 *     combine_D, divide_D, scale_D                  like the forms for one element
 * 16-bit floats have two vectors of float32 for one of memory, 8-bit floats two for half of one.
 *
 * A processor's header (kernel_vector_x86.h, kernel_vector_neon.h), included below, brings what C
 * does not say:
 *     add, multiply, divide_by, min and max of floats, with the operands' order kept
 *     min and max of integers
 *     widen_float16, narrow_float16   conversions of half a vector's lanes, to nearest even, quiet NaN
 *     join, low_half, high_half       two halves of a vector <-> one
 *     widen_bytes, narrow_bytes       8-bit lanes <-> 16-bit lanes, whose upper halves are 0
 *     any_nan                         whether there is one in two vectors
 *     part_read, part_write           less than a vector; what is not there reads as 0
 */
#ifndef TUTTI_KERNEL_KERNEL_VECTOR_H
#define TUTTI_KERNEL_KERNEL_VECTOR_H

#include <stdbool.h>

#include "kernel/kernel_element.h"
#include "kernel/kernel_pages.h"

#define VECTOR_OF(type, bytes) type __attribute__((vector_size(bytes)))
typedef VECTOR_OF(float, VECTOR_BYTES) vector_float32;
typedef VECTOR_OF(double, VECTOR_BYTES) vector_float64;
typedef VECTOR_OF(uint8_t, VECTOR_BYTES) vector_int8;
typedef VECTOR_OF(uint16_t, VECTOR_BYTES) vector_int16;
typedef VECTOR_OF(uint32_t, VECTOR_BYTES) vector_int32;
typedef VECTOR_OF(uint64_t, VECTOR_BYTES) vector_int64;
typedef vector_int8 vector_uint8;
typedef vector_int16 vector_uint16;
typedef vector_int32 vector_uint32;
typedef vector_int64 vector_uint64;
typedef vector_int64 vector_bits;

typedef VECTOR_OF(int16_t, VECTOR_BYTES) vector_signed16;
typedef VECTOR_OF(int64_t, VECTOR_BYTES) vector_signed64;
typedef VECTOR_OF(uint8_t, VECTOR_BYTES / 2) half_int8;
typedef VECTOR_OF(uint16_t, VECTOR_BYTES / 2) half_int16;

/* The accumulators of small floats. Two bfloat16 share 32 bits; each becomes a float32 where it is,
 * so that no lane ever changes its place: `first` are the even ones. The others have the lower half
 * of the lanes in `first`. */
typedef struct {
    vector_float32 first, second;
} vector_pair;
typedef vector_pair vector_bfloat16, vector_float16, vector_float8_e4m3, vector_float8_e5m2;

typedef vector_float32 raw_float32;
typedef vector_float64 raw_float64;
typedef vector_int32 raw_bfloat16;
typedef vector_int16 raw_float16;
typedef half_int8 raw_float8_e4m3, raw_float8_e5m2;
typedef vector_int8 raw_int8, raw_uint8;
typedef vector_int16 raw_int16, raw_uint16;
typedef vector_int32 raw_int32, raw_uint32;
typedef vector_int64 raw_int64, raw_uint64, raw_bits;

enum {
#define X(enumerator, name, bytes, kind) LANES_##name = sizeof(raw_##name) / SIZE_##name,
    DTYPE_LIST(X)
#undef X
        LANES_bits = VECTOR_BYTES
};

/* Each lane of `mask` has either all bits set or none. */
#define SELECT(mask, yes, no) (((yes) & (mask)) | ((no) & ~(mask)))

#if defined(__x86_64__)
#include "kernel/kernel_vector_x86.h"
#else
#include "kernel/kernel_vector_neon.h"
#endif

/* -------------------------------------------------------------------------------------- memory */

#define LOAD(dtype)                                                      \
    KERNEL_INLINE vector_##dtype load_##dtype(const unsigned char *from) \
    {                                                                    \
        raw_##dtype raw;                                                 \
        memcpy(&raw, from, sizeof(raw));                                 \
        return unpack_##dtype(raw);                                      \
    }
#define PLAIN_MEMORY(dtype)                                      \
    KERNEL_INLINE vector_##dtype unpack_##dtype(raw_##dtype raw) \
    {                                                            \
        return raw;                                              \
    }                                                            \
    KERNEL_INLINE raw_##dtype pack_##dtype(vector_##dtype a)     \
    {                                                            \
        return a;                                                \
    }                                                            \
    LOAD(dtype)
PLAIN_MEMORY(float32)
PLAIN_MEMORY(float64)
PLAIN_MEMORY(int8)
PLAIN_MEMORY(int16)
PLAIN_MEMORY(int32)
PLAIN_MEMORY(int64)
PLAIN_MEMORY(uint8)
PLAIN_MEMORY(uint16)
PLAIN_MEMORY(uint32)
PLAIN_MEMORY(uint64)
PLAIN_MEMORY(bits)
#undef PLAIN_MEMORY

KERNEL_INLINE vector_bfloat16 unpack_bfloat16(raw_bfloat16 raw)
{
    return (vector_bfloat16){(vector_float32)(raw << 16), (vector_float32)(raw & 0xffff0000u)};
}
LOAD(bfloat16)

/* To nearest even, unless it is NaN; the result is in the upper half of each 32 bits. */
KERNEL_INLINE vector_int32 round_number(vector_float32 a)
{
    const vector_int32 bits = (vector_int32)a;
    return bits + (((bits >> 16) & 1u) + 0x7fffu);
}

KERNEL_INLINE vector_int32 round_any(vector_float32 a)
{
    const vector_int32 nan = (vector_int32)(a != a);
    return SELECT(nan, (vector_int32)a | FLOAT32_QUIET, round_number(a));
}

static __attribute__((noinline, cold)) raw_bfloat16 pack_any_bfloat16(const vector_bfloat16 *a)
{
    return (round_any(a->first) >> 16) | (round_any(a->second) & 0xffff0000u);
}

/* NaN is rare, and looking for it is half the work of taking care of it. There is an instruction
 * for all of this (AVX512-BF16), but it takes denormals for zero: other bits than those of the
 * scalar twin. */
KERNEL_INLINE raw_bfloat16 pack_bfloat16(vector_bfloat16 a)
{
    if (__builtin_expect(any_nan(a.first, a.second), 0)) {
        const vector_bfloat16 in_memory = a;
        return pack_any_bfloat16(&in_memory);
    }
    return (round_number(a.first) >> 16) | (round_number(a.second) & 0xffff0000u);
}

KERNEL_INLINE vector_float16 unpack_float16(raw_float16 raw)
{
    return (vector_float16){widen_float16(low_half(raw)), widen_float16(high_half(raw))};
}
KERNEL_INLINE raw_float16 pack_float16(vector_float16 a)
{
    return join(narrow_float16(a.first), narrow_float16(a.second));
}
/* Halves straight from memory: taking a vector apart costs more than reading twice. */
KERNEL_INLINE vector_float16 load_float16(const unsigned char *from)
{
    half_int16 low, high;
    memcpy(&low, from, sizeof(low));
    memcpy(&high, from + sizeof(low), sizeof(high));
    return (vector_float16){widen_float16(low), widen_float16(high)};
}

/* 8-bit floats pass through float16. e5m2 is the upper half of one. e4m3 has the layout of a
 * float16 of a 256th of the number, denormals and all, with another mantissa's length. On the way
 * back float16 would round once too often: so first all bits that matter only for being zero or not
 * are gathered in one bit that no float16 loses here. Numbers in which it does get lost are less
 * than half of the smallest 8-bit float. */
KERNEL_INLINE vector_int16 narrow_odd(vector_pair a)
{
    const vector_int32 first = (vector_int32)a.first, second = (vector_int32)a.second;
    const vector_int32 odd_first = (first | ((first & 0x1ffffu) + 0x1ffffu)) & ~0x1ffffu;
    const vector_int32 odd_second = (second | ((second & 0x1ffffu) + 0x1ffffu)) & ~0x1ffffu;
    return join(narrow_float16((vector_float32)odd_first),
                narrow_float16((vector_float32)odd_second));
}

KERNEL_INLINE vector_float8_e5m2 unpack_float8_e5m2(raw_float8_e5m2 raw)
{
    return unpack_float16(widen_bytes(raw) << 8);
}
KERNEL_INLINE raw_float8_e5m2 pack_float8_e5m2(vector_float8_e5m2 a)
{
    const vector_int16 bits = narrow_odd(a), magnitude = bits & 0x7fff;
    const vector_int16 nan = (vector_int16)((vector_signed16)magnitude > 0x7c00);
    const vector_int16 up = (0x7f + ((bits >> 8) & 1)) & ~nan;
    return narrow_bytes((bits + up) >> 8);
}
LOAD(float8_e5m2)

KERNEL_INLINE vector_float8_e4m3 unpack_float8_e4m3(raw_float8_e4m3 raw)
{
    const vector_int16 code = widen_bytes(raw);
    const vector_int16 sign = (code & 0x80) << 8, magnitude = code & 0x7f;
    const vector_int16 nan = (vector_int16)(magnitude == 0x7f) & 0x7c00;
    const vector_pair small = unpack_float16(sign | (magnitude << 7) | nan);
    return (vector_float8_e4m3){small.first * 256.0f, small.second * 256.0f};
}
/* NaN and what is too large become the largest code by themselves: that code is NaN. */
KERNEL_INLINE raw_float8_e4m3 pack_float8_e4m3(vector_float8_e4m3 a)
{
    const vector_int16 bits =
        narrow_odd((vector_pair){a.first * (1 / 256.0f), a.second * (1 / 256.0f)});
    const vector_int16 magnitude = bits & 0x7fff, none = {0};
    const vector_int16 code = (magnitude + 0x3f + ((bits >> 7) & 1)) >> 7;
    return narrow_bytes(min_int16(code, none + 0x7f) | ((bits >> 8) & 0x80));
}
LOAD(float8_e4m3)
#undef LOAD

/* ---------------------------------------------------------------------------------- operations */

#define FLOAT_COMBINE(dtype)                                                                     \
    KERNEL_INLINE vector_##dtype combine_##dtype(enum op op, vector_##dtype a, vector_##dtype b) \
    {                                                                                            \
        switch (op) {                                                                            \
        case OP_PROD: return multiply_##dtype(a, b);                                             \
        case OP_MIN: return min_##dtype(a, b);                                                   \
        case OP_MAX: return max_##dtype(a, b);                                                   \
        default: return add_##dtype(a, b);                                                       \
        }                                                                                        \
    }                                                                                            \
    KERNEL_INLINE vector_##dtype divide_##dtype(vector_##dtype a, accumulator_##dtype divisor)   \
    {                                                                                            \
        const vector_##dtype same = {0};                                                         \
        return divide_by_##dtype(a, same + divisor);                                             \
    }                                                                                            \
    KERNEL_INLINE vector_##dtype scale_##dtype(vector_##dtype a, accumulator_##dtype factor)     \
    {                                                                                            \
        const vector_##dtype same = {0};                                                         \
        return multiply_##dtype(a, same + factor);                                               \
    }
FLOAT_COMBINE(float32)
FLOAT_COMBINE(float64)
#undef FLOAT_COMBINE

#define PAIR_COMBINE(dtype)                                                                       \
    KERNEL_INLINE vector_##dtype combine_##dtype(enum op op, vector_##dtype a, vector_##dtype b)  \
    {                                                                                             \
        return (vector_##dtype){combine_float32(op, a.first, b.first),                            \
                                combine_float32(op, a.second, b.second)};                         \
    }                                                                                             \
    KERNEL_INLINE vector_##dtype divide_##dtype(vector_##dtype a, float divisor)                  \
    {                                                                                             \
        return (vector_##dtype){divide_float32(a.first, divisor),                                 \
                                divide_float32(a.second, divisor)};                               \
    }                                                                                             \
    KERNEL_INLINE vector_##dtype scale_##dtype(vector_##dtype a, float factor)                    \
    {                                                                                             \
        return (vector_##dtype){scale_float32(a.first, factor), scale_float32(a.second, factor)}; \
    }
PAIR_COMBINE(bfloat16)
PAIR_COMBINE(float16)
PAIR_COMBINE(float8_e4m3)
PAIR_COMBINE(float8_e5m2)
#undef PAIR_COMBINE

/* 1 where it is not 0. */
#define NOT_ZERO(dtype, a) ((vector_##dtype)((a) != 0) & 1)

#define INTEGER_COMBINE(dtype)                                                                   \
    KERNEL_INLINE vector_##dtype combine_##dtype(enum op op, vector_##dtype a, vector_##dtype b) \
    {                                                                                            \
        switch (op) {                                                                            \
        case OP_PROD: return a * b;                                                              \
        case OP_MIN: return min_##dtype(a, b);                                                   \
        case OP_MAX: return max_##dtype(a, b);                                                   \
        case OP_LAND: return NOT_ZERO(dtype, a) & NOT_ZERO(dtype, b);                            \
        case OP_LOR: return NOT_ZERO(dtype, a | b);                                              \
        case OP_LXOR: return NOT_ZERO(dtype, a) ^ NOT_ZERO(dtype, b);                            \
        case OP_BAND: return a & b;                                                              \
        case OP_BOR: return a | b;                                                               \
        case OP_BXOR: return a ^ b;                                                              \
        default: return a + b;                                                                   \
        }                                                                                        \
    }
#define min_bits min_uint64
#define max_bits max_uint64
INTEGER_COMBINE(int8)
INTEGER_COMBINE(int16)
INTEGER_COMBINE(int32)
INTEGER_COMBINE(int64)
INTEGER_COMBINE(uint8)
INTEGER_COMBINE(uint16)
INTEGER_COMBINE(uint32)
INTEGER_COMBINE(uint64)
INTEGER_COMBINE(bits)
#undef INTEGER_COMBINE

#endif
