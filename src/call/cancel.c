/* cancel.c - taking back what was started: receives that nothing was sent to yet. */
#include "base/status.h"
#include "call/communicator.h"
#include "call/complete.h"
#include "call/message.h"
#include "call/request.h"
#include "call/wait_loop.h"
#include "health/lock.h"

/* The thread that has the domain may keep it for long, in a call of its own. So that thread takes
 * the receive back. */
static enum tutti_status cancel_in_line(struct tutti_comm *comm, struct message_request *receive)
{
    struct message_request *request = message_request_make(comm, false);
    if (request == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_cancel: out of memory");
    request->takes_back = receive;
    message_enqueue(comm, request);
    call_await_started(comm, &request->base);
    const enum tutti_status status = request->base.status;
    request_give_back(&request->base);
    return status;
}

static enum tutti_status cancel(struct message_request *request)
{
    struct tutti_comm *comm = request->base.comm;
    if (!domain_try_lock(&comm->team.domain)) return cancel_in_line(comm, request);
    const enum tutti_status status = message_take_back(comm, request);
    health_unlock(&comm->health);
    return status;
}

enum tutti_status tutti_cancel(struct tutti_request **request)
{
    if (request == NULL || *request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_cancel: the request is NULL");
    struct tutti_request *cancelled = *request;
    if (cancelled->comm == NULL) return TUTTI_IN_PROGRESS;
    TRY(communicator_check_handle(cancelled->comm, "cancel"));
    if (!cancelled->is_message || request_message(cancelled)->call.is_send)
        return error_set(TUTTI_UNSUPPORTED,
                         "tutti_cancel: %s cannot be taken back, other ranks know of it or wait "
                         "for it; tutti_comm_revoke and tutti_comm_abort end all",
                         cancelled->is_message ? "a send" : "a collective");
    if (atomic_load_explicit(&cancelled->done, memory_order_acquire)) return TUTTI_IN_PROGRESS;
    TRY(cancel(request_message(cancelled)));
    return call_collect(request);
}
