#include "tests/kit/elements.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

#define SCALE 0.75

uint64_t elements_mixed(uint64_t a, uint64_t b)
{
    uint64_t h = (a + 1) * 0x9e3779b97f4a7c15u ^ (b + 7) * 0xff51afd7ed558ccdu;
    h ^= h >> 31;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 29;
}

/* --------------------------------------------------------------------------------------- dtypes */

/* A float narrower than float32. */
struct narrow {
    int mantissa_bits, exponent_bits;
};

static struct narrow narrow_of(enum tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_BFLOAT16: return (struct narrow){7, 8};
    case TUTTI_FLOAT16: return (struct narrow){10, 5};
    case TUTTI_FLOAT8_E4M3: return (struct narrow){3, 4};
    case TUTTI_FLOAT8_E5M2: return (struct narrow){2, 5};
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
    return (struct narrow){0, 0};
}

/* Rounded to nearest even; finite, and within the range of the format. */
static uint16_t code_of(struct narrow narrow, double value)
{
    const int bias = (1 << (narrow.exponent_bits - 1)) - 1;
    const int sign_bit = narrow.mantissa_bits + narrow.exponent_bits;
    const unsigned sign = signbit(value) ? 1u << sign_bit : 0;
    int exponent;
    (void)frexp(fabs(value), &exponent);
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    const double unit = ldexp(1, exponent - narrow.mantissa_bits);
    unsigned units = (unsigned)nearbyint(fabs(value) / unit);
    if (units >> (narrow.mantissa_bits + 1))
        units >>= 1, exponent++; /* rounded up to a power of two */
    if (!(units >> narrow.mantissa_bits)) return (uint16_t)(sign | units);
    return (uint16_t)(sign | (unsigned)(exponent + bias) << narrow.mantissa_bits |
                      (units & ((1u << narrow.mantissa_bits) - 1)));
}

/* All integers up to it are exact; a modest one, so that inputs stay small. */
static int exact_max(enum tutti_dtype dtype)
{
    enum { MODEST = 4000 };
    const struct narrow narrow = narrow_of(dtype);
    int max = MODEST;
    if (narrow.mantissa_bits > 0) max = 2 << narrow.mantissa_bits;
    if (dtype == TUTTI_INT8) max = INT8_MAX;
    if (dtype == TUTTI_UINT8) max = UINT8_MAX;
    return max < MODEST ? max : MODEST;
}

static void put_integer(unsigned char *place, enum tutti_dtype dtype, int64_t value)
{
    memcpy(place, &value, tutti_dtype_size(dtype)); /* the low bytes come first */
}

static void put_real(unsigned char *place, enum tutti_dtype dtype, double value)
{
    const struct narrow narrow = narrow_of(dtype);
    if (narrow.mantissa_bits > 0) {
        const uint16_t code = code_of(narrow, value);
        memcpy(place, &code, tutti_dtype_size(dtype));
    } else if (dtype == TUTTI_FLOAT32) {
        memcpy(place, &(float){(float)value}, sizeof(float));
    } else {
        memcpy(place, &value, sizeof value);
    }
}

/* ----------------------------------------------------------------------------------- operations */

static unsigned char composed(unsigned char left, unsigned char right)
{
    const unsigned a = (unsigned)(left >> 4) * (right >> 4) & 15;
    const unsigned b = ((unsigned)(right >> 4) * (left & 15) + (right & 15)) & 15;
    return (unsigned char)(a << 4 | b);
}

static void compose(const void *left, const void *right, void *result, size_t count,
                    enum tutti_dtype dtype, void *context)
{
    (void)context;
    const unsigned char *const l = left, *const r = right;
    for (size_t i = 0; i < count * tutti_dtype_size(dtype); i++)
        ((unsigned char *)result)[i] = composed(l[i], r[i]);
}

bool elements_supported(enum op kind, enum tutti_dtype dtype)
{
    const bool real = dtype_kind(dtype) == DTYPE_FLOAT;
    if (kind == OP_SCALED_SUM) return real;
    return !real || kind < OP_LAND || kind > OP_BXOR;
}

tutti_op elements_op(enum op kind)
{
    struct tutti_op_options options = TUTTI_OP_OPTIONS_INIT;
    tutti_op op;
    if (kind < OP_BUILTIN_COUNT) return op_handle(op_builtin(kind));
    options.combine = kind == OP_USER ? compose : NULL;
    options.factor = SCALE;
    return tutti_op_create(&options, &op) == TUTTI_OK ? op : NULL;
}

/* --------------------------------------------------------------------------------------- values */

/* What a rank contributes to everything but OP_USER. */
static int64_t contribution(enum tutti_dtype dtype, enum op kind, int rank, int size, size_t index)
{
    const uint64_t h = elements_mixed((uint64_t)rank * ELEMENTS_PERIOD, index);
    const bool has_sign = dtype_kind(dtype) != DTYPE_UNSIGNED;
    const int max = exact_max(dtype);
    int bound = max / size;
    switch (kind) {
    case OP_PROD: /* with 20 ranks within 2^5 */
        return (has_sign && h & 1 ? -1 : 1) * (rank % 4 == 0 && h & 2 ? 2 : 1);
    case OP_MIN:
    case OP_MAX: bound = max; break;
    case OP_LAND: return h % 8 != 0 ? 1 + (int64_t)(h >> 8 & 63) : 0;
    case OP_LOR: return h % 8 == 0 ? 1 + (int64_t)(h >> 8 & 63) : 0;
    case OP_LXOR: return h & 1 ? 1 + (int64_t)(h >> 8 & 63) : 0;
    case OP_BAND: return (int64_t)(h | h >> 21 | h >> 42);
    case OP_BOR: return (int64_t)(h & h >> 21 & h >> 42);
    case OP_BXOR: return (int64_t)h;
    default: break;
    }
    if (bound == 0) { /* more ranks than the dtype has integers: some contribute, in turn */
        const size_t stride = ((size_t)size + (size_t)max - 1) / (size_t)max;
        if (((size_t)rank + index) % stride != 0) return 0;
        bound = 1;
    }
    return has_sign ? (int64_t)(h % (2 * (uint64_t)bound + 1)) - bound
                    : (int64_t)(h % ((uint64_t)bound + 1));
}

static int64_t combined(enum op kind, int64_t a, int64_t b)
{
    switch (kind) {
    case OP_PROD: return a * b;
    case OP_MIN: return b < a ? b : a;
    case OP_MAX: return b > a ? b : a;
    case OP_LAND: return a != 0 && b != 0;
    case OP_LOR: return a != 0 || b != 0;
    case OP_LXOR: return (a != 0) != (b != 0);
    case OP_BAND: return a & b;
    case OP_BOR: return a | b;
    case OP_BXOR: return a ^ b;
    default: return a + b;
    }
}

/* Every byte of any contribution to OP_USER is a function with an inverse. */
static unsigned char function_of(int rank, size_t index, size_t byte)
{
    return (unsigned char)(elements_mixed((uint64_t)rank * 8 + byte + 77, index) | 0x10);
}

/* --------------------------------------------------------------------------------------- tables */

static void put(struct elements *elements, size_t index, const unsigned char *element)
{
    const size_t bytes = elements->element_bytes;
    memcpy(elements->bytes + index * bytes, element, bytes);
    memcpy(elements->bytes + (index + ELEMENTS_PERIOD) * bytes, element, bytes);
}

static void put_number(unsigned char *element, enum tutti_dtype dtype, enum op kind, int64_t value,
                       int size)
{
    if (dtype_kind(dtype) != DTYPE_FLOAT)
        put_integer(element, dtype, kind == OP_AVG ? value / size : value);
    else if (kind == OP_AVG) /* a float's quotient is rounded to float32 first, if it is narrower */
        put_real(element, dtype,
                 dtype == TUTTI_FLOAT64 ? (double)value / size
                                        : (double)((float)value / (float)size));
    else
        put_real(element, dtype, kind == OP_SCALED_SUM ? (double)value * SCALE : (double)value);
}

static void contribute(unsigned char *element, enum tutti_dtype dtype, enum op kind, int rank,
                       int size, size_t index)
{
    if (kind == OP_USER)
        for (size_t b = 0; b < 8; b++) element[b] = function_of(rank, index, b);
    else
        put_number(element, dtype, OP_SUM, contribution(dtype, kind, rank, size, index), size);
}

void elements_contribution(struct elements *elements, enum tutti_dtype dtype, enum op kind,
                           int rank, int size)
{
    unsigned char element[8];
    elements->element_bytes = tutti_dtype_size(dtype);
    for (size_t i = 0; i < ELEMENTS_PERIOD; i++) {
        contribute(element, dtype, kind, rank, size, i);
        put(elements, i, element);
    }
}

static void reduce(unsigned char *element, enum tutti_dtype dtype, enum op kind, int size,
                   size_t index)
{
    if (kind == OP_USER) {
        for (size_t b = 0; b < 8; b++) {
            element[b] = function_of(0, index, b);
            for (int rank = 1; rank < size; rank++)
                element[b] = composed(element[b], function_of(rank, index, b));
        }
        return;
    }
    int64_t total = contribution(dtype, kind, 0, size, index);
    for (int rank = 1; rank < size; rank++)
        total = combined(kind, total, contribution(dtype, kind, rank, size, index));
    put_number(element, dtype, kind, total, size);
}

void elements_result(struct elements *elements, enum tutti_dtype dtype, enum op kind, int size)
{
    unsigned char element[8];
    elements->element_bytes = tutti_dtype_size(dtype);
    for (size_t i = 0; i < ELEMENTS_PERIOD; i++) {
        reduce(element, dtype, kind, size, i);
        put(elements, i, element);
    }
}

void elements_bytes(struct elements *elements, enum tutti_dtype dtype, int rank)
{
    elements->element_bytes = tutti_dtype_size(dtype);
    for (size_t i = 0; i < ELEMENTS_PERIOD; i++) {
        const uint64_t h = elements_mixed((uint64_t)rank + 1000, i);
        put(elements, i, (const unsigned char *)&h);
    }
}

double elements_largest(enum tutti_dtype dtype)
{
    return exact_max(dtype);
}

void elements_fill(void *buffer, const struct elements *elements, size_t first_index, size_t count)
{
    const size_t bytes = elements->element_bytes;
    for (size_t done = 0; done < count;) {
        const size_t n = count - done < ELEMENTS_PERIOD ? count - done : ELEMENTS_PERIOD;
        memcpy((char *)buffer + done * bytes,
               elements->bytes + (first_index + done) % ELEMENTS_PERIOD * bytes, n * bytes);
        done += n;
    }
}

size_t elements_first_wrong(const void *buffer, const struct elements *elements, size_t first_index,
                            size_t count)
{
    const size_t bytes = elements->element_bytes;
    for (size_t done = 0; done < count;) {
        const size_t n = count - done < ELEMENTS_PERIOD ? count - done : ELEMENTS_PERIOD;
        const char *at = (const char *)buffer + done * bytes;
        const unsigned char *expected =
            elements->bytes + (first_index + done) % ELEMENTS_PERIOD * bytes;
        if (memcmp(at, expected, n * bytes) != 0)
            for (size_t i = 0;; i++)
                if (memcmp(at + i * bytes, expected + i * bytes, bytes) != 0) return done + i;
        done += n;
    }
    return count;
}
