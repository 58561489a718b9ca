/* piece.h - the next piece of a step: what its parts hand to each other, private to running (run.h).
 *
 *     take.h       looks at what came on the step's links ──┐
 *     way.h        finds how the result gets to its links   │
 *     reduce.h     computes it                              │ struct piece
 *     deliver.h    sends it on, gives back what was read  ──┘
 *     send.h       messages that are posted and not handed over in full: they outlive their step
 *
 * What every piece passes through is inline, so that a small message costs no call more than its links and its kernel.
 */
#ifndef TUTTI_ENGINE_PIECE_H
#define TUTTI_ENGINE_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/bind.h"
#include "engine/run.h"
#include "transport/transport.h"

/* How a piece of a step's result gets to its links. */
enum piece_way {
    WAY_RESERVED, /* through a place of each link */
    WAY_SHARED,   /* through one shared slot */
    WAY_IN_PLACE, /* forwarded where it came */
    WAY_MEMORY    /* staged: from the step's destination */
};

struct piece {
    size_t bytes, whole; /* of what is there, and of what is sent */
    void *place;         /* in which the result goes to the links, or NULL */
    enum piece_way way;
    uint32_t traveller; /* WAY_IN_PLACE: the source whose message is forwarded */
    /* of the source that could be */
    void *traveller_place; /* or NULL: none */
    size_t traveller_bytes;
};

/* Index of a link that a step sends on. */
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

/* The link of a step's only source, which is one. */
static inline struct link_rx *step_only_source(const struct operation *operation,
                                               const struct program_step *step)
{
    return operation->rx[operation->program->sources[step->first_source].rx];
}

static inline bool step_scales(const struct program_step *step)
{
    return step->divisor != 0 || step->factor != 0;
}

#endif
