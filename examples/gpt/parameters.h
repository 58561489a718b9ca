/* parameters.h - the shape of the model, which part of it is here, and where its parameters lie.
 *
 * All parameters of a part lie in one array. A table says what lies where:
 *
 *     | matrices: embedding, layer 0: query key value ..., layer 1: ... | pad | gains of norms | pad |
 *     0                                                               matrix_elements             elements
 *
 * 1. Both ends are multiples of PARAMETERS_BLOCK, the block in which gradients' squares are added
 *    (adamw.h).
 * 2. Matrices decay and are split over tensor-parallel ranks; gains do neither, and every
 *    tensor-parallel rank has all of those of its layers.
 * 3. A matrix is [inputs x outputs] in rows, except that the embedding and the head are [vocabulary
 *    x width]. A part's slice of a matrix is a matrix of its own, without gaps.
 * 4. First values depend on the seed, the tensor and the element's place in the whole tensor, so
 *    parts of any cut start with the values of the whole.
 */
#ifndef GPT_PARAMETERS_H
#define GPT_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "real.h"

enum { PARAMETERS_BLOCK = 4096 };

struct shape {
    size_t vocabulary, context, width, layers, heads;
    size_t hidden; /* columns of the MLP */
    bool tied;     /* the head is the embedding */
};

struct range {
    size_t first, count;
};

/* Share `index` of `count` nearly equal ones of [0, total). */
static inline struct range range_share(size_t total, size_t index, size_t count)
{
    const size_t first = total * index / count;
    return (struct range){first, total * (index + 1) / count - first};
}

/* The part of the model that a process has: some layers (a pipeline stage), and of each matrix
 * there a slice (tensor parallelism). The first stage has the embedding, the last one the final
 * norm and the head; if these are tied, both stages have the embedding's matrix, and its gradient
 * is the sum of theirs. Every slice has a head at least. Where rows are split, a tensor-parallel
 * rank's gradients of gains are summands, of its rows; otherwise all ranks have the same ones. */
struct part {
    struct range layers;
    size_t tensor_index, tensor_count;
    bool rows_split; /* sequence parallelism: between the slices, each tensor rank has a share of the rows */
};

/* Everything. */
static inline struct part part_whole(const struct shape *shape)
{
    return (struct part){.layers = {0, shape->layers}, .tensor_count = 1};
}

enum tensor_kind {
    TENSOR_EMBEDDING, /* [vocabulary x width] */
    TENSOR_QUERY,     /* [width x width], columns by heads; key and value too */
    TENSOR_KEY,
    TENSOR_VALUE,
    TENSOR_OUTPUT,         /* [width x width], rows by heads */
    TENSOR_GATE,           /* [width x hidden] */
    TENSOR_UP,             /* [width x hidden] */
    TENSOR_DOWN,           /* [hidden x width] */
    TENSOR_HEAD,           /* [vocabulary x width], unless tied */
    TENSOR_ATTENTION_NORM, /* [1 x width], as the other norms */
    TENSOR_MLP_NORM,
    TENSOR_FINAL_NORM,
    TENSOR_KINDS
};

enum tensor_split { SPLIT_NOT, SPLIT_ROWS, SPLIT_COLUMNS };

struct tensor {
    char name[32];
    enum tensor_kind kind;
    enum tensor_split split;
    size_t layer;               /* 0 where it makes no difference */
    size_t whole_columns;       /* of the whole tensor */
    struct range rows, columns; /* those that are here */
    size_t offset;              /* of its first element in the array */
};

/* Tensors that are used at the same time and lie together, and so come and go together
 * (model.h). */
struct group {
    size_t first_tensor, tensor_count;
    size_t offset, elements; /* in the array */
    bool decays;
};

/* In the order of their use, as far as the part has them. A layer's group has its matrices. */
enum { GROUP_GAINS = 0, GROUP_NONE = -1 };

struct parameters {
    struct tensor *tensors;
    size_t tensor_count;
    size_t matrix_elements, elements;
    struct group *groups; /* gains, embedding, layers, head, which may be a tied embedding */
    size_t group_count;
    int embedding_group, layers_group,
        head_group; /* of the first layer; GROUP_NONE: not in the part */
};

void parameters_init(struct parameters *parameters, const struct shape *shape,
                     const struct part *part);
void parameters_release(struct parameters *parameters);

/* NULL if the part has none. */
const struct tensor *parameters_find(const struct parameters *parameters, enum tensor_kind kind,
                                     size_t layer);

/* Writes the first values of a group's elements. */
void parameters_randomise(const struct parameters *parameters, const struct group *group,
                          const struct shape *shape, uint64_t seed, real *values);

/* Heads, columns of the MLP and tokens of the vocabulary that a part has. */
struct range part_heads(const struct shape *shape, const struct part *part);
struct range part_hidden(const struct shape *shape, const struct part *part);
struct range part_vocabulary(const struct shape *shape, const struct part *part);

static inline bool part_has_embedding(const struct part *part)
{
    return part->layers.first == 0;
}

static inline bool part_has_head(const struct shape *shape, const struct part *part)
{
    return part->layers.first + part->layers.count == shape->layers;
}

static inline size_t tensor_elements(const struct tensor *tensor)
{
    return tensor->rows.count * tensor->columns.count;
}

#endif
