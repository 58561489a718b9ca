/* local_save.c - the state of local training in checkpoints, and back from them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/status.h"
#include "local_state.h"
#include "norm.h"

enum part { PART_GLOBAL, PART_MOMENTUM, PART_AVERAGE, PART_OWN, PARTS };
enum { RANKS_MAX = 1 << 20 };

/* Counts, as a checkpoint has them; behind these, the phase and the rounds of each fragment. */
enum number { NUMBER_STEPS, NUMBER_BASE, NUMBER_DROPPED, NUMBERS };

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

/* ------------------------------------------------------------------------------------- the parts */

static const char *name_part(struct tutti_local *c, size_t index, enum part part)
{
    static const char *const words[PARTS] = {"global values", "momentum", "average", "own values"};
    char *const name = c->part_names[PARTS * index + (size_t)part];
    snprintf(name, sizeof *c->part_names, "%s, %s", c->tensors[index].name, words[part]);
    return name;
}

static void add_whole(struct tutti_local *c, struct parts *parts, size_t index, enum part part,
                      float *of_fragment)
{
    const struct local_tensor *const t = &c->tensors[index];
    add_part(parts, (struct tutti_checkpoint_tensor)TUTTI_CHECKPOINT_ROW(name_part(c, index, part),
                                                                         TUTTI_FLOAT32, t->count,
                                                                         of_fragment + t->offset));
}

static struct tutti_checkpoint_tensor row_part(struct tutti_local *c, size_t index, uint64_t ranks,
                                               uint64_t row, float *data)
{
    const size_t count = c->tensors[index].count;
    return (struct tutti_checkpoint_tensor){name_part(c, index, PART_OWN),
                                            TUTTI_FLOAT32,
                                            2,
                                            {(size_t)ranks, count},
                                            {(size_t)row, 0},
                                            {1, count},
                                            0,
                                            count,
                                            data};
}

/* State that is the same on all ranks. */
static void add_common(struct tutti_local *c, struct parts *parts)
{
    for (size_t i = 0; i < c->tensor_count; i++) {
        const struct local_fragment *const fragment = &c->fragments[c->tensors[i].fragment];
        if (c->tensors[i].count == 0) continue;
        add_whole(c, parts, i, PART_GLOBAL, fragment->global);
        if (fragment->momentum != NULL) add_whole(c, parts, i, PART_MOMENTUM, fragment->momentum);
        if (fragment->phase == LOCAL_ARRIVED) add_whole(c, parts, i, PART_AVERAGE, fragment->delta);
    }
}

/* The row of a rank: to or from this rank's parameters, or, where `data` is not NULL, this memory
 * for all of them one after the other. */
static void add_row(struct tutti_local *c, struct parts *parts, uint64_t ranks, uint64_t row,
                    float *data)
{
    for (size_t i = 0; i < c->tensor_count; i++) {
        if (c->tensors[i].count == 0) continue;
        add_part(parts, row_part(c, i, ranks, row, data != NULL ? data : c->tensors[i].data));
        if (data != NULL) data += c->tensors[i].count;
    }
}

static void add_numbers(struct tutti_local *c, struct parts *parts)
{
    add_part(parts, (struct tutti_checkpoint_tensor)TUTTI_CHECKPOINT_ROW(
                        "local training, ranks", TUTTI_UINT64, 1, &c->saved_ranks));
    add_part(parts, (struct tutti_checkpoint_tensor)TUTTI_CHECKPOINT_ROW(
                        "local training, counts", TUTTI_UINT64, NUMBERS + 2 * c->fragment_count,
                        c->numbers));
}

/* --------------------------------------------------------------------------------- to a checkpoint */

static void write_numbers(struct tutti_local *c)
{
    c->saved_ranks = (uint64_t)c->size;
    c->numbers[NUMBER_STEPS] = c->steps;
    c->numbers[NUMBER_BASE] = c->base;
    c->numbers[NUMBER_DROPPED] = c->dropped;
    for (size_t f = 0; f < c->fragment_count; f++) {
        c->numbers[NUMBERS + 2 * f] = c->fragments[f].phase == LOCAL_ARRIVED;
        c->numbers[NUMBERS + 2 * f + 1] = c->fragments[f].rounds;
    }
}

enum tutti_status tutti_local_parts(struct tutti_local *c, struct tutti_checkpoint_tensor *list,
                                    size_t room, size_t *count)
{
    struct parts parts = {list, room, 0};
    *count = 0;
    if (list == NULL && room > 0)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_local_parts: parts is NULL");
    TRY(local_check_works(c, "tutti_local_parts"));
    for (size_t f = 0; f < c->fragment_count; f++) {
        const enum tutti_status status = local_arrive(c, &c->fragments[f]);
        c->is_broken = status != TUTTI_OK;
        TRY(status);
    }
    write_numbers(c);
    add_numbers(c, &parts);
    add_common(c, &parts);
    add_row(c, &parts, (uint64_t)c->size, (uint64_t)c->rank, NULL);
    *count = parts.count;
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------- from a checkpoint */

/* Room for loading: a list of parts; and for the rows of other ranks, and their sum. */
struct loading {
    struct parts parts;
    size_t elements;
    float *row;
    double *sum;
};

static enum tutti_status make_room(struct tutti_local *c, struct loading *loading)
{
    TRY(local_check_works(c, "tutti_local_load"));
    if (c->has_begun)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_local_load: a step was taken, or there is state already");
    for (size_t i = 0; i < c->tensor_count; i++) loading->elements += c->tensors[i].count;
    loading->parts.room = PARTS * c->tensor_count;
    loading->parts.list = calloc(loading->parts.room + 1, sizeof *loading->parts.list);
    if (loading->parts.list == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_local_load: out of memory");
    return TUTTI_OK;
}

static enum tutti_status corrupt(const char *what)
{
    return error_set(TUTTI_CORRUPT, "tutti_local_load: the checkpoint's %s cannot be right", what);
}

static enum tutti_status read_numbers(struct tutti_local *c)
{
    const uint64_t steps = c->numbers[NUMBER_STEPS], base = c->numbers[NUMBER_BASE];
    if (c->saved_ranks < 1 || c->saved_ranks > RANKS_MAX) return corrupt("number of ranks");
    if (steps > INT64_MAX / 2 || base > steps) return corrupt("number of steps");
    c->steps = steps;
    c->base = base;
    c->dropped = c->numbers[NUMBER_DROPPED];
    for (size_t f = 0; f < c->fragment_count; f++) {
        const uint64_t has_average = c->numbers[NUMBERS + 2 * f];
        if (has_average > 1) return corrupt("phase of a fragment");
        c->fragments[f].phase = has_average ? LOCAL_ARRIVED : LOCAL_REST;
        c->fragments[f].rounds = c->numbers[NUMBERS + 2 * f + 1];
        if (c->fragments[f].rounds > INT64_MAX / 2) return corrupt("number of synchronisations");
    }
    return TUTTI_OK;
}

static enum tutti_status load_parts(struct tutti_checkpoints *checkpoints, uint64_t step,
                                    struct loading *loading)
{
    const size_t count = loading->parts.count;
    loading->parts.count = 0;
    return tutti_checkpoints_load(checkpoints, step, loading->parts.list, count);
}

/* Every rank reads the rows of all, and begins with their average. */
static enum tutti_status load_average(struct tutti_local *c, struct tutti_checkpoints *checkpoints,
                                      uint64_t step, struct loading *loading)
{
    const struct agreement agreement = {"tutti_local_load", 1, NULL, NULL};
    loading->row = malloc((loading->elements + 1) * sizeof *loading->row);
    loading->sum = calloc(loading->elements + 1, sizeof *loading->sum);
    enum tutti_status status = TUTTI_OK;
    if (loading->row == NULL || loading->sum == NULL)
        status = error_set(TUTTI_NO_MEMORY, "tutti_local_load: out of memory");
    TRY(agree_on_making(c->comm, status, &agreement, NULL));
    for (uint64_t r = 0; r < c->saved_ranks; r++) {
        add_row(c, &loading->parts, c->saved_ranks, r, loading->row);
        TRY(load_parts(checkpoints, step, loading));
        for (size_t e = 0; e < loading->elements; e++) loading->sum[e] += (double)loading->row[e];
    }
    const double *sum = loading->sum;
    for (size_t i = 0; i < c->tensor_count; i++)
        for (size_t e = 0; e < c->tensors[i].count; e++)
            c->tensors[i].data[e] = (float)(*sum++ / (double)c->saved_ranks);
    return TUTTI_OK;
}

static enum tutti_status load_all(struct tutti_local *c, struct tutti_checkpoints *checkpoints,
                                  uint64_t step, struct loading *loading)
{
    add_numbers(c, &loading->parts);
    TRY(load_parts(checkpoints, step, loading));
    TRY(read_numbers(c)); /* which are the same on all ranks */
    add_common(c, &loading->parts);
    if (c->saved_ranks == (uint64_t)c->size)
        add_row(c, &loading->parts, c->saved_ranks, (uint64_t)c->rank, NULL);
    TRY(load_parts(checkpoints, step, loading));
    return c->saved_ranks == (uint64_t)c->size ? TUTTI_OK
                                               : load_average(c, checkpoints, step, loading);
}

/* Averages that are not finite are dropped when they are due. */
static enum tutti_status check_values(const struct tutti_local *c)
{
    for (size_t f = 0; f < c->fragment_count; f++) {
        const struct local_fragment *const fragment = &c->fragments[f];
        if (!norm_is_finite(fragment->global, fragment->count) ||
            (fragment->momentum != NULL && !norm_is_finite(fragment->momentum, fragment->count)))
            return error_set(TUTTI_CORRUPT,
                             "tutti_local_load: the checkpoint's state of fragment %zu has a "
                             "number that is not finite",
                             f);
    }
    return TUTTI_OK;
}

enum tutti_status tutti_local_load(struct tutti_local *c, struct tutti_checkpoints *checkpoints,
                                   uint64_t step)
{
    const struct agreement agreement = {"tutti_local_load", 1, NULL, NULL};
    struct loading loading = {{NULL, 0, 0}, 0, NULL, NULL};
    enum tutti_status status = agree_on_making(c->comm, make_room(c, &loading), &agreement, NULL);
    if (status == TUTTI_OK) {
        status = load_all(c, checkpoints, step, &loading);
        if (status == TUTTI_OK)
            status = agree_on_making(c->comm, check_values(c), &agreement, NULL);
        c->is_broken = status != TUTTI_OK;
        c->has_begun = true;
    }
    free(loading.parts.list);
    free(loading.row);
    free(loading.sum);
    return status;
}
