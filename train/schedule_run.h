/* schedule_run.h - visits the passes of a schedule in an order in which they can run, or says why
 * there is none.
 *
 * Sends never wait, and each pass waits for certain other passes. So the same passes are done in
 * the end whatever the order in which stages take turns, and one run decides.
 */
#ifndef TUTTI_TRAIN_SCHEDULE_RUN_H
#define TUTTI_TRAIN_SCHEDULE_RUN_H

#include "schedule.h"

/* Called for each pass, after all that it waits for. */
typedef void schedule_visit(void *context, int stage, size_t position,
                            struct tutti_schedule_action action);

/* visit may be NULL. INVALID_OPTIONS: the schedule is incomplete (visit was not called then), or
 * comes to a halt; the message says where. NO_MEMORY: nothing is known. */
enum tutti_status schedule_run(const struct tutti_schedule *schedule, schedule_visit *visit,
                               void *context);

#endif
