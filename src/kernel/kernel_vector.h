/* kernel_vector.h - the same operations on vectors of VECTOR_BYTES (32: AVX2, 64: AVX-512), bit for bit.
 *
 * A dtype D has a vector of accumulators (vector_D, LANES_D of them) and load_D, store_D, stream_D, combine_D,
 * divide_D like the forms for one element. Mnemonics are the same for both widths: the operands' type decides.
 */
#ifndef TUTTI_KERNEL_KERNEL_VECTOR_H
#define TUTTI_KERNEL_KERNEL_VECTOR_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernel/kernel_element.h"

typedef float vector_float32 __attribute__((vector_size(VECTOR_BYTES)));
typedef double vector_float64 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t vector_int32 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t vector_int64 __attribute__((vector_size(VECTOR_BYTES)));

typedef int32_t vector_signed32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t vector_signed64 __attribute__((vector_size(VECTOR_BYTES)));

/* Two bfloat16 share 32 bits; each becomes a float32 where it is, and no lane ever changes its place. */
typedef struct {
    vector_float32 even, odd;
} vector_bfloat16;

enum {
    LANES_float32 = VECTOR_BYTES / 4,
    LANES_float64 = VECTOR_BYTES / 8,
    LANES_bfloat16 = VECTOR_BYTES / 2,
    LANES_int32 = VECTOR_BYTES / 4,
    LANES_int64 = VECTOR_BYTES / 8
};

/* A store past the caches; `to` is aligned to the vector's size. */
#define STREAM(to, vector) \
    __asm__("vmovntdq %1, %0" : "=m"(*(unsigned char(*)[sizeof(vector)])(to)) : "v"(vector))

#define PLAIN_MEMORY(dtype)                                                \
    KERNEL_INLINE vector_##dtype load_##dtype(const unsigned char *from)   \
    {                                                                      \
        vector_##dtype a;                                                  \
        memcpy(&a, from, sizeof(a));                                       \
        return a;                                                          \
    }                                                                      \
    KERNEL_INLINE void store_##dtype(unsigned char *to, vector_##dtype a)  \
    {                                                                      \
        memcpy(to, &a, sizeof(a));                                         \
    }                                                                      \
    KERNEL_INLINE void stream_##dtype(unsigned char *to, vector_##dtype a) \
    {                                                                      \
        STREAM(to, a);                                                     \
    }
PLAIN_MEMORY(float32)
PLAIN_MEMORY(float64)
PLAIN_MEMORY(int32)
PLAIN_MEMORY(int64)
#undef PLAIN_MEMORY

KERNEL_INLINE vector_bfloat16 load_bfloat16(const unsigned char *from)
{
    const vector_int32 pairs = load_int32(from);
    return (vector_bfloat16){(vector_float32)(pairs << 16), (vector_float32)(pairs & 0xffff0000u)};
}

/* To nearest even, unless it is NaN; the result is in the upper half of each 32 bits. */
KERNEL_INLINE vector_int32 round_number(vector_float32 a)
{
    const vector_int32 bits = (vector_int32)a;
    return bits + (((bits >> 16) & 1u) + 0x7fffu);
}

KERNEL_INLINE vector_int32 round_any(vector_float32 a)
{
    const vector_int32 nan = (vector_int32)(a != a);
    return (((vector_int32)a | BFLOAT16_QUIET) & nan) | (round_number(a) & ~nan);
}

KERNEL_INLINE bool has_nan(vector_bfloat16 a)
{
#if VECTOR_BYTES == 64
    return _mm512_cmp_ps_mask((__m512)a.even, (__m512)a.odd, _CMP_UNORD_Q) != 0;
#else
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a.even, (__m256)a.odd, _CMP_UNORD_Q)) != 0;
#endif
}

static __attribute__((noinline, cold)) vector_int32 pack_any(const vector_bfloat16 *a)
{
    return (round_any(a->even) >> 16) | (round_any(a->odd) & 0xffff0000u);
}

/* NaN is rare, and looking for it is half the work of taking care of it. */
KERNEL_INLINE vector_int32 pack_bfloat16(vector_bfloat16 a)
{
    if (__builtin_expect(has_nan(a), 0)) {
        const vector_bfloat16 in_memory = a;
        return pack_any(&in_memory);
    }
    return (round_number(a.even) >> 16) | (round_number(a.odd) & 0xffff0000u);
}

KERNEL_INLINE void store_bfloat16(unsigned char *to, vector_bfloat16 a)
{
    store_int32(to, pack_bfloat16(a));
}
KERNEL_INLINE void stream_bfloat16(unsigned char *to, vector_bfloat16 a)
{
    stream_int32(to, pack_bfloat16(a));
}

#define ORDERED(name, vector, instruction)                                  \
    KERNEL_INLINE vector name(vector a, vector b)                           \
    {                                                                       \
        vector result;                                                      \
        __asm__(instruction " %2, %1, %0" : "=v"(result) : "v"(a), "v"(b)); \
        return result;                                                      \
    }
/* min and max give their second operand for NaN and for two zeros: exactly a < b ? a : b. */
#define FLOAT_COMBINE(dtype, suffix)                                                \
    ORDERED(add_##dtype, vector_##dtype, "vadd" suffix)                             \
    ORDERED(multiply_##dtype, vector_##dtype, "vmul" suffix)                        \
    ORDERED(divide_by_##dtype, vector_##dtype, "vdiv" suffix)                       \
    ORDERED(min_##dtype, vector_##dtype, "vmin" suffix)                             \
    ORDERED(max_##dtype, vector_##dtype, "vmax" suffix)                             \
    KERNEL_INLINE vector_##dtype divide_##dtype(vector_##dtype a, unsigned divisor) \
    {                                                                               \
        const vector_##dtype same = {0};                                            \
        return divide_by_##dtype(a, same + (accumulator_##dtype)divisor);           \
    }
FLOAT_COMBINE(float32, "ps")
FLOAT_COMBINE(float64, "pd")
#undef FLOAT_COMBINE

KERNEL_INLINE vector_int32 add_int32(vector_int32 a, vector_int32 b)
{
    return a + b;
}
KERNEL_INLINE vector_int64 add_int64(vector_int64 a, vector_int64 b)
{
    return a + b;
}
KERNEL_INLINE vector_int32 multiply_int32(vector_int32 a, vector_int32 b)
{
    return a * b;
}
KERNEL_INLINE vector_int64 multiply_int64(vector_int64 a, vector_int64 b)
{
    return a * b;
}
ORDERED(min_int32, vector_int32, "vpminsd")
ORDERED(max_int32, vector_int32, "vpmaxsd")
#if VECTOR_BYTES == 64
ORDERED(min_int64, vector_int64, "vpminsq")
ORDERED(max_int64, vector_int64, "vpmaxsq")
#else
KERNEL_INLINE vector_int64 min_int64(vector_int64 a, vector_int64 b)
{
    const vector_int64 less = (vector_int64)((vector_signed64)a < (vector_signed64)b);
    return (a & less) | (b & ~less);
}
KERNEL_INLINE vector_int64 max_int64(vector_int64 a, vector_int64 b)
{
    const vector_int64 greater = (vector_int64)((vector_signed64)a > (vector_signed64)b);
    return (a & greater) | (b & ~greater);
}
#endif
#undef ORDERED

#define COMBINE(dtype)                                                                           \
    KERNEL_INLINE vector_##dtype combine_##dtype(enum op op, vector_##dtype a, vector_##dtype b) \
    {                                                                                            \
        switch (op) {                                                                            \
        case OP_PROD: return multiply_##dtype(a, b);                                             \
        case OP_MIN: return min_##dtype(a, b);                                                   \
        case OP_MAX: return max_##dtype(a, b);                                                   \
        default: return add_##dtype(a, b);                                                       \
        }                                                                                        \
    }
COMBINE(float32)
COMBINE(float64)
COMBINE(int32)
COMBINE(int64)
#undef COMBINE

KERNEL_INLINE vector_bfloat16 combine_bfloat16(enum op op, vector_bfloat16 a, vector_bfloat16 b)
{
    return (vector_bfloat16){combine_float32(op, a.even, b.even), combine_float32(op, a.odd, b.odd)};
}

KERNEL_INLINE vector_bfloat16 divide_bfloat16(vector_bfloat16 a, unsigned divisor)
{
    return (vector_bfloat16){divide_float32(a.even, divisor), divide_float32(a.odd, divisor)};
}

/* There is no vector division of integers. Out of line, to keep it out of the loops' registers and code. */
static __attribute__((noinline)) vector_int64 divide_int64(vector_int64 a, unsigned divisor)
{
    for (int lane = 0; lane < LANES_int64; lane++) a[lane] = divide_one_int64(a[lane], divisor);
    return a;
}

/* Doubles hold both operands, and a quotient of 32-bit integers that is not whole is farther from the next
 * whole number than a double's rounding reaches: truncating the rounded quotient is exact. */
static __attribute__((noinline)) vector_int32 divide_int32(vector_int32 a, unsigned divisor)
{
    typedef double wide __attribute__((vector_size(2 * VECTOR_BYTES)));
    const wide quotient = __builtin_convertvector((vector_signed32)a, wide) / (double)divisor;
    return (vector_int32) __builtin_convertvector(quotient, vector_signed32);
}

/* Copies with stores past the caches, whole cache lines at a time. */
static void copy_past_caches(void *destination, const void *source, size_t bytes)
{
    enum { BLOCK = 512, VECTORS = BLOCK / VECTOR_BYTES };
    unsigned char *to = destination;
    const unsigned char *from = source;
    const size_t head = -(uintptr_t)to % 64;
    if (bytes < head + BLOCK) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    for (; bytes >= BLOCK; to += BLOCK, from += BLOCK, bytes -= BLOCK) {
        vector_int64 a[VECTORS];
#pragma GCC unroll 16
        for (int k = 0; k < VECTORS; k++) a[k] = load_int64(from + k * VECTOR_BYTES);
#pragma GCC unroll 16
        for (int k = 0; k < VECTORS; k++) stream_int64(to + k * VECTOR_BYTES, a[k]);
    }
    memcpy(to, from, bytes);
    __builtin_ia32_sfence();
}

#endif
