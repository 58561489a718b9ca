/* volumes.h - what a step sends along each axis of the mesh: as the library counted it, beside the
 * formulas of the books.
 *
 *     n ranks of the axis, Psi parameters of a rank, m micro-batches, p stages; B = a micro-batch's
 *     rows x width
 *
 *     replicas   ZeRO 0 and 1    2 (n - 1) / n Psi          gradients once, and with ZeRO 1 parameters
 *                ZeRO 2          (m + 1) (n - 1) / n Psi    gradients of each micro-batch, parameters once
 *                ZeRO 3          3 m (n - 1) / n Psi        and parameters of each micro-batch, forward and backward
 *     slices     a layer         4 allreduces of B          2 forward, 2 backward
 *                rows split      4 allgathers and 4 reduce_scatters of B; 6 allgathers if whole inputs are gathered again
 *     stages     a boundary      an activation and a gradient of each micro-batch, p - 1 boundaries; p v - 1 with v chunks
 *
 * Embedding, head, loss, lengths of gradients and what else there is are lines of their own, so
 * every byte of the step is in one line. A rank's volume of an allreduce of S bytes is 2 (n - 1) /
 * n S, that of an allgather or reduce_scatter of S bytes in all (n - 1) / n S, whatever algorithm
 * moves them.
 */
#ifndef GPT_VOLUMES_H
#define GPT_VOLUMES_H

#include <stdio.h>

#include "mesh.h"

/* X(enumerator, axis, what) */
#define VOLUME_LIST(X)                                              \
    X(VOLUME_PARAMETERS, AXIS_REPLICAS, "parameters and gradients") \
    X(VOLUME_SQUARES, AXIS_REPLICAS, "length of gradients")         \
    X(VOLUME_LAYERS, AXIS_SLICES, "layers")                         \
    X(VOLUME_EMBEDDING, AXIS_SLICES, "embedding")                   \
    X(VOLUME_HEAD, AXIS_SLICES, "head")                             \
    X(VOLUME_LOSS, AXIS_SLICES, "loss")                             \
    X(VOLUME_GAINS, AXIS_SLICES, "gains")                           \
    X(VOLUME_SLICE_LENGTH, AXIS_SLICES, "length of gradients")      \
    X(VOLUME_PIPELINE, AXIS_STAGES, "activations and gradients")    \
    X(VOLUME_STAGE_LENGTH, AXIS_STAGES, "length of gradients")      \
    X(VOLUME_TIED, AXIS_ENDS, "tied embedding")                     \
    X(VOLUME_REPORT, AXIS_ALL, "loss and times")

#define VOLUME_ONE(enumerator, axis, what) enumerator,
enum volume { VOLUME_LIST(VOLUME_ONE) VOLUMES };
#undef VOLUME_ONE

/* Operations that a step has. Of messages those that are sent. */
enum volume_kind { KIND_ALLREDUCE, KIND_REDUCE_SCATTER, KIND_ALLGATHER, KIND_SEND, VOLUME_KINDS };

struct amount {
    uint64_t calls[VOLUME_KINDS], bytes[VOLUME_KINDS];
};

/* What the formulas ask for. */
struct volumes_setting {
    int zero;
    size_t micro_batches;
    bool rows_split, gathers_again, recomputes;
    bool compresses; /* gradients of replicas: no formula here says how many bytes they are */
    struct part part;
    struct shape shape;
    size_t rows;           /* of a micro-batch */
    size_t chunks, layers; /* of this rank, and of all its chunks */
    bool has_embedding, has_head;
    size_t parameter_bytes, gradient_bytes; /* of one element */
    size_t parameters, blocks; /* of this rank's part; blocks of which squares are added up */
    size_t own_gains,
        own_tied; /* elements that this rank adds up with other slices, and with the pipeline's other end */
    size_t report_count; /* float64 of the report */
};

struct volumes {
    struct volumes_setting setting;
    const struct mesh *mesh;  /* borrowed */
    struct amount seen[AXES]; /* what the library had counted when it was asked last */
    struct amount counted[VOLUMES];
    size_t steps, skipped; /* the second of the first: they gather no parameters */
};

/* From now on. */
void volumes_init(struct volumes *volumes, const struct mesh *mesh,
                  const struct volumes_setting *setting);

/* A step begins. Operations between steps belong to none, but for those of replicas, which may go
 * on from one step to the next. */
void volumes_begin_step(struct volumes *volumes);
/* The optimizer left the step out. */
void volumes_skip_step(struct volumes *volumes);

/* What the axis did since it was looked at last belongs to this. Does nothing if there are no
 * volumes. */
void volumes_note(struct volumes *volumes, enum volume volume);

/* Prints both sides, for this rank, unless the file is NULL. Collective. Returns on how many ranks
 * they differ. */
size_t volumes_print(const struct volumes *volumes, FILE *file);

#endif
