/* tutti-perf_operation.h - the collectives as tutti-perf knows them: one table, one line each.
 *
 * A buffer consists of blocks of `count` elements. Everything else about an operation (sizes, where the
 * buffers lie in place, what a right result is) follows from how many blocks a rank sends and receives and
 * from where each received block comes.
 */
#ifndef TUTTI_PERF_OPERATION_H
#define TUTTI_PERF_OPERATION_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

/* A call as one rank sees it. */
struct shape {
    int rank_count;
    int rank;
    int root;
    size_t count; /* elements of a block */
};

/* Where the elements of a received block come from: elements first, first + 1, ... of the send buffer of one
 * rank, or the reduction of these elements over all ranks. */
enum { SOURCE_ALL_RANKS = -1 };
struct source {
    int rank;
    size_t first;
};

struct call {
    const void *send;
    void *recv;
    size_t count;
    enum tutti_dtype dtype;
    tutti_op op;
    int root;
};

typedef size_t blocks_of(const struct shape *shape);

struct operation {
    const char *name;
    bool reduces;
    bool rooted;
    blocks_of *send_blocks; /* 0: the rank has no such buffer */
    blocks_of *recv_blocks;
    struct source (*source)(const struct shape *shape, size_t block); /* of a block of recv */
    double (*bus_factor)(int rank_count);                             /* busbw / algbw */
    enum tutti_status (*run)(const struct call *call, const struct tutti_call_options *options,
                             struct tutti_comm *comm);
    enum tutti_status (*start)(const struct call *call, const struct tutti_call_options *options,
                               struct tutti_comm *comm, struct tutti_request **request);
};

extern const struct operation operation_list[];
extern const int operation_count;

/* NULL when there is none of that name. */
const struct operation *operation_find(const char *name);
/* Blocks of the larger buffer of any rank: what the size of a call means. 0 for barrier. */
size_t operation_blocks(const struct operation *operation, int rank_count);

#endif
