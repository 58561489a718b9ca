/* schedule_times.h - when each pass of a schedule ends if messages take no time. */
#ifndef TUTTI_TRAIN_SCHEDULE_TIMES_H
#define TUTTI_TRAIN_SCHEDULE_TIMES_H

#include "schedule.h"

struct schedule_times {
    struct tutti_schedule_times given;
    size_t stage_passes;
    double *ends;     /* of the passes of stage 0 in their order, then of stage 1, ... */
    double *busy;     /* of each stage: how long it computes */
    double step_time; /* until the last stage is done */
};

/* Simulates. given may be NULL. On failure (INVALID_OPTIONS, NO_MEMORY) there is nothing to
 * release. */
enum tutti_status schedule_times_init(struct schedule_times *times,
                                      const struct tutti_schedule *schedule,
                                      const struct tutti_schedule_times *given);
void schedule_times_release(struct schedule_times *times);

/* The time that a pass takes. */
double schedule_times_duration(const struct schedule_times *times,
                               const struct tutti_schedule *schedule, int stage,
                               struct tutti_schedule_action action);

#endif
