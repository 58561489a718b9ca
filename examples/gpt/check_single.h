/* check_single.h - what ranks computed together, compared with what one process computes alone. */
#ifndef GPT_CHECK_SINGLE_H
#define GPT_CHECK_SINGLE_H

#include <stdio.h>

#include "parallel.h"

/* Trains once more, in this process, with weights of type real, and without compression. Prints the
 * largest difference of a tensor from this, relative to the tensor's length, and of a step's loss;
 * returns whether both are as small as rounding makes them, that of the ranks' dtype included. With
 * compressed gradients weights differ by far more than rounding: then the mean loss of the last
 * quarter of the steps must not differ by more than CHECK_COMPRESSED_MAX. A loss of 0 is not
 * compared: it is of a step before the run went on from a checkpoint. */
#define CHECK_COMPRESSED_MAX 0.1
bool check_single(const struct trainer_options *options, const struct parallel_options *parallel,
                  const struct data *data, const struct model *whole, const double *losses,
                  FILE *file);

#endif
