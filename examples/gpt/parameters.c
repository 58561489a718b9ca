#include "parameters.h"

#include <stdio.h>

#include "counter.h"
#include "give_up.h"

struct range part_heads(const struct shape *shape, const struct part *part)
{
    return range_share(shape->heads, part->tensor_index, part->tensor_count);
}

struct range part_hidden(const struct shape *shape, const struct part *part)
{
    return range_share(shape->hidden, part->tensor_index, part->tensor_count);
}

struct range part_vocabulary(const struct shape *shape, const struct part *part)
{
    return range_share(shape->vocabulary, part->tensor_index, part->tensor_count);
}

static struct tensor *add(struct parameters *parameters, enum tensor_kind kind, size_t layer)
{
    static const char *const names[TENSOR_KINDS] = {
        "embedding", "query", "key",  "value",          "attention output", "gate",
        "up",        "down",  "head", "attention norm", "MLP norm",         "final norm"};
    struct tensor *tensor = &parameters->tensors[parameters->tensor_count++];
    tensor->kind = kind;
    tensor->layer = layer;
    if (kind == TENSOR_EMBEDDING || kind == TENSOR_HEAD || kind == TENSOR_FINAL_NORM)
        snprintf(tensor->name, sizeof tensor->name, "%s", names[kind]);
    else
        snprintf(tensor->name, sizeof tensor->name, "layer %zu %s", layer, names[kind]);
    return tensor;
}

static void place(struct parameters *parameters, struct tensor *tensor)
{
    tensor->offset = parameters->elements;
    parameters->elements += tensor_elements(tensor);
}

static void add_matrix(struct parameters *parameters, enum tensor_kind kind, size_t layer,
                       enum tensor_split split, size_t whole_columns, struct range rows,
                       struct range columns)
{
    struct tensor *tensor = add(parameters, kind, layer);
    tensor->split = split;
    tensor->whole_columns = whole_columns;
    tensor->rows = rows;
    tensor->columns = columns;
    place(parameters, tensor);
}

static void add_gain(struct parameters *parameters, enum tensor_kind kind, size_t layer,
                     size_t width)
{
    struct tensor *tensor = add(parameters, kind, layer);
    tensor->split = SPLIT_NOT;
    tensor->whole_columns = width;
    tensor->rows = (struct range){0, 1};
    tensor->columns = (struct range){0, width};
    place(parameters, tensor);
}

static void end_block(struct parameters *parameters)
{
    const size_t blocks = (parameters->elements + PARAMETERS_BLOCK - 1) / PARAMETERS_BLOCK;
    parameters->elements = blocks * PARAMETERS_BLOCK;
}

/* A group of the tensors from `first` on, which lie together. */
static int add_group(struct parameters *parameters, size_t first, size_t count)
{
    struct group *group = &parameters->groups[parameters->group_count];
    if (count == 0) return GROUP_NONE;
    const struct tensor *begin = &parameters->tensors[first], *last = begin + count - 1;
    group->first_tensor = first;
    group->tensor_count = count;
    group->offset = begin->offset;
    group->elements = last->offset + tensor_elements(last) - begin->offset;
    group->decays = begin->split != SPLIT_NOT;
    return (int)parameters->group_count++;
}

static void find_groups(struct parameters *parameters, const struct part *part)
{
    enum { MATRICES = TENSOR_DOWN - TENSOR_QUERY + 1 };
    const struct tensor *tensors = parameters->tensors;
    const size_t layers = part->layers.count;
    const size_t first_layer = tensors[0].kind == TENSOR_EMBEDDING;
    const size_t behind = first_layer + layers * MATRICES;
    const size_t heads = behind < parameters->tensor_count && tensors[behind].kind == TENSOR_HEAD;
    parameters->groups = allocate(layers + 3, sizeof *parameters->groups);
    add_group(parameters, behind + heads, parameters->tensor_count - behind - heads);
    const bool is_embedding = part_has_embedding(part); /* or a head that is tied to it */
    if (is_embedding) parameters->embedding_group = add_group(parameters, 0, first_layer);
    parameters->layers_group = (int)parameters->group_count;
    for (size_t i = 0; i < layers; i++) add_group(parameters, first_layer + i * MATRICES, MATRICES);
    parameters->head_group = add_group(parameters, behind, heads);
    if (!is_embedding) parameters->embedding_group = add_group(parameters, 0, first_layer);
}

void parameters_init(struct parameters *parameters, const struct shape *shape,
                     const struct part *part)
{
    const size_t head_size = shape->width / shape->heads;
    const struct range width = {0, shape->width}, hidden = part_hidden(shape, part);
    const struct range vocabulary = part_vocabulary(shape, part);
    const struct range heads = part_heads(shape, part);
    const struct range features = {heads.first * head_size, heads.count * head_size};
    const bool has_embedding = part_has_embedding(part), has_head = part_has_head(shape, part);

    *parameters = (struct parameters){.tensor_count = 0};
    parameters->tensors = allocate(9 * part->layers.count + 3, sizeof *parameters->tensors);
    if (has_embedding || (has_head && shape->tied))
        add_matrix(parameters, TENSOR_EMBEDDING, 0, SPLIT_ROWS, width.count, vocabulary, width);
    for (size_t i = 0; i < part->layers.count; i++) {
        const size_t layer = part->layers.first + i;
        for (int kind = TENSOR_QUERY; kind <= TENSOR_VALUE; kind++)
            add_matrix(parameters, (enum tensor_kind)kind, layer, SPLIT_COLUMNS, width.count, width,
                       features);
        add_matrix(parameters, TENSOR_OUTPUT, layer, SPLIT_ROWS, width.count, features, width);
        add_matrix(parameters, TENSOR_GATE, layer, SPLIT_COLUMNS, shape->hidden, width, hidden);
        add_matrix(parameters, TENSOR_UP, layer, SPLIT_COLUMNS, shape->hidden, width, hidden);
        add_matrix(parameters, TENSOR_DOWN, layer, SPLIT_ROWS, width.count, hidden, width);
    }
    if (has_head && !shape->tied)
        add_matrix(parameters, TENSOR_HEAD, 0, SPLIT_ROWS, width.count, vocabulary, width);
    end_block(parameters);
    parameters->matrix_elements = parameters->elements;

    for (size_t i = 0; i < part->layers.count; i++) {
        add_gain(parameters, TENSOR_ATTENTION_NORM, part->layers.first + i, width.count);
        add_gain(parameters, TENSOR_MLP_NORM, part->layers.first + i, width.count);
    }
    if (has_head) add_gain(parameters, TENSOR_FINAL_NORM, 0, width.count);
    end_block(parameters);
    find_groups(parameters, part);
}

void parameters_release(struct parameters *parameters)
{
    free(parameters->tensors);
    free(parameters->groups);
    parameters->tensors = NULL;
    parameters->groups = NULL;
}

const struct tensor *parameters_find(const struct parameters *parameters, enum tensor_kind kind,
                                     size_t layer)
{
    for (size_t i = 0; i < parameters->tensor_count; i++)
        if (parameters->tensors[i].kind == kind && parameters->tensors[i].layer == layer)
            return &parameters->tensors[i];
    return NULL;
}

/* Deviation of first values: 1 / sqrt(inputs), so that outputs are about as large as inputs. The
 * matrices that add to the stream begin smaller, as in GPT-2 (Radford et al. 2019), so that the
 * stream does not grow with the number of layers; so do the embedding and the head, so that the
 * first loss is that of guessing evenly. */
static double deviation_of(enum tensor_kind kind, const struct shape *shape)
{
    const double branches = 2 * (double)shape->layers;
    switch (kind) {
    case TENSOR_EMBEDDING:
    case TENSOR_HEAD: return 0.02;
    case TENSOR_OUTPUT: return 1 / sqrt((double)shape->width * branches);
    case TENSOR_DOWN: return 1 / sqrt((double)shape->hidden * branches);
    default: return 1 / sqrt((double)shape->width);
    }
}

void parameters_randomise(const struct parameters *parameters, const struct group *group,
                          const struct shape *shape, uint64_t seed, real *values)
{
    const uint64_t purpose = counter_bits(seed, COUNTER_PARAMETERS);
    for (size_t i = 0; i < group->tensor_count; i++) {
        const struct tensor *tensor = &parameters->tensors[group->first_tensor + i];
        const bool is_gain = tensor->split == SPLIT_NOT;
        const uint64_t key = counter_bits(counter_bits(purpose, tensor->kind), tensor->layer);
        const double deviation = deviation_of(tensor->kind, shape);
        real *value = values + (tensor->offset - group->offset);
        for (size_t r = 0; r < tensor->rows.count; r++)
            for (size_t c = 0; c < tensor->columns.count; c++) {
                const size_t row = tensor->rows.first + r, column = tensor->columns.first + c;
                const uint64_t place = row * tensor->whole_columns + column;
                *value++ = is_gain ? 1 : (real)(deviation * counter_normal(key, place));
            }
    }
}
