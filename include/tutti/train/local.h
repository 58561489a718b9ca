/* local.h - data-parallel training in which every rank takes many optimizer steps alone, and ranks
 * synchronise their parameters now and then: local SGD, DiLoCo and Streaming DiLoCo.
 *
 *     rank 0   step step step step ─┐              ┌─ step step step step ─┐
 *     rank 1   step step step step ─┤ average of   ├─ step step step step ─┤ ...
 *     rank 2   step step step step ─┘ all changes  └─ step step step step ─┘
 *                                      │
 *                       outer optimizer: the new parameters, the same on all ranks
 *
 * Ranks then send a few hundred times less than with gradients that are averaged in each step, and
 * wait for each other as seldom. The price is that equally many steps may learn less.
 *
 *     struct tutti_local_tensor tensors[] = {{"layer 1", weights, 1024, 0}, {"layer 2", more, 512, 1}};
 *     struct tutti_local_options options = TUTTI_LOCAL_OPTIONS_INIT;
 *     tutti_local_create(tensors, 2, &options, comm, &local);
 *     for (each step) {
 *         compute gradients of this rank's samples, and update this rank's parameters;
 *         tutti_local_step(local, NULL);
 *     }
 *     tutti_local_synchronise(local, NULL);
 *
 * A synchronisation.  Of each parameter, ranks keep the *global* value: that of the last
 * synchronisation, the same on all ranks, bit for bit. The *pseudo-gradient* of a rank is global
 * minus own value. Ranks average their pseudo-gradients, and an outer optimizer, SGD with momentum,
 * takes a step with the average from the global values. The result is the new global value, and
 *
 *     own value = mixing * own value + (1 - mixing) * new global value
 *
 *     local SGD          rate 1, momentum 0, mixing 0: the average of the ranks' parameters
 *                        (Stich, arXiv 1805.09767)
 *     DiLoCo             rate 0.7, Nesterov momentum 0.9, mixing 0 (Douillard et al., arXiv
 *                        2311.08105); the defaults
 *     Streaming DiLoCo   fragments, delay and mixing besides (Douillard et al., arXiv 2501.18512)
 *
 * Fragments.  Ranks synchronise the tensors of a fragment together, every `every` steps, and
 * different fragments at different steps. So no step sends much. Of F fragments, numbered from 0,
 * fragment f is due at the steps whose number, counted from 1, leaves (f + 1) every / F when divided
 * by `every`: of two fragments with every = 6, fragment 0 at 3, 9, 15 and fragment 1 at 6, 12, 18.
 * With more fragments than steps, several are due at a step.
 *
 * Delay.  With a delay, the average starts `delay` steps before a fragment is due, with the values
 * of that step, and moves while ranks compute.
 *
 * After tutti_local_synchronise parameters are the same on all ranks, bit for bit. After other
 * synchronisations they are if delay and mixing are 0, and global values are in any case.
 *
 * Calls are calls on the communicator, so all calls on it must come in the same order on all ranks,
 * as ever. Between two calls of tutti_local_step a rank may take any number of steps of its own:
 * ranks of different speeds that count by time synchronise without waiting for the slowest.
 *
 * For one thread at a time. docs/how-to/local-sgd.md has measured losses.
 */
#ifndef TUTTI_TRAIN_LOCAL_H
#define TUTTI_TRAIN_LOCAL_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/train/checkpoint.h"
#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------- local training */

struct tutti_local; /* opaque: local training of one model on one rank */

/* Parameters of a model, in float32 and in the host's memory. */
struct tutti_local_tensor {
    const char *name; /* 1 to 150 bytes, without control characters; no two tensors have one name */
    float *data;      /* may be NULL where count is 0 */
    size_t count;     /* elements */
    int fragment;     /* from 0 on; every number up to the largest one has a tensor */
};

struct tutti_local_options {
    size_t size_bytes;    /* sizeof(struct tutti_local_options); TUTTI_LOCAL_OPTIONS_INIT sets it */
    int every;            /* steps from one synchronisation of a fragment to the next; 1 or more */
    int delay;            /* from 0 to below `every` */
    double mixing;        /* how much of its own values a rank keeps: from 0 to below 1 */
    double rate;          /* learning rate of the outer optimizer; above 0 */
    double momentum;      /* of the outer optimizer; from 0 to below 1 */
    int nesterov;         /* nonzero: the outer optimizer's momentum is Nesterov's */
    int priority;         /* of the allreduces, as in struct tutti_call_options */
    const char *encoding; /* of the allreduces, as in struct tutti_call_options; copied */
};
#define TUTTI_LOCAL_OPTIONS_INIT                                              \
    {                                                                         \
        sizeof(struct tutti_local_options), 100, 0, 0.0, 0.7, 0.9, 1, 0, NULL \
    }

/* Begins local training of `count` tensors, whose present values are the first global values: they
 * must be the same on all ranks, and the first step compares them. All ranks give the same names,
 * counts, fragments and options. Tutti copies the list and the names; the tensors' memory stays the
 * caller's, and must stay where it is until the result is freed. The communicator must outlive it.
 * options may be NULL. Needs memory for two numbers for each parameter, with momentum three.
 * Collective; blocks until the communicator's deadline. On failure *created is NULL:
 * INVALID_BUFFER, INVALID_COUNT, INVALID_OPTIONS (an option, a name, or a fragment without a
 * tensor), UNSUPPORTED (the encoding), NO_MEMORY, NO_SPACE, MISMATCH (ranks gave different tensors
 * or options, or another rank failed), or a status of an allreduce. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_local_create(const struct tutti_local_tensor *tensors, size_t count,
                   const struct tutti_local_options *options, struct tutti_comm *comm,
                   struct tutti_local **created);
/* Frees `local`, but not the tensors, which keep their values. Blocks until the allreduces that it
 * started are done, at most until the communicator's deadline. NULL is allowed. */
TUTTI_API enum tutti_status tutti_local_free(struct tutti_local *local);

/* ----------------------------------------------------------------------------------------- steps */

/* The result of a step. The same on all ranks. */
struct tutti_local_result {
    int fragment; /* that was synchronised, the last one of several; -1: none, or all of them */
    /* Fragments whose average, or whose new values, would not be finite: the step has left out
     * their synchronisation, and their parameters are the global values again. The state of the
     * program's own optimizer may hold such numbers, too. */
    int dropped;
};

/* Says that this rank has taken a step with its parameters. Starts the averages for which it is time,
 * and waits for those of the fragments that are due, whose parameters it then changes. In all other
 * steps it does nothing. result may be NULL. Collective; blocks for fragments that are due, at most
 * until the communicator's deadline, and in the first step. After a failure the fragments whose
 * averages did not arrive are as they were: global values, momentum, and this rank's parameters;
 * and `local` can only be freed, or give its state to another one. MISMATCH: in the first step,
 * ranks began with different parameters. Else the status of an allreduce. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_local_step(struct tutti_local *local,
                                                            struct tutti_local_result *result);
/* Synchronises all fragments of `local` now, without mixing: parameters are then the global values, the same
 * on all ranks. Ends averages that are under way first. The schedule begins again: the next step is
 * number 1 of it. Use it at the end of training. result may be NULL. Collective; blocks until the
 * communicator's deadline. Fails as tutti_local_step does. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_local_synchronise(struct tutti_local *local, struct tutti_local_result *result);
/* Gives `local` other options, which must be the same on all ranks, such as another `every`: as a policy
 * wants it (tutti/train/adapt.h). Ends averages that are under way, as at the step at which they
 * were due; parameters, global values and momentum stay, and the schedule begins again. Collective;
 * blocks until the communicator's deadline. INVALID_OPTIONS, UNSUPPORTED, NO_MEMORY, MISMATCH: as
 * tutti_local_create, and nothing has changed. Else fails as tutti_local_step does. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_local_change(struct tutti_local *local, const struct tutti_local_options *options);
/* The global values of tensor `index`, which are those to judge a model by: *values becomes their
 * address, NULL if the tensor has no elements. They belong to `local`, and change with the next
 * synchronisation. Local; does not block. INVALID_OPTIONS: there is no such tensor. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_local_values(const struct tutti_local *local,
                                                              size_t index, const float **values);

/* ----------------------------------------------------------------------------------------- state */

/* Moves the state to `local` from another one with the same tensors: global values, momentum and
 * the number of steps. `from` can only be freed afterwards. Use it
 *   - after tutti_comm_shrink: `from` on the old communicator, broken or not. Survivors keep their
 *     parameters, so the next synchronisation has what they learnt since the last one. If a rank
 *     has taken a synchronisation that another rank has not, the other rank gets its values, and
 *     its parameters become these. Averages that were under way and did not arrive count as not
 *     begun: the work of ranks that are gone since their last synchronisation is lost;
 *   - when ranks join: these pass NULL, and get the global values as their parameters.
 * The schedule begins again. Collective on the communicator of `local`, before its first step;
 * blocks until its deadline. INVALID_OPTIONS: `local` has taken a step, tensors differ, or `from`
 * gave its state away before. Else the status of a collective. After a failure `local` can only be
 * freed. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_local_take(struct tutti_local *local,
                                                            struct tutti_local *from);

/* Lists the state as parts of tensors for tutti_checkpoints_save, which the caller saves together
 * with its own: global values, momentum, each rank's own parameters as a row of a tensor with a row
 * for each rank, averages that wait for their step, and counts. Waits for averages under way, but
 * uses them only when they are due. Writes up to `room` parts into *parts, and the number of all of
 * them into *count. Names begin with the tensor's name, or "local training". Names and data belong
 * to `local`, until it is freed or a step begins. Collective; blocks until the communicator's
 * deadline. INVALID_OPTIONS: a step failed before, or the state was given away; INVALID_BUFFER:
 * parts is NULL, and room is not 0. Else the status of an allreduce. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_local_parts(struct tutti_local *local,
                                                             struct tutti_checkpoint_tensor *parts,
                                                             size_t room, size_t *count);
/* Loads the state, parameters included, from the checkpoint of `step` in the directory of the
 * checkpoints, which stay the caller's. On the same number of ranks, and with the same options, the
 * next steps compute the bits that the saving run computed. On another number every rank begins
 * with the average of all ranks' parameters. Collective, before the first step; blocks until all
 * ranks have read. CORRUPT: a number of the state cannot be right, or is not finite. MISMATCH: the
 * checkpoint has no state of a tensor, or other fragments. INVALID_OPTIONS: a step was taken. Else
 * a status of tutti_checkpoints_load or of an allreduce. After a failure state and parameters are
 * undefined, and `local` can only be freed. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_local_load(struct tutti_local *local, struct tutti_checkpoints *checkpoints, uint64_t step);

/* Counts of local training, on this rank. */
struct tutti_local_counters {
    size_t size_bytes;         /* set by the caller to sizeof(struct tutti_local_counters) */
    uint64_t steps;            /* those before a checkpoint included */
    uint64_t synchronisations; /* of fragments, those before a checkpoint included */
    uint64_t dropped;          /* of these */
    uint64_t parameter_bytes;
    uint64_t state_bytes; /* global values, momentum and pseudo-gradients, in memory */
    uint64_t sent_bytes; /* that this rank gave to allreduces, before encoding, since it was made */
    uint64_t waited_ns;  /* in allreduces that were due, since it was made */
};
/* Fills *counters. Local; does not block. INVALID_OPTIONS: counters->size_bytes is not set. */
TUTTI_API enum tutti_status tutti_local_count(const struct tutti_local *local,
                                              struct tutti_local_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
