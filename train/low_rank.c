#include "low_rank.h"

#include <math.h>
#include <string.h>

/* Several sums, so that additions need not wait for each other. */
enum { SUMS = 16 };

/* Below this share of its length, what is left of a column is rounding of float32. */
static const double left_min = 1e-6;

/* ------------------------------------------------------------------------------- random numbers */

/* SplitMix64. */
static uint64_t random_at(uint64_t seed, uint64_t place)
{
    uint64_t z =
        (seed + 1) * UINT64_C(0xd1342543de82ef95) + (place + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The sum of twelve uniform numbers, less its mean: near enough to normal, and without a function
 * of libm, whose last bit differs between machines. */
void low_rank_randomise(float *q, size_t columns, uint64_t seed, int column)
{
    const uint64_t own = random_at(seed, (uint64_t)column);
    for (size_t j = 0; j < columns; j++) {
        int64_t sum = 0;
        for (uint64_t k = 0; k < 3; k++) {
            const uint64_t bits = random_at(own, 3 * (uint64_t)j + k);
            for (int part = 0; part < 4; part++) sum += (int64_t)(bits >> 16 * part & 0xffff);
        }
        q[j] = (float)(sum - 6 * 65535) * 0x1p-16f;
    }
}

/* ---------------------------------------------------------------------------------- projections */

static float dot(const float *restrict a, const float *restrict b, size_t count)
{
    float sums[SUMS] = {0}, sum = 0;
    size_t i = 0;
    for (; i + SUMS <= count; i += SUMS)
        for (size_t s = 0; s < SUMS; s++) sums[s] += a[i + s] * b[i + s];
    for (; i < count; i++) sum += a[i] * b[i];
    for (size_t s = 0; s < SUMS; s++) sum += sums[s];
    return sum;
}

/* to += factor * from */
static void add_scaled(float *restrict to, const float *restrict from, float factor, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] += factor * from[i];
}

void low_rank_project(float *m, const float *residual, size_t rows, size_t columns, int rank,
                      const float *q, float *p)
{
    for (size_t i = 0; i < rows; i++) {
        float *const row = m + i * columns;
        if (residual != NULL)
            for (size_t j = 0; j < columns; j++) row[j] += residual[i * columns + j];
        for (size_t k = 0; k < (size_t)rank; k++)
            p[k * rows + i] = dot(row, q + k * columns, columns);
    }
}

void low_rank_back_project(const float *m, size_t rows, size_t columns, int rank, const float *p,
                           float *q)
{
    memset(q, 0, (size_t)rank * columns * sizeof *q);
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < (size_t)rank; k++)
            add_scaled(q + k * columns, m + i * columns, p[k * rows + i], columns);
}

static void set_residual(float *restrict residual, const float *restrict corrected,
                         const float *restrict decoded, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        const float left = corrected[j] - decoded[j];
        residual[j] = left - left == 0 ? left : 0; /* Inf - Inf and NaN - NaN are NaN */
    }
}

void low_rank_decode(float *m, float *residual, size_t rows, size_t columns, int rank,
                     const float *p, const float *q)
{
    enum { BLOCK = 512 };
    float decoded[BLOCK];
    for (size_t i = 0; i < rows; i++)
        for (size_t first = 0; first < columns; first += BLOCK) {
            const size_t count = columns - first < BLOCK ? columns - first : BLOCK;
            float *const at = m + i * columns + first;
            memset(decoded, 0, sizeof decoded);
            for (size_t k = 0; k < (size_t)rank; k++)
                add_scaled(decoded, q + k * columns + first, p[k * rows + i], count);
            if (residual != NULL) set_residual(residual + i * columns + first, at, decoded, count);
            memcpy(at, decoded, count * sizeof *at);
        }
}

/* ------------------------------------------------------------------------------ orthonormal ones */

static double dot_wide(const float *a, const float *b, size_t count)
{
    double sums[SUMS] = {0}, sum = 0;
    size_t i = 0;
    for (; i + SUMS <= count; i += SUMS)
        for (size_t s = 0; s < SUMS; s++) sums[s] += (double)a[i + s] * (double)b[i + s];
    for (; i < count; i++) sum += (double)a[i] * (double)b[i];
    for (size_t s = 0; s < SUMS; s++) sum += sums[s];
    return sum;
}

/* Makes the column one of length 1 if it is longer than length_min, or else of zeros. */
static bool normalise(float *column, size_t count, double length_min)
{
    const double length = sqrt(dot_wide(column, column, count));
    const bool is_good = length > length_min && isfinite(length);
    if (is_good)
        for (size_t i = 0; i < count; i++) column[i] = (float)((double)column[i] / length);
    else
        memset(column, 0, count * sizeof *column);
    return is_good;
}

bool low_rank_normalise(float *column, size_t count)
{
    return normalise(column, count, 0);
}

void low_rank_orthonormalise(float *p, size_t rows, int rank)
{
    for (size_t k = 0; k < (size_t)rank; k++) {
        float *const column = p + k * rows;
        /* Lengths are relative from here on, so that nothing is too small to be squared. */
        if (!normalise(column, rows, 0)) continue;
        for (int pass = 0; pass < 2; pass++) {
            for (size_t before = 0; before < k; before++) {
                const float *const other = p + before * rows;
                const double share = dot_wide(column, other, rows);
                for (size_t i = 0; i < rows; i++)
                    column[i] = (float)((double)column[i] - share * (double)other[i]);
            }
            if (!normalise(column, rows, left_min)) break;
        }
    }
}

bool low_rank_is_finite(const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(numbers[i]) <= 0x1p120f)) return false;
    return true;
}
