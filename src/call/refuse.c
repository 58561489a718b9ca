#include "call/refuse.h"

#include "base/status.h"
#include "call/begin.h"
#include "call/on_device.h"
#include "call/start.h"
#include "health/failure.h"
#include "health/lock.h"
#include "os/clock.h"

static enum tutti_status refuse_started(struct tutti_comm *comm, struct call *call)
{
    if (call->extra != NULL) call->extra->device = NULL; /* it touches no buffer */
    const enum tutti_status status = call_unattended(comm, call);
    return status == call->refused ? TUTTI_OK : status;
}

static enum tutti_status lock_and_refuse(struct tutti_comm *comm, struct call *call)
{
    if (!domain_try_lock(&comm->team.domain)) TRY(health_lock(&comm->health, call->timeout_ns));
    const enum tutti_status status = health_check(&comm->health);
    if (status == TUTTI_OK) {
        const uint64_t sequence = recorder_next(&comm->health.recorder);
        call_begin_refused(comm, call, 0, sequence);
        recorder_end(&comm->health.recorder, sequence, call->refused, false);
    }
    health_unlock(&comm->health);
    return status;
}

static enum tutti_status refuse_blocking(struct tutti_comm *comm, struct call *call)
{
    const enum tutti_status status = lock_and_refuse(comm, call);
    call_free_extra(call->extra);
    return status;
}

enum tutti_status call_refuse(struct tutti_comm *comm, struct call *call, bool is_started)
{
    char why[ERROR_TEXT_MAX];
    enum tutti_status status = TUTTI_OK;
    error_copy(why, sizeof why);
    if (comm->team.size == 1)
        call_free_extra(call->extra);
    else
        status = is_started ? refuse_started(comm, call) : refuse_blocking(comm, call);
    return status != TUTTI_OK ? status : error_set(call->refused, "%s", why);
}
