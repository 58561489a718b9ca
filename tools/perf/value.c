#include "value.h"

#include "dtype.h"

static uint64_t hash(uint64_t salt, int rank, size_t index)
{
    uint64_t h = ((uint64_t)index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= ((uint64_t)rank + 1) * UINT64_C(0xc2b2ae3d27d4eb4f) + salt * UINT64_C(0x165667b19e3779f9);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

/* 0 .. count - 1, evenly. */
static uint64_t below(uint64_t h, uint64_t count)
{
    return (uint64_t)((unsigned __int128)h * count >> 64);
}

static int64_t spread(enum tutti_dtype dtype, uint64_t h, uint64_t bound)
{
    if (number_kind(dtype) == NUMBER_UNSIGNED) return (int64_t)below(h, bound + 1);
    return (int64_t)below(h, 2 * bound + 1) - (int64_t)bound;
}

/* Up to which inputs, sums and results are exact before they are encoded. */
static uint64_t exact_max(const struct pattern *pattern)
{
    const uint64_t max = number_exact_max(pattern->dtype);
    return pattern->encoded.encoding == TUTTI_ENCODING_NONE
               ? max
               : (uint64_t)perf_encoded_largest(&pattern->encoded, (double)max);
}

/* Summands whose sum over all ranks stays exact. With more ranks than the dtype has integers (8-bit
 * floats), only some of the ranks contribute to an element. */
static int64_t summand(const struct pattern *pattern, int rank, size_t index)
{
    const uint64_t max = exact_max(pattern);
    const uint64_t ranks = (uint64_t)pattern->rank_count;
    const uint64_t h = hash(pattern->salt, rank, index);
    if (ranks <= max) return spread(pattern->dtype, h, max / ranks);
    const uint64_t stride = (ranks + max - 1) / max;
    return ((uint64_t)rank + index) % stride == 0 ? spread(pattern->dtype, h, 1) : 0;
}

/* Each bit is set at one rank of about so many as there are. */
static uint64_t rare_bits(const struct pattern *pattern, int rank, size_t index)
{
    uint64_t bits = UINT64_MAX;
    for (int ranks = pattern->rank_count, round = 0; ranks > 0; ranks /= 2, round++)
        bits &= hash(pattern->salt + UINT64_C(1000003) * (uint64_t)round, rank, index);
    return bits;
}

/* ---------------------------------------------------------------------------- integers and bits */

static bool is_of_words(const struct pattern *pattern)
{
    if (pattern->encoded.encoding != TUTTI_ENCODING_NONE) return false;
    return !pattern->reduces || number_kind(pattern->dtype) != NUMBER_REAL ||
           reduction_is_of_words(pattern->reduction);
}

static int bits_of(const struct pattern *pattern)
{
    return 8 * (int)tutti_dtype_size(pattern->dtype);
}

static uint64_t not_zero(uint64_t word)
{
    return word ? word : 1;
}

/* A rank alone: its input is the result, and need not become 0 or 1. */
static uint64_t logical(const struct pattern *pattern, uint64_t h, bool is_true)
{
    if (!is_true) return 0;
    return pattern->rank_count == 1 ? 1 : not_zero(word_narrowed(pattern->dtype, h));
}

static uint64_t copied_word(const struct pattern *pattern, uint64_t h)
{
    const uint64_t poison =
        word_narrowed(pattern->dtype, VALUE_POISON * UINT64_C(0x0101010101010101));
    const uint64_t word = word_narrowed(pattern->dtype, h);
    return word == poison ? 0 : word;
}

static uint64_t input_word(const struct pattern *pattern, int rank, size_t index)
{
    const uint64_t h = hash(pattern->salt, rank, index);
    const uint64_t ranks = (uint64_t)pattern->rank_count;
    if (!pattern->reduces) return copied_word(pattern, h);
    switch (pattern->reduction) {
    case REDUCTION_PROD: return h | 1;
    case REDUCTION_AVG: return (uint64_t)summand(pattern, rank, index);
    case REDUCTION_LAND: return logical(pattern, h, below(h, ranks + 1) != 0);
    case REDUCTION_LOR: return logical(pattern, h, below(h, ranks + 1) == 0);
    case REDUCTION_LXOR: return logical(pattern, h, h >> 63);
    case REDUCTION_BAND: return ~rare_bits(pattern, rank, index);
    case REDUCTION_BOR: return rare_bits(pattern, rank, index);
    case REDUCTION_USER: return h | UINT64_C(1) << bits_of(pattern) / 2;
    default: return word_narrowed(pattern->dtype, h);
    }
}

static uint64_t combine_words_of(const struct pattern *pattern, uint64_t left, uint64_t right)
{
    const bool has_sign = number_kind(pattern->dtype) == NUMBER_SIGNED;
    const bool is_less = has_sign ? (int64_t)right < (int64_t)left : right < left;
    switch (pattern->reduction) {
    case REDUCTION_PROD: return left * right;
    case REDUCTION_MIN: return is_less ? right : left;
    case REDUCTION_MAX: return is_less ? left : right;
    case REDUCTION_LAND: return left && right;
    case REDUCTION_LOR: return left || right;
    case REDUCTION_LXOR: return !left != !right;
    case REDUCTION_BAND: return left & right;
    case REDUCTION_BOR: return left | right;
    case REDUCTION_BXOR: return left ^ right;
    case REDUCTION_USER: return reduction_compose(bits_of(pattern), left, right);
    default: return left + right; /* modulo 2^64, which is right modulo less, too */
    }
}

static uint64_t reduced_word(const struct pattern *pattern, size_t index)
{
    uint64_t total = input_word(pattern, 0, index);
    for (int rank = 1; rank < pattern->rank_count; rank++)
        total = combine_words_of(pattern, total, input_word(pattern, rank, index));
    if (pattern->reduction != REDUCTION_AVG) return total;
    if (number_kind(pattern->dtype) == NUMBER_UNSIGNED)
        return total / (uint64_t)pattern->rank_count;
    return (uint64_t)((int64_t)total / pattern->rank_count);
}

/* ---------------------------------------------------------------------------------------- reals */

static double factor(const struct pattern *pattern, int rank, size_t index)
{
    const uint64_t h = hash(pattern->salt, rank, index);
    const double sign = h >> 16 & 1 ? -1 : 1;
    const int turn = (int)(((size_t)rank + index) % (size_t)pattern->rank_count);
    if (turn >= number_exponent_max(pattern->dtype) || (h >> 8 & 3) > 1) return sign;
    return sign * (h >> 8 & 1 ? 2 : 0.5);
}

static double input_real(const struct pattern *pattern, int rank, size_t index)
{
    if (!pattern->reduces)
        return (double)spread(pattern->dtype, hash(pattern->salt, rank, index), exact_max(pattern));
    switch (pattern->reduction) {
    case REDUCTION_PROD: return factor(pattern, rank, index);
    case REDUCTION_MIN:
    case REDUCTION_MAX:
        return (double)spread(pattern->dtype, hash(pattern->salt, rank, index),
                              number_exact_max(pattern->dtype));
    default: return (double)summand(pattern, rank, index);
    }
}

static double combine_reals(const struct pattern *pattern, double left, double right)
{
    switch (pattern->reduction) {
    case REDUCTION_PROD: return left * right;
    case REDUCTION_MIN: return right < left ? right : left;
    case REDUCTION_MAX: return right > left ? right : left;
    default: return left + right;
    }
}

/* A quotient that went through float64 and float32 rounds to the same element as one that only went
 * through float32, and to the same float32 as one never widened: each format has more than twice
 * the next one's bits. */
static double reduced_real(const struct pattern *pattern, size_t index)
{
    double total = input_real(pattern, 0, index);
    for (int rank = 1; rank < pattern->rank_count; rank++)
        total = combine_reals(pattern, total, input_real(pattern, rank, index));
    if (pattern->reduction == REDUCTION_AVG) return total / pattern->rank_count;
    return pattern->reduction == REDUCTION_SCALED ? total * REDUCTION_FACTOR : total;
}

double value_tolerance(const struct pattern *pattern)
{
    const double largest =
        pattern->encoded.encoding == TUTTI_ENCODING_NONE ? 0 : (double)exact_max(pattern);
    const bool is_average = pattern->reduces && pattern->reduction == REDUCTION_AVG;
    return perf_encoded_tolerance(&pattern->encoded, pattern->rank_count, largest,
                                  (double)number_exact_max(pattern->dtype)) /
           (is_average ? pattern->rank_count : 1);
}

/* ------------------------------------------------------------------------------------- elements */

void value_inputs(const struct pattern *pattern, int rank, size_t first, size_t count,
                  void *elements)
{
    const enum tutti_dtype dtype = pattern->dtype;
    const size_t bytes = tutti_dtype_size(dtype);
    char *const to = elements;
    if (is_of_words(pattern))
        for (size_t i = 0; i < count; i++)
            word_store(bytes, input_word(pattern, rank, first + i), to + i * bytes);
    else
        for (size_t i = 0; i < count; i++)
            real_store(dtype, input_real(pattern, rank, first + i), to + i * bytes);
}

void value_reduced(const struct pattern *pattern, size_t first, size_t count, void *elements)
{
    const enum tutti_dtype dtype = pattern->dtype;
    const size_t bytes = tutti_dtype_size(dtype);
    char *const to = elements;
    if (is_of_words(pattern))
        for (size_t i = 0; i < count; i++)
            word_store(bytes, reduced_word(pattern, first + i), to + i * bytes);
    else
        for (size_t i = 0; i < count; i++)
            real_store(dtype, reduced_real(pattern, first + i), to + i * bytes);
}
