/* shards.h - ZeRO: data-parallel training in which ranks divide the optimizer's state, gradients
 * and parameters among them, instead of each having a copy of everything.
 *
 *     one rank of four has            parameters      gradients       optimizer's state
 *     NONE         data parallel      ■■■■■■■■        ■■■■■■■■        ■■■■■■■■ ■■■■■■■■
 *     OPTIMIZER    ZeRO 1             ■■■■■■■■        ■■■■■■■■        ■■·····  ■■······
 *     GRADIENTS    ZeRO 2             ■■■■■■■■        ■■······        ■■·····  ■■······
 *     PARAMETERS   ZeRO 3             ■■······        ■■······        ■■·····  ■■······
 *
 * The program cuts the parameters of a model into *groups*, usually its layers. Ranks reduce and
 * gather a group at once; some MB are a good size. Every rank owns a *shard* of each group: it has
 * the reduced gradients, the optimizer's state and the new parameters of its shard.
 *
 *     struct tutti_shard_group groups[] = {{embedding_count, 0.1}, {layer_count, 0.1}, ...};
 *     struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
 *     options.stage = TUTTI_SHARDS_PARAMETERS;
 *     tutti_shards_create(groups, count, &options, comm, &shards);
 *     for (each group) tutti_shards_set(shards, g, first_values[g]);
 *     for (each step) {
 *         for (each group g, from the first) {
 *             tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, g, &parameters);
 *             compute the forward pass;
 *             tutti_shards_release(shards, g);
 *         }
 *         for (each group g, from the last) {
 *             tutti_shards_acquire(shards, TUTTI_PASS_BACKWARD, g, &parameters);
 *             tutti_shards_gradient(shards, g, &gradient);
 *             compute the backward pass, and add to the gradient;
 *             tutti_shards_ready(shards, g);
 *             tutti_shards_release(shards, g);
 *         }
 *         tutti_shards_step(shards, &step, NULL);
 *     }
 *
 * The calls are the same for all stages, which differ in the memory that they need and in the bytes
 * that they send. All ranks of the communicator make them in the same order, with the same groups.
 * On a communicator with `deterministic` set, all stages compute the same bits, as long as they
 * reduce equally often (enum tutti_shards_reduction).
 *
 * Mixed precision.  With a dtype of 16 bits the program computes with parameters of 16 bits, and
 * gives gradients of 16 bits, or float32. The optimizer has *masters*, the parameters in float32,
 * as part of its state, and they are sharded with it. A step changes the masters, and the
 * parameters become the nearest values of 16 bits. A *loss scale* keeps small gradients from
 * becoming 0 in 16 bits:
 *
 *     options.dtype = TUTTI_BFLOAT16;
 *     options.loss_scale = 65536, options.growth_steps = 2000;   // dynamic
 *     scale = tutti_shards_loss_scale(shards);
 *     compute gradients of scale * loss;
 *     tutti_shards_step(shards, &step, &result);                 // divides by it, or skips
 *
 * Shards are for one thread at a time. Their calls are calls on the communicator, so all calls on
 * it must come in the same order on all ranks, as ever. docs/how-to/shards.md has costs and the
 * paper.
 */
#ifndef TUTTI_TRAIN_SHARDS_H
#define TUTTI_TRAIN_SHARDS_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/train/pipeline.h"
#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------------- shards */

struct tutti_shards; /* opaque */

/* The stage of ZeRO: which data ranks divide among themselves. */
enum tutti_shards_stage {
    TUTTI_SHARDS_NONE,      /* nothing: every rank does all of every step */
    TUTTI_SHARDS_OPTIMIZER, /* the optimizer's state */
    TUTTI_SHARDS_GRADIENTS, /* and gradients, once they are reduced */
    TUTTI_SHARDS_PARAMETERS /* and parameters, except of groups that are acquired, or soon will be */
};

/* When the gradients of a step's micro-batches are reduced. */
enum tutti_shards_reduction {
    TUTTI_SHARDS_REDUCE_CHOSEN, /* EACH for GRADIENTS and PARAMETERS, else ONCE */
    /* Ranks add up their micro-batches' gradients, and reduce the sums. Until then every rank has
     * gradients of all groups. */
    TUTTI_SHARDS_REDUCE_ONCE,
    /* Each micro-batch's gradients are reduced, and each owner adds them up. Every rank has whole
     * gradients only of the few groups that are being reduced. */
    TUTTI_SHARDS_REDUCE_EACH
};

enum tutti_shards_optimizer {
    TUTTI_SHARDS_ADAMW, /* Adam with decay that does not go through the moments */
    TUTTI_SHARDS_SGD    /* v = first_decay v + g;  w = w - rate (v + weight_decay w) */
};

struct tutti_shard_group {
    size_t count;        /* elements; may be 0 */
    double weight_decay; /* of these parameters; 0 or more */
};

struct tutti_shards_options {
    size_t size_bytes; /* sizeof(struct tutti_shards_options); TUTTI_SHARDS_OPTIONS_INIT sets it */
    enum tutti_shards_stage stage;
    /* Of parameters and gradients. FLOAT32 or FLOAT64: of the state, too. BFLOAT16 or FLOAT16: the
     * state is float32, and has masters. */
    enum tutti_dtype dtype;
    int micro_batches; /* of a step; 1 or more */
    enum tutti_shards_reduction reduction;
    enum tutti_shards_optimizer optimizer;
    /* With PARAMETERS: how many groups behind the acquired group are gathered ahead. If gradients
     * are not kept: how many reductions may be in flight while the next gradients are computed. 0
     * to 64. */
    int ahead;
    double first_decay;  /* AdamW: of the first moment; SGD: the momentum. From 0 to below 1 */
    double second_decay; /* AdamW: of the second moment. From 0 to below 1 */
    double epsilon;      /* AdamW: added to the root of the second moment; above 0 */
    uint64_t first_step; /* steps that were taken before; a checkpoint has their number and state */
    /* Nonzero: with a dtype of 16 bits, gradients are float32, in the program, in reductions and in
     * the sums. They then take twice the memory and twice the bytes in messages. */
    int wide_gradients;
    /* Above 0: after this many good steps in a row the loss scale doubles, and with each skipped
     * step it halves. It stays within 2^-64 and 2^64. 0: it does not change. */
    int growth_steps;
    uint64_t first_good_steps; /* since the scale grew: of a checkpoint, as first_step */
    /* Above 0: the program multiplies its loss by tutti_shards_loss_scale, which begins with this;
     * a power of 2, so that no rounding changes. Each step looks for gradients that are not finite,
     * and all ranks skip it if any rank has any. 1, with growth_steps 0: steps look and skip, but
     * do not scale. 0: steps do not look, and such gradients spoil parameters. */
    double loss_scale;
};
#define TUTTI_SHARDS_OPTIONS_INIT                                                                \
    {                                                                                            \
        sizeof(struct tutti_shards_options), TUTTI_SHARDS_NONE, TUTTI_FLOAT32, 1,                \
            TUTTI_SHARDS_REDUCE_CHOSEN, TUTTI_SHARDS_ADAMW, 2, 0.9, 0.999, 1e-8, (uint64_t)0, 0, \
            0, (uint64_t)0, 0.0                                                                  \
    }

/* Makes shards of `count` groups. All ranks give the same groups and options. Tutti copies both;
 * the communicator must outlive the shards. Parameters begin as zeros. options may be NULL.
 * Collective; blocks until the communicator's deadline. On failure *created is NULL:
 * INVALID_BUFFER, INVALID_COUNT, INVALID_DTYPE, INVALID_OPTIONS, NO_MEMORY, NO_SPACE, MISMATCH
 * (ranks gave different groups or options, or another rank failed), or a status of an allreduce. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_shards_create(const struct tutti_shard_group *groups, size_t count,
                    const struct tutti_shards_options *options, struct tutti_comm *comm,
                    struct tutti_shards **created);
/* Frees the shards; blocks until what they started is done, at most until the communicator's
 * deadline. NULL is allowed. */
TUTTI_API enum tutti_status tutti_shards_free(struct tutti_shards *shards);

/* Sets all parameters of a group of the shards to these values, which stay the caller's and are the
 * same on all ranks. With a dtype of 16 bits they are float32: masters become the values, and
 * parameters the nearest values of the dtype. Allowed only while the group is not acquired, and
 * there are no gradients of a step. Local; blocks until an allgather of the step before is done.
 * INVALID_OPTIONS: there is no such group, or a step has begun; INVALID_BUFFER: values is NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_shards_set(struct tutti_shards *shards,
                                                            size_t group, const void *values);

/* Acquires a group: *parameters becomes the address of all its parameters, 64-byte aligned, which
 * may be read until tutti_shards_release and belong to the shards. A group may be acquired several
 * times, and stays until it was released as often. With PARAMETERS this gathers the group, and
 * starts to gather the `ahead` groups that follow it in this pass: forward the next higher numbers,
 * backward the next lower numbers. Collective; blocks until the parameters are there, at most until
 * the communicator's deadline. INVALID_OPTIONS: there is no such group or pass; else the status of
 * an allgather, or NO_MEMORY or NO_SPACE. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_shards_acquire(struct tutti_shards *shards,
                                                                enum tutti_pass pass, size_t group,
                                                                void **parameters);
/* Releases an acquired group; with PARAMETERS the shards take the memory back. Local; does not
 * block. INVALID_OPTIONS: there is no such group, or it is not acquired. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_shards_release(struct tutti_shards *shards,
                                                                size_t group);

/* Gives the group's gradient: *gradient becomes its address. The caller adds to it until
 * tutti_shards_ready; it belongs to the shards. It holds the sum over the micro-batches that are
 * not reduced yet; before the first of them, zeros. Blocks until there is memory, that is, until
 * earlier reductions are done, at most until the communicator's deadline. INVALID_OPTIONS: there is
 * no such group, or it was ready for all micro-batches of the step; else the status of a reduction,
 * or NO_MEMORY or NO_SPACE. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_shards_gradient(struct tutti_shards *shards,
                                                                 size_t group, void **gradient);
/* Tells the shards that this rank has added the gradient of one more micro-batch, and starts to
 * reduce it if it is time for that. Collective; does not block. INVALID_OPTIONS: there is no such
 * group, or its gradient was not asked for; else the status of starting a reduction. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_shards_ready(struct tutti_shards *shards,
                                                              size_t group);

/* Waits for all reductions of the shards' step. From then on until tutti_shards_step,
 * tutti_shards_own gives the sums of all ranks' and micro-batches' gradients. Blocks at most until
 * the communicator's deadline. INVALID_OPTIONS: a group is not ready for all micro-batches; the
 * step can go on. Else the status of a reduction. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_shards_finish(struct tutti_shards *shards);
/* Returns the loss scale of the shards: the number by which the program multiplies the loss of the
 * present step, or between steps of the next step. The same on all ranks. 1 without
 * options.loss_scale. Local; does not block. */
TUTTI_API double tutti_shards_loss_scale(const struct tutti_shards *shards);

/* After tutti_shards_finish: squares[g] becomes the sum of squares of the present gradients of
 * group g of the shards. With a loss scale these gradients are scaled, and the sum is not finite if
 * a gradient is not. The call adds up each block of TUTTI_SHARDS_BLOCK elements in float64, and
 * then the blocks in their order. So the result is the same on all ranks, and has the same bits
 * whatever the stage and the number of ranks, if the gradients do. Collective; costs an allgather
 * of a number for each block and four for each rank, unless the stage is NONE. Blocks until the
 * communicator's deadline. INVALID_OPTIONS: call tutti_shards_finish first; INVALID_BUFFER: squares
 * is NULL; INVALID_REQUEST: this thread has a group open. MISMATCH: ranks gave the step before different options; else the status of the
 * allgather. The shards can then only be freed. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_shards_squares(struct tutti_shards *shards,
                                                                double *squares);
#define TUTTI_SHARDS_BLOCK 1024

/* How a step with a loss scale learns whether a gradient is not finite. */
enum tutti_shards_overflow {
    TUTTI_SHARDS_OVERFLOW_ASK,  /* the step finds out, for the ranks of its communicator */
    TUTTI_SHARDS_OVERFLOW_NONE, /* the program knows, say for more ranks: all are finite */
    TUTTI_SHARDS_OVERFLOW_FOUND /* a gradient is not finite: the step is skipped */
};

/* All ranks give the same options. Ranks compare rate, factor, norm_max and overflow where they
 * exchange sums of squares anyway, that is, at all stages except NONE: a step with norm_max, or a
 * step that looks for overflow, compares its own options, and tutti_shards_squares compares the
 * options of the step before. Ranks do not compare the options of other steps. If these differ,
 * each rank trains its own shards with its own options, and with NONE the copies of parameters are
 * no longer equal. If only some ranks give norm_max, or look for overflow, they make a call that
 * the others do not make: the communicator fails with MISMATCH, and its message names the calls. */
struct tutti_shards_step_options {
    size_t size_bytes; /* sizeof(struct tutti_shards_step_options); TUTTI_SHARDS_STEP_INIT sets it */
    double rate;       /* learning rate; 0 or more */
    /* The step multiplies gradients by this, after their sum over ranks and micro-batches. 0: by 1
     * / (ranks * micro_batches), so that they are averages. It divides them by the loss scale, too,
     * which is not part of factor. */
    double factor;
    /* Above 0: gradients are then scaled down so that the Euclidean norm of all of them together is
     * at most norm_max. */
    double norm_max;
    enum tutti_shards_overflow overflow;
    int reserved; /* 0 */
};
#define TUTTI_SHARDS_STEP_INIT                                                                 \
    {                                                                                          \
        sizeof(struct tutti_shards_step_options), 1e-3, 0.0, 0.0, TUTTI_SHARDS_OVERFLOW_ASK, 0 \
    }

/* The result of a step. The same on all ranks. */
struct tutti_shards_result {
    double norm; /* of all gradients times factor, without the loss scale, before scaling down; 0
                    without norm_max */
    int scaled;  /* nonzero: scaled down to norm_max. A norm that is not finite scales nothing */
    int skipped; /* nonzero: a gradient was not finite. Parameters and state stayed as they were */
};

/* Does one step of the optimizer, after tutti_shards_finish, which it calls if you have not: each
 * owner computes the new parameters of its shards, and with OPTIMIZER and GRADIENTS ranks gather
 * them. Returns before the allgathers are done; tutti_shards_acquire waits for them. With a loss
 * scale it may skip the step: it drops the gradients, changes only the loss scale, and begins a new
 * step. options and result may be NULL. Collective; blocks until the communicator's deadline.
 * INVALID_OPTIONS: as tutti_shards_finish, or a group is acquired; nothing has changed.
 * INVALID_REQUEST: this thread is between tutti_group_begin and tutti_group_end; nothing has changed
 * either. MISMATCH: ranks gave different options, as far as ranks compare them; the message has the option and two
 * ranks with their values. After this and any other failure the shards can only be freed. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_shards_step(struct tutti_shards *shards, const struct tutti_shards_step_options *options,
                  struct tutti_shards_result *result);

/* The shard of a group that this rank owns: `count` elements from element `first` of the group on.
 * Pointers are NULL where there is no data, or not yet. A caller may change the data, for example
 * to read back a checkpoint, but parameters only with PARAMETERS, because otherwise every rank has
 * a copy of them, which tutti_shards_set sets. If the caller changes masters, the parameters do not
 * follow before the next step: tutti_shards_set sets both. */
struct tutti_shard {
    size_t first, count;
    void *parameters;
    void *gradients;      /* from tutti_shards_finish to tutti_shards_step, else NULL */
    void *first_moments;  /* SGD: v */
    void *second_moments; /* SGD: NULL */
    float *masters;       /* with a dtype of 16 bits, else NULL */
};
/* Fills *shard, whose pointers belong to the shards. Local; does not block. INVALID_OPTIONS: there
 * is no such group. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_shards_own(struct tutti_shards *shards,
                                                            size_t group, struct tutti_shard *shard);

/* An array of a group's state that this rank has: the `count` elements of the group from `first`
 * on. */
struct tutti_shard_view {
    const char *name; /* "parameters", "masters", "first moments", "second moments"; static */
    enum tutti_dtype dtype;
    size_t first, count;
    void *data;
};
#define TUTTI_SHARDS_VIEWS 8

/* Describes in views[0 .. *count - 1] the state of a group that lasts from step to step; views must
 * have room for TUTTI_SHARDS_VIEWS. The data belongs to the shards. Allowed only between steps,
 * when no group is acquired and there are no gradients. Until the next call on the shards the
 * caller may read the data for a checkpoint, or change it to read a checkpoint back; all ranks that
 * have an element must change it alike. The number of steps (first_step) and the loss scale
 * (loss_scale, first_good_steps) are not part of it. Local; blocks until an allgather of the step
 * before is done. INVALID_OPTIONS: there is no such group, or a step has begun; else the status of
 * an allgather. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_shards_views(struct tutti_shards *shards,
                                                              size_t group,
                                                              struct tutti_shard_view *views,
                                                              size_t *count);

/* Work of this rank in all steps so far, and its memory: parameter_bytes, gradient_bytes,
 * state_bytes, buffer_bytes and table_bytes together are all that the shards have from the system,
 * which itself rounds up to pages. The elements of an operation are those that every rank gives, or
 * gets, in it. So each rank sends (n - 1) / n of them in a reduce_scatter or an allgather, and
 * twice as many in an allreduce. */
struct tutti_shards_counters {
    size_t size_bytes; /* set by the caller to sizeof(struct tutti_shards_counters) */
    uint64_t steps;    /* that were taken, not skipped; first_step included */
    uint64_t elements_allreduced, elements_reduce_scattered, elements_gathered;
    size_t parameter_bytes; /* that are always here */
    size_t gradient_bytes;  /* of reduced gradients, and of gradients that are always whole */
    size_t state_bytes;     /* of the optimizer */
    size_t buffer_bytes; /* of groups that were gathered or are being reduced: the most at once */
    size_t master_bytes; /* in state_bytes: of masters */
    size_t gather_bytes; /* in buffer_bytes: parameters of whole groups, with PARAMETERS */
    size_t bucket_bytes; /* in buffer_bytes: gradients of whole groups, where they are not kept */
    size_t table_bytes;  /* of the tables of groups, blocks and operations */
    uint64_t skipped_steps;
    uint64_t good_steps; /* since the loss scale grew, or a step was skipped */
};
/* Fills *counters for the shards. Local; does not block. INVALID_OPTIONS: counters->size_bytes is
 * not set. */
TUTTI_API enum tutti_status tutti_shards_count(const struct tutti_shards *shards,
                                               struct tutti_shards_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
