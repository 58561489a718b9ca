/* call.c - blocking calls. */
#include <stdlib.h>

#include "base/dtype.h"
#include "base/status.h"
#include "call/begin.h"
#include "call/call.h"
#include "call/gated.h"
#include "call/program.h"
#include "call/wait_loop.h"
#include "health/failure.h"
#include "health/lock.h"
#include "memory/heap.h"

/* The first pass, and then the record: what that costs passes while the others' messages are on their way. */
static enum run_result run_first(struct tutti_comm *comm, struct call_request *request,
                                 bool is_short)
{
    const uint64_t before = is_short ? 0 : clock_ticks();
    const enum run_result result = operation_run(&request->operation);
    const bool waits = result != RUN_DONE;
    comm_record(comm, request, is_short && waits ? clock_ticks() : before);
    return result;
}

/* Blocks that each rank sends and receives in a collective that no rank ends before all have begun: each needs something of each other one.
 * 0: in this one a rank may be through before another one begins. */
struct shared_blocks {
    size_t sent, received;
};

static struct shared_blocks shared_blocks(enum collective collective, size_t rank_count)
{
    switch (collective) {
    case COLLECTIVE_ALLREDUCE: return (struct shared_blocks){1, 1};
    case COLLECTIVE_ALLGATHER: return (struct shared_blocks){1, rank_count};
    case COLLECTIVE_REDUCE_SCATTER: return (struct shared_blocks){rank_count, 1};
    case COLLECTIVE_ALLTOALL: return (struct shared_blocks){rank_count, rank_count};
    default: return (struct shared_blocks){0, 0};
    }
}

/* A call whose best algorithm depends on memory that only its rank sees, so that ranks must agree: they choose by what all of
 * them had in the call of this kind before. Nobody ends one that somebody has not begun, so everybody reads the same; started
 * calls may begin before the one before them ends, and do not look. */
static bool heeds_mapping(const struct tutti_comm *comm, const struct call *call)
{
    return shared_blocks(call->what.collective, 1).sent > 0 && !call->what.varies &&
           comm->team.transports.maps_heaps &&
           call->what.count * dtype_size(call->what.dtype) >=
               comm->team.transports.set.all->paths.tables[0]->sizes.mapped_bytes_min;
}

static bool is_mapped(const struct buffer *buffer, size_t bytes)
{
    uint64_t where;
    for (size_t done = 0, run; done < bytes; done += run) {
        run = bytes - done;
        const void *address = buffer_at(buffer, done, &run);
        if (!heap_find(address, run, &where)) return false;
    }
    return true;
}

/* In place the larger buffer holds the smaller one. */
static bool uses_mapped_memory(const struct tutti_comm *comm, const struct call *call)
{
    const struct shared_blocks blocks =
        shared_blocks(call->what.collective, (size_t)comm->team.size);
    const struct buffer input = call_buffer(call, 0), output = call_buffer(call, 1);
    const size_t bytes = call->what.count * dtype_size(call->what.dtype);
    const bool has_input = !call->in_place || blocks.sent > blocks.received,
               has_output = !call->in_place || !has_input;
    return (!has_output || is_mapped(&output, bytes * blocks.received)) &&
           (!has_input || is_mapped(&input, bytes * blocks.sent));
}

static enum tutti_status call_locked(struct tutti_comm *comm, struct call *call)
{
    struct call_request *request = &comm->calls.blocking;
    if (board_has_failed(comm->health.board)) return health_check(&comm->health);
    const bool heeds = heeds_mapping(comm, call);
    call->all_were_mapped =
        heeds && board_was_mapped(comm->health.board, comm->health.board_size, comm->calls.mapped);
    enum tutti_status status = comm_program(comm, call, &request->program);
    if (status == TUTTI_INVALID_ALGORITHM || status == TUTTI_UNSUPPORTED)
        return status; /* so it is on all ranks */
    if (heeds)
        board_set_mapped(comm->health.board, comm->health.board_number, ++comm->calls.mapped,
                         uses_mapped_memory(comm, call));
    request->call = *call;
    request->base.sequence = recorder_next(&comm->health.recorder);
    if (status == TUTTI_OK) status = comm_begin(comm, request);
    if (status != TUTTI_OK) {
        /* The other ranks wait for this call: it cannot fail here alone. */
        comm_fail(comm, &request->base, status, comm->team.rank, "%s", tutti_error_message());
        return health_check(&comm->health);
    }
    comm_program_hold(request->program); /* calls that begin while this one waits may take its place */
    request->passes = 0;
    const bool may_end_soon = call_may_be_short(comm, call);
    if (run_first(comm, request, may_end_soon) != RUN_DONE) {
        gated_record(comm, request);
        status = comm_await_blocking(comm, request);
    }
    recorder_note_ways(&comm->health.recorder, request->base.sequence, request->operation.ways);
    comm_program_release(request->program);
    board_end(health_own_calls(&comm->health, 0), request->begun);
    recorder_end(&comm->health.recorder, request->base.sequence, status,
                 may_end_soon && request->passes <= SHORT_PASSES_MAX);
    return status;
}

enum tutti_status comm_call(struct tutti_comm *comm, struct call *call)
{
    enum tutti_status status = TUTTI_OK;
    if (comm->team.size == 1) {
        if (board_has_failed(comm->health.board))
            status = health_check(&comm->health);
        else if (call_has_gate(call))
            status = comm_call_alone_gated(comm, call);
        else
            comm_call_alone(comm, call);
    } else {
        if (!domain_try_lock(&comm->team.domain))
            status = health_lock(&comm->health, call->timeout_ns);
        if (status == TUTTI_OK) {
            status = call_locked(comm, call);
            health_unlock(&comm->health);
        }
    }
    if (__builtin_expect(status != TUTTI_OK, 0)) {
        gated_give_up(call);
        trace_dump_failure(&comm->health);
    }
    if (call->extra != NULL) free(call->extra);
    return status;
}
