/* begin.c - the beginning of a call. */
#include "call/begin.h"

#include "encoding/encoding.h"
#include "health/failure.h"
#include "health/quiesce.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/dtype.h"
#include "base/log.h"
#include "base/status.h"
#include "call/gated.h"
#include "call/on_device.h"
#include "engine/program_links.h"
#include "kernel/kernel.h"
#include "os/clock.h"

#define KERNELS_NS UINT64_C(10000000000)

size_t call_all_blocks(const struct tutti_comm *comm, const struct call *call)
{
    const struct call_extra *const extra = call->extra;
    const size_t *counts = extra->input_counts != NULL ? extra->input_counts : extra->output_counts;
    size_t sum = counts == NULL ? call->what.count : 0;
    for (int r = 0; counts != NULL && r < comm->team.size; r++) sum += counts[r];
    return sum;
}

/* The signature that the messages of one call carry. No other call of its slot has the same: if a
 * call leaves a message behind (its sender had more than its receiver took), the next call takes
 * the message for a fault, and not for data. */
static uint64_t signature_of_messages(const struct call_request *request)
{
    return request->program->signature + request->begun * 0x9e3779b97f4a7c15u;
}

void call_end_wait(struct tutti_comm *comm, const struct call_request *request)
{
    const struct straggler_call call = call_of_request(request);
    straggler_end(&comm->health, &call);
}

/* Kernels end, whichever rank died. The kernels of a device that has failed are over, but do not
 * say so. */
static void await_kernels(struct call_request *request)
{
    const uint64_t deadline_ns = clock_now_ns() + KERNELS_NS;
    while (on_device_fault(request->call) == NULL && operation_is_computing(&request->operation)) {
        if (clock_now_ns() > deadline_ns) {
            log_write(LOG_WARN,
                      "kernels of a call that has failed still run on a device after %d s: "
                      "the device seems to have failed",
                      (int)(KERNELS_NS / 1000000000));
            return;
        }
        sched_yield();
    }
}

static struct engagement engagement_of(const struct call_request *request)
{
    return (struct engagement){.slot = request->slot,
                               .begun = request->begun,
                               .any_referenced = request->operation.any_referenced,
                               .any_advertised = request->operation.any_advertised};
}

void call_quiesce(struct tutti_comm *comm, struct call_request *request)
{
    if (comm->team.size == 1) { /* only its gate held it up */
        gated_end(&request->call->extra->gate, false);
        return;
    }
    await_kernels(request);
    const struct engagement engagement = engagement_of(request);
    health_quiesce(&comm->health, &engagement);
    operation_give_up(&request->operation);
}

bool call_quit(struct tutti_comm *comm, struct call_request *request)
{
    if (comm->team.size == 1) {
        call_quiesce(comm, request);
        return true;
    }
    const struct engagement engagement = engagement_of(request);
    bool is_quiet = false;
    if (request->quit_ns == 0) {
        await_kernels(request);
        is_quiet = health_leave_call(&comm->health, &engagement);
        request->quit_ns = clock_now_ns();
    }
    if (!is_quiet && !health_is_quiet(&comm->health, &engagement, request->quit_ns)) return false;
    operation_give_up(&request->operation);
    return true;
}

/* Apart, so that calls without a gate pay nothing for it but a look. */
__attribute__((cold, noinline)) static void begin_gated(struct tutti_comm *comm,
                                                        struct call_request *request)
{
    gated_begin(comm, request);
    operation_open_at(&request->operation, &request->call->extra->gate.base,
                      signature_of_messages(request));
}

/* Its operation is prepared: from here on other ranks can see the call. */
static inline enum tutti_status announce(struct tutti_comm *comm, struct call_request *request)
{
    request->base.started_ns = request->base.left_ns = request->faulted_ns = request->crossed_ns = 0;
    board_begin(health_own_calls(&comm->health, request->slot), &request->call->what,
                request->begun);
    health_publish(&comm->team);
    if (board_has_failed(comm->health.board)) {
        call_quiesce(comm, request);
        return health_check(&comm->health);
    }
    if (__builtin_expect(call_has_gate(request->call), 0))
        begin_gated(comm, request);
    else
        operation_open(&request->operation, signature_of_messages(request));
    return TUTTI_OK;
}

enum tutti_status call_begin_again(struct tutti_comm *comm, struct call_request *request)
{
    request->begun = ++comm->calls.begun[request->slot];
    operation_prepare_again(&request->operation);
    return announce(comm, request);
}

enum tutti_status call_begin(struct tutti_comm *comm, struct call_request *request)
{
    struct program *program = request->program;
    if (__builtin_expect(program->tx[request->slot] == NULL, 0))
        TRY(program_open_links(program, comm->team.transports.set.all, request->slot));
    request->begun = ++comm->calls.begun[request->slot];
    const struct buffer input = call_buffer(request->call, 0),
                        output = call_buffer(request->call, 1);
    TRY(operation_prepare(&request->operation, program, comm->team.transports.set.all,
                          request->slot, &input, &output));
    if (call_is_on_device(request->call)) on_device_attach(request);
    request->call->what.signature = program->signature;
    request->call->what.encoding =
        __builtin_expect(program->encoding == NULL, 1) ? 0 : encoding_named(program->encoding);
    return announce(comm, request);
}

void call_begin_refused(struct tutti_comm *comm, struct call *call, int slot, uint64_t sequence)
{
    struct board_call *const calls = health_own_calls(&comm->health, slot);
    const uint64_t begun = ++comm->calls.begun[slot];
    call->what.signature = BOARD_REFUSED;
    board_begin(calls, &call->what, begun);
    board_end(calls, begun);
    health_publish(&comm->team);
    call_record(comm, call, sequence, slot, NULL, clock_ticks());
}

/* ------------------------------------------------------------------------------- one rank alone */

/* Elements that a call moves in a communicator of one rank. */
static size_t alone_count(const struct call *call)
{
    if (!call->what.varies) return call->what.count;
    return call->extra->input_counts != NULL ? call->extra->input_counts[0]
                                             : call->extra->output_counts[0];
}

/* Moves, scaled where the operation scales, one run of both buffers after the other. */
static enum tutti_status move_alone(const struct call *call)
{
    if (call->what.collective == COLLECTIVE_BARRIER) return TUTTI_OK;
    if (call_is_on_device(call) && (call->extra->on_device[0] || call->extra->on_device[1]))
        return on_device_move(call, alone_count(call));
    const struct buffer input = call_buffer(call, 0), output = call_buffer(call, 1);
    const bool scales = collective_reduces(call->what.collective) && call->op->kind == OP_SCALED_SUM;
    const size_t element_bytes = dtype_size(call->what.dtype);
    for (size_t done = 0, bytes = alone_count(call) * element_bytes; done < bytes;) {
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
    return TUTTI_OK;
}

void call_alone(struct tutti_comm *comm, const struct call *call)
{
    const uint64_t sequence = recorder_next(&comm->health.recorder);
    const bool is_short = call_may_be_short(comm, call);
    call_record(comm, call, sequence, 0, NULL, is_short ? 0 : clock_ticks());
    (void)move_alone(call); /* in memory of the host */
    recorder_end(&comm->health.recorder, sequence, TUTTI_OK, is_short);
}

enum { GATE_NAP_NS = 50000 };

/* Waits until the gate opens. began_ns: when the call began. */
static enum tutti_status await_gate(struct tutti_comm *comm, const struct call *call,
                                    uint64_t began_ns)
{
    struct operation_gate *asked = call->extra->gate.asked;
    while (!asked->ops->is_open(asked)) {
        nanosleep(&(struct timespec){0, GATE_NAP_NS}, NULL);
        if (board_has_failed(comm->health.board)) TRY(health_check(&comm->health));
        const char *const fault = on_device_fault(call);
        if (fault != NULL) return error_set(TUTTI_SYSTEM, "%s", fault);
        if (call_waits_for_device(call) && clock_now_ns() - began_ns >= call->timeout_ns)
            TRY(on_device_late(call));
    }
    return TUTTI_OK;
}

enum tutti_status call_alone_gated(struct tutti_comm *comm, struct call *call)
{
    const uint64_t sequence = recorder_next(&comm->health.recorder);
    const uint64_t began_ns = clock_now_ns();
    call_record(comm, call, sequence, 0, NULL, clock_ticks());
    recorder_set_gated(&comm->health.recorder, sequence, true);
    enum tutti_status status = await_gate(comm, call, began_ns);
    if (status == TUTTI_OK) {
        recorder_set_gated(&comm->health.recorder, sequence, false);
        status = move_alone(call);
    }
    gated_end(&call->extra->gate, status == TUTTI_OK);
    recorder_end(&comm->health.recorder, sequence, status, false);
    return status;
}

void call_begin_alone(struct tutti_comm *comm, struct call_request *request)
{
    request->begun = ++comm->calls.begun[request->slot];
    board_begin(health_own_calls(&comm->health, request->slot), &request->call->what,
                request->begun);
    gated_begin(comm, request);
}

enum run_result call_run_alone(struct call_request *request)
{
    struct operation_gate *gate = &request->call->extra->gate.base;
    if (!gate->ops->is_open(gate)) return RUN_BLOCKED;
    const enum tutti_status status = move_alone(request->call);
    gated_end(&request->call->extra->gate, status == TUTTI_OK);
    if (status == TUTTI_OK) return RUN_DONE;
    call_fail(request->base.comm, &request->base, status, 0, "%s", tutti_error_message());
    return RUN_FAULT;
}
