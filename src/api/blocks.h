/* blocks.h - what a call has beside two buffers in one piece: counts of its own a block, and segments. */
#ifndef TUTTI_API_BLOCKS_H
#define TUTTI_API_BLOCKS_H

#include "api/check.h"
#include "call/communicator.h"

/* Blocks of a buffer on this rank; 0 where it is not looked at. */
static inline size_t blocks_sent(const struct arguments *a, const struct tutti_comm *comm)
{
    switch (a->collective) {
    case COLLECTIVE_BROADCAST: return comm->team.rank == a->root;
    case COLLECTIVE_SCATTER: return comm->team.rank == a->root ? (size_t)comm->team.size : 0;
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL: return (size_t)comm->team.size;
    default: return 1;
    }
}

static inline size_t blocks_received(const struct arguments *a, const struct tutti_comm *comm)
{
    switch (a->collective) {
    case COLLECTIVE_REDUCE: return comm->team.rank == a->root;
    case COLLECTIVE_GATHER: return comm->team.rank == a->root ? (size_t)comm->team.size : 0;
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLTOALL: return (size_t)comm->team.size;
    default: return 1;
    }
}

/* Fill in send, recv, what.count, what.varies, in_place and extra of a call whose other arguments are good. On
 * failure there is no extra. */
enum tutti_status blocks_check_varying(const struct arguments *arguments,
                                       const struct tutti_comm *comm, struct call *call);
enum tutti_status blocks_check_lists(const struct arguments *arguments,
                                     const struct tutti_comm *comm, struct call *call);

#endif
