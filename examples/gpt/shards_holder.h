/* shards_holder.h - Tutti's shards (tutti/train/shards.h) as the holder of the parameters of this
 * rank's models.
 *
 *     chunk 0: gains, embedding, layer, layer      chunk 1: gains, layer, layer, head      one model for each chunk
 *              0      1          2      3                   4      5      6      7         groups of the shards
 *
 * With bfloat16 the shards keep weights of 16 bits, and the model computes in float: a group's
 * weights are widened when they are acquired, into memory that goes when they are released.
 * Gradients of 16 bits are those of a micro-batch in float, rounded when they are ready; wide ones
 * are float all the time.
 */
#ifndef GPT_SHARDS_HOLDER_H
#define GPT_SHARDS_HOLDER_H

#include "compression.h"
#include "model.h"
#include "profile.h"
#include "tutti/train/shards.h"

enum weight_dtype { WEIGHTS_REAL, WEIGHTS_BFLOAT16 };

struct shards_holder;

/* The holder that one model sees. */
struct chunk_holder {
    struct holder holder;
    struct shards_holder *all;
    size_t first_group;
};

struct shards_holder {
    struct tutti_shards *shards;
    enum tutti_dtype dtype, gradient_dtype; /* as the shards have them */
    bool widens, rounds;                    /* weights; gradients */
    struct chunk_holder *chunks;            /* [chunk_count] */
    struct wide_group *groups;              /* [group_count] */
    size_t chunk_count, group_count;
    struct timeline *timeline;       /* borrowed; NULL: none */
    struct profile *profile;         /* borrowed */
    struct compression *compression; /* borrowed; NULL: gradients go to the shards at once */
    bool reduces_late;               /* gradients wait for the end of the backward pass */
    size_t *late;                    /* [group_count]: groups that do */
    size_t late_count;
};

/* Before the models are made, which take &chunks[i].holder. The holder must stay where it is. */
void shards_holder_init(struct shards_holder *holder, size_t chunk_count);

/* Makes the shards of the models' groups, with their first values. Of the options, dtype follows
 * from `weights`. Collective over the replicas. */
void shards_holder_open(struct shards_holder *holder, struct model *const *models,
                        const struct tutti_shards_options *options, enum weight_dtype weights,
                        double weight_decay, struct tutti_comm *replicas);
/* The groups of the shards, to be freed; sets where each chunk's begin. shards_holder_open does
 * that itself. */
struct tutti_shard_group *shards_holder_groups(struct shards_holder *holder,
                                               struct model *const *models, double weight_decay);
/* Starts to reduce what waited for the end of a backward pass. */
void shards_holder_reduce_late(struct shards_holder *holder);
void shards_holder_close(struct shards_holder *holder);

#endif
