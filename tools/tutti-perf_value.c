#include "tutti-perf_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- dtypes */

static bool is_integer(enum tutti_dtype dtype)
{
    return dtype == TUTTI_INT32 || dtype == TUTTI_INT64;
}

/* All integers up to it, with either sign, are exact. */
static uint64_t exact_max(enum tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_BFLOAT16: return UINT64_C(1) << 8;
    case TUTTI_FLOAT32: return UINT64_C(1) << 24;
    case TUTTI_FLOAT64: return UINT64_C(1) << 53;
    case TUTTI_INT32: return INT32_MAX;
    case TUTTI_INT64: return INT64_MAX >> 1;
    default: return 0;
    }
}

static uint16_t bfloat16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >>
                      16); /* to nearest, ties to even; never NaN here */
}

static float float_from_bfloat16(uint16_t value)
{
    const uint32_t bits = (uint32_t)value << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

static void store_integer(enum tutti_dtype dtype, uint64_t value, void *elements, size_t i)
{
    if (dtype == TUTTI_INT32)
        ((int32_t *)elements)[i] = (int32_t)(uint32_t)value;
    else
        ((int64_t *)elements)[i] = (int64_t)value;
}

/* A quotient that went through float64 and float32 rounds to the same bfloat16 as one that only went through
 * float32, and to the same float32 as one never widened: each format has more than twice the next one's bits. */
static void store_real(enum tutti_dtype dtype, double value, void *elements, size_t i)
{
    if (dtype == TUTTI_FLOAT64)
        ((double *)elements)[i] = value;
    else if (dtype == TUTTI_FLOAT32)
        ((float *)elements)[i] = (float)value;
    else
        ((uint16_t *)elements)[i] = bfloat16_from_float((float)value);
}

void value_text(enum tutti_dtype dtype, const void *element, char *text, size_t text_bytes)
{
    int64_t integer = 0;
    double real = 0;
    float single;
    uint16_t half;
    int32_t narrow;
    switch (dtype) {
    case TUTTI_INT32:
        memcpy(&narrow, element, sizeof narrow);
        integer = narrow;
        break;
    case TUTTI_INT64: memcpy(&integer, element, sizeof integer); break;
    case TUTTI_FLOAT64: memcpy(&real, element, sizeof real); break;
    case TUTTI_FLOAT32:
        memcpy(&single, element, sizeof single);
        real = single;
        break;
    case TUTTI_BFLOAT16:
        memcpy(&half, element, sizeof half);
        real = float_from_bfloat16(half);
        break;
    default: break;
    }
    if (is_integer(dtype))
        snprintf(text, text_bytes, "%" PRId64, integer);
    else
        snprintf(text, text_bytes, "%.17g", real);
}

/* ------------------------------------------------------------------------------------------------- inputs */

static uint64_t hash(uint64_t salt, int rank, size_t index)
{
    uint64_t h = ((uint64_t)index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= ((uint64_t)rank + 1) * UINT64_C(0xc2b2ae3d27d4eb4f) + salt * UINT64_C(0x165667b19e3779f9);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

/* -bound .. bound, evenly. */
static int64_t spread(uint64_t h, uint64_t bound)
{
    return (int64_t)(uint64_t)((unsigned __int128)h * (2 * bound + 1) >> 64) - (int64_t)bound;
}

/* Summands whose sum over all ranks stays exact. With more ranks than the dtype has integers (bfloat16), only
 * some of the ranks contribute to an element. */
static int64_t summand(const struct pattern *pattern, int rank, size_t index)
{
    const uint64_t max = exact_max(pattern->dtype);
    const uint64_t ranks = (uint64_t)pattern->rank_count;
    const uint64_t h = hash(pattern->salt, rank, index);
    if (ranks <= max) return spread(h, max / ranks);
    const uint64_t stride = (ranks + max - 1) / max;
    return ((uint64_t)rank + index) % stride == 0 ? spread(h, 1) : 0;
}

static int64_t factor(const struct pattern *pattern, int rank, size_t index)
{
    enum { RANKS_WITH_TWOS = 100 }; /* the range of float32 and bfloat16 ends at 2^127 */
    const uint64_t h = hash(pattern->salt, rank, index);
    if (is_integer(pattern->dtype)) return (int64_t)(h | 1);
    const int64_t magnitude = rank < RANKS_WITH_TWOS && (h >> 8 & 3) == 0 ? 2 : 1;
    return h >> 16 & 1 ? -magnitude : magnitude;
}

static int64_t input(const struct pattern *pattern, int rank, size_t index)
{
    if (pattern->reduces && pattern->op == TUTTI_PROD) return factor(pattern, rank, index);
    if (pattern->reduces && pattern->op == TUTTI_AVG) return summand(pattern, rank, index);
    const bool integer = is_integer(pattern->dtype);
    if (pattern->reduces && pattern->op == TUTTI_SUM && !integer)
        return summand(pattern, rank, index);
    const uint64_t h = hash(pattern->salt, rank, index);
    if (pattern->dtype == TUTTI_INT32)
        return (int32_t)(uint32_t)(h >> 32); /* as it will be read back */
    return integer ? (int64_t)h : spread(h, exact_max(pattern->dtype));
}

void value_inputs(const struct pattern *pattern, int rank, size_t first, size_t count,
                  void *elements)
{
    const enum tutti_dtype dtype = pattern->dtype;
    if (is_integer(dtype))
        for (size_t i = 0; i < count; i++)
            store_integer(dtype, (uint64_t)input(pattern, rank, first + i), elements, i);
    else
        for (size_t i = 0; i < count; i++)
            store_real(dtype, (double)input(pattern, rank, first + i), elements, i);
}

/* ------------------------------------------------------------------------------------------------ results */

/* Modulo 2^64, which is right modulo 2^32 too. */
static uint64_t reduced_integer(const struct pattern *pattern, size_t index)
{
    uint64_t total = (uint64_t)input(pattern, 0, index);
    for (int rank = 1; rank < pattern->rank_count; rank++) {
        const uint64_t next = (uint64_t)input(pattern, rank, index);
        if (pattern->op == TUTTI_PROD)
            total *= next;
        else if (pattern->op == TUTTI_MIN)
            total = (int64_t)next < (int64_t)total ? next : total;
        else if (pattern->op == TUTTI_MAX)
            total = (int64_t)next > (int64_t)total ? next : total;
        else
            total += next;
    }
    return pattern->op == TUTTI_AVG ? (uint64_t)((int64_t)total / pattern->rank_count) : total;
}

static double reduced_real(const struct pattern *pattern, size_t index)
{
    double total = (double)input(pattern, 0, index);
    for (int rank = 1; rank < pattern->rank_count; rank++) {
        const double next = (double)input(pattern, rank, index);
        if (pattern->op == TUTTI_PROD)
            total *= next;
        else if (pattern->op == TUTTI_MIN)
            total = next < total ? next : total;
        else if (pattern->op == TUTTI_MAX)
            total = next > total ? next : total;
        else
            total += next;
    }
    return pattern->op == TUTTI_AVG ? total / pattern->rank_count : total;
}

void value_reduced(const struct pattern *pattern, size_t first, size_t count, void *elements)
{
    const enum tutti_dtype dtype = pattern->dtype;
    if (is_integer(dtype))
        for (size_t i = 0; i < count; i++)
            store_integer(dtype, reduced_integer(pattern, first + i), elements, i);
    else
        for (size_t i = 0; i < count; i++)
            store_real(dtype, reduced_real(pattern, first + i), elements, i);
}
