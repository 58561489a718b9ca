#include "dtype.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    FLOAT_MANTISSA = 23,
    FLOAT_BIAS = 127,
    EXACT_BITS_MAX = 62 /* so that a few of them still fit into an int64 */
};

/* sign | exponent | mantissa, as IEEE 754 has them, with subnormals. */
struct format {
    int mantissa_bits; /* without the hidden one */
    int bias;
    uint32_t largest;  /* code of the largest finite number; the next one is what lies beyond: */
    bool has_infinity; /* infinity, or NaN */
};

/* The format of a dtype that is narrower than float32; else NULL. */
static const struct format *format_of(enum tutti_dtype dtype)
{
    static const struct format bfloat16 = {7, 127, 0x7f7f, true}, float16 = {10, 15, 0x7bff, true},
                               e4m3 = {3, 7, 0x7e, false}, e5m2 = {2, 15, 0x7b, true};
    switch (dtype) {
    case TUTTI_BFLOAT16: return &bfloat16;
    case TUTTI_FLOAT16: return &float16;
    case TUTTI_FLOAT8_E4M3: return &e4m3;
    case TUTTI_FLOAT8_E5M2: return &e5m2;
    case TUTTI_FLOAT32:
    case TUTTI_FLOAT64:
    case TUTTI_INT32:
    case TUTTI_INT64:
    case TUTTI_INT8:
    case TUTTI_INT16:
    case TUTTI_UINT8:
    case TUTTI_UINT16:
    case TUTTI_UINT32:
    case TUTTI_UINT64: break;
    }
    return NULL;
}

/* --------------------------------------------------------------------------------------- ranges */

enum number_kind number_kind(enum tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_INT8:
    case TUTTI_INT16:
    case TUTTI_INT32:
    case TUTTI_INT64: return NUMBER_SIGNED;
    case TUTTI_UINT8:
    case TUTTI_UINT16:
    case TUTTI_UINT32:
    case TUTTI_UINT64: return NUMBER_UNSIGNED;
    case TUTTI_FLOAT32:
    case TUTTI_FLOAT64:
    case TUTTI_BFLOAT16:
    case TUTTI_FLOAT16:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2: break;
    }
    return NUMBER_REAL;
}

uint64_t number_exact_max(enum tutti_dtype dtype)
{
    const struct format *const format = format_of(dtype);
    if (format) return UINT64_C(1) << (format->mantissa_bits + 1);
    if (dtype == TUTTI_FLOAT32) return UINT64_C(1) << 24;
    if (dtype == TUTTI_FLOAT64) return UINT64_C(1) << 53;
    int bits = 8 * (int)tutti_dtype_size(dtype) - (number_kind(dtype) == NUMBER_SIGNED);
    if (bits > EXACT_BITS_MAX) bits = EXACT_BITS_MAX;
    return (UINT64_C(1) << bits) - 1;
}

int number_exponent_max(enum tutti_dtype dtype)
{
    const struct format *const format = format_of(dtype);
    if (!format) return dtype == TUTTI_FLOAT64 ? 1000 : 120;
    return format->bias - 1; /* the smallest normal number is 2^(1 - bias) */
}

/* ---------------------------------------------------------------------------------------- words */

void word_store(size_t element_bytes, uint64_t word, void *element)
{
    switch (element_bytes) {
    case 1: memcpy(element, &(uint8_t){(uint8_t)word}, 1); break;
    case 2: memcpy(element, &(uint16_t){(uint16_t)word}, 2); break;
    case 4: memcpy(element, &(uint32_t){(uint32_t)word}, 4); break;
    default: memcpy(element, &word, 8); break;
    }
}

uint64_t word_load(size_t element_bytes, const void *element)
{
    uint8_t byte;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (element_bytes) {
    case 1: memcpy(&byte, element, 1); return byte;
    case 2: memcpy(&two, element, 2); return two;
    case 4: memcpy(&four, element, 4); return four;
    default: memcpy(&eight, element, 8); return eight;
    }
}

uint64_t word_narrowed(enum tutti_dtype dtype, uint64_t word)
{
    const bool has_sign = number_kind(dtype) == NUMBER_SIGNED;
    switch (tutti_dtype_size(dtype)) {
    case 1: return has_sign ? (uint64_t)(int8_t)word : (uint8_t)word;
    case 2: return has_sign ? (uint64_t)(int16_t)word : (uint16_t)word;
    case 4: return has_sign ? (uint64_t)(int32_t)word : (uint32_t)word;
    default: return word;
    }
}

/* ---------------------------------------------------------------------------------------- reals */

static uint32_t encode(const struct format *format, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int width = format->mantissa_bits > 3 ? 15 : 7; /* without the sign */
    const uint32_t sign = bits >> 31 << width;
    const int exponent = (int)(bits >> FLOAT_MANTISSA & 0xff) - FLOAT_BIAS;
    if (exponent == -FLOAT_BIAS) return sign; /* zero; float32's subnormals are none of ours */
    const int exponent_min = 1 - format->bias;
    const int normal = exponent > exponent_min ? exponent : exponent_min;
    const int shift = FLOAT_MANTISSA - format->mantissa_bits + (normal - exponent);
    if (shift > FLOAT_MANTISSA + 1) return sign; /* below half of the smallest */
    const uint32_t mantissa = (bits & 0x7fffff) | 1u << FLOAT_MANTISSA;
    uint32_t rounded = mantissa;
    if (shift > 0)
        rounded = (mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift;
    /* the hidden bit, or what rounding carried into its place, raises the exponent by one */
    const uint32_t code = ((uint32_t)(normal + format->bias - 1) << format->mantissa_bits) + rounded;
    return sign | (code > format->largest ? format->largest + 1 : code);
}

static double decode(const struct format *format, uint32_t code)
{
    const int width = format->mantissa_bits > 3 ? 15 : 7;
    const uint32_t magnitude = code & ((1u << width) - 1);
    const uint32_t mantissa = magnitude & ((1u << format->mantissa_bits) - 1);
    const int exponent = (int)(magnitude >> format->mantissa_bits);
    double value;
    if (magnitude > format->largest)
        value = format->has_infinity && magnitude == format->largest + 1 ? INFINITY : NAN;
    else if (exponent == 0)
        value = ldexp(mantissa, 1 - format->bias - format->mantissa_bits);
    else
        value = ldexp((double)(mantissa | 1u << format->mantissa_bits),
                      exponent - format->bias - format->mantissa_bits);
    return code >> width & 1 ? -value : value;
}

void real_store(enum tutti_dtype dtype, double value, void *element)
{
    const struct format *const format = format_of(dtype);
    if (format)
        word_store(tutti_dtype_size(dtype), encode(format, (float)value), element);
    else if (dtype == TUTTI_FLOAT32)
        memcpy(element, &(float){(float)value}, sizeof(float));
    else
        memcpy(element, &value, sizeof value);
}

double real_load(enum tutti_dtype dtype, const void *element)
{
    const struct format *const format = format_of(dtype);
    double value;
    float single;
    if (format) return decode(format, (uint32_t)word_load(tutti_dtype_size(dtype), element));
    if (dtype == TUTTI_FLOAT32) return memcpy(&single, element, sizeof single), (double)single;
    return memcpy(&value, element, sizeof value), value;
}

void element_text(enum tutti_dtype dtype, const void *element, char *text, size_t text_bytes)
{
    const uint64_t word = word_load(tutti_dtype_size(dtype), element);
    switch (number_kind(dtype)) {
    case NUMBER_REAL:
        snprintf(text, text_bytes, "%.17g (0x%" PRIx64 ")", real_load(dtype, element), word);
        break;
    case NUMBER_SIGNED:
        snprintf(text, text_bytes, "%" PRId64, (int64_t)word_narrowed(dtype, word));
        break;
    case NUMBER_UNSIGNED: snprintf(text, text_bytes, "%" PRIu64, word); break;
    }
}
