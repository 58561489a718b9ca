#include "adamw.h"

void squares_of_blocks(const real *gradients, struct range blocks, double *squares)
{
    enum { LANES = 8 }; /* sums beside each other, always in the same order */
    for (size_t b = 0; b < blocks.count; b++) {
        const real *block = gradients + (blocks.first + b) * PARAMETERS_BLOCK;
        double lanes[LANES] = {0}, sum = 0;
        for (size_t i = 0; i < PARAMETERS_BLOCK; i += LANES)
            for (size_t lane = 0; lane < LANES; lane++)
                lanes[lane] += (double)block[i + lane] * (double)block[i + lane];
        for (size_t lane = 0; lane < LANES; lane++) sum += lanes[lane];
        squares[b] = sum;
    }
}

double squares_sum(const double *squares, size_t count)
{
    double sum = 0;
    for (size_t b = 0; b < count; b++) sum += squares[b];
    return sum;
}

real clip_factor(double squares, double length_max)
{
    const double length = sqrt(squares);
    return length > length_max ? (real)(length_max / length) : 1;
}

double schedule_rate(const struct schedule *schedule, uint64_t step)
{
    if (step < schedule->warm_up_steps)
        return schedule->rate * (double)(step + 1) / (double)schedule->warm_up_steps;
    if (step >= schedule->steps) return schedule->rate * 0.1;
    const double done = (double)(step - schedule->warm_up_steps) /
                        (double)(schedule->steps - schedule->warm_up_steps);
    return schedule->rate * (0.1 + 0.9 * 0.5 * (1 + cos(3.141592653589793 * done)));
}

/* With g the clipped gradient and t = step + 1:
 *     m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2,   w = w - rate (decay w + (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + e)) */
void adamw_step(const struct adamw *adamw, uint64_t step, double rate, real clip, size_t decayed,
                struct range range, const real *gradients, struct moments moments, real *weights)
{
    const real b1 = (real)adamw->first_decay, b2 = (real)adamw->second_decay;
    const real epsilon = (real)adamw->epsilon;
    const real first_scale = (real)(rate / (1 - pow(adamw->first_decay, (double)step + 1)));
    const real second_scale = (real)(1 / (1 - pow(adamw->second_decay, (double)step + 1)));
    const size_t end = range.first + range.count;
    const size_t boundary = decayed < range.first ? range.first : decayed < end ? decayed : end;
    const struct {
        size_t begin, end;
        real keep; /* of the weight */
    } kinds[2] = {{range.first, boundary, (real)(1 - rate * adamw->weight_decay)},
                  {boundary, end, 1}};
    for (int k = 0; k < 2; k++) {
        const size_t begin = kinds[k].begin, count = kinds[k].end - kinds[k].begin;
        const real keep = kinds[k].keep;
        const real *restrict gradient = gradients + begin;
        real *restrict weight = weights + begin;
        real *restrict first = moments.first + (begin - range.first);
        real *restrict second = moments.second + (begin - range.first);
        for (size_t i = 0; i < count; i++) {
            const real g = gradient[i] * clip;
            first[i] = b1 * first[i] + (1 - b1) * g;
            second[i] = b2 * second[i] + (1 - b2) * g * g;
            const real root = real_sqrt(second[i] * second_scale) + epsilon;
            weight[i] = keep * weight[i] - first_scale * first[i] / root;
        }
    }
}
