#include "shards_update.h"

#include <math.h>
#include <string.h>

#define UPDATES(real, root)                                                             \
    static void adamw_##real(const struct shards_update *u, size_t count,               \
                             const real *restrict gradients, real *restrict first,      \
                             real *restrict second, real *restrict parameters)          \
    {                                                                                   \
        const double t = (double)u->step + 1;                                           \
        const real b1 = (real)u->first_decay, b2 = (real)u->second_decay;               \
        const real c1 = 1 - b1, c2 = 1 - b2;                                            \
        const real factor = (real)u->factor, epsilon = (real)u->epsilon;                \
        const real keep = (real)(1 - u->rate * u->weight_decay);                        \
        const real first_scale = (real)(u->rate / (1 - pow(u->first_decay, t)));        \
        const real second_scale = (real)(1 / (1 - pow(u->second_decay, t)));            \
        for (size_t i = 0; i < count; i++) {                                            \
            const real g = gradients[i] * factor;                                       \
            first[i] = b1 * first[i] + c1 * g;                                          \
            second[i] = b2 * second[i] + c2 * g * g;                                    \
            const real length = root(second[i] * second_scale) + epsilon;               \
            parameters[i] = keep * parameters[i] - first_scale * first[i] / length;     \
        }                                                                               \
    }                                                                                   \
    static void sgd_##real(const struct shards_update *u, size_t count,                 \
                           const real *restrict gradients, real *restrict first,        \
                           real *restrict parameters)                                   \
    {                                                                                   \
        const real momentum = (real)u->first_decay, factor = (real)u->factor;           \
        const real rate = (real)u->rate, keep = (real)(1 - u->rate * u->weight_decay);  \
        for (size_t i = 0; i < count; i++) {                                            \
            first[i] = momentum * first[i] + gradients[i] * factor;                     \
            parameters[i] = keep * parameters[i] - rate * first[i];                     \
        }                                                                               \
    }                                                                                   \
    static void add_##real(size_t count, const real *restrict more, real *restrict sum) \
    {                                                                                   \
        for (size_t i = 0; i < count; i++) sum[i] += more[i];                           \
    }
UPDATES(float, sqrtf)
UPDATES(double, sqrt)
#undef UPDATES

void shards_update(const struct shards_update *update, enum tutti_dtype dtype, size_t count,
                   const void *gradients, void *first, void *second, void *parameters)
{
    const int is_double = dtype == TUTTI_FLOAT64;
    if (update->optimizer == TUTTI_SHARDS_SGD && is_double)
        sgd_double(update, count, gradients, first, parameters);
    else if (update->optimizer == TUTTI_SHARDS_SGD)
        sgd_float(update, count, gradients, first, parameters);
    else if (is_double)
        adamw_double(update, count, gradients, first, second, parameters);
    else
        adamw_float(update, count, gradients, first, second, parameters);
}

void shards_add(enum tutti_dtype dtype, size_t count, int is_first, const void *more, void *sum)
{
    if (count == 0) return;
    if (is_first)
        memcpy(sum, more, count * tutti_dtype_size(dtype));
    else if (dtype == TUTTI_FLOAT64)
        add_double(count, more, sum);
    else
        add_float(count, more, sum);
}
