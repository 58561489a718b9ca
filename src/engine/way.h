/* way.h - how the result of a step gets to its links: placed, forwarded, in shared slots, through places, from memory.
 *
 *     send_only          in shared slots │ each link by itself: by reference, or through its places
 *     all other steps    placed │ from where its input lies │ forwarded │ from memory it is stored to anyway, by reference │
 *                        in a shared slot │ through places │ staged: from memory, because the links do not keep up
 *
 * Everything that is chosen while running is chosen here.
 */
#ifndef TUTTI_ENGINE_WAY_H
#define TUTTI_ENGINE_WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/piece.h"

/* Of send_only steps, for all links at once: announces the message in shared slots; false if each link has to be sent to by itself. */
bool way_share(struct operation *operation, const struct program_step *step);
/* Of send_only steps, for their link i: announces the message and hands over what the link has room for. */
void way_send(struct operation *operation, const struct program_step *step, uint32_t i);

/* Whether the result goes to the memory of all receivers: asked once, when all sources are there. */
bool way_is_expected(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step);
/* Announces input that is copied here as well, as a whole and before it is copied, where the receivers can get at it. */
void way_send_input(struct operation *operation, struct run_lane *lane,
                    const struct program_step *step);
/* A way for a piece to the step's links; false when there is none. */
bool way_find(struct operation *operation, struct run_lane *lane, const struct program_step *step,
              struct piece *piece);
/* A staged step's messages: announced as soon as the earlier ones are out of the way. Whether they are. */
bool way_open_staged(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step);

#endif
