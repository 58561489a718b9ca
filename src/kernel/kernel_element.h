/* kernel_element.h - the operations on one element of each dtype: the meaning that every vector form repeats.
 *
 * A dtype D has an accumulator type (accumulator_D) and
 *     load_one_D, store_one_D        memory of any alignment <-> accumulator
 *     combine_one_D(op, a, b)        op is a constant wherever it is called, so the switch disappears
 *     divide_one_D(a, divisor)       divisor > 0
 * Integers accumulate unsigned, because they wrap.
 *
 * x86 adds two NaNs to the first operand's NaN. Compilers take + and * to be commutative and may swap the
 * operands differently in every kernel, or divide by 1 where nothing is to be divided, which makes a signalling
 * NaN quiet; assembler keeps order and division as written, so NaN payloads are the same at all levels.
 */
#ifndef TUTTI_KERNEL_KERNEL_ELEMENT_H
#define TUTTI_KERNEL_KERNEL_ELEMENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/op.h"
#include "tutti/tutti.h"

#define KERNEL_INLINE static inline __attribute__((always_inline, unused))

typedef float accumulator_float32;
typedef double accumulator_float64;
typedef float accumulator_bfloat16;
typedef uint32_t accumulator_int32;
typedef uint64_t accumulator_int64;

enum { SIZE_float32 = 4, SIZE_float64 = 8, SIZE_bfloat16 = 2, SIZE_int32 = 4, SIZE_int64 = 8 };

#define BFLOAT16_QUIET 0x00400000u /* in the bits of a float32 */
#define FLOAT32_INFINITY 0x7f800000u

#if defined(__AVX__)
#define ORDERED_ONE(name, type, instruction, operator)                          \
    KERNEL_INLINE type name(type a, type b)                                     \
    {                                                                           \
        type result;                                                            \
        __asm__("v" instruction " %2, %1, %0" : "=x"(result) : "x"(a), "x"(b)); \
        return result;                                                          \
    }
#elif defined(__SSE2__)
#define ORDERED_ONE(name, type, instruction, operator)     \
    KERNEL_INLINE type name(type a, type b)                \
    {                                                      \
        __asm__(instruction " %1, %0" : "+x"(a) : "x"(b)); \
        return a;                                          \
    }
#else
#define ORDERED_ONE(name, type, instruction, operator) \
    KERNEL_INLINE type name(type a, type b)            \
    {                                                  \
        return a operator b;                           \
    }
#endif
ORDERED_ONE(add_one_float32, float, "addss", +)
ORDERED_ONE(multiply_one_float32, float, "mulss", *)
ORDERED_ONE(divide_one_by_float32, float, "divss", /)
ORDERED_ONE(add_one_float64, double, "addsd", +)
ORDERED_ONE(multiply_one_float64, double, "mulsd", *)
ORDERED_ONE(divide_one_by_float64, double, "divsd", /)
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
PLAIN_MEMORY_ONE(int32)
PLAIN_MEMORY_ONE(int64)
#undef PLAIN_MEMORY_ONE

KERNEL_INLINE float load_one_bfloat16(const unsigned char *from)
{
    uint16_t half;
    memcpy(&half, from, sizeof(half));
    const uint32_t bits = (uint32_t)half << 16;
    float a;
    memcpy(&a, &bits, sizeof(a));
    return a;
}

/* To nearest, ties to even; a carry out of the mantissa makes the next exponent, at last infinity. */
KERNEL_INLINE void store_one_bfloat16(unsigned char *to, float a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof(bits));
    if ((bits & 0x7fffffffu) > FLOAT32_INFINITY)
        bits |= BFLOAT16_QUIET;
    else
        bits += 0x7fffu + ((bits >> 16) & 1u);
    const uint16_t half = (uint16_t)(bits >> 16);
    memcpy(to, &half, sizeof(half));
}

#define FLOAT_COMBINE_ONE(dtype, real)                                                            \
    KERNEL_INLINE accumulator_##dtype combine_one_##dtype(enum op op, accumulator_##dtype a,      \
                                                          accumulator_##dtype b)                  \
    {                                                                                             \
        switch (op) {                                                                             \
        case OP_PROD: return multiply_one_##real(a, b);                                           \
        case OP_MIN: return a < b ? a : b;                                                        \
        case OP_MAX: return a > b ? a : b;                                                        \
        default: return add_one_##real(a, b);                                                     \
        }                                                                                         \
    }                                                                                             \
    KERNEL_INLINE accumulator_##dtype divide_one_##dtype(accumulator_##dtype a, unsigned divisor) \
    {                                                                                             \
        return divide_one_by_##real(a, (accumulator_##dtype)divisor);                             \
    }
FLOAT_COMBINE_ONE(float32, float32)
FLOAT_COMBINE_ONE(float64, float64)
FLOAT_COMBINE_ONE(bfloat16, float32)
#undef FLOAT_COMBINE_ONE

#define INTEGER_COMBINE_ONE(dtype, signed_type)                                                   \
    KERNEL_INLINE accumulator_##dtype combine_one_##dtype(enum op op, accumulator_##dtype a,      \
                                                          accumulator_##dtype b)                  \
    {                                                                                             \
        switch (op) {                                                                             \
        case OP_PROD: return a * b;                                                               \
        case OP_MIN: return (signed_type)a < (signed_type)b ? a : b;                              \
        case OP_MAX: return (signed_type)a > (signed_type)b ? a : b;                              \
        default: return a + b;                                                                    \
        }                                                                                         \
    }                                                                                             \
    KERNEL_INLINE accumulator_##dtype divide_one_##dtype(accumulator_##dtype a, unsigned divisor) \
    {                                                                                             \
        return (accumulator_##dtype)((int64_t)(signed_type)a / (int64_t)divisor);                 \
    }
INTEGER_COMBINE_ONE(int32, int32_t)
INTEGER_COMBINE_ONE(int64, int64_t)
#undef INTEGER_COMBINE_ONE

#endif
