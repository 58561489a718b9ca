/* low_rank_test.c - factors are orthonormal or zero, whatever they are made of; a matrix that has
 * the rank comes back, and steps with the same matrix come near its best approximation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "low_rank.h"
#include "tests/kit/elements.h"

enum { ROWS = 37, COLUMNS = 53, RANK = 5, COUNT = ROWS * COLUMNS };

static float unit(uint64_t seed, size_t i)
{
    return (float)(elements_mixed(seed, i) >> 40) * 0x1p-23f - 1;
}

static double inner(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static double norm(const float *a, size_t count)
{
    return sqrt(inner(a, a, count));
}

static void columns_become_orthonormal(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        float p[RANK * ROWS];
        /* From very small to very large, and nearly parallel in every other case. */
        const float scale = ldexpf(1, (int)(seed * 5) - 125), near = seed % 2 == 0 ? 1 : 1e-3f;
        for (size_t i = 0; i < RANK * ROWS; i++)
            p[i] = scale * (unit(seed, i) * near + (seed % 2 == 0 ? 0 : unit(seed, i % ROWS)));
        low_rank_orthonormalise(p, ROWS, RANK);
        for (size_t a = 0; a < RANK; a++)
            for (size_t b = 0; b <= a; b++) {
                const double product = inner(p + a * ROWS, p + b * ROWS, ROWS);
                assert_true(fabs(product - (a == b)) < 1e-5);
            }
    }
}

static void columns_with_nothing_new_become_zero(void **state)
{
    (void)state;
    float p[4 * ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        p[i] = unit(1, i);
        p[ROWS + i] = 3 * p[i];
        p[2 * ROWS + i] = i == 5 ? NAN : unit(2, i);
        p[3 * ROWS + i] = unit(3, i);
    }
    low_rank_orthonormalise(p, ROWS, 4);
    assert_true(norm(p + ROWS, ROWS) == 0);
    assert_true(norm(p + 2 * ROWS, ROWS) == 0);
    assert_true(fabs(norm(p, ROWS) - 1) < 1e-6 && fabs(norm(p + 3 * ROWS, ROWS) - 1) < 1e-6);
    assert_true(fabs(inner(p, p + 3 * ROWS, ROWS)) < 1e-6);
}

/* One step on m, as one rank does it; q has columns of length 1 before and after. */
static void step(float *m, float *residual, int rank, float *q)
{
    float *const p = calloc(ROWS * (size_t)rank, sizeof *p);
    float *const next = calloc(COLUMNS * (size_t)rank, sizeof *next);
    assert_true(p != NULL && next != NULL);
    low_rank_project(m, residual, ROWS, COLUMNS, rank, q, p);
    low_rank_orthonormalise(p, ROWS, rank);
    low_rank_back_project(m, ROWS, COLUMNS, rank, p, next);
    low_rank_decode(m, residual, ROWS, COLUMNS, rank, p, next);
    memcpy(q, next, COLUMNS * (size_t)rank * sizeof *q);
    for (int k = 0; k < rank; k++)
        if (!low_rank_normalise(q + (size_t)k * COLUMNS, COLUMNS))
            low_rank_randomise(q + (size_t)k * COLUMNS, COLUMNS, 9, k);
    free(p);
    free(next);
}

static void begin(float *q, int rank)
{
    for (int k = 0; k < rank; k++) low_rank_randomise(q + (size_t)k * COLUMNS, COLUMNS, 7, k);
}

static void a_matrix_of_that_rank_comes_back(void **state)
{
    (void)state;
    static float m[COUNT], kept[COUNT], residual[COUNT], q[RANK * COLUMNS];
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < COUNT; i++)
            kept[i] += unit((uint64_t)k, i / COLUMNS) * unit((uint64_t)k + 9, i % COLUMNS);
    memcpy(m, kept, sizeof m);
    begin(q, RANK); /* two columns find nothing, and become random again */
    step(m, residual, RANK, q);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(fabsf(m[i] - kept[i]) < 1e-5f);
        assert_true(residual[i] == kept[i] - m[i]);
    }
    for (int k = 0; k < RANK; k++) assert_true(norm(q + k * COLUMNS, COLUMNS) > 0.9);
}

/* The singular values are 2^-k: the best approximation of rank 2 leaves those from the third on. */
static void steps_with_one_matrix_come_near_the_best(void **state)
{
    (void)state;
    static float m[COUNT], left[RANK * ROWS], right[RANK * COLUMNS], q[2 * COLUMNS];
    float *kept = calloc(COUNT, sizeof *kept);
    assert_non_null(kept);
    for (size_t i = 0; i < RANK * ROWS; i++) left[i] = unit(21, i);
    for (size_t i = 0; i < RANK * COLUMNS; i++) right[i] = unit(22, i);
    low_rank_orthonormalise(left, ROWS, RANK);
    low_rank_orthonormalise(right, COLUMNS, RANK);
    double best = 0;
    for (size_t k = 0; k < RANK; k++) {
        for (size_t i = 0; i < COUNT; i++)
            kept[i] +=
                ldexpf(left[k * ROWS + i / COLUMNS] * right[k * COLUMNS + i % COLUMNS], -(int)k);
        if (k >= 2) best += ldexp(1, -2 * (int)k);
    }
    begin(q, 2);
    double first = 0, last = 0;
    for (int turn = 0; turn < 12; turn++) {
        float difference[COUNT];
        memcpy(m, kept, sizeof m);
        step(m, NULL, 2, q);
        for (size_t i = 0; i < COUNT; i++) difference[i] = kept[i] - m[i];
        last = norm(difference, COUNT);
        if (turn == 0) first = last;
        assert_true(last >= sqrt(best) * (1 - 1e-5));
    }
    assert_true(last < sqrt(best) * 1.001);
    assert_true(first > sqrt(best) * 1.01); /* a warm start is what did it */
    free(kept);
}

/* With the residual nothing is lost: over the steps the sum of what came out follows the sum of
 * what went in. */
static void what_is_left_comes_later(void **state)
{
    (void)state;
    static float m[COUNT], gradient[COUNT], residual[COUNT], q[COLUMNS];
    static double given[COUNT], got[COUNT];
    begin(q, 1);
    for (size_t i = 0; i < COUNT; i++) gradient[i] = unit(31, i);
    for (int turn = 1; turn <= 200; turn++) {
        memcpy(m, gradient, sizeof m);
        step(m, residual, 1, q);
        for (size_t i = 0; i < COUNT; i++) {
            given[i] += (double)gradient[i];
            got[i] += (double)m[i];
        }
    }
    for (size_t i = 0; i < COUNT; i++)
        assert_true(fabs(given[i] - got[i] - (double)residual[i]) < 1e-3);
}

static void numbers_that_are_too_large_are_found(void **state)
{
    (void)state;
    float numbers[3] = {1, -0x1p120f, 0};
    assert_true(low_rank_is_finite(numbers, 3));
    numbers[2] = 0x1.8p120f;
    assert_false(low_rank_is_finite(numbers, 3));
    numbers[2] = -INFINITY;
    assert_false(low_rank_is_finite(numbers, 3));
    numbers[2] = NAN;
    assert_false(low_rank_is_finite(numbers, 3));
    assert_true(low_rank_is_finite(numbers, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_become_orthonormal),
        cmocka_unit_test(columns_with_nothing_new_become_zero),
        cmocka_unit_test(a_matrix_of_that_rank_comes_back),
        cmocka_unit_test(steps_with_one_matrix_come_near_the_best),
        cmocka_unit_test(what_is_left_comes_later),
        cmocka_unit_test(numbers_that_are_too_large_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
