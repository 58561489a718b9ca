/* pipeline.h - pipeline parallelism: a model cut into stages, one for each rank, through which the
 * micro-batches of a step travel.
 *
 *     1F1B, 3 stages, 4 micro-batches; time runs to the right
 *
 *     stage 0   F0 F1 F2             B0--- F3 B1---    B2---    B3---
 *     stage 1      F0 F1       B0--- F2 B1--- F3 B2---    B3---
 *     stage 2         F0 B0--- F1 B1--- F2 B2--- F3 B3---
 *
 * A *schedule* says in which order each stage does its forward and backward passes. It is data:
 * made by name ("gpipe", "1f1b", "interleaved") or written by you, checked before it runs,
 * simulated and drawn. A *pipeline* runs a schedule: it calls your code for each pass, and carries
 * activations to the next stage and gradients back.
 *
 *     struct tutti_schedule_shape shape = {4, 8, 1};   // stages, micro-batches, chunks
 *     struct tutti_pipeline_options options = TUTTI_PIPELINE_OPTIONS_INIT;
 *     options.count = rows * width;                 // of an activation, and so of its gradient
 *     options.dtype = TUTTI_FLOAT32;
 *     options.forward = my_forward, options.backward = my_backward, options.context = &my_model;
 *     tutti_schedule_create("1f1b", &shape, &schedule);
 *     tutti_pipeline_create(schedule, &options, comm, &pipeline);   // comm has 4 ranks
 *     tutti_schedule_free(schedule);
 *     for (each step) {
 *         tutti_pipeline_run(pipeline);
 *         update parameters;
 *     }
 *
 * Chunks.  A stage may have several parts of the model, its *chunks*. Chunk c of stage s is part
 * c * stages + s of the model, so a micro-batch passes all stages once for each chunk.
 *
 * docs/how-to/pipelines.md has pictures, costs and the papers.
 */
#ifndef TUTTI_TRAIN_PIPELINE_H
#define TUTTI_TRAIN_PIPELINE_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------ schedules
 *
 * Any thread may use a schedule, and several threads may at once: nothing changes it once it is
 * made. */

struct tutti_schedule; /* opaque */

/* At most 1024 stages, 65536 micro-batches, 256 chunks and 4194304 passes in all. */
struct tutti_schedule_shape {
    int stage_count;       /* ranks of the pipeline */
    int micro_batch_count; /* into which the batch of a step is cut */
    int chunk_count;       /* parts of the model on each stage; 1 unless passes are interleaved */
};

enum tutti_pass { TUTTI_PASS_FORWARD, TUTTI_PASS_BACKWARD };

/* One pass of one micro-batch through one chunk of a stage. */
struct tutti_schedule_action {
    enum tutti_pass pass;
    int micro_batch; /* from 0 */
    int chunk;       /* of the stage, from 0 */
};

/* Makes a schedule by its name. The schedule is the caller's. With "1f1b" a stage does a backward
 * pass as soon as it can, and from then on one forward and one backward pass by turns
 * (PipeDream-Flush). With "gpipe" every stage does all forward passes, then all backward passes.
 * "interleaved" is 1f1b with several chunks on each stage, in the order of Megatron-LM; the number
 * of micro-batches must then be a multiple of stage_count. With 1 chunk it is "1f1b". Name and
 * shape stay the caller's. Local; any thread; does not block. On failure (INVALID_OPTIONS,
 * NO_MEMORY) *created is NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_schedule_create(const char *name, const struct tutti_schedule_shape *shape,
                      struct tutti_schedule **created);
/* Reads a schedule from its text form, of text_bytes bytes, which stays the caller's:
 *
 *     schedule stages 2 micro_batches 3 chunks 1    # from here to the end of the line: a comment
 *     stage 0: F0 F1 B0 F2 B1 B2
 *     stage 1: F0 B0 F1 B1 F2 B2
 *
 * F is a forward pass, B a backward pass, and the number is the micro-batch; F0.1 is chunk 1. A
 * stage may have several lines, one behind the other. Reading does not check whether the order can
 * run: tutti_schedule_check does. Local; any thread; does not block. On failure *created is NULL:
 * INVALID_OPTIONS (the message names the line), NO_MEMORY. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_schedule_parse(const char *text, size_t text_bytes,
                                                                struct tutti_schedule **created);
/* Reads a schedule in the same form from a file of at most 64 MiB. path stays the caller's. Local;
 * any thread; blocks as long as the file system does. On failure *created is NULL: INVALID_OPTIONS
 * (the file cannot be read, or is too large), else as tutti_schedule_parse. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_schedule_load(const char *path,
                                                               struct tutti_schedule **created);
/* Frees the schedule; pipelines made from it have their own copies. NULL is allowed. Local; does
 * not block. */
TUTTI_API enum tutti_status tutti_schedule_free(struct tutti_schedule *schedule);

/* Checks that the schedule can run. Every stage must do the forward and the backward pass of each
 * micro-batch through each of its chunks once, and no stage may wait for ever. A forward pass waits
 * for the forward pass of the part of the model before it. A backward pass waits for the backward
 * pass of the part behind it, and for its own forward pass. Sends never hold up a stage. Local; any
 * thread; does not block. INVALID_OPTIONS: it cannot run; the message names the stage, the position
 * in its order (from 0), the pass there and the pass that it waits for. NO_MEMORY: the schedule may
 * be right or wrong. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_schedule_check(const struct tutti_schedule *schedule);

/* Fills *shape. Local; any thread; does not block. */
TUTTI_API void tutti_schedule_describe(const struct tutti_schedule *schedule,
                                       struct tutti_schedule_shape *shape);
/* Returns the passes of a stage in their order, *count of them. They belong to the schedule. NULL,
 * and *count is 0: there is no such stage, or it has no passes. Local; any thread; does not
 * block. */
TUTTI_API const struct tutti_schedule_action *
tutti_schedule_actions(const struct tutti_schedule *schedule, int stage, size_t *count);
/* The most activations that the stage keeps at any one time: forward passes, of any chunk, whose
 * backward pass is not over. gpipe: m for m micro-batches. 1f1b: min(p - s, m) for stage s of p.
 * interleaved with v chunks: min(2 (p - s - 1) + (v - 1) p + 1, v m), each of one chunk. -1: there
 * is no such stage. Local; any thread; does not block. */
TUTTI_API int tutti_schedule_in_flight(const struct tutti_schedule *schedule, int stage);
/* Writes the schedule in its text form, as much as fits into text_bytes, and a zero at the end.
 * *full_bytes becomes the size of all of it, the zero included; full_bytes may be NULL. text may be
 * NULL if text_bytes is 0. Local; any thread; does not block. NO_MEMORY. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_schedule_text(const struct tutti_schedule *schedule,
                                                               char *text, size_t text_bytes,
                                                               size_t *full_bytes);

/* ------------------------------------------------------------------------ simulating and drawing */

/* How long passes take, in any unit. */
struct tutti_schedule_times {
    size_t size_bytes; /* sizeof(struct tutti_schedule_times); TUTTI_SCHEDULE_TIMES_INIT sets it */
    double forward;    /* through one chunk; above 0 */
    double backward;   /* above 0; about twice a forward pass, or three times if it recomputes */
    /* For stages that are slower than others: both times of chunk c of stage s are multiplied by
     * weights[c * stage_count + s], above 0. Stays the caller's. NULL: all are 1. */
    const double *weights;
};
#define TUTTI_SCHEDULE_TIMES_INIT                           \
    {                                                       \
        sizeof(struct tutti_schedule_times), 1.0, 2.0, NULL \
    }

/* Runs the schedule in simulated time: every pass begins as soon as its stage is free and the
 * passes that it waits for are done; messages take no time. *step_time becomes the time until the
 * last stage is done. idle_times has an entry for each stage, which becomes the time in which the
 * stage does nothing; it stays the caller's, and may be NULL. If all passes take the times given,
 * the idle share, idle over busy time, is as in the papers: (p - 1) / m for gpipe and 1f1b, (p - 1)
 * / (v m) for interleaved. times may be NULL: TUTTI_SCHEDULE_TIMES_INIT. Checks the schedule first.
 * Local; any thread; does not block. INVALID_OPTIONS: a time or the schedule is wrong. NO_MEMORY.
 * On failure nothing is set. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_schedule_simulate(const struct tutti_schedule *schedule,
                        const struct tutti_schedule_times *times, double *step_time,
                        double *idle_times);

enum tutti_schedule_picture {
    TUTTI_SCHEDULE_PICTURE_SVG,
    TUTTI_SCHEDULE_PICTURE_TEXT /* for a terminal, as at the top of this file */
};

/* Draws the simulated schedule: a row for each stage, time to the right, a box with the number of
 * its micro-batch for each pass. Each chunk has a shade of its own, and in text its number. Writes
 * into text and *full_bytes, and takes times, as tutti_schedule_text and tutti_schedule_simulate
 * do. Checks the schedule first. Local; any thread; does not block. INVALID_OPTIONS: a time or the
 * schedule is wrong, or there is no such picture. UNSUPPORTED: the picture would be too large to
 * look at. NO_MEMORY. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_schedule_draw(const struct tutti_schedule *schedule, const struct tutti_schedule_times *times,
                    enum tutti_schedule_picture picture, char *text, size_t text_bytes,
                    size_t *full_bytes);

/* --------------------------------------------------------------------------------------- pipelines
 *
 * Rank s of the communicator is stage s. A pipeline is for one thread at a time. */

struct tutti_pipeline; /* opaque */

/* Computes the forward pass of a micro-batch through a chunk of this stage. input is the activation
 * from the part of the model before the chunk; NULL in the first part, which has the data itself.
 * It stays as it is until the backward pass of the same micro-batch and chunk has returned. output
 * takes the activation for the part behind the chunk; NULL in the last part, which has the loss.
 * Both are 64-byte aligned, and belong to the pipeline; output is valid only until forward returns.
 *
 * The thread of tutti_pipeline_run calls it. It may call Tutti, but not this pipeline. Any status
 * but TUTTI_OK ends the step on all ranks. */
typedef enum tutti_status tutti_pipeline_forward(void *context, int chunk, int micro_batch,
                                                 const void *input, void *output);
/* Computes the backward pass. output_gradient is the gradient of the output of forward; NULL in the
 * last part. input_gradient takes the gradient of input; NULL in the first part. The gradients of
 * parameters are the caller's: add up the gradients of all micro-batches. Threads and statuses as
 * for forward. */
typedef enum tutti_status tutti_pipeline_backward(void *context, int chunk, int micro_batch,
                                                  const void *output_gradient, void *input_gradient);

struct tutti_pipeline_options {
    size_t size_bytes; /* sizeof(struct tutti_pipeline_options); TUTTI_PIPELINE_OPTIONS_INIT sets it */
    size_t count; /* elements of an activation of one micro-batch, the same between all parts */
    enum tutti_dtype dtype; /* of activations and gradients */
    /* Messages have tags from here up to first_tag + 2 * chunk_count * micro_batch_count - 1. Other
     * messages on the communicator must have other tags. */
    int first_tag;
    tutti_pipeline_forward *forward;
    tutti_pipeline_backward *backward;
    void *context; /* passed to both; must live as long as the pipeline */
};
#define TUTTI_PIPELINE_OPTIONS_INIT                                                  \
    {                                                                                \
        sizeof(struct tutti_pipeline_options), 0, TUTTI_FLOAT32, 0, NULL, NULL, NULL \
    }

/* Checks the schedule and makes a pipeline that runs it. All ranks give the same schedule, count,
 * dtype and first_tag. Schedule and options are copied; the communicator must outlive the pipeline.
 * Collective; blocks until the communicator's deadline. On failure *created is NULL:
 * INVALID_OPTIONS (the schedule cannot run or does not have a stage for each rank, or a callback is
 * missing), INVALID_COUNT, INVALID_DTYPE, INVALID_TAG, NO_MEMORY, NO_SPACE, MISMATCH (ranks gave
 * different arguments, or another rank failed), or a status of an allreduce. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_pipeline_create(const struct tutti_schedule *schedule,
                      const struct tutti_pipeline_options *options, struct tutti_comm *comm,
                      struct tutti_pipeline **created);
/* Runs one step: calls forward and backward in the order of the schedule. For each micro-batch, one
 * activation and one gradient cross each boundary between two parts of the model; between parts of
 * one rank (a pipeline of 1 stage) they stay where they are. The pipeline starts sends, and waits
 * for a send when it needs its buffer again. It starts receives ahead of their use.
 *
 * Collective; blocks until this rank's part is done, or a message has waited for longer than the
 * communicator's timeout. The timeout counts from the start of a message, which may be most of a
 * step before its use, so it must be longer than a step. Returns the status of the message or
 * callback that failed first on this rank. The communicator has then failed on all ranks, by
 * tutti_comm_revoke_because if not before: a rank that still runs its part gets REVOKED, and its
 * message says which rank failed in which pass, micro-batch and chunk, and with which status. A
 * rank whose part was done gets the same from its next call on the communicator. The pipeline can
 * then only be freed. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_pipeline_run(struct tutti_pipeline *pipeline);
/* Frees the pipeline. NULL is allowed. Local; does not block: nothing is in flight between
 * steps. */
TUTTI_API enum tutti_status tutti_pipeline_free(struct tutti_pipeline *pipeline);

/* Messages of this rank in all steps so far, and its memory. */
struct tutti_pipeline_counters {
    size_t size_bytes; /* set by the caller to sizeof(struct tutti_pipeline_counters) */
    uint64_t steps;    /* that succeeded */
    uint64_t activations_sent, activations_received;
    uint64_t gradients_sent, gradients_received;
    uint64_t bytes_sent, bytes_received; /* of their elements */
    size_t buffer_count; /* buffers of one activation or gradient, fixed when the pipeline is made */
    size_t buffer_bytes; /* of all of them together */
};
/* Fills *counters. Local; does not block. INVALID_OPTIONS: counters->size_bytes is not set. */
TUTTI_API enum tutti_status tutti_pipeline_count(const struct tutti_pipeline *pipeline,
                                                 struct tutti_pipeline_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
