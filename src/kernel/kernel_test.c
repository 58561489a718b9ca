/* kernel_test.c - every level gives the scalar twin's bits, and the scalar twin does what kernel.h says. */
#include "kernel/kernel.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/dtype.h"

enum {
    SOURCES_MAX = 9,
    BYTES_MAX = 40000,
    GUARD = 64,
    ROOM = BYTES_MAX + 2 * GUARD + 256,
    GUARD_BYTE = 0xa5
};

static const size_t element_bytes[DTYPE_COUNT] = {
#define X(enumerator, name, bytes, kind) [enumerator] = bytes,
    DTYPE_LIST(X)
#undef X
};
static const char *const dtype_names[DTYPE_COUNT] = {
#define X(enumerator, name, bytes, kind) [enumerator] = #name,
    DTYPE_LIST(X)
#undef X
};
static const char *const op_names[OP_COUNT] = {
#define X(enumerator, name) [enumerator] = #name,
    OP_LIST(X)
#undef X
};

/* ------------------------------------------------------------------------------------------- chance */

static uint64_t random_state = 0x7455747469ull;

static uint64_t random_next(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static unsigned random_below(unsigned bound)
{
    return (unsigned)(random_next() % bound);
}

static uint64_t random_float_bits(unsigned exponent_bits, unsigned mantissa_bits)
{
    const uint64_t sign = (random_next() & 1) << (exponent_bits + mantissa_bits);
    const uint64_t exponents = ((1ull << exponent_bits) - 1) << mantissa_bits;
    const uint64_t mantissa = random_next() & ((1ull << mantissa_bits) - 1);
    switch (random_below(12)) {
    case 0: return sign;                            /* zeros */
    case 1: return sign | exponents;                /* infinities */
    case 2: return sign | mantissa;                 /* denormals */
    case 3: return sign | exponents | mantissa | 1; /* NaNs, signalling and quiet */
    case 4: return sign | (exponents - (1ull << mantissa_bits)) | mantissa; /* huge */
    case 5: return random_next() >> (63 - exponent_bits - mantissa_bits);   /* anything */
    default: /* around one, where sums round and cancel */
        return sign |
               ((((1ull << (exponent_bits - 1)) - 5 + random_below(9)) << mantissa_bits) | mantissa);
    }
}

static void random_element(enum tutti_dtype dtype, unsigned char *to)
{
    uint64_t bits;
    switch (dtype) {
    case TUTTI_FLOAT32: bits = random_float_bits(8, 23); break;
    case TUTTI_FLOAT64: bits = random_float_bits(11, 52); break;
    case TUTTI_BFLOAT16: bits = random_float_bits(8, 7); break;
    default:
        bits = random_next();
        if (random_below(8) == 0) bits = 1ull << (8 * element_bytes[dtype] - 1); /* the smallest */
        if (random_below(4) == 0) bits = (uint64_t)((int64_t)random_below(9) - 4);
    }
    memcpy(to, &bits,
           element_bytes[dtype]); /* little endian, as is all that has more than one level */
}

/* --------------------------------------------------------------------------- a slow, independent reference */

static double bfloat16_value(uint16_t half)
{
    const int exponent = (half >> 7) & 0xff, mantissa = half & 0x7f;
    const double sign = half >> 15 ? -1.0 : 1.0;
    if (exponent == 0xff) return mantissa != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent == 0 ? ldexp(mantissa, -133) : ldexp(mantissa + 128, exponent - 134));
}

/* By comparing with both neighbours; infinity counts as the power of two that comes after the largest number. */
static uint16_t bfloat16_nearest(float value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double magnitude = fabs((double)value);
    if (isinf(value)) return sign | 0x7f80;
    uint16_t low = 0, high = 0x7f80;
    while (high - low > 1) {
        const uint16_t middle = (uint16_t)((low + high) / 2);
        if (bfloat16_value(middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    const double above = high == 0x7f80 ? ldexp(1.0, 128) : bfloat16_value(high);
    const double down = magnitude - bfloat16_value(low), up = above - magnitude;
    if (down != up) return sign | (down < up ? low : high);
    return sign | (low % 2 == 0 ? low : high);
}

#define REFERENCE_FLOAT(type)                                                                  \
    static type reference_##type(enum op op, const type *values, unsigned n, unsigned divisor) \
    {                                                                                          \
        volatile type a = values[0];                                                           \
        for (unsigned s = 1; s < n; s++) {                                                     \
            const type left = a, right = values[s];                                            \
            if (op == OP_MIN)                                                                  \
                a = left < right ? left : right;                                               \
            else if (op == OP_MAX)                                                             \
                a = left > right ? left : right;                                               \
            else if (op == OP_PROD)                                                            \
                a = left * right;                                                              \
            else                                                                               \
                a = left + right;                                                              \
        }                                                                                      \
        if (divisor != 0) a = a / (type)divisor;                                               \
        return a;                                                                              \
    }
REFERENCE_FLOAT(float)
REFERENCE_FLOAT(double)

static int64_t reference_integer(enum op op, const int64_t *values, unsigned n, unsigned divisor,
                                 unsigned bits)
{
    const unsigned shift = 64 - bits;
    int64_t a = values[0];
    for (unsigned s = 1; s < n; s++) {
        __int128 wide = values[s];
        if (op == OP_MIN)
            wide = a <= wide ? a : wide;
        else if (op == OP_MAX)
            wide = a >= wide ? a : wide;
        else if (op == OP_PROD)
            wide = wide * a;
        else
            wide = wide + a;
        a = (int64_t)((uint64_t)wide << shift) >> shift; /* wraps */
    }
    return divisor != 0 ? a / (int64_t)divisor : a;
}

static bool is_nan(enum tutti_dtype dtype, const unsigned char *at, bool quiet)
{
    const unsigned mantissa_bits = dtype == TUTTI_FLOAT32 ? 23 : dtype == TUTTI_FLOAT64 ? 52 : 7;
    const unsigned bits = 8 * (unsigned)element_bytes[dtype];
    uint64_t value = 0;
    memcpy(&value, at, element_bytes[dtype]);
    value &= (1ull << (bits - 1)) - 1;
    const uint64_t infinity = ((1ull << (bits - 1 - mantissa_bits)) - 1) << mantissa_bits;
    if (quiet && (value & (1ull << (mantissa_bits - 1))) == 0) return false;
    return value > infinity;
}

/* Writes what element must become; returns whether that is a NaN whose payload nobody promises. */
static bool reference_element(enum tutti_dtype dtype, enum op op,
                              const unsigned char *const *elements, unsigned n, unsigned divisor,
                              unsigned char *to)
{
    float floats[16] = {0};
    double doubles[16] = {0};
    int64_t integers[16] = {0};
    assert_in_range(n, 1, SOURCES_MAX);
    if (dtype == TUTTI_FLOAT64) {
        for (unsigned s = 0; s < n; s++) memcpy(&doubles[s], elements[s], 8);
        const double result = reference_double(op, doubles, n, divisor);
        memcpy(to, &result, 8);
        return isnan(result);
    }
    if (dtype == TUTTI_INT32 || dtype == TUTTI_INT64) {
        for (unsigned s = 0; s < n; s++) {
            int32_t small;
            memcpy(&small, elements[s], 4);
            integers[s] = small;
            if (dtype == TUTTI_INT64) memcpy(&integers[s], elements[s], 8);
        }
        const int64_t result =
            reference_integer(op, integers, n, divisor, 8 * (unsigned)element_bytes[dtype]);
        memcpy(to, &result, element_bytes[dtype]);
        return false;
    }
    for (unsigned s = 0; s < n; s++) {
        if (dtype == TUTTI_FLOAT32) {
            memcpy(&floats[s], elements[s], 4);
        } else {
            uint16_t half;
            memcpy(&half, elements[s], 2);
            floats[s] = (float)bfloat16_value(half);
        }
    }
    const float result = reference_float(op, floats, n, divisor);
    if (dtype == TUTTI_FLOAT32) {
        memcpy(to, &result, 4);
    } else if (!isnan(result)) {
        const uint16_t half = bfloat16_nearest(result);
        memcpy(to, &half, 2);
    }
    return isnan(result);
}

/* -------------------------------------------------------------------------------------------- a case */

struct experiment {
    enum tutti_dtype dtype;
    enum op op;
    unsigned source_count, divisor;
    size_t count;
    bool stream;
    unsigned in_place; /* this source is the destination; source_count: none */
    bool also;
    unsigned offsets[SOURCES_MAX + 2]; /* of the sources, destination and also from a 64-byte boundary */
};

static _Alignas(64) unsigned char room_source[SOURCES_MAX][ROOM];
static _Alignas(64) unsigned char room_destination[ROOM], room_also[ROOM], expected[BYTES_MAX];

static void experiment_fail(const struct experiment *x, enum kernel_level level, const char *what,
                            size_t at)
{
    char offsets[8 * (SOURCES_MAX + 2)] = "";
    for (int i = 0; i < SOURCES_MAX + 2; i++)
        snprintf(offsets + strlen(offsets), sizeof(offsets) - strlen(offsets), " %u", x->offsets[i]);
    fail_msg("%s %s %s of %u, divisor %u, count %zu, stream %d, also %d, in place %u, offsets%s: "
             "%s at %zu",
             kernel_level_name(level), dtype_names[x->dtype], op_names[x->op], x->source_count,
             x->divisor, x->count, x->stream, x->also, x->in_place, offsets, what, at);
}

static void guards_check(const struct experiment *x, enum kernel_level level,
                         const unsigned char *room, const unsigned char *data, size_t bytes)
{
    for (const unsigned char *p = data - GUARD; p < data; p++)
        if (*p != GUARD_BYTE) experiment_fail(x, level, "guard before", (size_t)(p - room));
    for (const unsigned char *p = data + bytes; p < data + bytes + GUARD; p++)
        if (*p != GUARD_BYTE) experiment_fail(x, level, "guard behind", (size_t)(p - room));
}

static void bytes_check(const struct experiment *x, enum kernel_level level, const char *what,
                        const unsigned char *got, const unsigned char *want, size_t bytes)
{
    if (memcmp(got, want, bytes) == 0) return;
    size_t at = 0;
    while (got[at] == want[at]) at++;
    experiment_fail(x, level, what, at / element_bytes[x->dtype]);
}

/* The sources must lie in room_source; the result is compared with `expected`. */
static void experiment_run(const struct experiment *x, enum kernel_level level)
{
    const size_t bytes = x->count * element_bytes[x->dtype];
    unsigned char *const destination = room_destination + GUARD + x->offsets[SOURCES_MAX];
    unsigned char *const also = room_also + GUARD + x->offsets[SOURCES_MAX + 1];
    memset(destination - GUARD, GUARD_BYTE, bytes + 2 * GUARD);
    memset(also - GUARD, GUARD_BYTE, bytes + 2 * GUARD);
    const void *sources[SOURCES_MAX];
    for (unsigned s = 0; s < x->source_count; s++)
        sources[s] = room_source[s] + GUARD + x->offsets[s];
    if (x->in_place < x->source_count) {
        memcpy(destination, sources[x->in_place], bytes);
        sources[x->in_place] = destination;
    }
    const struct kernel_call call = {.destination = destination,
                                     .also = x->also ? also : NULL,
                                     .sources = sources,
                                     .source_count = x->source_count,
                                     .divisor = x->divisor,
                                     .count = x->count};
    const struct kernel_set set = kernel_get(level, x->dtype, x->op);
    (x->stream ? set.reduce_stream : set.reduce)(&call);
    bytes_check(x, level, "wrong bits", destination, expected, bytes);
    guards_check(x, level, room_destination, destination, bytes);
    if (x->also) bytes_check(x, level, "wrong bits in also", also, expected, bytes);
    guards_check(x, level, room_also, also, x->also ? bytes : 0);
}

/* The scalar twin's answer, from a plain call, into `expected`. */
static void experiment_expect(const struct experiment *x)
{
    const void *sources[SOURCES_MAX];
    for (unsigned s = 0; s < x->source_count; s++)
        sources[s] = room_source[s] + GUARD + x->offsets[s];
    kernel_get(KERNEL_SCALAR, x->dtype, x->op)
        .reduce(&(struct kernel_call){.destination = expected,
                                      .sources = sources,
                                      .source_count = x->source_count,
                                      .divisor = x->divisor,
                                      .count = x->count});
}

static void experiment_reference_check(const struct experiment *x)
{
    const size_t size = element_bytes[x->dtype];
    for (size_t i = 0; i < x->count; i++) {
        const unsigned char *elements[SOURCES_MAX];
        for (unsigned s = 0; s < x->source_count; s++)
            elements[s] = room_source[s] + GUARD + x->offsets[s] + i * size;
        unsigned char want[8];
        const unsigned char *const got = expected + i * size;
        if (reference_element(x->dtype, x->op, elements, x->source_count, x->divisor, want)) {
            /* Arithmetic and rounding make a NaN quiet, choosing one of two float32 need not. */
            const bool quiet = x->dtype == TUTTI_BFLOAT16 || x->divisor != 0 ||
                               (x->source_count > 1 && x->op != OP_MIN && x->op != OP_MAX);
            if (!is_nan(x->dtype, got, quiet)) experiment_fail(x, KERNEL_SCALAR, "lost NaN", i);
        } else if (memcmp(got, want, size) != 0) {
            experiment_fail(x, KERNEL_SCALAR, "not the reference", i);
        }
    }
}

static unsigned random_offset(size_t element)
{
    switch (random_below(4)) {
    case 0: return 0;
    case 1: return random_below(64); /* not even whole elements */
    default: return (unsigned)(random_below((unsigned)(64 / element)) * element);
    }
}

static struct experiment experiment_random(enum tutti_dtype dtype, enum op op, unsigned n,
                                           size_t count)
{
    struct experiment x = {.dtype = dtype, .op = op, .source_count = n, .count = count};
    x.stream = random_below(2);
    x.also = random_below(2);
    x.in_place = random_below(2) ? n : random_below(n);
    x.divisor = op == OP_AVG           ? n
                : random_below(8) != 0 ? 0
                : random_below(2)      ? n
                                       : 1 + random_below(70000);
    for (int i = 0; i < SOURCES_MAX + 2; i++) x.offsets[i] = random_offset(element_bytes[dtype]);
    return x;
}

static void sources_fill(enum tutti_dtype dtype)
{
    /* From the guard on, so that the same bytes serve any offset of whole elements. */
    const size_t size = element_bytes[dtype];
    for (int s = 0; s < SOURCES_MAX; s++)
        for (size_t at = 0; at + size <= ROOM; at += size)
            random_element(dtype, room_source[s] + at);
}

/* A few new elements per case, so that no two see the same, without filling all the memory again. */
static void sources_sprinkle(const struct experiment *x)
{
    const size_t size = element_bytes[x->dtype];
    for (unsigned s = 0; s < x->source_count; s++)
        for (int i = 0; i < 4 && x->count != 0; i++)
            random_element(x->dtype, room_source[s] + GUARD + x->offsets[s] +
                                         random_next() % x->count * size);
}

static void experiments(enum tutti_dtype dtype, size_t count_max, const size_t *large,
                        size_t large_count)
{
    sources_fill(dtype);
    for (unsigned op = 0; op < OP_COUNT; op++)
        for (unsigned n = 1; n <= SOURCES_MAX; n++)
            for (size_t i = 0; i <= count_max + large_count; i++) {
                const size_t count = i <= count_max ? i : large[i - count_max - 1];
                struct experiment x = experiment_random(dtype, (enum op)op, n, count);
                sources_sprinkle(&x);
                experiment_expect(&x);
                if (i % 3 == n % 3) experiment_reference_check(&x);
                for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++) {
                    if (!kernel_level_available((enum kernel_level)level)) continue;
                    experiment_run(&x, (enum kernel_level)level);
                    x.stream = !x.stream;
                    x.also = random_below(2);
                    x.offsets[SOURCES_MAX] = random_offset(element_bytes[dtype]);
                    experiment_run(&x, (enum kernel_level)level);
                }
            }
}

static void every_level_gives_the_reference_bits(void **state)
{
    (void)state;
    static const size_t large[] = {255, 256, 257, 511, 777, 1023, 1025, 2047, 4999};
    for (unsigned round = 0; round < 2; round++)
        for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++)
            experiments((enum tutti_dtype)dtype, 131, large, sizeof(large) / sizeof(large[0]));
}

/* All 65536 values, and the rounding of what two of them sum to. */
static void bfloat16_is_exhaustively_right(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned first = 0; first < 0x10000; first += 16384) {
            for (unsigned i = 0; i < 16384; i++) {
                const uint16_t left = (uint16_t)(first + i);
                /* the same, its half, far below, anything */
                const uint16_t right = round == 0   ? left
                                       : round == 1 ? (uint16_t)(left - 0x80)
                                       : round == 2 ? (uint16_t)(left - 0x400 + random_below(3))
                                                    : (uint16_t)random_next();
                memcpy(room_source[0] + GUARD + 2 * i, &left, 2);
                memcpy(room_source[1] + GUARD + 2 * i, &right, 2);
            }
            struct experiment x = {.dtype = TUTTI_BFLOAT16, .count = 16384, .in_place = 2};
            for (x.source_count = 1; x.source_count <= 2; x.source_count++) {
                x.in_place = x.source_count;
                experiment_expect(&x);
                experiment_reference_check(&x);
                for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++)
                    if (kernel_level_available((enum kernel_level)level))
                        experiment_run(&x, (enum kernel_level)level);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------- known answers */

static void reduce_pair(enum kernel_level level, enum tutti_dtype dtype, enum op op,
                        const void *left, const void *right, size_t count, unsigned divisor,
                        void *result)
{
    const void *const sources[] = {left, right};
    kernel_get(level, dtype, op)
        .reduce(&(struct kernel_call){.destination = result,
                                      .sources = sources,
                                      .source_count = 2,
                                      .divisor = divisor,
                                      .count = count});
}

static void min_and_max_follow_the_comparison(void **state)
{
    (void)state;
    /* 33: vectors and a tail at every level. min gives the right operand unless left < right is true. */
    float left[33], right[33], low[33], high[33];
    const float pairs[][2] = {{0.0f, -0.0f}, {-0.0f, 0.0f}, {NAN, 1.0f}, {1.0f, NAN}, {1.0f, 2.0f}};
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++) {
        if (!kernel_level_available((enum kernel_level)level)) continue;
        for (unsigned pair = 0; pair < 5; pair++) {
            for (int i = 0; i < 33; i++) left[i] = pairs[pair][0], right[i] = pairs[pair][1];
            reduce_pair((enum kernel_level)level, TUTTI_FLOAT32, OP_MIN, left, right, 33, 0, low);
            reduce_pair((enum kernel_level)level, TUTTI_FLOAT32, OP_MAX, left, right, 33, 0, high);
            for (int i = 0; i < 33; i++) {
                assert_memory_equal(&low[i], pair == 4 ? &left[i] : &right[i], 4);
                assert_memory_equal(&high[i], &right[i], 4);
            }
        }
    }
}

static void integers_wrap_and_averages_truncate(void **state)
{
    (void)state;
    enum { COUNT = 37 };
    int32_t left[COUNT], right[COUNT], result[COUNT];
    int64_t left_wide[COUNT], right_wide[COUNT], result_wide[COUNT];
    for (unsigned i = 0; i < KERNEL_LEVEL_COUNT; i++) {
        const enum kernel_level level = (enum kernel_level)i;
        if (!kernel_level_available(level)) continue;
        for (int k = 0; k < COUNT; k++) {
            left[k] = INT32_MAX, right[k] = 2;
            left_wide[k] = INT64_MAX, right_wide[k] = 2;
        }
        reduce_pair(level, TUTTI_INT32, OP_SUM, left, right, COUNT, 0, result);
        reduce_pair(level, TUTTI_INT64, OP_SUM, left_wide, right_wide, COUNT, 0, result_wide);
        for (int k = 0; k < COUNT; k++) {
            assert_int_equal(result[k], INT32_MIN + 1);
            assert_true(result_wide[k] == INT64_MIN + 1);
        }
        reduce_pair(level, TUTTI_INT32, OP_PROD, left, right, COUNT, 0, result);
        reduce_pair(level, TUTTI_INT64, OP_PROD, left_wide, right_wide, COUNT, 0, result_wide);
        for (int k = 0; k < COUNT; k++) {
            assert_int_equal(result[k], -2);
            assert_true(result_wide[k] == -2);
        }
        for (int k = 0; k < COUNT; k++) {
            left[k] = -9, right[k] = 2;
            left_wide[k] = -9, right_wide[k] = 2;
        }
        reduce_pair(level, TUTTI_INT32, OP_AVG, left, right, COUNT, 2, result);
        reduce_pair(level, TUTTI_INT64, OP_AVG, left_wide, right_wide, COUNT, 2, result_wide);
        for (int k = 0; k < COUNT; k++) {
            assert_int_equal(result[k], -3);
            assert_true(result_wide[k] == -3);
        }
    }
}

static void bfloat16_rounds_once(void **state)
{
    (void)state;
    /* 1 + 2^-8 + 2^-8 is 1 + 2^-7 exactly; rounding after each addition would give 1. */
    uint16_t one[35], small[35], result[35];
    for (int i = 0; i < 35; i++) one[i] = 0x3f80, small[i] = 0x3b80;
    const void *const sources[] = {one, small, small};
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++) {
        if (!kernel_level_available((enum kernel_level)level)) continue;
        kernel_get((enum kernel_level)level, TUTTI_BFLOAT16, OP_SUM)
            .reduce(&(struct kernel_call){
                .destination = result, .sources = sources, .source_count = 3, .count = 35});
        for (int i = 0; i < 35; i++) assert_int_equal(result[i], 0x3f81);
    }
}

static void no_elements_touch_nothing(void **state)
{
    (void)state;
    const void *const sources[5] = {NULL};
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++) {
        if (!kernel_level_available((enum kernel_level)level)) continue;
        for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++)
            for (unsigned n = 1; n <= 5; n++) {
                const struct kernel_set set =
                    kernel_get((enum kernel_level)level, (enum tutti_dtype)dtype, OP_SUM);
                const struct kernel_call call = {.sources = sources, .source_count = n};
                set.reduce(&call);
                set.reduce_stream(&call);
            }
    }
    kernel_copy(NULL, NULL, 0);
    kernel_copy_stream(NULL, NULL, 0);
}

/* -------------------------------------------------------------------------------------------- copies */

static void copy_check(void (*copy)(void *, const void *, size_t), size_t bytes, unsigned to,
                       unsigned from)
{
    unsigned char *const destination = room_destination + GUARD + to;
    const unsigned char *const source = room_source[0] + GUARD + from;
    memset(destination - GUARD, GUARD_BYTE, bytes + 2 * GUARD);
    copy(destination, source, bytes);
    assert_memory_equal(destination, source, bytes);
    for (int i = 1; i <= GUARD; i++) {
        assert_int_equal(*(destination - i), GUARD_BYTE);
        assert_int_equal(destination[bytes + (size_t)i - 1], GUARD_BYTE);
    }
}

static void copies_copy_at_this_level(void)
{
    sources_fill(TUTTI_INT64);
    static const size_t sizes[] = {511,  512,  513,  575,  576,  577,
                                   1023, 1024, 1087, 1151, 4096, 33333};
    for (size_t bytes = 0; bytes < 300; bytes += 1 + bytes / 40)
        for (unsigned i = 0; i < 8; i++) {
            copy_check(kernel_copy, bytes, random_below(64), random_below(64));
            copy_check(kernel_copy_stream, bytes, random_below(64), random_below(64));
        }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (unsigned to = 0; to < 64; to += 3) {
            copy_check(kernel_copy, sizes[i], to, random_below(64));
            copy_check(kernel_copy_stream, sizes[i], to, random_below(64));
        }
}

/* ------------------------------------------------------------------------------------- the one choice */

static enum kernel_level level_best(void)
{
    enum kernel_level best = KERNEL_SCALAR;
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++)
        if (kernel_level_available((enum kernel_level)level)) best = (enum kernel_level)level;
    return best;
}

static void *chosen_in_thread(void *result)
{
    *(enum kernel_level *)result = kernel_level_chosen();
    return NULL;
}

/* What a fresh process chooses; it also copies, because the level of a copy is the one chosen. The parent must
 * not have chosen yet. */
static int level_chosen_with(const char *wish)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        if (wish != NULL)
            setenv("TUTTI_KERNEL", wish, 1);
        else
            unsetenv("TUTTI_KERNEL");
        enum { THREADS = 4 };
        pthread_t threads[THREADS];
        enum kernel_level seen[THREADS];
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, chosen_in_thread, &seen[i]) != 0) _exit(100);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        const enum kernel_level level = kernel_level_chosen();
        for (int i = 0; i < THREADS; i++)
            if (seen[i] != level) _exit(101);
        setenv("TUTTI_KERNEL", "scalar", 1);
        if (kernel_level_chosen() != level) _exit(102); /* decided is decided */
        static unsigned char from[2000], to[2000];
        for (int i = 0; i < 2000; i++) from[i] = (unsigned char)(i * 7);
        kernel_copy_stream(to + 3, from + 1, 1990);
        if (memcmp(to + 3, from + 1, 1990) != 0 || to[2] != 0 || to[1993] != 0) _exit(103);
        _exit((int)level);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_environment_chooses_what_is_available(void **state)
{
    (void)state;
    const enum kernel_level best = level_best();
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++) {
        const bool available = kernel_level_available((enum kernel_level)level);
        assert_int_equal(level_chosen_with(kernel_level_name((enum kernel_level)level)),
                         available ? (int)level : (int)best);
    }
    assert_int_equal(level_chosen_with(NULL), best);
    assert_int_equal(level_chosen_with(""), best);
    assert_int_equal(level_chosen_with("AVX2"), best);
    assert_int_equal(level_chosen_with("avx2 "), best);
}

static void levels_have_names(void **state)
{
    (void)state;
    assert_string_equal(kernel_level_name(KERNEL_SCALAR), "scalar");
    assert_string_equal(kernel_level_name(KERNEL_AVX2), "avx2");
    assert_string_equal(kernel_level_name(KERNEL_AVX512), "avx512");
    assert_string_equal(kernel_level_name(KERNEL_LEVEL_COUNT), "unknown");
    assert_true(kernel_level_available(KERNEL_SCALAR));
    assert_false(kernel_level_available(KERNEL_LEVEL_COUNT));
}

/* In children, because a process has one level; this one chooses in its own. */
static void copies_copy_at_every_level(void **state)
{
    (void)state;
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++) {
        if (!kernel_level_available((enum kernel_level)level)) continue;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(60);
            setenv("TUTTI_KERNEL", kernel_level_name((enum kernel_level)level), 1);
            copies_copy_at_this_level(); /* a failed assertion ends the child with another status */
            _exit(kernel_level_chosen() == (enum kernel_level)level ? 42 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 42);
    }
}

int main(void)
{
    print_message("seed %#llx\n", (unsigned long long)random_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_have_names),
        cmocka_unit_test(the_environment_chooses_what_is_available),
        cmocka_unit_test(copies_copy_at_every_level),
        cmocka_unit_test(min_and_max_follow_the_comparison),
        cmocka_unit_test(integers_wrap_and_averages_truncate),
        cmocka_unit_test(bfloat16_rounds_once),
        cmocka_unit_test(no_elements_touch_nothing),
        cmocka_unit_test(bfloat16_is_exhaustively_right),
        cmocka_unit_test(every_level_gives_the_reference_bits),
    };
    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
