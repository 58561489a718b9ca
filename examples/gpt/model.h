/* model.h - a decoder-only transformer, or a part of one.
 *
 *     tokens ─ embedding ─ dropout ─┬────────────────────────────+─┬──────────────────────+─ ... ─ norm ─ head ─ loss
 *                                   └ norm ─ attention ─ dropout ┘ └ norm ─ MLP ─ dropout ┘
 *                                   |<───────────────────── a layer ─────────────────────>|
 *
 * The stream goes from layer to layer: a row of `width` numbers for each token. A part that does
 * not begin with the embedding is given the stream, one that does not end with the head gives it
 * on; so a part is a pipeline stage.
 *
 * 1. One micro-batch goes forward, later backward, with a `struct saved` of its own; as many as
 *    there are of these may be on their way.
 * 2. Gradients of micro-batches add up in model->gradients until the caller clears them.
 * 3. The model draws no random numbers from a state and asks no clock: results depend on the
 *    arguments alone.
 * 4. Nothing is allocated after model_create and saved_create.
 */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H

#include "attention.h"
#include "layers.h"
#include "parameters.h"
#include "timeline.h"

/* The holder of the parameters. Without a holder the model has them itself, in two flat arrays.
 * With one it asks for each group (parameters.h) when it needs it:
 *
 *     forward     acquire ── uses weights ── release
 *     backward    acquire, gradient ── uses weights, adds to gradients ── ready, release
 *
 * A group is asked for once in each pass, forward in the order embedding, layers, head, and
 * backward the other way round; but a part that has a tied embedding at both its ends keeps it from
 * the first use to the last, and gains are there all the time. Every function succeeds, or does not
 * return. */
enum holder_pass { HOLDER_FORWARD, HOLDER_BACKWARD };
struct holder {
    real *(*acquire)(enum holder_pass pass, size_t group, void *context);
    void (*release)(size_t group, void *context);
    real *(*gradient)(size_t group, void *context);
    void (*ready)(size_t group, void *context); /* with the micro-batch's gradients */
    void *context;
};

struct model_options {
    struct shape shape;
    struct part part;
    size_t samples_max; /* of a micro-batch */
    uint64_t seed;      /* of first values and dropout */
    real dropout;       /* rate */
    bool recompute; /* keep only the stream between layers, run each layer's forward pass again before its backward pass */
    /* With split rows: of the input of attention and MLP keep only the rows here, and gather the
     * others again in the backward pass. */
    bool gather_again;
    const struct exchange *exchange; /* borrowed; exchange_alone where matrices are whole */
    const struct holder *holder;     /* borrowed; NULL: none */
    struct timeline *timeline;       /* borrowed; NULL: nobody watches */
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
    real *weights, *gradients;    /* NULL with a holder */
    struct workspace *workspace;  /* of the model's own */
};

/* With first values, and gradients of zero. */
struct model *model_create(const struct model_options *options);
void model_free(struct model *model);

/* The activations that a micro-batch's backward pass needs. */
struct saved;
struct saved *saved_create(const struct model *model);
void saved_free(struct saved *saved);

/* Rows of the stream that are here: all of a micro-batch's, or, where rows are split, this
 * rank's. */
struct range model_rows(const struct model *model, size_t samples);

/* Runs the part. `input`, the stream [rows here x width], is NULL if the part begins with the
 * embedding; `output`, the same behind the part, is NULL if it ends with the head. They may be one.
 * Returns the sum of the loss over all tokens, in nats, or 0 where there is no head. */
double model_forward(struct model *model, const struct batch *batch, struct saved *saved,
                     const real *input, real *output);

/* Adds gradients of `scale` times the loss. `output_gradient` and `input_gradient` are those of the
 * stream behind and before the part, or NULL as above. Uses up what was saved. */
void model_backward(struct model *model, const struct batch *batch, struct saved *saved, real scale,
                    const real *output_gradient, real *input_gradient);

/* The probabilities of the next token after model_forward: [rows x tokens of the vocabulary
 * here]. */
const real *saved_probabilities(const struct saved *saved);

/* Bytes of the model and of one micro-batch on its way, for a report. */
size_t model_bytes(const struct model *model);

#endif
