/* adapt_model.h - the model that examples/adapt trains: a network with one hidden layer, which learns the
 * function of another such network, whose values come with noise. Small, so that its losses are
 * computed in an instant; the program sleeps in place of a larger model.
 */
#ifndef EXAMPLES_ADAPT_MODEL_H
#define EXAMPLES_ADAPT_MODEL_H

#include <stdint.h>

enum { INPUTS = 16, HIDDEN = 64 };
enum { FIRST_LAYER = (INPUTS + 1) * HIDDEN, SECOND_LAYER = HIDDEN + 1 };
enum { PARAMETERS = FIRST_LAYER + SECOND_LAYER };

/* The first parameters, the same for all. */
void model_begin(float *parameters);
/* The mean gradient of `count` samples, from number `first` on, which overwrites `gradient`. */
void model_gradient(const float *parameters, uint64_t first, uint64_t count, float *gradient);
/* The mean loss on samples without noise, on which nobody trains. */
double model_judge(const float *parameters);

#endif
