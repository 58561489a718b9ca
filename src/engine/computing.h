/* computing.h - programs in which only kernels move the bytes that are sent: either their kernels
 * finish later than they are started (kernel/executor.h), or elements lie in memory or in an
 * encoding that no other code knows (kernel/format.h).
 *
 *     taken in, has its path ──start──► computing ──finished──► delivered: sent on, and given back
 *                                        └── the lane stays where it is; other lanes and posted messages go on
 *
 * A lane has at most one piece in flight, and so has a message that is posted and copied to places
 * of its link. The reason: a link shows the rest of its next message until that is consumed, and
 * gives the same place until it is sent. More pieces in flight would need links that can advance
 * before they give back. A piece in flight keeps
 *   - its views: nothing of them is consumed
 *   - its places, also the one shared slot that a slot of operations has at a time: nothing of them
 *     is sent, and no other lane takes them
 *   - its step: what depends on it waits
 *
 * Without an executor, kernels have finished when they are started, and nothing is in flight.
 */
#ifndef TUTTI_ENGINE_COMPUTING_H
#define TUTTI_ENGINE_COMPUTING_H

#include <stdbool.h>

#include "engine/piece.h"

/* The piece that a lane has in flight. */
struct flight {
    struct piece piece;
    uint64_t group; /* of kernels; 0: it is not computing */
};

static inline struct flight *computing_flight(const struct operation *operation,
                                              const struct run_lane *lane)
{
    return &operation->flights[lane - operation->lanes];
}

static inline bool computing_has_begun(const struct operation *operation,
                                       const struct run_lane *lane)
{
    return operation->program->moves_by_kernels && computing_flight(operation, lane)->group != 0;
}

/* The memory that an operation needs for a program that moves by kernels, besides that for all
 * programs. has: whether it is there. make: makes it; false when out of memory. */
bool computing_has_room(const struct operation *operation, const struct program *program);
bool computing_make_room(struct operation *operation, const struct program *program);
/* For an operation that is being prepared: nothing is in flight from now on. */
void computing_prepare(struct operation *operation);

/* Starts the kernels of a piece that was taken in and has its path. stores: the result goes to the
 * step's destination as well. The lane is computing then, unless there is nothing to compute, or
 * all kernels have finished: then the piece can be delivered. */
void computing_start(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step, bool stores, const struct piece *piece);
/* For a lane that is computing: whether its kernels have finished; then it is no longer
 * computing. */
bool computing_poll(struct operation *operation, struct run_lane *lane);
/* Delivers the lane's piece, whose kernels have finished. Returns its bytes. */
size_t computing_deliver(struct operation *operation, struct run_lane *lane,
                         const struct program_step *step);

/* Whether anything of an operation is in flight; its program has an executor. */
bool computing_any(struct operation *operation);

#endif
