/* codec.h - one encoding at one level: float32 to bytes and back. And how units with scales choose
 * these, which is the same at all levels.
 *
 *     int8   [scale: float32][ 128 x int8 ]        132 bytes
 *     int4   [scale: float32][ 64 x two int4 ]      68
 *     mxfp8  [scale: E8M0][ 32 x E4M3 ]             33
 *     mxint8 [scale: E8M0][ 32 x int8, in 64ths ]   33
 *     mxfp4  [scale: E8M0][ 16 x two E2M1 ]         17
 */
#ifndef TUTTI_ENCODING_CODEC_H
#define TUTTI_ENCODING_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/encoding.h"
#include "kernel/kernel.h"
#include "kernel/kernel_element.h"

struct encoding_codec {
    /* `count` elements of float32, the first of which begins a unit; any alignment, no overlap.
     * encode fills the last unit with zeros. */
    void (*encode)(unsigned char *to, const unsigned char *from, size_t count);
    void (*decode)(unsigned char *to, const unsigned char *from, size_t count);
};

/* The codecs of one level; the file of its name defines them. */
struct codec_table {
    struct encoding_codec codecs[ENCODING_COUNT];
    /* float32 at any alignment: to[i] = from[i] - decoded[i], but from[i] where decoded[i] is a zero
     * (which keeps the sign of -0), and 0 where it is not finite. `to` may be either of the others. */
    void (*subtract)(unsigned char *to, const unsigned char *from, const unsigned char *decoded,
                     size_t count);
};

extern const struct codec_table codec_table_scalar;
#if defined(__x86_64__)
extern const struct codec_table codec_table_avx2, codec_table_avx512;
#elif defined(__aarch64__)
extern const struct codec_table codec_table_neon;
#endif

/* Of an available level. */
const struct codec_table *codec_table_of(enum kernel_level level);

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

#endif
