#include "call/own_call.h"

#include "base/dtype.h"
#include "base/op.h"
#include "call/call.h"
#include "call/communicator.h"

static struct call call_of(const struct tutti_comm *comm, enum collective collective, size_t count,
                           enum tutti_dtype dtype)
{
    const struct tutti_operation *op = op_resolve(TUTTI_SUM);
    return (struct call){
        .what = {.collective = collective, .dtype = dtype, .op = op->kind, .count = count},
        .op = op,
        .in_place = true,
        .timeout_ns = comm->team.settings.timeout_ns};
}

enum tutti_status own_barrier(struct tutti_comm *comm)
{
    struct call call = call_of(comm, COLLECTIVE_BARRIER, 0, TUTTI_FLOAT32);
    return call_run(comm, &call);
}

enum tutti_status own_broadcast(struct tutti_comm *comm, void *data, size_t count,
                                enum tutti_dtype dtype, int root)
{
    struct call call = call_of(comm, COLLECTIVE_BROADCAST, count, dtype);
    call.send = call.recv = data;
    call.what.root = root;
    return call_run(comm, &call);
}

enum tutti_status own_sum(struct tutti_comm *comm, void *data, size_t count, enum tutti_dtype dtype)
{
    struct call call = call_of(comm, COLLECTIVE_ALLREDUCE, count, dtype);
    call.send = call.recv = data;
    return call_run(comm, &call);
}

enum tutti_status own_allgather(struct tutti_comm *comm, enum call_purpose purpose, void *blocks,
                                size_t count, enum tutti_dtype dtype, uint64_t timeout_ns)
{
    struct call call = call_of(comm, COLLECTIVE_ALLGATHER, count, dtype);
    call.send = (char *)blocks + (size_t)comm->team.rank * count * dtype_size(dtype);
    call.recv = blocks;
    call.timeout_ns = timeout_ns;
    call.what.purpose = purpose;
    return call_run(comm, &call);
}
