/* take.h - takes the messages of a step from its links as they come, and those that already lie
 * where they belong. */
#ifndef TUTTI_ENGINE_TAKE_H
#define TUTTI_ENGINE_TAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/piece.h"

/* For a step that expects its message, before its first piece: whether all of it lies where it was
 * expected; then it is consumed, and the step is over. */
bool take_placed(struct operation *operation, const struct program_step *step);
/* Lets the part of the step's message that has not come yet come where it belongs, if that is in
 * one piece. Once for each step. */
void take_directly(struct operation *operation, struct run_lane *lane,
                   const struct program_step *step);
/* Records how a piece came that lies where it belongs: by PATH_DIRECT if the step has told its link
 * in take_directly, else by PATH_WRITE. */
void take_notice(struct operation *operation, const struct run_lane *lane,
                 const struct program_step *step);
/* For a plain receive whose message lies elsewhere: copies it to where it belongs, or only the
 * first run of it, and cuts *bytes to that run. False: not now. */
bool take_copy(struct operation *operation, const struct run_lane *lane,
               const struct program_step *step, size_t *bytes);

/* Whether the bytes that come are stored as they are and go nowhere else. */
static inline bool take_is_plain(const struct program_step *step)
{
    return step->source_count == 1 && step->tx_count == 0 && !step_scales(step);
}

/* Whether a message can be a part of the missing rest of a chunk: whole elements, and none if none
 * are missing. */
static inline bool take_makes_sense(const struct program *program, const struct link_view *view,
                                    size_t left)
{
    return view->bytes <= left && view->bytes % program->element_bytes == 0 &&
           (view->bytes == 0) == (left == 0);
}

/* The same for a message of link rx that may be encoded, in whole units; view->bytes becomes bytes
 * of memory. */
static inline bool take_decodes(const struct program *program, int rx, struct link_view *view,
                                size_t left)
{
    const struct kernel_encoding *const encoding = program->rx_links[rx].encoding;
    if (encoding == NULL) return take_makes_sense(program, view, left);
    size_t bytes;
    if (view->data == NULL) return false; /* no rank sends a reference to what is not encoded */
    if (!wire_to_memory(encoding, program->element_bytes, view->bytes, left, &bytes)) return false;
    view->bytes = bytes;
    return (bytes == 0) == (left == 0);
}

/* The bytes of a piece of a step that encodes: as many whole units as are there, or the rest of the
 * chunk. There is always one, because all pieces of a program with units of several elements are
 * whole units (bind_piece), no message is cut by a segment (operation_prepare), and links bring
 * multiples of KiB near (fetch in transport.h). */
static inline size_t take_whole_units(const struct program *program, size_t bytes, size_t left)
{
    const size_t unit_bytes = program->encoding->unit_elements * program->element_bytes;
    return bytes == left ? bytes : bytes / unit_bytes * unit_bytes;
}

/* Collects the next piece of every source; piece->bytes is cut to the bytes that all of them have.
 * MOVED, or BLOCKED or FAULT. special: as in run_step. */
static inline enum run_result take_look(struct operation *operation, const struct run_lane *lane,
                                        const struct program_step *step, struct piece *piece,
                                        bool special)
{
    const struct program *program = operation->program;
    const size_t left = step->bytes - lane->done;
    size_t bytes = piece->bytes;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct program_source *source = &program->sources[step->first_source + i];
        operation->views[i] = NULL;
        if (source->rx == PROGRAM_NONE) continue;
        struct link_rx *link = operation->rx[source->rx];
        struct link_view view;
        const enum link_state state = link->ops->peek(link, &view);
        if (state == LINK_EMPTY) return RUN_BLOCKED;
        /* Lengths are checked before anything is written. */
        if (state == LINK_FAULT || !(special ? take_decodes(program, source->rx, &view, left)
                                             : take_makes_sense(program, &view, left))) {
            operation->fault_peer = link->peer;
            operation->is_special = true;
            return RUN_FAULT;
        }
        if (view.data == NULL && (!take_is_plain(step) || step_has(step, STEP_FETCHES))) {
            if (!link->ops->fetch(link)) return RUN_BLOCKED;
            link->ops->peek(link, &view);
        }
        operation->views[i] = view.data;
        if (view.place != NULL && piece->traveller_place == NULL) {
            piece->traveller = i;
            piece->traveller_place = view.place;
            piece->traveller_bytes = view.bytes;
        }
        if (view.data == NULL) bytes = program->paths->sizes.copied_pieces * program->piece_bytes;
        if (view.bytes < bytes) bytes = view.bytes;
    }
    if (special && step_has(step, STEP_ENCODES)) bytes = take_whole_units(program, bytes, left);
    piece->bytes = bytes;
    return RUN_MOVED;
}

#endif
