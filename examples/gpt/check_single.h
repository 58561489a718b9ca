/* check_single.h - what ranks computed together, compared with what one process computes alone. */
#ifndef GPT_CHECK_SINGLE_H
#define GPT_CHECK_SINGLE_H

#include <stdio.h>

#include "trainer.h"

/* Trains once more, in this process. Prints the largest difference of a tensor from this, relative to the tensor's length,
 * and of a step's loss; returns whether both are as small as rounding makes them. */
bool check_single(const struct trainer_options *options, const struct data *data,
                  const struct model *whole, const double *losses, FILE *file);

#endif
