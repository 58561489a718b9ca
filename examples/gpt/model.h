/* model.h - a decoder-only transformer, or a part of one.
 *
 *     tokens ─ embedding ─ dropout ─┬────────────────────────────+─┬──────────────────────+─ ... ─ norm ─ head ─ loss
 *                                   └ norm ─ attention ─ dropout ┘ └ norm ─ MLP ─ dropout ┘
 *                                   |<───────────────────── a layer ─────────────────────>|
 *
 * The stream goes from layer to layer: a row of `width` numbers for each token. A part that does not begin with
 * the embedding is given the stream, one that does not end with the head gives it on; so a part is a pipeline stage.
 *
 * 1. One micro-batch goes forward, later backward, with a `struct saved` of its own; as many as there are of these may
 *    be on their way.
 * 2. Gradients of micro-batches add up in model->gradients until the caller clears them.
 * 3. The model draws no random numbers from a state and asks no clock: results depend on the arguments alone.
 * 4. Nothing is allocated after model_create and saved_create.
 */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H

#include "attention.h"
#include "layers.h"
#include "parameters.h"

struct model_options {
    struct shape shape;
    struct part part;
    size_t samples_max; /* of a micro-batch */
    uint64_t seed;      /* of first values and dropout */
    real dropout;       /* rate */
    bool recompute; /* keep only the stream between layers, run each layer's forward pass again before its backward pass */
    const struct exchange *exchange; /* borrowed; exchange_alone where matrices are whole */
};

/* Samples that go through the model together. */
struct batch {
    size_t samples;
    const uint32_t *inputs, *targets; /* [samples x context] */
    const uint64_t *numbers;          /* the samples' global numbers, for dropout */
    uint64_t step;                    /* for dropout */
    bool training;                    /* false: no dropout */
};

/* The weights of a layer, or their gradients: where they lie in the flat array. */
struct layer_tensors {
    real *attention_norm, *mlp_norm;
    struct attention_weights attention;
    struct mlp_weights mlp;
};

struct model {
    struct model_options options;
    struct parameters parameters; /* the table of both arrays */
    real *weights, *gradients;
    struct workspace *workspace; /* of the model's own */
};

/* With first values, and gradients of zero. */
struct model *model_create(const struct model_options *options);
void model_free(struct model *model);

/* The activations that a micro-batch's backward pass needs. */
struct saved;
struct saved *saved_create(const struct model *model);
void saved_free(struct saved *saved);

/* Rows of the stream that are here: all of a micro-batch's, or, where rows are split, this rank's. */
struct range model_rows(const struct model *model, size_t samples);

/* Runs the part. `stream` [rows here x width] is read if the part does not begin with the embedding, and written if it
 * does not end with the head; otherwise it may be NULL. Returns the sum of the loss over all tokens, in nats, or 0
 * where there is no head. */
double model_forward(struct model *model, const struct batch *batch, struct saved *saved,
                     real *stream);

/* Adds gradients of `scale` times the loss. `stream_gradient` is read if the part does not end with the head, and
 * written if it does not begin with the embedding. Uses up what was saved. */
void model_backward(struct model *model, const struct batch *batch, struct saved *saved, real scale,
                    real *stream_gradient);

/* The probabilities of the next token after model_forward: [rows x tokens of the vocabulary here]. */
const real *saved_probabilities(const struct saved *saved);

/* Bytes of the model and of one micro-batch on its way, for a report. */
size_t model_bytes(const struct model *model);

#endif
