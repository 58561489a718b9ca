/* outgoing.h - chooses how the result of a step gets to its links: placed, forwarded, in shared
 * slots, through places, from memory.
 *
 *     send_only          in shared slots │ each link by itself: by reference, or through its places
 *     all other steps    placed │ from where its input lies │ forwarded │ from memory it is stored to anyway, by reference │
 *                        in a shared slot │ through places │ staged: from memory, because the links do not keep up
 *
 * All choices of paths at run time are made here.
 */
#ifndef TUTTI_ENGINE_OUTGOING_H
#define TUTTI_ENGINE_OUTGOING_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/piece.h"

/* For send_only steps, for all links at once: announces the message in shared slots; false if it
 * has to be sent on each link separately. */
bool outgoing_share(struct operation *operation, const struct program_step *step);
/* For send_only steps, for their link i: announces the message, and hands over as much as the link
 * has room for. */
void outgoing_send(struct operation *operation, const struct program_step *step, uint32_t i);

/* Asks once, when all sources are there, whether the result goes to the memory of all receivers. */
bool outgoing_ask_expected(struct operation *operation, struct run_lane *lane,
                           const struct program_step *step);
/* If the receivers can get at it, announces input that is also copied here, as a whole and before
 * it is copied. */
void outgoing_send_input(struct operation *operation, struct run_lane *lane,
                         const struct program_step *step);
/* Finds a path for a piece to the step's links; false when there is none. */
bool outgoing_find(struct operation *operation, struct run_lane *lane,
                   const struct program_step *step, struct piece *piece);
/* Announces a staged step's messages as soon as earlier ones are out of the way. Whether they are
 * announced. */
bool outgoing_open_staged(struct operation *operation, struct run_lane *lane,
                          const struct program_step *step);

#endif
