/* operation.h - the operations as tutti-perf knows them: one table, one line each.
 *
 * A buffer consists of blocks. Everything else about an operation (sizes, where the buffers lie in
 * place, what a right result is) follows from the number of blocks that a rank sends and receives,
 * their lengths, and the origin of each received block.
 */
#ifndef TUTTI_TOOLS_PERF_OPERATION_H
#define TUTTI_TOOLS_PERF_OPERATION_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

enum side { SEND, RECV, SIDE_COUNT };

/* The way in which the counts of a v form's blocks differ. Their mean is about the count of equal
 * blocks. */
enum skew {
    SKEW_NONE,
    SKEW_LINEAR,    /* the next block is always longer */
    SKEW_RANDOM,    /* from 0 to twice the mean */
    SKEW_ZERO_SOME, /* every third block is empty */
    SKEW_ONE        /* all but one are empty */
};

/* The places of a v form's blocks. */
enum displs {
    DISPLS_NULL,    /* one after the other, without being told where */
    DISPLS_PACKED,  /* the same, told */
    DISPLS_GAPS,    /* in order, with gaps */
    DISPLS_REVERSED /* the last one first, with gaps */
};

/* A call as one rank sees it, and the layout of its buffers. */
struct perf_shape {
    int rank_count;
    int rank;
    int root;
    size_t count; /* elements of a block, the mean in a v form */
    enum skew skew;
    enum displs displs;
    int tensors; /* of a list; TENSORS_NONE: contiguous, TENSORS_MIXED: a number of each rank's own */
    bool in_place; /* if this rank has both buffers */
};
enum { TENSORS_NONE = 0, TENSORS_MIXED = -1 };

/* The origin of the elements of a received block: a block of one rank's send buffer, or the
 * reduction of that block over all ranks. */
enum { SOURCE_ALL_RANKS = -1 };
struct source {
    int rank;
    size_t block;
};

/* The arguments that operations take, in one way or another. */
struct perf_call {
    int rank;
    int rank_count;
    const void *send;
    void *recv;
    size_t count;
    const size_t *counts[SIDE_COUNT]; /* one per block */
    const size_t *displs[SIDE_COUNT];
    const struct tutti_list *lists[SIDE_COUNT]; /* NULL where this rank has no such buffer */
    enum tutti_dtype dtype;
    tutti_op op;
    int root;
    const struct tutti_call_options *options;
};

/* The forms of one call. NULL requests and prepared calls: this rank has nothing to do. */
struct perf_calls {
    enum tutti_status (*run)(const struct perf_call *call, struct tutti_comm *comm);
    enum tutti_status (*start)(const struct perf_call *call, struct tutti_comm *comm,
                               struct tutti_request **request);
    enum tutti_status (*prepare)(const struct perf_call *call, struct tutti_comm *comm,
                                 struct tutti_prepared **prepared);
};

enum blocks {
    BLOCKS_EQUAL,
    BLOCKS_OF_RANKS,        /* a count for every rank */
    BLOCKS_OF_RANKS_PACKED, /* the same, and the blocks of a send buffer lie one after the other */
    BLOCKS_OF_PAIRS         /* a count for every pair of ranks */
};

/* An operation is one call, or two: both at once, or one after the other. */
enum parts { PARTS_ONE = 1, PARTS_IN_TURN, PARTS_AT_ONCE };
enum { PARTS_MAX = 2 };

typedef size_t blocks_of(const struct perf_shape *shape);

struct perf_operation {
    const char *name;
    bool reduces;
    bool rooted;
    enum blocks blocks;
    blocks_of *block_count[SIDE_COUNT]; /* 0: the rank has no such buffer */
    struct source (*source)(const struct perf_shape *shape, size_t block); /* of a block of recv */
    double (*bus_factor)(int rank_count);                                  /* busbw / algbw */
    enum parts parts;
    struct perf_calls calls[PARTS_MAX];
    struct perf_calls list; /* the form with lists of tensors; NULLs: there is none */
};

extern const struct perf_operation operation_list[];
extern const int operation_count;

/* NULL when there is none of that name. */
const struct perf_operation *operation_find(const char *name);
/* The number of blocks of the larger buffer of any rank, by which the size of a call is defined. 0
 * for barrier. */
size_t operation_blocks(const struct perf_operation *operation, int rank_count);
/* The number of elements of that block of a rank's buffer. */
size_t operation_count_of(const struct perf_operation *operation, const struct perf_shape *shape,
                          enum side side, size_t block);
/* The first of a block's elements in the numbering of a rank's inputs, in which no two blocks
 * overlap. */
size_t operation_first_of(const struct perf_operation *operation, const struct perf_shape *shape,
                          size_t block);
/* Whether it is a collective with buffers, rather than messages or a barrier. */
bool operation_has_place(const struct perf_operation *operation);
bool operation_has_counts(const struct perf_operation *operation);
bool operation_has_list(const struct perf_operation *operation);
/* Whether it consists of messages, which have neither algorithms nor deterministic results. */
bool operation_is_message(const struct perf_operation *operation);
/* The number of calls of an iteration that follow one another: a measured time covers so many. */
int operation_turns(const struct perf_operation *operation);

#endif
