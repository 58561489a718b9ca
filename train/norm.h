/* norm.h - the Euclidean norm of gradients, scaling them, for every dtype that is a float; and whether
 * numbers are finite. */
#ifndef TUTTI_TRAIN_NORM_H
#define TUTTI_TRAIN_NORM_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

/* In float64. dtype is a float. */
double norm_square_sum(const void *data, size_t count, enum tutti_dtype dtype);
/* Products are rounded once, to the nearest value of the dtype. */
void norm_scale(void *data, size_t count, enum tutti_dtype dtype, double factor);
/* Whether none of the numbers is NaN or infinite. */
bool norm_is_finite(const float *numbers, size_t count);

#endif
