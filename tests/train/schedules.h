/* schedules.h - schedules of pipelines for tests. */
#ifndef TUTTI_TESTS_TRAIN_SCHEDULES_H
#define TUTTI_TESTS_TRAIN_SCHEDULES_H

#include "tests/kit/chance.h"
#include "tutti/train/pipeline.h"

/* One that can run, with its passes in any such order; to be freed. NULL: out of memory. */
struct tutti_schedule *schedules_random(struct chance *chance,
                                        const struct tutti_schedule_shape *shape);

/* A schedule with these passes, the lists of all stages behind each other, each as long as it
 * takes. NULL: it cannot be written. */
struct tutti_schedule *schedules_make(const struct tutti_schedule_shape *shape,
                                      const struct tutti_schedule_action *actions);

#endif
