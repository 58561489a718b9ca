#include "plan/placement.h"

/* Chunks of this rank's memory. In place, input and output are parts of one space; else each buffer
 * is its own. */
struct range {
    enum plan_buffer space;
    uint32_t begin, end;
};

static struct range range_of(const struct rank_plan *plan, const struct plan_location *place,
                             uint32_t chunk_count, bool in_place)
{
    enum plan_buffer space = place->buffer;
    uint32_t begin = place->first;
    if (in_place && space != PLAN_SCRATCH) {
        begin += plan_begin_in_place(&plan->shape, plan->rank, space);
        space = PLAN_OUTPUT;
    }
    return (struct range){space, begin, begin + chunk_count};
}

static bool ranges_meet(struct range a, struct range b)
{
    return a.space == b.space && a.begin < b.end && b.begin < a.end;
}

static bool ranges_are_equal(struct range a, struct range b)
{
    return a.space == b.space && a.begin == b.begin && a.end == b.end;
}

static const struct plan_source *sources_of(const struct rank_plan *plan,
                                            const struct plan_step *step)
{
    return &plan->sources[step->first_source];
}

static bool step_touches(const struct rank_plan *plan, const struct plan_step *step,
                         struct range range, bool in_place)
{
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &sources_of(plan, step)[i];
        if (!source->is_link &&
            ranges_meet(range_of(plan, &source->location, step->chunk_count, in_place), range))
            return true;
    }
    return step->has_destination &&
           ranges_meet(range_of(plan, &step->destination, step->chunk_count, in_place), range);
}

/* Whether the step does nothing but send just that memory, to just that rank. */
static bool only_sends(const struct rank_plan *plan, const struct plan_step *step,
                       struct range range, int peer, bool in_place)
{
    const struct plan_source *source = sources_of(plan, step);
    return step->source_count == 1 && !source->is_link && !step->has_destination && !step->final &&
           step->target_group == PLAN_NO_GROUP && step->target_count == 1 &&
           plan->targets[step->first_target] == peer &&
           ranges_are_equal(range_of(plan, &source->location, step->chunk_count, in_place), range);
}

/* Whether until the message has come its destination is the message's alone, or is sent to the rank
 * from which it comes. Later steps of the lane wait for the message. */
static bool is_undisturbed(const struct rank_plan *plan, uint32_t receive, bool in_place)
{
    const struct plan_step *step = &plan->steps[receive];
    const struct range range = range_of(plan, &step->destination, step->chunk_count, in_place);
    const int peer = sources_of(plan, step)->peer;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *other = &plan->steps[i];
        const bool waits = other->lane == step->lane && i >= receive;
        if (!waits && step_touches(plan, other, range, in_place) &&
            !only_sends(plan, other, range, peer, in_place))
            return false;
    }
    return true;
}

/* All messages from one rank on one channel come through one link, to one lane. */
static bool is_first_of_link(const struct rank_plan *plan, uint32_t receive)
{
    const struct plan_step *step = &plan->steps[receive];
    const struct plan_source *link = sources_of(plan, step);
    for (uint32_t i = 0; i < step->first_source; i++) {
        const struct plan_source *earlier = &plan->sources[i];
        if (earlier->is_link && earlier->peer == link->peer && earlier->channel == link->channel)
            return false;
    }
    return true;
}

static bool stores_what_comes(const struct rank_plan *plan, const struct plan_step *step)
{
    return step->source_count == 1 && sources_of(plan, step)->is_link && step->has_destination &&
           step->destination.buffer == PLAN_OUTPUT && !step->final && step->after_count == 0 &&
           step->target_count == 0 && step->target_group == PLAN_NO_GROUP;
}

static bool reads_from(const struct rank_plan *plan, const struct plan_step *step, int peer)
{
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &sources_of(plan, step)[i];
        if (source->is_link && source->peer == peer) return true;
    }
    return false;
}

/* A result that is only copied goes to nobody's memory: its receivers copy it themselves, all at
 * the same time. */
static bool reduces_what_its_receivers_sent(const struct rank_plan *plan,
                                            const struct plan_step *step)
{
    if (step->source_count == 1) return false;
    for (uint32_t i = 0; i < step->target_count; i++)
        if (!reads_from(plan, step, plan->targets[step->first_target + i])) return false;
    if (step->target_group == PLAN_NO_GROUP) return step->target_count > 0;
    const struct plan_group *group = &plan->groups[step->target_group];
    for (uint32_t i = 0; i < group->member_count; i++) {
        const int member = plan->members[group->first_member + i];
        if (member != plan->rank && !reads_from(plan, step, member)) return false;
    }
    return true;
}

enum placement placement_of_step(const struct rank_plan *rank_plan, uint32_t step, bool in_place)
{
    const struct plan_step *of = &rank_plan->steps[step];
    if (!collective_reduces(rank_plan->shape.collective)) return PLACEMENT_NONE; /* nobody places */
    if (reduces_what_its_receivers_sent(rank_plan, of)) return PLACEMENT_PLACES;
    return stores_what_comes(rank_plan, of) && is_first_of_link(rank_plan, step) &&
                   is_undisturbed(rank_plan, step, in_place)
               ? PLACEMENT_ADVERTISES
               : PLACEMENT_NONE;
}
