/* piece.h - the next piece of a step, which the parts of running (run.h) pass to each other;
 * private to them.
 *
 *     take.h       looks at what came on the step's links ──┐
 *     outgoing.h    finds how the result gets to its links   │
 *     reduce.h     computes it                              │ struct piece
 *     deliver.h    sends it on, gives back what was read  ──┘
 *     send.h       messages that are posted and not handed over in full: they outlive their step
 *
 * The code that every piece passes through is inline, so that a small message costs no call more
 * than its links and its kernel.
 */
#ifndef TUTTI_ENGINE_PIECE_H
#define TUTTI_ENGINE_PIECE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/bind.h"
#include "engine/run.h"
#include "engine/wire.h"
#include "transport/transport.h"

struct piece {
    size_t bytes,
        whole; /* of what is there, and of what is sent: of memory, as everywhere but in links (wire.h) */
    void *place;         /* in which the result goes to the links, or NULL */
    enum path_kind path; /* how it gets to the step's links */
    uint32_t traveller;  /* PATH_FORWARD: the source whose message is forwarded */
    /* of the source that could be */
    void *traveller_place; /* or NULL: none */
    size_t traveller_bytes;
};

/* The index of a link on which a step sends. */
static inline uint32_t step_tx(const struct operation *operation, const struct program_step *step,
                               uint32_t i)
{
    return (uint32_t)operation->program->step_tx[step->first_tx + i];
}

static inline struct link_tx *step_link(const struct operation *operation,
                                        const struct program_step *step, uint32_t i)
{
    return operation->tx[step_tx(operation, step, i)];
}

static inline struct run_send *step_send(const struct operation *operation,
                                         const struct program_step *step, uint32_t i)
{
    return &operation->sends[step_tx(operation, step, i)];
}

/* The link of a step whose only source is a link. */
static inline struct link_rx *step_only_source(const struct operation *operation,
                                               const struct program_step *step)
{
    return operation->rx[operation->program->sources[step->first_source].rx];
}

/* Whether its pieces go to memory, from where messages follow. */
static inline bool lane_is_staged(const struct run_lane *lane)
{
    return lane->state == LANE_STAGED || lane->state == LANE_OPENED;
}

/* One of the transitions that run.h draws. */
static inline void lane_go(struct run_lane *lane, enum lane_state to)
{
    assert(lane->state == LANE_FEEDS    ? to == LANE_STAGED || to == LANE_SENT || to == LANE_PLACES
           : lane->state == LANE_STAGED ? to == LANE_OPENED
                                        : lane->state == LANE_OPENED && to == LANE_FEEDS);
    lane->state = (uint8_t)to;
}

/* Record a path that a message of a step took, and a better path that it did not take. */
static inline void taken(struct operation *operation, const struct program_step *step,
                         enum path_kind path)
{
    operation->taken[step - operation->program->steps] |= (uint16_t)path_bit(path);
    operation->paths |= path_bit(path);
}
static inline void passed_over(struct operation *operation, enum path_kind path,
                               enum passed_reason reason)
{
    operation->passed_over[path][reason]++;
}

static inline bool step_scales(const struct program_step *step)
{
    return step->divisor != 0 || step->factor != 0;
}

#endif
