/* adamw.h - from gradients to new weights: clipping, the learning rate, and AdamW.
 *
 * Everything works on a range of the flat array of parameters.h, so a rank may hold the moments of
 * a range only (ZeRO).
 */
#ifndef GPT_ADAMW_H
#define GPT_ADAMW_H

#include "parameters.h"

/* ------------------------------------------------------------------------ the gradients' length */

/* Writes the sum of squares of each of some blocks of PARAMETERS_BLOCK gradients. A block is added
 * up in one order, wherever it is. */
void squares_of_blocks(const real *gradients, struct range blocks, double *squares);

/* Adds blocks up in their order. Of tensor-parallel ranks, all have blocks of matrices of their
 * own, and the same blocks of gains, which count once. */
double squares_sum(const double *squares, size_t count);

/* The factor for gradients with which their length, the root of `squares`, is at most
 * `length_max`. */
real clip_factor(double squares, double length_max);

/* ---------------------------------------------------------------------------- the learning rate */

struct schedule {
    double rate; /* the highest */
    uint64_t warm_up_steps, steps;
};

/* Rises in a line over the first steps, then falls as a cosine to a tenth. */
double schedule_rate(const struct schedule *schedule, uint64_t step);

/* ---------------------------------------------------------------------------------------- AdamW */

/* Adam (Kingma and Ba 2015) with decay that does not go through the moments (Loshchilov and Hutter,
 * Decoupled weight decay regularization, 2019). */
struct adamw {
    double first_decay, second_decay, epsilon; /* 0.9, 0.95, 1e-8 */
    double weight_decay;                       /* of matrices alone */
};

/* Moments begin with zeros. */
struct moments {
    real *first, *second;
};

/* One step for the elements `range`: `weights` and `gradients` are the whole flat arrays, `moments`
 * begin with the range's first element. Elements below `decayed` are those of matrices. `step`
 * counts from 0. */
void adamw_step(const struct adamw *adamw, uint64_t step, double rate, real clip, size_t decayed,
                struct range range, const real *gradients, struct moments moments, real *weights);

#endif
