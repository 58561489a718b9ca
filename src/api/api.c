/* api.c - the public collectives: argument checks and nothing else. */
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/options.h"

/* What one public function was called with. */
struct arguments {
    enum collective collective;
    const void *send;
    void *recv;
    size_t count;
    enum tutti_dtype dtype;
    tutti_op op;
    int root;
};

/* Blocks of a buffer on this rank, 0 where it is not looked at. */
static size_t send_blocks(const struct arguments *a, const struct tutti_comm *comm)
{
    switch (a->collective) {
    case COLLECTIVE_BROADCAST: return comm->rank == a->root;
    case COLLECTIVE_SCATTER: return comm->rank == a->root ? (size_t)comm->size : 0;
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL: return (size_t)comm->size;
    default: return 1;
    }
}

static size_t recv_blocks(const struct arguments *a, const struct tutti_comm *comm)
{
    switch (a->collective) {
    case COLLECTIVE_REDUCE: return comm->rank == a->root;
    case COLLECTIVE_GATHER: return comm->rank == a->root ? (size_t)comm->size : 0;
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLTOALL: return (size_t)comm->size;
    default: return 1;
    }
}

static enum tutti_status check_buffer(const char *call, const char *name, const void *buffer,
                                      size_t bytes, size_t element_bytes)
{
    if (bytes == 0) return TUTTI_OK;
    if (buffer == NULL) return error_set(TUTTI_INVALID_BUFFER, "tutti_%s: %s is NULL", call, name);
    if ((uintptr_t)buffer % element_bytes != 0)
        return error_set(TUTTI_INVALID_BUFFER,
                         "tutti_%s: %s (%p) is not aligned to its elements of %zu bytes", call,
                         name, buffer, element_bytes);
    return TUTTI_OK;
}

/* Where send lies in recv (or the other way round) when the call is in place. */
static bool is_in_place(const struct arguments *a, const struct tutti_comm *comm, size_t block_bytes)
{
    const uintptr_t send = (uintptr_t)a->send, recv = (uintptr_t)a->recv;
    const size_t own = (size_t)comm->rank * block_bytes;
    switch (a->collective) {
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: return send == recv + own;
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_REDUCE_SCATTER: return recv == send + own;
    default: return send == recv;
    }
}

static enum tutti_status check_overlap(const struct arguments *a, const char *call,
                                       size_t send_bytes, size_t recv_bytes, bool *in_place,
                                       const struct tutti_comm *comm, size_t block_bytes)
{
    const uintptr_t send = (uintptr_t)a->send, recv = (uintptr_t)a->recv;
    *in_place = send_bytes > 0 && recv_bytes > 0 && is_in_place(a, comm, block_bytes);
    if (*in_place || send_bytes == 0 || recv_bytes == 0) return TUTTI_OK;
    if (send < recv + recv_bytes && recv < send + send_bytes)
        return error_set(TUTTI_INVALID_BUFFER,
                         "tutti_%s: send and recv overlap and are not in place", call);
    return TUTTI_OK;
}

static enum tutti_status check(const struct arguments *a, const struct tutti_call_options *options,
                               struct tutti_comm *comm, struct call *call)
{
    const char *name = collective_name(a->collective);
    TRY(comm_check_handle(comm, name));
    if (!dtype_is_valid(a->dtype))
        return error_set(TUTTI_INVALID_DTYPE, "tutti_%s: %d is not a dtype", name, (int)a->dtype);
    const struct tutti_operation *op = op_resolve(a->op);
    if (op == NULL) return error_set(TUTTI_INVALID_OP, "tutti_%s: not an operation", name);
    if (collective_reduces(a->collective) && !op_supports(op, a->dtype))
        return error_set(TUTTI_INVALID_OP, "tutti_%s: %s is not for %s", name, op->name,
                         tutti_dtype_name(a->dtype));
    if (a->root < 0 || a->root >= comm->size)
        return error_set(TUTTI_INVALID_ROOT, "tutti_%s: root %d of %d ranks", name, a->root,
                         comm->size);
    const size_t element_bytes = tutti_dtype_size(a->dtype);
    if (a->count > SIZE_MAX / 2 / element_bytes / (size_t)comm->size)
        return error_set(TUTTI_INVALID_COUNT, "tutti_%s: %zu elements of %zu bytes for %d ranks",
                         name, a->count, element_bytes, comm->size);
    const size_t block_bytes = a->count * element_bytes;
    const size_t send_bytes = send_blocks(a, comm) * block_bytes,
                 recv_bytes = recv_blocks(a, comm) * block_bytes;
    TRY(check_buffer(name, "send", a->send, send_bytes, element_bytes));
    TRY(check_buffer(name, "recv", a->recv, recv_bytes, element_bytes));
    bool in_place;
    TRY(check_overlap(a, name, send_bytes, recv_bytes, &in_place, comm, block_bytes));

    *call = (struct call){.what = {.collective = a->collective,
                                   .dtype = a->dtype,
                                   .op = op->kind,
                                   .root = a->root,
                                   .count = a->count},
                          .op = op,
                          .send = a->send,
                          .recv = a->recv,
                          .in_place = in_place,
                          .timeout_ns = comm->timeout_ns,
                          .deterministic = comm->deterministic};
    if (options == NULL) return TUTTI_OK;
    TRY(options_check_call(options));
    if (options->timeout_ns != 0) call->timeout_ns = options->timeout_ns;
    if (options->deterministic != 0) call->deterministic = true;
    if (options->algorithm != NULL) {
        call->algorithm = algo_find(a->collective, options->algorithm);
        if (call->algorithm == NULL || !algo_supports(call->algorithm, comm->size) ||
            (call->deterministic && collective_reduces(a->collective) &&
             !call->algorithm->deterministic))
            return error_set(
                TUTTI_INVALID_ALGORITHM, "tutti_%s: %s \"%.40s\" for %d ranks%s", name,
                call->algorithm == NULL ? "there is no algorithm" : "this cannot be done by",
                options->algorithm, comm->size, call->deterministic ? ", deterministic" : "");
    }
    return TUTTI_OK;
}

static enum tutti_status call(const struct arguments *a, const struct tutti_call_options *options,
                              struct tutti_comm *comm)
{
    struct call checked;
    TRY(check(a, options, comm, &checked));
    return comm_call(comm, &checked);
}

static enum tutti_status start(const struct arguments *a, const struct tutti_call_options *options,
                               struct tutti_comm *comm, struct tutti_request **request)
{
    struct call checked;
    if (request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_%s_start: no place for the request",
                         collective_name(a->collective));
    *request = NULL;
    TRY(check(a, options, comm, &checked));
    return comm_call_start(comm, &checked, request);
}

/* The three forms of one collective. */
#define PARAMETERS(...) __VA_ARGS__
#define DEFINE(name, parameters, ...)                                                               \
    enum tutti_status tutti_##name(parameters, struct tutti_comm *comm)                             \
    {                                                                                               \
        const struct arguments a = {__VA_ARGS__};                                                   \
        return call(&a, NULL, comm);                                                                \
    }                                                                                               \
    enum tutti_status tutti_##name##_with(parameters, const struct tutti_call_options *options,     \
                                          struct tutti_comm *comm)                                  \
    {                                                                                               \
        const struct arguments a = {__VA_ARGS__};                                                   \
        return call(&a, options, comm);                                                             \
    }                                                                                               \
    enum tutti_status tutti_##name##_start(parameters, const struct tutti_call_options *options,    \
                                           struct tutti_comm *comm, struct tutti_request **request) \
    {                                                                                               \
        const struct arguments a = {__VA_ARGS__};                                                   \
        return start(&a, options, comm, request);                                                   \
    }

DEFINE(allreduce,
       PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype, tutti_op op),
       COLLECTIVE_ALLREDUCE, send, recv, count, dtype, op, 0)
DEFINE(reduce,
       PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype, tutti_op op,
                  int root),
       COLLECTIVE_REDUCE, send, recv, count, dtype, op, root)
DEFINE(broadcast,
       PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root),
       COLLECTIVE_BROADCAST, send, recv, count, dtype, TUTTI_SUM, root)
DEFINE(gather,
       PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root),
       COLLECTIVE_GATHER, send, recv, count, dtype, TUTTI_SUM, root)
DEFINE(scatter,
       PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root),
       COLLECTIVE_SCATTER, send, recv, count, dtype, TUTTI_SUM, root)
DEFINE(allgather, PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype),
       COLLECTIVE_ALLGATHER, send, recv, count, dtype, TUTTI_SUM, 0)
DEFINE(reduce_scatter,
       PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype, tutti_op op),
       COLLECTIVE_REDUCE_SCATTER, send, recv, count, dtype, op, 0)
DEFINE(alltoall, PARAMETERS(const void *send, void *recv, size_t count, enum tutti_dtype dtype),
       COLLECTIVE_ALLTOALL, send, recv, count, dtype, TUTTI_SUM, 0)

static const struct arguments barrier = {
    .collective = COLLECTIVE_BARRIER, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM};

enum tutti_status tutti_barrier(struct tutti_comm *comm)
{
    return call(&barrier, NULL, comm);
}

enum tutti_status tutti_barrier_with(const struct tutti_call_options *options,
                                     struct tutti_comm *comm)
{
    return call(&barrier, options, comm);
}

enum tutti_status tutti_barrier_start(const struct tutti_call_options *options,
                                      struct tutti_comm *comm, struct tutti_request **request)
{
    return start(&barrier, options, comm, request);
}

enum tutti_status tutti_mem_alloc(size_t size_bytes, void **memory)
{
    if (memory == NULL)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_mem_alloc: no place for the address");
    return heap_allocate(size_bytes, memory);
}

enum tutti_status tutti_mem_free(void *memory)
{
    return memory == NULL ? TUTTI_OK : heap_free(memory);
}
