/* attention.h - causal attention of several heads, with rotary positions, for any consecutive heads
 * of a layer.
 *
 *     input ──► query ──► rotate ──┐
 *       ├─────► key ────► rotate ──┴─► softmax of the earlier positions' products ──┐
 *       └─────► value ───────────────────────────────────────────────────────────── mix ──► output ──► summand
 *
 * Rotary positions (Su et al., RoFormer, 2021) turn each pair of features (i, i + size / 2) of a
 * head by the position times 10000^(-2i / size); so products of queries and keys depend on
 * distances alone. The paper pairs neighbours, which is the same but for the order of features.
 *
 * Cost for each token and head: 4 products with [width x size], 2 with [context x size], of which
 * half is masked and a quarter to a half is left out, block by block.
 */
#ifndef GPT_ATTENTION_H
#define GPT_ATTENTION_H

#include "real.h"

struct attention {
    size_t width;
    size_t context;       /* tokens of a sample */
    size_t head_size;     /* even */
    size_t heads;         /* that are here */
    const real *rotation; /* attention_rotation's */
};

/* [width x heads * head_size]; the output is [heads * head_size x width]. */
struct attention_weights {
    real *query, *key, *value, *output;
};

/* The activations that the backward pass needs. */
struct attention_saved {
    real *query, *key, *value; /* [rows x heads * head_size]; queries and keys as they were turned */
    real *mixed;               /* [rows x heads * head_size] */
    real *shares; /* [samples x heads x context x context], of each value; above the diagonal 0 or unset */
};

/* Room for the backward pass while it runs. */
struct attention_scratch {
    real *query, *key, *value, *mixed; /* gradients, as above */
    real *shares;                      /* [context x context] */
};

/* Writes cosines and sines for all positions: context * head_size numbers. */
void attention_rotation(size_t context, size_t head_size, real *rotation);

/* `input` and `output` are [samples * context x width]. The output is the summand of these
 * heads. */
void attention_forward(const struct attention *attention, const struct attention_weights *weights,
                       const real *input, size_t samples, const struct attention_saved *saved,
                       real *output);

/* Adds to the gradients of the weights; sets the gradient of the input, to the summand of these
 * heads. */
void attention_backward(const struct attention *attention, const struct attention_weights *weights,
                        const real *input, const struct attention_saved *saved,
                        const real *output_gradient, size_t samples,
                        const struct attention_scratch *scratch,
                        const struct attention_weights *gradients, real *input_gradient);

#endif
