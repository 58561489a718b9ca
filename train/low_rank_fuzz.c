/* For any matrix, residual and basis, such as a checkpoint may hold, a step ends, its new basis is
 * finite, and so is the residual. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "low_rank.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Numbers from the input, over and over. */
static void fill(float *numbers, size_t count, const uint8_t *data, size_t size, size_t *at)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char bytes[sizeof(float)];
        for (size_t b = 0; b < sizeof bytes; b++) bytes[b] = data[(*at)++ % size];
        memcpy(&numbers[i], bytes, sizeof bytes);
    }
}

static void expect_finite(const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(numbers[i])) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { SIDE = 40, RANK = 8 };
    static float m[SIDE * SIDE], residual[SIDE * SIDE], p[SIDE * RANK], q[SIDE * RANK];
    if (size < 4) return 0;
    const size_t rows = 1 + data[0] % SIDE, columns = 1 + data[1] % SIDE;
    const int rank = 1 + data[2] % RANK;
    size_t at = 3;
    fill(m, rows * columns, data, size, &at);
    fill(residual, rows * columns, data, size, &at);
    fill(q, (size_t)rank * columns, data, size, &at);
    low_rank_project(m, residual, rows, columns, rank, q, p);
    low_rank_orthonormalise(p, rows, rank);
    expect_finite(p, (size_t)rank * rows);
    low_rank_back_project(m, rows, columns, rank, p, q);
    if (low_rank_is_finite(q, (size_t)rank * columns)) {
        low_rank_decode(m, residual, rows, columns, rank, p, q);
        expect_finite(m, rows * columns);
        expect_finite(residual, rows * columns);
    }
    for (int k = 0; k < rank; k++) {
        if (!low_rank_normalise(q + (size_t)k * columns, columns))
            low_rank_randomise(q + (size_t)k * columns, columns, data[3], k);
        expect_finite(q + (size_t)k * columns, columns);
    }
    return 0;
}
