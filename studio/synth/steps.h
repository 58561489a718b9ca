/* steps.h - a schedule in synchronous steps: which chunk goes from which rank to which in each of
 * them.
 *
 *     step 0, 1 round      0 ──a──► 1        what a rank has when a step begins it may send;
 *     step 1, 2 rounds     0 ──b──► 1 ──a──► 2        what it receives it has from the next step on
 *
 * A step of r rounds lasts as long as every edge of capacity w needs for w·r chunks. So a schedule
 * of S steps and R rounds in all, with the blocks cut into C chunks, costs S alpha + (R/C) n beta
 * (SCCL, Cai et al., PPoPP 2021).
 *
 * Chunks are numbered like the classes of a plan (plan/plan.h). A schedule that reduces sends the
 * sum of what its rank has received until then and of its own, once; from reduce_step_count on it
 * copies what is complete.
 */
#ifndef TUTTI_STUDIO_SYNTH_STEPS_H
#define TUTTI_STUDIO_SYNTH_STEPS_H

#include <stdbool.h>

#include "plan/plan.h"
#include "studio/synth/graph.h"
#include "tutti/tutti.h"

struct synth_transfer {
    int step, chunk, from, to;
};

/* All zero is empty. The arrays are its own. Transfers are in the order of their steps. */
struct synth_steps {
    struct plan_shape shape;
    int step_count, reduce_step_count; /* the first reduce_step_count reduce, the others copy */
    int *rounds;                       /* of each step */
    struct synth_transfer *transfers;
    int transfer_count, transfer_room;
};

/* Chunks in all: classes of the shape. At most SYNTH_CHUNKS_MAX, or INVALID_OPTIONS. */
enum { SYNTH_CHUNKS_MAX = 1 << 20, SYNTH_STEPS_MAX = 1 << 12, SYNTH_ROUNDS_MAX = 1 << 16 };
enum tutti_status synth_shape_check(const struct plan_shape *shape);
int synth_chunk_count(const struct plan_shape *shape);
/* The rank whose input has the chunk; for a collective that reduces all have it, and this is -1. */
int synth_chunk_source(const struct plan_shape *shape, int chunk);
/* Whether that rank's output has the chunk. */
bool synth_chunk_wanted(const struct plan_shape *shape, int chunk, int rank);

enum tutti_status synth_steps_init(struct synth_steps *steps, const struct plan_shape *shape,
                                   int step_count);
enum tutti_status synth_steps_add(struct synth_steps *steps, int step, int chunk, int from, int to);
void synth_steps_release(struct synth_steps *steps);

/* The other way round in time and direction: allgather becomes reduce_scatter, gather scatter,
 * broadcast reduce, and back where nothing reduces. *reversed is overwritten. */
enum tutti_status synth_steps_reverse(const struct synth_steps *steps, struct synth_steps *reversed);
/* A reduce_scatter and then an allgather of as many parts: an allreduce of parts · ranks. */
enum tutti_status synth_steps_join(const struct synth_steps *reduce_scatter,
                                   const struct synth_steps *allgather, struct synth_steps *joined);

/* Runs it: OK where every transfer has an edge with room and a sender who has the chunk, and where
 * every rank has at the end what it should have (reduced: every contribution once). INVALID_OPTIONS
 * otherwise; the message says where. Knows nothing of how it was found. */
enum tutti_status synth_steps_check(const struct synth_steps *steps,
                                    const struct synth_graph *graph);

/* The schedule as a plan, proven by plan_verify with separate buffers and, if `in_place`, with
 * aliased ones. INTERNAL: the verifier refuses it, and the message has its report. TIMEOUT: the
 * time of clock_now_ns() has come, 0 never does, before a proof has begun. */
enum tutti_status synth_steps_plan(const struct synth_steps *steps, bool in_place,
                                   uint64_t deadline_ns, struct plan **plan);

#endif
