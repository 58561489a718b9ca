#include "sparse_call.h"

#include "base/status.h"
#include "os/clock.h"
#include "outside_group.h"

enum tutti_status sparse_call_init(struct sparse_call *call, const char *function,
                                   struct tutti_comm *comm)
{
    *call = (struct sparse_call){function, comm, tutti_comm_rank(comm), tutti_comm_size(comm), 0};
    if (call->rank < 0 || call->size <= 0)
        return error_set(TUTTI_INVALID_COMM, "%s: comm is not a communicator of this process",
                         function);
    return outside_group(function);
}

static struct tutti_call_options options_of(const struct sparse_call *call)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.encoding = "none"; /* whatever the way, results are the same, and no way is refused */
    if (call->deadline_ns == 0) return options;
    const uint64_t now = clock_now_ns();
    options.timeout_ns = now < call->deadline_ns ? call->deadline_ns - now : 1;
    return options;
}

/* Says in the message of a failed collective what it was for. */
static enum tutti_status part_of(const struct sparse_call *call, enum tutti_status status)
{
    if (status == TUTTI_OK) return status;
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    return error_set(status, "%.440s (part of %s)", message, call->function);
}

enum tutti_status sparse_allgather(const struct sparse_call *call, const void *send, void *recv,
                                   size_t bytes)
{
    const struct tutti_call_options options = options_of(call);
    return part_of(call, tutti_allgather_with(send, recv, bytes, TUTTI_UINT8, &options, call->comm));
}

enum tutti_status sparse_allgatherv(const struct sparse_call *call, void *blocks,
                                    const size_t *counts, enum tutti_dtype dtype)
{
    const struct tutti_call_options options = options_of(call);
    size_t before = 0;
    for (int r = 0; r < call->rank; r++) before += counts[r];
    const void *const own = (const char *)blocks + before * tutti_dtype_size(dtype);
    return part_of(call,
                   tutti_allgatherv_with(own, blocks, counts, NULL, dtype, &options, call->comm));
}

enum tutti_status sparse_alltoall(const struct sparse_call *call, const void *send, void *recv,
                                  size_t bytes)
{
    const struct tutti_call_options options = options_of(call);
    return part_of(call, tutti_alltoall_with(send, recv, bytes, TUTTI_UINT8, &options, call->comm));
}

enum tutti_status sparse_alltoallv(const struct sparse_call *call, const void *send,
                                   const struct sparse_blocks *sent, void *recv,
                                   const struct sparse_blocks *received, enum tutti_dtype dtype)
{
    const struct tutti_call_options options = options_of(call);
    return part_of(call,
                   tutti_alltoallv_with(send, sent->counts, sent->displs, recv, received->counts,
                                        received->displs, dtype, &options, call->comm));
}

enum tutti_status sparse_allreduce_dense(const struct sparse_call *call, void *elements,
                                         size_t count, enum tutti_dtype dtype, tutti_op op)
{
    const struct tutti_call_options options = options_of(call);
    return part_of(
        call, tutti_allreduce_with(elements, elements, count, dtype, op, &options, call->comm));
}

enum tutti_status sparse_give_up(const struct sparse_call *call, enum tutti_status status)
{
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    (void)tutti_comm_revoke_because(call->comm, message); /* if it has failed before, all know */
    return error_set(status, "%s", message);
}

enum tutti_status sparse_lacks_memory(const struct sparse_call *call)
{
    return sparse_give_up(call, error_set(TUTTI_NO_MEMORY, "%s: out of memory", call->function));
}

uint64_t sparse_last_sequence(const struct sparse_call *call)
{
    uint64_t last = 0;
    for (;;) {
        struct tutti_trace_entry entry = {.size_bytes = sizeof entry};
        const enum tutti_status status =
            tutti_trace_read(call->comm, TUTTI_TRACE_COLLECTIVES, last + 1, &entry);
        if (status != TUTTI_OK || entry.operation == NULL || entry.number <= last) return last;
        last = entry.number;
    }
}
