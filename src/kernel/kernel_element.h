/* kernel_element.h - the operations on one element of each dtype: the meaning that every vector
 * form repeats.
 *
 * A dtype D has an accumulator type (accumulator_D) and
 *     load_one_D, store_one_D        memory of any alignment <-> accumulator
 *     combine_one_D(op, a, b)        op is a constant wherever it is called, so the switch disappears
 *     divide_one_D, scale_one_D      floats only: the last operation on a sum before it is stored
 * Integers accumulate unsigned, because they wrap. `bits` are integers of one byte of any origin.
 *
 * x86 adds two NaNs to the first operand's NaN, Arm to that of the first signalling one, if there
 * is one. Compilers take + and * to be commutative and may swap the operands differently in every
 * kernel, or divide by 1 where nothing is to be divided, which makes a signalling NaN quiet;
 * assembler keeps order and division as written, so NaN payloads are the same at all levels of an
 * architecture. Devices (gpu/reduce.h) do not promise them.
 */
#ifndef TUTTI_KERNEL_KERNEL_ELEMENT_H
#define TUTTI_KERNEL_KERNEL_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"
#include "base/op.h"
#include "tutti/tutti.h"

#define KERNEL_INLINE static inline __attribute__((always_inline, unused))

typedef float accumulator_float32;
typedef double accumulator_float64;
typedef float accumulator_bfloat16;
typedef float accumulator_float16;
typedef float accumulator_float8_e4m3;
typedef float accumulator_float8_e5m2;
typedef uint8_t accumulator_int8, accumulator_uint8, accumulator_bits;
typedef uint16_t accumulator_int16, accumulator_uint16;
typedef uint32_t accumulator_int32, accumulator_uint32;
typedef uint64_t accumulator_int64, accumulator_uint64;

enum {
#define X(enumerator, name, bytes, kind) SIZE_##name = bytes,
    DTYPE_LIST(X)
#undef X
        SIZE_bits = 1
};

/* Memory is read from several pages in turn: a processor stops fetching ahead of a reader at the
 * end of a page, and starts anew in the next. Of every PAGES pages all first blocks come first,
 * then all second blocks: a row begins where `done` bytes, a multiple of PAGES blocks, are done. */
enum { PAGE_BYTES = 4096, PAGES = 4, PAGES_BYTES = PAGES * PAGE_BYTES };
KERNEL_INLINE size_t row_of_pages(size_t done)
{
    return done / PAGES_BYTES * PAGES_BYTES + done % PAGES_BYTES / PAGES;
}

#define FLOAT32_INFINITY 0x7f800000u
#define FLOAT32_QUIET 0x00400000u

#if defined(__CUDA_ARCH__) || !(defined(__SSE2__) || defined(__aarch64__))
#define ORDERED_ONE(name, type, x86, arm, operator) \
    KERNEL_INLINE type name(type a, type b)         \
    {                                               \
        return a operator b;                        \
    }

#elif defined(__AVX__)
#define ORDERED_ONE(name, type, x86, arm, operator)                     \
    KERNEL_INLINE type name(type a, type b)                             \
    {                                                                   \
        type result;                                                    \
        __asm__("v" x86 " %2, %1, %0" : "=x"(result) : "x"(a), "x"(b)); \
        return result;                                                  \
    }
#elif defined(__SSE2__)
#define ORDERED_ONE(name, type, x86, arm, operator) \
    KERNEL_INLINE type name(type a, type b)         \
    {                                               \
        __asm__(x86 " %1, %0" : "+x"(a) : "x"(b));  \
        return a;                                   \
    }
#elif defined(__aarch64__)
#define ORDERED_ONE(name, type, x86, arm, operator)   \
    KERNEL_INLINE type name(type a, type b)           \
    {                                                 \
        type result;                                  \
        __asm__(arm : "=w"(result) : "w"(a), "w"(b)); \
        return result;                                \
    }
#endif
ORDERED_ONE(add_one_float32, float, "addss", "fadd %s0, %s1, %s2", +)
ORDERED_ONE(multiply_one_float32, float, "mulss", "fmul %s0, %s1, %s2", *)
ORDERED_ONE(divide_one_by_float32, float, "divss", "fdiv %s0, %s1, %s2", /)
ORDERED_ONE(add_one_float64, double, "addsd", "fadd %d0, %d1, %d2", +)
ORDERED_ONE(multiply_one_float64, double, "mulsd", "fmul %d0, %d1, %d2", *)
ORDERED_ONE(divide_one_by_float64, double, "divsd", "fdiv %d0, %d1, %d2", /)
#undef ORDERED_ONE

/* Unaligned, and of whatever type the memory is. */
#define PLAIN_MEMORY_ONE(dtype)                                                       \
    typedef accumulator_##dtype loose_##dtype __attribute__((aligned(1), may_alias)); \
    KERNEL_INLINE accumulator_##dtype load_one_##dtype(const unsigned char *from)     \
    {                                                                                 \
        return *(const loose_##dtype *)from;                                          \
    }                                                                                 \
    KERNEL_INLINE void store_one_##dtype(unsigned char *to, accumulator_##dtype a)    \
    {                                                                                 \
        *(loose_##dtype *)to = a;                                                     \
    }
PLAIN_MEMORY_ONE(float32)
PLAIN_MEMORY_ONE(float64)
PLAIN_MEMORY_ONE(int8)
PLAIN_MEMORY_ONE(int16)
PLAIN_MEMORY_ONE(int32)
PLAIN_MEMORY_ONE(int64)
PLAIN_MEMORY_ONE(uint8)
PLAIN_MEMORY_ONE(uint16)
PLAIN_MEMORY_ONE(uint32)
PLAIN_MEMORY_ONE(uint64)
PLAIN_MEMORY_ONE(bits)
#undef PLAIN_MEMORY_ONE

KERNEL_INLINE uint32_t float32_bits(float a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof(bits));
    return bits;
}

KERNEL_INLINE float float32_of_bits(uint32_t bits)
{
    float a;
    memcpy(&a, &bits, sizeof(a));
    return a;
}

/* ------------------------------------------------------------------- floats of less than 32 bits
 *
 * A format has `exponent_bits` with the usual bias and `mantissa_bits`; codes here are without the
 * sign. All of this is integer arithmetic, so that no floating-point mode of the program changes
 * what is stored. */

/* The exponent field of a float32 that is the format's smallest normal number. */
#define EXPONENT_LEAST(exponent_bits) (129u - (1u << ((exponent_bits)-1)))

/* The code of a finite number; exact. */
KERNEL_INLINE float widen_one(uint32_t code, unsigned exponent_bits, unsigned mantissa_bits)
{
    const uint32_t least = EXPONENT_LEAST(exponent_bits);
    if (code >> mantissa_bits == 0)
        return (float)code * float32_of_bits((least - mantissa_bits) << 23);
    return float32_of_bits((code << (23 - mantissa_bits)) + ((least - 1) << 23));
}

/* To nearest, ties to even, but not beyond the code `largest`: infinity where there is one, else
 * NaN. A carry out of the mantissa makes the next exponent. NaN also ends at `largest`. */
KERNEL_INLINE uint32_t narrow_one(uint32_t magnitude, unsigned exponent_bits,
                                  unsigned mantissa_bits, uint32_t largest)
{
    const uint32_t least = EXPONENT_LEAST(exponent_bits), exponent = magnitude >> 23;
    unsigned shift = 23 - mantissa_bits;
    uint32_t value;
    if (exponent >= least) {
        value = magnitude - ((least - 1) << 23);
    } else {
        value = (magnitude & 0x007fffffu) | 0x00800000u;
        shift += least - exponent;
        if (shift > 24) return 0; /* less than half of the smallest number */
    }
    const uint32_t code = (value + (1u << (shift - 1)) - 1 + ((value >> shift) & 1u)) >> shift;
    return code < largest ? code : largest;
}

/* With an infinity, and with a NaN's payload in the mantissa. Loading makes NaN quiet, as the
 * instructions do. */
KERNEL_INLINE float widen_one_ieee(uint32_t code, unsigned exponent_bits, unsigned mantissa_bits,
                                   uint32_t sign)
{
    const uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
    uint32_t bits;
    if (code < infinity)
        bits = float32_bits(widen_one(code, exponent_bits, mantissa_bits));
    else
        bits = FLOAT32_INFINITY | (code - infinity) << (23 - mantissa_bits) |
               (code != infinity ? FLOAT32_QUIET : 0);
    return float32_of_bits(bits | sign << 31);
}

KERNEL_INLINE uint32_t narrow_one_ieee(uint32_t magnitude, unsigned exponent_bits,
                                       unsigned mantissa_bits)
{
    const uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
    if (magnitude <= FLOAT32_INFINITY)
        return narrow_one(magnitude, exponent_bits, mantissa_bits, infinity);
    return infinity | ((magnitude | FLOAT32_QUIET) & 0x007fffffu) >> (23 - mantissa_bits);
}

KERNEL_INLINE float load_one_float16(const unsigned char *from)
{
    uint16_t code;
    memcpy(&code, from, sizeof(code));
    return widen_one_ieee(code & 0x7fffu, 5, 10, code >> 15);
}

KERNEL_INLINE void store_one_float16(unsigned char *to, float a)
{
    const uint32_t bits = float32_bits(a);
    const uint16_t code =
        (uint16_t)(narrow_one_ieee(bits & 0x7fffffffu, 5, 10) | (bits >> 31) << 15);
    memcpy(to, &code, sizeof(code));
}

KERNEL_INLINE float load_one_float8_e5m2(const unsigned char *from)
{
    return widen_one_ieee(*from & 0x7fu, 5, 2, *from >> 7);
}

KERNEL_INLINE void store_one_float8_e5m2(unsigned char *to, float a)
{
    const uint32_t bits = float32_bits(a);
    *to = (unsigned char)(narrow_one_ieee(bits & 0x7fffffffu, 5, 2) | (bits >> 31) << 7);
}

/* The largest exponent holds ordinary numbers too; only the very last code is NaN. */
KERNEL_INLINE float load_one_float8_e4m3(const unsigned char *from)
{
    const uint32_t code = *from & 0x7fu, sign = *from >> 7;
    const uint32_t bits =
        code == 0x7f ? FLOAT32_INFINITY | FLOAT32_QUIET : float32_bits(widen_one(code, 4, 3));
    return float32_of_bits(bits | sign << 31);
}

KERNEL_INLINE void store_one_float8_e4m3(unsigned char *to, float a)
{
    const uint32_t bits = float32_bits(a);
    *to = (unsigned char)(narrow_one(bits & 0x7fffffffu, 4, 3, 0x7f) | (bits >> 31) << 7);
}

/* The upper half of a float32. */
KERNEL_INLINE float load_one_bfloat16(const unsigned char *from)
{
    uint16_t half;
    memcpy(&half, from, sizeof(half));
    return float32_of_bits((uint32_t)half << 16);
}

KERNEL_INLINE void store_one_bfloat16(unsigned char *to, float a)
{
    uint32_t bits = float32_bits(a);
    if ((bits & 0x7fffffffu) > FLOAT32_INFINITY)
        bits |= FLOAT32_QUIET;
    else
        bits += 0x7fffu + ((bits >> 16) & 1u);
    const uint16_t half = (uint16_t)(bits >> 16);
    memcpy(to, &half, sizeof(half));
}

/* ----------------------------------------------------------------------------------- operations */

#define FLOAT_COMBINE_ONE(dtype, real)                                                       \
    KERNEL_INLINE accumulator_##dtype combine_one_##dtype(enum op op, accumulator_##dtype a, \
                                                          accumulator_##dtype b)             \
    {                                                                                        \
        switch (op) {                                                                        \
        case OP_PROD: return multiply_one_##real(a, b);                                      \
        case OP_MIN: return a < b ? a : b;                                                   \
        case OP_MAX: return a > b ? a : b;                                                   \
        default: return add_one_##real(a, b);                                                \
        }                                                                                    \
    }                                                                                        \
    KERNEL_INLINE accumulator_##dtype divide_one_##dtype(accumulator_##dtype a,              \
                                                         accumulator_##dtype divisor)        \
    {                                                                                        \
        return divide_one_by_##real(a, divisor);                                             \
    }                                                                                        \
    KERNEL_INLINE accumulator_##dtype scale_one_##dtype(accumulator_##dtype a,               \
                                                        accumulator_##dtype factor)          \
    {                                                                                        \
        return multiply_one_##real(a, factor);                                               \
    }
FLOAT_COMBINE_ONE(float32, float32)
FLOAT_COMBINE_ONE(float64, float64)
FLOAT_COMBINE_ONE(bfloat16, float32)
FLOAT_COMBINE_ONE(float16, float32)
FLOAT_COMBINE_ONE(float8_e4m3, float32)
FLOAT_COMBINE_ONE(float8_e5m2, float32)
#undef FLOAT_COMBINE_ONE

/* 1u: 16 bits are promoted to int, whose product could overflow. */
#define INTEGER_COMBINE_ONE(dtype, ordered)                                                  \
    KERNEL_INLINE accumulator_##dtype combine_one_##dtype(enum op op, accumulator_##dtype a, \
                                                          accumulator_##dtype b)             \
    {                                                                                        \
        switch (op) {                                                                        \
        case OP_PROD: return (accumulator_##dtype)(1u * a * b);                              \
        case OP_MIN: return (ordered)a < (ordered)b ? a : b;                                 \
        case OP_MAX: return (ordered)a > (ordered)b ? a : b;                                 \
        case OP_LAND: return a != 0 && b != 0;                                               \
        case OP_LOR: return a != 0 || b != 0;                                                \
        case OP_LXOR: return (a != 0) != (b != 0);                                           \
        case OP_BAND: return a & b;                                                          \
        case OP_BOR: return a | b;                                                           \
        case OP_BXOR: return a ^ b;                                                          \
        default: return (accumulator_##dtype)(a + b);                                        \
        }                                                                                    \
    }
INTEGER_COMBINE_ONE(int8, int8_t)
INTEGER_COMBINE_ONE(int16, int16_t)
INTEGER_COMBINE_ONE(int32, int32_t)
INTEGER_COMBINE_ONE(int64, int64_t)
INTEGER_COMBINE_ONE(uint8, uint8_t)
INTEGER_COMBINE_ONE(uint16, uint16_t)
INTEGER_COMBINE_ONE(uint32, uint32_t)
INTEGER_COMBINE_ONE(uint64, uint64_t)
INTEGER_COMBINE_ONE(bits, uint8_t)
#undef INTEGER_COMBINE_ONE

#endif
