#include "call/faulted.h"

#include "base/status.h"
#include "call/communicator.h"
#include "call/on_device.h"
#include "gpu/device_fault.h"
#include "gpu/gpu.h"
#include "health/failure.h"

bool faulted_look(struct tutti_comm *comm, const struct call_request *request)
{
    const char *const fault = on_device_fault(request->call);
    if (fault == NULL) return false;
    char who[128];
    health_name_rank(&comm->health, comm->team.rank, who, sizeof who);
    call_fail(comm, &request->base, TUTTI_SYSTEM, comm->team.rank, "%s: %s", who, fault);
    return true;
}

void faulted_fail(struct tutti_comm *comm, const struct call_request *request,
                  enum tutti_status status)
{
    if (call_is_on_device(request->call)) gpu_fault_look(request->call->extra->device);
    if (!faulted_look(comm, request))
        call_fail(comm, &request->base, status, comm->team.rank, "%s", tutti_error_message());
}

/* Whether this is how errors of a broken driver arrive here; others are the caller's. */
static bool may_be_fault(enum tutti_status status)
{
    return status == TUTTI_SYSTEM || status == TUTTI_NO_MEMORY || status == TUTTI_INVALID_OPTIONS;
}

static enum tutti_status fail(struct tutti_comm *comm, const struct call_name *name,
                              const char *fault)
{
    char who[128];
    health_name_rank(&comm->health, comm->team.rank, who, sizeof who);
    health_fail(&comm->health, name, TUTTI_SYSTEM, comm->team.rank, "%s: %s", who, fault);
    return health_check(&comm->health);
}

enum tutti_status faulted_refused(struct tutti_comm *comm, const struct call *call,
                                  enum tutti_status status)
{
    if (!may_be_fault(status)) return status;
    const char *const fault = gpu_fault_look(call_is_on_device(call) ? call->extra->device : NULL);
    if (fault == NULL) return status;
    struct call_name name = {.sequence = 0};
    if (!health_call_under_way(&comm->health, &name))
        board_describe(&call->what, name.what, sizeof name.what);
    return fail(comm, &name, fault);
}

enum tutti_status faulted_message(struct tutti_comm *comm, const struct message_call *message,
                                  enum tutti_status status)
{
    struct call_name name = {.sequence = 0};
    if (status != TUTTI_TIMEOUT && !may_be_fault(status)) return status;
    message_describe(message, name.what, sizeof name.what);
    if (status == TUTTI_TIMEOUT) {
        health_fail(&comm->health, &name, status, comm->team.rank,
                    "rank %d still waits for its GPU to copy; deadline of %.3g s", comm->team.rank,
                    (double)message->timeout_ns * 1e-9);
        return health_check(&comm->health);
    }
    const char *const fault = gpu_fault_look(gpu_of_kind(message->kind));
    return fault == NULL ? status : fail(comm, &name, fault);
}
