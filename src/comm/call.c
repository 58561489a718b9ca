/* call.c - blocking calls: from a checked call to its end. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "base/watched.h"
#include "comm/comm.h"
#include "kernel/kernel.h"
#include "memory/heap.h"

/* -------------------------------------------------------------------------------------- one rank alone */

static struct buffer buffer_of(const struct call *call, int which)
{
    struct buffer buffer = {.base = which == 0 ? (char *)(uintptr_t)call->send : call->recv};
    if (call->extra != NULL && call->extra->segments[which] != NULL) {
        buffer.segments = call->extra->segments[which];
        buffer.segment_count = call->extra->segment_counts[which];
    }
    return buffer;
}

/* Moves, scaled where the operation scales, one run of both buffers after the other. */
static void move_alone(const struct call *call)
{
    if (call->what.collective == COLLECTIVE_BARRIER) return;
    const struct buffer input = buffer_of(call, 0), output = buffer_of(call, 1);
    const bool scales = collective_reduces(call->what.collective) && call->op->kind == OP_SCALED_SUM;
    const size_t element_bytes = dtype_size(call->what.dtype);
    size_t count = call->what.count;
    if (call->what.varies)
        count = call->extra->input_counts != NULL ? call->extra->input_counts[0]
                                                  : call->extra->output_counts[0];
    for (size_t done = 0, bytes = count * element_bytes; done < bytes;) {
        size_t run = bytes - done;
        const void *source = buffer_at(&input, done, &run);
        void *destination = buffer_at(&output, done, &run);
        const struct kernel_call scaling = {.destination = destination,
                                            .sources = &source,
                                            .source_count = 1,
                                            .factor = call->op->factor,
                                            .count = run / element_bytes,
                                            .dtype = call->what.dtype};
        if (scales)
            kernel_get(kernel_level_chosen(), call->what.dtype, OP_SUM).reduce(&scaling);
        else if (source != destination)
            memmove(destination, source, run);
        done += run;
    }
}

/* ------------------------------------------------------------------------------------------ recording */

/* Of a v form: of all blocks that this rank has, or gets. */
static size_t all_blocks(const struct tutti_comm *comm, const struct call_extra *extra)
{
    const size_t *counts = extra->input_counts != NULL ? extra->input_counts : extra->output_counts;
    size_t sum = 0;
    for (int r = 0; counts != NULL && r < comm->size; r++) sum += counts[r];
    return sum;
}

/* Calls of at most so many elements, that take so many passes of the wait loop, take 2 us at most where ranks have a core
 * each: the loop spins. */
enum { SHORT_COUNT_MAX = 512, SHORT_PASSES_MAX = 64 };

static inline bool may_be_short(const struct tutti_comm *comm, const struct call *call)
{
    const struct call_description *what = &call->what;
    return !what->started && !what->varies && what->count <= SHORT_COUNT_MAX &&
           !comm->oversubscribed && comm->network == NULL;
}

static inline void record(struct tutti_comm *comm, const struct call *call, uint64_t sequence,
                          int slot, const char *algorithm, uint64_t begin_ticks)
{
    if (!CALLS_ARE_WATCHED) return;
    const struct call_description *what = &call->what;
    const size_t count =
        __builtin_expect(what->varies, 0) ? all_blocks(comm, call->extra) : what->count;
    recorder_begin(
        &comm->recorder, sequence, begin_ticks,
        record_what(what->collective, what->dtype, what->op, slot, what->started, what->varies),
        count, what->root, what->signature, algorithm);
}

void comm_record(struct tutti_comm *comm, const struct tutti_request *request, uint64_t begin_ticks)
{
    record(comm, &request->call, request->sequence, request->slot, request->program->algorithm,
           begin_ticks);
}

void comm_call_alone(struct tutti_comm *comm, const struct call *call)
{
    const uint64_t sequence = comm_next_sequence(comm);
    const bool is_short = may_be_short(comm, call);
    record(comm, call, sequence, 0, NULL, is_short ? 0 : clock_ticks());
    move_alone(call);
    recorder_end(&comm->recorder, sequence, TUTTI_OK, is_short);
}

/* ----------------------------------------------------------------------------------------- blocking */

/* From where on an allreduce does better in mapped memory by another algorithm. */
enum { MAPPED_BYTES_MIN = 32 << 10 };

/* Calls of a communicator are issued by one thread at a time, so no read-modify-write is needed. */
uint64_t comm_next_sequence(struct tutti_comm *comm)
{
    const uint64_t sequence = atomic_load_explicit(&comm->sequence, memory_order_relaxed) + 1;
    atomic_store_explicit(&comm->sequence, sequence, memory_order_relaxed);
    return sequence;
}

/* What messages of one call carry: never that of another call of its slot, so that what one leaves behind (a
 * sender had more than its receiver took) is a fault of the next and not its data. */
static uint64_t signature_of_messages(const struct tutti_request *request)
{
    return request->program->signature + request->begun * 0x9e3779b97f4a7c15u;
}

enum tutti_status comm_begin(struct tutti_comm *comm, struct tutti_request *request)
{
    struct program *program = request->program;
    if (__builtin_expect(program->tx[request->slot] == NULL, 0))
        TRY(program_open_links(program, comm->transport, request->slot));
    request->begun = ++comm->slot_begun[request->slot];
    const struct buffer input = buffer_of(&request->call, 0), output = buffer_of(&request->call, 1);
    TRY(operation_prepare(&request->operation, program, comm->transport, request->slot,
                          signature_of_messages(request), &input, &output));
    request->call.what.signature = program->signature;
    request->started_ns = request->faulted_ns = 0;
    struct board_call *calls = board_calls(comm->board, comm->size, comm->rank, request->slot);
    board_begin(calls, &request->call.what, request->begun);
    /* Who fails looks at this after its fence (comm_quiesce), so one of the two sees the other. */
    atomic_signal_fence(memory_order_seq_cst);
    if (!board_has_failed(comm->board)) return TUTTI_OK;
    comm_quiesce(comm, request); /* others may have seen already where it expects messages */
    return comm_check(comm);
}

/* The first pass, and then the record: what that costs passes while the others' messages are on their way. */
static enum run_result run_first(struct tutti_comm *comm, struct tutti_request *request,
                                 bool is_short)
{
    const uint64_t before = is_short ? 0 : clock_ticks();
    const enum run_result result = operation_run(&request->operation);
    const bool waits = result != RUN_DONE;
    comm_record(comm, request, is_short && waits ? clock_ticks() : before);
    return result;
}

/* A call whose best algorithm depends on memory that only its rank sees, so that ranks must agree: they choose by what all of
 * them had in the call of this kind before. Nobody ends one that somebody has not begun, so everybody reads the same; started
 * calls may begin before the one before them ends, and do not look. */
static bool heeds_mapping(const struct tutti_comm *comm, const struct call *call)
{
    return call->what.collective == COLLECTIVE_ALLREDUCE && comm->network == NULL &&
           call->what.count >= MAPPED_BYTES_MIN / dtype_size(call->what.dtype);
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

static bool uses_mapped_memory(const struct tutti_comm *comm, const struct call *call)
{
    const struct buffer input = buffer_of(call, 0), output = buffer_of(call, 1);
    const size_t bytes = call->what.count * dtype_size(call->what.dtype);
    return comm->maps_heaps && is_mapped(&output, bytes) &&
           (call->in_place || is_mapped(&input, bytes));
}

static enum tutti_status call_locked(struct tutti_comm *comm, struct call *call)
{
    struct tutti_request *request = &comm->blocking;
    if (board_has_failed(comm->board)) return comm_check(comm);
    const bool heeds = heeds_mapping(comm, call);
    call->all_were_mapped = heeds && board_was_mapped(comm->board, comm->size, comm->mapped_calls);
    enum tutti_status status = comm_program(comm, call, &request->program);
    if (status == TUTTI_INVALID_ALGORITHM || status == TUTTI_UNSUPPORTED)
        return status; /* so it is on all ranks */
    if (heeds)
        board_set_mapped(comm->board, comm->rank, ++comm->mapped_calls,
                         uses_mapped_memory(comm, call));
    request->call = *call;
    request->sequence = comm_next_sequence(comm);
    if (status == TUTTI_OK) status = comm_begin(comm, request);
    if (status != TUTTI_OK) {
        /* The other ranks wait for this call: it cannot fail here alone. */
        comm_fail(comm, request, status, comm->rank, "%s", tutti_error_message());
        return comm_check(comm);
    }
    comm_program_hold(request->program); /* calls that begin while this one waits may take its place */
    request->passes = 0;
    const bool may_end_soon = may_be_short(comm, call);
    if (run_first(comm, request, may_end_soon) != RUN_DONE)
        status = comm_drive_blocking(comm, request);
    comm_program_release(request->program);
    board_end(board_calls(comm->board, comm->size, comm->rank, 0), request->begun);
    recorder_end(&comm->recorder, request->sequence, status,
                 may_end_soon && request->passes <= SHORT_PASSES_MAX);
    return status;
}

enum tutti_status comm_call(struct tutti_comm *comm, struct call *call)
{
    enum tutti_status status = TUTTI_OK;
    if (comm->size == 1) {
        if (board_has_failed(comm->board))
            status = comm_check(comm);
        else
            comm_call_alone(comm, call);
    } else {
        if (!comm_try_lock(comm)) status = comm_lock(comm, call->timeout_ns);
        if (status == TUTTI_OK) {
            status = call_locked(comm, call);
            comm_unlock(comm);
        }
    }
    if (__builtin_expect(status != TUTTI_OK, 0)) trace_dump_failure(comm);
    if (call->extra != NULL) free(call->extra);
    return status;
}
