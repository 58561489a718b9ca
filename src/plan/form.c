#include "plan/form.h"

#include "plan/fault.h"

uint64_t form_class_count(const struct plan_shape *shape)
{
    const uint64_t all = (uint64_t)shape->rank_count, parts = shape->parts;
    switch (shape->collective) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST: return parts;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER: return all * parts;
    case COLLECTIVE_ALLTOALL: /* with 2^16 ranks, 2^32 pairs times parts might not fit */
        return all * all > UINT32_MAX ? UINT64_MAX : all * all * parts;
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return 0;
}

static bool same_shape(const struct plan_shape *a, const struct plan_shape *b)
{
    return a->collective == b->collective && a->rank_count == b->rank_count && a->root == b->root &&
           a->parts == b->parts;
}

static bool check_shape(const struct plan *plan, struct verify_report *report)
{
    const struct plan_shape *shape = &plan->shape;
    if ((unsigned)shape->collective >= COLLECTIVE_COUNT)
        return fault_at(report, NULL, FAULT_NO_STEP, "not a collective");
    if (shape->rank_count < 1 || shape->rank_count > PLAN_RANKS_MAX)
        return fault_at(report, NULL, FAULT_NO_STEP, "%d ranks", shape->rank_count);
    if (shape->root < 0 || shape->root >= shape->rank_count ||
        (shape->root != 0 && !collective_is_rooted(shape->collective)))
        return fault_at(report, NULL, FAULT_NO_STEP, "root %d", shape->root);
    if (shape->parts < 1 || form_class_count(shape) > UINT32_MAX)
        return fault_at(report, NULL, FAULT_NO_STEP, "%u parts", shape->parts);
    if (plan->ranks == NULL) return fault_at(report, NULL, FAULT_NO_STEP, "no ranks");
    for (int rank = 0; rank < shape->rank_count; rank++) {
        const struct rank_plan *rank_plan = plan->ranks[rank];
        if (rank_plan == NULL || rank_plan->rank != rank || !same_shape(shape, &rank_plan->shape))
            return fault_at(report, NULL, FAULT_NO_STEP, "rank %d is missing or of another plan",
                            rank);
    }
    return true;
}

static bool arrays_exist(const struct rank_plan *p)
{
    return (p->lanes || !p->lane_count) && (p->steps || !p->step_count) &&
           (p->sources || !p->source_count) && (p->targets || !p->target_count) &&
           (p->afters || !p->after_count) && (p->groups || !p->group_count) &&
           (p->members || !p->member_count) && (p->scratch_like || !p->scratch_count);
}

static bool within(uint32_t first, uint32_t count, uint32_t bound)
{
    return first <= bound && count <= bound - first;
}

static bool lanes_tile_steps(const struct rank_plan *rank_plan)
{
    uint32_t next = 0;
    if (rank_plan->lane_count > PLAN_LANES_MAX) return false;
    for (uint32_t lane = 0; lane < rank_plan->lane_count; lane++) {
        const struct plan_lane *of = &rank_plan->lanes[lane];
        if (of->first_step != next || !within(next, of->step_count, rank_plan->step_count))
            return false;
        for (uint32_t i = 0; i < of->step_count; i++)
            if (rank_plan->steps[next + i].lane != lane) return false;
        next += of->step_count;
    }
    return next == rank_plan->step_count;
}

/* Ascending, and this rank is one of them. */
static bool group_is_valid(const struct rank_plan *rank_plan, const struct plan_group *group)
{
    bool holds_rank = false;
    if (!within(group->first_member, group->member_count, rank_plan->member_count)) return false;
    const int *members = rank_plan->members + group->first_member;
    for (uint32_t i = 0; i < group->member_count; i++) {
        if (members[i] < 0 || members[i] >= rank_plan->shape.rank_count) return false;
        if (i > 0 && members[i] <= members[i - 1]) return false;
        holds_rank |= members[i] == rank_plan->rank;
    }
    return holds_rank;
}

static bool is_member(const struct rank_plan *rank_plan, int index, int rank)
{
    const struct plan_group *group = &rank_plan->groups[index];
    const int *members = rank_plan->members + group->first_member;
    uint32_t low = 0, high = group->member_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (members[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < group->member_count && members[low] == rank;
}

static bool place_is_valid(const struct rank_plan *rank_plan, const struct plan_location *place,
                           uint32_t chunk_count)
{
    if ((unsigned)place->buffer >= PLAN_BUFFER_COUNT) return false;
    const uint32_t bound = place->buffer == PLAN_SCRATCH
                               ? rank_plan->scratch_count
                               : plan_chunk_count(&rank_plan->shape, rank_plan->rank, place->buffer);
    return within(place->first, chunk_count, bound);
}

static bool peer_is_valid(const struct rank_plan *rank_plan, int peer)
{
    return peer >= 0 && peer < rank_plan->shape.rank_count && peer != rank_plan->rank;
}

static bool channel_is_valid(int channel)
{
    return channel >= 0 && channel < PLAN_CHANNELS_MAX;
}

static bool group_index_is_valid(const struct rank_plan *rank_plan, int group)
{
    return group >= 0 && (uint32_t)group < rank_plan->group_count;
}

static bool check_sources(const struct rank_plan *rank_plan, uint32_t index,
                          struct verify_report *report)
{
    const struct plan_step *step = &rank_plan->steps[index];
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &rank_plan->sources[step->first_source + i];
        if (!source->is_link) {
            if (!place_is_valid(rank_plan, &source->location, step->chunk_count))
                return fault_at(report, rank_plan, index, "reads outside of the buffer");
            continue;
        }
        if (!peer_is_valid(rank_plan, source->peer))
            return fault_at(report, rank_plan, index, "receives from rank %d", source->peer);
        if (!channel_is_valid(source->channel))
            return fault_at(report, rank_plan, index, "receives on channel %d", source->channel);
        if (source->group != PLAN_NO_GROUP && (!group_index_is_valid(rank_plan, source->group) ||
                                               !is_member(rank_plan, source->group, source->peer)))
            return fault_at(report, rank_plan, index,
                            "receives what rank %d sent to group %d, which it is not in",
                            source->peer, source->group);
    }
    return true;
}

static bool check_targets(const struct rank_plan *rank_plan, uint32_t index,
                          struct verify_report *report)
{
    const struct plan_step *step = &rank_plan->steps[index];
    const bool to_group = step->target_group != PLAN_NO_GROUP;
    if (to_group && (!group_index_is_valid(rank_plan, step->target_group) ||
                     rank_plan->groups[step->target_group].member_count < 2))
        return fault_at(report, rank_plan, index, "sends to group %d, where nobody is",
                        step->target_group);
    if (to_group && step->target_count > 0)
        return fault_at(report, rank_plan, index, "sends to a group and to others");
    if ((to_group || step->target_count > 0) && !channel_is_valid(step->target_channel))
        return fault_at(report, rank_plan, index, "sends on channel %d", step->target_channel);
    for (uint32_t i = 0; i < step->target_count; i++) {
        const int peer = rank_plan->targets[step->first_target + i];
        if (!peer_is_valid(rank_plan, peer))
            return fault_at(report, rank_plan, index, "sends to rank %d", peer);
    }
    return true;
}

static bool check_step(const struct rank_plan *rank_plan, uint32_t index,
                       struct verify_report *report)
{
    const struct plan_shape *shape = &rank_plan->shape;
    const struct plan_step *step = &rank_plan->steps[index];
    if (!within(step->first_source, step->source_count, rank_plan->source_count) ||
        !within(step->first_target, step->target_count, rank_plan->target_count) ||
        !within(step->first_after, step->after_count, rank_plan->after_count))
        return fault_at(report, rank_plan, FAULT_NO_STEP,
                        "step %u names sources, targets or steps that do not exist", index);
    if ((step->chunk_count == 0) != (shape->collective == COLLECTIVE_BARRIER))
        return fault_at(report, rank_plan, index, "acts on %u chunks", step->chunk_count);
    if (step->source_count == 0) return fault_at(report, rank_plan, index, "has no source");
    if (!step->has_destination && step->target_count == 0 && step->target_group == PLAN_NO_GROUP)
        return fault_at(report, rank_plan, index, "has neither destination nor target");
    if (step->source_count > 1 && step->chunk_count > 0 && !collective_reduces(shape->collective))
        return fault_at(report, rank_plan, index, "reduces in a collective that does not");
    if (step->final && (!collective_reduces(shape->collective) || step->source_count < 2))
        return fault_at(report, rank_plan, index, "is marked final but completes no reduction");
    if (!check_sources(rank_plan, index, report) || !check_targets(rank_plan, index, report))
        return false;
    if (step->has_destination && !place_is_valid(rank_plan, &step->destination, step->chunk_count))
        return fault_at(report, rank_plan, index, "writes outside of the buffer");
    if (step->has_destination && step->destination.buffer == PLAN_INPUT && step->chunk_count > 0)
        return fault_at(report, rank_plan, index, "writes to the input");
    for (uint32_t i = 0; i < step->after_count; i++) {
        const uint32_t after = rank_plan->afters[step->first_after + i];
        if (after >= rank_plan->step_count)
            return fault_at(report, rank_plan, index, "comes after step %u, which does not exist",
                            after);
    }
    return true;
}

static bool check_rank(const struct rank_plan *rank_plan, struct verify_report *report)
{
    const uint64_t class_count = form_class_count(&rank_plan->shape);
    if (!arrays_exist(rank_plan))
        return fault_at(report, rank_plan, FAULT_NO_STEP, "an array is missing");
    for (uint32_t i = 0; i < rank_plan->scratch_count; i++)
        if (rank_plan->scratch_like[i] >= class_count)
            return fault_at(report, rank_plan, FAULT_NO_STEP,
                            "scratch chunk %u is like no chunk of the plan", i);
    for (uint32_t i = 0; i < rank_plan->group_count; i++)
        if (!group_is_valid(rank_plan, &rank_plan->groups[i]))
            return fault_at(report, rank_plan, FAULT_NO_STEP,
                            "group %u is not made of ascending ranks with this one among them", i);
    if (!lanes_tile_steps(rank_plan))
        return fault_at(report, rank_plan, FAULT_NO_STEP, "the lanes do not divide the steps");
    for (uint32_t i = 0; i < rank_plan->step_count; i++)
        if (!check_step(rank_plan, i, report)) return false;
    return true;
}

bool form_check(const struct plan *plan, struct verify_report *report)
{
    if (!check_shape(plan, report)) return false;
    for (int rank = 0; rank < plan->shape.rank_count; rank++)
        if (!check_rank(plan->ranks[rank], report)) return false;
    return true;
}
