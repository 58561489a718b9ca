#include "norm.h"

#include <math.h>

#include "kernel/kernel_element.h"

/* Several sums, so that additions need not wait for each other. */
enum { SUMS = 8 };

#define X(dtype)                                                                                 \
    static double square_sum_##dtype(const unsigned char *data, size_t count)                    \
    {                                                                                            \
        double sums[SUMS] = {0}, sum = 0;                                                        \
        size_t i = 0;                                                                            \
        for (; i + SUMS <= count; i += SUMS) {                                                   \
            for (size_t s = 0; s < SUMS; s++) {                                                  \
                const double a = (double)load_one_##dtype(data + (i + s) * SIZE_##dtype);        \
                sums[s] += a * a;                                                                \
            }                                                                                    \
        }                                                                                        \
        for (; i < count; i++) {                                                                 \
            const double a = (double)load_one_##dtype(data + i * SIZE_##dtype);                  \
            sum += a * a;                                                                        \
        }                                                                                        \
        for (size_t s = 0; s < SUMS; s++) sum += sums[s];                                        \
        return sum;                                                                              \
    }                                                                                            \
    static void scale_##dtype(unsigned char *data, size_t count, double factor)                  \
    {                                                                                            \
        for (size_t i = 0; i < count; i++) {                                                     \
            unsigned char *const at = data + i * SIZE_##dtype;                                   \
            store_one_##dtype(at, (accumulator_##dtype)((double)load_one_##dtype(at) * factor)); \
        }                                                                                        \
    }
X(float32)
X(float64)
X(bfloat16)
X(float16)
X(float8_e4m3)
X(float8_e5m2)
#undef X

double norm_square_sum(const void *data, size_t count, enum tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_FLOAT64: return square_sum_float64(data, count);
    case TUTTI_BFLOAT16: return square_sum_bfloat16(data, count);
    case TUTTI_FLOAT16: return square_sum_float16(data, count);
    case TUTTI_FLOAT8_E4M3: return square_sum_float8_e4m3(data, count);
    case TUTTI_FLOAT8_E5M2: return square_sum_float8_e5m2(data, count);
    case TUTTI_FLOAT32:
    case TUTTI_INT32:
    case TUTTI_INT64:
    case TUTTI_INT8:
    case TUTTI_INT16:
    case TUTTI_UINT8:
    case TUTTI_UINT16:
    case TUTTI_UINT32:
    case TUTTI_UINT64: break;
    }
    return square_sum_float32(data, count);
}

void norm_scale(void *data, size_t count, enum tutti_dtype dtype, double factor)
{
    switch (dtype) {
    case TUTTI_FLOAT64: scale_float64(data, count, factor); break;
    case TUTTI_BFLOAT16: scale_bfloat16(data, count, factor); break;
    case TUTTI_FLOAT16: scale_float16(data, count, factor); break;
    case TUTTI_FLOAT8_E4M3: scale_float8_e4m3(data, count, factor); break;
    case TUTTI_FLOAT8_E5M2: scale_float8_e5m2(data, count, factor); break;
    case TUTTI_FLOAT32:
    case TUTTI_INT32:
    case TUTTI_INT64:
    case TUTTI_INT8:
    case TUTTI_INT16:
    case TUTTI_UINT8:
    case TUTTI_UINT16:
    case TUTTI_UINT32:
    case TUTTI_UINT64: scale_float32(data, count, factor); break;
    }
}

bool norm_is_finite(const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(numbers[i])) return false;
    return true;
}
