/* sim_task.h - one operation of one rank for simulated worlds: planned, bound to links, its input
 * filled; and whether its result is right. All dtypes and operations whose results are exact.
 *
 * Without memory the process ends, and so it does when what is drawn cannot be bound. */
#ifndef TUTTI_TESTS_SIM_SIM_TASK_H
#define TUTTI_TESTS_SIM_SIM_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "base/op.h"
#include "engine/run.h"
#include "tests/sim/sim.h"

/* The same on all ranks. */
struct sim_job {
    const struct algorithm *algorithm;
    const struct algo_levels *levels; /* or NULL */
    int size, root, slot;
    unsigned radix;
    size_t count;
    enum tutti_dtype dtype;
    enum op op;
    bool in_place;
    uint64_t signature;
};

struct sim_task {
    const struct sim_job *job; /* NULL: there is none */
    int rank;
    bool is_done;
    struct program *program;
    struct operation operation;
    unsigned char *input, *output, *memory[2];
    size_t memory_bytes[2];
};

/* Any algorithm, dtype, operation and root for ranks on such hosts; NULL: nothing is known of
 * these. */
void sim_job_draw(struct sim *sim, int size, const struct algo_levels *levels, struct sim_job *job);
/* An allreduce of those. */
void sim_job_draw_allreduce(struct sim *sim, int size, const struct algo_levels *levels,
                            struct sim_job *job);
/* Makes it large, so that messages are posted and come where they land. */
void sim_job_enlarge(struct sim *sim, struct sim_job *job);
/* Opens its links and makes it ready to run. */
void sim_task_begin(struct sim_task *task, const struct sim_job *job, struct transport *transport);
bool sim_task_is_right(const struct sim_task *task);
/* None is fine. Its buffers are gone then. */
void sim_task_end(struct sim_task *task);

/* Memory of operations that were given up: nobody may store there. */
struct sim_grave {
    struct sim_grave *next;
    unsigned char *memory;
    size_t bytes;
};

/* As sim_task_end, but its buffers are kept, and filled with one value. */
void sim_task_bury(struct sim_task *task, struct sim_grave **graves);
/* Whether they are as they were. */
bool sim_graves_are_quiet(const struct sim_grave *graves);
void sim_graves_free(struct sim_grave *graves);

#endif
