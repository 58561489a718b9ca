/* steps_plan.c - a schedule as a plan.
 *
 *     a rank's lanes:  a few that send ─ 0 .. 7 ─┐    each peer has one of either kind; all lanes keep the order of the transfers,
 *                      a few that receive ─ .. 15┘    and wait only for what comes earlier there: so no lanes wait in a circle
 *
 * What a rank passes on waits in its output where it is wanted, and in scratch elsewhere. Whether
 * all that is right says plan_verify.
 */
#include "studio/synth/steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan/build.h"
#include "plan/verify.h"
#include "studio/synth/late.h"

enum { LANES_OF_A_KIND = PLAN_LANES_MAX / 2 };

/* The place of a chunk at a rank, and the step that put it there. */
struct held {
    struct plan_location place;
    uint32_t step;
    bool is_here, has_step;
};

struct writing {
    const struct synth_steps *steps;
    struct plan_builder *builder;
    int rank;
    struct held *held;        /* of each chunk */
    uint32_t *output, *input; /* index of each chunk there, or NOWHERE */
    int *left_count;          /* of each chunk: how many contributions are still to come */
    int lane_of[2][LANES_OF_A_KIND];
};

static const uint32_t NOWHERE = UINT32_MAX;

/* Lanes are started when they are first needed. */
static void enter_lane(struct writing *w, bool receives, int peer)
{
    int *const lane = &w->lane_of[receives][peer % LANES_OF_A_KIND];
    if (*lane < 0)
        *lane = (int)plan_lane(w->builder);
    else
        plan_lane_again(w->builder, (uint32_t)*lane);
}

static void wait_for(struct writing *w, const struct held *held)
{
    if (held->has_step) plan_after(w->builder, held->step);
}

static void write_send(struct writing *w, const struct synth_transfer *t)
{
    const struct held *const held = &w->held[t->chunk];
    if (!held->is_here) {
        plan_fail(w->builder, TUTTI_INVALID_OPTIONS, "a chunk is sent before it is there");
        return;
    }
    enter_lane(w, false, t->to);
    plan_begin(w->builder, 1);
    plan_read(w->builder, held->place.buffer, held->place.first);
    plan_send(w->builder, t->to);
    wait_for(w, held);
    plan_end(w->builder);
}

static struct plan_location place_for(struct writing *w, int chunk)
{
    if (w->output[chunk] != NOWHERE) return (struct plan_location){PLAN_OUTPUT, w->output[chunk]};
    return (struct plan_location){PLAN_SCRATCH, plan_scratch(w->builder, (uint32_t)chunk)};
}

/* A sum grows in one place; its first term is the rank's own input. */
static void write_receive(struct writing *w, const struct synth_transfer *t)
{
    struct held *const held = &w->held[t->chunk];
    const bool reduces = t->step < w->steps->reduce_step_count;
    enter_lane(w, true, t->from);
    const struct plan_location place =
        held->is_here && held->place.buffer != PLAN_INPUT ? held->place : place_for(w, t->chunk);
    plan_begin(w->builder, 1);
    if (reduces) plan_read(w->builder, held->place.buffer, held->place.first);
    plan_receive(w->builder, t->from);
    plan_write(w->builder, place.buffer, place.first);
    if (held->is_here) wait_for(w, held);
    if (reduces && --w->left_count[t->chunk] == 0) plan_final(w->builder);
    *held = (struct held){place, plan_end(w->builder), true, true};
}

/* Notes the chunks that a rank has at the beginning. It copies its own result at once. */
static void write_beginning(struct writing *w)
{
    const struct plan_shape *const shape = &w->steps->shape;
    const int chunk_count = synth_chunk_count(shape);
    for (int chunk = 0; chunk < chunk_count; chunk++) {
        if (w->input[chunk] == NOWHERE) continue;
        w->held[chunk] = (struct held){.place = {PLAN_INPUT, w->input[chunk]}, .is_here = true};
        if (collective_reduces(shape->collective) || w->output[chunk] == NOWHERE) continue;
        enter_lane(w, false, 0);
        plan_copy(w->builder, PLAN_INPUT, w->input[chunk], PLAN_OUTPUT, w->output[chunk], 1);
    }
}

/* In place, what comes for an alltoall overwrites what is still to be sent: that is sent from a
 * copy. */
static void write_copies(struct writing *w)
{
    const int chunk_count = synth_chunk_count(&w->steps->shape);
    for (int chunk = 0; chunk < chunk_count; chunk++) {
        if (w->input[chunk] == NOWHERE || w->output[chunk] != NOWHERE) continue;
        const uint32_t copy = plan_scratch(w->builder, (uint32_t)chunk);
        enter_lane(w, false, 0);
        const uint32_t step =
            plan_copy(w->builder, PLAN_INPUT, w->input[chunk], PLAN_SCRATCH, copy, 1);
        w->held[chunk] = (struct held){{PLAN_SCRATCH, copy}, step, true, true};
    }
}

/* ... and nothing comes before it has been copied: whoever receives waits for the copy of what lies
 * there. */
static void wait_for_copies(struct writing *w)
{
    const struct plan_shape *const shape = &w->steps->shape;
    const int chunk_count = synth_chunk_count(shape);
    for (int chunk = 0; chunk < chunk_count; chunk++) {
        if (w->output[chunk] == NOWHERE || w->input[chunk] != NOWHERE) continue;
        const uint32_t other = plan_chunk_class(shape, w->rank, PLAN_INPUT, w->output[chunk]);
        w->held[chunk] = (struct held){
            {PLAN_OUTPUT, w->output[chunk]}, w->held[other].step, true, w->held[other].has_step};
    }
}

static void write_rank(struct writing *w, bool in_place)
{
    const struct synth_steps *const steps = w->steps;
    plan_parts(w->builder, steps->shape.parts);
    write_beginning(w);
    if (in_place && steps->shape.collective == COLLECTIVE_ALLTOALL) {
        write_copies(w);
        wait_for_copies(w);
    }
    for (int i = 0; i < steps->transfer_count && plan_builder_error(w->builder) == NULL; i++) {
        const struct synth_transfer *const t = &steps->transfers[i];
        if (t->from == w->rank) write_send(w, t);
        if (t->to == w->rank) write_receive(w, t);
    }
}

static void find_places(struct writing *w)
{
    const struct plan_shape *const shape = &w->steps->shape;
    const int chunk_count = synth_chunk_count(shape);
    for (int chunk = 0; chunk < chunk_count; chunk++) w->input[chunk] = w->output[chunk] = NOWHERE;
    const uint32_t inputs = plan_chunk_count(shape, w->rank, PLAN_INPUT);
    for (uint32_t i = 0; i < inputs; i++)
        w->input[plan_chunk_class(shape, w->rank, PLAN_INPUT, i)] = i;
    const uint32_t outputs = plan_chunk_count(shape, w->rank, PLAN_OUTPUT);
    for (uint32_t i = 0; i < outputs; i++)
        w->output[plan_chunk_class(shape, w->rank, PLAN_OUTPUT, i)] = i;
}

/* At the rank where a sum is complete, the last one to come completes it: that rank sends it on
 * only as a copy, or not at all. */
static void count_contributions(struct writing *w)
{
    const struct synth_steps *const steps = w->steps;
    const int chunk_count = synth_chunk_count(&steps->shape);
    memset(w->left_count, 0, (size_t)chunk_count * sizeof *w->left_count);
    for (int i = 0; i < steps->transfer_count; i++) {
        const struct synth_transfer *const t = &steps->transfers[i];
        if (t->step >= steps->reduce_step_count) continue;
        if (t->to == w->rank && w->left_count[t->chunk] >= 0) w->left_count[t->chunk]++;
        if (t->from == w->rank) w->left_count[t->chunk] = -1;
    }
}

static enum tutti_status make_rank(struct writing *w, int rank, bool in_place,
                                   struct rank_plan **rank_plan)
{
    const struct plan_shape *const shape = &w->steps->shape;
    const char *message = NULL;
    w->rank = rank;
    w->builder = plan_builder_create(shape->collective, shape->rank_count, shape->root, rank);
    if (w->builder == NULL) return error_set(TUTTI_NO_MEMORY, "the plan of rank %d", rank);
    memset(w->held, 0, (size_t)synth_chunk_count(shape) * sizeof *w->held);
    memset(w->lane_of, -1, sizeof w->lane_of);
    find_places(w);
    count_contributions(w);
    write_rank(w, in_place);
    const enum tutti_status status = plan_builder_finish(w->builder, rank_plan, &message);
    plan_builder_free(w->builder);
    return status == TUTTI_OK ? status
                              : error_set(status, "the schedule makes no plan for rank %d: %s",
                                          rank, message != NULL ? message : "unknown");
}

static enum tutti_status late(void)
{
    return error_set(TUTTI_TIMEOUT, "the time is over before the schedule is a proven plan");
}

static enum tutti_status make_ranks(const struct synth_steps *steps, bool in_place,
                                    uint64_t deadline_ns, struct plan *plan)
{
    const size_t chunks = (size_t)synth_chunk_count(&steps->shape);
    struct writing w = {.steps = steps,
                        .held = calloc(chunks, sizeof *w.held),
                        .output = calloc(chunks, sizeof *w.output),
                        .input = calloc(chunks, sizeof *w.input),
                        .left_count = calloc(chunks, sizeof *w.left_count)};
    enum tutti_status status = TUTTI_OK;
    if (w.held == NULL || w.output == NULL || w.input == NULL || w.left_count == NULL)
        status = error_set(TUTTI_NO_MEMORY, "a plan of %zu chunks", chunks);
    for (int rank = 0; rank < steps->shape.rank_count && status == TUTTI_OK; rank++)
        status =
            synth_is_late(deadline_ns) ? late() : make_rank(&w, rank, in_place, &plan->ranks[rank]);
    free(w.held);
    free(w.output);
    free(w.input);
    free(w.left_count);
    return status;
}

static enum tutti_status prove(const struct plan *plan, bool in_place)
{
    struct verify_report report;
    switch (plan_verify(plan, &(struct verify_options){.in_place = in_place}, &report)) {
    case VERIFY_PROVEN: return TUTTI_OK;
    case VERIFY_NO_MEMORY:
    case VERIFY_TOO_COSTLY: return error_set(TUTTI_NO_MEMORY, "the proof of a plan");
    default: return error_set(TUTTI_INTERNAL, "a schedule's plan is wrong: %s", report.message);
    }
}

static enum tutti_status make_and_prove(const struct synth_steps *steps, bool in_place,
                                        uint64_t deadline_ns, struct plan *plan)
{
    TRY(make_ranks(steps, in_place, deadline_ns, plan));
    for (int aliased = 0; aliased <= in_place; aliased++)
        TRY(synth_is_late(deadline_ns) ? late() : prove(plan, aliased));
    return TUTTI_OK;
}

enum tutti_status synth_steps_plan(const struct synth_steps *steps, bool in_place,
                                   uint64_t deadline_ns, struct plan **plan)
{
    *plan = NULL;
    TRY(synth_shape_check(&steps->shape));
    struct plan *const made = calloc(1, sizeof *made);
    if (made == NULL) return error_set(TUTTI_NO_MEMORY, "a plan");
    made->shape = steps->shape;
    made->ranks = calloc((size_t)steps->shape.rank_count, sizeof *made->ranks);
    const enum tutti_status status = made->ranks != NULL
                                         ? make_and_prove(steps, in_place, deadline_ns, made)
                                         : error_set(TUTTI_NO_MEMORY, "a plan");
    if (status != TUTTI_OK) {
        plan_free(made);
        return status;
    }
    *plan = made;
    return TUTTI_OK;
}
