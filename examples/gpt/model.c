/* model.c - a micro-batch's way through a part of the model, forward and backward. */
#include "model_state.h"

/* --------------------------------------------------------------------------------- small things */

static void drop(const struct model *model, const struct batch *batch, size_t layer,
                 enum dropout_place place, struct range here, real *values)
{
    const struct model_options *options = &model->options;
    if (!batch->training || options->dropout == 0) return;
    const struct dropout dropout = {.rate = options->dropout,
                                    .key = dropout_key(options->seed, batch->step, layer, place),
                                    .numbers = batch->numbers,
                                    .context = options->shape.context};
    dropout_apply(&dropout, here, options->shape.width, values);
}

static void gather_rows(const struct model *model, real *all, size_t rows)
{
    const struct exchange *exchange = model->options.exchange;
    exchange->gather_rows(all, rows, model->options.shape.width, exchange->context);
}

static void sum_rows(const struct model *model, real *all, size_t rows)
{
    const struct exchange *exchange = model->options.exchange;
    exchange->sum_rows(all, rows, model->options.shape.width, exchange->context);
}

/* -------------------------------------------------------------------------------------- a layer */

/* The end of a branch, forward: its summands are added up, some of the sum is dropped, the rest
 * joins the stream. */
static void join(const struct model *model, const struct batch *batch, size_t layer,
                 enum dropout_place place, const real *stream, real *sum)
{
    const size_t width = model->options.shape.width;
    const struct range here = model_rows(model, batch->samples);
    real *branch = model->workspace->branch;
    sum_rows(model, branch, batch->samples * model->options.shape.context);
    branch += here.first * width;
    drop(model, batch, layer, place, here, branch);
    for (size_t i = 0; i < here.count * width; i++) sum[i] = stream[i] + branch[i];
}

/* The end of a branch, backward: brings the stream's gradient to the slices, in
 * workspace->branch. */
static void join_backward(const struct model *model, const struct batch *batch, size_t layer,
                          enum dropout_place place, const real *stream_gradient)
{
    const size_t width = model->options.shape.width;
    const struct range here = model_rows(model, batch->samples);
    real *branch = model->workspace->branch + here.first * width;
    memcpy(branch, stream_gradient, here.count * width * sizeof *branch);
    drop(model, batch, layer, place, here, branch);
    gather_rows(model, model->workspace->branch, batch->samples * model->options.shape.context);
}

/* The beginning of a branch, forward. */
static void normalise(const struct model *model, const struct batch *batch, const real *stream,
                      const real *gain, real *inverse_rms, real *output)
{
    const size_t width = model->options.shape.width;
    const struct range here = model_rows(model, batch->samples);
    norm_forward(stream, gain, here.count, width, inverse_rms, output + here.first * width);
    gather_rows(model, output, batch->samples * model->options.shape.context);
}

/* The beginning of a branch, backward: from the slices' summands in workspace->branch_gradient. */
static void normalise_backward(const struct model *model, const struct batch *batch,
                               const real *stream, const real *gain, const real *inverse_rms,
                               real *gain_gradient, real *stream_gradient)
{
    const size_t width = model->options.shape.width;
    const struct range here = model_rows(model, batch->samples);
    real *gradient = model->workspace->branch_gradient;
    sum_rows(model, gradient, batch->samples * model->options.shape.context);
    norm_backward(stream, gain, inverse_rms, gradient + here.first * width, here.count, width,
                  gain_gradient, stream_gradient);
}

/* The input of attention or MLP, all rows of it: in `kept` for the backward pass, or where it is
 * gathered again, only while it is in use; then `kept` gets the rows here. */
static const real *normalise_and_keep(const struct model *model, const struct batch *batch,
                                      const real *stream, const real *gain, real *inverse_rms,
                                      real *kept)
{
    const size_t width = model->options.shape.width;
    const struct range here = model_rows(model, batch->samples);
    real *all = model->options.gather_again ? model->workspace->gathered : kept;
    normalise(model, batch, stream, gain, inverse_rms, all);
    if (all != kept) memcpy(kept, all + here.first * width, here.count * width * sizeof *kept);
    return all;
}

/* The same input in the backward pass. */
static const real *bring_back(const struct model *model, const struct batch *batch, const real *kept)
{
    const size_t width = model->options.shape.width;
    const struct range here = model_rows(model, batch->samples);
    real *all = model->workspace->gathered;
    if (!model->options.gather_again) return kept;
    memcpy(all + here.first * width, kept, here.count * width * sizeof *kept);
    gather_rows(model, all, batch->samples * model->options.shape.context);
    return all;
}

static void layer_forward(const struct model *model, const struct batch *batch, size_t index,
                          const real *input, const struct layer_saved *saved, real *output)
{
    const struct workspace *space = model->workspace;
    const struct layer_tensors *weights = &space->weights[index];
    const size_t layer = model->options.part.layers.first + index;
    const size_t width = model->options.shape.width;

    const real *all = normalise_and_keep(model, batch, input, weights->attention_norm,
                                         saved->attention_rms, saved->attention_input);
    attention_forward(&space->attention, &weights->attention, all, batch->samples,
                      &saved->attention, space->branch);
    join(model, batch, layer, DROPOUT_ATTENTION, input, saved->middle);

    all = normalise_and_keep(model, batch, saved->middle, weights->mlp_norm, saved->mlp_rms,
                             saved->mlp_input);
    mlp_forward(&weights->mlp, all, batch->samples * model->options.shape.context, width,
                space->hidden, &saved->mlp, space->branch);
    join(model, batch, layer, DROPOUT_MLP, saved->middle, output);
}

/* Turns the gradient of the layer's output into that of its input. */
static void layer_backward(const struct model *model, const struct batch *batch, size_t index,
                           const real *input, const struct layer_saved *saved, real *stream_gradient)
{
    const struct workspace *space = model->workspace;
    const struct layer_tensors *weights = &space->weights[index];
    const struct layer_tensors *gradients = &space->gradients[index];
    const size_t layer = model->options.part.layers.first + index;
    const size_t width = model->options.shape.width;

    join_backward(model, batch, layer, DROPOUT_MLP, stream_gradient);
    mlp_backward(&weights->mlp, bring_back(model, batch, saved->mlp_input), &saved->mlp,
                 space->branch, batch->samples * model->options.shape.context, width, space->hidden,
                 &space->mlp_scratch, &gradients->mlp, space->branch_gradient);
    normalise_backward(model, batch, saved->middle, weights->mlp_norm, saved->mlp_rms,
                       gradients->mlp_norm, stream_gradient);

    join_backward(model, batch, layer, DROPOUT_ATTENTION, stream_gradient);
    attention_backward(&space->attention, &weights->attention,
                       bring_back(model, batch, saved->attention_input), &saved->attention,
                       space->branch, batch->samples, &space->attention_scratch,
                       &gradients->attention, space->branch_gradient);
    normalise_backward(model, batch, input, weights->attention_norm, saved->attention_rms,
                       gradients->attention_norm, stream_gradient);
}

/* ------------------------------------------------------------------------------------ both ends */

static void begin_forward(const struct model *model, const struct batch *batch, real *stream)
{
    const size_t rows = batch->samples * model->options.shape.context;
    const size_t width = model->options.shape.width;
    const struct workspace *space = model->workspace;
    const struct range here = model_rows(model, batch->samples);
    timeline_begin(model->options.timeline, DOING_EMBEDDING, 0);
    embedding_forward(batch->inputs, rows, space->embedding, space->vocabulary, width,
                      space->branch);
    sum_rows(model, space->branch, rows);
    memcpy(stream, space->branch + here.first * width, here.count * width * sizeof *stream);
    drop(model, batch, 0, DROPOUT_EMBEDDING, here, stream);
    timeline_end(model->options.timeline);
}

static void begin_backward(const struct model *model, const struct batch *batch,
                           const real *stream_gradient)
{
    const struct workspace *space = model->workspace;
    timeline_begin(model->options.timeline, DOING_EMBEDDING_BACKWARD, 0);
    join_backward(model, batch, 0, DROPOUT_EMBEDDING, stream_gradient);
    embedding_backward(batch->inputs, space->branch, batch->samples * model->options.shape.context,
                       space->vocabulary, model->options.shape.width, space->embedding_gradient);
    timeline_end(model->options.timeline);
}

static double end_forward(const struct model *model, const struct batch *batch,
                          const struct saved *saved, const real *stream)
{
    const struct workspace *space = model->workspace;
    timeline_begin(model->options.timeline, DOING_HEAD, 0);
    normalise(model, batch, stream, space->final_norm, saved->head_rms, saved->head_input);
    const double loss = head_forward(
        space->head, saved->head_input, batch->targets,
        batch->samples * model->options.shape.context, model->options.shape.width,
        space->vocabulary, model->options.exchange, space->head_scratch, saved->probabilities);
    timeline_end(model->options.timeline);
    return loss;
}

static void end_backward(const struct model *model, const struct batch *batch,
                         const struct saved *saved, const real *stream, real scale,
                         real *stream_gradient)
{
    const struct workspace *space = model->workspace;
    const size_t width = model->options.shape.width;
    timeline_begin(model->options.timeline, DOING_HEAD_BACKWARD, 0);
    head_backward(space->head, saved->head_input, batch->targets,
                  batch->samples * model->options.shape.context, width, space->vocabulary, scale,
                  saved->probabilities, space->head_gradient, space->branch_gradient);
    memset(stream_gradient, 0,
           model_rows(model, batch->samples).count * width * sizeof *stream_gradient);
    normalise_backward(model, batch, stream, space->final_norm, saved->head_rms,
                       space->final_norm_gradient, stream_gradient);
    timeline_end(model->options.timeline);
}

/* -------------------------------------------------------------------------------- the whole way */

/* The place of the activations that a layer's backward pass needs. */
static const struct layer_saved *place_of(const struct model *model, const struct saved *saved,
                                          size_t index)
{
    return saved->layers != NULL ? &saved->layers[index] : &model->workspace->again;
}

/* Brings a group's weights here, and in the backward pass its gradients. */
static void take(const struct model *model, enum holder_pass pass, int group)
{
    const struct holder *holder = model->options.holder;
    const size_t index = (size_t)group;
    if (holder == NULL || group == GROUP_NONE) return;
    model_place(model, index, false, holder->acquire(pass, index, holder->context));
    if (pass == HOLDER_BACKWARD)
        model_place(model, index, true, holder->gradient(index, holder->context));
}

static void leave(const struct model *model, enum holder_pass pass, int group)
{
    const struct holder *holder = model->options.holder;
    const size_t index = (size_t)group;
    if (holder == NULL || group == GROUP_NONE) return;
    if (pass == HOLDER_BACKWARD) holder->ready(index, holder->context);
    holder->release(index, holder->context);
}

static int layer_group(const struct model *model, size_t index)
{
    return model->parameters.layers_group + (int)index;
}

/* The groups of both ends: where one matrix is both, it is taken at the first use and left at the
 * last. */
static int first_group(const struct model *model)
{
    return part_has_embedding(&model->options.part) ? model->parameters.embedding_group : GROUP_NONE;
}

static int last_group(const struct model *model)
{
    const struct shape *shape = &model->options.shape;
    if (!part_has_head(shape, &model->options.part)) return GROUP_NONE;
    return shape->tied ? model->parameters.embedding_group : model->parameters.head_group;
}

double model_forward(struct model *model, const struct batch *batch, struct saved *saved,
                     const real *input, real *output)
{
    const struct part *part = &model->options.part;
    const int first = first_group(model), last = last_group(model);
    const size_t layers = part->layers.count, width = model->options.shape.width;
    const size_t bytes = model_rows(model, batch->samples).count * width * sizeof(real);
    struct timeline *timeline = model->options.timeline;
    double loss = 0;

    take(model, HOLDER_FORWARD, GROUP_GAINS);
    take(model, HOLDER_FORWARD, first);
    if (first != GROUP_NONE)
        begin_forward(model, batch, saved->streams[0]);
    else
        memcpy(saved->streams[0], input, bytes);
    if (first != last) leave(model, HOLDER_FORWARD, first);
    for (size_t i = 0; i < layers; i++) {
        take(model, HOLDER_FORWARD, layer_group(model, i));
        timeline_begin(timeline, DOING_LAYER, part->layers.first + i);
        layer_forward(model, batch, i, saved->streams[i], place_of(model, saved, i),
                      saved->streams[i + 1]);
        timeline_end(timeline);
        leave(model, HOLDER_FORWARD, layer_group(model, i));
    }
    if (first != last) take(model, HOLDER_FORWARD, last);
    if (last != GROUP_NONE)
        loss = end_forward(model, batch, saved, saved->streams[layers]);
    else
        memcpy(output, saved->streams[layers], bytes);
    leave(model, HOLDER_FORWARD, last);
    leave(model, HOLDER_FORWARD, GROUP_GAINS);
    return loss;
}

void model_backward(struct model *model, const struct batch *batch, struct saved *saved, real scale,
                    const real *output_gradient, real *input_gradient)
{
    const struct part *part = &model->options.part;
    const int first = first_group(model), last = last_group(model);
    const size_t layers = part->layers.count, width = model->options.shape.width;
    const size_t bytes = model_rows(model, batch->samples).count * width * sizeof(real);
    real *gradient = model->workspace->stream_gradient;
    struct timeline *timeline = model->options.timeline;

    take(model, HOLDER_BACKWARD, last);
    take(model, HOLDER_BACKWARD, GROUP_GAINS);
    if (last != GROUP_NONE)
        end_backward(model, batch, saved, saved->streams[layers], scale, gradient);
    else
        memcpy(gradient, output_gradient, bytes);
    if (first != last) leave(model, HOLDER_BACKWARD, last);
    for (size_t i = layers; i-- > 0;) {
        const struct layer_saved *kept = place_of(model, saved, i);
        take(model, HOLDER_BACKWARD, layer_group(model, i));
        if (saved->layers == NULL) { /* the output is there already, and becomes the same again */
            timeline_begin(timeline, DOING_LAYER_AGAIN, part->layers.first + i);
            layer_forward(model, batch, i, saved->streams[i], kept, saved->streams[i + 1]);
            timeline_end(timeline);
        }
        timeline_begin(timeline, DOING_LAYER_BACKWARD, part->layers.first + i);
        layer_backward(model, batch, i, saved->streams[i], kept, gradient);
        timeline_end(timeline);
        leave(model, HOLDER_BACKWARD, layer_group(model, i));
    }
    if (first != last) take(model, HOLDER_BACKWARD, first);
    if (first != GROUP_NONE)
        begin_backward(model, batch, gradient);
    else
        memcpy(input_gradient, gradient, bytes);
    leave(model, HOLDER_BACKWARD, first);
    leave(model, HOLDER_BACKWARD, GROUP_GAINS);
}
