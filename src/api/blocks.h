/* blocks.h - what a call has beside two buffers in one piece: counts for each block, and
 * segments. */
#ifndef TUTTI_API_BLOCKS_H
#define TUTTI_API_BLOCKS_H

#include "api/check.h"
#include "call/communicator.h"

/* Blocks of a buffer on this rank; 0 where it is not looked at. */
static inline size_t blocks_sent(const struct arguments *a, const struct tutti_comm *comm)
{
    return collective_blocks_sent(a->collective, comm->team.rank == a->root, comm->team.size);
}

static inline size_t blocks_received(const struct arguments *a, const struct tutti_comm *comm)
{
    return collective_blocks_received(a->collective, comm->team.rank == a->root, comm->team.size);
}

/* Fill in send, recv, what.count, what.varies, in_place and extra of a call whose other arguments
 * are good. On failure there is no extra. */
enum tutti_status blocks_check_varying(const struct arguments *arguments,
                                       const struct tutti_comm *comm, struct call *call);
enum tutti_status blocks_check_lists(const struct arguments *arguments,
                                     const struct tutti_comm *comm, struct call *call);

#endif
