/* call.c - blocking calls. */
#include <stdlib.h>

#include "base/status.h"
#include "call/all_memory.h"
#include "call/begin.h"
#include "call/call.h"
#include "call/faulted.h"
#include "call/gated.h"
#include "call/on_device.h"
#include "call/program.h"
#include "call/wait_loop.h"
#include "health/failure.h"
#include "health/lock.h"

/* The first pass, and then the record: what that costs passes while the others' messages are on
 * their way. */
static enum run_result run_first(struct tutti_comm *comm, struct call_request *request,
                                 bool is_short)
{
    const uint64_t before = is_short ? 0 : clock_ticks();
    const enum run_result result = operation_run(&request->operation);
    const bool waits = result != RUN_DONE;
    call_record_request(comm, request, is_short && waits ? clock_ticks() : before);
    return result;
}

static enum tutti_status call_locked(struct tutti_comm *comm, struct call *call)
{
    struct call_request *request = &comm->calls.blocking;
    if (board_has_failed(comm->health.board)) return health_check(&comm->health);
    const bool is_large = all_memory_matters(comm, call);
    if (is_large) call->all_were_mapped = all_memory_decide(comm, call->what.collective);
    enum tutti_status status = call_program(comm, call, &request->program);
    if (status == TUTTI_INVALID_ALGORITHM || status == TUTTI_UNSUPPORTED)
        return status; /* so it is on all ranks */
    if (is_large) all_memory_note(comm, call);
    if (__builtin_expect(comm->calls.all_memory.is_due, 0)) all_memory_tell(comm, call);
    request->call = call;
    request->base.sequence = recorder_next(&comm->health.recorder);
    if (status == TUTTI_OK) status = call_begin(comm, request);
    if (status != TUTTI_OK) {
        /* The other ranks wait for this call: it cannot fail here alone. */
        faulted_fail(comm, request, status);
        return health_check(&comm->health);
    }
    call_program_hold(request->program); /* calls that begin while this one waits may take its place */
    request->passes = 0;
    const bool may_end_soon = call_may_be_short(comm, call);
    if (run_first(comm, request, may_end_soon) != RUN_DONE) {
        gated_record(comm, request);
        status = call_await_blocking(comm, request);
    }
    recorder_note_paths(&comm->health.recorder, request->base.sequence, request->operation.paths);
    call_program_release(request->program);
    board_end(health_own_calls(&comm->health, 0), request->begun);
    recorder_end(&comm->health.recorder, request->base.sequence, status,
                 may_end_soon && request->passes <= SHORT_PASSES_MAX);
    return status;
}

static enum tutti_status lock_and_call(struct tutti_comm *comm, struct call *call)
{
    if (!domain_try_lock(&comm->team.domain)) TRY(health_lock(&comm->health, call->timeout_ns));
    const enum tutti_status status = call_locked(comm, call);
    health_unlock(&comm->health);
    return status;
}

enum tutti_status call_run(struct tutti_comm *comm, struct call *call)
{
    enum tutti_status status = TUTTI_OK;
    if (call_is_on_device(call)) status = on_device_begin(comm, call);
    if (__builtin_expect(status != TUTTI_OK, 0)) { /* no call was made */
        status = faulted_refused(comm, call, status);
        call_free_extra(call->extra);
        return status;
    }
    if (comm->team.size > 1)
        status = lock_and_call(comm, call);
    else if (board_has_failed(comm->health.board))
        status = health_check(&comm->health);
    else if (call_has_gate(call))
        status = call_alone_gated(comm, call);
    else
        call_alone(comm, call);
    if (__builtin_expect(status != TUTTI_OK, 0)) {
        gated_give_up(call);
        trace_dump_failure(&comm->health);
    }
    if (call->extra != NULL) call_free_extra(call->extra);
    return status;
}
