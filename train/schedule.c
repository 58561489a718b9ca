/* schedule.c - schedules by name, and what they are made of.
 *
 * gpipe        Huang et al.: GPipe: efficient training of giant neural networks using pipeline parallelism, NeurIPS 2019
 * 1f1b         Narayanan et al.: PipeDream: generalized pipeline parallelism for DNN training, SOSP 2019; with a flush at the end of each
 *              step: Narayanan et al.: Memory-efficient pipeline-parallel DNN training, ICML 2021
 * interleaved  Narayanan et al.: Efficient large-scale language model training on GPU clusters using Megatron-LM, SC 2021
 *
 * All leave a stage idle for the time of p - 1 forward and backward passes through a chunk, for p
 * stages.
 */
#include "schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ----------------------------------------------------------------------------------------- life */

static enum tutti_status check_shape(const char *function, const struct tutti_schedule_shape *shape)
{
    const struct {
        const char *what;
        int count, most;
    } counts[] = {{"stages", shape->stage_count, SCHEDULE_STAGES_MAX},
                  {"micro-batches", shape->micro_batch_count, SCHEDULE_MICRO_BATCHES_MAX},
                  {"chunks", shape->chunk_count, SCHEDULE_CHUNKS_MAX}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].count < 1 || counts[i].count > counts[i].most)
            return error_set(TUTTI_INVALID_OPTIONS, "%s: %s must be from 1 to %d, are %d", function,
                             counts[i].what, counts[i].most, counts[i].count);
    if ((size_t)shape->stage_count * schedule_stage_passes(shape) > SCHEDULE_PASSES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s: stages, micro-batches and chunks make more than %d passes", function,
                         SCHEDULE_PASSES_MAX);
    return TUTTI_OK;
}

enum tutti_status schedule_create_empty(const char *function,
                                        const struct tutti_schedule_shape *shape,
                                        struct tutti_schedule **created)
{
    *created = NULL;
    TRY(check_shape(function, shape));
    struct tutti_schedule *const schedule =
        calloc(1, sizeof *schedule + (size_t)shape->stage_count * sizeof *schedule->stages);
    if (schedule == NULL) return error_set(TUTTI_NO_MEMORY, "%s: out of memory", function);
    schedule->shape = *shape;
    schedule->name = "";
    *created = schedule;
    return TUTTI_OK;
}

enum tutti_status schedule_add(struct tutti_schedule *schedule, int stage,
                               struct tutti_schedule_action action)
{
    struct schedule_stage *const s = &schedule->stages[stage];
    if (s->count == s->room) {
        const size_t room = s->room == 0 ? 16 : 2 * s->room;
        struct tutti_schedule_action *const grown = realloc(s->actions, room * sizeof *grown);
        if (grown == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory for a schedule");
        s->actions = grown;
        s->room = room;
    }
    s->actions[s->count++] = action;
    return TUTTI_OK;
}

enum tutti_status tutti_schedule_free(struct tutti_schedule *schedule)
{
    if (schedule == NULL) return TUTTI_OK;
    for (int s = 0; s < schedule->shape.stage_count; s++) free(schedule->stages[s].actions);
    free(schedule);
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- by name */

/* The k-th pass of a stage in one direction: micro-batches in order, in groups of one for each
 * stage, and each group through one chunk after the other. */
static struct tutti_schedule_action kth_pass(const struct tutti_schedule_shape *shape,
                                             enum tutti_pass pass, int k)
{
    const int p = shape->stage_count, v = shape->chunk_count;
    if (v == 1) return (struct tutti_schedule_action){pass, k, 0};
    const int group = k / (p * v), within = k % (p * v), turn = within / p;
    return (struct tutti_schedule_action){pass, group * p + within % p,
                                          pass == TUTTI_PASS_FORWARD ? turn : v - 1 - turn};
}

/* So many forward passes first, then one forward and one backward pass by turns, and the backward
 * passes that are left. */
static enum tutti_status alternate(struct tutti_schedule *schedule, int stage, int first)
{
    const struct tutti_schedule_shape *const shape = &schedule->shape;
    const int all = shape->micro_batch_count * shape->chunk_count;
    if (first > all) first = all;
    for (int k = 0; k < all + first; k++) {
        if (k < all) TRY(schedule_add(schedule, stage, kth_pass(shape, TUTTI_PASS_FORWARD, k)));
        if (k >= first)
            TRY(schedule_add(schedule, stage, kth_pass(shape, TUTTI_PASS_BACKWARD, k - first)));
    }
    return TUTTI_OK;
}

static enum tutti_status generate_gpipe(struct tutti_schedule *schedule, int stage)
{
    return alternate(schedule, stage, schedule->shape.micro_batch_count);
}

static enum tutti_status generate_1f1b(struct tutti_schedule *schedule, int stage)
{
    return alternate(schedule, stage, schedule->shape.stage_count - stage - 1);
}

static enum tutti_status generate_interleaved(struct tutti_schedule *schedule, int stage)
{
    const int p = schedule->shape.stage_count, v = schedule->shape.chunk_count;
    if (v == 1) return generate_1f1b(schedule, stage);
    return alternate(schedule, stage, 2 * (p - stage - 1) + (v - 1) * p);
}

static const struct generator {
    const char *name;
    bool has_chunks;
    enum tutti_status (*generate)(struct tutti_schedule *schedule, int stage);
} generators[] = {
    {"gpipe", false, generate_gpipe},
    {"1f1b", false, generate_1f1b},
    {"interleaved", true, generate_interleaved},
};

static enum tutti_status find_generator(const char *name, const struct generator **found)
{
    for (size_t i = 0; i < sizeof generators / sizeof *generators; i++) {
        *found = &generators[i];
        if (name != NULL && strcmp(name, (*found)->name) == 0) return TUTTI_OK;
    }
    return error_set(TUTTI_INVALID_OPTIONS,
                     "tutti_schedule_create: there is no schedule '%s'; there are gpipe, 1f1b and "
                     "interleaved",
                     name == NULL ? "NULL" : name);
}

static enum tutti_status check_fit(const struct generator *generator,
                                   const struct tutti_schedule_shape *shape)
{
    if (!generator->has_chunks && shape->chunk_count != 1)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_schedule_create: %s has 1 chunk on each stage, not %d",
                         generator->name, shape->chunk_count);
    if (shape->chunk_count > 1 && shape->micro_batch_count % shape->stage_count != 0)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_schedule_create: %s takes a multiple of its %d stages as "
                         "micro-batches, not %d",
                         generator->name, shape->stage_count, shape->micro_batch_count);
    return TUTTI_OK;
}

enum tutti_status tutti_schedule_create(const char *name, const struct tutti_schedule_shape *shape,
                                        struct tutti_schedule **created)
{
    struct tutti_schedule *schedule;
    const struct generator *generator = NULL;
    *created = NULL;
    TRY(find_generator(name, &generator));
    TRY(schedule_create_empty("tutti_schedule_create", shape, &schedule));
    enum tutti_status status = check_fit(generator, shape);
    for (int s = 0; s < shape->stage_count && status == TUTTI_OK; s++)
        status = generator->generate(schedule, s);
    if (status != TUTTI_OK) {
        tutti_schedule_free(schedule);
        return status;
    }
    schedule->name = generator->name;
    *created = schedule;
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------ questions */

void tutti_schedule_describe(const struct tutti_schedule *schedule,
                             struct tutti_schedule_shape *shape)
{
    *shape = schedule->shape;
}

const struct tutti_schedule_action *tutti_schedule_actions(const struct tutti_schedule *schedule,
                                                           int stage, size_t *count)
{
    const bool is_there = stage >= 0 && stage < schedule->shape.stage_count;
    *count = is_there ? schedule->stages[stage].count : 0;
    return is_there ? schedule->stages[stage].actions : NULL;
}

int tutti_schedule_in_flight(const struct tutti_schedule *schedule, int stage)
{
    if (stage < 0 || stage >= schedule->shape.stage_count) return -1;
    const struct schedule_stage *const s = &schedule->stages[stage];
    int now = 0, most = 0;
    for (size_t i = 0; i < s->count; i++) {
        now += s->actions[i].pass == TUTTI_PASS_FORWARD ? 1 : -1;
        if (now > most) most = now;
    }
    return most;
}

struct action_name schedule_action_name(const struct tutti_schedule_shape *shape,
                                        struct tutti_schedule_action action)
{
    struct action_name name;
    const char letter = action.pass == TUTTI_PASS_FORWARD ? 'F' : 'B';
    if (shape->chunk_count == 1)
        snprintf(name.text, sizeof name.text, "%c%d", letter, action.micro_batch);
    else
        snprintf(name.text, sizeof name.text, "%c%d.%d", letter, action.micro_batch, action.chunk);
    return name;
}
