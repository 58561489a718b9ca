/* model_state.h - what the files of the model share: where everything lies that a micro-batch
 * passes. */
#ifndef GPT_MODEL_STATE_H
#define GPT_MODEL_STATE_H

#include "model.h"

/* The activations that a layer's backward pass needs. Rows "here" are this rank's (exchange.h). */
struct layer_saved {
    real *attention_rms,
        *attention_input; /* [rows here], [rows x width], or [rows here x width] to gather again */
    struct attention_saved attention;
    real *middle; /* [rows here x width]: the stream between attention and MLP */
    real *mlp_rms, *mlp_input;
    struct mlp_saved mlp;
};

struct saved {
    real *memory;
    real **streams; /* [layers here + 1], [rows here x width] each: the input of each layer, and the output of the last one */
    struct layer_saved *layers; /* [layers here], or NULL if they are computed again */
    real *head_rms, *head_input, *probabilities;
};

struct workspace {
    real *memory;
    size_t bytes, saved_bytes;                 /* its own, and of each `struct saved` */
    struct layer_tensors *weights, *gradients; /* [layers here] */
    real *embedding, *embedding_gradient, *head, *head_gradient, *final_norm, *final_norm_gradient;
    struct range vocabulary; /* tokens that are here */
    struct attention attention;
    size_t hidden; /* columns of the MLP that are here */
    real *rotation;
    real *branch, *branch_gradient; /* [rows x width] */
    real *stream_gradient;          /* [rows here x width] */
    real *gathered; /* [rows x width], the input of attention or MLP while it is in use; NULL: kept whole */
    real *head_scratch;
    struct attention_scratch attention_scratch;
    struct mlp_saved mlp_scratch;
    struct layer_saved again; /* of the layer that was computed again */
};

/* Says where a group's weights, or gradients, lie from now on. */
void model_place(const struct model *model, size_t group, bool are_gradients, real *values);

#endif
