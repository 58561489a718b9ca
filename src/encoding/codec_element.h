/* codec_element.h - what encodings with scales make of a unit's largest number, and of one element:
 * one source for the codecs of all levels (codec.h) and for those of devices (gpu/encoded_run.h).
 */
#ifndef TUTTI_ENCODING_CODEC_ELEMENT_H
#define TUTTI_ENCODING_CODEC_ELEMENT_H

#include <stdint.h>

#include "kernel/kernel_element.h"

enum {
    SCALED_ELEMENTS = 128, /* of a unit with a float32 scale */
    SCALED_HEAD = 4,       /* bytes of that scale */
    MX_ELEMENTS = 32,      /* of a unit with an E8M0 scale */
    MX_HEAD = 1,
    MX_NAN = 0xff /* the scale of a unit without numbers */
};

/* The largest integers of int8 and mxint8, and of int4. */
#define INT8_LARGEST 127
#define INT4_LARGEST 7
/* The exponents of the largest powers of two of E4M3, of mxint8 and of E2M1; the largest numbers. */
#define E4M3_EXPONENT 8
#define MXINT8_EXPONENT 0
#define E2M1_EXPONENT 2
#define E4M3_LARGEST 448.0f
#define E2M1_LARGEST_CODE 7

#define FLOAT32_MAGNITUDE 0x7fffffffu
#define FLOAT32_NAN (FLOAT32_INFINITY | FLOAT32_QUIET)
#define FLOAT32_LEAST_NORMAL 0x00800000u

/* Added to a number of less than 2^22, rounds it to an integer, ties to even. */
#define ROUNDS_TO_INTEGER 12582912.0f
/* The same to multiples of a half: E2M1 below 1. */
#define ROUNDS_TO_HALF 6291456.0f

/* The scale of int8 and int4 for the largest magnitude of a unit, given as bits. By division: with
 * another quotient the scale would change when decoded elements are encoded again. A subnormal
 * scale has too few digits for that, so there is none. The largest numbers would decode to infinity
 * if their scale was rounded up. */
KERNEL_INLINE float scale_of(uint32_t largest_bits, float largest_integer)
{
    if (largest_bits >= FLOAT32_INFINITY) return float32_of_bits(FLOAT32_NAN);
    const float scale = divide_one_by_float32(float32_of_bits(largest_bits), largest_integer);
    const uint32_t bits = float32_bits(scale);
    if (bits < FLOAT32_LEAST_NORMAL) return float32_of_bits(FLOAT32_LEAST_NORMAL);
    return float32_of_bits(bits - (float32_bits(scale * largest_integer) == FLOAT32_INFINITY));
}

/* The E8M0 scale for the largest magnitude of a unit, given as bits. */
KERNEL_INLINE unsigned char mx_scale_of(uint32_t largest_bits, unsigned element_exponent)
{
    const uint32_t exponent = largest_bits >> 23;
    if (exponent == 0xff) return MX_NAN;
    return (unsigned char)(exponent > element_exponent ? exponent - element_exponent : 0);
}

/* 2 to the power of (exponent - 127), from 0 on; it is subnormal at 0. */
KERNEL_INLINE float power_of_two(unsigned exponent)
{
    return float32_of_bits(exponent == 0 ? FLOAT32_LEAST_NORMAL >> 1 : (uint32_t)exponent << 23);
}

/* The numbers that elements of a unit are multiplied with, to encode and to decode. */
KERNEL_INLINE float mx_inverse(unsigned char scale)
{
    return power_of_two(254u - scale);
}
KERNEL_INLINE float mx_factor(unsigned char scale)
{
    return scale == MX_NAN ? float32_of_bits(FLOAT32_NAN) : power_of_two(scale);
}

/* A number of less than 2^22. */
KERNEL_INLINE int to_integer(float a)
{
    return (int)(float32_bits(a + ROUNDS_TO_INTEGER) - float32_bits(ROUNDS_TO_INTEGER));
}

/* An element, times the inverse of its unit's scale. */
KERNEL_INLINE unsigned mxint8_code(float a)
{
    const int code = to_integer(a * 64.0f);
    if (code > INT8_LARGEST) return INT8_LARGEST;
    return (unsigned)(code < -INT8_LARGEST ? -INT8_LARGEST : code);
}

KERNEL_INLINE float mxint8_value(unsigned code)
{
    return (float)(int8_t)code * (1 / 64.0f);
}

/* From 1 on E2M1 is the top of a float32 whose exponents begin elsewhere. Below 1 it counts halves. */
KERNEL_INLINE unsigned mxfp4_code(float a)
{
    const uint32_t bits = float32_bits(a), magnitude = bits & FLOAT32_MAGNITUDE;
    uint32_t code;
    if (magnitude < float32_bits(1.0f)) {
        code = float32_bits(float32_of_bits(magnitude) + ROUNDS_TO_HALF) -
               float32_bits(ROUNDS_TO_HALF);
    } else {
        const uint32_t value = magnitude - (126u << 23);
        code = (value + (1u << 21) - 1 + (value >> 22 & 1)) >> 22;
        if (code > E2M1_LARGEST_CODE) code = E2M1_LARGEST_CODE;
    }
    return code | bits >> 31 << 3;
}

KERNEL_INLINE float mxfp4_value(unsigned code)
{
    const uint32_t magnitude = code & 7;
    const uint32_t bits =
        magnitude < 2 ? float32_bits((float)magnitude * 0.5f) : (magnitude << 22) + (126u << 23);
    return float32_of_bits(bits | (uint32_t)(code & 8) << 28);
}

#endif
