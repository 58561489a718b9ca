#include "plan/fingerprint.h"

#include "base/hash.h"

/* Two numbers of 32 bits. */
static uint64_t take(uint64_t fingerprint, uint32_t high, uint32_t low)
{
    return hash_take(fingerprint, (uint64_t)high << 32 | low);
}

/* In barriers, whose steps act on no chunks, a place is a buffer only. */
static uint64_t take_place(uint64_t fingerprint, const struct plan_step *step,
                           const struct plan_location *place)
{
    return take(fingerprint, (uint32_t)place->buffer, step->chunk_count > 0 ? place->first : 0);
}

static uint64_t take_source(uint64_t fingerprint, const struct plan_step *step,
                            const struct plan_source *source)
{
    if (!source->is_link) return take_place(fingerprint, step, &source->location);
    fingerprint = take(fingerprint, PLAN_BUFFER_COUNT, (uint32_t)source->peer);
    return take(fingerprint, (uint32_t)source->group, (uint32_t)source->channel);
}

static uint64_t take_targets(uint64_t fingerprint, const struct rank_plan *plan,
                             const struct plan_step *step)
{
    const bool sends = step->target_count > 0 || step->target_group != PLAN_NO_GROUP;
    fingerprint = take(fingerprint, step->target_count, sends);
    if (!sends) return fingerprint;
    fingerprint = take(fingerprint, (uint32_t)step->target_group, (uint32_t)step->target_channel);
    for (uint32_t i = 0; i < step->target_count; i++)
        fingerprint = hash_take(fingerprint, (uint32_t)plan->targets[step->first_target + i]);
    return fingerprint;
}

static uint64_t take_step(uint64_t fingerprint, const struct rank_plan *plan,
                          const struct plan_step *step)
{
    fingerprint = take(fingerprint, step->chunk_count, step->source_count);
    for (uint32_t i = 0; i < step->source_count; i++)
        fingerprint = take_source(fingerprint, step, &plan->sources[step->first_source + i]);
    fingerprint = take(fingerprint, step->after_count,
                       (uint32_t)step->has_destination << 1 | (uint32_t)step->final);
    for (uint32_t i = 0; i < step->after_count; i++)
        fingerprint = hash_take(fingerprint, plan->afters[step->first_after + i]);
    if (step->has_destination) fingerprint = take_place(fingerprint, step, &step->destination);
    return take_targets(fingerprint, plan, step);
}

static uint64_t take_groups(uint64_t fingerprint, const struct rank_plan *plan)
{
    for (uint32_t g = 0; g < plan->group_count; g++) {
        const struct plan_group *group = &plan->groups[g];
        fingerprint = hash_take(fingerprint, group->member_count);
        for (uint32_t i = 0; i < group->member_count; i++)
            fingerprint = hash_take(fingerprint, (uint32_t)plan->members[group->first_member + i]);
    }
    return fingerprint;
}

uint64_t fingerprint_begin(const struct plan_shape *shape)
{
    const uint64_t fingerprint =
        take(UINT64_C(0x706c616e), (uint32_t)shape->collective, (uint32_t)shape->rank_count);
    return take(fingerprint, (uint32_t)shape->root, shape->parts);
}

uint64_t fingerprint_rank(uint64_t fingerprint, const struct rank_plan *rank_plan)
{
    fingerprint = take(fingerprint, rank_plan->group_count, rank_plan->scratch_count);
    fingerprint = take_groups(fingerprint, rank_plan);
    for (uint32_t i = 0; i < rank_plan->scratch_count; i++)
        fingerprint = hash_take(fingerprint, rank_plan->scratch_like[i]);
    fingerprint = hash_take(fingerprint, rank_plan->lane_count);
    for (uint32_t l = 0; l < rank_plan->lane_count; l++) {
        const struct plan_lane *lane = &rank_plan->lanes[l];
        fingerprint = hash_take(fingerprint, lane->step_count);
        for (uint32_t i = 0; i < lane->step_count; i++)
            fingerprint = take_step(fingerprint, rank_plan, &rank_plan->steps[lane->first_step + i]);
    }
    return fingerprint;
}

uint64_t plan_fingerprint(const struct plan *plan)
{
    uint64_t fingerprint = fingerprint_begin(&plan->shape);
    for (int rank = 0; rank < plan->shape.rank_count; rank++)
        fingerprint = fingerprint_rank(fingerprint, plan->ranks[rank]);
    return fingerprint;
}
