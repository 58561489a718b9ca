/* compression.h - replicas average their gradients approximately, in fewer bytes
 * (tutti/train/compress.h), in place of the reductions of the shards.
 *
 *     backward   gradients of micro-batches add up here ── last one ─► compressor: ready
 *     finish     compressor: averages, the same on all replicas ─ x replicas ─► shards of one rank ─► AdamW
 *
 * Each tensor of the model is a tensor of the compressor, under the same name. So matrices keep
 * their shapes, which low rank needs, and a checkpoint has residuals by name.
 */
#ifndef GPT_COMPRESSION_H
#define GPT_COMPRESSION_H

#include <stdio.h>

#include "mesh.h"
#include "tutti/train/compress.h"
#include "tutti/train/shards.h"

struct compression_options {
    bool is_wanted;
    struct tutti_compressor_options compressor;
};

/* Of "powersgd:RANK", "top:SHARE", an encoding, or "none", which averages exactly. False if it is
 * none of these. */
bool compression_parse(const char *text, struct compression_options *options);

struct compression_progress {
    size_t first_listed; /* of the compressor's tensors */
    size_t ready_count;  /* micro-batches of this step */
};

struct compression {
    struct tutti_compressor *compressor;   /* NULL: none, and all functions but _open want one */
    struct tutti_comm *alone;              /* for shards that exchange nothing: of this rank */
    const struct parameters *parameters;   /* borrowed */
    real *gradients;                       /* laid out as the parameters; zeros between steps */
    struct compression_progress *progress; /* [groups] */
    size_t micro_batches;
    double replicas;
};

/* Collective over the world, of which the replicas are an axis. */
void compression_open(struct compression *compression, const struct compression_options *options,
                      const struct parameters *parameters, size_t micro_batches,
                      const struct mesh *mesh);
void compression_close(struct compression *compression);

/* Where a micro-batch adds the gradients of a group, and that it has done so. */
real *compression_gradient(struct compression *compression, size_t group);
void compression_ready(struct compression *compression, size_t group);

/* Gives the shards, which are those of one rank and one micro-batch, the sums of all replicas and
 * micro-batches. False if some rank's gradients were not finite. Collective over the replicas. */
bool compression_finish(struct compression *compression, struct tutti_shards *shards);

void compression_describe(const struct compression *compression, FILE *file);

#endif
