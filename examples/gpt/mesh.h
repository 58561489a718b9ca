/* mesh.h - the ranks as a mesh: which part of the model and of the batch is this rank's, and whom
 * it talks to about it.
 *
 *     --mesh pp=2,dp=2,tp=2        rank 0 1   layers of stage 0, samples of replica 0, slices 0 and 1
 *                                       2 3                                  replica 1
 *                                       4 5   layers of stage 1, samples of replica 0
 *                                       6 7                                  replica 1
 *
 * Slices exchange most, so they have neighbouring numbers: with several hosts, they are on one.
 */
#ifndef GPT_MESH_H
#define GPT_MESH_H

#include "give_up.h"
#include "parameters.h"
#include "tutti/tutti.h"

#ifdef REAL_DOUBLE
#define REAL_DTYPE TUTTI_FLOAT64
#else
#define REAL_DTYPE TUTTI_FLOAT32
#endif

struct mesh_sizes {
    size_t stages, replicas, slices; /* pp, dp, tp */
};

struct axis {
    struct tutti_comm *comm; /* of the ranks that differ from this one along the axis alone */
    size_t index, size;
};

struct mesh {
    struct tutti_comm *world; /* borrowed */
    struct tutti_mesh *axes;
    struct axis stage, replica, slice;
    struct tutti_comm *
        ends; /* of the first stage and the last one; NULL: this rank is neither, or they are one */
};

/* Which ranks talk to each other: those along one of the axes, both ends of a pipeline, or all. */
enum mesh_axis { AXIS_STAGES, AXIS_REPLICAS, AXIS_SLICES, AXIS_ENDS, AXIS_ALL, AXES };

/* A size of 1: this rank has nobody to talk to there. */
struct axis mesh_axis(const struct mesh *mesh, enum mesh_axis axis);

/* Collective over the world, which has as many ranks as the sizes' product. */
void mesh_open(struct mesh *mesh, const struct mesh_sizes *sizes, struct tutti_comm *world);
void mesh_close(struct mesh *mesh);

/* The part of the model that is a chunk of this rank: chunk c of stage s is part c * stages + s
 * (tutti/train/pipeline.h). */
struct part mesh_part(const struct mesh *mesh, const struct shape *shape, size_t chunk,
                      size_t chunks);

/* This rank's number sum over the axis, and over all ranks. */
double axis_sum(const struct axis *axis, double value);
double mesh_sum(const struct mesh *mesh, double value);
void mesh_sum_all(const struct mesh *mesh, double *values, size_t count);

/* Ends the program on all ranks, of which one tells why. Leaves the world first: a rank that only
 * exits fails others that are still in their last call. */
_Noreturn void end_together(struct tutti_comm *world, int teller, const char *what, const char *why);

/* Gives up, with Tutti's words, if the status is none of success. */
static inline void expect(enum tutti_status status, const char *what)
{
    if (status != TUTTI_OK) give_up(what, tutti_error_message());
}

#endif
