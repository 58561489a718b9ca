/* call.c - from a checked call to a running operation: the program cache, slots, and the queue. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/comm.h"
#include "tune/choose.h"

/* ---------------------------------------------------------------------------------------- programs */

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

/* What ranks must agree on: everything but addresses, whether it is in place, and the deadline. */
static uint64_t signature_of(const struct call *call, const char *algorithm)
{
    const struct call_description *what = &call->what;
    uint64_t hash =
        mixed(0x7475747469u, (uint64_t)what->collective | (uint64_t)what->dtype << 8 |
                                 (uint64_t)what->op << 16 | (uint64_t)what->started << 24);
    hash = mixed(hash, what->count);
    hash = mixed(hash, (uint64_t)(uint32_t)what->root);
    if (collective_reduces(what->collective)) hash = mixed(hash, call->op->identity);
    for (const char *c = algorithm; *c != '\0'; c++) hash = mixed(hash, (unsigned char)*c);
    return hash;
}

static bool is_same(const struct cached_program *cached, const struct call *call)
{
    const struct call_description *a = &cached->what, *b = &call->what;
    return cached->program != NULL && a->count == b->count && a->collective == b->collective &&
           a->dtype == b->dtype && a->op == b->op && a->root == b->root &&
           a->started == b->started && cached->in_place == call->in_place &&
           cached->deterministic == call->deterministic && cached->algorithm == call->algorithm &&
           cached->op_serial == call->op->serial;
}

static struct cached_program *cache_place(struct tutti_comm *comm, const struct call *call)
{
    const struct call_description *what = &call->what;
    uint64_t hash = mixed(what->count, (uint64_t)what->collective | (uint64_t)what->dtype << 8 |
                                           (uint64_t)what->op << 16 | (uint64_t)what->started << 24 |
                                           (uint64_t)call->in_place << 25 |
                                           (uint64_t)(uint32_t)what->root << 32);
    hash = mixed(hash, (uintptr_t)call->algorithm);
    return &comm->cache[hash >> 40 & (PROGRAM_CACHE_SIZE - 1)];
}

static enum tutti_status choose(const struct tutti_comm *comm, const struct call *call,
                                const struct algorithm **algorithm)
{
    const struct call_description *what = &call->what;
    const size_t element_bytes =
        what->collective == COLLECTIVE_BARRIER ? 1 : tutti_dtype_size(what->dtype);
    const struct choose_call wanted = {.collective = what->collective,
                                       .bytes = what->count * element_bytes,
                                       .rank_count = comm->size,
                                       .deterministic = call->deterministic,
                                       .algorithm =
                                           call->algorithm != NULL ? call->algorithm->name : NULL,
                                       .rules = comm->rules};
    return choose_algorithm(&wanted, algorithm);
}

static enum tutti_status make_program(struct tutti_comm *comm, const struct call *call,
                                      struct program **program)
{
    const struct call_description *what = &call->what;
    const struct algorithm *algorithm;
    TRY(choose(comm, call, &algorithm));
    const struct algo_params params = {.collective = what->collective,
                                       .rank_count = comm->size,
                                       .root = what->root,
                                       .in_place = call->in_place};
    struct rank_plan *plan;
    const char *message = "";
    const enum tutti_status built = algo_rank_plan(algorithm, &params, comm->rank, &plan, &message);
    if (built != TUTTI_OK)
        return error_set(built, "%s of %s: %s", algorithm->name, collective_name(what->collective),
                         message);
    struct bind_options options = {
        .count = what->count, .dtype = what->dtype, .op = call->op, .level = comm->level};
    comm->transport->ops->limits(comm->transport, &options.piece_bytes_max,
                                 &options.piece_count_max);
    const enum tutti_status status = bind_program(plan, &options, program);
    plan_rank_free(plan);
    if (status == TUTTI_OK) (*program)->signature = signature_of(call, algorithm->name);
    return status;
}

enum tutti_status comm_program(struct tutti_comm *comm, const struct call *call,
                               struct program **program)
{
    struct cached_program *place = cache_place(comm, call);
    if (__builtin_expect(is_same(place, call), 1)) {
        *program = place->program;
        return TUTTI_OK;
    }
    TRY(make_program(comm, call, program));
    /* A program that is being run is freed by whoever runs it, see release_program. */
    if (place->program != NULL && place->program->users == 0)
        program_free(place->program);
    else if (place->program != NULL)
        place->program->is_orphan = true;
    *place = (struct cached_program){call->what,      call->in_place,   call->deterministic,
                                     call->algorithm, call->op->serial, *program};
    return TUTTI_OK;
}

static void release_program(struct program *program)
{
    if (--program->users == 0 && program->is_orphan) program_free(program);
}

void comm_programs_free(struct tutti_comm *comm)
{
    for (int i = 0; i < PROGRAM_CACHE_SIZE; i++) program_free(comm->cache[i].program);
}

/* -------------------------------------------------------------------------------------- one rank alone */

/* A communicator of one: input becomes output. */
static void copy_alone(const struct call *call)
{
    if (call->what.collective == COLLECTIVE_BARRIER || call->send == call->recv) return;
    memmove(call->recv, call->send, call->what.count * tutti_dtype_size(call->what.dtype));
}

/* ----------------------------------------------------------------------------------------- blocking */

/* Calls of a communicator are issued by one thread at a time, so no read-modify-write is needed. */
static uint64_t next_sequence(struct tutti_comm *comm)
{
    const uint64_t sequence = atomic_load_explicit(&comm->sequence, memory_order_relaxed) + 1;
    atomic_store_explicit(&comm->sequence, sequence, memory_order_relaxed);
    return sequence;
}

static enum tutti_status begin(struct tutti_comm *comm, struct tutti_request *request)
{
    struct program *program = request->program;
    if (__builtin_expect(program->tx[request->slot] == NULL, 0))
        TRY(program_open_links(program, comm->transport, request->slot));
    TRY(operation_prepare(&request->operation, program, comm->transport, request->slot,
                          request->call.send, request->call.recv));
    request->call.what.signature = program->signature;
    request->begun = ++comm->slot_begun[request->slot];
    request->started_ns = 0;
    struct board_call *calls = board_calls(comm->board, comm->size, comm->rank, request->slot);
    board_begin(calls, &request->call.what, request->begun);
    /* Who fails looks at this after its fence (comm_quiesce), so one of the two sees the other. */
    atomic_signal_fence(memory_order_seq_cst);
    if (!board_has_failed(comm->board)) return TUTTI_OK;
    board_end(calls, request->begun);
    return comm_check(comm);
}

static enum tutti_status call_locked(struct tutti_comm *comm, const struct call *call)
{
    struct tutti_request *request = &comm->blocking;
    if (board_has_failed(comm->board)) return comm_check(comm);
    enum tutti_status status = comm_program(comm, call, &request->program);
    if (status == TUTTI_INVALID_ALGORITHM || status == TUTTI_UNSUPPORTED)
        return status; /* so it is on all ranks */
    request->call = *call;
    request->sequence = next_sequence(comm);
    if (status == TUTTI_OK) status = begin(comm, request);
    if (status != TUTTI_OK) {
        /* The other ranks wait for this call: it cannot fail here alone. */
        comm_fail(comm, request, status, comm->rank, "%s", tutti_error_message());
        return comm_check(comm);
    }
    request->program->users++; /* calls that begin while this one waits may take its place in the cache */
    if (operation_run(&request->operation) != RUN_DONE) status = comm_drive_blocking(comm, request);
    release_program(request->program);
    board_end(board_calls(comm->board, comm->size, comm->rank, 0), request->begun);
    return status;
}

enum tutti_status comm_call(struct tutti_comm *comm, const struct call *call)
{
    if (comm->size == 1) {
        if (board_has_failed(comm->board)) return comm_check(comm);
        copy_alone(call);
        return TUTTI_OK;
    }
    if (!comm_try_lock(comm)) TRY(comm_lock(comm, call->timeout_ns));
    const enum tutti_status status = call_locked(comm, call);
    comm_unlock(comm);
    return status;
}

/* ------------------------------------------------------------------------------------------ started */

static struct tutti_request *take_request(struct tutti_comm *comm)
{
    pthread_mutex_lock(&comm->queue_lock);
    struct tutti_request *request = comm->free_requests;
    if (request != NULL) comm->free_requests = request->next;
    pthread_mutex_unlock(&comm->queue_lock);
    if (request == NULL) {
        request = calloc(1, sizeof *request);
        if (request == NULL) return NULL;
        operation_init(&request->operation, comm_patience(comm));
        pthread_mutex_lock(&comm->queue_lock);
        request->next_made = comm->requests;
        comm->requests = request;
        pthread_mutex_unlock(&comm->queue_lock);
    }
    request->comm = comm;
    request->program = NULL;
    request->status = TUTTI_OK;
    request->started_ns = 0;
    request->next = NULL;
    request->message[0] = '\0';
    atomic_store_explicit(&request->done, false, memory_order_relaxed);
    return request;
}

static void give_back(struct tutti_comm *comm, struct tutti_request *request)
{
    pthread_mutex_lock(&comm->queue_lock);
    request->next = comm->free_requests;
    comm->free_requests = request;
    pthread_mutex_unlock(&comm->queue_lock);
}

static void finish(struct tutti_comm *comm, struct tutti_request *request, enum tutti_status status)
{
    if (request->program != NULL) {
        release_program(request->program);
        request->program = NULL;
    }
    request->status = status;
    if (status != TUTTI_OK) {
        strncpy(request->message, tutti_error_message(), sizeof request->message - 1);
        request->message[sizeof request->message - 1] = '\0';
    }
    atomic_fetch_sub_explicit(&comm->outstanding, 1, memory_order_relaxed);
    atomic_store_explicit(&request->done, true,
                          memory_order_release); /* pairs with tutti_wait and tutti_test */
}

/* Gives the next queued call its slot if that is free; false when there is nothing to do. */
static bool begin_next(struct tutti_comm *comm)
{
    const int slot = 1 + (int)(comm->begun_started % STARTED_SLOT_COUNT);
    if (comm->running[slot] != NULL) return false;
    pthread_mutex_lock(&comm->queue_lock);
    struct tutti_request *request = comm->queue_first;
    if (request != NULL) comm->queue_first = request->next;
    if (comm->queue_first == NULL) comm->queue_last = NULL;
    pthread_mutex_unlock(&comm->queue_lock);
    if (request == NULL) return false;

    comm->begun_started++;
    request->slot = slot;
    enum tutti_status status = board_has_failed(comm->board) ? comm_check(comm) : TUTTI_OK;
    if (status == TUTTI_OK) status = comm_program(comm, &request->call, &request->program);
    if (status == TUTTI_OK) {
        request->program->users++;
        status = begin(comm, request);
    }
    if (status != TUTTI_OK) {
        /* The other ranks wait for this call: it cannot fail here alone. */
        if (!board_has_failed(comm->board))
            comm_fail(comm, request, status, comm->rank, "%s", tutti_error_message());
        finish(comm, request, status);
        return true;
    }
    comm->running[slot] = request;
    comm->running_count++;
    return true;
}

static bool run_one(struct tutti_comm *comm, struct tutti_request *request)
{
    enum tutti_status status = TUTTI_OK;
    enum run_result result =
        board_has_failed(comm->board) ? RUN_FAULT : operation_run(&request->operation);
    if (result == RUN_FAULT) {
        if (!board_has_failed(comm->board))
            comm_fault(comm, request, request->operation.fault_peer);
        status = comm_check(comm);
        comm_quiesce(comm, request);
    } else if (result != RUN_DONE) {
        return result == RUN_MOVED;
    }
    comm->running[request->slot] = NULL;
    comm->running_count--;
    board_end(board_calls(comm->board, comm->size, comm->rank, request->slot), request->begun);
    finish(comm, request, status);
    return true;
}

bool comm_progress(struct tutti_comm *comm)
{
    bool moved = false;
    while (begin_next(comm)) moved = true;
    for (int slot = 1; slot <= STARTED_SLOT_COUNT && comm->running_count > 0; slot++)
        if (comm->running[slot] != NULL && run_one(comm, comm->running[slot])) moved = true;
    return moved;
}

static void enqueue(struct tutti_comm *comm, struct tutti_request *request)
{
    pthread_mutex_lock(&comm->queue_lock);
    request->sequence = next_sequence(comm);
    if (comm->queue_last != NULL)
        comm->queue_last->next = request;
    else
        comm->queue_first = request;
    comm->queue_last = request;
    atomic_fetch_add_explicit(&comm->outstanding, 1, memory_order_relaxed);
    pthread_mutex_unlock(&comm->queue_lock);
}

/* Calls are issued by one thread at a time, so this needs no lock; the queue's must not be held around progress's. */
static enum tutti_status ensure_progress(struct tutti_comm *comm)
{
    if (comm->client_registered) return TUTTI_OK;
    TRY(progress_register(&comm->client));
    comm->client_registered = true;
    return TUTTI_OK;
}

enum tutti_status comm_call_start(struct tutti_comm *comm, const struct call *call,
                                  struct tutti_request **request)
{
    *request = NULL;
    if (board_has_failed(comm->board)) return comm_check(comm);
    const struct algorithm *algorithm;
    if (comm->size > 1) { /* what can be refused is refused here: later it would fail all ranks */
        TRY(choose(comm, call, &algorithm));
        TRY(ensure_progress(comm));
    }
    struct tutti_request *started = take_request(comm);
    if (started == NULL) return error_set(TUTTI_NO_MEMORY, "starting an operation: out of memory");
    started->call = *call;
    started->call.what.started = true;
    *request = started;
    if (comm->size == 1) {
        copy_alone(call);
        atomic_store_explicit(&started->done, true, memory_order_release);
        return TUTTI_OK;
    }
    enqueue(comm, started);
    if (comm_try_lock(comm)) {
        comm_progress(comm);
        comm_unlock(comm);
    } else {
        comm->transport->ops->wake(comm->transport); /* whoever has the domain begins it */
    }
    if (!atomic_load_explicit(&started->done, memory_order_acquire)) progress_notify();
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------------ requests */

static enum tutti_status collect(struct tutti_request **request)
{
    struct tutti_request *done = *request;
    const enum tutti_status status = done->status;
    if (status != TUTTI_OK) error_set(status, "%s", done->message);
    *request = NULL;
    give_back(done->comm, done);
    return status;
}

enum tutti_status tutti_wait(struct tutti_request **request)
{
    if (request == NULL || *request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_wait: the request is NULL");
    struct tutti_request *waited = *request;
    TRY(comm_check_handle(waited->comm, "wait"));
    if (!atomic_load_explicit(&waited->done, memory_order_acquire))
        comm_drive_started(waited->comm, waited);
    return collect(request);
}

enum tutti_status tutti_test(struct tutti_request **request)
{
    if (request == NULL || *request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_test: the request is NULL");
    struct tutti_request *tested = *request;
    struct tutti_comm *comm = tested->comm;
    TRY(comm_check_handle(comm, "test"));
    if (!atomic_load_explicit(&tested->done, memory_order_acquire) && comm_try_lock(comm)) {
        comm_progress(comm);
        comm_unlock(comm);
    }
    if (!atomic_load_explicit(&tested->done, memory_order_acquire)) return TUTTI_IN_PROGRESS;
    return collect(request);
}
