/* compress.h - gradients of data-parallel training that are averaged approximately, in a fraction
 * of the bytes; each step makes up for the error of the step before.
 *
 *     gradient ──(+)── corrected ── compress ─► ranks exchange few bytes ─► decoded: the new gradient,
 *                ▲         │                        │                       the same on all ranks
 *                │         └──────────(-)◄── decoded┘
 *                └── residual ◄────────┘   what was not sent waits for the next step
 *
 * A compressor takes the place of gradient buckets (tutti/train.h), and is used like them:
 *
 *     struct tutti_compress_tensor tensors[] = {{"layer 1, weights", weights, 1024, 512},
 *                                               {"layer 1, biases", biases, 1, 1024}};
 *     struct tutti_compressor_options options = TUTTI_COMPRESSOR_OPTIONS_INIT;
 *     options.method = TUTTI_COMPRESS_LOW_RANK;
 *     tutti_compressor_create(tensors, 2, &options, comm, &compressor);
 *     for (each step) {
 *         compute biases;  tutti_compressor_ready(compressor, 1);
 *         compute weights; tutti_compressor_ready(compressor, 0);
 *         tutti_compressor_finish(compressor, NULL);
 *         update parameters;
 *     }
 *
 * Low rank.  PowerSGD (Vogels, Karimireddy, Jaggi, arXiv 1905.13727). A gradient M of n x m numbers
 * becomes P Q^T, with P of n x r and Q of m x r: ranks average P = M Q, make its columns
 * orthonormal, average Q = M^T P, and take P Q^T for the gradient. With warm start the next step
 * begins with this Q, so that steps together are a power iteration. A rank sends r (n + m) numbers
 * instead of n m.
 *
 * Top k.  A rank sends the largest elements of a gradient, with their places. The other elements
 * wait in the residual (Aji, Heafield, arXiv 1704.05021; Lin et al., arXiv 1712.01887).
 *
 * Encoded.  A rank sends all elements in an encoding of tutti/encode.h to the ranks that own them,
 * an equal share each. The owners average, encode the averages, and send them to all ranks. A
 * residual of the owner keeps the loss of the second encoding.
 *
 * Gradients are float32. A tensor that would not become much smaller, such as a vector under low
 * rank, is left alone: its average is exact, up to rounding. Averages are the same on all ranks, bit
 * for bit, and the same ranks with the same gradients and state compute the same bits again.
 *
 * State belongs to the *name* of a tensor, whatever the list and the buckets that the tensor is in:
 *     tutti_compressor_parts, tutti_compressor_load    save it with a checkpoint, and load it again
 *     tutti_compressor_take                            moves it to a compressor of another list, or
 *                                                      of the communicator that tutti_comm_shrink made
 *
 * docs/how-to/compression.md says which method to use, with measured losses.
 */
#ifndef TUTTI_TRAIN_COMPRESS_H
#define TUTTI_TRAIN_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/encode.h"
#include "tutti/train.h"
#include "tutti/train/checkpoint.h"
#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------- the compressor */

struct tutti_compressor; /* opaque */

enum tutti_compress_method {
    TUTTI_COMPRESS_NONE,     /* every tensor is left alone: to compare the other methods with */
    TUTTI_COMPRESS_LOW_RANK, /* PowerSGD */
    TUTTI_COMPRESS_TOP_K,    /* the largest elements */
    TUTTI_COMPRESS_ENCODED   /* all elements, in an encoding of tutti/encode.h */
};

/* A gradient, in float32: rows x columns elements without gaps, row by row. A convolution's weights
 * (outputs, inputs, height, width) are a matrix of outputs x (inputs height width). */
struct tutti_compress_tensor {
    const char *name; /* 1 to 150 bytes, without control characters; no two tensors have one name */
    float *data;      /* may be NULL where the tensor has no elements */
    size_t rows, columns; /* of a vector: 1 and its length */
};

struct tutti_compressor_options {
    size_t size_bytes; /* sizeof(struct tutti_compressor_options); _INIT sets it */
    enum tutti_compress_method method;
    enum tutti_encoding encoding; /* ENCODED: any but TUTTI_ENCODING_NONE */
    int rank;       /* LOW_RANK: columns of the factors, 1 to TUTTI_COMPRESS_RANK_MAX */
    int warm_start; /* LOW_RANK: 0: each step begins with a random Q */
    /* TOP_K: of a tensor's elements, the share that is sent; above 0, at most 1. At least one
     * element is. */
    double share;
    /* A tensor is compressed if it has at least this many times as many bytes as this rank sends
     * of it, and otherwise left alone. 1 or more. */
    double ratio_min;
    int feedback; /* 0: residuals are dropped, which costs accuracy, and saves their memory */
    int priority; /* of the exchanges, as in struct tutti_call_options */
    /* Of random numbers, which also depend on the tensor's name: the same on all ranks. */
    uint64_t seed;
    size_t bucket_bytes;            /* of gradients, as in struct tutti_buckets_options */
    size_t first_bucket_bytes;      /* as there */
    enum tutti_buckets_start start; /* as there */
    int reserved;                   /* 0 */
};
#define TUTTI_COMPRESSOR_OPTIONS_INIT                                                            \
    {                                                                                            \
        sizeof(struct tutti_compressor_options), TUTTI_COMPRESS_NONE, TUTTI_ENCODING_NONE, 4, 1, \
            0.01, 2.0, 1, 0, (uint64_t)1, 0, 0, TUTTI_BUCKETS_START_CHOSEN, 0                    \
    }
#define TUTTI_COMPRESS_RANK_MAX 64

/* Makes a compressor for the gradients of a model, given in the model's order. All ranks give the
 * same names, rows, columns and options. Tutti copies the list and the names; the gradients' memory
 * stays the caller's, and must stay where it is until the compressor is freed. The communicator
 * must outlive the compressor. Residuals begin as zeros. options may be NULL. Collective; blocks
 * until the communicator's deadline. On failure *created is NULL: INVALID_BUFFER, INVALID_COUNT,
 * INVALID_OPTIONS (an option, or a name), NO_MEMORY, NO_SPACE, MISMATCH (ranks gave different
 * tensors or options, or another rank failed), or a status of an allreduce. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_compressor_create(const struct tutti_compress_tensor *tensors, size_t count,
                        const struct tutti_compressor_options *options, struct tutti_comm *comm,
                        struct tutti_compressor **created);
/* Frees the compressor and its state. If the last step was not finished, blocks until the exchanges
 * that it started are done, and leaves gradients undefined. NULL is allowed. One thread. */
TUTTI_API enum tutti_status tutti_compressor_free(struct tutti_compressor *compressor);

/* ----------------------------------------------------------------------------------------- steps */

/* The result of a step of a compressor. The same on all ranks. */
struct tutti_compressor_result {
    /* Compressed tensors of which some rank's gradient was not finite, or whose average is too
     * large. With low rank all elements of such a tensor are NaN now, and its state is that of the
     * step before. With top k such elements arrive as they are, with encodings as the encoding has
     * them, and they leave no residual. Tensors that are left alone are not looked at, and do not
     * count. */
    size_t not_finite;
};

/* Says that tensor `index` of the compressor has this step's gradient. It belongs to the compressor
 * until tutti_compressor_finish has returned. Compresses the buckets that are full now and starts
 * their first exchange, in their order, unless they start at finish. Any thread; computes, and does
 * not block. INVALID_OPTIONS: there is no such tensor, or it was already ready in this step. Other
 * failures come from starting an exchange; tutti_compressor_finish returns them, too. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_compressor_ready(struct tutti_compressor *compressor, size_t index);
/* Ends the step. Gradients that this rank did not have ready count as zeros, and their residuals
 * are sent all the same. Waits for all exchanges; then every gradient is the decoded average, the
 * same on all ranks, bit for bit, and residuals are those of the next step. With top k and encodings
 * they are the corrected gradient minus what was sent of it, decoded. This subtraction is exact (but
 * for what tutti/encode.h says), so nothing is lost. With low rank they are the corrected gradient
 * minus the decoded average, rounded once. result may be NULL. Collective; blocks until the
 * communicator's deadline. After a failure gradients are undefined, the state on this rank is that
 * before the step, and the compressor can only be freed, or give its state to another one. CORRUPT:
 * a rank sent places that its tensor does not have. Else the failure of the first exchange that
 * failed. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_compressor_finish(struct tutti_compressor *compressor, struct tutti_compressor_result *result);

/* ----------------------------------------------------------------------------------------- state */

/* Moves the state from one compressor to another: residuals, Q and the number of steps, of all
 * tensors that have the same name, rows and columns in both. Other state of `compressor` stays as
 * it is, and `from` can only be freed afterwards. Both have the same method, encoding, rank
 * and feedback. Use it
 *   - when the list, the order, addresses or bucket sizes change: both compressors on one
 *     communicator;
 *   - after tutti_comm_shrink: `from` on the old communicator, broken or not. Each survivor keeps
 *     its residuals as they are, so their average takes the place of the average of all; the
 *     residuals of ranks that are gone are lost. Q is made the same on all ranks. Residuals of
 *     owners go to the new owners of the elements;
 *   - when ranks join: they pass NULL, and get Q from the others; their residuals are zeros.
 * Collective on the communicator of `compressor`, between steps; blocks until its deadline.
 * INVALID_OPTIONS: methods or options differ, a step of `compressor` has begun or failed, or `from`
 * has given its state away before. MISMATCH: ranks took different tensors. Else the status of a
 * collective. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_compressor_take(struct tutti_compressor *compressor,
                                                                 struct tutti_compressor *from);

/* Lists the compressor's state as parts of tensors for tutti_checkpoints_save, which the caller
 * saves together with its own: writes up to `room` parts into *parts, and the number of all of them
 * into *count. Names begin with the tensor's name, or "compressor". Each rank's residuals are a row
 * of a tensor with a row for each rank; residuals of owners are one tensor of all ranks. Names and data belong to the compressor, until it is freed
 * or a step begins. Local; does not block. INVALID_OPTIONS: a step has begun, or the compressor
 * gave its state away; INVALID_BUFFER: parts is NULL, and room is not 0. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_compressor_parts(struct tutti_compressor *compressor, struct tutti_checkpoint_tensor *parts,
                       size_t room, size_t *count);
/* Loads the compressor's state from the checkpoint of `step` in the directory of the checkpoints,
 * which stay the caller's. On the same number of ranks the next
 * steps compute the bits that the saving run computed. From P ranks to p, rank r gets p / P times
 * the sum of the rows r, r + p, r + 2p ... of residuals, so that their average stays the same.
 * Collective, between steps; blocks until all ranks have read. CORRUPT: a number in the checkpoint
 * is not finite, or there cannot be so many ranks. MISMATCH: the checkpoint has no state of a
 * tensor, or of another shape, or is of another method, encoding or feedback. INVALID_OPTIONS: a step has begun. Else a status of
 * tutti_checkpoints_load or of an allreduce. After a failure state is undefined, and the compressor
 * can only be freed. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_compressor_load(struct tutti_compressor *compressor, struct tutti_checkpoints *checkpoints,
                      uint64_t step);

/* Sizes and counts of a compressor. */
struct tutti_compressor_counters {
    size_t size_bytes;       /* set by the caller to sizeof(struct tutti_compressor_counters) */
    uint64_t tensors;        /* of the list */
    uint64_t compressed;     /* of these, the tensors that are not left alone */
    uint64_t buckets;        /* of tensors */
    uint64_t gradient_bytes; /* of all gradients of a rank */
    /* Of a rank's contributions to the exchanges of a step, in place of gradient_bytes. The bytes
     * that an algorithm sends for them are a multiple of it, as ever. */
    uint64_t payload_bytes;
    uint64_t state_bytes; /* residuals of this rank and of what it owns, and Q, in memory */
    uint64_t steps;       /* that were finished, those before a checkpoint included */
};
/* Fills *counters for the compressor. Local; does not block. INVALID_OPTIONS: counters->size_bytes
 * is not set. */
TUTTI_API enum tutti_status tutti_compressor_count(const struct tutti_compressor *compressor,
                                                   struct tutti_compressor_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
