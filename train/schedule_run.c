#include "schedule_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct run {
    const struct tutti_schedule *schedule;
    unsigned char *is_done[2]; /* forward and backward passes, of each part and micro-batch */
    size_t *next;              /* of each stage: how many passes it has done */
    int *queue;                /* stages to look at, each once at most: a ring */
    bool *is_queued;
    int queue_first, queue_count;
};

static size_t passes_of_a_kind(const struct tutti_schedule_shape *shape)
{
    return (size_t)shape->stage_count * schedule_stage_passes(shape) / 2;
}

static enum tutti_status run_init(struct run *run, const struct tutti_schedule *schedule)
{
    const size_t stages = (size_t)schedule->shape.stage_count;
    const size_t passes = passes_of_a_kind(&schedule->shape);
    *run = (struct run){.schedule = schedule};
    run->is_done[0] = calloc(2, passes);
    run->next = calloc(stages, sizeof *run->next);
    run->queue = calloc(stages, sizeof *run->queue);
    run->is_queued = calloc(stages, sizeof *run->is_queued);
    if (run->is_done[0] == NULL || run->next == NULL || run->queue == NULL || run->is_queued == NULL)
        return error_set(TUTTI_NO_MEMORY, "out of memory to check a schedule");
    run->is_done[1] = run->is_done[0] + passes;
    return TUTTI_OK;
}

static void run_release(struct run *run)
{
    free(run->is_done[0]);
    free(run->next);
    free(run->queue);
    free(run->is_queued);
}

/* ------------------------------------------------------------------------------------- complete */

static size_t index_of(const struct tutti_schedule_shape *shape, int stage,
                       struct tutti_schedule_action action)
{
    return schedule_index(shape, schedule_part(shape, stage, action.chunk), action.micro_batch);
}

static bool is_same(struct tutti_schedule_action a, struct tutti_schedule_action b)
{
    return a.pass == b.pass && a.micro_batch == b.micro_batch && a.chunk == b.chunk;
}

/* The place of a pass in its stage's order, which has it. */
static size_t position_of(const struct tutti_schedule *schedule, int stage,
                          struct tutti_schedule_action action)
{
    size_t i = 0;
    while (!is_same(schedule->stages[stage].actions[i], action)) i++;
    return i;
}

static enum tutti_status report_missing(const struct run *run, int stage)
{
    const struct tutti_schedule_shape *const shape = &run->schedule->shape;
    for (int pass = 0; pass < 2; pass++) {
        for (int chunk = 0; chunk < shape->chunk_count; chunk++) {
            for (int micro = 0; micro < shape->micro_batch_count; micro++) {
                const struct tutti_schedule_action a = {(enum tutti_pass)pass, micro, chunk};
                if (!run->is_done[pass][index_of(shape, stage, a)])
                    return error_set(TUTTI_INVALID_OPTIONS,
                                     "the schedule cannot run: stage %d has no %s", stage,
                                     schedule_action_name(shape, a).text);
            }
        }
    }
    return TUTTI_INTERNAL;
}

/* Every pass is there once. */
static enum tutti_status check_complete(struct run *run)
{
    const struct tutti_schedule *const schedule = run->schedule;
    const struct tutti_schedule_shape *const shape = &schedule->shape;
    for (int s = 0; s < shape->stage_count; s++) {
        const struct schedule_stage *const stage = &schedule->stages[s];
        for (size_t i = 0; i < stage->count; i++) {
            const struct tutti_schedule_action a = stage->actions[i];
            unsigned char *const seen = &run->is_done[a.pass][index_of(shape, s, a)];
            if (*seen)
                return error_set(TUTTI_INVALID_OPTIONS,
                                 "the schedule cannot run: stage %d has %s twice, at positions %zu "
                                 "and %zu",
                                 s, schedule_action_name(shape, a).text,
                                 position_of(schedule, s, a), i);
            *seen = 1;
        }
        if (stage->count != schedule_stage_passes(shape)) return report_missing(run, s);
    }
    memset(run->is_done[0], 0, 2 * passes_of_a_kind(shape));
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------- order */

/* The first pass, if any, that a pass waits for and that is not done, and its stage. */
static bool is_waiting(const struct run *run, int stage, struct tutti_schedule_action action,
                       int *other_stage, struct tutti_schedule_action *other)
{
    const struct tutti_schedule_shape *const shape = &run->schedule->shape;
    *other_stage = stage;
    *other = (struct tutti_schedule_action){TUTTI_PASS_FORWARD, action.micro_batch, action.chunk};
    if (action.pass == TUTTI_PASS_BACKWARD &&
        !run->is_done[TUTTI_PASS_FORWARD][index_of(shape, stage, *other)])
        return true;
    const int part = schedule_part(shape, stage, action.chunk);
    const int before = schedule_part_before(shape, action.pass, part);
    if (before < 0) return false;
    *other_stage = before % shape->stage_count;
    *other = (struct tutti_schedule_action){action.pass, action.micro_batch,
                                            before / shape->stage_count};
    return !run->is_done[action.pass][index_of(shape, *other_stage, *other)];
}

static bool is_over(const struct run *run, int stage)
{
    return run->next[stage] == run->schedule->stages[stage].count;
}

static struct tutti_schedule_action next_action(const struct run *run, int stage)
{
    return run->schedule->stages[stage].actions[run->next[stage]];
}

static void enqueue(struct run *run, int stage)
{
    const int stages = run->schedule->shape.stage_count;
    if (run->is_queued[stage]) return;
    run->is_queued[stage] = true;
    run->queue[(run->queue_first + run->queue_count++) % stages] = stage;
}

static int dequeue(struct run *run)
{
    const int stage = run->queue[run->queue_first];
    run->queue_first = (run->queue_first + 1) % run->schedule->shape.stage_count;
    run->queue_count--;
    run->is_queued[stage] = false;
    return stage;
}

/* One pass of the stage, if it can. */
static bool advance(struct run *run, int stage, schedule_visit *visit, void *context)
{
    const struct tutti_schedule_shape *const shape = &run->schedule->shape;
    struct tutti_schedule_action other;
    int other_stage;
    if (is_over(run, stage)) return false;
    const struct tutti_schedule_action action = next_action(run, stage);
    if (is_waiting(run, stage, action, &other_stage, &other)) return false;
    run->is_done[action.pass][index_of(shape, stage, action)] = 1;
    if (visit != NULL) visit(context, stage, run->next[stage], action);
    run->next[stage]++;
    const int behind =
        schedule_part_behind(shape, action.pass, schedule_part(shape, stage, action.chunk));
    if (behind >= 0) enqueue(run, behind % shape->stage_count);
    return true;
}

/* ------------------------------------------------------------------------------------ deadlocks */

/* "stage 1, position 3: B2 waits for B2 of stage 2 (position 6)"; returns the stage that is waited
 * for. */
static int print_wait(const struct run *run, int stage, char *text, size_t text_bytes)
{
    const struct tutti_schedule *const schedule = run->schedule;
    struct tutti_schedule_action other;
    int other_stage;
    const struct tutti_schedule_action action = next_action(run, stage);
    is_waiting(run, stage, action, &other_stage, &other);
    snprintf(text, text_bytes, "stage %d, position %zu: %s waits for %s of stage %d (position %zu)",
             stage, run->next[stage], schedule_action_name(&schedule->shape, action).text,
             schedule_action_name(&schedule->shape, other).text, other_stage,
             position_of(schedule, other_stage, other));
    return other_stage;
}

/* Stages that wait for each other in a circle: each waits for a pass that comes later in the order
 * of another one, which waits, too. */
static enum tutti_status report_deadlock(const struct run *run)
{
    enum { SHOWN_MAX = 4, WAIT_MAX = 200 };
    char waits[SHOWN_MAX * WAIT_MAX] = "", wait[WAIT_MAX];
    const int stages = run->schedule->shape.stage_count;
    int first = 0, shown = 0;
    while (is_over(run, first)) first++;
    for (int i = 0; i < stages; i++) first = print_wait(run, first, wait, sizeof wait);
    int stage = first; /* on the circle, after so many steps */
    do {
        stage = print_wait(run, stage, wait, sizeof wait);
        const size_t used = strlen(waits);
        snprintf(waits + used, sizeof waits - used, "%s%s", shown == 0 ? "" : "; ", wait);
    } while (++shown < SHOWN_MAX && stage != first);
    return error_set(TUTTI_INVALID_OPTIONS, "the schedule comes to a deadlock: %s%s", waits,
                     stage != first ? "; ..." : "");
}

enum tutti_status schedule_run(const struct tutti_schedule *schedule, schedule_visit *visit,
                               void *context)
{
    struct run run;
    enum tutti_status status = run_init(&run, schedule);
    if (status == TUTTI_OK) status = check_complete(&run);
    if (status != TUTTI_OK) goto release_run;
    for (int s = 0; s < schedule->shape.stage_count; s++) enqueue(&run, s);
    while (run.queue_count > 0) {
        const int stage = dequeue(&run);
        while (advance(&run, stage, visit, context)) continue;
    }
    for (int s = 0; s < schedule->shape.stage_count && status == TUTTI_OK; s++)
        if (!is_over(&run, s)) status = report_deadlock(&run);
release_run:
    run_release(&run);
    return status;
}

enum tutti_status tutti_schedule_check(const struct tutti_schedule *schedule)
{
    return schedule_run(schedule, NULL, NULL);
}
