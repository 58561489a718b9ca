/* reduce.h - computes a piece of a step: the sources that were taken in, by a kernel, to memory and to a place in the links. */
#ifndef TUTTI_ENGINE_REDUCE_H
#define TUTTI_ENGINE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/buffer.h"
#include "engine/piece.h"
#include "kernel/kernel.h"

/* Computes a run of the result, `done` bytes into the step, for this rank and all receivers, who expect it in their memory (lane.placing).
 * destination: NULL where this rank has none. */
void reduce_for_all(const struct operation *operation, const struct program_step *step,
                    char *destination, size_t done, size_t bytes);

/* The kernel of a reducing step; *call says where the result goes. */
static inline void reduce_call(const struct operation *operation, const struct program_step *step,
                               struct kernel_call *call, size_t bytes, bool streams)
{
    const struct program *program = operation->program;
    call->sources = operation->sources;
    call->source_count = step->source_count;
    call->divisor = step->divisor;
    call->factor = step->factor;
    call->count = bytes / program->element_bytes;
    call->operation = program->op;
    call->dtype = program->dtype;
    (streams ? program->kernels.reduce_stream : program->kernels.reduce)(call);
}

/* A run of the result. Past the caches only what nobody here or at the other end of a link reads soon. */
static inline void reduce_run(const struct operation *operation, const struct run_lane *lane,
                              const struct program_step *step, char *destination, char *place,
                              size_t bytes)
{
    const bool streams = step->streams && !lane->is_staged;
    if (step->source_count == 1 && !step_scales(step)) {
        const void *source = operation->sources[0];
        if (place != NULL && place != source)
            (step->reads_far ? kernel_copy_far : kernel_copy)(place, source, bytes);
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
    reduce_call(operation, step, &call, bytes, streams && destination != NULL);
}

/* Computes a piece, run by run where a buffer of the step lies in several. stores: to the step's destination; place: in the links, or
 * NULL. */
static inline void reduce_piece(struct operation *operation, const struct run_lane *lane,
                                const struct program_step *step, bool stores, char *place,
                                size_t bytes)
{
    const struct program_source *sources = &operation->program->sources[step->first_source];
    size_t done = 0;
    do {
        size_t run = bytes - done;
        char *destination = NULL;
        if (stores)
            destination = buffer_at(&operation->buffers[step->destination_buffer],
                                    step->destination_offset + lane->done + done, &run);
        for (uint32_t i = 0; i < step->source_count; i++)
            operation->sources[i] = sources[i].rx != PROGRAM_NONE
                                        ? (const char *)operation->views[i] + done
                                        : buffer_at(&operation->buffers[sources[i].buffer],
                                                    sources[i].offset + lane->done + done, &run);
        if (lane->placing)
            reduce_for_all(operation, step, destination, lane->done + done, run);
        else
            reduce_run(operation, lane, step, destination, place != NULL ? place + done : NULL, run);
        done += run;
    } while (done < bytes);
}

#endif
