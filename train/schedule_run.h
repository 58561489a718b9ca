/* schedule_run.h - goes through a schedule in an order in which it can run, or says why there is none.
 *
 * Sends never wait, and each pass waits for given others. So whatever the order in which stages take their turns, the same passes are
 * done in the end, and one run decides.
 */
#ifndef TUTTI_TRAIN_SCHEDULE_RUN_H
#define TUTTI_TRAIN_SCHEDULE_RUN_H

#include "schedule.h"

/* Called for each pass, after all that it waits for. */
typedef void schedule_visit(void *context, int stage, size_t position,
                            struct tutti_schedule_action action);

/* visit may be NULL. INVALID_OPTIONS: the schedule is incomplete, before visit was called, or comes to a halt; the message says where.
 * NO_MEMORY: nothing is known. */
enum tutti_status schedule_run(const struct tutti_schedule *schedule, schedule_visit *visit,
                               void *context);

#endif
