/* layers.h - what a transformer is made of, each part with its forward and its backward pass,
 * written by hand.
 *
 * Matrices lie in rows, one row for each token. Every function names all that it reads and writes,
 * so that a caller may keep what the backward pass needs, or drop it and run the forward pass once
 * more. Nothing here allocates.
 *
 * 1. In the backward pass, gradients of weights are added to; so is the gradient of a norm's input,
 *    which the residual stream goes around. All other results are set.
 * 2. Where a function takes the slice of a matrix, its result, forward the output and back the
 *    gradient of its input, is one summand: all slices' summands together are the result
 *    (exchange.h).
 */
#ifndef GPT_LAYERS_H
#define GPT_LAYERS_H

#include "exchange.h"
#include "parameters.h"
#include "real.h"

/* ----------------------------------------------------------------------------------------- norm */

/* Root mean square normalisation (Zhang and Sennrich 2019): output = gain * input / rms(input), row
 * by row. The backward pass needs 1 / rms of each row. */
void norm_forward(const real *input, const real *gain, size_t rows, size_t width, real *inverse_rms,
                  real *output);

/* With x the input, r = 1 / rms and n the width:  dx += r g dy - x (r^3 / n) sum(g dy x),  dg += r x dy. */
void norm_backward(const real *input, const real *gain, const real *inverse_rms,
                   const real *output_gradient, size_t rows, size_t width, real *gain_gradient,
                   real *input_gradient);

/* -------------------------------------------------------------------------------------- dropout */

/* Where in a layer. */
enum dropout_place { DROPOUT_EMBEDDING, DROPOUT_ATTENTION, DROPOUT_MLP, DROPOUT_PLACES };

/* The rows' samples: row r is position r % context of the sample numbers[r / context]. */
struct dropout {
    real rate;    /* 0: nothing is dropped */
    uint64_t key; /* of this seed, step, layer and place: dropout_key */
    const uint64_t *numbers;
    size_t context;
};

uint64_t dropout_key(uint64_t seed, uint64_t step, size_t layer, enum dropout_place place);

/* Of the rows `range`, which `values` begins with, sets elements to 0 and divides the others by 1 -
 * rate. The same elements each time, so gradients pass through it as values did. */
void dropout_apply(const struct dropout *dropout, struct range range, size_t width, real *values);

/* ------------------------------------------------------------------------------------ embedding */

/* `slice` says for which tokens the embedding's rows are here; other tokens give zeros. */
void embedding_forward(const uint32_t *tokens, size_t rows, const real *embedding,
                       struct range slice, size_t width, real *output);
void embedding_backward(const uint32_t *tokens, const real *output_gradient, size_t rows,
                        struct range slice, size_t width, real *embedding_gradient);

/* ------------------------------------------------------------------------------------------ MLP */

/* SwiGLU (Shazeer, GLU variants improve transformer, 2020): output = (silu(input gate) * (input
 * up)) down, with silu(x) = x / (1 + e^-x). The weights' columns (of down: rows) may be a slice of
 * the whole MLP's. */
struct mlp_weights {
    real *gate, *up, *down;
};

/* [rows x hidden] each. */
struct mlp_saved {
    real *gate, *up; /* before silu and the product */
    real *product;
};

void mlp_forward(const struct mlp_weights *weights, const real *input, size_t rows, size_t width,
                 size_t hidden, const struct mlp_saved *saved, real *output);

/* `scratch` is as large as what is saved. */
void mlp_backward(const struct mlp_weights *weights, const real *input,
                  const struct mlp_saved *saved, const real *output_gradient, size_t rows,
                  size_t width, size_t hidden, const struct mlp_saved *scratch,
                  const struct mlp_weights *gradients, real *input_gradient);

/* ----------------------------------------------------------------------------------------- head */

/* Softmax over the vocabulary and cross entropy. `slice` says which tokens' rows of the head are
 * here. Writes the probabilities of these tokens, [rows x slice.count]; returns the sum over rows
 * of the loss, in nats, the same on all tensor-parallel ranks. `scratch` has 3 numbers for each
 * row. */
double head_forward(const real *head, const real *input, const uint32_t *targets, size_t rows,
                    size_t width, struct range slice, const struct exchange *exchange,
                    real *scratch, real *probabilities);

/* Gradients of `scale` times the loss. Uses the probabilities up: they become the gradient of the
 * logits. */
void head_backward(const real *head, const real *input, const uint32_t *targets, size_t rows,
                   size_t width, struct range slice, real scale, real *probabilities,
                   real *head_gradient, real *input_gradient);

#endif
