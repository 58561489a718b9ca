/* codec_test.c - what each encoding makes of each number, beside references that share no code with
 * it: tables of all values of a format, and exact arithmetic in doubles. All levels.
 *
 * ctest: label=notsan */
#include "encoding/codec.h"
#include "encoding/encoding.h"
#include "kernel/trial.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void encode(enum kernel_level level, enum tutti_encoding encoding, const float *from,
                   size_t count, unsigned char *to)
{
    encoding_encode(level, encoding_of(encoding, TUTTI_FLOAT32), from, count, to);
}

static void decode(enum kernel_level level, enum tutti_encoding encoding, const unsigned char *from,
                   size_t count, float *to)
{
    encoding_decode(level, encoding_of(encoding, TUTTI_FLOAT32), from, count, to);
}

#define FOR_LEVELS(level)                                                              \
    for (enum kernel_level level = KERNEL_SCALAR; level < KERNEL_LEVEL_COUNT; level++) \
        if (kernel_level_available(level))

/* ----------------------------------------------------------------------------- single elements */

/* A float of up to 16 bits. */
struct format {
    enum tutti_encoding encoding;
    unsigned bytes, exponent_bits, mantissa_bits;
    unsigned first_special; /* code of infinity, or of NaN where there is none */
    bool has_infinity;
};
static const struct format formats[] = {
    {TUTTI_ENCODING_FLOAT16, 2, 5, 10, 0x7c00, true},
    {TUTTI_ENCODING_BFLOAT16, 2, 8, 7, 0x7f80, true},
    {TUTTI_ENCODING_FP8_E4M3, 1, 4, 3, 0x7f, false},
    {TUTTI_ENCODING_FP8_E5M2, 1, 5, 2, 0x7c, true},
};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };
static const struct format e4m3 = {0, 1, 4, 3, 0x7f, false}, e2m1 = {0, 1, 2, 1, 8, false};

/* Of a code without sign, as if the specials were numbers, too. */
static double value_of(const struct format *format, unsigned code)
{
    const int bias = (1 << (format->exponent_bits - 1)) - 1, digits = (int)format->mantissa_bits;
    const int exponent = (int)(code >> digits);
    const unsigned mantissa = code & ((1u << digits) - 1);
    return exponent == 0 ? ldexp(mantissa, 1 - bias - digits)
                         : ldexp(mantissa + (1u << digits), exponent - bias - digits);
}

static unsigned encode_one(enum kernel_level level, const struct format *format, float x)
{
    unsigned char bytes[2] = {0};
    encode(level, format->encoding, &x, 1, bytes);
    return bytes[0] | (unsigned)bytes[1] << 8;
}

static unsigned sign_of(const struct format *format)
{
    return 1u << (8 * format->bytes - 1);
}

static void every_code_decodes_to_its_value_and_back(void **state)
{
    (void)state;
    static unsigned char codes[2 << 16], again[2 << 16];
    static float values[1 << 16];
    for (size_t f = 0; f < FORMATS; f++) {
        const struct format *const format = &formats[f];
        const unsigned count = sign_of(format) * 2, sign = sign_of(format);
        for (unsigned code = 0; code < count; code++)
            memcpy(codes + code * format->bytes, &code, format->bytes); /* little-endian hosts */
        FOR_LEVELS(level)
        {
            decode(level, format->encoding, codes, count, values);
            encode(level, format->encoding, values, count, again);
            for (unsigned code = 0; code < count; code++) {
                const unsigned magnitude = code & ~sign;
                const float value = values[code];
                unsigned back = 0;
                memcpy(&back, again + code * format->bytes, format->bytes);
                assert_int_equal(signbit(value) != 0, (code & sign) != 0);
                if (magnitude < format->first_special) {
                    assert_true(fabs((double)value) == value_of(format, magnitude));
                    assert_int_equal(back, code);
                } else if (magnitude == format->first_special && format->has_infinity) {
                    assert_true(isinf(value));
                    assert_int_equal(back, code);
                } else {
                    assert_true(isnan(value));
                    /* Quiet: the top digit is set. */
                    const unsigned quiet =
                        format->has_infinity ? code | 1u << (format->mantissa_bits - 1) : code;
                    assert_int_equal(back, quiet);
                }
            }
        }
    }
}

/* Between each two neighbours of a format, with the first special as a neighbour, too. */
static void numbers_between_go_to_the_nearest_and_ties_to_even(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMATS; f++) {
        const struct format *const format = &formats[f];
        FOR_LEVELS(level)
        for (unsigned code = 0; code < format->first_special; code++) {
            const double middle = (value_of(format, code) + value_of(format, code + 1)) / 2;
            const float tie = (float)middle;
            assert_true((double)tie == middle);
            const unsigned even = code % 2 == 0 ? code : code + 1;
            assert_int_equal(encode_one(level, format, tie), even);
            assert_int_equal(encode_one(level, format, -tie), even | sign_of(format));
            assert_int_equal(encode_one(level, format, nextafterf(tie, 0)), code);
            assert_int_equal(encode_one(level, format, nextafterf(tie, INFINITY)), code + 1);
        }
    }
}

static void what_is_too_large_becomes_infinite_or_nan(void **state)
{
    (void)state;
    const float large[] = {1e9f, FLT_MAX, INFINITY};
    for (size_t f = 0; f < FORMATS; f++) FOR_LEVELS(level)
    for (int i = 0; i < 3; i++) {
        const struct format *const format = &formats[f];
        if (format->encoding == TUTTI_ENCODING_BFLOAT16 && i == 0) continue;
        assert_int_equal(encode_one(level, format, large[i]), format->first_special);
        assert_int_equal(encode_one(level, format, -large[i]),
                         format->first_special | sign_of(format));
    }
}

/* ------------------------------------------------------------------------- scales of integers */

/* The number to which the largest element decodes has to lead to the same scale. */
static void check_scale(uint32_t largest_bits, float largest_integer)
{
    const float scale = scale_of(largest_bits, largest_integer);
    if (!(scale >= FLT_MIN) || isinf(scale))
        fail_msg("%#x has scale %g", largest_bits, (double)scale);
    const float quotient = rintf(float32_of_bits(largest_bits) / scale);
    const float decoded = quotient * scale;
    if (quotient > largest_integer || !(decoded <= FLT_MAX) ||
        scale_of(float32_bits(decoded), largest_integer) != scale)
        fail_msg("%#x: scale %a, quotient %g, decoded %a, scale %a", largest_bits, (double)scale,
                 (double)quotient, (double)decoded,
                 (double)scale_of(float32_bits(decoded), largest_integer));
}

/* All mantissas of a binade; of the binades at whose ends scales become subnormal or numbers end;
 * and some of all others. */
static void the_scale_of_what_was_decoded_is_the_same(void **state)
{
    (void)state;
    static const float integers[] = {INT8_LARGEST, INT4_LARGEST};
    const unsigned step = getenv("TUTTI_LONG") != NULL ? 1 : 61;
    for (int i = 0; i < 2; i++)
        for (unsigned exponent = 0; exponent < 255; exponent++) {
            const bool is_all = exponent == 127;
            const bool is_edge = exponent <= 9 || exponent == 254;
            for (uint32_t mantissa = 0; mantissa < 1u << 23; mantissa += is_all    ? 1
                                                                         : is_edge ? step
                                                                                   : step * 211)
                check_scale(exponent << 23 | mantissa, integers[i]);
            check_scale(exponent << 23 | 0x7fffff, integers[i]);
        }
}

/* Multiplying with a reciprocal fails, so the test above can. */
static void reciprocals_would_change_scales(void **state)
{
    (void)state;
    static const struct {
        float largest;
        double share;
    } cases[] = {{INT8_LARGEST, 0.042}, {INT4_LARGEST, 0.458}};
    for (int i = 0; i < 2; i++) {
        const float reciprocal = 1 / cases[i].largest;
        unsigned changed = 0, all = 0;
        for (uint32_t mantissa = 0; mantissa < 1u << 23; mantissa += 5, all++) {
            const float scale = float32_of_bits(127u << 23 | mantissa) * reciprocal;
            changed += scale * cases[i].largest * reciprocal != scale;
        }
        assert_true(fabs(changed / (double)all - cases[i].share) < 0.002);
    }
}

/* ---------------------------------------------------------------------------------- references */

static float element_of_trial(int exponent, int spread)
{
    if (random_below(40) == 0) return random_below(2) ? 0.0f : -0.0f;
    const int e = exponent - (int)random_below((unsigned)spread);
    const uint32_t bits = (uint32_t)random_next();
    /* Few digits often: ties. */
    const uint32_t digits = random_below(3) == 0 ? bits & 0x80780000u : bits & 0x807fffffu;
    return float32_of_bits(digits | (uint32_t)(e < 0 ? 0 : e) << 23);
}

static double largest_magnitude(const float *unit, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)unit[i]));
    return largest;
}

/* The code of the value nearest to a magnitude; of two, the even one; not beyond `last`. */
static unsigned nearest(const struct format *format, double magnitude, unsigned last)
{
    unsigned best = 0;
    for (unsigned code = 1; code <= last; code++) {
        const double before = fabs(magnitude - value_of(format, best)),
                     now = fabs(magnitude - value_of(format, code));
        if (now < before || (now == before && code % 2 == 0)) best = code;
    }
    return best;
}

static unsigned code_at(enum tutti_encoding encoding, const unsigned char *unit, size_t i)
{
    const unsigned head = encoding == TUTTI_ENCODING_INT8 || encoding == TUTTI_ENCODING_INT4 ? 4 : 1;
    if (encoding != TUTTI_ENCODING_INT4 && encoding != TUTTI_ENCODING_MXFP4) return unit[head + i];
    return unit[head + i / 2] >> (i % 2 != 0 ? 4 : 0) & 0xf;
}

static unsigned expected_code(enum tutti_encoding encoding, double x, double scale)
{
    const unsigned sign = signbit(x) != 0;
    switch (encoding) {
    case TUTTI_ENCODING_INT8: return (unsigned)(int)rintf((float)x / (float)scale) & 0xff;
    case TUTTI_ENCODING_INT4: return (unsigned)(int)rintf((float)x / (float)scale) & 0xf;
    case TUTTI_ENCODING_MXINT8:
        return (unsigned)(int)fmin(127, fmax(-127, rint(x / scale * 64))) & 0xff;
    case TUTTI_ENCODING_MXFP8: return nearest(&e4m3, fabs(x) / scale, 0x7e) | sign << 7;
    default: return nearest(&e2m1, fabs(x) / scale, 7) | sign << 3;
    }
}

/* By how much an element may change, as a share of the unit's scale, and how much of an element
 * saturation may take. */
static void bounds_of(enum tutti_encoding encoding, double magnitude, double scale, double *change,
                      double *saturation)
{
    int exponent;
    *saturation = 0;
    frexp(magnitude / scale, &exponent); /* magnitude / scale is in [2^(exponent-1), 2^exponent) */
    switch (encoding) {
    case TUTTI_ENCODING_INT8:
    case TUTTI_ENCODING_INT4: *change = 0.5; break;
    case TUTTI_ENCODING_MXINT8:
        *change = 1 / 128.0;
        *saturation = 1 / 128.0;
        break;
    case TUTTI_ENCODING_MXFP8:
        *change = ldexp(1, (exponent - 1 < -6 ? -6 : exponent - 1) - 4);
        *saturation = 1 / 8.0;
        break;
    default: *change = ldexp(1, (exponent - 1 < 0 ? 0 : exponent - 1) - 2); *saturation = 1 / 4.0;
    }
}

static double scale_in(enum tutti_encoding encoding, const unsigned char *unit)
{
    if (encoding != TUTTI_ENCODING_INT8 && encoding != TUTTI_ENCODING_INT4)
        return ldexp(1, unit[0] - 127);
    float scale;
    memcpy(&scale, unit, sizeof(scale));
    return (double)scale;
}

static double expected_scale(enum tutti_encoding encoding, double largest)
{
    int exponent;
    if (encoding == TUTTI_ENCODING_INT8 || encoding == TUTTI_ENCODING_INT4)
        return fmax((double)((float)largest / (encoding == TUTTI_ENCODING_INT8 ? 127.0f : 7.0f)),
                    0x1p-126);
    if (largest == 0) return 0x1p-127;
    frexp(largest, &exponent);
    const int element = encoding == TUTTI_ENCODING_MXFP8   ? 8
                        : encoding == TUTTI_ENCODING_MXFP4 ? 2
                                                           : 0;
    return ldexp(1, exponent - 1 - element < -127 ? -127 : exponent - 1 - element);
}

static void check_unit(enum tutti_encoding encoding, const float *unit, size_t count,
                       const unsigned char *encoded, const float *decoded)
{
    const double scale = scale_in(encoding, encoded);
    assert_true(scale == expected_scale(encoding, largest_magnitude(unit, count)));
    for (size_t i = 0; i < encoding_unit_elements(encoding); i++) {
        const unsigned code = code_at(encoding, encoded, i);
        if (i >= count) {
            assert_int_equal(code, 0);
            continue;
        }
        const double x = (double)unit[i], change = fabs((double)decoded[i] - x);
        assert_int_equal(code, expected_code(encoding, x, scale));
        double most, saturation;
        bounds_of(encoding, fabs(x), scale, &most, &saturation);
        /* 2^-23: the quotient and the product are rounded to float32. */
        assert_true(change <= scale * most + fabs(x) * 0x1p-23 || change <= fabs(x) * saturation);
    }
}

static void units_have_the_scale_and_the_codes_of_the_reference(void **state)
{
    (void)state;
    enum { ROUNDS = 600, UNITS = 3, MOST = 128 * UNITS };
    static float elements[MOST], decoded[MOST];
    static unsigned char encoded[MOST * 2];
    for (int round = 0; round < ROUNDS; round++) {
        const enum tutti_encoding encoding =
            TUTTI_ENCODING_INT8 + random_below(ENCODING_COUNT - TUTTI_ENCODING_INT8);
        const unsigned unit = encoding_unit_elements(encoding);
        const size_t count = 1 + random_below(UNITS * unit);
        /* All exponents, those of subnormal and of the largest numbers more often. */
        const int exponent = (int)random_below(round % 3 == 0 ? 12 : 255) + (round % 7 == 0) * 243;
        for (size_t i = 0; i < count; i++)
            elements[i] = element_of_trial(exponent > 254 ? 254 : exponent, 1 + round % 20);
        FOR_LEVELS(level)
        {
            encode(level, encoding, elements, count, encoded);
            decode(level, encoding, encoded, count, decoded);
            for (size_t first = 0; first < count; first += unit)
                check_unit(encoding, elements + first, count - first < unit ? count - first : unit,
                           encoded + first / unit * encoding_unit_bytes(encoding), decoded + first);
        }
    }
}

/* 4 makes the scale 1, so that the other elements are what E2M1 gets. */
static void every_number_and_tie_of_e2m1_is_right(void **state)
{
    (void)state;
    float unit[32] = {4}, decoded[32];
    unsigned char encoded[17];
    for (unsigned code = 0; code < 8; code++) {
        const float value = (float)value_of(&e2m1, code);
        unit[1 + code] = value;
        unit[9 + code] = -value;
        if (code == 7) break;
        unit[17 + code] = (value + (float)value_of(&e2m1, code + 1)) / 2;
        unit[24 + code] = nextafterf(unit[17 + code], INFINITY);
    }
    unit[31] = nextafterf(8, 0); /* saturates */
    FOR_LEVELS(level)
    {
        encode(level, TUTTI_ENCODING_MXFP4, unit, 32, encoded);
        decode(level, TUTTI_ENCODING_MXFP4, encoded, 32, decoded);
        assert_int_equal(encoded[0], 127);
        for (unsigned code = 0; code < 8; code++) {
            assert_int_equal(code_at(TUTTI_ENCODING_MXFP4, encoded, 1 + code), code);
            assert_int_equal(code_at(TUTTI_ENCODING_MXFP4, encoded, 9 + code), code | 8);
            assert_true(decoded[1 + code] == unit[1 + code]);
            assert_true(decoded[9 + code] == unit[9 + code] && signbit(decoded[9 + code]));
            if (code == 7) break;
            assert_int_equal(code_at(TUTTI_ENCODING_MXFP4, encoded, 17 + code),
                             code % 2 == 0 ? code : code + 1);
            assert_int_equal(code_at(TUTTI_ENCODING_MXFP4, encoded, 24 + code), code + 1);
        }
        assert_true(decoded[31] == 6);
    }
}

static void a_unit_with_a_nan_or_an_infinity_is_nan_in_whole(void **state)
{
    (void)state;
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (unsigned e = TUTTI_ENCODING_INT8; e < ENCODING_COUNT; e++) {
        const enum tutti_encoding encoding = (enum tutti_encoding)e;
        const unsigned unit = encoding_unit_elements(encoding),
                       bytes = encoding_unit_bytes(encoding);
        float elements[3 * 128], decoded[3 * 128];
        unsigned char encoded[3 * 132], again[3 * 132];
        FOR_LEVELS(level)
        for (size_t b = 0; b < 4; b++)
            for (unsigned at = unit; at < 2 * unit; at += 7) {
                for (size_t i = 0; i < 3 * unit; i++) elements[i] = (float)i + 1;
                elements[at] = bad[b];
                encode(level, encoding, elements, 3 * unit, encoded);
                decode(level, encoding, encoded, 3 * unit, decoded);
                encode(level, encoding, decoded, 3 * unit, again);
                assert_memory_equal(encoded, again, 3 * bytes);
                for (size_t i = 0; i < 3 * unit; i++)
                    assert_int_equal(isnan(decoded[i]) != 0, i / unit == 1);
                for (size_t i = 0; i < unit; i++)
                    assert_int_equal(code_at(encoding, encoded + bytes, i), 0);
            }
    }
}

static void zeros_stay_zeros(void **state)
{
    (void)state;
    float zeros[128], decoded[128];
    unsigned char encoded[256];
    for (size_t i = 0; i < 128; i++) zeros[i] = i % 3 == 0 ? -0.0f : 0.0f;
    for (unsigned e = 1; e < ENCODING_COUNT; e++) {
        const bool has_one_zero =
            e == TUTTI_ENCODING_INT8 || e == TUTTI_ENCODING_INT4 || e == TUTTI_ENCODING_MXINT8;
        FOR_LEVELS(level)
        {
            encode(level, (enum tutti_encoding)e, zeros, 128, encoded);
            decode(level, (enum tutti_encoding)e, encoded, 128, decoded);
            for (size_t i = 0; i < 128; i++) {
                assert_true(decoded[i] == 0);
                assert_int_equal(signbit(decoded[i]) != 0, !has_one_zero && i % 3 == 0);
            }
        }
    }
}

int main(void)
{
    print_message("seed %#llx\n", (unsigned long long)random_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_decodes_to_its_value_and_back),
        cmocka_unit_test(numbers_between_go_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(what_is_too_large_becomes_infinite_or_nan),
        cmocka_unit_test(the_scale_of_what_was_decoded_is_the_same),
        cmocka_unit_test(reciprocals_would_change_scales),
        cmocka_unit_test(units_have_the_scale_and_the_codes_of_the_reference),
        cmocka_unit_test(every_number_and_tie_of_e2m1_is_right),
        cmocka_unit_test(a_unit_with_a_nan_or_an_infinity_is_nan_in_whole),
        cmocka_unit_test(zeros_stay_zeros),
    };
    return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
