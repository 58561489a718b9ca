/* train.h - gradient buckets: gradients of data-parallel training, averaged while the backward
 * pass goes on.
 *
 *     backward pass     layer 4 ─ layer 3 ─ layer 2 ─ layer 1 ─┐
 *                          │ ready   │ ready   │ ready   │     │
 *     bucket 0 is full     ├─────────┴▶ allreduce of 4 and 3   │ finish
 *     bucket 1 is full     │                   └─────────┴▶ allreduce of 2 and 1
 *                                                               ▼
 *                                                   every gradient is the average of all ranks
 *
 * Each gradient belongs to a bucket, and the allreduce of a bucket starts when its last gradient is
 * ready. (An allreduce for each gradient would mean many small calls, and an allreduce for all of
 * them could not begin before the last gradient is ready.) Tutti reduces gradients in place,
 * without copying them into one buffer. All ranks start buckets in the same order, whatever the
 * order in which gradients become ready.
 *
 *     struct tutti_gradient gradients[] = {{weights, weight_count, TUTTI_FLOAT32},
 *                                           {biases, bias_count, TUTTI_FLOAT32}};
 *     tutti_buckets_create(gradients, 2, NULL, comm, &buckets);
 *     for (each step) {
 *         compute biases;  tutti_buckets_ready(buckets, 1);
 *         compute weights; tutti_buckets_ready(buckets, 0);
 *         tutti_buckets_finish(buckets, NULL);
 *         update parameters;
 *     }
 *
 * To accumulate gradients over several passes, call tutti_buckets_ready only in the last pass (or
 * see tutti_buckets_hold): Tutti sends nothing before it.
 */
#ifndef TUTTI_TRAIN_H
#define TUTTI_TRAIN_H

#include <stddef.h>

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------- gradient buckets */

struct tutti_buckets;

/* Floats only. data may be NULL where count is 0. */
struct tutti_gradient {
    void *data;
    size_t count; /* elements */
    enum tutti_dtype dtype;
};

/* When buckets start. On one host CPUs do the reducing. If each CPU has a rank that computes,
 * reducing takes time from computing, and it is fastest to reduce everything at the end. */
enum tutti_buckets_start {
    TUTTI_BUCKETS_START_CHOSEN, /* WHEN_FULL if tutti_comm_overlaps on all ranks, else AT_FINISH */
    TUTTI_BUCKETS_START_WHEN_FULL, /* also best where CPUs only wait, say for a GPU */
    TUTTI_BUCKETS_START_AT_FINISH
};

struct tutti_buckets_options {
    size_t size_bytes; /* sizeof(struct tutti_buckets_options); TUTTI_BUCKETS_OPTIONS_INIT sets it */
    /* A bucket is full when it has at least this many bytes; 0: 25 MiB. All gradients of a bucket
     * have one dtype. */
    size_t bucket_bytes;
    /* The same for the first bucket, which is smaller so that sending begins early; 0: 1 MiB, or
     * bucket_bytes if that is less. */
    size_t first_bucket_bytes;
    /* Above 0: after averaging, gradients are scaled down so that the Euclidean norm of all of them
     * together is at most norm_max. */
    double norm_max;
    /* Nonzero: tutti_buckets_finish also finds the gradients that no rank had ready. Costs one
     * small allreduce. */
    int find_unused;
    int priority; /* of the allreduces, as in struct tutti_call_options */
    enum tutti_buckets_start start;
    int reserved; /* 0; never read, because programs of 0.1 have anything here */
};
#define TUTTI_BUCKETS_OPTIONS_INIT                                                           \
    {                                                                                        \
        sizeof(struct tutti_buckets_options), 0, 0, 0.0, 0, 0, TUTTI_BUCKETS_START_CHOSEN, 0 \
    }

/* The result of a step. The same on all ranks. */
struct tutti_buckets_result {
    double norm;  /* of all averaged gradients together, before scaling; 0 without norm_max */
    int scaled;   /* nonzero: scaled down to norm_max. A norm that is not finite scales nothing. */
    int reserved; /* is 0 */
};

/* Makes buckets for the gradients of a model's parameters, given in the model's order (so that the
 * backward pass reaches the last gradients first). All ranks give the same counts, dtypes and
 * options. Tutti copies the list; the memory stays the caller's, and must stay where it is until
 * the buckets are freed. The communicator must outlive the buckets. options may be NULL.
 * Collective; blocks until the communicator's deadline. On failure *created is NULL:
 * INVALID_BUFFER, INVALID_DTYPE (not a float), INVALID_OPTIONS, NO_MEMORY, MISMATCH (ranks gave
 * different gradients or options), or a status of an allreduce. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_buckets_create(const struct tutti_gradient *gradients, size_t count,
                     const struct tutti_buckets_options *options, struct tutti_comm *comm,
                     struct tutti_buckets **created);
/* Frees the buckets. If the last step was not finished, blocks until the allreduces that it started
 * are done, and leaves their results undefined. NULL is allowed. One thread. */
TUTTI_API enum tutti_status tutti_buckets_free(struct tutti_buckets *buckets);

/* Says that gradient `index` has this step's value. The gradient belongs to the buckets until
 * tutti_buckets_finish has returned. Starts the buckets that are full now, in their order, unless
 * they start at finish. Any thread; does not block. INVALID_OPTIONS: there is no such gradient, or
 * it was already ready in this step. Other failures come from starting an allreduce;
 * tutti_buckets_finish returns them, too. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_buckets_ready(struct tutti_buckets *buckets,
                                                               size_t index);
/* With is_held nonzero, tutti_buckets_ready of these buckets only checks its index from now on, for
 * passes that accumulate; with 0 it works as before. May be called only between two steps:
 * INVALID_OPTIONS if a gradient of this step is ready already. Local; does not block. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_buckets_hold(struct tutti_buckets *buckets,
                                                              int is_held);
/* Ends the step. Sets the gradients that this rank did not have ready to zero; they take part as
 * zeros. Then waits for all gradients, and scales them if norm_max says so. They are then the same
 * on all ranks, bit for bit. result may be NULL. Collective; blocks until the communicator's
 * deadline. INVALID_REQUEST: this thread has a group open; nothing has changed. Otherwise returns the
 * failure of the first allreduce that failed: then gradients are undefined, and the buckets can only
 * be freed. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_buckets_finish(struct tutti_buckets *buckets,
                                                                struct tutti_buckets_result *result);
/* For buckets with find_unused: 1 if some rank had the gradient ready in the last finished step; 0
 * if no rank had: its parameter had no part in the loss, so do not update it. Without find_unused
 * always 1. -1: there is no such gradient. Local; does not block. */
TUTTI_API int tutti_buckets_is_used(const struct tutti_buckets *buckets, size_t index);

/* The number of buckets. Local; does not block. */
TUTTI_API int tutti_buckets_count(const struct tutti_buckets *buckets);
/* The bucket of a gradient, by its position in the order in which buckets start. -1: there is no
 * such gradient. Local; does not block. */
TUTTI_API int tutti_buckets_find(const struct tutti_buckets *buckets, size_t index);

#ifdef __cplusplus
}
#endif

#endif
