/* start.c - starting: calls, and operations that were prepared. */
#include <sched.h>
#include <stdlib.h>

#include "base/status.h"
#include "call/begin.h"
#include "call/complete.h"
#include "call/faulted.h"
#include "call/message.h"
#include "call/on_device.h"
#include "call/program.h"
#include "call/progress.h"
#include "call/request.h"
#include "call/staged.h"
#include "call/start.h"
#include "health/failure.h"
#include "health/lock.h"

static struct call_request *take_request(struct tutti_comm *comm)
{
    struct tutti_request *request = request_take_free(&comm->requests.free);
    if (request == NULL) request = request_make(comm, false, &comm->requests.free);
    if (request == NULL) return NULL;
    request_reset(comm, request);
    struct call_request *const call = request_call(request);
    call->program = NULL;
    return call;
}

enum tutti_status request_start(struct tutti_comm *comm, struct call_request *request)
{
    if (domain_try_lock(&comm->team.domain)) {
        const enum tutti_status status = calls_start_held(comm, request);
        if (request->base.is_grouped)
            domain_unlock(&comm->team.domain);
        else
            health_unlock(&comm->health);
        TRY(status);
    } else {
        if (request->program == NULL && comm->team.size > 1 && request->call->refused == TUTTI_OK)
            TRY(call_program_check(comm, request->call));
        calls_count_started(comm, request);
        request_enqueue(comm, &comm->requests.queue, &request->base);
        if (comm->team.size > 1)
            comm->team.transports.set.all->ops->wake(
                comm->team.transports.set.all); /* the thread that has the domain begins it */
    }
    if (!request->base.is_grouped && !atomic_load_explicit(&request->base.done, memory_order_acquire))
        progress_notify();
    return TUTTI_OK;
}

/* In a communicator of one rank only a gate can make a call wait. */
static enum tutti_status start_alone(struct tutti_comm *comm, struct call_request *request)
{
    if (call_has_gate(request->call)) {
        TRY(domain_register(&comm->team.domain));
        return request_start(comm, request);
    }
    call_alone(comm, request->call);
    request_finish(&request->base, TUTTI_OK);
    return TUTTI_OK;
}

/* With its worker on the stream before, if it needs one. */
static enum tutti_status start_call(struct tutti_comm *comm, struct call_request *request)
{
    const bool is_on_device = call_is_on_device(request->call);
    enum tutti_status status = TUTTI_OK;
    if (is_on_device) status = on_device_begin(comm, request->call);
    if (status != TUTTI_OK) return faulted_refused(comm, request->call, status);
    status = comm->team.size == 1 ? start_alone(comm, request) : request_start(comm, request);
    if (status != TUTTI_OK && is_on_device) on_device_cancel(request->call);
    return status;
}

static enum tutti_status start(struct tutti_comm *comm, struct call *call, bool is_grouped,
                               struct tutti_request **request)
{
    if (board_has_failed(comm->health.board)) return health_check(&comm->health);
    if (comm->team.size > 1 && !is_grouped) TRY(domain_register(&comm->team.domain));
    struct call_request *started = take_request(comm);
    if (started == NULL) return error_set(TUTTI_NO_MEMORY, "starting an operation: out of memory");
    started->base.is_grouped = is_grouped;
    call->what.started = true;
    started->own = *call;
    const enum tutti_status status = start_call(comm, started);
    if (status != TUTTI_OK) {
        started->own.extra = NULL; /* the caller has it */
        request_give_back(&started->base);
        return status;
    }
    call->extra = NULL; /* the request has it */
    *request = &started->base;
    return TUTTI_OK;
}

enum tutti_status call_start(struct tutti_comm *comm, struct call *call, bool is_grouped,
                             struct tutti_request **request)
{
    *request = NULL;
    const enum tutti_status status = start(comm, call, is_grouped, request);
    call_free_extra(call->extra);
    return status;
}

enum tutti_status call_unattended(struct tutti_comm *comm, struct call *call)
{
    struct tutti_request *request;
    TRY(call_start(comm, call, false, &request));
    request->is_owned = false;
    int seen = EVENT_NONE;
    /* Release: pairs with request_finish, which then has the request alone. */
    if (atomic_compare_exchange_strong_explicit(&request->event, &seen, EVENT_DETACHED,
                                                memory_order_release, memory_order_relaxed))
        return TUTTI_OK;
    /* The thread that finishes the request is between two stores. */
    while (!atomic_load_explicit(&request->done, memory_order_acquire)) sched_yield();
    return call_collect(&request);
}

/* ------------------------------------------------------------------------------------- prepared */

/* In a child of fork() a thread that does not exist there may hold the lock: then no thread goes
 * through the list again either. */
static void take_out(struct tutti_comm *comm, struct tutti_prepared *prepared)
{
    if (!communicator_is_foreign(comm))
        pthread_mutex_lock(&comm->requests.lock);
    else if (pthread_mutex_trylock(&comm->requests.lock) != 0)
        return;
    if (prepared->previous != NULL)
        prepared->previous->next = prepared->next;
    else
        comm->requests.prepared = prepared->next;
    if (prepared->next != NULL) prepared->next->previous = prepared->previous;
    pthread_mutex_unlock(&comm->requests.lock);
}

/* All that can fail later is done now, but for the links of the slots it will run in. */
static enum tutti_status prepare_program(struct tutti_comm *comm, struct call_request *request)
{
    TRY(domain_register(&comm->team.domain));
    TRY(health_lock(&comm->health, request->call->timeout_ns));
    enum tutti_status status = call_find_program(comm, request);
    if (status == TUTTI_OK) status = operation_make_room(&request->operation, request->program);
    health_unlock(&comm->health);
    return status;
}

enum tutti_status call_prepare(struct tutti_comm *comm, struct call *call,
                               struct tutti_prepared **prepared)
{
    *prepared = NULL;
    struct tutti_prepared *made = request_make_prepared(comm, false);
    if (made == NULL) {
        call_free_extra(call->extra);
        return error_set(TUTTI_NO_MEMORY, "preparing an operation: out of memory");
    }
    call->what.started = true;
    made->call.own = *call;
    if (comm->team.size > 1) {
        const enum tutti_status status = prepare_program(comm, &made->call);
        if (status != TUTTI_OK) {
            const enum tutti_status told = faulted_refused(comm, call, status);
            tutti_prepared_free(made);
            return told;
        }
    }
    *prepared = made;
    return TUTTI_OK;
}

enum tutti_status tutti_start(struct tutti_prepared *prepared, struct tutti_request **request)
{
    if (request == NULL)
        return error_set(TUTTI_INVALID_REQUEST,
                         "tutti_start: request must be the address of a pointer, is NULL");
    *request = NULL;
    if (prepared == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_start: the prepared operation is NULL");
    struct tutti_request *started = &prepared->request;
    struct tutti_comm *comm = started->comm;
    if (comm == NULL)
        return error_set(TUTTI_INVALID_COMM, "tutti_start: the communicator was freed");
    TRY(communicator_check_handle(comm, "start"));
    if (prepared->runs)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_start: it runs; wait for it first");
    if (board_has_failed(comm->health.board)) return health_check(&comm->health);
    request_reset(comm, started);
    if (started->is_message) {
        const struct message_call *const message = &prepared->message.call;
        if (message_is_staged(message)) {
            const enum tutti_status loaded = staged_load(comm, message);
            if (loaded != TUTTI_OK) return faulted_message(comm, message, loaded);
        }
        TRY(message_begin(comm, &prepared->message));
    } else {
        TRY(start_call(comm, &prepared->call));
    }
    prepared->runs = true;
    *request = started;
    return TUTTI_OK;
}

enum tutti_status tutti_prepared_free(struct tutti_prepared *prepared)
{
    if (prepared == NULL) return TUTTI_OK;
    struct tutti_comm *comm = prepared->request.comm;
    if (prepared->runs)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_prepared_free: it runs; wait for it first");
    const bool is_call = !prepared->request.is_message;
    if (handle_is_known(comm)) {
        if (is_call && prepared->call.program != NULL && !communicator_is_foreign(comm)) {
            TRY(health_lock_failed(&comm->health, comm->team.settings.timeout_ns));
            call_program_release(prepared->call.program);
            health_unlock(&comm->health);
        }
        take_out(comm, prepared);
    }
    if (is_call) {
        operation_release(&prepared->call.operation);
        call_free_extra(prepared->call.own.extra);
    } else {
        staged_free(&prepared->message.call);
    }
    free(prepared);
    return TUTTI_OK;
}
