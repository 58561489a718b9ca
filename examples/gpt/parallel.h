/* parallel.h - the trainer of many ranks: the same steps as trainer.h, each rank with its part of the model and its
 * samples.
 *
 *     samples of a step     | micro-batch 0 | micro-batch 1 | ...        each cut by replicas
 *     a replica             stages: a pipeline (tutti/train/pipeline.h)  of slices (exchange_ranks.h)
 *     replicas              shards of the parameters (tutti/train/shards.h), by --zero
 *
 * What a step computes does not depend on the mesh, but for the order of sums: samples have global numbers, random numbers
 * are functions of their place, and gradients are those of the mean loss over all tokens of the step.
 */
#ifndef GPT_PARALLEL_H
#define GPT_PARALLEL_H

#include "mesh.h"
#include "trainer.h"

struct parallel_options {
    struct mesh_sizes mesh;
    int zero;             /* stage of ZeRO */
    int ahead;            /* groups that are gathered ahead of their use */
    bool rows_split;      /* sequence parallelism */
    const char *schedule; /* of the pipeline */
};

/* NULL if the options fit together, and fit that many ranks. */
const char *parallel_mistake(const struct trainer_options *options,
                             const struct parallel_options *parallel, size_t ranks);

struct parallel;

/* Collective over the world, as all of these. Of the options, the model's part, exchange and holder are ignored. */
struct parallel *parallel_create(const struct trainer_options *options,
                                 const struct parallel_options *parallel, const struct data *data,
                                 struct tutti_comm *world);
void parallel_free(struct parallel *parallel);

/* The report is the same on all ranks. */
struct step_report parallel_step(struct parallel *parallel, uint64_t step);

/* Copies all weights to rank 0's whole model; `whole` is NULL elsewhere. Gives up if ranks that should have the same
 * weights have not. */
void parallel_collect(struct parallel *parallel, struct model *whole);

/* A line or two on this rank's memory and on what it sent. */
void parallel_describe(const struct parallel *parallel, size_t steps, FILE *file);

#endif
