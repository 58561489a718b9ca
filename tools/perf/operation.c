#include "operation.h"

#include <stdint.h>
#include <string.h>

/* ---------------------------------------------------------------------------- blocks of buffers */

static bool is_root(const struct perf_shape *shape)
{
    return shape->rank == shape->root;
}

static size_t none(const struct perf_shape *shape)
{
    (void)shape;
    return 0;
}

static size_t one(const struct perf_shape *shape)
{
    (void)shape;
    return 1;
}

static size_t all(const struct perf_shape *shape)
{
    return (size_t)shape->rank_count;
}

static size_t one_at_root(const struct perf_shape *shape)
{
    return is_root(shape) ? 1 : 0;
}

static size_t all_at_root(const struct perf_shape *shape)
{
    return is_root(shape) ? all(shape) : 0;
}

static size_t one_of_two(const struct perf_shape *shape)
{
    return shape->rank < 2 ? 1 : 0;
}

/* ------------------------------------------------------------------- sources of received blocks */

static struct source reduced(const struct perf_shape *shape, size_t block)
{
    (void)shape;
    return (struct source){SOURCE_ALL_RANKS, block};
}

static struct source reduced_own(const struct perf_shape *shape, size_t block)
{
    (void)block;
    return (struct source){SOURCE_ALL_RANKS, (size_t)shape->rank};
}

static struct source of_root(const struct perf_shape *shape, size_t block)
{
    return (struct source){shape->root, block};
}

static struct source own_of_root(const struct perf_shape *shape, size_t block)
{
    (void)block;
    return (struct source){shape->root, (size_t)shape->rank};
}

static struct source of_each(const struct perf_shape *shape, size_t block)
{
    (void)shape;
    return (struct source){(int)block, 0};
}

static struct source own_of_each(const struct perf_shape *shape, size_t block)
{
    return (struct source){(int)block, (size_t)shape->rank};
}

static struct source of_left(const struct perf_shape *shape, size_t block)
{
    return (struct source){(shape->rank + shape->rank_count - 1) % shape->rank_count, block};
}

static struct source of_other(const struct perf_shape *shape, size_t block)
{
    return (struct source){1 - shape->rank, block};
}

/* -------------------------------------------------------------- bus bandwidth, as in nccl-tests */

static double as_is(int rank_count)
{
    (void)rank_count;
    return 1;
}

static double others(int rank_count)
{
    return (double)(rank_count - 1) / rank_count;
}

static double there_and_back(int rank_count)
{
    return 2 * others(rank_count);
}

/* ---------------------------------------------------------------------------------------- calls */

/* The forms of tutti_X. The arguments begin with a comma, for there may be none. */
#define DEFINE_CALLS_OF(name, ...)                                                              \
    static enum tutti_status name##_run(const struct perf_call *c, struct tutti_comm *comm)     \
    {                                                                                           \
        return tutti_##name##_with(__VA_ARGS__ c->options, comm);                               \
    }                                                                                           \
    static enum tutti_status name##_start(const struct perf_call *c, struct tutti_comm *comm,   \
                                          struct tutti_request **request)                       \
    {                                                                                           \
        return tutti_##name##_start(__VA_ARGS__ c->options, comm, request);                     \
    }                                                                                           \
    static enum tutti_status name##_prepare(const struct perf_call *c, struct tutti_comm *comm, \
                                            struct tutti_prepared **prepared)                   \
    {                                                                                           \
        return tutti_##name##_prepare(__VA_ARGS__ c->options, comm, prepared);                  \
    }
#define DEFINE_CALLS(name, ...) DEFINE_CALLS_OF(name, __VA_ARGS__, )

#define BUFFERS c->send, c->recv, c->count, c->dtype
DEFINE_CALLS(allreduce, BUFFERS, c->op)
DEFINE_CALLS(reduce, BUFFERS, c->op, c->root)
DEFINE_CALLS(broadcast, BUFFERS, c->root)
DEFINE_CALLS(gather, BUFFERS, c->root)
DEFINE_CALLS(scatter, BUFFERS, c->root)
DEFINE_CALLS(allgather, BUFFERS)
DEFINE_CALLS(reduce_scatter, BUFFERS, c->op)
DEFINE_CALLS(alltoall, BUFFERS)
DEFINE_CALLS_OF(barrier, )

#define LISTS c->lists[SEND], c->lists[RECV], c->dtype
DEFINE_CALLS(allreduce_list, LISTS, c->op)
DEFINE_CALLS(reduce_list, LISTS, c->op, c->root)
DEFINE_CALLS(broadcast_list, LISTS, c->root)
DEFINE_CALLS(gather_list, LISTS, c->root)
DEFINE_CALLS(scatter_list, LISTS, c->root)
DEFINE_CALLS(allgather_list, LISTS)
DEFINE_CALLS(reduce_scatter_list, LISTS, c->op)
DEFINE_CALLS(alltoall_list, LISTS)

#define BLOCKS(side) c->counts[side], c->displs[side]
DEFINE_CALLS(gatherv, c->send, c->counts[SEND][0], c->recv, BLOCKS(RECV), c->dtype, c->root)
DEFINE_CALLS(scatterv, c->send, BLOCKS(SEND), c->recv, c->counts[RECV][0], c->dtype, c->root)
DEFINE_CALLS(allgatherv, c->send, c->recv, BLOCKS(RECV), c->dtype)
DEFINE_CALLS(reduce_scatterv, c->send, c->recv, c->counts[SEND], c->dtype, c->op)
DEFINE_CALLS(alltoallv, c->send, BLOCKS(SEND), c->recv, BLOCKS(RECV), c->dtype)

/* ------------------------------------------------------------------------------------- messages */

enum { TAG = 7 };

/* The peers to which a message goes and from which it comes. NO_PEER: there is none. */
enum { NO_PEER = -2 };

static int right(const struct perf_call *c)
{
    return (c->rank + 1) % c->rank_count;
}

static int left(const struct perf_call *c)
{
    return (c->rank + c->rank_count - 1) % c->rank_count;
}

static int one_at_zero(const struct perf_call *c)
{
    return c->rank == 0 ? 1 : NO_PEER;
}

static int zero_at_one(const struct perf_call *c)
{
    return c->rank == 1 ? 0 : NO_PEER;
}

/* The forms of a call with one message: sent to to(c), received from from(c). */
#define DEFINE_MESSAGE(name, to, from)                                                             \
    static enum tutti_status name##_run(const struct perf_call *c, struct tutti_comm *comm)        \
    {                                                                                              \
        if (to(c) != NO_PEER)                                                                      \
            return tutti_send_with(c->send, c->count, c->dtype, to(c), TAG, c->options, comm);     \
        if (from(c) == NO_PEER) return TUTTI_OK;                                                   \
        return tutti_recv_with(c->recv, c->count, c->dtype, from(c), TAG, NULL, c->options, comm); \
    }                                                                                              \
    static enum tutti_status name##_start(const struct perf_call *c, struct tutti_comm *comm,      \
                                          struct tutti_request **request)                          \
    {                                                                                              \
        if (to(c) != NO_PEER)                                                                      \
            return tutti_send_start(c->send, c->count, c->dtype, to(c), TAG, c->options, comm,     \
                                    request);                                                      \
        if (from(c) == NO_PEER) return TUTTI_OK;                                                   \
        return tutti_recv_start(c->recv, c->count, c->dtype, from(c), TAG, NULL, c->options, comm, \
                                request);                                                          \
    }                                                                                              \
    static enum tutti_status name##_prepare(const struct perf_call *c, struct tutti_comm *comm,    \
                                            struct tutti_prepared **prepared)                      \
    {                                                                                              \
        if (to(c) != NO_PEER)                                                                      \
            return tutti_send_prepare(c->send, c->count, c->dtype, to(c), TAG, c->options, comm,   \
                                      prepared);                                                   \
        if (from(c) == NO_PEER) return TUTTI_OK;                                                   \
        return tutti_recv_prepare(c->recv, c->count, c->dtype, from(c), TAG, NULL, c->options,     \
                                  comm, prepared);                                                 \
    }

static int nobody(const struct perf_call *c)
{
    (void)c;
    return NO_PEER;
}

DEFINE_MESSAGE(to_right, right, nobody)
DEFINE_MESSAGE(from_left, nobody, left)
DEFINE_MESSAGE(ping, one_at_zero, zero_at_one)
DEFINE_MESSAGE(pong, zero_at_one, one_at_zero)

/* ---------------------------------------------------------------------------------------- table */

#define NO_CALLS         \
    {                    \
        NULL, NULL, NULL \
    }
#define CALLS(name)                              \
    {                                            \
        name##_run, name##_start, name##_prepare \
    }
#define ONE_CALL(name)        \
    PARTS_ONE,                \
    {                         \
        CALLS(name), NO_CALLS \
    }
#define WITH_LIST(name) ONE_CALL(name), CALLS(name##_list)
#define WITHOUT_LIST(name) ONE_CALL(name), NO_CALLS

/* clang-format off */
const struct perf_operation operation_list[] = {
    {"allreduce", true, false, BLOCKS_EQUAL, {one, one}, reduced, there_and_back, WITH_LIST(allreduce)},
    {"reduce", true, true, BLOCKS_EQUAL, {one, one_at_root}, reduced, as_is, WITH_LIST(reduce)},
    {"broadcast", false, true, BLOCKS_EQUAL, {one_at_root, one}, of_root, as_is, WITH_LIST(broadcast)},
    {"gather", false, true, BLOCKS_EQUAL, {one, all_at_root}, of_each, others, WITH_LIST(gather)},
    {"scatter", false, true, BLOCKS_EQUAL, {all_at_root, one}, own_of_root, others, WITH_LIST(scatter)},
    {"allgather", false, false, BLOCKS_EQUAL, {one, all}, of_each, others, WITH_LIST(allgather)},
    {"reduce_scatter", true, false, BLOCKS_EQUAL, {all, one}, reduced_own, others, WITH_LIST(reduce_scatter)},
    {"alltoall", false, false, BLOCKS_EQUAL, {all, all}, own_of_each, others, WITH_LIST(alltoall)},
    {"barrier", false, false, BLOCKS_EQUAL, {none, none}, of_each, as_is, WITHOUT_LIST(barrier)},
    {"gatherv", false, true, BLOCKS_OF_RANKS, {one, all_at_root}, of_each, others, WITHOUT_LIST(gatherv)},
    {"scatterv", false, true, BLOCKS_OF_RANKS, {all_at_root, one}, own_of_root, others, WITHOUT_LIST(scatterv)},
    {"allgatherv", false, false, BLOCKS_OF_RANKS, {one, all}, of_each, others, WITHOUT_LIST(allgatherv)},
    {"reduce_scatterv", true, false, BLOCKS_OF_RANKS_PACKED, {all, one}, reduced_own, others,
     WITHOUT_LIST(reduce_scatterv)},
    {"alltoallv", false, false, BLOCKS_OF_PAIRS, {all, all}, own_of_each, others, WITHOUT_LIST(alltoallv)},
    {"sendrecv", false, false, BLOCKS_EQUAL, {one, one}, of_left, as_is,
     PARTS_AT_ONCE, {CALLS(to_right), CALLS(from_left)}, NO_CALLS},
    {"pingpong", false, false, BLOCKS_EQUAL, {one_of_two, one_of_two}, of_other, as_is,
     PARTS_IN_TURN, {CALLS(ping), CALLS(pong)}, NO_CALLS},
};
/* clang-format on */
const int operation_count = sizeof operation_list / sizeof *operation_list;

const struct perf_operation *operation_find(const char *name)
{
    for (int i = 0; i < operation_count; i++)
        if (!strcmp(operation_list[i].name, name)) return &operation_list[i];
    return NULL;
}

size_t operation_blocks(const struct perf_operation *operation, int rank_count)
{
    const struct perf_shape at_root = {.rank_count = rank_count, .rank = 0, .root = 0, .count = 1};
    const size_t send = operation->block_count[SEND](&at_root);
    const size_t recv = operation->block_count[RECV](&at_root);
    return send > recv ? send : recv;
}

bool operation_is_message(const struct perf_operation *operation)
{
    return operation->parts != PARTS_ONE;
}

bool operation_has_place(const struct perf_operation *operation)
{
    return !operation_is_message(operation) && operation_blocks(operation, 1) > 0;
}

bool operation_has_counts(const struct perf_operation *operation)
{
    return operation->blocks != BLOCKS_EQUAL;
}

bool operation_has_list(const struct perf_operation *operation)
{
    return operation->list.run != NULL;
}

int operation_turns(const struct perf_operation *operation)
{
    return operation->parts == PARTS_IN_TURN ? 2 : 1;
}

/* --------------------------------------------------------------------------------------- counts */

static uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t h = (a + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (b + 1) * UINT64_C(0xc2b2ae3d27d4eb4f);
    h = (h ^ h >> 31) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

/* The count of the index-th of the ranks' blocks, of which there are rank_count with that mean. */
static size_t skewed(const struct perf_shape *shape, size_t index, uint64_t chance)
{
    const size_t ranks = (size_t)shape->rank_count, mean = shape->count;
    switch (shape->skew) {
    case SKEW_LINEAR: return 2 * mean * (index + 1) / (ranks + 1);
    case SKEW_RANDOM: return (size_t)((unsigned __int128)chance * (2 * mean + 1) >> 64);
    case SKEW_ZERO_SOME: return index % 3 == 1 ? 0 : mean + mean / 2;
    case SKEW_ONE: return index == ranks / 2 ? mean * ranks : 0;
    default: return mean;
    }
}

/* In place, what a rank sends to another one is as long as what it gets from there. */
static size_t count_of_pair(const struct perf_shape *shape, size_t from, size_t to)
{
    const size_t ranks = (size_t)shape->rank_count;
    if (!shape->in_place) return skewed(shape, (to + ranks - from) % ranks, mixed(from, to));
    const size_t low = from < to ? from : to, high = from < to ? to : from;
    return skewed(shape, (from + to) % ranks, mixed(low, high));
}

size_t operation_count_of(const struct perf_operation *operation, const struct perf_shape *shape,
                          enum side side, size_t block)
{
    const size_t rank = (size_t)shape->rank;
    if (operation->blocks == BLOCKS_EQUAL) return shape->count;
    if (operation->blocks == BLOCKS_OF_PAIRS)
        return side == SEND ? count_of_pair(shape, rank, block) : count_of_pair(shape, block, rank);
    /* a rank that has only one block has its own block */
    const size_t owner = operation->block_count[side](shape) == 1 ? rank : block;
    return skewed(shape, owner, mixed(owner, 0));
}

size_t operation_first_of(const struct perf_operation *operation, const struct perf_shape *shape,
                          size_t block)
{
    const size_t longest = operation->blocks == BLOCKS_EQUAL
                               ? shape->count
                               : shape->count * ((size_t)shape->rank_count + 2);
    return block * longest;
}
