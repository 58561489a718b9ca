/* low_rank.h - the arithmetic of PowerSGD (Vogels, Karimireddy, Jaggi, arXiv 1905.13727) for one
 * matrix M of rows x columns, row by row:
 *
 *     P = M Q  (averaged)      low_rank_project        rows x rank
 *     P := orthonormal P       low_rank_orthonormalise
 *     Q = M^T P  (averaged)    low_rank_back_project   columns x rank
 *     M ~ P Q^T                low_rank_decode
 *
 * Factors lie column by column, so all inner loops run over memory in order. 4 rank flops for each
 * element and step, and M is read three times.
 *
 * Every function computes the same bits from the same numbers on any machine: sums have a fixed
 * order, and products are rounded before they are added (the file is compiled so). Any numbers are
 * allowed, also such that are not finite: nothing but numbers depends on them.
 */
#ifndef TUTTI_TRAIN_LOW_RANK_H
#define TUTTI_TRAIN_LOW_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills a column of Q with numbers from a normal distribution; a function of seed and column. */
void low_rank_randomise(float *q, size_t columns, uint64_t seed, int column);

/* Adds the residual to M, unless it is NULL, and sets p to M Q. */
void low_rank_project(float *m, const float *residual, size_t rows, size_t columns, int rank,
                      const float *q, float *p);

/* Makes the columns of P orthonormal, by Gram-Schmidt, twice for each column, in float64. A column
 * that the columns before it explain, up to rounding, becomes 0, and so does a column of zeros or
 * of numbers that are not finite. */
void low_rank_orthonormalise(float *p, size_t rows, int rank);

/* Sets q to M^T P. */
void low_rank_back_project(const float *m, size_t rows, size_t columns, int rank, const float *p,
                           float *q);

/* Sets the residual to M - P Q^T, unless it is NULL, and M to P Q^T. Where the difference is not
 * finite the residual becomes 0. */
void low_rank_decode(float *m, float *residual, size_t rows, size_t columns, int rank,
                     const float *p, const float *q);

/* Whether all numbers of a factor are finite, and so small that what they decode to is, too: up to
 * 2^120. */
bool low_rank_is_finite(const float *numbers, size_t count);
/* Scales a column to length 1, so that lengths do not multiply from step to step. Returns false if
 * that cannot be: the column is zero now. */
bool low_rank_normalise(float *column, size_t count);

#endif
