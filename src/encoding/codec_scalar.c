/* codec_scalar.c - the codecs whose bits the other levels must give: element by element, built
 * without vectorisation. */
#include "encoding/codec.h"

static float element(const unsigned char *elements, size_t i)
{
    return load_one_float32(elements + i * SIZE_float32);
}

static void set_element(unsigned char *elements, size_t i, float value)
{
    store_one_float32(elements + i * SIZE_float32, value);
}

/* ------------------------------------------------------------------------------ single elements */

#define ELEMENT_CODEC(name, dtype)                                                        \
    static void encode_##name(unsigned char *to, const unsigned char *from, size_t count) \
    {                                                                                     \
        for (size_t i = 0; i < count; i++)                                                \
            store_one_##dtype(to + i * SIZE_##dtype, element(from, i));                   \
    }                                                                                     \
    static void decode_##name(unsigned char *to, const unsigned char *from, size_t count) \
    {                                                                                     \
        for (size_t i = 0; i < count; i++)                                                \
            set_element(to, i, load_one_##dtype(from + i * SIZE_##dtype));                \
    }
ELEMENT_CODEC(float16, float16)
ELEMENT_CODEC(bfloat16, bfloat16)
ELEMENT_CODEC(fp8_e4m3, float8_e4m3)
ELEMENT_CODEC(fp8_e5m2, float8_e5m2)
#undef ELEMENT_CODEC

/* ------------------------------------------------------------------------------------ integers */

static uint32_t largest_of(const unsigned char *from, size_t count)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = float32_bits(element(from, i)) & FLOAT32_MAGNITUDE;
        if (bits > largest) largest = bits;
    }
    return largest;
}

static size_t fewer(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void nibble_store(unsigned char *nibbles, size_t i, unsigned value)
{
    nibbles[i / 2] |= (unsigned char)((value & 0xf) << (i % 2 * 4));
}

static unsigned nibble_load(const unsigned char *nibbles, size_t i)
{
    return nibbles[i / 2] >> (i % 2 * 4) & 0xf;
}

/* Returns whether the unit has numbers. */
static bool begin_scaled(unsigned char *to, size_t element_bytes, const unsigned char *from,
                         size_t count, float largest_integer, float *scale)
{
    const uint32_t largest = largest_of(from, count);
    *scale = scale_of(largest, largest_integer);
    store_one_float32(to, *scale);
    memset(to + SCALED_HEAD, 0, element_bytes);
    return largest < FLOAT32_INFINITY;
}

static void encode_int8(unsigned char *to, const unsigned char *from, size_t count)
{
    enum { BYTES = SCALED_ELEMENTS };
    for (; count > 0; to += SCALED_HEAD + BYTES) {
        const size_t unit = fewer(count, SCALED_ELEMENTS);
        float scale;
        if (begin_scaled(to, BYTES, from, unit, INT8_LARGEST, &scale))
            for (size_t i = 0; i < unit; i++)
                to[SCALED_HEAD + i] =
                    (unsigned char)to_integer(divide_one_by_float32(element(from, i), scale));
        from += unit * SIZE_float32, count -= unit;
    }
}

static void decode_int8(unsigned char *to, const unsigned char *from, size_t count)
{
    for (; count > 0; from += SCALED_HEAD + SCALED_ELEMENTS) {
        const size_t unit = fewer(count, SCALED_ELEMENTS);
        const float scale = load_one_float32(from);
        for (size_t i = 0; i < unit; i++)
            set_element(to, i, multiply_one_float32((float)(int8_t)from[SCALED_HEAD + i], scale));
        to += unit * SIZE_float32, count -= unit;
    }
}

static void encode_int4(unsigned char *to, const unsigned char *from, size_t count)
{
    enum { BYTES = SCALED_ELEMENTS / 2 };
    for (; count > 0; to += SCALED_HEAD + BYTES) {
        const size_t unit = fewer(count, SCALED_ELEMENTS);
        float scale;
        if (begin_scaled(to, BYTES, from, unit, INT4_LARGEST, &scale))
            for (size_t i = 0; i < unit; i++)
                nibble_store(to + SCALED_HEAD, i,
                             (unsigned)to_integer(divide_one_by_float32(element(from, i), scale)));
        from += unit * SIZE_float32, count -= unit;
    }
}

static void decode_int4(unsigned char *to, const unsigned char *from, size_t count)
{
    for (; count > 0; from += SCALED_HEAD + SCALED_ELEMENTS / 2) {
        const size_t unit = fewer(count, SCALED_ELEMENTS);
        const float scale = load_one_float32(from);
        for (size_t i = 0; i < unit; i++) {
            const int code = (int)nibble_load(from + SCALED_HEAD, i);
            set_element(to, i, multiply_one_float32((float)((code ^ 8) - 8), scale));
        }
        to += unit * SIZE_float32, count -= unit;
    }
}

/* ------------------------------------------------------------------------------- Microscaling */

/* An element, times the inverse of its unit's scale. */
static unsigned mxfp8_code(float a)
{
    unsigned char code;
    if (a > E4M3_LARGEST) a = E4M3_LARGEST;
    if (a < -E4M3_LARGEST) a = -E4M3_LARGEST;
    store_one_float8_e4m3(&code, a);
    return code;
}

static float mxfp8_value(unsigned code)
{
    const unsigned char byte = (unsigned char)code;
    return load_one_float8_e4m3(&byte);
}

static void byte_store(unsigned char *bytes, size_t i, unsigned value)
{
    bytes[i] = (unsigned char)value;
}

static unsigned byte_load(const unsigned char *bytes, size_t i)
{
    return bytes[i];
}

#define MX_CODEC(name, exponent, element_bytes, places)                                             \
    static void encode_##name(unsigned char *to, const unsigned char *from, size_t count)           \
    {                                                                                               \
        for (; count > 0; to += MX_HEAD + (element_bytes)) {                                        \
            const size_t unit = fewer(count, MX_ELEMENTS);                                          \
            const unsigned char scale = mx_scale_of(largest_of(from, unit), exponent);              \
            *to = scale;                                                                            \
            memset(to + MX_HEAD, 0, element_bytes);                                                 \
            for (size_t i = 0; i < unit && scale != MX_NAN; i++)                                    \
                places##_store(to + MX_HEAD, i, name##_code(element(from, i) * mx_inverse(scale))); \
            from += unit * SIZE_float32, count -= unit;                                             \
        }                                                                                           \
    }                                                                                               \
    static void decode_##name(unsigned char *to, const unsigned char *from, size_t count)           \
    {                                                                                               \
        for (; count > 0; from += MX_HEAD + (element_bytes)) {                                      \
            const size_t unit = fewer(count, MX_ELEMENTS);                                          \
            const float factor = mx_factor(*from);                                                  \
            for (size_t i = 0; i < unit; i++)                                                       \
                set_element(                                                                        \
                    to, i,                                                                          \
                    multiply_one_float32(name##_value(places##_load(from + MX_HEAD, i)), factor));  \
            to += unit * SIZE_float32, count -= unit;                                               \
        }                                                                                           \
    }
MX_CODEC(mxfp8, E4M3_EXPONENT, MX_ELEMENTS, byte)
MX_CODEC(mxint8, MXINT8_EXPONENT, MX_ELEMENTS, byte)
MX_CODEC(mxfp4, E2M1_EXPONENT, MX_ELEMENTS / 2, nibble)
#undef MX_CODEC

static void subtract(unsigned char *to, const unsigned char *from, const unsigned char *decoded,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float x = element(from, i), d = element(decoded, i);
        const uint32_t magnitude = float32_bits(d) & FLOAT32_MAGNITUDE;
        float rest = x - d;
        if (magnitude == 0) rest = x;
        if (magnitude >= FLOAT32_INFINITY) rest = 0;
        set_element(to, i, rest);
    }
}

const struct codec_table codec_table_scalar = {.codecs =
                                                   {
#define X(enumerator, name, ...) [enumerator] = {encode_##name, decode_##name},
                                                       ENCODING_LIST(X)
#undef X
                                                   },
                                               .subtract = subtract};
