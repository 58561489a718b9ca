/* deliver.h - sends a piece on after it was computed, and gives its sources back to the links that
 * they came from. */
#ifndef TUTTI_ENGINE_DELIVER_H
#define TUTTI_ENGINE_DELIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/piece.h"

/* Sends a piece on, by the path that was found for it. */
void deliver_to_links(struct operation *operation, struct run_lane *lane,
                      const struct program_step *step, const struct piece *piece);
/* Tells all receivers that all of the result lies where they expected it. */
void deliver_placed(struct operation *operation, const struct program_step *step);

/* Like deliver_piece, for a piece whose kernels are finished (computing.h): they stored it in all
 * its places. */
void deliver_computed(struct operation *operation, struct run_lane *lane,
                      const struct program_step *step, const struct piece *piece);

/* Gives back the sources of a piece, except a forwarded one: so many bytes of each link. */
static inline void deliver_back(struct operation *operation, const struct program_step *step,
                                const struct piece *piece, bool forwarded, size_t bytes)
{
    const struct program_source *sources = &operation->program->sources[step->first_source];
    for (uint32_t i = 0; i < step->source_count; i++) {
        if (sources[i].rx == PROGRAM_NONE || (forwarded && i == piece->traveller)) continue;
        struct link_rx *link = operation->rx[sources[i].rx];
        link->ops->consume(link, bytes);
    }
}

/* Whether the pieces of a step are sent on one by one. */
static inline bool deliver_sends(const struct run_lane *lane, const struct program_step *step)
{
    return step->tx_count > 0 && lane->state != LANE_PLACES && lane->state != LANE_SENT;
}

static inline void deliver_piece(struct operation *operation, struct run_lane *lane,
                                 const struct program_step *step, const struct piece *piece)
{
    const bool sends = deliver_sends(lane, step);
    if (lane->state == LANE_PLACES && lane->done + piece->bytes == step->bytes)
        deliver_placed(operation, step);
    if (sends) deliver_to_links(operation, lane, step, piece);
    deliver_back(operation, step, piece, sends && piece->path == PATH_FORWARD, piece->bytes);
}

#endif
