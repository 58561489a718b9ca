#include "plan/rounding.h"

#include <stdlib.h>
#include <string.h>

/* The chunks that are input and output of a rank at once when it is in place: the block that it
 * gives itself. */
struct own_block {
    uint32_t input, output; /* its first chunk in each */
    uint32_t count;         /* 0: there is none */
};

static struct own_block own_block_of(const struct plan_shape *shape, int rank)
{
    const bool is_moved = !collective_reduces(shape->collective) &&
                          plan_chunk_count(shape, rank, PLAN_INPUT) > 0 &&
                          plan_chunk_count(shape, rank, PLAN_OUTPUT) > 0;
    if (!is_moved) return (struct own_block){0};
    const uint32_t own = (uint32_t)rank * shape->parts;
    const bool exchanges = shape->collective == COLLECTIVE_ALLTOALL;
    return (struct own_block){
        .input = exchanges ? own : plan_begin_in_place(shape, rank, PLAN_OUTPUT),
        .output = exchanges ? own : plan_begin_in_place(shape, rank, PLAN_INPUT),
        .count = shape->parts};
}

static bool reads_own_block(const struct rank_plan *rank_plan, const struct plan_step *step)
{
    const struct own_block own = own_block_of(&rank_plan->shape, rank_plan->rank);
    const uint32_t first = rank_plan->sources[step->first_source].location.first;
    return first >= own.input && first + step->chunk_count <= own.input + own.count;
}

bool rounding_of_step(const struct rank_plan *rank_plan, uint32_t step, const int *places,
                      bool in_place)
{
    (void)places;
    const struct plan_step *const at = &rank_plan->steps[step];
    const struct plan_source *const source = &rank_plan->sources[at->first_source];
    if (collective_reduces(rank_plan->shape.collective))
        return at->final && rank_plan->shape.collective == COLLECTIVE_ALLREDUCE;
    if (source->is_link || source->location.buffer != PLAN_INPUT || at->chunk_count == 0)
        return false;
    return !in_place || step == 0 || !reads_own_block(rank_plan, at);
}

/* ------------------------------------------------------------------------------- the first step */

/* An array with room for `more` further elements before the others; NULL: out of memory, and the
 * array is as it was. */
static void *shift(const void *array, size_t count, size_t more, size_t element_bytes)
{
    char *const shifted = calloc(count + more, element_bytes);
    if (shifted != NULL && count > 0)
        memcpy(shifted + more * element_bytes, array, count * element_bytes);
    return shifted;
}

/* Lanes other than the first that have a step: these steps wait for the new first step. */
static uint32_t other_lanes(const struct rank_plan *rank_plan)
{
    uint32_t count = 0;
    for (uint32_t l = 1; l < rank_plan->lane_count; l++)
        count += rank_plan->lanes[l].step_count > 0;
    return count;
}

/* Counts everything that is named by its number one further. */
static void count_further(struct rank_plan *rank_plan)
{
    for (uint32_t s = 1; s <= rank_plan->step_count; s++) rank_plan->steps[s].first_source++;
    for (uint32_t a = 0; a < rank_plan->after_count; a++) rank_plan->afters[a]++;
    for (uint32_t l = 1; l < rank_plan->lane_count; l++) rank_plan->lanes[l].first_step++;
    rank_plan->lanes[0].first_step = 0;
    rank_plan->lanes[0].step_count++;
    rank_plan->step_count++;
    rank_plan->source_count++;
}

/* The afters of a step lie side by side, so the first step of a lane gets a new list at the end. */
static void wait_for_first(struct rank_plan *rank_plan, struct plan_step *step)
{
    uint32_t *const list = &rank_plan->afters[rank_plan->after_count];
    memcpy(list, &rank_plan->afters[step->first_after], step->after_count * sizeof *list);
    list[step->after_count] = 0;
    step->first_after = rank_plan->after_count;
    step->after_count++;
    rank_plan->after_count += step->after_count;
}

bool rounding_of_own_block(struct rank_plan *rank_plan)
{
    const struct own_block own = own_block_of(&rank_plan->shape, rank_plan->rank);
    if (own.count == 0 || rank_plan->step_count == 0) return true;
    uint32_t more_afters = other_lanes(rank_plan);
    for (uint32_t l = 1; l < rank_plan->lane_count; l++)
        if (rank_plan->lanes[l].step_count > 0)
            more_afters += rank_plan->steps[rank_plan->lanes[l].first_step].after_count;
    struct plan_step *const steps = shift(rank_plan->steps, rank_plan->step_count, 1, sizeof *steps);
    struct plan_source *const sources =
        shift(rank_plan->sources, rank_plan->source_count, 1, sizeof *sources);
    uint32_t *const afters =
        realloc(rank_plan->afters, (rank_plan->after_count + more_afters + 1) * sizeof *afters);
    if (afters != NULL) rank_plan->afters = afters;
    if (steps == NULL || sources == NULL || afters == NULL) {
        free(steps);
        free(sources);
        return false;
    }
    free(rank_plan->steps);
    free(rank_plan->sources);
    rank_plan->steps = steps;
    rank_plan->sources = sources;
    count_further(rank_plan);
    sources[0] = (struct plan_source){.location = {PLAN_INPUT, own.input}, .group = PLAN_NO_GROUP};
    steps[0] = (struct plan_step){.chunk_count = own.count,
                                  .source_count = 1,
                                  .has_destination = true,
                                  .destination = {PLAN_OUTPUT, own.output},
                                  .target_group = PLAN_NO_GROUP};
    for (uint32_t l = 1; l < rank_plan->lane_count; l++)
        if (rank_plan->lanes[l].step_count > 0)
            wait_for_first(rank_plan, &rank_plan->steps[rank_plan->lanes[l].first_step]);
    return true;
}

bool rounding_keeps_units(const struct rank_plan *rank_plan)
{
    const uint32_t parts = rank_plan->shape.parts;
    for (uint32_t s = 0; s < rank_plan->step_count; s++) {
        const struct plan_step *const step = &rank_plan->steps[s];
        const struct plan_source *const source = &rank_plan->sources[step->first_source];
        if (!step->has_destination && source->is_link)
            continue; /* its range is that of its sender */
        const struct plan_location *const range =
            step->has_destination ? &step->destination : &source->location;
        for (uint32_t i = 0; i + 1 < step->chunk_count; i++)
            if (plan_location_class(rank_plan, range->buffer, range->first + i) % parts == parts - 1)
                return false;
    }
    return true;
}
