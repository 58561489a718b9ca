/* model_memory.c - the life of a model: its tensors, and memory for all that passes through it
 * (model.h). */
#include "give_up.h"
#include "model_state.h"

/* Hands out a block piece by piece; without a block it only counts. */
struct arena {
    real *base;
    size_t used;
};

static real *take(struct arena *arena, size_t count)
{
    real *piece = arena->base != NULL ? arena->base + arena->used : NULL;
    arena->used += (count + 15) / 16 * 16;
    return piece;
}

static real *allocate_reals(size_t count)
{
    const size_t bytes = (count * sizeof(real) + 63) / 64 * 64;
    real *memory = aligned_alloc(64, bytes > 0 ? bytes : 64);
    if (memory == NULL) give_up("memory", strerror(errno));
    memset(memory, 0, bytes);
    return memory;
}

struct range model_rows(const struct model *model, size_t samples)
{
    const struct part *part = &model->options.part;
    const size_t rows = samples * model->options.shape.context;
    return part->rows_split ? range_share(rows, part->tensor_index, part->tensor_count)
                            : (struct range){0, rows};
}

/* The most rows of a micro-batch, and how many of them are here. */
static size_t rows_max(const struct model *model)
{
    return model->options.samples_max * model->options.shape.context;
}

static size_t here_max(const struct model *model)
{
    return model_rows(model, model->options.samples_max).count;
}

static void lay_out_mlp(const struct model *model, struct arena *arena, struct mlp_saved *saved)
{
    const size_t count = rows_max(model) * model->workspace->hidden;
    saved->gate = take(arena, count);
    saved->up = take(arena, count);
    saved->product = take(arena, count);
}

static void lay_out_layer(const struct model *model, struct arena *arena, struct layer_saved *saved)
{
    const struct attention *attention = &model->workspace->attention;
    const size_t rows = rows_max(model), here = here_max(model), width = attention->width;
    const size_t features = attention->heads * attention->head_size;
    const size_t kept = model->options.gather_again ? here : rows;
    saved->attention_rms = take(arena, here);
    saved->attention_input = take(arena, kept * width);
    saved->attention.query = take(arena, rows * features);
    saved->attention.key = take(arena, rows * features);
    saved->attention.value = take(arena, rows * features);
    saved->attention.mixed = take(arena, rows * features);
    saved->attention.shares = take(arena, rows * attention->heads * attention->context);
    saved->middle = take(arena, here * width);
    saved->mlp_rms = take(arena, here);
    saved->mlp_input = take(arena, kept * width);
    lay_out_mlp(model, arena, &saved->mlp);
}

static void lay_out_workspace(const struct model *model, struct arena *arena)
{
    struct workspace *space = model->workspace;
    const struct attention *attention = &space->attention;
    const size_t rows = rows_max(model), width = attention->width;
    const size_t features = attention->heads * attention->head_size;
    space->rotation = take(arena, attention->context * attention->head_size);
    space->branch = take(arena, rows * width);
    space->branch_gradient = take(arena, rows * width);
    space->stream_gradient = take(arena, here_max(model) * width);
    if (model->options.gather_again) space->gathered = take(arena, rows * width);
    space->head_scratch = take(arena, 3 * rows);
    space->attention_scratch.query = take(arena, rows * features);
    space->attention_scratch.key = take(arena, rows * features);
    space->attention_scratch.value = take(arena, rows * features);
    space->attention_scratch.mixed = take(arena, rows * features);
    space->attention_scratch.shares = take(arena, attention->context * attention->context);
    lay_out_mlp(model, arena, &space->mlp_scratch);
    if (model->options.recompute) lay_out_layer(model, arena, &space->again);
}

static void lay_out_saved(const struct model *model, struct arena *arena, struct saved *saved)
{
    const struct shape *shape = &model->options.shape;
    const struct part *part = &model->options.part;
    const size_t rows = rows_max(model), here = here_max(model);
    for (size_t i = 0; i <= part->layers.count; i++)
        saved->streams[i] = take(arena, here * shape->width);
    if (saved->layers != NULL)
        for (size_t i = 0; i < part->layers.count; i++)
            lay_out_layer(model, arena, &saved->layers[i]);
    if (!part_has_head(shape, part)) return;
    saved->head_rms = take(arena, here);
    saved->head_input = take(arena, rows * shape->width);
    saved->probabilities = take(arena, rows * model->workspace->vocabulary.count);
}

struct saved *saved_create(const struct model *model)
{
    const size_t layers = model->options.part.layers.count;
    struct saved *saved = allocate(1, sizeof *saved);
    saved->streams = allocate(layers + 1, sizeof *saved->streams);
    if (!model->options.recompute) saved->layers = allocate(layers, sizeof *saved->layers);
    struct arena arena = {.base = NULL};
    lay_out_saved(model, &arena, saved);
    arena = (struct arena){.base = saved->memory = allocate_reals(arena.used)};
    lay_out_saved(model, &arena, saved);
    model->workspace->saved_bytes = arena.used * sizeof(real);
    return saved;
}

void saved_free(struct saved *saved)
{
    free(saved->memory);
    free(saved->streams);
    free(saved->layers);
    free(saved);
}

const real *saved_probabilities(const struct saved *saved)
{
    return saved->probabilities;
}

size_t model_bytes(const struct model *model)
{
    const size_t arrays = model->options.holder == NULL ? 2 : 0;
    return arrays * model->parameters.elements * sizeof(real) + model->workspace->bytes +
           model->workspace->saved_bytes;
}

/* ---------------------------------------------------------------------------------- the tensors */

/* Where the workspace says where a tensor lies. */
static real **place_of(const struct model *model, const struct tensor *tensor, bool are_gradients)
{
    struct workspace *space = model->workspace;
    const size_t first = model->options.part.layers.first;
    const size_t layer = tensor->layer > first ? tensor->layer - first : 0;
    struct layer_tensors *here = are_gradients ? &space->gradients[layer] : &space->weights[layer];
    switch (tensor->kind) {
    case TENSOR_EMBEDDING: return are_gradients ? &space->embedding_gradient : &space->embedding;
    case TENSOR_HEAD: return are_gradients ? &space->head_gradient : &space->head;
    case TENSOR_FINAL_NORM: return are_gradients ? &space->final_norm_gradient : &space->final_norm;
    case TENSOR_QUERY: return &here->attention.query;
    case TENSOR_KEY: return &here->attention.key;
    case TENSOR_VALUE: return &here->attention.value;
    case TENSOR_OUTPUT: return &here->attention.output;
    case TENSOR_GATE: return &here->mlp.gate;
    case TENSOR_UP: return &here->mlp.up;
    case TENSOR_DOWN: return &here->mlp.down;
    case TENSOR_ATTENTION_NORM: return &here->attention_norm;
    default: return &here->mlp_norm;
    }
}

void model_place(const struct model *model, size_t index, bool are_gradients, real *values)
{
    struct workspace *space = model->workspace;
    const struct group *group = &model->parameters.groups[index];
    for (size_t i = 0; i < group->tensor_count; i++) {
        const struct tensor *tensor = &model->parameters.tensors[group->first_tensor + i];
        *place_of(model, tensor, are_gradients) = values + (tensor->offset - group->offset);
    }
    if (!model->options.shape.tied || (int)index != model->parameters.embedding_group) return;
    if (are_gradients)
        space->head_gradient = space->embedding_gradient;
    else
        space->head = space->embedding;
}

/* In arrays of the model's own. */
static void make_arrays(struct model *model)
{
    const struct parameters *parameters = &model->parameters;
    model->weights = allocate_reals(parameters->elements);
    model->gradients = allocate_reals(parameters->elements);
    for (size_t g = 0; g < parameters->group_count; g++) {
        const struct group *group = &parameters->groups[g];
        parameters_randomise(parameters, group, &model->options.shape, model->options.seed,
                             model->weights + group->offset);
        model_place(model, g, false, model->weights + group->offset);
        model_place(model, g, true, model->gradients + group->offset);
    }
}

struct model *model_create(const struct model_options *options)
{
    const struct shape *shape = &options->shape;
    struct model *model = allocate(1, sizeof *model);
    struct workspace *space = allocate(1, sizeof *space);
    model->options = *options;
    model->workspace = space;
    parameters_init(&model->parameters, shape, &options->part);
    space->weights = allocate(options->part.layers.count, sizeof *space->weights);
    space->gradients = allocate(options->part.layers.count, sizeof *space->gradients);
    if (options->holder == NULL) make_arrays(model);

    space->vocabulary = part_vocabulary(shape, &options->part);
    space->hidden = part_hidden(shape, &options->part).count;
    space->attention = (struct attention){.width = shape->width,
                                          .context = shape->context,
                                          .head_size = shape->width / shape->heads,
                                          .heads = part_heads(shape, &options->part).count};
    struct arena arena = {.base = NULL};
    lay_out_workspace(model, &arena);
    space->bytes = arena.used * sizeof(real);
    arena = (struct arena){.base = space->memory = allocate_reals(arena.used)};
    lay_out_workspace(model, &arena);
    attention_rotation(shape->context, space->attention.head_size, space->rotation);
    space->attention.rotation = space->rotation;
    return model;
}

void model_free(struct model *model)
{
    free(model->workspace->weights);
    free(model->workspace->gradients);
    free(model->workspace->memory);
    free(model->workspace);
    parameters_release(&model->parameters);
    free(model->weights);
    free(model->gradients);
    free(model);
}
