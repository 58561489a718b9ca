#include "shards_update.h"

#include <math.h>
#include <string.h>

#include "widen.h"

/* As many elements are widened at once: they stay in the first cache. */
enum { PIECE = 1024 };

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

static void update(const struct shards_update *update, enum tutti_dtype dtype, size_t count,
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

/* Elements from `first` on, at most PIECE of them. */
static void update_mixed(const struct shards_update *what, const struct shards_elements *e,
                         size_t first, size_t count)
{
    float gradients[PIECE];
    float *const second = e->second != NULL ? (float *)e->second + first : NULL;
    widen(e->gradient_dtype, count,
          (const char *)e->gradients + first * tutti_dtype_size(e->gradient_dtype), gradients);
    update(what, TUTTI_FLOAT32, count, gradients, (float *)e->first + first, second,
           e->masters + first);
    narrow(e->dtype, count, e->masters + first,
           (char *)e->parameters + first * tutti_dtype_size(e->dtype));
}

void shards_update(const struct shards_update *what, const struct shards_elements *e)
{
    if (e->masters == NULL) {
        update(what, e->state_dtype, e->count, e->gradients, e->first, e->second, e->parameters);
        return;
    }
    for (size_t first = 0; first < e->count; first += PIECE)
        update_mixed(what, e, first, e->count - first < PIECE ? e->count - first : PIECE);
}

static void add_small(enum tutti_dtype dtype, size_t count, const char *more, char *sum)
{
    const size_t element_bytes = tutti_dtype_size(dtype);
    for (size_t first = 0; first < count; first += PIECE) {
        const size_t here = count - first < PIECE ? count - first : PIECE;
        float wide_more[PIECE], wide_sum[PIECE];
        widen(dtype, here, more + first * element_bytes, wide_more);
        widen(dtype, here, sum + first * element_bytes, wide_sum);
        add_float(here, wide_more, wide_sum);
        narrow(dtype, here, wide_sum, sum + first * element_bytes);
    }
}

void shards_add(enum tutti_dtype dtype, size_t count, int is_first, const void *more, void *sum)
{
    if (count == 0) return;
    if (is_first)
        memcpy(sum, more, count * tutti_dtype_size(dtype));
    else if (dtype == TUTTI_FLOAT64)
        add_double(count, more, sum);
    else if (dtype == TUTTI_FLOAT32)
        add_float(count, more, sum);
    else
        add_small(dtype, count, more, sum);
}
