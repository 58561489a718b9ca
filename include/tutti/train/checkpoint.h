/* checkpoint.h - the state of a training run in files: all ranks write it together, while training
 * goes on, and any number of ranks can read it back.
 *
 *     run-7/
 *       step-000000000100/    manifest   shard-00000  shard-00001  shard-00002  shard-00003
 *       step-000000000200/    manifest   shard-00000  shard-00001  shard-00002  shard-00003
 *       step-000000000300/               shard-00000  shard-00001        is being written
 *
 * A checkpoint holds the *tensors* of all ranks at one step: parameters, moments, counters. Each
 * rank describes the parts of named tensors that it has, and where they lie in the whole tensors.
 * Files keep each part with its place. So ranks that divide the tensors differently find their
 * parts: with another number of replicas, slices or pipeline stages, or another stage of ZeRO.
 *
 *     struct tutti_checkpoint_tensor mine[] = {
 *         {"weights", TUTTI_FLOAT32, 2, {1024, 512}, {256 * rank, 0}, {256, 512}, 0, 256 * 512, w},
 *         TUTTI_CHECKPOINT_ROW("samples seen", TUTTI_UINT64, 1, &samples)};
 *     tutti_checkpoints_open("run-7", NULL, comm, &checkpoints);
 *     tutti_checkpoints_list(checkpoints, &step, 1, &count);
 *     if (count > 0) tutti_checkpoints_load(checkpoints, step, mine, 2);
 *     for (; step < steps; step++) {
 *         train;
 *         if ((step + 1) % 100 == 0) tutti_checkpoints_save(checkpoints, step + 1, mine, 2);
 *     }
 *     tutti_checkpoints_close(checkpoints);
 *
 * A checkpoint is valid from the moment at which its complete manifest is there. By then all files
 * are on the disk, and all ranks have said so. If a rank, all ranks or the machine end before that
 * moment, earlier checkpoints stay as they were.
 *
 * Checkpoints are for one thread at a time. All ranks make the same calls in the same order, and
 * get the same status: if a rank cannot write, all ranks learn which rank it is, and why. Calls are
 * on a communicator of the checkpoints' own, so they need no order with other calls. All ranks must
 * see the same directory: on one host, or in a file system that the hosts share.
 * docs/how-to/checkpoints.md has the costs and the format of the files.
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_H
#define TUTTI_TRAIN_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------- checkpoints */

struct tutti_checkpoints; /* opaque */

struct tutti_checkpoints_options {
    size_t size_bytes; /* sizeof(struct tutti_checkpoints_options); _INIT sets it */
    /* How many of the newest checkpoints stay, 1 or more. Tutti removes older checkpoints once a
     * new checkpoint is complete. Checkpoints of later steps than the new checkpoint stay, too, and
     * do not count. */
    int keep;
    /* Nonzero: rank 0 locks the directory for this run at once, and not at its first save. If
     * another run has the lock, opening fails with SYSTEM. 0: a run may load checkpoints while
     * another run saves them. */
    int lock;
    uint64_t timeout_ns; /* for ranks to wait for each other's disks; 0: the communicator's */
};
#define TUTTI_CHECKPOINTS_OPTIONS_INIT                              \
    {                                                               \
        sizeof(struct tutti_checkpoints_options), 2, 0, (uint64_t)0 \
    }

/* Opens a directory for all ranks of the communicator, which must outlive the result. Makes the
 * directory if it is not there; its parent must exist. Tutti copies `folder` (the path) and options;
 * options may be NULL, and are the same on all ranks. Collective; blocks until the communicator's
 * deadline. On failure *opened is NULL: INVALID_OPTIONS, INVALID_COMM, NO_MEMORY, MISMATCH (ranks
 * gave different options), SYSTEM or NO_SPACE (the directory cannot be made, or another run has the
 * lock), INVALID_REQUEST (this thread has a group open), or a status of tutti_comm_dup. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_checkpoints_open(const char *folder, const struct tutti_checkpoints_options *options,
                       struct tutti_comm *comm, struct tutti_checkpoints **opened);
/* Waits as tutti_checkpoints_wait does, then frees the checkpoints in any case, and returns the
 * status of the wait. Collective; blocks for that wait. NULL is allowed. */
TUTTI_API enum tutti_status tutti_checkpoints_close(struct tutti_checkpoints *checkpoints);

/* -------------------------------------------------------------------------- a rank's own tensors */

/* A part of a tensor: elements that this rank has. You describe it in two steps: a box of the
 * tensor, then a range of the box's elements in row-major order. So a slice of a matrix is a box,
 * and the part of that slice that a rank owns, when ZeRO divides it, is a range of the box.
 *
 *     shape {4, 6}             first {0, 2}, extent {4, 3}      begin 2, count 5
 *
 *     . . . . . .              . . # # # .                      . . . . # .
 *     . . . . . .              . . # # # .                      . . # # # .
 *     . . . . . .              . . # # # .                      . . # . . .
 *     . . . . . .              . . # # # .                      . . . . . .  */
struct tutti_checkpoint_tensor {
    const char *name; /* the tensor's: 1 to 200 bytes, without control characters */
    enum tutti_dtype dtype;
    int dims;            /* 1 to TUTTI_CHECKPOINT_DIMS; so many numbers of these three count: */
    size_t shape[8];     /* of the whole tensor; 1 or more each */
    size_t first[8];     /* of the box, in the tensor */
    size_t extent[8];    /* of the box; 1 or more each */
    size_t begin, count; /* the range: its first element in the box, and how many; may be none */
    void *data;          /* `count` elements, without gaps; stays the caller's */
};
#define TUTTI_CHECKPOINT_DIMS 8

/* A whole tensor of one dimension, such as a counter, with count 1, that is the same on all
 * ranks. */
#define TUTTI_CHECKPOINT_ROW(name, dtype, count, data)                    \
    {                                                                     \
        (name), (dtype), 1, {(count)}, {0}, {(count)}, 0, (count), (data) \
    }

/* --------------------------------------------------------------------------- saving and loading */

/* Starts to write a checkpoint of the tensors into the directory of the checkpoints. Copies this
 * rank's part, so the tensors may change as soon as the call returns, and a thread writes the copy.
 * All ranks together must have every element of each tensor. An element that several ranks have
 * must be the same on all of them; those ranks divide the writing. If the previous checkpoint is
 * still being written, waits for it; if it failed, returns its status and starts nothing.
 * Collective; blocks for that wait, and to copy. Ranks compare names and descriptions only if these
 * differ from the last save. INVALID_OPTIONS: a description makes no sense, no rank has some
 * elements, or there is a checkpoint of that step. INVALID_BUFFER: data is NULL. MISMATCH: ranks
 * give different steps, shapes or dtypes. UNSUPPORTED: many parts of a tensor cross each other.
 * INVALID_REQUEST: this thread has a group open. INVALID_DTYPE, NO_MEMORY, or the status of a
 * collective. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_checkpoints_save(struct tutti_checkpoints *checkpoints, uint64_t step,
                       const struct tutti_checkpoint_tensor *tensors, size_t count);
/* Waits until no checkpoint is being written. Returns the status of the newest of the checkpoints,
 * unless an earlier call returned it: OK if it is complete. SYSTEM or NO_SPACE: a rank cannot
 * write, or another run writes checkpoints into this directory; the message has the rank and the
 * file. If an old checkpoint cannot be removed, the log says so, and the call succeeds. Collective;
 * blocks until all ranks have written. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_checkpoints_wait(struct tutti_checkpoints *checkpoints);

/* Lists the complete checkpoints of the directory, newest first: writes the steps of up to `room`
 * of them into *steps, and the number of all of them into *count. A checkpoint is complete if it
 * has a manifest; the call reads no file. Waits as tutti_checkpoints_wait does, and returns the
 * status of that wait if it failed. Collective; blocks for that wait. The same on all ranks.
 * INVALID_BUFFER: steps is NULL, and room is not 0; INVALID_REQUEST: this thread has a group open;
 * SYSTEM or NO_MEMORY: the directory cannot be read. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_checkpoints_list(struct tutti_checkpoints *checkpoints, uint64_t *steps, size_t room,
                       size_t *count);
/* Reads the checkpoint of `step` from the checkpoints into the tensors' data. Each rank describes
 * the parts that it wants. Other ranks, more or fewer, may have saved the checkpoint. The call
 * leaves out tensors in the files that no rank wants. It checks all bytes against checksums before
 * it uses them. Waits as tutti_checkpoints_wait does, and returns the status of that wait if it
 * failed. Collective; blocks until all ranks have read. After a failure, a part of the data may
 * have changed. CORRUPT: a file is damaged, cut off, or not of this checkpoint. MISMATCH: a tensor
 * is not in the file, or has another shape or dtype there. UNSUPPORTED: a later version of Tutti
 * wrote the file, or a tensor is in many pieces that cross each other. SYSTEM: a file is missing or
 * cannot be read. INVALID_* as tutti_checkpoints_save, NO_MEMORY. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_checkpoints_load(struct tutti_checkpoints *checkpoints, uint64_t step,
                       const struct tutti_checkpoint_tensor *tensors, size_t count);

/* This rank's share of the work so far. */
struct tutti_checkpoints_counters {
    size_t size_bytes;   /* set by the caller to sizeof(struct tutti_checkpoints_counters) */
    uint64_t saved;      /* checkpoints that were begun */
    uint64_t bytes;      /* that this rank wrote, heads of files included */
    uint64_t blocked_ns; /* in tutti_checkpoints_save, waiting for an earlier checkpoint */
    uint64_t copied_ns;  /* for the rest of tutti_checkpoints_save: comparing and copying */
    uint64_t written_ns; /* from there until the checkpoint was complete, or had failed */
    size_t copy_bytes;   /* memory of the copy */
};
/* Fills *counters for the checkpoints, without a checkpoint that is being written. Local; does not
 * block. INVALID_OPTIONS: counters->size_bytes is not set. */
TUTTI_API enum tutti_status tutti_checkpoints_count(const struct tutti_checkpoints *checkpoints,
                                                    struct tutti_checkpoints_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
