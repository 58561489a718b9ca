/* kernel_test.c - every level gives the scalar twin's bits, and the scalar twin does what kernel.h
 * says. No threads: see kernel_level_test.c.
 *
 * ctest: label=notsan */
#include "kernel/kernel.h"
#include "kernel/kernel_pages.h"
#include "kernel/trial.h"

#include <math.h>
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
    OTHERS_MAX = 3,
    PLACES = SOURCES_MAX + 2 + OTHERS_MAX, /* the sources, destination, also and others */
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
/* Integers only; floats have 0. */
static const bool is_unsigned[DTYPE_COUNT] = {
#define X(enumerator, name, bytes, kind) [enumerator] = (kind) == DTYPE_UNSIGNED,
    DTYPE_LIST(X)
#undef X
};
static const bool is_float[DTYPE_COUNT] = {
#define X(enumerator, name, bytes, kind) [enumerator] = (kind) == DTYPE_FLOAT,
    DTYPE_LIST(X)
#undef X
};

/* Floats, and how they are made. The values of floats of up to 16 bits are listed without sign, up
 * to and with the first code that is no number, as if that code were a number, too. */
struct format {
    unsigned exponent_bits, mantissa_bits;
    uint64_t first_special; /* code of infinity, or of NaN where there is none */
    bool has_infinity;
};
static const struct format formats[DTYPE_COUNT] = {
    [TUTTI_FLOAT32] = {8, 23, 0x7f800000, true},
    [TUTTI_FLOAT64] = {11, 52, 0x7ff0000000000000, true},
    [TUTTI_BFLOAT16] = {8, 7, 0x7f80, true},
    [TUTTI_FLOAT16] = {5, 10, 0x7c00, true},
    [TUTTI_FLOAT8_E4M3] = {4, 3, 0x7f, false},
    [TUTTI_FLOAT8_E5M2] = {5, 2, 0x7c, true},
};
static double values[DTYPE_COUNT][0x8000];

static bool is_small_float(enum tutti_dtype dtype)
{
    return is_float[dtype] && element_bytes[dtype] <= 2;
}

static void values_fill(void)
{
    for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        const struct format *const format = &formats[dtype];
        if (!is_small_float((enum tutti_dtype)dtype)) continue;
        const int bias = (1 << (format->exponent_bits - 1)) - 1;
        const int mantissa_bits = (int)format->mantissa_bits;
        for (unsigned code = 0; code <= format->first_special; code++) {
            const int exponent = (int)(code >> mantissa_bits);
            const unsigned mantissa = code & ((1u << mantissa_bits) - 1);
            values[dtype][code] = exponent == 0 ? ldexp(mantissa, 1 - bias - mantissa_bits)
                                                : ldexp(mantissa + (1u << mantissa_bits),
                                                        exponent - bias - mantissa_bits);
        }
    }
}

/* --------------------------------------------------------------------------------------- chance */

static uint64_t random_float_bits(const struct format *format)
{
    const unsigned mantissa_bits = format->mantissa_bits;
    const unsigned bits = 1 + format->exponent_bits + mantissa_bits;
    const uint64_t sign = (random_next() & 1) << (bits - 1);
    const uint64_t mantissa = random_next() & ((1ull << mantissa_bits) - 1);
    const uint64_t one = ((1ull << (format->exponent_bits - 1)) - 1) << mantissa_bits;
    switch (random_below(12)) {
    case 0: return sign;                                        /* zeros */
    case 1: return sign | format->first_special;                /* infinities */
    case 2: return sign | mantissa;                             /* denormals */
    case 3: return sign | format->first_special | mantissa | 1; /* NaNs, signalling and quiet */
    case 4: return sign | (format->first_special - 1 - mantissa / 2); /* huge */
    case 5: return random_next() >> (64 - bits);                      /* anything */
    default: { /* around one, where sums round and cancel */
        const uint64_t spread = format->exponent_bits < 5 ? 5 : 9;
        return sign |
               (one + ((random_below((unsigned)spread) - spread / 2) << mantissa_bits) + mantissa);
    }
    }
}

static void random_element(enum tutti_dtype dtype, unsigned char *to)
{
    uint64_t bits;
    if (is_float[dtype]) {
        bits = random_float_bits(&formats[dtype]);
    } else {
        bits = random_next();
        if (random_below(8) == 0) bits = 1ull << (8 * element_bytes[dtype] - 1); /* the smallest */
        if (random_below(4) == 0) bits = (uint64_t)((int64_t)random_below(9) - 4);
        if (random_below(4) == 0) bits = 0;
    }
    memcpy(to, &bits,
           element_bytes[dtype]); /* little endian, as is all that has more than one level */
}

/* ---------------------------------------------------------------- a slow, independent reference */

static double small_float_value(enum tutti_dtype dtype, unsigned bits)
{
    const struct format *const format = &formats[dtype];
    const unsigned width = 8 * (unsigned)element_bytes[dtype];
    const unsigned code = bits & ((1u << (width - 1)) - 1);
    const double sign = bits >> (width - 1) ? -1.0 : 1.0;
    if (code < format->first_special) return sign * values[dtype][code];
    if (code == format->first_special && format->has_infinity) return sign * (double)INFINITY;
    return (double)NAN;
}

/* Compares with both neighbours; the code after the largest number counts as the number that it
 * would be. */
static unsigned small_float_nearest(enum tutti_dtype dtype, float value)
{
    const unsigned sign = signbit(value) ? 1u << (8 * element_bytes[dtype] - 1) : 0;
    const double *const list = values[dtype], magnitude = fabs((double)value);
    unsigned low = 0, high = (unsigned)formats[dtype].first_special;
    if (magnitude >= list[high]) return sign | high;
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if (list[middle] <= magnitude)
            low = middle;
        else
            high = middle;
    }
    const double down = magnitude - list[low], up = list[high] - magnitude;
    if (down != up) return sign | (down < up ? low : high);
    return sign | (low % 2 == 0 ? low : high);
}

#define REFERENCE_FLOAT(type)                                                                    \
    static type reference_##type(enum op op, const type *operands, unsigned n, unsigned divisor, \
                                 double factor)                                                  \
    {                                                                                            \
        volatile type a = operands[0];                                                           \
        for (unsigned s = 1; s < n; s++) {                                                       \
            const type left = a, right = operands[s];                                            \
            if (op == OP_MIN)                                                                    \
                a = left < right ? left : right;                                                 \
            else if (op == OP_MAX)                                                               \
                a = left > right ? left : right;                                                 \
            else if (op == OP_PROD)                                                              \
                a = left * right;                                                                \
            else                                                                                 \
                a = left + right;                                                                \
        }                                                                                        \
        if (divisor != 0) a = a / (type)divisor;                                                 \
        if (factor != 0) a = a * (type)factor;                                                   \
        return a;                                                                                \
    }
REFERENCE_FLOAT(float)
REFERENCE_FLOAT(double)

/* 128 bits hold every intermediate result, as the number it is. */
static __int128 reference_integer(enum op op, const __int128 *operands, unsigned n,
                                  unsigned divisor, unsigned bits, bool no_sign)
{
    __int128 a = operands[0];
    for (unsigned s = 1; s < n; s++) {
        const __int128 b = operands[s];
        switch (op) {
        case OP_PROD: a = (__int128)((unsigned __int128)a * (unsigned __int128)b); break;
        case OP_MIN: a = a <= b ? a : b; break;
        case OP_MAX: a = a >= b ? a : b; break;
        case OP_LAND: a = a && b; break;
        case OP_LOR: a = a || b; break;
        case OP_LXOR: a = !a != !b; break;
        case OP_BAND: a = a & b; break;
        case OP_BOR: a = a | b; break;
        case OP_BXOR: a = a ^ b; break;
        default: a = a + b;
        }
        /* wraps */
        a = (__int128)((unsigned __int128)a << (128 - bits));
        a = no_sign ? (__int128)((unsigned __int128)a >> (128 - bits)) : a >> (128 - bits);
    }
    return divisor != 0 ? a / (__int128)divisor : a;
}

static bool is_nan(enum tutti_dtype dtype, const unsigned char *at, bool quiet)
{
    const struct format *const format = &formats[dtype];
    const unsigned bits = 8 * (unsigned)element_bytes[dtype];
    uint64_t value = 0;
    memcpy(&value, at, element_bytes[dtype]);
    value &= (1ull << (bits - 1)) - 1;
    if (!format->has_infinity) return value == format->first_special;
    if (quiet && (value & (1ull << (format->mantissa_bits - 1))) == 0) return false;
    return value > format->first_special;
}

/* Writes what element must become; returns whether that is a NaN whose payload nobody promises. */
static bool reference_element(const struct kernel_call *call, enum tutti_dtype dtype, enum op op,
                              const unsigned char *const *elements, unsigned char *to)
{
    const unsigned n = call->source_count;
    assert_in_range(n, 1, SOURCES_MAX);
    if (dtype == TUTTI_FLOAT64) {
        double operands[SOURCES_MAX] = {0};
        for (unsigned s = 0; s < n; s++) memcpy(&operands[s], elements[s], 8);
        const double result = reference_double(op, operands, n, call->divisor, call->factor);
        memcpy(to, &result, 8);
        return isnan(result);
    }
    if (!is_float[dtype]) {
        const unsigned bits = 8 * (unsigned)element_bytes[dtype];
        __int128 operands[SOURCES_MAX] = {0};
        for (unsigned s = 0; s < n; s++) {
            uint64_t operand = 0;
            memcpy(&operand, elements[s], element_bytes[dtype]);
            operands[s] = is_unsigned[dtype] ? (__int128)operand
                                             : (int64_t)(operand << (64 - bits)) >> (64 - bits);
        }
        const __int128 result =
            reference_integer(op, operands, n, call->divisor, bits, is_unsigned[dtype]);
        memcpy(to, &result, element_bytes[dtype]);
        return false;
    }
    float operands[SOURCES_MAX] = {0};
    for (unsigned s = 0; s < n; s++) {
        uint32_t bits = 0;
        memcpy(&bits, elements[s], element_bytes[dtype]);
        if (dtype == TUTTI_FLOAT32)
            memcpy(&operands[s], &bits, 4);
        else
            operands[s] = (float)small_float_value(dtype, bits);
    }
    const float result = reference_float(op, operands, n, call->divisor, call->factor);
    if (dtype == TUTTI_FLOAT32) {
        memcpy(to, &result, 4);
    } else if (!isnan(result)) {
        const unsigned bits = small_float_nearest(dtype, result);
        memcpy(to, &bits, element_bytes[dtype]);
        return !formats[dtype].has_infinity &&
               (bits & 0x7f) == formats[dtype].first_special; /* too large */
    }
    return isnan(result);
}

/* --------------------------------------------------------------------------------------- a case */

struct experiment {
    enum tutti_dtype dtype;
    enum op op;
    unsigned source_count, divisor;
    double factor;
    size_t count;
    bool stream;
    unsigned in_place; /* this source is the destination; source_count: none */
    bool also;
    unsigned also_in_place; /* the same for it */
    unsigned other_count;
    unsigned others_in_place[OTHERS_MAX]; /* and for each of them; no two are one source */
    unsigned offsets[PLACES];             /* of all places from a 64-byte boundary */
};

static _Alignas(64) unsigned char room_source[SOURCES_MAX][ROOM];
static _Alignas(64) unsigned char room_destination[ROOM], room_also[ROOM], expected[BYTES_MAX];
static _Alignas(64) unsigned char room_other[OTHERS_MAX][ROOM];

static void experiment_fail(const struct experiment *x, enum kernel_level level, const char *what,
                            size_t at)
{
    char offsets[8 * PLACES] = "";
    for (int i = 0; i < PLACES; i++)
        snprintf(offsets + strlen(offsets), sizeof(offsets) - strlen(offsets), " %u", x->offsets[i]);
    fail_msg("%s %s %s of %u, divisor %u, factor %a, count %zu, stream %d, also %d in place %u, in "
             "place %u, "
             "%u others in place %u %u %u, offsets%s: "
             "%s at %zu",
             kernel_level_name(level), dtype_names[x->dtype], op_kind_name(x->op), x->source_count,
             x->divisor, x->factor, x->count, x->stream, x->also, x->also_in_place, x->in_place,
             x->other_count, x->others_in_place[0], x->others_in_place[1], x->others_in_place[2],
             offsets, what, at);
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

/* Prepares the place of a result: guarded, and if the result is in place of a source, filled with
 * that source. */
static void *place_ready(const struct experiment *x, unsigned char *room, unsigned offset,
                         const void **sources, unsigned in_place)
{
    const size_t bytes = x->count * element_bytes[x->dtype];
    unsigned char *const place = room + GUARD + offset;
    memset(place - GUARD, GUARD_BYTE, bytes + 2 * GUARD);
    if (in_place < x->source_count) {
        memcpy(place, sources[in_place], bytes);
        sources[in_place] = place;
    }
    return place;
}

/* The sources must lie in room_source; the result is compared with `expected`. */
static void experiment_run_with(const struct experiment *x, enum kernel_level level,
                                const struct tutti_operation *operation)
{
    const size_t bytes = x->count * element_bytes[x->dtype];
    const void *sources[SOURCES_MAX];
    for (unsigned s = 0; s < x->source_count; s++)
        sources[s] = room_source[s] + GUARD + x->offsets[s];
    const unsigned *const offsets = x->offsets + SOURCES_MAX, none = x->source_count;
    void *const destination = place_ready(x, room_destination, offsets[0], sources, x->in_place);
    void *const also =
        place_ready(x, room_also, offsets[1], sources, x->also ? x->also_in_place : none);
    void *others[OTHERS_MAX];
    for (unsigned i = 0; i < OTHERS_MAX; i++)
        others[i] = place_ready(x, room_other[i], offsets[2 + i], sources,
                                i < x->other_count ? x->others_in_place[i] : none);
    const struct kernel_call call = {.destination = destination,
                                     .also = x->also ? also : NULL,
                                     .others = x->other_count != 0 ? others : NULL,
                                     .other_count = x->other_count,
                                     .sources = sources,
                                     .source_count = x->source_count,
                                     .divisor = x->divisor,
                                     .factor = x->factor,
                                     .count = x->count,
                                     .operation = operation,
                                     .dtype = x->dtype};
    const struct kernel_set set = kernel_get(level, x->dtype, x->op);
    kernel_set_paging(random_below(2) ? PAGING_ALWAYS : PAGING_NEVER);
    (x->stream ? set.reduce_stream : set.reduce)(&call);
    bytes_check(x, level, "wrong bits", destination, expected, bytes);
    guards_check(x, level, room_destination, destination, bytes);
    if (x->also) bytes_check(x, level, "wrong bits in also", also, expected, bytes);
    guards_check(x, level, room_also, also, x->also ? bytes : 0);
    for (unsigned i = 0; i < OTHERS_MAX; i++) {
        const bool stored = i < x->other_count;
        if (stored) bytes_check(x, level, "wrong bits in another", others[i], expected, bytes);
        guards_check(x, level, room_other[i], others[i], stored ? bytes : 0);
    }
}

static void experiment_run(const struct experiment *x, enum kernel_level level)
{
    experiment_run_with(x, level, NULL);
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
                                      .factor = x->factor,
                                      .count = x->count});
}

static void experiment_reference_check(const struct experiment *x)
{
    const size_t size = element_bytes[x->dtype];
    const struct kernel_call call = {
        .source_count = x->source_count, .divisor = x->divisor, .factor = x->factor};
    for (size_t i = 0; i < x->count; i++) {
        const unsigned char *elements[SOURCES_MAX];
        for (unsigned s = 0; s < x->source_count; s++)
            elements[s] = room_source[s] + GUARD + x->offsets[s] + i * size;
        unsigned char want[16];
        const unsigned char *const got = expected + i * size;
        if (reference_element(&call, x->dtype, x->op, elements, want)) {
            /* Arithmetic and rounding make a NaN quiet, choosing one of two float32 need not. */
            const bool quiet = is_small_float(x->dtype) || x->divisor != 0 || x->factor != 0 ||
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

/* Also such as float32 cannot hold, or takes for 0. */
static double factor_random(void)
{
    static const double special[] = {1.0, -1.0, 0.5, 1.0 / 3, 1e-300, -1e30, 1e300, 0x1p-149};
    if (random_below(2)) return special[random_below(sizeof(special) / sizeof(special[0]))];
    return ldexp((double)(random_next() >> 11), -53 - (int)random_below(12)) + 1e-9;
}

/* Chooses the further places of the result. Half of the time there are none, as in the usual
 * call. */
static void copies_random(struct experiment *x)
{
    const unsigned none = x->source_count;
    x->also = random_below(2);
    x->also_in_place = x->also && random_below(2) ? random_below(none) : none;
    if (x->also_in_place == x->in_place) x->also_in_place = none;
    x->other_count = random_below(2) ? 0 : 1 + random_below(OTHERS_MAX);
    for (unsigned i = 0; i < OTHERS_MAX; i++) {
        unsigned source = random_below(2) ? none : random_below(none);
        if (source == x->in_place || source == x->also_in_place) source = none;
        for (unsigned k = 0; k < i; k++)
            if (source == x->others_in_place[k]) source = none;
        x->others_in_place[i] = source;
    }
}

static struct experiment experiment_random(enum tutti_dtype dtype, enum op op, unsigned n,
                                           size_t count)
{
    struct experiment x = {.dtype = dtype, .op = op, .source_count = n, .count = count};
    x.stream = random_below(2);
    x.in_place = random_below(2) ? n : random_below(n);
    copies_random(&x);
    if (op == OP_AVG || (op == OP_SUM && random_below(4) == 0))
        x.divisor = random_below(2) ? n : 1 + (unsigned)(random_next() >> (32 + random_below(32)));
    if (op == OP_SCALED_SUM) x.factor = factor_random();
    for (int i = 0; i < PLACES; i++) x.offsets[i] = random_offset(element_bytes[dtype]);
    if (random_below(2)) /* as alike as the places of an allreduce usually are */
        for (int i = 0; i < OTHERS_MAX; i++) x.offsets[2 + i] = x.offsets[0];
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

/* A few new elements per case, so that no two see the same, without filling all the memory
 * again. */
static void sources_sprinkle(const struct experiment *x)
{
    const size_t size = element_bytes[x->dtype];
    for (unsigned s = 0; s < x->source_count; s++)
        for (int i = 0; i < 4 && x->count != 0; i++)
            random_element(x->dtype, room_source[s] + GUARD + x->offsets[s] +
                                         random_next() % x->count * size);
}

static void experiment_everywhere(struct experiment *x, bool with_reference)
{
    experiment_expect(x);
    if (with_reference) experiment_reference_check(x);
    for (unsigned i = 0; i < KERNEL_LEVEL_COUNT; i++) {
        const enum kernel_level level = (enum kernel_level)i;
        if (!kernel_level_available(level)) continue;
        experiment_run(x, level);
        x->stream = !x->stream;
        copies_random(x);
        for (int k = SOURCES_MAX; k < PLACES; k++)
            x->offsets[k] = random_offset(element_bytes[x->dtype]);
        experiment_run(x, level);
    }
}

/* An operation of that kind; OP_SCALED_SUM is none of the constants. */
static bool supports(enum op op, enum tutti_dtype dtype)
{
    const struct tutti_operation operation = {.kind = op};
    return op_supports(&operation, dtype);
}

/* Counts around which vectors, blocks and the search for alignment change their ways, and some
 * between. */
static void experiments(enum tutti_dtype dtype, enum op op)
{
    static const size_t special[] = {127, 128, 129, 255, 256, 257, 511, 1023, 1025, 2047, 4099};
    enum { SPECIAL = sizeof(special) / sizeof(special[0]), SMALL = 36, RANDOM = 12 };
    for (unsigned n = 1; n <= SOURCES_MAX; n++)
        for (unsigned i = 0; i < SMALL + RANDOM + SPECIAL; i++) {
            const size_t count = i < SMALL            ? i
                                 : i < SMALL + RANDOM ? SMALL + random_below(700)
                                                      : special[i - SMALL - RANDOM];
            struct experiment x = experiment_random(dtype, op, n, count);
            sources_sprinkle(&x);
            experiment_everywhere(&x, i % 3 == n % 3);
        }
}

static void every_level_gives_the_reference_bits(void **state)
{
    (void)state;
    for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        sources_fill((enum tutti_dtype)dtype);
        for (unsigned op = 0; op <= OP_SCALED_SUM; op++)
            if (supports((enum op)op, (enum tutti_dtype)dtype))
                experiments((enum tutti_dtype)dtype, (enum op)op);
    }
}

/* The experiments' sources, from the first element on. */
static void source_set(unsigned source, enum tutti_dtype dtype, size_t at, unsigned bits)
{
    const size_t size = element_bytes[dtype];
    memcpy(room_source[source] + GUARD + at * size, &bits, size);
}

/* All values of 16-bit floats, and the rounding of what two of them sum to. */
static void every_value_of_16_bit_floats_is_right(void **state)
{
    (void)state;
    const enum tutti_dtype dtypes[] = {TUTTI_BFLOAT16, TUTTI_FLOAT16};
    for (unsigned d = 0; d < 2; d++)
        for (unsigned round = 0; round < 4; round++)
            for (unsigned first = 0; first < 0x10000; first += 16384) {
                const unsigned exponent = 1u << formats[dtypes[d]].mantissa_bits;
                for (unsigned i = 0; i < 16384; i++) {
                    const unsigned left = first + i;
                    /* the same, its half, far below, anything */
                    const unsigned right = round == 0   ? left
                                           : round == 1 ? left - exponent
                                           : round == 2 ? left - 8 * exponent + random_below(3)
                                                        : (unsigned)random_next();
                    source_set(0, dtypes[d], i, left);
                    source_set(1, dtypes[d], i, right);
                }
                struct experiment x = {.dtype = dtypes[d], .count = 16384};
                for (x.source_count = 1; x.source_count <= 2; x.source_count++) {
                    x.in_place = x.source_count;
                    experiment_everywhere(&x, true);
                }
            }
}

/* All values, and all pairs of them. */
static void every_pair_of_8_bit_floats_is_right(void **state)
{
    (void)state;
    const enum tutti_dtype dtypes[] = {TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2};
    for (unsigned d = 0; d < 2; d++)
        for (unsigned first = 0; first < 0x10000; first += 16384) {
            for (unsigned i = 0; i < 16384; i++) {
                source_set(0, dtypes[d], i, (first + i) >> 8);
                source_set(1, dtypes[d], i, i & 0xff);
            }
            for (unsigned op = OP_SUM; op <= OP_MAX; op++) {
                struct experiment x = {
                    .dtype = dtypes[d], .op = (enum op)op, .count = 16384, .source_count = 2};
                x.in_place = 2;
                experiment_everywhere(&x, true);
            }
        }
    struct experiment x = {.count = 16384, .source_count = 1, .in_place = 1};
    for (unsigned d = 0; d < 2; d++) {
        x.dtype = dtypes[d];
        for (unsigned i = 0; i < 16384; i++) source_set(0, dtypes[d], i, i & 0xff);
        experiment_everywhere(&x, true);
        if (d == 0) assert_int_equal(expected[0x7e], 0x7e);
    }
}

/* A one and a minus one times a factor are that float32, whatever it is: so small floats are made
 * of the numbers between any two of them, and of their neighbours. */
static void every_tie_goes_to_the_even_neighbour(void **state)
{
    (void)state;
    enum {
        COUNT = 5
    }; /* at a time; what vectors of any length do with the same elements is known by now */
    const enum tutti_dtype dtypes[] = {TUTTI_BFLOAT16, TUTTI_FLOAT16, TUTTI_FLOAT8_E4M3,
                                       TUTTI_FLOAT8_E5M2};
    for (unsigned d = 0; d < 4; d++) {
        const enum tutti_dtype dtype = dtypes[d];
        const unsigned one = small_float_nearest(dtype, 1.0f),
                       minus = small_float_nearest(dtype, -1.0f);
        for (unsigned i = 0; i < COUNT; i++) source_set(0, dtype, i, i % 2 ? minus : one);
        for (unsigned code = 0; code < formats[dtype].first_special; code++) {
            const float tie = (float)((values[dtype][code] + values[dtype][code + 1]) / 2);
            const float factors[] = {tie, nextafterf(tie, 0.0f), nextafterf(tie, INFINITY),
                                     (float)values[dtype][code]};
            for (int k = 0; k < 4; k++) {
                struct experiment x = {.dtype = dtype,
                                       .op = OP_SCALED_SUM,
                                       .count = COUNT,
                                       .source_count = 1,
                                       .in_place = 1,
                                       .factor = (double)factors[k]};
                experiment_expect(&x);
                experiment_reference_check(&x);
                for (unsigned level = 1; level < KERNEL_LEVEL_COUNT; level++)
                    if (kernel_level_available((enum kernel_level)level))
                        experiment_run(&x, (enum kernel_level)level);
            }
        }
    }
}

/* -------------------------------------------------------------------------------- known answers */

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
    /* 33: vectors and a tail at every level. min gives the right operand unless left < right is
     * true. */
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

static void unsigned_integers_have_no_sign(void **state)
{
    (void)state;
    enum { COUNT = 71 };
    for (unsigned i = 0; i < KERNEL_LEVEL_COUNT; i++) {
        const enum kernel_level level = (enum kernel_level)i;
        if (!kernel_level_available(level)) continue;
        uint8_t left[COUNT], right[COUNT], result[COUNT];
        uint64_t left_wide[COUNT], right_wide[COUNT], result_wide[COUNT];
        for (int k = 0; k < COUNT; k++) {
            left[k] = 200, right[k] = 5;
            left_wide[k] = UINT64_MAX - 10, right_wide[k] = 5;
        }
        reduce_pair(level, TUTTI_UINT8, OP_MIN, left, right, COUNT, 0, result);
        reduce_pair(level, TUTTI_UINT64, OP_MIN, left_wide, right_wide, COUNT, 0, result_wide);
        for (int k = 0; k < COUNT; k++) assert_true(result[k] == 5 && result_wide[k] == 5);
        reduce_pair(level, TUTTI_UINT8, OP_AVG, left, right, COUNT, 2, result);
        reduce_pair(level, TUTTI_UINT64, OP_AVG, left_wide, right_wide, COUNT, 2, result_wide);
        for (int k = 0; k < COUNT; k++) {
            assert_int_equal(result[k], 102);
            assert_true(result_wide[k] == (UINT64_MAX - 5) / 2);
        }
    }
}

static void small_floats_round_once(void **state)
{
    (void)state;
    /* 1 and twice half a unit of its last place: exactly the next number; rounding after each
     * addition would give 1. The counts are such that vectors and what is left of them are used. */
    const struct {
        enum tutti_dtype dtype;
        unsigned one, half_unit, next;
    } cases[] = {{TUTTI_BFLOAT16, 0x3f80, 0x3b80, 0x3f81},
                 {TUTTI_FLOAT16, 0x3c00, 0x1000, 0x3c01},
                 {TUTTI_FLOAT8_E4M3, 0x38, 0x18, 0x39},
                 {TUTTI_FLOAT8_E5M2, 0x3c, 0x30, 0x3d}};
    enum { COUNT = 163 };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++) {
            if (!kernel_level_available((enum kernel_level)level)) continue;
            const size_t size = element_bytes[cases[i].dtype];
            unsigned char one[2 * COUNT], small[2 * COUNT], result[2 * COUNT];
            for (unsigned k = 0; k < COUNT; k++) {
                memcpy(one + k * size, &cases[i].one, size);
                memcpy(small + k * size, &cases[i].half_unit, size);
            }
            const void *const sources[] = {one, small, small};
            kernel_get((enum kernel_level)level, cases[i].dtype, OP_SUM)
                .reduce(&(struct kernel_call){
                    .destination = result, .sources = sources, .source_count = 3, .count = COUNT});
            for (unsigned k = 0; k < COUNT; k++)
                assert_memory_equal(result + k * size, &cases[i].next, size);
        }
}

static void too_large_is_infinity_or_nan(void **state)
{
    (void)state;
    const struct {
        enum tutti_dtype dtype;
        unsigned left, right, sum;
    } cases[] = {
        {TUTTI_FLOAT16, 0x7bff, 0x4b80, 0x7bff}, /* 65504 + 15 is still nearest to 65504 */
        {TUTTI_FLOAT16, 0x7bff, 0x4c00, 0x7c00}, /* + 16 is the tie */
        {TUTTI_FLOAT16, 0xfbff, 0xfbff, 0xfc00}, /* and minus infinity */
        {TUTTI_FLOAT8_E4M3, 0x7e, 0x58, 0x7e},   /* 448 + 16: a tie, and even */
        {TUTTI_FLOAT8_E4M3, 0x7e, 0x59, 0x7f},   /* + 18 */
        {TUTTI_FLOAT8_E4M3, 0xfe, 0xfe, 0xff},   /* NaN keeps the sign */
        {TUTTI_FLOAT8_E5M2, 0x7b, 0x6a, 0x7b},   /* 57344 + 3072 */
        {TUTTI_FLOAT8_E5M2, 0x7b, 0x6c, 0x7c},   /* + 4096: the tie */
        {TUTTI_FLOAT8_E5M2, 0xfb, 0xfb, 0xfc},   /* and minus infinity */
        {TUTTI_FLOAT8_E5M2, 0x7b, 0x7c, 0x7c},   /* infinity stays */
        {TUTTI_BFLOAT16, 0x7f7f, 0x7f7f, 0x7f80},
    };
    enum { COUNT = 99 };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++) {
            if (!kernel_level_available((enum kernel_level)level)) continue;
            const size_t size = element_bytes[cases[i].dtype];
            unsigned char left[2 * COUNT], right[2 * COUNT], result[2 * COUNT];
            for (unsigned k = 0; k < COUNT; k++) {
                memcpy(left + k * size, &cases[i].left, size);
                memcpy(right + k * size, &cases[i].right, size);
            }
            reduce_pair((enum kernel_level)level, cases[i].dtype, OP_SUM, left, right, COUNT, 0,
                        result);
            for (unsigned k = 0; k < COUNT; k++)
                assert_memory_equal(result + k * size, &cases[i].sum, size);
        }
}

static void logical_results_are_one_or_zero(void **state)
{
    (void)state;
    enum { COUNT = 301 };
    static const enum op ops[] = {OP_LAND, OP_LOR, OP_LXOR};
    static const unsigned char wanted[3][4] = {{0, 0, 0, 1}, {0, 1, 1, 1}, {0, 1, 1, 0}};
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++) {
        if (!kernel_level_available((enum kernel_level)level)) continue;
        uint8_t left[COUNT], right[COUNT], result[COUNT];
        for (unsigned k = 0; k < COUNT; k++) left[k] = k & 2 ? 0x80 : 0, right[k] = k & 1 ? 6 : 0;
        for (unsigned i = 0; i < 3; i++) {
            reduce_pair((enum kernel_level)level, TUTTI_UINT8, ops[i], left, right, COUNT, 0,
                        result);
            for (unsigned k = 0; k < COUNT; k++) assert_int_equal(result[k], wanted[i][k % 4]);
        }
        /* Nothing is made of one source alone. */
        const void *const sources[] = {left};
        kernel_get((enum kernel_level)level, TUTTI_UINT8, OP_LAND)
            .reduce(&(struct kernel_call){
                .destination = result, .sources = sources, .source_count = 1, .count = COUNT});
        assert_memory_equal(result, left, COUNT);
    }
}

/* ---------------------------------------------------------------------------- many destinations */

/* One rank's part of an allreduce in place: every input is an output. */
static void many_places_get_the_result_of_all(void **state)
{
    (void)state;
    enum { RANKS = 64, COUNT = 3001 };
    static const enum tutti_dtype dtypes[] = {TUTTI_FLOAT32, TUTTI_BFLOAT16, TUTTI_INT8};
    static _Alignas(64) unsigned char rooms[RANKS][4 * (COUNT + 1) + 64];
    unsigned char *const wanted = expected;
    for (unsigned i = 0; i < 3; i++)
        for (unsigned round = 0; round < 4 * KERNEL_LEVEL_COUNT; round++) {
            const enum kernel_level level = (enum kernel_level)(round / 4);
            if (!kernel_level_available(level)) continue;
            const size_t size = element_bytes[dtypes[i]];
            void *places[RANKS];
            for (unsigned rank = 0; rank < RANKS; rank++) {
                /* In half of the rounds a quarter of them is aligned otherwise, by one element. */
                unsigned char *const place =
                    rooms[rank] + ((round & 2) != 0 && rank % 4 == round % 3 ? size : 0);
                for (size_t k = 0; k < COUNT; k++) random_element(dtypes[i], place + k * size);
                places[rank] = place;
            }
            struct kernel_call call = {.destination = wanted,
                                       .sources = (const void *const *)places,
                                       .source_count = RANKS,
                                       .count = COUNT};
            kernel_get(KERNEL_SCALAR, dtypes[i], OP_SUM).reduce(&call);
            call.destination = places[0];
            call.others = places + 1;
            call.other_count = RANKS - 1;
            const struct kernel_set set = kernel_get(level, dtypes[i], OP_SUM);
            (round & 1 ? set.reduce : set.reduce_stream)(&call);
            for (unsigned rank = 0; rank < RANKS; rank++)
                assert_memory_equal(places[rank], wanted, COUNT * size);
        }
}

/* --------------------------------------------------------------------- operations of the user's */

struct user_calls {
    enum tutti_dtype dtype;
    size_t count_max;
    unsigned calls;
};

/* result = 3 left + right, in bytes of whatever elements: order and association make a
 * difference. */
static void combine_bytes(const void *left, const void *right, void *result, size_t count,
                          enum tutti_dtype dtype, void *context)
{
    struct user_calls *const calls = context;
    calls->calls++;
    calls->dtype = dtype;
    if (count > calls->count_max) calls->count_max = count;
    const unsigned char *const a = left, *const b = right;
    unsigned char *const to = result;
    for (size_t i = 0; i < count * element_bytes[dtype]; i++)
        to[i] = (unsigned char)(3 * a[i] + b[i]);
}

static void user_operations_go_from_left_to_right(void **state)
{
    (void)state;
    struct user_calls calls = {0};
    const struct tutti_operation operation = {
        .kind = OP_USER, .name = "bytes", .combine = combine_bytes, .context = &calls};
    sources_fill(TUTTI_INT64);
    for (unsigned round = 0; round < 1500; round++) {
        const enum tutti_dtype dtype = (enum tutti_dtype)random_below(DTYPE_COUNT);
        const size_t size = element_bytes[dtype];
        const unsigned n = 1 + random_below(SOURCES_MAX);
        const size_t count =
            round < 40 ? round : random_below(BYTES_MAX / (unsigned)size / (1 + round % 10));
        const struct experiment x = experiment_random(dtype, OP_USER, n, count);
        const size_t bytes = count * size;
        const unsigned char *sources[SOURCES_MAX];
        for (unsigned s = 0; s < n; s++) sources[s] = room_source[s] + GUARD + x.offsets[s];
        memcpy(expected, sources[0], bytes);
        for (unsigned s = 1; s < n; s++)
            for (size_t i = 0; i < bytes; i++)
                expected[i] = (unsigned char)(3 * expected[i] + sources[s][i]);
        calls = (struct user_calls){.dtype = dtype};
        experiment_run_with(&x, KERNEL_SCALAR, &operation);
        assert_int_equal(calls.dtype, dtype);
        assert_int_equal(calls.calls == 0, n == 1 || count == 0);
    }
}

/* So that partial results stay in the cache; and whole elements in every call. */
static void user_operations_are_called_in_blocks(void **state)
{
    (void)state;
    struct user_calls calls = {0};
    const struct tutti_operation operation = {
        .kind = OP_USER, .combine = combine_bytes, .context = &calls};
    const void *sources[3];
    for (unsigned s = 0; s < 3; s++) sources[s] = room_source[s];
    kernel_get(KERNEL_SCALAR, TUTTI_FLOAT64, OP_USER)
        .reduce(&(struct kernel_call){.destination = room_destination,
                                      .sources = sources,
                                      .source_count = 3,
                                      .count = 5000,
                                      .operation = &operation,
                                      .dtype = TUTTI_FLOAT64});
    assert_true(calls.count_max * 8 <= 16384);
    assert_int_equal(calls.calls, 2 * ((5000 + calls.count_max - 1) / calls.count_max));
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
                void *const others[5] = {NULL};
                for (unsigned other_count = 0; other_count <= n; other_count += n) {
                    const struct kernel_call call = {.others = others,
                                                     .other_count = other_count,
                                                     .sources = sources,
                                                     .source_count = n};
                    set.reduce(&call);
                    set.reduce_stream(&call);
                }
            }
    }
    kernel_copy(NULL, NULL, 0);
    kernel_copy_far(NULL, NULL, 0);
    kernel_copy_stream(NULL, NULL, 0);
}

/* --------------------------------------------------------------------------------------- copies */

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
            copy_check(kernel_copy_far, bytes, random_below(64), random_below(64));
            copy_check(kernel_copy_stream, bytes, random_below(64), random_below(64));
        }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (unsigned to = 0; to < 64; to += 3) {
            copy_check(kernel_copy, sizes[i], to, random_below(64));
            copy_check(kernel_copy_far, sizes[i], to, random_below(64));
            kernel_set_paging(to % 2 != 0 ? PAGING_ALWAYS : PAGING_NEVER);
            copy_check(kernel_copy_stream, sizes[i], to, random_below(64));
        }
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
    values_fill();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_copy_at_every_level),
        cmocka_unit_test(min_and_max_follow_the_comparison),
        cmocka_unit_test(integers_wrap_and_averages_truncate),
        cmocka_unit_test(unsigned_integers_have_no_sign),
        cmocka_unit_test(small_floats_round_once),
        cmocka_unit_test(too_large_is_infinity_or_nan),
        cmocka_unit_test(logical_results_are_one_or_zero),
        cmocka_unit_test(many_places_get_the_result_of_all),
        cmocka_unit_test(user_operations_go_from_left_to_right),
        cmocka_unit_test(user_operations_are_called_in_blocks),
        cmocka_unit_test(no_elements_touch_nothing),
        cmocka_unit_test(every_value_of_16_bit_floats_is_right),
        cmocka_unit_test(every_pair_of_8_bit_floats_is_right),
        cmocka_unit_test(every_tie_goes_to_the_even_neighbour),
        cmocka_unit_test(every_level_gives_the_reference_bits),
    };
    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
