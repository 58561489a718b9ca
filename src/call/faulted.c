#include "call/faulted.h"

#include "base/status.h"
#include "call/communicator.h"
#include "call/on_device.h"
#include "gpu/device_fault.h"
#include "health/failure.h"

bool faulted_look(struct tutti_comm *comm, const struct call_request *request)
{
    const char *const fault = on_device_fault(&request->call);
    if (fault == NULL) return false;
    char who[128];
    health_name_rank(&comm->health, comm->team.rank, who, sizeof who);
    comm_fail(comm, &request->base, TUTTI_SYSTEM, comm->team.rank, "%s: %s", who, fault);
    return true;
}

void faulted_fail(struct tutti_comm *comm, const struct call_request *request,
                  enum tutti_status status)
{
    if (call_is_on_device(&request->call)) gpu_fault_look(request->call.extra->device);
    if (!faulted_look(comm, request))
        comm_fail(comm, &request->base, status, comm->team.rank, "%s", tutti_error_message());
}

enum tutti_status faulted_refused(struct tutti_comm *comm, const struct call *call,
                                  enum tutti_status status)
{
    /* As which errors of a broken driver arrive here; others are the caller's. */
    if (status != TUTTI_SYSTEM && status != TUTTI_NO_MEMORY && status != TUTTI_INVALID_OPTIONS)
        return status;
    const char *const fault = gpu_fault_look(call_is_on_device(call) ? call->extra->device : NULL);
    if (fault == NULL) return status;
    struct call_name name = {.sequence = 0};
    char who[128];
    if (!health_call_under_way(&comm->health, &name))
        board_describe(&call->what, name.what, sizeof name.what);
    health_name_rank(&comm->health, comm->team.rank, who, sizeof who);
    health_fail(&comm->health, &name, TUTTI_SYSTEM, comm->team.rank, "%s: %s", who, fault);
    return health_check(&comm->health);
}
