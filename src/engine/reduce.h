/* reduce.h - computes a piece of a step: the sources that were taken in, by a kernel, to memory and
 * to a place in the links. */
#ifndef TUTTI_ENGINE_REDUCE_H
#define TUTTI_ENGINE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/buffer.h"
#include "engine/piece.h"
#include "kernel/kernel.h"

/* Finds where the receivers expect the result in their memory, `done` bytes into the step: in
 * operation->places. */
void reduce_find_expected(const struct operation *operation, const struct program_step *step,
                          size_t done);
/* Computes a run of the result, `done` bytes into the step, for this rank and all receivers, which
 * expect it in their memory (LANE_PLACES). destination: NULL where this rank has none. */
void reduce_for_all(const struct operation *operation, const struct program_step *step,
                    char *destination, size_t done, size_t bytes);

/* The kernel of a step, and its call, except where the result goes. */
static inline kernel_reduce *reduce_fill_call(const struct operation *operation,
                                              const struct program_step *step,
                                              struct kernel_call *call, size_t bytes, bool streams)
{
    const struct program *program = operation->program;
    call->sources = operation->sources;
    call->source_count = step->source_count;
    call->divisor = step->divisor;
    call->factor = step->factor;
    call->count =
        bytes >> __builtin_ctzll(program->element_bytes); /* a power of two: nothing is divided */
    call->operation = program->op;
    call->dtype = program->dtype;
    return streams ? program->kernels.reduce_stream : program->kernels.reduce;
}

/* A run of the result. Stores go past the caches only if neither this rank nor one at the other end
 * of a link reads them soon. small: whether the step has STEP_IS_SMALL; a constant wherever
 * this is called. */
static inline void reduce_run(const struct operation *operation, const struct run_lane *lane,
                              const struct program_step *step, char *destination, char *place,
                              size_t bytes, bool small)
{
    const bool streams = !small && step_has(step, STEP_STREAMS) && !lane_is_staged(lane),
               reads_far = !small && step_has(step, STEP_READS_FAR);
    if (step->source_count == 1 && !step_scales(step)) {
        const void *source = operation->sources[0];
        if (place != NULL && place != source)
            (reads_far ? kernel_copy_far : kernel_copy)(place, source, bytes);
        if (destination == NULL || destination == source) return; /* in place */
        if (place != NULL) source = place;
        if (streams)
            kernel_copy_stream(destination, source, bytes);
        else
            kernel_copy(destination, source, bytes);
        return;
    }
    struct kernel_call call = {.destination = destination != NULL ? destination : place,
                               .also = destination != NULL ? place : NULL};
    reduce_fill_call(operation, step, &call, bytes, streams && destination != NULL)(&call);
}

/* Finds the sources of a run of a piece (operation->sources), `done` bytes into the piece. Returns
 * the destination, or NULL; *bytes is cut to the part that is contiguous in all buffers of the
 * step. */
static inline char *reduce_find_run(const struct operation *operation, const struct run_lane *lane,
                                    const struct program_step *step, bool stores, size_t done,
                                    size_t *bytes)
{
    const struct program_source *sources = &operation->program->sources[step->first_source];
    char *destination = NULL;
    if (stores)
        destination = buffer_at(&operation->buffers[step->destination_buffer],
                                step->destination_offset + lane->done + done, bytes);
    for (uint32_t i = 0; i < step->source_count; i++)
        operation->sources[i] = sources[i].rx != PROGRAM_NONE
                                    ? (const char *)operation->views[i] + done
                                    : buffer_at(&operation->buffers[sources[i].buffer],
                                                sources[i].offset + lane->done + done, bytes);
    return destination;
}

/* Computes a piece, run by run if a buffer of the step lies in several segments. stores: to the
 * step's destination; place: in the links, or NULL. */
static inline void reduce_piece(struct operation *operation, const struct run_lane *lane,
                                const struct program_step *step, bool stores, char *place,
                                size_t bytes)
{
    size_t done = 0;
    do {
        size_t run = bytes - done;
        char *const destination = reduce_find_run(operation, lane, step, stores, done, &run);
        if (lane->state == LANE_PLACES)
            reduce_for_all(operation, step, destination, lane->done + done, run);
        else
            reduce_run(operation, lane, step, destination, place != NULL ? place + done : NULL, run,
                       false);
        done += run;
    } while (done < bytes);
}

#endif
