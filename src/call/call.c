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

/* `found`: whether its program was found, which is the request's then. */
static enum tutti_status call_with_program(struct tutti_comm *comm, struct call *call,
                                           enum tutti_status found)
{
    struct call_request *request = &comm->calls.blocking;
    enum tutti_status status = found;
    if (__builtin_expect(comm->calls.all_memory.is_due, 0)) all_memory_tell(comm, call);
    request->call = call;
    request->base.sequence = recorder_next(&comm->health.recorder);
    if (status == TUTTI_OK)
        status = comm->calls.repeated.is_prepared ? call_begin_again(comm, request)
                                                  : call_begin(comm, request);
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

static enum tutti_status call_locked(struct tutti_comm *comm, struct call *call)
{
    struct program **const program = &comm->calls.blocking.program;
    repeat_forget(comm);
    if (board_has_failed(comm->health.board)) return health_check(&comm->health);
    const bool is_large = all_memory_matters(comm, call);
    if (is_large) call->all_were_mapped = all_memory_decide(comm, call->what.collective);
    const enum tutti_status found = call_program(comm, call, program);
    if (found == TUTTI_INVALID_ALGORITHM || found == TUTTI_UNSUPPORTED)
        return found; /* so it is on all ranks */
    if (is_large) all_memory_note(comm, call);
    if (found == TUTTI_OK) repeat_note(comm, call, *program, is_large);
    return call_with_program(comm, call, found);
}

bool call_run_again(struct tutti_comm *comm, const struct arguments *arguments,
                    enum tutti_status *status)
{
    struct repeated_call *const repeated = &comm->calls.repeated;
    if (!domain_try_lock(&comm->team.domain)) return false;
    if (!repeat_is(comm, arguments) || (repeated->is_large && !all_memory_note_again(comm))) {
        domain_unlock(&comm->team.domain);
        return false;
    }
    comm->calls.blocking.program = repeated->program;
    *status = board_has_failed(comm->health.board)
                  ? health_check(&comm->health)
                  : call_with_program(comm, &repeated->call, TUTTI_OK);
    repeated->is_prepared = *status == TUTTI_OK;
    health_unlock(&comm->health);
    if (__builtin_expect(*status != TUTTI_OK, 0)) trace_dump_failure(&comm->health);
    return true;
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
