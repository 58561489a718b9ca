/* shards_update.h - the arithmetic of an optimizer's step, element by element, in the dtype of the
 * optimizer's state.
 *
 * In mixed precision, parameters and gradients are numbers of 16 bits, and the optimizer computes
 * in float32 with masters: it widens gradients before it computes, and rounds masters to parameters
 * afterwards.
 *
 * An element's result depends on its own numbers alone, to the last bit, whatever range it is
 * computed in: nothing is fused here.
 */
#ifndef TUTTI_TRAIN_SHARDS_UPDATE_H
#define TUTTI_TRAIN_SHARDS_UPDATE_H

#include <stddef.h>

#include "tutti/train/shards.h"

/* The values that all elements of a step have in common. */
struct shards_update {
    enum tutti_shards_optimizer optimizer;
    double rate, weight_decay;
    double factor; /* of gradients */
    double first_decay, second_decay, epsilon;
    uint64_t step; /* from 0 */
};

/* A range of elements. */
struct shards_elements {
    size_t count;
    enum tutti_dtype state_dtype;    /* of moments and masters: FLOAT32 or FLOAT64 */
    enum tutti_dtype gradient_dtype; /* the same, or of 16 bits */
    enum tutti_dtype dtype;          /* of parameters: the same, or of 16 bits */
    const void *gradients;
    void *first, *second; /* moments; second may be NULL for SGD */
    float *masters;       /* NULL: parameters are what is computed with */
    void *parameters;
};

/* With g = factor * gradient, and t = step + 1:
 *     AdamW   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
 *             w = w - rate (decay w + (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon))     Loshchilov and Hutter 2019
 *     SGD     m = b1 m + g,  w = w - rate (decay w + m) */
void shards_update(const struct shards_update *update, const struct shards_elements *elements);

/* sum += more, or, with is_first, sum = more. With 16 bits each sum is rounded. */
void shards_add(enum tutti_dtype dtype, size_t count, int is_first, const void *more, void *sum);

#endif
