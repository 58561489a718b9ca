#include "checkpoint_part.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"

/* Tables have no room for more. */
enum { PARTS_TENSORS_MAX = 1 << 22 };

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
    for (int d = 0; d < tensor->dims; d++)
        if (tensor->extent[d] == 0 || tensor->extent[d] > tensor->shape[d] ||
            tensor->first[d] > tensor->shape[d] - tensor->extent[d])
            return error_set(TUTTI_INVALID_OPTIONS,
                             "%s: in dimension %d of tensor '%s' the box begins at %zu and has an "
                             "extent of %zu, which makes no part of %zu",
                             function, d, tensor->name, tensor->first[d], tensor->extent[d],
                             tensor->shape[d]);
    if (!box_fits(&whole->box, whole->shape))
        return error_set(TUTTI_INVALID_OPTIONS, "%s: tensor '%s' has too many elements", function,
                         tensor->name);
    const uint64_t elements = box_count(&whole->box);
    if (tensor->count > elements || tensor->begin > elements - tensor->count)
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "%s: of tensor '%s' %zu elements from element %zu on are more than its box "
            "of %llu has",
            function, tensor->name, tensor->count, tensor->begin, (unsigned long long)elements);
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

enum tutti_status parts_init(struct parts *parts, const char *function, int rank,
                             const struct tutti_checkpoint_tensor *tensors, size_t count)
{
    char where[64];
    *parts = (struct parts){0};
    snprintf(where, sizeof where, "%s: rank %d", function, rank);
    function = where;
    if (tensors == NULL && count > 0)
        return error_set(TUTTI_INVALID_BUFFER, "%s: the tensors are NULL", function);
    if (count > PARTS_TENSORS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: there are %zu tensors; %d are the most",
                         function, count, PARTS_TENSORS_MAX);
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
