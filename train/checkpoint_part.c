#include "checkpoint_part.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"

static_assert(BOX_DIMS == TUTTI_CHECKPOINT_DIMS, "the interface says so");

static enum tutti_status check(const char *function, size_t index,
                               const struct tutti_checkpoint_tensor *tensor)
{
    const char *const mistake =
        tensor->name != NULL ? table_name_mistake(tensor->name, strlen(tensor->name)) : "is NULL";
    if (mistake != NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: the name of tensor %zu %s", function, index,
                         mistake);
    if (!dtype_is_valid(tensor->dtype))
        return error_set(TUTTI_INVALID_DTYPE, "%s: tensor '%s' has no dtype, but %d", function,
                         tensor->name, (int)tensor->dtype);
    if (tensor->dims < 1 || tensor->dims > BOX_DIMS)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: tensor '%s' has %d dimensions, not 1 to %d",
                         function, tensor->name, tensor->dims, BOX_DIMS);
    if (tensor->data == NULL && tensor->count > 0)
        return error_set(TUTTI_INVALID_BUFFER, "%s: the data of tensor '%s' is NULL", function,
                         tensor->name);
    return TUTTI_OK;
}

static enum tutti_status find_box(const char *function,
                                  const struct tutti_checkpoint_tensor *tensor, struct piece *whole)
{
    *whole = (struct piece){.name = tensor->name, .dtype = tensor->dtype};
    whole->box.dims = tensor->dims;
    for (int d = 0; d < tensor->dims; d++) {
        whole->shape[d] = tensor->shape[d];
        whole->box.first[d] = tensor->first[d];
        whole->box.extent[d] = tensor->extent[d];
    }
    if (!box_fits(&whole->box, whole->shape))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s: the box of tensor '%s' is empty, or not inside of its shape",
                         function, tensor->name);
    const uint64_t elements = box_count(&whole->box);
    if (tensor->count > elements || tensor->begin > elements - tensor->count)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s: tensor '%s' has elements %zu and %zu more of a box of %llu", function,
                         tensor->name, tensor->begin, tensor->count, (unsigned long long)elements);
    return TUTTI_OK;
}

static enum tutti_status add(struct parts *parts, const struct piece *whole,
                             const struct tutti_checkpoint_tensor *tensor)
{
    struct box boxes[BOX_PIECES_MAX];
    const size_t count = box_of_range(&whole->box, tensor->begin, tensor->count, boxes);
    char *data = tensor->data;
    for (size_t i = 0; i < count; i++) {
        struct piece *const piece = &parts->pieces[parts->count];
        *piece = *whole;
        piece->box = boxes[i];
        parts->data[parts->count++] = data;
        data += piece_bytes(piece);
        TRY(table_print(piece, &parts->table));
    }
    return TUTTI_OK;
}

enum tutti_status parts_init(struct parts *parts, const char *function,
                             const struct tutti_checkpoint_tensor *tensors, size_t count)
{
    *parts = (struct parts){0};
    if (tensors == NULL && count > 0)
        return error_set(TUTTI_INVALID_BUFFER, "%s: the tensors are NULL", function);
    parts->pieces = calloc(count * BOX_PIECES_MAX + 1, sizeof *parts->pieces);
    parts->data = calloc(count * BOX_PIECES_MAX + 1, sizeof *parts->data);
    if (parts->pieces == NULL || parts->data == NULL)
        return error_set(TUTTI_NO_MEMORY, "%s: out of memory", function);
    for (size_t i = 0; i < count; i++) {
        struct piece whole;
        TRY(check(function, i, &tensors[i]));
        TRY(find_box(function, &tensors[i], &whole));
        TRY(add(parts, &whole, &tensors[i]));
    }
    if (parts->table.size > INT32_MAX / 16)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: there are too many tensors", function);
    return TUTTI_OK;
}

void parts_release(struct parts *parts)
{
    free(parts->pieces);
    free(parts->data);
    free(parts->table.bytes);
    *parts = (struct parts){0};
}
