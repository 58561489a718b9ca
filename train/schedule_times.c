#include "schedule_times.h"

#include <stdlib.h>

#include "base/sized.h"
#include "base/status.h"
#include "schedule_run.h"

/* Sums of products of two of them are finite. */
#define TIME_MAX 1e100

static bool is_time(double time)
{
    return time > 0 && time <= TIME_MAX;
}

static enum tutti_status take_times(const struct tutti_schedule_times *given,
                                    const struct tutti_schedule_shape *shape,
                                    struct tutti_schedule_times *own)
{
    *own = (struct tutti_schedule_times)TUTTI_SCHEDULE_TIMES_INIT;
    if (given != NULL) TRY(SIZED_READ("schedule times", tutti_schedule_times, given, own));
    if (!is_time(own->forward) || !is_time(own->backward))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "times of passes must be above 0 and at most %g, are %g and %g", TIME_MAX,
                         own->forward, own->backward);
    for (int part = 0; part < schedule_part_count(shape) && own->weights != NULL; part++)
        if (!is_time(own->weights[part]))
            return error_set(TUTTI_INVALID_OPTIONS,
                             "times.weights[%d] must be above 0 and at most %g, is %g", part,
                             TIME_MAX, own->weights[part]);
    return TUTTI_OK;
}

double schedule_times_duration(const struct schedule_times *times,
                               const struct tutti_schedule *schedule, int stage,
                               struct tutti_schedule_action action)
{
    const struct tutti_schedule_times *const given = &times->given;
    const double time = action.pass == TUTTI_PASS_FORWARD ? given->forward : given->backward;
    if (given->weights == NULL) return time;
    return time * given->weights[schedule_part(&schedule->shape, stage, action.chunk)];
}

struct simulation {
    const struct tutti_schedule *schedule;
    struct schedule_times *times;
    double *made; /* when each part and micro-batch had its forward pass; then when its backward pass */
};

static void simulate_pass(void *context, int stage, size_t position,
                          struct tutti_schedule_action action)
{
    struct simulation *const simulation = context;
    const struct tutti_schedule_shape *const shape = &simulation->schedule->shape;
    struct schedule_times *const times = simulation->times;
    const size_t first = (size_t)stage * times->stage_passes;
    const int part = schedule_part(shape, stage, action.chunk);
    const int before = schedule_part_before(shape, action.pass, part);
    double *const made =
        simulation->made + (action.pass == TUTTI_PASS_FORWARD
                                ? 0
                                : (size_t)shape->stage_count * times->stage_passes / 2);
    double begin = position == 0 ? 0 : times->ends[first + position - 1];
    if (before >= 0) {
        const double came = made[schedule_index(shape, before, action.micro_batch)];
        if (came > begin) begin = came;
    }
    const double duration = schedule_times_duration(times, simulation->schedule, stage, action);
    const double end = begin + duration;
    times->ends[first + position] = end;
    times->busy[stage] += duration;
    made[schedule_index(shape, part, action.micro_batch)] = end;
    if (end > times->step_time) times->step_time = end;
}

enum tutti_status schedule_times_init(struct schedule_times *times,
                                      const struct tutti_schedule *schedule,
                                      const struct tutti_schedule_times *given)
{
    const size_t stages = (size_t)schedule->shape.stage_count;
    *times = (struct schedule_times){.stage_passes = schedule_stage_passes(&schedule->shape)};
    TRY(take_times(given, &schedule->shape, &times->given));
    struct simulation simulation = {schedule, times, NULL};
    simulation.made = calloc(stages * times->stage_passes, sizeof *simulation.made);
    times->ends = calloc(stages * times->stage_passes, sizeof *times->ends);
    times->busy = calloc(stages, sizeof *times->busy);
    const bool is_there = simulation.made != NULL && times->ends != NULL && times->busy != NULL;
    const enum tutti_status status =
        is_there ? schedule_run(schedule, simulate_pass, &simulation)
                 : error_set(TUTTI_NO_MEMORY, "out of memory to simulate a schedule");
    free(simulation.made);
    if (status != TUTTI_OK) schedule_times_release(times);
    return status;
}

void schedule_times_release(struct schedule_times *times)
{
    free(times->ends);
    free(times->busy);
}

enum tutti_status tutti_schedule_simulate(const struct tutti_schedule *schedule,
                                          const struct tutti_schedule_times *given,
                                          double *step_time, double *idle_times)
{
    struct schedule_times times;
    TRY(schedule_times_init(&times, schedule, given));
    *step_time = times.step_time;
    for (int s = 0; s < schedule->shape.stage_count && idle_times != NULL; s++)
        idle_times[s] = times.step_time - times.busy[s];
    schedule_times_release(&times);
    return TUTTI_OK;
}
