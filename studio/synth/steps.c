#include "studio/synth/steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan/form.h"

enum tutti_status synth_shape_check(const struct plan_shape *shape)
{
    if (shape->rank_count < 1 || shape->rank_count > SYNTH_NODES_MAX || shape->parts < 1 ||
        shape->parts > SYNTH_CHUNKS_MAX || shape->root < 0 || shape->root >= shape->rank_count)
        return error_set(TUTTI_INVALID_OPTIONS, "a schedule of %d ranks, root %d, %u chunks",
                         shape->rank_count, shape->root, shape->parts);
    if (shape->collective == COLLECTIVE_BARRIER || shape->collective >= COLLECTIVE_COUNT)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "a schedule of chunks for no collective that has any");
    if (form_class_count(shape) > SYNTH_CHUNKS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "a schedule of %llu chunks; at most %d are planned",
                         (unsigned long long)form_class_count(shape), SYNTH_CHUNKS_MAX);
    return TUTTI_OK;
}

int synth_chunk_count(const struct plan_shape *shape)
{
    return (int)form_class_count(shape);
}

int synth_chunk_source(const struct plan_shape *shape, int chunk)
{
    const int block = chunk / (int)shape->parts;
    switch (shape->collective) {
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SCATTER: return shape->root;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: return block;
    case COLLECTIVE_ALLTOALL: return block / shape->rank_count;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return -1;
}

bool synth_chunk_wanted(const struct plan_shape *shape, int chunk, int rank)
{
    const int block = chunk / (int)shape->parts;
    switch (shape->collective) {
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_GATHER: return rank == shape->root;
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_REDUCE_SCATTER: return rank == block;
    case COLLECTIVE_ALLTOALL: return rank == block % shape->rank_count;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return true;
}

enum tutti_status synth_steps_init(struct synth_steps *steps, const struct plan_shape *shape,
                                   int step_count)
{
    *steps = (struct synth_steps){0};
    TRY(synth_shape_check(shape));
    if (step_count < 0 || step_count > SYNTH_STEPS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "a schedule of %d steps; at most %d are planned",
                         step_count, SYNTH_STEPS_MAX);
    steps->rounds = calloc((size_t)step_count + 1, sizeof *steps->rounds);
    if (steps->rounds == NULL)
        return error_set(TUTTI_NO_MEMORY, "a schedule of %d steps", step_count);
    steps->shape = *shape;
    steps->step_count = step_count;
    steps->reduce_step_count = collective_reduces(shape->collective) ? step_count : 0;
    return TUTTI_OK;
}

enum tutti_status synth_steps_add(struct synth_steps *steps, int step, int chunk, int from, int to)
{
    if (steps->transfer_count == steps->transfer_room) {
        if (steps->transfer_room > (1 << 28))
            return error_set(TUTTI_NO_MEMORY, "a schedule's transfers");
        const int room = steps->transfer_room > 0 ? 2 * steps->transfer_room : 64;
        struct synth_transfer *const transfers =
            realloc(steps->transfers, (size_t)room * sizeof *transfers);
        if (transfers == NULL)
            return error_set(TUTTI_NO_MEMORY, "a schedule of %d transfers", room);
        steps->transfers = transfers;
        steps->transfer_room = room;
    }
    steps->transfers[steps->transfer_count++] = (struct synth_transfer){step, chunk, from, to};
    return TUTTI_OK;
}

void synth_steps_release(struct synth_steps *steps)
{
    free(steps->rounds);
    free(steps->transfers);
    *steps = (struct synth_steps){0};
}

static enum collective reverse_of(enum collective collective)
{
    switch (collective) {
    case COLLECTIVE_ALLGATHER: return COLLECTIVE_REDUCE_SCATTER;
    case COLLECTIVE_BROADCAST: return COLLECTIVE_REDUCE;
    case COLLECTIVE_GATHER: return COLLECTIVE_SCATTER;
    case COLLECTIVE_SCATTER: return COLLECTIVE_GATHER;
    case COLLECTIVE_ALLTOALL: return COLLECTIVE_ALLTOALL;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return COLLECTIVE_COUNT;
}

/* Backwards, block (s, d) of an alltoall goes from d to s. */
static int reverse_chunk(const struct plan_shape *shape, int chunk)
{
    if (shape->collective != COLLECTIVE_ALLTOALL) return chunk;
    const int parts = (int)shape->parts, n = shape->rank_count;
    const int block = chunk / parts;
    return (block % n * n + block / n) * parts + chunk % parts;
}

enum tutti_status synth_steps_reverse(const struct synth_steps *steps, struct synth_steps *reversed)
{
    struct plan_shape shape = steps->shape;
    shape.collective = reverse_of(shape.collective);
    *reversed = (struct synth_steps){0};
    if (shape.collective == COLLECTIVE_COUNT)
        return error_set(TUTTI_INVALID_OPTIONS, "%s has no reverse",
                         collective_name(steps->shape.collective));
    TRY(synth_steps_init(reversed, &shape, steps->step_count));
    const int last = steps->step_count - 1;
    for (int i = 0; i <= last; i++) reversed->rounds[i] = steps->rounds[last - i];
    for (int i = steps->transfer_count - 1; i >= 0; i--) {
        const struct synth_transfer *const t = &steps->transfers[i];
        const enum tutti_status status = synth_steps_add(
            reversed, last - t->step, reverse_chunk(&steps->shape, t->chunk), t->to, t->from);
        if (status == TUTTI_OK) continue;
        synth_steps_release(reversed);
        return status;
    }
    return TUTTI_OK;
}

static enum tutti_status append(const struct synth_steps *steps, int first_step,
                                struct synth_steps *joined)
{
    memcpy(joined->rounds + first_step, steps->rounds,
           (size_t)steps->step_count * sizeof *steps->rounds);
    for (int i = 0; i < steps->transfer_count; i++) {
        const struct synth_transfer *const t = &steps->transfers[i];
        TRY(synth_steps_add(joined, first_step + t->step, t->chunk, t->from, t->to));
    }
    return TUTTI_OK;
}

enum tutti_status synth_steps_join(const struct synth_steps *reduce_scatter,
                                   const struct synth_steps *allgather, struct synth_steps *joined)
{
    *joined = (struct synth_steps){0};
    struct plan_shape shape = allgather->shape;
    if (reduce_scatter->shape.collective != COLLECTIVE_REDUCE_SCATTER ||
        shape.collective != COLLECTIVE_ALLGATHER ||
        reduce_scatter->shape.rank_count != shape.rank_count ||
        reduce_scatter->shape.parts != shape.parts)
        return error_set(TUTTI_INVALID_OPTIONS, "a %s of %u chunks and a %s of %u make no allreduce",
                         collective_name(reduce_scatter->shape.collective),
                         reduce_scatter->shape.parts, collective_name(shape.collective),
                         shape.parts);
    shape.collective = COLLECTIVE_ALLREDUCE;
    shape.parts *= (uint32_t)shape.rank_count; /* chunk i of the allreduce is class i of both */
    TRY(synth_steps_init(joined, &shape, reduce_scatter->step_count + allgather->step_count));
    joined->reduce_step_count = reduce_scatter->step_count;
    enum tutti_status status = append(reduce_scatter, 0, joined);
    if (status == TUTTI_OK) status = append(allgather, reduce_scatter->step_count, joined);
    if (status != TUTTI_OK) synth_steps_release(joined);
    return status;
}
