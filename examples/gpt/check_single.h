/* check_single.h - what ranks computed together, compared with what one process computes alone. */
#ifndef GPT_CHECK_SINGLE_H
#define GPT_CHECK_SINGLE_H

#include <stdio.h>

#include "shards_holder.h"
#include "trainer.h"

/* Trains once more, in this process, with weights of type real. Prints the largest difference of a
 * tensor from this, relative to the tensor's length, and of a step's loss; returns whether both are
 * as small as rounding makes them, that of the ranks' dtype included. A loss of 0 is not compared:
 * it is of a step before the run went on from a checkpoint. */
bool check_single(const struct trainer_options *options, enum weight_dtype dtype,
                  const struct data *data, const struct model *whole, const double *losses,
                  FILE *file);

#endif
