#include "call/gated.h"

#include <stdlib.h>

#include "base/status.h"
#include "call/communicator.h"
#include "call/on_device.h"
#include "os/clock.h"

static void wait_no_more(struct call_gate *gate)
{
    if (gate->is_closed) gate->request->base.comm->gated.count--;
    gate->is_closed = false;
}

/* As the operation asks. */
static bool is_open(struct operation_gate *base)
{
    struct call_gate *gate = (struct call_gate *)base;
    if (!gate->asked->ops->is_open(gate->asked)) return false;
    wait_no_more(gate);
    struct tutti_request *request = &gate->request->base;
    struct health *health = &request->comm->health;
    board_set_gated(health_own_calls(health, gate->request->slot), gate->request->begun, false);
    recorder_set_gated(&health->recorder, request->sequence, false);
    if (!call_waits_for_device(gate->request->call)) /* the deadline counts from here */
        request->started_ns = request->looked_ns = clock_now_ns();
    return true;
}

static void end(struct operation_gate *base, bool is_done)
{
    gated_end((struct call_gate *)base, is_done);
}

void gated_end(struct call_gate *gate, bool is_done)
{
    wait_no_more(gate); /* board and recorder keep that it never opened */
    if (gate->is_told) return;
    gate->is_told = true;
    gate->asked->ops->end(gate->asked, is_done);
}

enum tutti_status gated_set(struct call *call, struct operation_gate *gate)
{
    if (call->extra == NULL) call->extra = calloc(1, sizeof *call->extra);
    if (call->extra == NULL) return error_set(TUTTI_NO_MEMORY, "a gate of a call: out of memory");
    call->extra->gate.asked = gate;
    return TUTTI_OK;
}

void gated_begin(struct tutti_comm *comm, struct call_request *request)
{
    static const struct operation_gate_ops ops = {.is_open = is_open, .end = end};
    struct call_gate *gate = &request->call->extra->gate;
    gate->base.ops = &ops;
    gate->request = request;
    gate->is_closed = true;
    comm->gated.count++;
    board_set_gated(health_own_calls(&comm->health, request->slot), request->begun, true);
}

void gated_record(struct tutti_comm *comm, const struct call_request *request)
{
    if (request_is_gated(request))
        recorder_set_gated(&comm->health.recorder, request->base.sequence, true);
}
