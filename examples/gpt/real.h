/* real.h - the number that the model computes with, and the one routine that takes most of its
 * time.
 *
 * `real` is float. A program built with -DREAL_DOUBLE computes in double: finite differences and
 * sums in another order then agree to many digits, which tests ask for.
 */
#ifndef GPT_REAL_H
#define GPT_REAL_H

#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef REAL_DOUBLE
typedef double real;
#define REAL_GEMM cblas_dgemm
#define real_sqrt sqrt
#else
typedef float real;
#define REAL_GEMM cblas_sgemm
#define real_sqrt sqrtf
#endif

/* A matrix as the product of matrices sees it: rows that lie `stride` elements apart, perhaps read
 * as columns. */
struct matrix {
    const real *values;
    size_t stride;
    bool transposed;
};

static inline struct matrix plain(const real *values, size_t stride)
{
    return (struct matrix){values, stride, false};
}

static inline struct matrix transposed(const real *values, size_t stride)
{
    return (struct matrix){values, stride, true};
}

enum product_mode { PRODUCT_SET, PRODUCT_ADD };

/* result [rows x columns] = scale * left [rows x inner] * right [inner x columns], or adds that to
 * it. */
static inline void multiply(size_t rows, size_t columns, size_t inner, real scale,
                            struct matrix left, struct matrix right, enum product_mode mode,
                            real *result, size_t result_stride)
{
    if (rows == 0 || columns == 0) return;
    REAL_GEMM(CblasRowMajor, left.transposed ? CblasTrans : CblasNoTrans,
              right.transposed ? CblasTrans : CblasNoTrans, (blasint)rows, (blasint)columns,
              (blasint)inner, scale, left.values, (blasint)left.stride, right.values,
              (blasint)right.stride, mode == PRODUCT_ADD ? 1 : 0, result, (blasint)result_stride);
}

/* e^x for x <= 0 and a little above. In float it is written so that compilers make vectors of a
 * loop around it: x is n ln 2 + r with |r| <= ln 2 / 2, e^r is a polynomial, and n goes into the
 * exponent's bits. Relative error 2e-7. */
static inline real real_exp(real x)
{
#ifdef REAL_DOUBLE
    return exp(x);
#else
    const float round = 0x1.8p23f; /* adding it leaves no room for a fraction */
    x = x < -87 ? -87 : x > 88 ? 88 : x;
    const float n = (x * 0x1.715476p0f + round) - round;
    const float r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f; /* ln 2 in two parts */
    float power = 1 / 5040.f;
    power = power * r + 1 / 720.f;
    power = power * r + 1 / 120.f;
    power = power * r + 1 / 24.f;
    power = power * r + 1 / 6.f;
    power = power * r + 1 / 2.f;
    power = power * r + 1;
    power = power * r + 1;
    const uint32_t bits = (uint32_t)((int32_t)n + 127) << 23; /* anything for NaN */
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return power * scale;
#endif
}

#endif
