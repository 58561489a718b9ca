/* api.c - the public collectives; check.c looks at their arguments. */
#include "api/check.h"
#include "base/status.h"
#include "call/communicator.h"
#include "memory/given.h"
#include "memory/heap.h"

#define EVEN(of) \
    .collective = COLLECTIVE_##of, .send = send, .recv = recv, .count = count, .dtype = dtype
#define MOVES .op = TUTTI_SUM
#define REDUCES .op = op
#define ROOTED .root = root

API_DEFINE(allreduce,
           API_PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                          tutti_op op),
           EVEN(ALLREDUCE), REDUCES)
API_DEFINE(reduce,
           API_PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                          tutti_op op, int root),
           EVEN(REDUCE), REDUCES, ROOTED)
API_DEFINE(broadcast,
           API_PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                          int root),
           EVEN(BROADCAST), MOVES, ROOTED)
API_DEFINE(gather,
           API_PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                          int root),
           EVEN(GATHER), MOVES, ROOTED)
API_DEFINE(scatter,
           API_PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                          int root),
           EVEN(SCATTER), MOVES, ROOTED)
API_DEFINE(allgather,
           API_PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype),
           EVEN(ALLGATHER), MOVES)
API_DEFINE(reduce_scatter,
           API_PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype,
                          tutti_op op),
           EVEN(REDUCE_SCATTER), REDUCES)
API_DEFINE(alltoall,
           API_PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype),
           EVEN(ALLTOALL), MOVES)

/* -------------------------------------------------------------------------------------- v forms */

#define VARYING(of)                                                                    \
    .collective = COLLECTIVE_##of, .shape = SHAPE_VARYING, .send = send, .recv = recv, \
    .dtype = dtype
#define BLOCKS(...)                           \
    .blocks = &(const struct block_arguments) \
    {                                         \
        __VA_ARGS__                           \
    }
#define SENDS_BLOCKS .send_counts = send_counts, .send_displs = send_displs
#define RECEIVES_BLOCKS .recv_counts = recv_counts, .recv_displs = recv_displs

API_DEFINE(gatherv,
           API_PARAMETERS(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                          const size_t *recv_displs, enum tutti_dtype dtype, int root),
           VARYING(GATHER), MOVES, ROOTED, .count = send_count, BLOCKS(RECEIVES_BLOCKS))
API_DEFINE(scatterv,
           API_PARAMETERS(const void *send, const size_t *send_counts, const size_t *send_displs,
                          void *recv, size_t recv_count, enum tutti_dtype dtype, int root),
           VARYING(SCATTER), MOVES, ROOTED, .count = recv_count, BLOCKS(SENDS_BLOCKS))
API_DEFINE(allgatherv,
           API_PARAMETERS(const void *send, void *recv, const size_t *recv_counts,
                          const size_t *recv_displs, enum tutti_dtype dtype),
           VARYING(ALLGATHER), MOVES, BLOCKS(RECEIVES_BLOCKS))
API_DEFINE(reduce_scatterv,
           API_PARAMETERS(const void *send, void *recv, const size_t *recv_counts,
                          enum tutti_dtype dtype, tutti_op op),
           VARYING(REDUCE_SCATTER), REDUCES, BLOCKS(.send_counts = recv_counts))
API_DEFINE(alltoallv,
           API_PARAMETERS(const void *send, const size_t *send_counts, const size_t *send_displs,
                          void *recv, const size_t *recv_counts, const size_t *recv_displs,
                          enum tutti_dtype dtype),
           VARYING(ALLTOALL), MOVES, BLOCKS(SENDS_BLOCKS, RECEIVES_BLOCKS))

/* ----------------------------------------------------------------------------- lists of tensors */

#define LISTS(of)                                                     \
    .collective = COLLECTIVE_##of, .shape = SHAPE_LIST, .send = send, \
    .recv = (void *)(uintptr_t)recv, .dtype = dtype
#define LIST_PARAMETERS(...)                                                     \
    API_PARAMETERS(const struct tutti_list *send, const struct tutti_list *recv, \
                   enum tutti_dtype dtype __VA_OPT__(, ) __VA_ARGS__)

API_DEFINE(allreduce_list, LIST_PARAMETERS(tutti_op op), LISTS(ALLREDUCE), REDUCES)
API_DEFINE(reduce_list, LIST_PARAMETERS(tutti_op op, int root), LISTS(REDUCE), REDUCES, ROOTED)
API_DEFINE(broadcast_list, LIST_PARAMETERS(int root), LISTS(BROADCAST), MOVES, ROOTED)
API_DEFINE(gather_list, LIST_PARAMETERS(int root), LISTS(GATHER), MOVES, ROOTED)
API_DEFINE(scatter_list, LIST_PARAMETERS(int root), LISTS(SCATTER), MOVES, ROOTED)
API_DEFINE(allgather_list, LIST_PARAMETERS(), LISTS(ALLGATHER), MOVES)
API_DEFINE(reduce_scatter_list, LIST_PARAMETERS(tutti_op op), LISTS(REDUCE_SCATTER), REDUCES)
API_DEFINE(alltoall_list, LIST_PARAMETERS(), LISTS(ALLTOALL), MOVES)

/* -------------------------------------------------------------------------------------- barrier */

static const struct arguments barrier = {
    .collective = COLLECTIVE_BARRIER, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM};

enum tutti_status tutti_barrier(struct tutti_comm *comm)
{
    return api_call(&barrier, NULL, comm);
}

enum tutti_status tutti_barrier_with(const struct tutti_call_options *options,
                                     struct tutti_comm *comm)
{
    return api_call(&barrier, options, comm);
}

enum tutti_status tutti_barrier_start(const struct tutti_call_options *options,
                                      struct tutti_comm *comm, struct tutti_request **request)
{
    return api_start(&barrier, options, comm, request);
}

enum tutti_status tutti_barrier_prepare(const struct tutti_call_options *options,
                                        struct tutti_comm *comm, struct tutti_prepared **prepared)
{
    return api_prepare(&barrier, options, comm, prepared);
}

/* --------------------------------------------------------------------------------------- memory */

enum tutti_status tutti_mem_alloc(size_t size_bytes, void **memory)
{
    if (memory == NULL)
        return error_set(TUTTI_INVALID_BUFFER,
                         "tutti_mem_alloc: memory must be the address of a pointer, is NULL");
    return heap_allocate(size_bytes, memory);
}

enum tutti_status tutti_mem_free(void *memory)
{
    return memory == NULL ? TUTTI_OK : heap_free(memory);
}

enum tutti_status tutti_mem_register(void *memory, size_t size_bytes)
{
    return given_add(memory, size_bytes);
}

enum tutti_status tutti_mem_unregister(void *memory)
{
    return given_remove(memory);
}
