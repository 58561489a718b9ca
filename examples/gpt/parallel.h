/* parallel.h - the trainer of many ranks: the same steps as trainer.h, each rank with its part of
 * the model and its samples.
 *
 *     samples of a step     | micro-batch 0 | micro-batch 1 | ...        each cut by replicas
 *     a replica             stages: a pipeline (tutti/train/pipeline.h)  of slices (exchange_ranks.h)
 *     replicas              shards of the parameters (tutti/train/shards.h), by --zero
 *
 * What a step computes does not depend on the mesh, but for the order of sums: samples have global
 * numbers, random numbers are functions of their place, and gradients are those of the mean loss
 * over all tokens of the step.
 */
#ifndef GPT_PARALLEL_H
#define GPT_PARALLEL_H

#include "compression.h"
#include "mesh.h"
#include "shards_holder.h"
#include "trainer.h"

struct parallel_options {
    struct mesh_sizes mesh;
    int zero;           /* stage of ZeRO */
    int ahead;          /* groups that are gathered ahead of their use */
    bool rows_split;    /* sequence parallelism */
    bool gathers_again; /* with it: inputs of layers are not kept whole (model.h) */
    bool reduces_late; /* gradients are reduced when a backward pass is over, not while it goes on */
    bool is_unconnected;  /* communication is left out (unconnected.h) */
    const char *profile;  /* the file of the profile; NULL: none */
    size_t profile_steps; /* the last ones are in it */
    const char *schedule; /* of the pipeline */
    uint64_t first_step; /* steps of the optimizer before, by a run that goes on: without skipped ones */
    size_t chunks;       /* parts of the model on each stage; 0: one */
    enum weight_dtype weights;
    bool wide_gradients; /* float, where weights are bfloat16 */
    double loss_scale;   /* that a dynamic one begins with; 0: none */
    uint64_t good_steps; /* since it grew, by a run that goes on */
    struct compression_options compression;
};

/* NULL if the options fit together, and fit that many ranks. */
const char *parallel_mistake(const struct trainer_options *options,
                             const struct parallel_options *parallel, size_t ranks);

struct parallel;

/* Collective over the world, as all of these. Of the options, the model's part, exchange and holder
 * are ignored. */
struct parallel *parallel_create(const struct trainer_options *options,
                                 const struct parallel_options *parallel, const struct data *data,
                                 struct tutti_comm *world);
void parallel_free(struct parallel *parallel);

/* What this rank has, for checkpoints. All of it belongs to `parallel`. */
struct tutti_shards;
const struct trainer_options *parallel_options(const struct parallel *parallel);
const struct data *parallel_data(const struct parallel *parallel);
/* Of each chunk of the model that this rank has: its tensors, and the first of its groups in the
 * shards. */
size_t parallel_chunk_count(const struct parallel *parallel);
const struct parameters *parallel_parameters(const struct parallel *parallel, size_t chunk);
size_t parallel_first_group(const struct parallel *parallel, size_t chunk);
struct tutti_shards *parallel_shards(const struct parallel *parallel);
bool parallel_has_loss_scale(const struct parallel *parallel);
/* NULL: gradients are not compressed. */
struct tutti_compressor *parallel_compressor(const struct parallel *parallel);

/* The report is the same on all ranks. */
struct step_report parallel_step(struct parallel *parallel, uint64_t step);

/* Copies all weights to rank 0's whole model; `whole` is NULL elsewhere. Gives up if ranks that
 * should have the same weights have not. */
void parallel_collect(struct parallel *parallel, struct model *whole);

/* Some lines on this rank's memory and on what it sent; none if the file is NULL. */
void parallel_describe(struct parallel *parallel, FILE *file);

/* Writes the profile, if one is wanted. */
void parallel_write_profile(struct parallel *parallel);

#endif
