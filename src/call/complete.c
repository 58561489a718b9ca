/* complete.c - the end of a started operation: waiting, testing, being told. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "base/status.h"
#include "call/communicator.h"
#include "call/complete.h"
#include "call/faulted.h"
#include "call/orphans.h"
#include "call/progress.h"
#include "call/request.h"
#include "call/staged.h"
#include "call/wait_loop.h"
#include "health/lock.h"

/* The end of a message through memory of the host. The bytes that it received are copied now, by
 * the thread that waits for it. */
static enum tutti_status end_staged(struct message_request *done)
{
    enum tutti_status status = TUTTI_OK;
    if (done->base.status == TUTTI_OK)
        status = staged_unload(&done->call, done->message.received_bytes);
    if (status != TUTTI_OK && done->base.comm != NULL)
        status = faulted_message(done->base.comm, &done->call, status);
    if (!done->base.is_prepared) staged_free(&done->call);
    return status;
}

enum tutti_status call_collect(struct tutti_request **request)
{
    struct tutti_request *done = *request;
    enum tutti_status status = done->status;
    if (status != TUTTI_OK) {
        if (done->comm != NULL) trace_dump_failure(&done->comm->health);
        error_set(status, "%s", done->error);
    }
    if (done->is_message && message_is_staged(&request_message(done)->call)) {
        const enum tutti_status ended = end_staged(request_message(done));
        if (status == TUTTI_OK) status = ended;
    }
    *request = NULL;
    if (done->is_prepared)
        ((struct tutti_prepared *)done)->runs = false;
    else if (done->comm == NULL)
        orphans_free(done);
    else
        request_give_back(done);
    return status;
}

enum tutti_status tutti_wait(struct tutti_request **request)
{
    if (request == NULL || *request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_wait: the request is NULL");
    struct tutti_request *waited = *request;
    if (waited->comm == NULL) return call_collect(request);
    TRY(communicator_check_handle(waited->comm, "wait"));
    if (!atomic_load_explicit(&waited->done, memory_order_acquire)) {
        atomic_store_explicit(&waited->is_waited_for, true, memory_order_relaxed);
        call_await_started(waited->comm, waited);
    }
    return call_collect(request);
}

enum tutti_status tutti_test(struct tutti_request **request)
{
    if (request == NULL || *request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_test: the request is NULL");
    struct tutti_request *tested = *request;
    struct tutti_comm *comm = tested->comm;
    if (comm == NULL) return call_collect(request);
    TRY(communicator_check_handle(comm, "test"));
    if (!atomic_load_explicit(&tested->done, memory_order_acquire) &&
        domain_try_lock(&comm->team.domain)) {
        calls_progress(comm);
        health_unlock(&comm->health);
    }
    if (!atomic_load_explicit(&tested->done, memory_order_acquire)) return TUTTI_IN_PROGRESS;
    return call_collect(request);
}

enum tutti_status tutti_notify(struct tutti_request *request, int event_fd)
{
    if (request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_notify: the request is NULL");
    if (request->comm != NULL) TRY(communicator_check_handle(request->comm, "notify"));
    if (fcntl(event_fd, F_GETFD) < 0)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_notify: %d is not a descriptor", event_fd);
    int seen = EVENT_NONE;
    if (atomic_compare_exchange_strong_explicit(&request->event, &seen, ~event_fd,
                                                memory_order_relaxed, memory_order_relaxed))
        return TUTTI_OK;
    if (seen != EVENT_DONE)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_notify: it has a descriptor already");
    /* The thread that finishes the request is between two stores. Whoever is told must find the
     * request done. */
    while (!atomic_load_explicit(&request->done, memory_order_acquire)) sched_yield();
    request_tell_event(event_fd);
    return TUTTI_OK;
}
