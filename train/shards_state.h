/* shards_state.h - the state that the files of the shards share: where the data of each group is.
 *
 *     parameters, below PARAMETERS   whole ──── step: own part is updated, and gathered in place ────►
 *     parameters, with PARAMETERS    shard      gathered: absent ─start─► under way ─wait─► there ─last release─► absent
 *
 *     gradients that are kept        whole: added to ─last ready─► being reduced in place ─wait─► its own part is the sum
 *     gradients that are not         open buffer: added to ─ready─► being reduced in place ─wait─► its own part joins the sum, buffer given back
 *
 *     mixed precision                parameters and gradients of 16 bits (wide ones: float32);
 *                                    moments and masters of the own part, float32:
 *                                    gradient ─widen─► moments, master ─narrow─► parameter
 *
 * Invariants
 *   1. The operations that are started depend only on the caller's calls, never on which ones are
 *      already done. So all ranks start the same operations in the same order.
 *   2. Reductions end in the order in which they were started, so the sums of micro-batches are
 *      added in the order of micro-batches.
 *   3. A communicator of one rank starts nothing.
 */
#ifndef TUTTI_TRAIN_SHARDS_STATE_H
#define TUTTI_TRAIN_SHARDS_STATE_H

#include <stdbool.h>

#include "shards_layout.h"
#include "shards_pool.h"

/* Numbers of a step's options that all ranks must give alike: rate, factor, norm_max, overflow. */
enum { SHARDS_STEP_NUMBERS = 4 };

#define SHARDS_LOSS_SCALE_MIN 0x1p-64
#define SHARDS_LOSS_SCALE_MAX 0x1p64

struct shards_group {
    size_t count;
    double weight_decay;
    struct shards_range own;      /* with NONE all of it */
    size_t *counts;               /* of each rank's shard */
    size_t blocks_before;         /* of groups before this one */
    char *parameters;             /* the whole group, or with PARAMETERS the own part */
    char *gradients;              /* the whole group's, where they are kept; else NULL */
    char *sums;                   /* of the own part's gradients */
    char *first, *second;         /* moments of the own part */
    float *masters;               /* of the own part; NULL: parameters have the optimizer's dtype */
    struct tutti_request *gather; /* under way */
    struct shards_buffer *gathered; /* with PARAMETERS; else NULL */
    int use_count;
    struct shards_buffer *open;   /* if gradients are not kept */
    bool is_asked_for;            /* the gradient, since the last micro-batch was ready */
    bool is_stale;                /* kept gradients are those of the step before */
    int ready_count, added_count; /* micro-batches of this step: ready; in sums */
};

struct shards_reduction {
    struct shards_group *group;
    struct shards_buffer *buffer;  /* NULL: gradients are kept */
    struct tutti_request *request; /* NULL: done */
};

struct tutti_shards {
    struct tutti_shards_options options;
    struct tutti_comm *comm;
    int rank, size;
    enum tutti_dtype gradient_dtype, state_dtype; /* the dtype of parameters is in the options */
    size_t parameter_size, gradient_size, state_size; /* of one element */
    double loss_scale;                                /* 0: none */
    struct shards_group *groups;
    size_t group_count, block_count;
    bool keeps_gradients, is_finished, is_broken;
    struct shards_reduction *reductions; /* under way: a ring */
    size_t reduction_first, reduction_count, reduction_room;
    struct shards_pool gathered, buckets;     /* parameters, and gradients, of whole groups */
    size_t *counts;                           /* of all groups */
    void *parameters, *gradients, *state;     /* memory of all groups */
    double step_numbers[SHARDS_STEP_NUMBERS]; /* of the step under way, or else the last one */
    double *all_squares, *gathered_squares;   /* of blocks: in their order; rank by rank */
    size_t *square_counts;                    /* of each rank: its step's numbers, and its blocks */
    struct tutti_shards_counters counters;
};

/* For `function` of the interface. */
enum tutti_status shards_check(const struct tutti_shards *shards, const char *function,
                               size_t group);
/* Returns the status that it is given; a status other than success breaks the shards. */
enum tutti_status shards_broken_by(struct tutti_shards *shards, enum tutti_status status);

/* Waits for an allgather of the group, if there is one. */
enum tutti_status shards_wait_gather(struct shards_group *group);
/* Gives back the gathered parameters of a group that is not in use. */
void shards_drop_gathered(struct tutti_shards *shards, struct shards_group *group);
/* Waits until at most `left` reductions are under way. */
enum tutti_status shards_settle(struct tutti_shards *shards, size_t left);

#endif
