/* message_call.c - sending and receiving: blocking, started and prepared. */
#include "call/message_call.h"
#include "base/status.h"
#include "call/communicator.h"
#include "call/faulted.h"
#include "call/message.h"
#include "call/progress.h"
#include "call/request.h"
#include "call/staged.h"
#include "health/failure.h"
#include "health/lock.h"

static enum tutti_status start(struct tutti_comm *comm, struct message_call *call,
                               struct tutti_request **request)
{
    if (board_has_failed(comm->health.board)) return health_check(&comm->health);
    if (message_is_staged(call)) {
        const enum tutti_status loaded = staged_make_and_load(comm, call);
        if (loaded != TUTTI_OK) return faulted_message(comm, call, loaded);
    }
    const bool has_domain = domain_try_lock(&comm->team.domain);
    struct message_request *started = message_request_make(comm, has_domain);
    enum tutti_status status = TUTTI_OK;
    if (started == NULL) {
        status = error_set(TUTTI_NO_MEMORY, "a message: out of memory");
    } else {
        started->call = *call;
        if (has_domain)
            status = message_begin_held(comm, started);
        else
            message_enqueue(comm, started);
        if (status != TUTTI_OK) {
            started->call.staging = NULL; /* the caller has it */
            request_give_back(&started->base);
        }
    }
    if (has_domain) health_unlock(&comm->health);
    if (status == TUTTI_OK)
        *request = &started->base;
    else
        staged_free(call);
    return status;
}

enum tutti_status message_call_start(struct tutti_comm *comm, struct message_call *call,
                                     bool is_grouped, struct tutti_request **request)
{
    if (is_grouped) return start(comm, call, request);
    TRY(domain_register(&comm->team.domain));
    TRY(start(comm, call, request));
    if (!atomic_load_explicit(&(*request)->done, memory_order_acquire)) progress_notify();
    return TUTTI_OK;
}

enum tutti_status message_call_run(struct tutti_comm *comm, struct message_call *call)
{
    struct tutti_request *request;
    TRY(start(comm, call, &request));
    return tutti_wait(&request);
}

enum tutti_status message_call_prepare(struct tutti_comm *comm, struct message_call *call,
                                       struct tutti_prepared **prepared)
{
    TRY(domain_register(&comm->team.domain));
    if (message_is_staged(call)) TRY(staged_make(call));
    struct tutti_prepared *made = request_make_prepared(comm, true);
    if (made == NULL) {
        staged_free(call);
        return error_set(TUTTI_NO_MEMORY, "preparing a message: out of memory");
    }
    made->message.call = *call;
    *prepared = made;
    return TUTTI_OK;
}
