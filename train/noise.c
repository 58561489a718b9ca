#include <math.h>
#include <stdbool.h>

#include "base/sized.h"
#include "base/status.h"
#include "tutti/train/adapt.h"

static bool is_number(double number)
{
    return number >= 0 && isfinite(number);
}

enum tutti_status tutti_noise_add(struct tutti_noise *noise, double small_batch,
                                  double small_squared, double large_batch, double large_squared)
{
    TRY(SIZED_CHECK_RESULT("tutti_noise_add: noise", tutti_noise, noise));
    if (!(noise->smoothing >= 0 && noise->smoothing < 1))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_noise_add: smoothing must be from 0 to below 1, is %g",
                         noise->smoothing);
    if (!(small_batch > 0 && small_batch < large_batch && isfinite(large_batch)))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_noise_add: batches of %g and %g samples must be a small one and a "
                         "larger one",
                         small_batch, large_batch);
    if (!is_number(small_squared) || !is_number(large_squared))
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_noise_add: %g and %g cannot be squared norms",
                         small_squared, large_squared);
    const double squared =
        (large_batch * large_squared - small_batch * small_squared) / (large_batch - small_batch);
    const double trace = (small_squared - large_squared) / (1 / small_batch - 1 / large_batch);
    const double kept = noise->smoothing;
    if (!isfinite(squared) || !isfinite(trace))
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_noise_add: the norms are too large");
    noise->squared = kept * noise->squared + (1 - kept) * squared;
    noise->trace = kept * noise->trace + (1 - kept) * trace;
    noise->count++;
    return TUTTI_OK;
}

double tutti_noise_scale(const struct tutti_noise *noise)
{
    if (noise->count == 0 || !(noise->trace > 0)) return 0;
    return noise->squared > 0 ? noise->trace / noise->squared : (double)INFINITY;
}
