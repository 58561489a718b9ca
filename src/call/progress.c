/* progress.c - what was started moves: calls get their slots in the order of calling, whoever
 * begins them.
 *
 *     start ──domain free, slot free──► begun ──► done ──wait──► free again
 *       └────otherwise────► queued ──────┘
 */
#include "call/progress.h"
#include "base/status.h"
#include "call/begin.h"
#include "call/crossing.h"
#include "call/diagnose.h"
#include "call/faulted.h"
#include "call/gated.h"
#include "call/message.h"
#include "call/program.h"
#include "call/report.h"
#include "call/request.h"
#include "health/failure.h"
#include "health/network.h"
#include "health/quiesce.h"
#include "health/straggler.h"

static void add_running(struct tutti_comm *comm, struct call_request *request)
{
    int at = comm->calls.running_count++;
    for (; at > 0 && comm->calls.order[at - 1]->call->priority < request->call->priority; at--)
        comm->calls.order[at] = comm->calls.order[at - 1];
    comm->calls.order[at] = request;
    comm->calls.running[request->slot] = request;
    atomic_store_explicit(&comm->calls.outstanding, (uint32_t)comm->calls.running_count,
                          memory_order_relaxed);
}

static void remove_running(struct tutti_comm *comm, struct call_request *request)
{
    int at = 0;
    while (comm->calls.order[at] != request) at++;
    comm->calls.running_count--;
    for (; at < comm->calls.running_count; at++) comm->calls.order[at] = comm->calls.order[at + 1];
    comm->calls.running[request->slot] = NULL;
    atomic_store_explicit(&comm->calls.outstanding, (uint32_t)comm->calls.running_count,
                          memory_order_relaxed);
}

/* The slot of the next call to begin. */
static int next_slot(const struct tutti_comm *comm)
{
    return 1 + (int)(comm->calls.begun_started % STARTED_SLOT_COUNT);
}

static enum tutti_status begin(struct tutti_comm *comm, struct call_request *request)
{
    if (comm->team.size == 1) {
        call_begin_alone(comm, request);
        return TUTTI_OK;
    }
    TRY(call_begin(comm, request));
    call_record_request(comm, request, clock_ticks());
    gated_record(comm, request);
    return TUTTI_OK;
}

/* Begins a call in the next slot, which is free; its program is there, or was tried for with that
 * status. The other ranks wait for it: if it cannot begin, it fails everywhere. */
static void begin_started(struct tutti_comm *comm, struct call_request *request,
                          enum tutti_status status)
{
    request->slot = next_slot(comm);
    comm->calls.begun_started++;
    if (status == TUTTI_OK && request->call->refused != TUTTI_OK) {
        call_begin_refused(comm, request->call, request->slot, request->base.sequence);
        request_finish(&request->base, request->call->refused);
        return;
    }
    if (status == TUTTI_OK) status = begin(comm, request);
    if (status == TUTTI_OK) {
        add_running(comm, request);
        return;
    }
    if (!board_has_failed(comm->health.board)) faulted_fail(comm, request, status);
    gated_give_up(request->call);
    request_finish(&request->base, health_check(&comm->health));
}

enum tutti_status call_find_program(struct tutti_comm *comm, struct call_request *request)
{
    if (request->program != NULL || comm->team.size == 1 || request->call->refused != TUTTI_OK)
        return TUTTI_OK; /* prepared, or needs none */
    TRY(call_program(comm, request->call, &request->program));
    call_program_hold(request->program);
    return TUTTI_OK;
}

/* Gives the next queued call its slot if that is free; false when there is nothing to do. */
static bool begin_next(struct tutti_comm *comm)
{
    if (comm->calls.running[next_slot(comm)] != NULL) return false;
    struct tutti_request *const next = request_dequeue(comm, &comm->requests.queue);
    if (next == NULL) return false;
    struct call_request *const request = request_call(next);
    enum tutti_status status =
        board_has_failed(comm->health.board) ? health_check(&comm->health) : TUTTI_OK;
    if (status == TUTTI_OK) status = call_find_program(comm, request);
    begin_started(comm, request, status);
    atomic_fetch_sub_explicit(&comm->requests.queue.count, 1, memory_order_release);
    return true;
}

static enum run_result run(struct tutti_comm *comm, struct call_request *request)
{
    if (comm->team.size == 1) return call_run_alone(request);
    request->operation.must_not_spin = domain_is_last_look(&comm->team.domain);
    return operation_run(&request->operation);
}

static bool run_one(struct tutti_comm *comm, struct call_request *request)
{
    enum tutti_status status = TUTTI_OK;
    const enum run_result result =
        board_has_failed(comm->health.board) ? RUN_FAULT : run(comm, request);
    if (result == RUN_FAULT) {
        if (!board_has_failed(comm->health.board) &&
            !diagnose_fault(comm, request, request->operation.fault_peer))
            return false;
        /* Other ranks whose memory this thread moves, too, may be those that it would wait for. */
        if (!call_quit(comm, request)) return false;
        status = health_check(&comm->health);
    } else if (result != RUN_DONE) {
        return result == RUN_MOVED;
    }
    remove_running(comm, request);
    if (comm->calls.report.is_open) report_call_end(comm, request);
    call_end_wait(comm, request);
    crossing_end_in_stream(comm, request);
    board_end(health_own_calls(&comm->health, request->slot), request->begun);
    request_finish(&request->base, status);
    return true;
}

bool calls_progress(struct tutti_comm *comm)
{
    bool moved = network_progress(&comm->health);
    while (begin_next(comm)) moved = true;
    int urgency = 0;
    bool urgent_moved = false;
    for (int i = 0; i < comm->calls.running_count;) {
        struct call_request *request = comm->calls.order[i];
        if (urgent_moved && request->call->priority < urgency) break;
        urgency = request->call->priority;
        if (run_one(comm, request)) moved = urgent_moved = true;
        i += i < comm->calls.running_count && comm->calls.order[i] == request;
    }
    if (board_has_messages(comm->health.board) ||
        atomic_load_explicit(&comm->messages.queue.count, memory_order_relaxed) > 0)
        moved |= messages_progress(comm);
    return moved;
}

void calls_count_started(struct tutti_comm *comm, struct call_request *request)
{
    request->base.sequence = recorder_next(&comm->health.recorder);
    request->number = ++comm->calls.started;
    board_set_started(comm->health.board, comm->health.board_number, request->number);
    /* Already now: calls without a gate, which are over at once, are recorded by the same
     * thread. */
    if (comm->team.size == 1) {
        call_record(comm, request->call, request->base.sequence, 0, NULL, clock_ticks());
        recorder_set_gated(&comm->health.recorder, request->base.sequence, true);
    }
}

/* With the domain held: at once, if nothing is before it. What can be refused is refused here:
 * later it would fail all ranks. */
enum tutti_status calls_start_held(struct tutti_comm *comm, struct call_request *request)
{
    const enum tutti_status status = call_find_program(comm, request);
    if (status == TUTTI_INVALID_ALGORITHM || status == TUTTI_UNSUPPORTED) return status;
    calls_count_started(comm, request);
    if (atomic_load_explicit(&comm->requests.queue.count, memory_order_relaxed) > 0 ||
        comm->calls.running[next_slot(comm)] != NULL) {
        request_enqueue(comm, &comm->requests.queue, &request->base);
        calls_progress(comm);
        return TUTTI_OK;
    }
    begin_started(comm, request, status);
    if (atomic_load_explicit(&request->base.done, memory_order_relaxed)) return TUTTI_OK;
    /* A first piece of it, and of what is as urgent. */
    if (comm->calls.running_count == 1)
        run_one(comm, request);
    else
        calls_progress(comm);
    return TUTTI_OK;
}
