/* small.h - steps whose messages come and go in one piece each, so that the decisions that run.c
 * makes for each piece are known beforehand.
 *
 *     sources ready ──► places in all links ──► computed ──► sent, given back ──► done
 *         └─ no: blocked      └─ no: the long way, by piece.h and its parts
 *
 * Small calls are made of such steps, and they take as long as their instructions. If anything is
 * out of the ordinary (a message in parts or by reference, no room, a buffer in segments), nothing
 * of the step has happened yet, and the long way has the same result.
 */
#ifndef TUTTI_ENGINE_SMALL_H
#define TUTTI_ENGINE_SMALL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/piece.h"
#include "engine/reduce.h"
#include "engine/send.h"

/* Finds where all sources of a step lie: MOVED; BLOCKED: a message is missing; FAULT: one is not in
 * one piece, or makes no sense. */
static inline enum run_result small_look(struct operation *operation,
                                         const struct program_step *step)
{
    const struct program_source *sources = &operation->program->sources[step->first_source];
    for (uint32_t i = 0; i < step->source_count; i++) {
        if (sources[i].rx == PROGRAM_NONE) {
            operation->sources[i] = operation->buffers[sources[i].buffer].base + sources[i].offset;
            continue;
        }
        struct link_rx *link = operation->rx[sources[i].rx];
        struct link_view view;
        const enum link_state state = link->ops->peek(link, &view);
        if (state == LINK_EMPTY) return RUN_BLOCKED;
        if (state != LINK_READY || view.bytes != step->bytes || view.data == NULL ||
            view.place != NULL)
            return RUN_FAULT;
        operation->sources[i] = view.data;
    }
    return RUN_MOVED;
}

/* Reserves places in all links of a step, behind all messages sent before. */
static inline bool small_reserve(struct operation *operation, const struct program_step *step)
{
    if (operation->sends_active > 0 && send_is_under_way(operation, step)) return false;
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = step_link(operation, step, i);
        operation->places[i] = link->ops->reserve(link, step->bytes);
        if (operation->places[i] == NULL) return false;
    }
    return true;
}

/* Runs a small step in an operation that takes the short path, before anything of the step has
 * happened. False: it goes the long way. Otherwise *result is DONE or BLOCKED. */
static inline bool small_run(struct operation *operation, const struct run_lane *lane,
                             const struct program_step *step, enum run_result *result)
{
    const struct program_source *sources = &operation->program->sources[step->first_source];
    const enum run_result look = small_look(operation, step);
    *result = look == RUN_MOVED ? RUN_DONE : RUN_BLOCKED;
    if (look != RUN_MOVED) return look == RUN_BLOCKED;
    if (step->tx_count > 0 && !small_reserve(operation, step)) return false;
    char *const place = step->tx_count > 0 ? operation->places[0] : NULL;
    char *const destination =
        step->destination_buffer != PROGRAM_NONE && !step_has(step, STEP_STAGES)
            ? operation->buffers[step->destination_buffer].base + step->destination_offset
            : NULL;
    reduce_run(operation, lane, step, destination, place, step->bytes, true);
    for (uint32_t i = 1; i < step->tx_count; i++) memcpy(operation->places[i], place, step->bytes);
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = step_link(operation, step, i);
        link->ops->commit(link, step->bytes);
        taken(operation, step, (enum path_kind)step->place);
    }
    for (uint32_t i = 0; i < step->source_count; i++) {
        if (sources[i].rx == PROGRAM_NONE) continue;
        struct link_rx *link = operation->rx[sources[i].rx];
        link->ops->consume(link, step->bytes);
    }
    return true;
}

#endif
