#include "tutti-perf_operation.h"

#include <string.h>

/* ------------------------------------------------------------------------------------- blocks of buffers */

static bool is_root(const struct shape *shape)
{
    return shape->rank == shape->root;
}

static size_t none(const struct shape *shape)
{
    (void)shape;
    return 0;
}

static size_t one(const struct shape *shape)
{
    (void)shape;
    return 1;
}

static size_t all(const struct shape *shape)
{
    return (size_t)shape->rank_count;
}
static size_t one_at_root(const struct shape *shape)
{
    return is_root(shape) ? 1 : 0;
}
static size_t all_at_root(const struct shape *shape)
{
    return is_root(shape) ? all(shape) : 0;
}

/* ----------------------------------------------------------------------------- sources of received blocks */

static size_t own_block(const struct shape *shape)
{
    return (size_t)shape->rank * shape->count;
}

static struct source reduced(const struct shape *shape, size_t block)
{
    return (struct source){SOURCE_ALL_RANKS, block * shape->count};
}

static struct source reduced_own_block(const struct shape *shape, size_t block)
{
    (void)block;
    return (struct source){SOURCE_ALL_RANKS, own_block(shape)};
}

static struct source of_root(const struct shape *shape, size_t block)
{
    return (struct source){shape->root, block * shape->count};
}

static struct source own_block_of_root(const struct shape *shape, size_t block)
{
    (void)block;
    return (struct source){shape->root, own_block(shape)};
}

static struct source of_each_rank(const struct shape *shape, size_t block)
{
    (void)shape;
    return (struct source){(int)block, 0};
}

static struct source own_block_of_each_rank(const struct shape *shape, size_t block)
{
    return (struct source){(int)block, own_block(shape)};
}

/* ------------------------------------------------------------------------- bus bandwidth, as in nccl-tests */

static double factor_one(int rank_count)
{
    (void)rank_count;
    return 1;
}

static double factor_others(int rank_count)
{
    return (double)(rank_count - 1) / rank_count;
}
static double factor_there_and_back(int rank_count)
{
    return 2 * factor_others(rank_count);
}

/* --------------------------------------------------------------------------------------------------- calls */

#define DEFINE_CALLS(name, ...)                                                                    \
    static enum tutti_status name##_run(                                                           \
        const struct call *c, const struct tutti_call_options *options, struct tutti_comm *comm)   \
    {                                                                                              \
        return tutti_##name##_with(__VA_ARGS__, options, comm);                                    \
    }                                                                                              \
    static enum tutti_status name##_start(const struct call *c,                                    \
                                          const struct tutti_call_options *options,                \
                                          struct tutti_comm *comm, struct tutti_request **request) \
    {                                                                                              \
        return tutti_##name##_start(__VA_ARGS__, options, comm, request);                          \
    }

DEFINE_CALLS(allreduce, c->send, c->recv, c->count, c->dtype, c->op)
DEFINE_CALLS(reduce, c->send, c->recv, c->count, c->dtype, c->op, c->root)
DEFINE_CALLS(broadcast, c->send, c->recv, c->count, c->dtype, c->root)
DEFINE_CALLS(gather, c->send, c->recv, c->count, c->dtype, c->root)
DEFINE_CALLS(scatter, c->send, c->recv, c->count, c->dtype, c->root)
DEFINE_CALLS(allgather, c->send, c->recv, c->count, c->dtype)
DEFINE_CALLS(reduce_scatter, c->send, c->recv, c->count, c->dtype, c->op)
DEFINE_CALLS(alltoall, c->send, c->recv, c->count, c->dtype)

static enum tutti_status barrier_run(const struct call *c, const struct tutti_call_options *options,
                                     struct tutti_comm *comm)
{
    (void)c;
    return tutti_barrier_with(options, comm);
}

static enum tutti_status barrier_start(const struct call *c,
                                       const struct tutti_call_options *options,
                                       struct tutti_comm *comm, struct tutti_request **request)
{
    (void)c;
    return tutti_barrier_start(options, comm, request);
}

/* --------------------------------------------------------------------------------------------------- table */

#define CALLS(name) name##_run, name##_start

const struct operation operation_list[] = {
    {"allreduce", true, false, one, one, reduced, factor_there_and_back, CALLS(allreduce)},
    {"reduce", true, true, one, one_at_root, reduced, factor_one, CALLS(reduce)},
    {"broadcast", false, true, one_at_root, one, of_root, factor_one, CALLS(broadcast)},
    {"gather", false, true, one, all_at_root, of_each_rank, factor_others, CALLS(gather)},
    {"scatter", false, true, all_at_root, one, own_block_of_root, factor_others, CALLS(scatter)},
    {"allgather", false, false, one, all, of_each_rank, factor_others, CALLS(allgather)},
    {"reduce_scatter", true, false, all, one, reduced_own_block, factor_others,
     CALLS(reduce_scatter)},
    {"alltoall", false, false, all, all, own_block_of_each_rank, factor_others, CALLS(alltoall)},
    {"barrier", false, false, none, none, of_each_rank, factor_one, CALLS(barrier)},
};
const int operation_count = sizeof operation_list / sizeof *operation_list;

const struct operation *operation_find(const char *name)
{
    for (int i = 0; i < operation_count; i++)
        if (!strcmp(operation_list[i].name, name)) return &operation_list[i];
    return NULL;
}

size_t operation_blocks(const struct operation *operation, int rank_count)
{
    const struct shape at_root = {.rank_count = rank_count, .rank = 0, .root = 0, .count = 1};
    const size_t send = operation->send_blocks(&at_root);
    const size_t recv = operation->recv_blocks(&at_root);
    return send > recv ? send : recv;
}
