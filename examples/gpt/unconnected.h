/* unconnected.h - a rank's step with communication left out, to tell what communication costs.
 *
 * The rank computes what it computes otherwise: its layers, its slices, its samples, in the order
 * of its pipeline's schedule, and the optimizer's work on its own shards. In place of messages of
 * others it takes whatever lies there, so losses mean nothing. Left out, besides messages, are the
 * copies that they make necessary, and waiting for each other: so of a pipeline the idle time, too.
 */
#ifndef GPT_UNCONNECTED_H
#define GPT_UNCONNECTED_H

#include "mesh.h"
#include "model.h"
#include "tutti/train/pipeline.h"
#include "tutti/train/shards.h"

struct unconnected {
    struct tutti_comm *alone;
    struct tutti_shards *shards;     /* as large as this rank's share */
    struct tutti_schedule *schedule; /* NULL: one stage */
    struct model *model;             /* borrowed; it has its parameters itself */
    int stage;
    bool clears_each; /* gradients begin anew with each micro-batch: they would have been reduced */
    real *input, *output; /* of the part: in place of what other stages send, and get */
};

/* Of the options dtype, state and optimizer are those of the shards that it stands for. Collective
 * over the mesh. */
void unconnected_init(struct unconnected *unconnected, const struct mesh *mesh, struct model *model,
                      const struct tutti_shard_group *groups, size_t count,
                      const struct tutti_shards_options *options);
void unconnected_release(struct unconnected *unconnected);

/* All passes of a step, through these two; afterwards gradients of unconnected->shards are
 * there. */
void unconnected_run(struct unconnected *unconnected, size_t micro_batches,
                     tutti_pipeline_forward *forward, tutti_pipeline_backward *backward,
                     void *context);

#endif
