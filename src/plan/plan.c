#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

void plan_rank_free(struct rank_plan *rank_plan)
{
    if (rank_plan == NULL) return;
    free(rank_plan->lanes);
    free(rank_plan->steps);
    free(rank_plan->sources);
    free(rank_plan->targets);
    free(rank_plan->afters);
    free(rank_plan->groups);
    free(rank_plan->members);
    free(rank_plan->scratch_like);
    free(rank_plan);
}

/* An array of its own, never NULL but for lack of memory. */
static void *copy_array(const void *from, size_t count, size_t element_bytes)
{
    void *const copy = calloc(count > 0 ? count : 1, element_bytes);
    if (copy != NULL && count > 0) memcpy(copy, from, count * element_bytes);
    return copy;
}

struct rank_plan *plan_rank_copy(const struct rank_plan *from)
{
    struct rank_plan *const copy = malloc(sizeof *copy);
    if (copy == NULL) return NULL;
    *copy = *from;
    copy->lanes = copy_array(from->lanes, from->lane_count, sizeof *from->lanes);
    copy->steps = copy_array(from->steps, from->step_count, sizeof *from->steps);
    copy->sources = copy_array(from->sources, from->source_count, sizeof *from->sources);
    copy->targets = copy_array(from->targets, from->target_count, sizeof *from->targets);
    copy->afters = copy_array(from->afters, from->after_count, sizeof *from->afters);
    copy->groups = copy_array(from->groups, from->group_count, sizeof *from->groups);
    copy->members = copy_array(from->members, from->member_count, sizeof *from->members);
    copy->scratch_like =
        copy_array(from->scratch_like, from->scratch_count, sizeof *from->scratch_like);
    if (copy->lanes != NULL && copy->steps != NULL && copy->sources != NULL &&
        copy->targets != NULL && copy->afters != NULL && copy->groups != NULL &&
        copy->members != NULL && copy->scratch_like != NULL)
        return copy;
    plan_rank_free(copy);
    return NULL;
}

void plan_free(struct plan *plan)
{
    if (plan == NULL) return;
    for (int rank = 0; plan->ranks != NULL && rank < plan->shape.rank_count; rank++)
        plan_rank_free(plan->ranks[rank]);
    free(plan->ranks);
    free(plan);
}

static size_t block_count(const struct plan_shape *shape, int rank, enum plan_buffer buffer)
{
    const bool is_root = rank == shape->root;
    if (buffer == PLAN_SCRATCH || shape->collective == COLLECTIVE_BARRIER) return 0;
    return buffer == PLAN_INPUT
               ? collective_blocks_sent(shape->collective, is_root, shape->rank_count)
               : collective_blocks_received(shape->collective, is_root, shape->rank_count);
}

uint32_t plan_chunk_count(const struct plan_shape *shape, int rank, enum plan_buffer buffer)
{
    return (uint32_t)block_count(shape, rank, buffer) * shape->parts;
}

uint32_t plan_begin_in_place(const struct plan_shape *shape, int rank, enum plan_buffer buffer)
{
    const bool is_block = buffer == PLAN_INPUT ? collective_gathers(shape->collective)
                                               : collective_scatters(shape->collective);
    return is_block ? (uint32_t)rank * shape->parts : 0;
}

uint32_t plan_chunk_class(const struct plan_shape *shape, int rank, enum plan_buffer buffer,
                          uint32_t chunk)
{
    const uint32_t parts = shape->parts, all = (uint32_t)shape->rank_count, mine = (uint32_t)rank;
    const uint32_t block = chunk / parts, part = chunk % parts;
    const bool input = buffer == PLAN_INPUT;
    if (shape->collective != COLLECTIVE_ALLTOALL)
        return plan_begin_in_place(shape, rank, buffer) + chunk;
    return input ? (mine * all + block) * parts + part : (block * all + mine) * parts + part;
}

bool plan_has_all(const struct plan_shape *shape, int rank)
{
    return rank == shape->root &&
           (shape->collective == COLLECTIVE_BROADCAST || shape->collective == COLLECTIVE_SCATTER);
}

uint32_t plan_location_class(const struct rank_plan *rank_plan, enum plan_buffer buffer,
                             uint32_t chunk)
{
    if (buffer == PLAN_SCRATCH) return rank_plan->scratch_like[chunk];
    return plan_chunk_class(&rank_plan->shape, rank_plan->rank, buffer, chunk);
}

const char *plan_step_kind(const struct rank_plan *rank_plan, const struct plan_step *step)
{
    const struct plan_source *sources = rank_plan->sources + step->first_source;
    const bool sends = step->target_count > 0 || step->target_group != PLAN_NO_GROUP;
    bool receives = false;
    for (uint32_t i = 0; i < step->source_count; i++) receives |= sources[i].is_link;
    const bool reduces = step->source_count > 1;
    if (reduces && receives) return sends ? "recv_reduce_send" : "recv_reduce";
    if (reduces) return sends ? "reduce_send" : "reduce";
    if (receives) return sends ? "recv_send" : "recv";
    if (sends) return step->has_destination ? "copy_send" : "send";
    return "copy";
}
