/* request.c - requests: where free ones come from and go to, lines in which they wait, and how one
 * ends. Nothing here moves anything. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/status.h"
#include "call/communicator.h"
#include "call/on_device.h"
#include "call/orphans.h"
#include "call/program.h"
#include "call/request.h"
#include "call/staged.h"
#include "health/failure.h"

const struct call call_blank;

/* -------------------------------------------------------------------------------- free requests */

static void init(struct tutti_comm *comm, struct tutti_request *request, bool is_message)
{
    request->is_message = is_message;
    if (is_message) return;
    struct call_request *const call = request_call(request);
    call->call = &call->own;
    operation_init(&call->operation, team_spin_budget(&comm->team));
}

struct tutti_request *request_make(struct tutti_comm *comm, bool is_message,
                                   struct tutti_request *_Atomic *home)
{
    struct tutti_request *request =
        calloc(1, is_message ? sizeof(struct message_request) : sizeof(struct call_request));
    if (request == NULL) return NULL;
    init(comm, request, is_message);
    request->home = home;
    pthread_mutex_lock(&comm->requests.lock);
    request->next_made = comm->requests.all;
    comm->requests.all = request;
    pthread_mutex_unlock(&comm->requests.lock);
    return request;
}

void request_reset(struct tutti_comm *comm, struct tutti_request *request)
{
    request->comm = comm;
    request->status = TUTTI_OK;
    request->sequence = request->started_ns = request->left_ns = 0;
    if (request->is_message) {
        request_message(request)->record = 0;
    } else {
        struct call_request *const call = request_call(request);
        call->number = call->faulted_ns = call->crossed_ns = call->quit_ns = 0;
        call->operation.program = NULL; /* until it begins */
        call->operation.paths = 0;
        if (call->call->extra != NULL) call->call->extra->gate.is_told = false;
    }
    atomic_store_explicit(&request->is_waited_for, false, memory_order_relaxed);
    request->is_owned = true;
    request->next = NULL;
    request->error[0] = '\0';
    atomic_store_explicit(&request->event, EVENT_NONE, memory_order_relaxed);
    atomic_store_explicit(&request->done, false, memory_order_relaxed);
}

/* Only one thread takes at a time, so the first cannot go and come back between two looks. */
struct tutti_request *request_take_free(struct tutti_request *_Atomic *free_requests)
{
    struct tutti_request *request =
        atomic_load_explicit(free_requests, memory_order_acquire); /* pairs with request_give_back */
    while (request != NULL && !atomic_compare_exchange_weak_explicit(
                                  free_requests, &request,
                                  atomic_load_explicit(&request->next_free, memory_order_relaxed),
                                  memory_order_acquire, memory_order_acquire)) {
    }
    return request;
}

void request_give_back(struct tutti_request *request)
{
    request->is_owned = false;
    struct tutti_request *first = atomic_load_explicit(request->home, memory_order_relaxed);
    do atomic_store_explicit(&request->next_free, first, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(request->home, &first, request,
                                                  memory_order_release, memory_order_relaxed));
}

struct tutti_prepared *request_make_prepared(struct tutti_comm *comm, bool is_message)
{
    struct tutti_prepared *made = calloc(1, sizeof *made);
    if (made == NULL) return NULL;
    init(comm, &made->request, is_message);
    made->request.comm = comm;
    made->request.is_prepared = true;
    pthread_mutex_lock(&comm->requests.lock);
    made->next = comm->requests.prepared;
    if (made->next != NULL) made->next->previous = made;
    comm->requests.prepared = made;
    pthread_mutex_unlock(&comm->requests.lock);
    return made;
}

/* --------------------------------------------------------------------------------------- queues */

void request_enqueue(struct tutti_comm *comm, struct request_queue *queue,
                     struct tutti_request *request)
{
    pthread_mutex_lock(&comm->requests.lock);
    if (queue->last != NULL)
        queue->last->next = request;
    else
        queue->first = request;
    queue->last = request;
    atomic_fetch_add_explicit(&queue->count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&comm->requests.lock);
}

struct tutti_request *request_dequeue(struct tutti_comm *comm, struct request_queue *queue)
{
    if (atomic_load_explicit(&queue->count, memory_order_relaxed) == 0) return NULL;
    pthread_mutex_lock(&comm->requests.lock);
    struct tutti_request *request = queue->first;
    if (request != NULL) queue->first = request->next;
    if (queue->first == NULL) queue->last = NULL;
    pthread_mutex_unlock(&comm->requests.lock);
    return request;
}

/* ------------------------------------------------------------------------------- the end of one */

/* A counter that is full already says what this would. */
void request_tell_event(int event_fd)
{
    const uint64_t one = 1;
    while (write(event_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

/* Releases what only a prepared call keeps when it is done. */
static void release_program(struct call_request *request)
{
    if (request->program != NULL) call_program_release(request->program);
    request->program = NULL;
    call_free_extra(request->call->extra);
    request->call->extra = NULL;
}

void request_finish(struct tutti_request *request, enum tutti_status status)
{
    struct tutti_comm *comm = request->comm;
    if (request->is_message) {
        recorder_end(&comm->health.message_recorder, request_message(request)->record, status,
                     false);
    } else {
        recorder_note_paths(&comm->health.recorder, request->sequence,
                            request_call(request)->operation.paths);
        recorder_end(&comm->health.recorder, request->sequence, status, false);
    }
    if (!request->is_prepared && !request->is_message) release_program(request_call(request));
    request->status = status;
    if (status != TUTTI_OK) {
        strncpy(request->error, tutti_error_message(), sizeof request->error - 1);
        request->error[sizeof request->error - 1] = '\0';
    }
    /* Once the request is done its owner may take it, so all that is asked of it comes before. */
    const int event = atomic_exchange_explicit(&request->event, EVENT_DONE, memory_order_acquire);
    atomic_store_explicit(&request->done, true,
                          memory_order_release); /* pairs with tutti_wait and tutti_test */
    if (event == EVENT_DETACHED)
        request_give_back(request);
    else if (event != EVENT_NONE)
        request_tell_event(~event);
}

/* In a child of fork(), and only there, the request may be under way: for ever. */
static void outlive(struct tutti_request *request)
{
    if (!atomic_load_explicit(&request->done, memory_order_acquire)) {
        request->status = TUTTI_INVALID_COMM;
        snprintf(request->error, sizeof request->error,
                 "it was started before fork(), on a communicator that this process has freed");
        atomic_store_explicit(&request->done, true, memory_order_release);
    }
    if (request->is_message) {
        /* The owner of the request may still ask for the data that was received. */
        struct message_call *const message = &request_message(request)->call;
        if (message->is_send || request->status != TUTTI_OK) staged_free(message);
        return;
    }
    struct call_request *const call = request_call(request);
    operation_release(&call->operation);
    call_free_extra(call->call->extra);
    call->call->extra = NULL;
}

void requests_free(struct tutti_comm *comm)
{
    while (comm->requests.all != NULL) {
        struct tutti_request *request = comm->requests.all;
        comm->requests.all = request->next_made;
        outlive(request);
        if (request->is_owned)
            orphans_add(request);
        else
            free(request);
    }
    while (comm->requests.prepared != NULL) {
        struct tutti_prepared *prepared = comm->requests.prepared;
        comm->requests.prepared = prepared->next;
        if (!prepared->request.is_message && prepared->call.program != NULL) {
            call_program_release(prepared->call.program);
            prepared->call.program = NULL;
        }
        outlive(&prepared->request);
        prepared->request.comm = NULL;
    }
}

/* --------------------------------------------------------------------------- its name in errors */

void message_describe(const struct message_call *call, char *text, size_t text_bytes)
{
    char peer[24] = "any rank", tag[24] = "any tag";
    if (call->peer != TUTTI_ANY_RANK) snprintf(peer, sizeof peer, "rank %d", call->peer);
    if (call->tag != TUTTI_ANY_TAG) snprintf(tag, sizeof tag, "tag %d", call->tag);
    snprintf(text, text_bytes, "%s(count %zu, %s, %s %s, %s)", call->is_send ? "send" : "recv",
             call->count, tutti_dtype_name(call->dtype), call->is_send ? "to" : "from", peer, tag);
}

void call_fail(struct tutti_comm *comm, const struct tutti_request *request,
               enum tutti_status status, int culprit, const char *format, ...)
{
    struct call_name name = {.sequence = 0};
    if (request != NULL) name.sequence = request->sequence;
    if (request != NULL && request->is_message)
        message_describe(&request_message_const(request)->call, name.what, sizeof name.what);
    else if (request != NULL)
        board_describe(&request_call_const(request)->call->what, name.what, sizeof name.what);
    va_list arguments;
    va_start(arguments, format);
    health_fail_with(&comm->health, request != NULL ? &name : NULL, status, culprit, format,
                     arguments);
    va_end(arguments);
}
