/* start.c - started and prepared calls: slots, the queue before them, and the requests that stand for them.
 *
 *     start ──domain free, slot free──► begun ──► done ──wait──► free again
 *       └────otherwise────► queued ──────┘
 *
 * Calls get their slots in the order of calling, whoever begins them.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/comm.h"
#include "comm/orphans.h"

/* ------------------------------------------------------------------------------------ free requests */

struct tutti_request *comm_make_request(struct tutti_comm *comm, struct tutti_request *_Atomic *home)
{
    struct tutti_request *request = calloc(1, sizeof *request);
    if (request == NULL) return NULL;
    request->home = home;
    operation_init(&request->operation, comm_patience(comm));
    pthread_mutex_lock(&comm->queue_lock);
    request->next_made = comm->requests;
    comm->requests = request;
    pthread_mutex_unlock(&comm->queue_lock);
    return request;
}

void comm_reset_request(struct tutti_comm *comm, struct tutti_request *request)
{
    request->comm = comm;
    request->status = TUTTI_OK;
    request->sequence = request->number = request->record = 0;
    request->started_ns = request->faulted_ns = request->crossed_ns = 0;
    atomic_store_explicit(&request->is_waited_for, false, memory_order_relaxed);
    request->is_owned = true;
    request->next = NULL;
    request->error[0] = '\0';
    atomic_store_explicit(&request->event, EVENT_NONE, memory_order_relaxed);
    atomic_store_explicit(&request->done, false, memory_order_relaxed);
}

/* Only one thread takes at a time, so the first cannot go and come back between two looks. */
struct tutti_request *comm_take_free(struct tutti_request *_Atomic *free_requests)
{
    struct tutti_request *request =
        atomic_load_explicit(free_requests, memory_order_acquire); /* pairs with comm_give_back */
    while (request != NULL && !atomic_compare_exchange_weak_explicit(
                                  free_requests, &request,
                                  atomic_load_explicit(&request->next_free, memory_order_relaxed),
                                  memory_order_acquire, memory_order_acquire)) {
    }
    return request;
}

void comm_give_back(struct tutti_request *request)
{
    request->is_owned = false;
    struct tutti_request *first = atomic_load_explicit(request->home, memory_order_relaxed);
    do atomic_store_explicit(&request->next_free, first, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(request->home, &first, request,
                                                  memory_order_release, memory_order_relaxed));
}

static struct tutti_request *take_request(struct tutti_comm *comm)
{
    struct tutti_request *request = comm_take_free(&comm->free_requests);
    if (request == NULL) request = comm_make_request(comm, &comm->free_requests);
    if (request == NULL) return NULL;
    request->program = NULL;
    comm_reset_request(comm, request);
    return request;
}

/* ------------------------------------------------------------------------------------------- in line */

void comm_line_up(struct tutti_comm *comm, struct request_line *line, struct tutti_request *request)
{
    pthread_mutex_lock(&comm->queue_lock);
    if (line->last != NULL)
        line->last->next = request;
    else
        line->first = request;
    line->last = request;
    atomic_fetch_add_explicit(&line->count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&comm->queue_lock);
}

struct tutti_request *comm_line_first(struct tutti_comm *comm, struct request_line *line)
{
    if (atomic_load_explicit(&line->count, memory_order_relaxed) == 0) return NULL;
    pthread_mutex_lock(&comm->queue_lock);
    struct tutti_request *request = line->first;
    if (request != NULL) line->first = request->next;
    if (line->first == NULL) line->last = NULL;
    pthread_mutex_unlock(&comm->queue_lock);
    return request;
}

/* -------------------------------------------------------------------------- what is under way, in order */

static void add_running(struct tutti_comm *comm, struct tutti_request *request)
{
    int at = comm->running_count++;
    for (; at > 0 && comm->order[at - 1]->call.priority < request->call.priority; at--)
        comm->order[at] = comm->order[at - 1];
    comm->order[at] = request;
    comm->running[request->slot] = request;
    atomic_store_explicit(&comm->outstanding, (uint32_t)comm->running_count, memory_order_relaxed);
}

static void remove_running(struct tutti_comm *comm, struct tutti_request *request)
{
    int at = 0;
    while (comm->order[at] != request) at++;
    comm->running_count--;
    for (; at < comm->running_count; at++) comm->order[at] = comm->order[at + 1];
    comm->running[request->slot] = NULL;
    atomic_store_explicit(&comm->outstanding, (uint32_t)comm->running_count, memory_order_relaxed);
}

/* A counter that is full already says what this would. */
static void tell(int event_fd)
{
    const uint64_t one = 1;
    while (write(event_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void comm_finish_request(struct tutti_request *request, enum tutti_status status)
{
    struct tutti_comm *comm = request->comm;
    if (request->is_message)
        recorder_end(&comm->message_recorder, request->record, status, false);
    else
        recorder_end(&comm->recorder, request->sequence, status, false);
    if (!request->is_prepared && !request->is_message) {
        if (request->program != NULL) comm_program_release(request->program);
        request->program = NULL;
        free(request->call.extra);
        request->call.extra = NULL;
    }
    request->status = status;
    if (status != TUTTI_OK) {
        strncpy(request->error, tutti_error_message(), sizeof request->error - 1);
        request->error[sizeof request->error - 1] = '\0';
    }
    /* Once it is done somebody may take it: what is asked of it comes before. */
    const int event = atomic_exchange_explicit(&request->event, EVENT_DONE, memory_order_relaxed);
    atomic_store_explicit(&request->done, true,
                          memory_order_release); /* pairs with tutti_wait and tutti_test */
    if (event != EVENT_NONE) tell(~event);
}

/* The slot of the next call to begin. */
static int next_slot(const struct tutti_comm *comm)
{
    return 1 + (int)(comm->begun_started % STARTED_SLOT_COUNT);
}

/* Begins a call in the next slot, which is free; its program is there, or was tried for with that status. The
 * other ranks wait for it: if it cannot begin, it fails everywhere. */
static void begin_started(struct tutti_comm *comm, struct tutti_request *request,
                          enum tutti_status status)
{
    request->slot = next_slot(comm);
    comm->begun_started++;
    if (status == TUTTI_OK) status = comm_begin(comm, request);
    if (status == TUTTI_OK) {
        comm_record(comm, request, clock_ticks());
        add_running(comm, request);
        return;
    }
    if (!board_has_failed(comm->board))
        comm_fail(comm, request, status, comm->rank, "%s", tutti_error_message());
    comm_finish_request(request, comm_check(comm));
}

static enum tutti_status find_program(struct tutti_comm *comm, struct tutti_request *request)
{
    if (request->program != NULL) return TUTTI_OK; /* prepared */
    TRY(comm_program(comm, &request->call, &request->program));
    comm_program_hold(request->program);
    return TUTTI_OK;
}

/* Gives the next queued call its slot if that is free; false when there is nothing to do. */
static bool begin_next(struct tutti_comm *comm)
{
    if (comm->running[next_slot(comm)] != NULL) return false;
    struct tutti_request *request = comm_line_first(comm, &comm->queue);
    if (request == NULL) return false;
    enum tutti_status status = board_has_failed(comm->board) ? comm_check(comm) : TUTTI_OK;
    if (status == TUTTI_OK) status = find_program(comm, request);
    begin_started(comm, request, status);
    atomic_fetch_sub_explicit(&comm->queue.count, 1, memory_order_release);
    return true;
}

static bool run_one(struct tutti_comm *comm, struct tutti_request *request)
{
    enum tutti_status status = TUTTI_OK;
    request->operation.impatient = comm->looks_rarely;
    enum run_result result =
        board_has_failed(comm->board) ? RUN_FAULT : operation_run(&request->operation);
    if (result == RUN_FAULT) {
        if (!board_has_failed(comm->board) &&
            !comm_fault(comm, request, request->operation.fault_peer))
            return false;
        status = comm_check(comm);
        comm_quiesce(comm, request);
    } else if (result != RUN_DONE) {
        return result == RUN_MOVED;
    }
    remove_running(comm, request);
    if (comm->report.is_open) comm_end_report(comm, request);
    straggler_end(comm, request);
    board_end(board_calls(comm->board, comm->size, comm->rank, request->slot), request->begun);
    comm_finish_request(request, status);
    return true;
}

bool comm_progress(struct tutti_comm *comm)
{
    bool moved = comm->network != NULL && comm_network_progress(comm);
    while (begin_next(comm)) moved = true;
    int urgency = 0;
    bool urgent_moved = false;
    for (int i = 0; i < comm->running_count;) {
        struct tutti_request *request = comm->order[i];
        if (urgent_moved && request->call.priority < urgency) break;
        urgency = request->call.priority;
        if (run_one(comm, request)) moved = urgent_moved = true;
        i += i < comm->running_count && comm->order[i] == request;
    }
    if (board_has_messages(comm->board) ||
        atomic_load_explicit(&comm->message_queue.count, memory_order_relaxed) > 0)
        moved |= comm_messages_progress(comm);
    return moved;
}

/* ------------------------------------------------------------------------------------------- starting */

/* Several threads may come here at once: who is registered already is not registered again. */
enum tutti_status comm_ensure_progress(struct tutti_comm *comm)
{
    if (atomic_load_explicit(&comm->client_registered, memory_order_relaxed)) return TUTTI_OK;
    TRY(progress_register(&comm->client));
    atomic_store_explicit(&comm->client_registered, true, memory_order_relaxed);
    return TUTTI_OK;
}

/* Of a call that is made now: by one thread at a time. */
static void count(struct tutti_comm *comm, struct tutti_request *request)
{
    request->sequence = comm_next_sequence(comm);
    request->number = ++comm->started_calls;
    board_set_started(comm->board, comm->rank, request->number);
}

/* With the domain held: at once, if nothing is before it. What can be refused is refused here: later it would fail
 * all ranks. */
static enum tutti_status start_locked(struct tutti_comm *comm, struct tutti_request *request)
{
    const enum tutti_status status = find_program(comm, request);
    if (status == TUTTI_INVALID_ALGORITHM || status == TUTTI_UNSUPPORTED) return status;
    count(comm, request);
    if (atomic_load_explicit(&comm->queue.count, memory_order_relaxed) > 0 ||
        comm->running[next_slot(comm)] != NULL) {
        comm_line_up(comm, &comm->queue, request);
        comm_progress(comm);
        return TUTTI_OK;
    }
    begin_started(comm, request, status);
    if (atomic_load_explicit(&request->done, memory_order_relaxed)) return TUTTI_OK;
    /* A first piece of it, and of what is as urgent. */
    if (comm->running_count == 1)
        run_one(comm, request);
    else
        comm_progress(comm);
    return TUTTI_OK;
}

enum tutti_status comm_start_request(struct tutti_comm *comm, struct tutti_request *request)
{
    if (comm_try_lock(comm)) {
        const enum tutti_status status = start_locked(comm, request);
        if (request->is_grouped)
            comm_unlock_for_now(comm);
        else
            comm_unlock(comm);
        TRY(status);
    } else {
        if (request->program == NULL) TRY(comm_program_check(comm, &request->call));
        count(comm, request);
        comm_line_up(comm, &comm->queue, request);
        comm->transport->ops->wake(comm->transport); /* whoever has the domain begins it */
    }
    if (!request->is_grouped && !atomic_load_explicit(&request->done, memory_order_acquire))
        progress_notify();
    return TUTTI_OK;
}

static enum tutti_status start(struct tutti_comm *comm, struct call *call, bool is_grouped,
                               struct tutti_request **request)
{
    if (board_has_failed(comm->board)) return comm_check(comm);
    if (comm->size > 1 && !is_grouped) TRY(comm_ensure_progress(comm));
    struct tutti_request *started = take_request(comm);
    if (started == NULL) return error_set(TUTTI_NO_MEMORY, "starting an operation: out of memory");
    started->is_grouped = is_grouped;
    call->what.started = true;
    started->call = *call;
    if (comm->size == 1) {
        comm_call_alone(comm, call);
        comm_finish_request(started, TUTTI_OK);
    } else {
        const enum tutti_status status = comm_start_request(comm, started);
        if (status != TUTTI_OK) {
            comm_give_back(started);
            return status;
        }
    }
    call->extra = NULL; /* the request has it */
    *request = started;
    return TUTTI_OK;
}

enum tutti_status comm_call_start(struct tutti_comm *comm, struct call *call, bool is_grouped,
                                  struct tutti_request **request)
{
    *request = NULL;
    const enum tutti_status status = start(comm, call, is_grouped, request);
    free(call->extra);
    return status;
}

/* ------------------------------------------------------------------------------------------- prepared */

struct tutti_prepared *comm_make_prepared(struct tutti_comm *comm)
{
    struct tutti_prepared *made = calloc(1, sizeof *made);
    if (made == NULL) return NULL;
    operation_init(&made->request.operation, comm_patience(comm));
    made->request.comm = comm;
    made->request.is_prepared = true;
    pthread_mutex_lock(&comm->queue_lock);
    made->next = comm->prepared;
    if (made->next != NULL) made->next->previous = made;
    comm->prepared = made;
    pthread_mutex_unlock(&comm->queue_lock);
    return made;
}

/* In a child of fork() somebody who is not there may hold the lock: then nobody goes through the list again either. */
static void take_out(struct tutti_comm *comm, struct tutti_prepared *prepared)
{
    if (!comm_is_foreign(comm))
        pthread_mutex_lock(&comm->queue_lock);
    else if (pthread_mutex_trylock(&comm->queue_lock) != 0)
        return;
    if (prepared->previous != NULL)
        prepared->previous->next = prepared->next;
    else
        comm->prepared = prepared->next;
    if (prepared->next != NULL) prepared->next->previous = prepared->previous;
    pthread_mutex_unlock(&comm->queue_lock);
}

/* All that can fail later is done now, but for the links of the slots it will run in. */
static enum tutti_status prepare_program(struct tutti_comm *comm, struct tutti_request *request)
{
    TRY(comm_ensure_progress(comm));
    TRY(comm_lock(comm, request->call.timeout_ns));
    enum tutti_status status = find_program(comm, request);
    if (status == TUTTI_OK) status = operation_make_room(&request->operation, request->program);
    comm_unlock(comm);
    return status;
}

enum tutti_status comm_call_prepare(struct tutti_comm *comm, struct call *call,
                                    struct tutti_prepared **prepared)
{
    *prepared = NULL;
    struct tutti_prepared *made = comm_make_prepared(comm);
    if (made == NULL) {
        free(call->extra);
        return error_set(TUTTI_NO_MEMORY, "preparing an operation: out of memory");
    }
    call->what.started = true;
    made->request.call = *call;
    if (comm->size > 1) {
        const enum tutti_status status = prepare_program(comm, &made->request);
        if (status != TUTTI_OK) {
            tutti_prepared_free(made);
            return status;
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
    TRY(comm_check_handle(comm, "start"));
    if (prepared->runs)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_start: it runs; wait for it first");
    if (board_has_failed(comm->board)) return comm_check(comm);
    comm_reset_request(comm, started);
    if (started->is_message) {
        TRY(comm_message_begin(comm, started));
    } else if (comm->size == 1) {
        comm_call_alone(comm, &started->call);
        comm_finish_request(started, TUTTI_OK);
    } else {
        TRY(comm_start_request(comm, started));
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
    if (handle_is_known(comm)) {
        if (prepared->request.program != NULL && !comm_is_foreign(comm)) {
            TRY(comm_lock_failed(comm, comm->timeout_ns));
            comm_program_release(prepared->request.program);
            comm_unlock(comm);
        }
        take_out(comm, prepared);
    }
    operation_release(&prepared->request.operation);
    free(prepared->request.call.extra);
    free(prepared);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------------- requests */

/* In a child of fork(), and only there, it may be under way: for ever. */
static void outlive(struct tutti_request *request)
{
    if (!atomic_load_explicit(&request->done, memory_order_acquire)) {
        request->status = TUTTI_INVALID_COMM;
        snprintf(request->error, sizeof request->error,
                 "it was started before fork(), on a communicator that this process has freed");
        atomic_store_explicit(&request->done, true, memory_order_release);
    }
    operation_release(&request->operation);
    free(request->call.extra);
    request->call.extra = NULL;
}

void comm_requests_free(struct tutti_comm *comm)
{
    while (comm->requests != NULL) {
        struct tutti_request *request = comm->requests;
        comm->requests = request->next_made;
        outlive(request);
        if (request->is_owned)
            orphans_add(request);
        else
            free(request);
    }
    while (comm->prepared != NULL) {
        struct tutti_prepared *prepared = comm->prepared;
        comm->prepared = prepared->next;
        if (prepared->request.program != NULL) comm_program_release(prepared->request.program);
        prepared->request.program = NULL;
        outlive(&prepared->request);
        prepared->request.comm = NULL;
    }
}

static enum tutti_status collect(struct tutti_request **request)
{
    struct tutti_request *done = *request;
    const enum tutti_status status = done->status;
    if (status != TUTTI_OK) {
        if (done->comm != NULL) trace_dump_failure(done->comm);
        error_set(status, "%s", done->error);
    }
    *request = NULL;
    if (done->is_prepared)
        ((struct tutti_prepared *)done)->runs = false;
    else if (done->comm == NULL)
        orphans_free(done);
    else
        comm_give_back(done);
    return status;
}

enum tutti_status tutti_wait(struct tutti_request **request)
{
    if (request == NULL || *request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_wait: the request is NULL");
    struct tutti_request *waited = *request;
    if (waited->comm == NULL) return collect(request);
    TRY(comm_check_handle(waited->comm, "wait"));
    if (!atomic_load_explicit(&waited->done, memory_order_acquire)) {
        atomic_store_explicit(&waited->is_waited_for, true, memory_order_relaxed);
        comm_drive_started(waited->comm, waited);
    }
    return collect(request);
}

enum tutti_status tutti_test(struct tutti_request **request)
{
    if (request == NULL || *request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_test: the request is NULL");
    struct tutti_request *tested = *request;
    struct tutti_comm *comm = tested->comm;
    if (comm == NULL) return collect(request);
    TRY(comm_check_handle(comm, "test"));
    if (!atomic_load_explicit(&tested->done, memory_order_acquire) && comm_try_lock(comm)) {
        comm_progress(comm);
        comm_unlock(comm);
    }
    if (!atomic_load_explicit(&tested->done, memory_order_acquire)) return TUTTI_IN_PROGRESS;
    return collect(request);
}

enum tutti_status tutti_cancel(struct tutti_request **request)
{
    if (request == NULL || *request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_cancel: the request is NULL");
    struct tutti_request *cancelled = *request;
    if (cancelled->comm == NULL) return TUTTI_IN_PROGRESS;
    TRY(comm_check_handle(cancelled->comm, "cancel"));
    if (!cancelled->is_message || cancelled->message_call.is_send)
        return error_set(TUTTI_UNSUPPORTED,
                         "tutti_cancel: %s cannot be taken back, other ranks know of it or wait "
                         "for it; tutti_comm_revoke and tutti_comm_abort end all",
                         cancelled->is_message ? "a send" : "a collective");
    if (atomic_load_explicit(&cancelled->done, memory_order_acquire)) return TUTTI_IN_PROGRESS;
    TRY(comm_message_cancel(cancelled));
    return collect(request);
}

enum tutti_status tutti_notify(struct tutti_request *request, int event_fd)
{
    if (request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_notify: the request is NULL");
    if (request->comm != NULL) TRY(comm_check_handle(request->comm, "notify"));
    if (fcntl(event_fd, F_GETFD) < 0)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_notify: %d is not a descriptor", event_fd);
    int seen = EVENT_NONE;
    if (atomic_compare_exchange_strong_explicit(&request->event, &seen, ~event_fd,
                                                memory_order_relaxed, memory_order_relaxed))
        return TUTTI_OK;
    if (seen != EVENT_DONE)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_notify: it has a descriptor already");
    /* Whoever finishes it is between two stores: who is told must find it done. */
    while (!atomic_load_explicit(&request->done, memory_order_acquire)) sched_yield();
    tell(event_fd);
    return TUTTI_OK;
}
