/* call.h - any collective in any of its forms through one function, for tests that go through all
 * of them. */
#ifndef TUTTI_TESTS_KIT_CALL_H
#define TUTTI_TESTS_KIT_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/collective.h"
#include "tutti/tutti.h"

struct test_call {
    enum collective collective;
    const void *send;
    void *recv;
    size_t count;
    enum tutti_dtype dtype;
    tutti_op op;
    int root;
    const struct tutti_call_options *options;
};

/* The _with form. */
static inline enum tutti_status test_call(const struct test_call *c, struct tutti_comm *comm)
{
    switch (c->collective) {
    case COLLECTIVE_ALLREDUCE:
        return tutti_allreduce_with(c->send, c->recv, c->count, c->dtype, c->op, c->options, comm);
    case COLLECTIVE_REDUCE:
        return tutti_reduce_with(c->send, c->recv, c->count, c->dtype, c->op, c->root, c->options,
                                 comm);
    case COLLECTIVE_BROADCAST:
        return tutti_broadcast_with(c->send, c->recv, c->count, c->dtype, c->root, c->options, comm);
    case COLLECTIVE_GATHER:
        return tutti_gather_with(c->send, c->recv, c->count, c->dtype, c->root, c->options, comm);
    case COLLECTIVE_SCATTER:
        return tutti_scatter_with(c->send, c->recv, c->count, c->dtype, c->root, c->options, comm);
    case COLLECTIVE_ALLGATHER:
        return tutti_allgather_with(c->send, c->recv, c->count, c->dtype, c->options, comm);
    case COLLECTIVE_REDUCE_SCATTER:
        return tutti_reduce_scatter_with(c->send, c->recv, c->count, c->dtype, c->op, c->options,
                                         comm);
    case COLLECTIVE_ALLTOALL:
        return tutti_alltoall_with(c->send, c->recv, c->count, c->dtype, c->options, comm);
    case COLLECTIVE_BARRIER: return tutti_barrier_with(c->options, comm);
    default: return TUTTI_INTERNAL;
    }
}

/* The blocking form without options. */
static inline enum tutti_status test_call_plain(const struct test_call *c, struct tutti_comm *comm)
{
    switch (c->collective) {
    case COLLECTIVE_ALLREDUCE:
        return tutti_allreduce(c->send, c->recv, c->count, c->dtype, c->op, comm);
    case COLLECTIVE_REDUCE:
        return tutti_reduce(c->send, c->recv, c->count, c->dtype, c->op, c->root, comm);
    case COLLECTIVE_BROADCAST:
        return tutti_broadcast(c->send, c->recv, c->count, c->dtype, c->root, comm);
    case COLLECTIVE_GATHER:
        return tutti_gather(c->send, c->recv, c->count, c->dtype, c->root, comm);
    case COLLECTIVE_SCATTER:
        return tutti_scatter(c->send, c->recv, c->count, c->dtype, c->root, comm);
    case COLLECTIVE_ALLGATHER: return tutti_allgather(c->send, c->recv, c->count, c->dtype, comm);
    case COLLECTIVE_REDUCE_SCATTER:
        return tutti_reduce_scatter(c->send, c->recv, c->count, c->dtype, c->op, comm);
    case COLLECTIVE_ALLTOALL: return tutti_alltoall(c->send, c->recv, c->count, c->dtype, comm);
    case COLLECTIVE_BARRIER: return tutti_barrier(comm);
    default: return TUTTI_INTERNAL;
    }
}

static inline enum tutti_status test_call_start(const struct test_call *c, struct tutti_comm *comm,
                                                struct tutti_request **request)
{
    const struct tutti_call_options *o = c->options;
    switch (c->collective) {
    case COLLECTIVE_ALLREDUCE:
        return tutti_allreduce_start(c->send, c->recv, c->count, c->dtype, c->op, o, comm, request);
    case COLLECTIVE_REDUCE:
        return tutti_reduce_start(c->send, c->recv, c->count, c->dtype, c->op, c->root, o, comm,
                                  request);
    case COLLECTIVE_BROADCAST:
        return tutti_broadcast_start(c->send, c->recv, c->count, c->dtype, c->root, o, comm,
                                     request);
    case COLLECTIVE_GATHER:
        return tutti_gather_start(c->send, c->recv, c->count, c->dtype, c->root, o, comm, request);
    case COLLECTIVE_SCATTER:
        return tutti_scatter_start(c->send, c->recv, c->count, c->dtype, c->root, o, comm, request);
    case COLLECTIVE_ALLGATHER:
        return tutti_allgather_start(c->send, c->recv, c->count, c->dtype, o, comm, request);
    case COLLECTIVE_REDUCE_SCATTER:
        return tutti_reduce_scatter_start(c->send, c->recv, c->count, c->dtype, c->op, o, comm,
                                          request);
    case COLLECTIVE_ALLTOALL:
        return tutti_alltoall_start(c->send, c->recv, c->count, c->dtype, o, comm, request);
    case COLLECTIVE_BARRIER: return tutti_barrier_start(o, comm, request);
    default: return TUTTI_INTERNAL;
    }
}

static inline enum tutti_status test_call_prepare(const struct test_call *c, struct tutti_comm *comm,
                                                  struct tutti_prepared **prepared)
{
    const struct tutti_call_options *o = c->options;
    switch (c->collective) {
    case COLLECTIVE_ALLREDUCE:
        return tutti_allreduce_prepare(c->send, c->recv, c->count, c->dtype, c->op, o, comm,
                                       prepared);
    case COLLECTIVE_REDUCE:
        return tutti_reduce_prepare(c->send, c->recv, c->count, c->dtype, c->op, c->root, o, comm,
                                    prepared);
    case COLLECTIVE_BROADCAST:
        return tutti_broadcast_prepare(c->send, c->recv, c->count, c->dtype, c->root, o, comm,
                                       prepared);
    case COLLECTIVE_GATHER:
        return tutti_gather_prepare(c->send, c->recv, c->count, c->dtype, c->root, o, comm,
                                    prepared);
    case COLLECTIVE_SCATTER:
        return tutti_scatter_prepare(c->send, c->recv, c->count, c->dtype, c->root, o, comm,
                                     prepared);
    case COLLECTIVE_ALLGATHER:
        return tutti_allgather_prepare(c->send, c->recv, c->count, c->dtype, o, comm, prepared);
    case COLLECTIVE_REDUCE_SCATTER:
        return tutti_reduce_scatter_prepare(c->send, c->recv, c->count, c->dtype, c->op, o, comm,
                                            prepared);
    case COLLECTIVE_ALLTOALL:
        return tutti_alltoall_prepare(c->send, c->recv, c->count, c->dtype, o, comm, prepared);
    case COLLECTIVE_BARRIER: return tutti_barrier_prepare(o, comm, prepared);
    default: return TUTTI_INTERNAL;
    }
}

/* Blocks in the buffers of a rank; 0: not looked at. */
static inline size_t test_send_blocks(enum collective collective, int rank, int size, int root)
{
    switch (collective) {
    case COLLECTIVE_BROADCAST: return rank == root;
    case COLLECTIVE_SCATTER: return rank == root ? (size_t)size : 0;
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL: return (size_t)size;
    case COLLECTIVE_BARRIER: return 0;
    default: return 1;
    }
}

static inline size_t test_recv_blocks(enum collective collective, int rank, int size, int root)
{
    switch (collective) {
    case COLLECTIVE_REDUCE: return rank == root;
    case COLLECTIVE_GATHER: return rank == root ? (size_t)size : 0;
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLTOALL: return (size_t)size;
    case COLLECTIVE_BARRIER: return 0;
    default: return 1;
    }
}

/* In place, the blocks by which one buffer starts behind the other one: the smaller lies in the
 * larger. */
static inline size_t test_in_place_block(enum collective collective, int rank)
{
    switch (collective) {
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER: return (size_t)rank;
    default: return 0;
    }
}

#endif
