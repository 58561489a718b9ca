/* cut_unit.h - units of an encoding that lie in several segments of a buffer: a list of tensors is
 * encoded as if its tensors lay one after the other, so a unit may end in another tensor than it
 * begins in.
 *
 *     segments   [ ........ uu ][ uuu ][ u ........ ]      a unit u of 6 elements, in three tensors
 *     room                [ uuuuuu ]                       gathered, computed there, and scattered
 *
 * Kernels take whole units alone. So a run of a piece that is cut by a segment ends with its last
 * whole unit, and the unit after it goes through room of the operation: at most a copy of one unit
 * for each end of a segment. Whatever lies in one piece is computed where it lies.
 *
 * The other choice would be units that begin anew in each tensor. Their number would depend on the
 * lists, which ranks may cut differently; and 200 tensors of 10 elements would have 200 scales.
 *
 * Only without an executor: its kernels would still read the room when the next unit comes.
 */
#ifndef TUTTI_ENGINE_CUT_UNIT_H
#define TUTTI_ENGINE_CUT_UNIT_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/buffer.h"
#include "engine/run.h"
#include "kernel/format.h"

/* Whether buffers in segments may cut units of a program. */
static inline bool cut_unit_may_be(const struct program *program)
{
    return program->encoding != NULL && program->encoding->unit_elements > 1;
}

/* The room that operations of a program need; 0: none. */
size_t cut_unit_room(const struct program *program);

/* Cuts a run, in bytes of memory, of which `rest` are left until the end of the piece, to whole
 * units. True: there is none, and *run is what the next unit has: it has to be gathered. */
bool cut_unit_is_next(const struct program *program, size_t rest, size_t *run);

/* The bytes at an offset of a buffer, which lie there in one piece, or are copied to `room`. */
const void *cut_unit_gather(const struct buffer *buffer, size_t offset, size_t bytes, char *room);
/* Copies bytes to where they lie in a buffer. */
void cut_unit_scatter(const struct buffer *buffer, size_t offset, size_t bytes, const char *from);

#endif
