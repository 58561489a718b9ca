/* schedule.h - a schedule of a pipeline as the library stores it: for each stage its passes in
 * their order.
 *
 *     part        0        1        2        3        4        5          of the model
 *     stage       0        1        2        0        1        2          three stages
 *     chunk       0        0        0        1        1        1          two chunks each
 *
 *     forward     ───────► ───────► ───────► ───────► ───────►
 *     backward    ◄─────── ◄─────── ◄─────── ◄─────── ◄───────
 *
 * Invariant: micro-batches and chunks of all actions are within the shape. schedule_run checks that
 * each is there once, and that they can run in that order.
 */
#ifndef TUTTI_TRAIN_SCHEDULE_H
#define TUTTI_TRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/train/pipeline.h"

enum {
    SCHEDULE_STAGES_MAX = 1024,
    SCHEDULE_MICRO_BATCHES_MAX = 65536,
    SCHEDULE_CHUNKS_MAX = 256,
    SCHEDULE_PASSES_MAX = 1 << 22
};

struct schedule_stage {
    struct tutti_schedule_action *actions;
    size_t count, room;
};

struct tutti_schedule {
    struct tutti_schedule_shape shape;
    const char *name; /* of the generator, static; "" if it was read */
    struct schedule_stage stages[];
};

/* Makes a schedule without passes. On failure (INVALID_OPTIONS, NO_MEMORY) *created is NULL. */
enum tutti_status schedule_create_empty(const char *function,
                                        const struct tutti_schedule_shape *shape,
                                        struct tutti_schedule **created);
/* Adds a pass to the end of a stage. NO_MEMORY: nothing is added. */
enum tutti_status schedule_add(struct tutti_schedule *schedule, int stage,
                               struct tutti_schedule_action action);

static inline int schedule_part_count(const struct tutti_schedule_shape *shape)
{
    return shape->stage_count * shape->chunk_count;
}

/* The part of the model that an action of the stage passes through. */
static inline int schedule_part(const struct tutti_schedule_shape *shape, int stage, int chunk)
{
    return chunk * shape->stage_count + stage;
}

/* The part whose result the pass needs; -1 if the part is the first in its direction. */
static inline int schedule_part_before(const struct tutti_schedule_shape *shape,
                                       enum tutti_pass pass, int part)
{
    if (pass == TUTTI_PASS_FORWARD) return part - 1;
    return part + 1 < schedule_part_count(shape) ? part + 1 : -1;
}

/* The part that needs the result of the pass; -1 if the part is the last in its direction. */
static inline int schedule_part_behind(const struct tutti_schedule_shape *shape,
                                       enum tutti_pass pass, int part)
{
    if (pass == TUTTI_PASS_BACKWARD) return part - 1;
    return part + 1 < schedule_part_count(shape) ? part + 1 : -1;
}

/* The index of a part and a micro-batch in an array that has an element for each pair of them. */
static inline size_t schedule_index(const struct tutti_schedule_shape *shape, int part,
                                    int micro_batch)
{
    return (size_t)part * (size_t)shape->micro_batch_count + (size_t)micro_batch;
}

/* The number of passes of each stage of a complete schedule. */
static inline size_t schedule_stage_passes(const struct tutti_schedule_shape *shape)
{
    return 2 * (size_t)shape->micro_batch_count * (size_t)shape->chunk_count;
}

/* "F3", or "F3.1" where there are several chunks. */
struct action_name {
    char text[32];
};
struct action_name schedule_action_name(const struct tutti_schedule_shape *shape,
                                        struct tutti_schedule_action action);

#endif
