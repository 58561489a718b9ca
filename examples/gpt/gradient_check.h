/* gradient_check.h - the backward pass, compared with the forward pass: each derivative is also a
 * difference of losses. */
#ifndef GPT_GRADIENT_CHECK_H
#define GPT_GRADIENT_CHECK_H

#include <stdio.h>

#include "trainer.h"

/* For every tensor, compares the derivative along a random direction and along some single elements
 * with the loss's central differences. Prints a line for each tensor unless the file is NULL;
 * returns the largest relative error. Expects double, in which about 9 digits agree. Changes the
 * trainer's gradients; the weights are as before. */
double gradient_check(struct trainer *trainer, uint64_t step, FILE *file);

#endif
