/* compress_save.c - the compressor's state in checkpoints, and back from them.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/sized.h"
#include "base/status.h"
#include "compress_state.h"
#include "low_rank.h"
#include "norm.h"

/* --------------------------------------------------------------------------------- to a checkpoint */

enum part { PART_RESIDUAL, PART_BASIS, PART_OWNER, PARTS };

static const char *name_part(struct tutti_compressor *c, size_t index, enum part part)
{
    static const char *const words[PARTS] = {"residual", "basis", "owner's residual"};
    char *const name = c->part_names[PARTS * index + (size_t)part];
    snprintf(name, sizeof *c->part_names, "%s, %s", c->tensors[index].name, words[part]);
    return name;
}

/* A row of the residuals of so many ranks. It has the shape of the gradient, so that another shape is
 * found out. */
static struct tutti_checkpoint_tensor residual_part(struct tutti_compressor *c, size_t index,
                                                    uint64_t ranks, uint64_t row, float *data)
{
    const struct compress_tensor *const t = &c->tensors[index];
    return (struct tutti_checkpoint_tensor){name_part(c, index, PART_RESIDUAL),
                                            TUTTI_FLOAT32,
                                            3,
                                            {(size_t)ranks, t->rows, t->columns},
                                            {(size_t)row, 0, 0},
                                            {1, t->rows, t->columns},
                                            0,
                                            t->count,
                                            data};
}

static struct tutti_checkpoint_tensor basis_part(struct tutti_compressor *c, size_t index)
{
    const struct compress_tensor *const t = &c->tensors[index];
    const size_t rank = (size_t)t->rank, columns = t->columns;
    return (struct tutti_checkpoint_tensor){name_part(c, index, PART_BASIS),
                                            TUTTI_FLOAT32,
                                            2,
                                            {rank, columns},
                                            {0, 0},
                                            {rank, columns},
                                            0,
                                            rank * columns,
                                            t->basis};
}

static struct tutti_checkpoint_tensor owner_part(struct tutti_compressor *c, size_t index)
{
    const struct compress_tensor *const t = &c->tensors[index];
    return (struct tutti_checkpoint_tensor){name_part(c, index, PART_OWNER),
                                            TUTTI_FLOAT32,
                                            1,
                                            {t->count},
                                            {0},
                                            {t->count},
                                            t->own_first,
                                            t->own_count,
                                            t->owner};
}

static void get_method(const struct tutti_compressor *c, uint64_t *numbers)
{
    numbers[0] = (uint64_t)c->options.method;
    numbers[1] = (uint64_t)c->options.encoding;
    numbers[2] = c->options.feedback != 0;
}

/* A list with room for some parts, and the number of all. */
struct parts {
    struct tutti_checkpoint_tensor *list;
    size_t room, count;
};

static void add_part(struct parts *parts, struct tutti_checkpoint_tensor part)
{
    if (parts->count < parts->room) parts->list[parts->count] = part;
    parts->count++;
}

/* The parts that do not depend on the number of ranks. */
static void add_common(struct tutti_compressor *c, struct parts *parts)
{
    for (size_t i = 0; i < c->tensor_count; i++) {
        const struct compress_tensor *const t = &c->tensors[i];
        if (t->is_compressed && t->rank > 0) add_part(parts, basis_part(c, i));
        if (t->owner != NULL) add_part(parts, owner_part(c, i));
    }
}

static void add_residuals(struct tutti_compressor *c, struct parts *parts)
{
    for (size_t i = 0; i < c->tensor_count; i++)
        if (c->tensors[i].residual != NULL)
            add_part(parts, residual_part(c, i, (uint64_t)c->size, (uint64_t)c->rank,
                                          c->tensors[i].residual));
}

enum tutti_status tutti_compressor_parts(struct tutti_compressor *c,
                                         struct tutti_checkpoint_tensor *list, size_t room,
                                         size_t *count)
{
    struct parts parts = {list, room, 0};
    *count = 0;
    if (list == NULL && room > 0)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_compressor_parts: parts is NULL");
    if (c->is_broken)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_compressor_parts: a step failed before, or the state was given "
                         "away; free the compressor");
    TRY(compress_check_rest(c, "parts"));
    c->saved_ranks = (uint64_t)c->size;
    get_method(c, c->saved_method);
    add_part(&parts, (struct tutti_checkpoint_tensor)TUTTI_CHECKPOINT_ROW(
                         "compressor, ranks", TUTTI_UINT64, 1, &c->saved_ranks));
    add_part(&parts,
             (struct tutti_checkpoint_tensor)TUTTI_CHECKPOINT_ROW(
                 "compressor, method", TUTTI_UINT64, COMPRESS_METHOD_NUMBERS, c->saved_method));
    add_part(&parts, (struct tutti_checkpoint_tensor)TUTTI_CHECKPOINT_ROW(
                         "compressor, steps", TUTTI_UINT64, 1, &c->steps));
    add_common(c, &parts);
    add_residuals(c, &parts);
    *count = parts.count;
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------- from a checkpoint */

enum { RANKS_MAX = 1 << 20 };

/* Room for loading: a list of parts, and a row of any residual. */
struct loading {
    struct parts parts;
    float *row;
};

static enum tutti_status make_room(struct tutti_compressor *c, struct loading *loading)
{
    size_t most = 0;
    TRY(compress_check_rest(c, "load"));
    for (size_t i = 0; i < c->tensor_count; i++)
        if (c->tensors[i].residual != NULL && c->tensors[i].count > most)
            most = c->tensors[i].count;
    loading->parts.room = PARTS * c->tensor_count;
    loading->parts.list = calloc(loading->parts.room + 1, sizeof *loading->parts.list);
    loading->row = malloc((most + 1) * sizeof *loading->row);
    if (loading->parts.list == NULL || loading->row == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_compressor_load: out of memory");
    return TUTTI_OK;
}

/* Every rank takes the rows of which its number is the remainder. */
static enum tutti_status load_rows(struct tutti_compressor *c, size_t index,
                                   struct tutti_checkpoints *checkpoints, uint64_t step, float *row)
{
    struct compress_tensor *const t = &c->tensors[index];
    const uint64_t size = (uint64_t)c->size;
    memset(t->residual, 0, t->count * sizeof *t->residual);
    for (uint64_t first = 0; first < c->saved_ranks; first += size) {
        const uint64_t own = first + (uint64_t)c->rank;
        const bool has_row = own < c->saved_ranks;
        const struct tutti_checkpoint_tensor part =
            residual_part(c, index, c->saved_ranks, has_row ? own : 0, row);
        TRY(tutti_checkpoints_load(checkpoints, step, &part, has_row));
        for (size_t e = 0; has_row && e < t->count; e++) t->residual[e] += row[e];
    }
    const double factor = (double)c->size / (double)c->saved_ranks;
    for (size_t e = 0; e < t->count; e++) t->residual[e] = (float)((double)t->residual[e] * factor);
    return TUTTI_OK;
}

/* A number from a checkpoint may be anything. */
static const char *name_method(const uint64_t *numbers)
{
    switch (numbers[0]) {
    case TUTTI_COMPRESS_NONE: return "none";
    case TUTTI_COMPRESS_LOW_RANK: return "low rank";
    case TUTTI_COMPRESS_TOP_K: return "top k";
    case TUTTI_COMPRESS_ENCODED:
        return numbers[1] <= INT_MAX ? tutti_encoding_name((enum tutti_encoding)numbers[1])
                                     : "an encoding that is not known";
    default: return "a method that is not known";
    }
}

/* State of another kind would be read as far as its shapes fit, and the rest would be lost. */
static enum tutti_status check_method(const struct tutti_compressor *c, const uint64_t *saved)
{
    uint64_t own[COMPRESS_METHOD_NUMBERS];
    get_method(c, own);
    if (memcmp(own, saved, sizeof own) == 0) return TUTTI_OK;
    return error_set(TUTTI_MISMATCH,
                     "tutti_compressor_load: the checkpoint has the state of %s %s feedback, this "
                     "compressor is of %s %s feedback",
                     name_method(saved), saved[2] != 0 ? "with" : "without", name_method(own),
                     own[2] != 0 ? "with" : "without");
}

static enum tutti_status load_all(struct tutti_compressor *c, struct tutti_checkpoints *checkpoints,
                                  uint64_t step, struct loading *loading)
{
    struct parts *const parts = &loading->parts;
    const struct tutti_checkpoint_tensor numbers[] = {
        TUTTI_CHECKPOINT_ROW("compressor, ranks", TUTTI_UINT64, 1, &c->saved_ranks),
        TUTTI_CHECKPOINT_ROW("compressor, method", TUTTI_UINT64, COMPRESS_METHOD_NUMBERS,
                             c->saved_method),
        TUTTI_CHECKPOINT_ROW("compressor, steps", TUTTI_UINT64, 1, &c->steps)};
    TRY(tutti_checkpoints_load(checkpoints, step, numbers, sizeof numbers / sizeof *numbers));
    TRY(check_method(c, c->saved_method));
    if (c->saved_ranks < 1 || c->saved_ranks > RANKS_MAX)
        return error_set(TUTTI_CORRUPT,
                         "tutti_compressor_load: the state of %llu ranks cannot be right",
                         (unsigned long long)c->saved_ranks);
    const bool is_same_size = c->saved_ranks == (uint64_t)c->size;
    add_common(c, parts);
    if (is_same_size) add_residuals(c, parts);
    TRY(tutti_checkpoints_load(checkpoints, step, parts->list, parts->count));
    for (size_t i = 0; !is_same_size && i < c->tensor_count; i++)
        if (c->tensors[i].residual != NULL) TRY(load_rows(c, i, checkpoints, step, loading->row));
    return TUTTI_OK;
}

/* Steps go on from any other number. */
static enum tutti_status check_numbers(const struct tutti_compressor *c)
{
    for (size_t i = 0; i < c->tensor_count; i++) {
        const struct compress_tensor *const t = &c->tensors[i];
        if (!t->is_compressed) continue;
        if (!low_rank_is_finite(t->basis, (size_t)t->rank * t->columns) ||
            (t->residual != NULL && !norm_is_finite(t->residual, t->count)) ||
            (t->owner != NULL && !norm_is_finite(t->owner, t->own_count)))
            return error_set(TUTTI_CORRUPT,
                             "tutti_compressor_load: the checkpoint's state of tensor '%s' has a "
                             "number that is not finite",
                             t->name);
    }
    return TUTTI_OK;
}

enum tutti_status tutti_compressor_load(struct tutti_compressor *c,
                                        struct tutti_checkpoints *checkpoints, uint64_t step)
{
    const struct agreement agreement = {"tutti_compressor_load", 1, NULL, NULL};
    struct loading loading = {{NULL, 0, 0}, NULL};
    enum tutti_status status = agree_on_making(c->comm, make_room(c, &loading), &agreement, NULL);
    if (status == TUTTI_OK) {
        status = load_all(c, checkpoints, step, &loading);
        if (status == TUTTI_OK)
            status = agree_on_making(c->comm, check_numbers(c), &agreement, NULL);
        c->is_broken = status != TUTTI_OK;
    }
    free(loading.parts.list);
    free(loading.row);
    return status;
}

/* --------------------------------------------------------------------------------------- questions */

enum tutti_status tutti_compressor_count(const struct tutti_compressor *c,
                                         struct tutti_compressor_counters *counters)
{
    TRY(SIZED_CHECK_RESULT("tutti_compressor_count: counters", tutti_compressor_counters, counters));
    struct tutti_compressor_counters own = {.tensors = c->tensor_count,
                                            .buckets = c->bucket_count,
                                            .payload_bytes = c->payload_bytes,
                                            .state_bytes = c->basis_count * sizeof(float),
                                            .steps = c->steps};
    for (size_t i = 0; i < c->tensor_count; i++) {
        const struct compress_tensor *const t = &c->tensors[i];
        own.compressed += t->is_compressed;
        own.gradient_bytes += t->count * sizeof(float);
        if (t->residual != NULL) own.state_bytes += t->count * sizeof(float);
        if (t->owner != NULL) own.state_bytes += t->own_count * sizeof(float);
    }
    SIZED_WRITE(tutti_compressor_counters, counters, counters->size_bytes, &own);
    return TUTTI_OK;
}
