/* exchange_ranks.h - the exchange of tensor-parallel ranks, over a communicator.
 *
 *     rows not split    sum_rows is an allreduce          gather_rows is nothing       Megatron-LM's g forward, f backward
 *     rows split        sum_rows is a reduce_scatter      gather_rows an allgather     with sequence parallelism
 *
 * A layer's forward pass adds up twice, and so does its backward pass: 4 allreduces of batch x
 * context x width; with rows split 4 reduce_scatters, and as many allgathers, or 6 where whole
 * inputs are not kept (volumes.h counts).
 */
#ifndef GPT_EXCHANGE_RANKS_H
#define GPT_EXCHANGE_RANKS_H

#include "exchange.h"
#include "mesh.h"
#include "timeline.h"
#include "volumes.h"

struct exchange_ranks {
    struct exchange exchange; /* for the model */
    struct tutti_comm *comm;
    size_t index, size;
    bool rows_split;
    size_t *counts;            /* of each rank's rows */
    struct timeline *timeline; /* these may be set: who watches, and who counts; borrowed */
    struct volumes *volumes;
};

/* Must stay where it is: the exchange has its address. */
void exchange_ranks_init(struct exchange_ranks *ranks, const struct axis *slices, bool rows_split);
void exchange_ranks_release(struct exchange_ranks *ranks);

#endif
