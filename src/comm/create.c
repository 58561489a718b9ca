/* create.c - the beginning and the end of a communicator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "bootstrap/launcher.h"
#include "bootstrap/rendezvous.h"
#include "comm/comm.h"
#include "comm/create.h"
#include "comm/derive.h"
#include "comm/options.h"
#include "memory/heap.h"
#include "os/clock.h"
#include "process/network.h"

enum tutti_status tutti_id_create(struct tutti_id *id)
{
    if (id == NULL) return error_set(TUTTI_INVALID_OPTIONS, "tutti_id_create: id is NULL");
    if (getrandom(id->bytes, sizeof id->bytes, 0) != (ssize_t)sizeof id->bytes)
        return error_system("tutti_id_create: getrandom");
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------- who meets where */

/* Rank 0 leaves a fresh id in the store, the others read it. */
static enum tutti_status id_through_store(const struct tutti_store *store, int rank,
                                          uint64_t timeout_ns, struct tutti_id *id)
{
    static const char key[] = "tutti/id";
    if (rank == 0) {
        TRY(tutti_id_create(id));
        if (store->set(store->context, key, id->bytes, sizeof id->bytes) != 0)
            return error_set(TUTTI_INIT_TIMEOUT, "the store did not take the communicator's id");
    } else if (store->get(store->context, key, id->bytes, sizeof id->bytes, timeout_ns) != 0) {
        return error_set(TUTTI_INIT_TIMEOUT, "rank %d: the store has no id: rank 0 is missing",
                         rank);
    }
    return TUTTI_OK;
}

static enum tutti_status find_place(const struct tutti_comm_options *options,
                                    uint64_t init_timeout_ns, struct launcher_place *place)
{
    const bool meets = options->id != NULL || options->store != NULL;
    if (!meets && options->size != 1 && (options->rank >= 0 || options->size >= 0))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "rank or size are given, but neither an id nor a store to meet through");
    *place = (struct launcher_place){.launcher = "options"};
    if (options->rank == -1 || options->size == -1) TRY(launcher_detect(place));
    if (!meets && options->size != 1) return TUTTI_OK;
    if (options->rank != -1) place->rank = options->rank;
    if (options->size != -1) place->size = options->size;
    if (place->size < 1 || place->size > PLAN_RANKS_MAX || place->rank < 0 ||
        place->rank >= place->size)
        return error_set(TUTTI_INVALID_RANK, "rank %d of %d: 0 <= rank < size <= %d is needed",
                         place->rank, place->size, PLAN_RANKS_MAX);
    if (place->size == 1) return TUTTI_OK;
    struct tutti_id id;
    if (options->id != NULL)
        id = *options->id;
    else
        TRY(id_through_store(options->store, place->rank, init_timeout_ns, &id));
    memcpy(place->key.bytes, id.bytes, sizeof place->key.bytes);
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------------- joining */

static enum tutti_status meet(struct tutti_comm *comm, const struct creation *creation,
                              struct rendezvous_result *result)
{
    const struct heap_location heap = heap_location();
    struct rendezvous_options options = {.key = creation->key,
                                         .rank = creation->rank,
                                         .size = creation->size,
                                         .deadline_ns = creation->deadline_ns,
                                         .self = {.process_key = heap.process_key,
                                                  .heap_inode = heap.inode,
                                                  .heap_bytes = heap.bytes,
                                                  .heap_fd = heap.fd},
                                         .segment_fd = -1,
                                         .look = creation->look,
                                         .look_context = creation->look_context};
    bool over_tcp;
    TRY(options_transport(&over_tcp));
    if (over_tcp) {
        uint16_t port;
        TRY(network_open_door(&port));
        comm->has_door = true;
        options.self.port = port;
    }
    if (creation->rank == 0)
        TRY(local_segment_create(creation->size, board_bytes(creation->size), &options.segment_fd));
    const enum tutti_status status = rendezvous_meet(&options, result);
    if (creation->rank != 0) return status;
    if (status == TUTTI_OK)
        result->segment_fd = options.segment_fd;
    else
        close(options.segment_fd);
    return status;
}

/* Who shares this process, and which processes there are to watch. */
static enum tutti_status know_processes(struct tutti_comm *comm,
                                        const struct rendezvous_member *members)
{
    comm->processes = calloc((size_t)comm->size, sizeof *comm->processes);
    if (comm->processes == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    const int own = members[comm->rank].first;
    for (int r = 0; r < comm->size; r++) {
        comm->has_threads |= r != comm->rank && members[r].first == own;
        if (members[r].first != r || r == own || !members[r].pid_is_visible) continue;
        comm->processes[comm->process_count++] = (struct watched_process){
            .key = members[r].process_key, .pid = members[r].pid, .rank = r, .fd = -1};
    }
    return comm_watch_neighbours(comm);
}

/* Whether one of the processes that came has died before all had joined. */
static enum tutti_status look_for_deaths(void *context)
{
    struct tutti_comm *comm = context;
    if (!comm_look_at_processes(comm)) return TUTTI_OK;
    int i = 0;
    while (!comm->processes[i].has_ended) i++;
    return error_set(TUTTI_PROC_FAILED, "rank %d died during start-up", comm->processes[i].rank);
}

static enum tutti_status acquire_window(struct tutti_comm *comm,
                                        const struct rendezvous_member *member)
{
    const struct heap_location location = {.process_key = member->process_key,
                                           .inode = member->heap_inode,
                                           .bytes = member->heap_bytes,
                                           .fd = member->heap_fd,
                                           .pid = member->pid_is_visible ? member->pid : 0};
    return heap_window_acquire(&location, &comm->windows[member->rank]);
}

static enum tutti_status open_transport(struct tutti_comm *comm, struct rendezvous_result *result,
                                        uint64_t deadline_ns)
{
    const struct rendezvous_member *members = result->members;
    struct local_peer *peers = calloc((size_t)comm->size, sizeof *peers);
    comm->windows = calloc((size_t)comm->size, sizeof *comm->windows);
    enum tutti_status status = TUTTI_OK;
    if (peers == NULL || comm->windows == NULL)
        status = error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    for (int r = 0; r < comm->size && status == TUTTI_OK; r++) {
        const int first = members[r].first;
        const bool same_process = first == members[comm->rank].first;
        if (first == r && !same_process) status = acquire_window(comm, &members[r]);
        peers[r] = (struct local_peer){same_process, members[r].pid_is_visible ? members[r].pid : 0,
                                       comm->windows[first]};
    }
    if (status == TUTTI_OK) {
        const struct local_options options = {.rank = comm->rank,
                                              .size = comm->size,
                                              .segment_fd = result->segment_fd,
                                              .board_bytes = board_bytes(comm->size),
                                              .peers = peers,
                                              .deadline_ns = deadline_ns,
                                              .look = look_for_deaths,
                                              .look_context = comm};
        result->segment_fd = -1;
        status = local_open(&options, &comm->local);
    }
    free(peers);
    return status;
}

/* Over TCP if all want that; ranks that do not agree would wait for each other. */
static enum tutti_status open_network(struct tutti_comm *comm,
                                      const struct rendezvous_member *members)
{
    const bool over_tcp = members[0].port != 0;
    for (int r = 1; r < comm->size; r++)
        if ((members[r].port != 0) != over_tcp)
            return error_set(TUTTI_INVALID_OPTIONS,
                             "TUTTI_TRANSPORT=tcp holds for rank %d, and not for rank %d",
                             over_tcp ? 0 : r, over_tcp ? r : 0);
    if (!over_tcp) return TUTTI_OK;
    uint16_t *const ports = calloc((size_t)comm->size, sizeof *ports);
    enum tutti_status status = TUTTI_OK;
    if (ports == NULL)
        status = error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    for (int r = 0; r < comm->size && status == TUTTI_OK; r++) ports[r] = (uint16_t)members[r].port;
    if (status == TUTTI_OK) status = comm_network_create(comm, ports);
    free(ports);
    return status;
}

static enum tutti_status join(struct tutti_comm *comm, const struct creation *creation)
{
    struct rendezvous_result result;
    TRY(meet(comm, creation, &result));
    comm->identity = result.identity;
    enum tutti_status status = know_processes(comm, result.members);
    if (status == TUTTI_OK) status = open_transport(comm, &result, creation->deadline_ns);
    log_write(LOG_INFO, "rank %d of %d met the others with %u messages", comm->rank, comm->size,
              result.message_count);
    if (status != TUTTI_OK) {
        rendezvous_result_release(&result);
        return status;
    }
    comm->board = local_board(comm->local);
    comm->oversubscribed = comm->size > local_core_count(comm->local);
    comm->rank_order = local_order(comm->local);
    comm->transport = comm->local;
    status = open_network(comm, result.members);
    rendezvous_result_release(&result);
    if (status == TUTTI_OK) board_enter(comm->board, comm->rank, getpid());
    return status;
}

static enum tutti_status be_alone(struct tutti_comm *comm)
{
    TRY(rendezvous_key_create(&comm->identity));
    comm->board = aligned_alloc(64, (board_bytes(1) + 63) / 64 * 64);
    if (comm->board == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    memset(comm->board, 0, board_bytes(1));
    board_enter(comm->board, 0, getpid());
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------------- life cycle */

/* What calls left behind: programs and operations. */
static void release_calls(struct tutti_comm *comm)
{
    comm_programs_free(comm);
    operation_release(&comm->blocking.operation);
    while (comm->requests != NULL) {
        struct tutti_request *request = comm->requests;
        comm->requests = request->next_made;
        operation_release(&request->operation);
        free(request->call.extra);
        free(request);
    }
}

/* Whether another thread of the parent was moving or queuing something when this process was forked from it. What
 * it was changing stays allocated: nobody can tell how far it came. */
static bool was_busy(struct tutti_comm *comm)
{
    if (atomic_load_explicit(&comm->domain, memory_order_relaxed) != 0) return true;
    if (pthread_mutex_trylock(&comm->queue_lock) != 0) return true;
    pthread_mutex_unlock(&comm->queue_lock);
    return false;
}

static void release(struct tutti_comm *comm)
{
    if (!comm_is_foreign(comm) || !was_busy(comm)) {
        release_calls(comm);
        comm_messages_free(comm);
        pthread_mutex_destroy(&comm->queue_lock);
    }
    if (comm->size == 1) free(comm->board);
    /* Of a parent's connections a child has descriptors only: closing them properly would disturb the parent. */
    if (!comm_is_foreign(comm)) comm_network_free(comm);
    if (comm->has_door && !comm_is_foreign(comm)) network_close_door();
    local_close(comm->local);
    for (int r = 0; comm->windows != NULL && r < comm->size; r++)
        heap_window_release(comm->windows[r]);
    comm_unwatch(comm);
    free(comm->windows);
    rules_free(comm->rules);
    free(comm->algorithms);
    derived_lists_free(comm);
    heap_release_of(comm->generation);
    free(comm);
}

enum tutti_status comm_create_at(const struct creation *creation, struct tutti_comm **comm)
{
    const struct tutti_comm_options *options = creation->options;
    struct tutti_comm *created = aligned_alloc(64, (sizeof *created + 63) / 64 * 64);
    *comm = NULL;
    if (created == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    memset(created, 0, sizeof *created);
    process_watch_forks();
    enum tutti_status status = heap_acquire();
    if (status != TUTTI_OK) {
        free(created);
        return status;
    }
    pthread_mutex_init(&created->queue_lock, NULL);
    created->generation = process_generation();
    created->rank = creation->rank;
    created->size = creation->size;
    created->timeout_ns = options->timeout_ns;
    created->init_timeout_ns = options->init_timeout_ns;
    created->deterministic = options->deterministic != 0;
    created->level = kernel_level_chosen();
    created->client.progress = comm_client_progress;
    created->blocking.comm = created;
    if (gethostname(created->host, sizeof created->host - 1) != 0) strcpy(created->host, "?");

    if (options->algorithms != NULL && (created->algorithms = strdup(options->algorithms)) == NULL)
        status = error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    if (status == TUTTI_OK) status = rules_parse(options->algorithms, &created->rules);
    if (status == TUTTI_OK)
        status = creation->size == 1 ? be_alone(created) : join(created, creation);
    operation_init(&created->blocking.operation, comm_patience(created));
    if (status != TUTTI_OK) {
        release(created);
        return status;
    }
    log_write(LOG_INFO, "rank %d of %d, from %s, kernels %s%s", created->rank, created->size,
              creation->origin, kernel_level_name(created->level),
              created->oversubscribed ? ", more ranks than cores" : "");
    *comm = created;
    return TUTTI_OK;
}

enum tutti_status tutti_comm_create(const struct tutti_comm_options *user_options,
                                    struct tutti_comm **comm)
{
    if (comm == NULL)
        return error_set(TUTTI_INVALID_COMM, "tutti_comm_create: no place for the communicator");
    *comm = NULL;
    struct tutti_comm_options options;
    TRY(options_for_comm(user_options, &options));
    const uint64_t deadline_ns = clock_now_ns() + options.init_timeout_ns;
    struct launcher_place place;
    TRY(find_place(&options, options.init_timeout_ns, &place));
    const struct creation creation = {.origin = place.launcher,
                                      .rank = place.rank,
                                      .size = place.size,
                                      .key = place.key,
                                      .options = &options,
                                      .deadline_ns = deadline_ns};
    return comm_create_at(&creation, comm);
}

/* Requests that nobody waited for: their deadlines bound this. */
static void finish_started(struct tutti_comm *comm)
{
    while (comm_has_requests(comm)) {
        struct tutti_request *request = NULL;
        if (comm_try_lock(comm)) {
            comm_progress(comm);
            request = comm->running_count > 0 ? comm->order[0] : comm->messages;
            comm_unlock(comm);
        }
        if (request != NULL) comm_drive_started(comm, request);
    }
}

static void finish_network(struct tutti_comm *comm)
{
    if (comm_lock(comm, comm->timeout_ns) != TUTTI_OK) return;
    comm_network_finish(comm);
    comm_unlock(comm);
}

enum tutti_status tutti_comm_free(struct tutti_comm *comm)
{
    if (comm == NULL) return TUTTI_OK;
    if (!comm_is_foreign(comm)) {
        finish_started(comm);
        if (comm->network != NULL) finish_network(comm);
        if (comm->client_registered) progress_unregister(&comm->client);
        board_leave(comm->board, comm->rank);
        if (comm->transport != NULL) comm->transport->ops->wake_all(comm->transport);
    }
    release(comm);
    return TUTTI_OK;
}

enum tutti_status comm_handle_error(const struct tutti_comm *comm, const char *function)
{
    if (comm == NULL)
        return error_set(TUTTI_INVALID_COMM, "tutti_%s: the communicator is NULL", function);
    return error_set(
        TUTTI_INVALID_COMM,
        "tutti_%s: the communicator was created before fork() and belongs to the parent", function);
}

enum tutti_status tutti_comm_abort(struct tutti_comm *comm, const char *reason)
{
    TRY(comm_check_handle(comm, "comm_abort"));
    comm_fail(comm, NULL, TUTTI_ABORTED, comm->rank, "rank %d aborted: %s", comm->rank,
              reason != NULL ? reason : "no reason given");
    return TUTTI_OK;
}

int tutti_comm_rank(const struct tutti_comm *comm)
{
    return comm != NULL ? comm->rank : -1;
}

int tutti_comm_size(const struct tutti_comm *comm)
{
    return comm != NULL ? comm->size : -1;
}

enum tutti_status tutti_comm_failure(const struct tutti_comm *comm, struct tutti_failure *failure)
{
    TRY(comm_check_handle(comm, "comm_failure"));
    if (failure == NULL || failure->size_bytes != sizeof *failure)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_comm_failure: size_bytes of the result is not set");
    board_failure(comm->board, failure);
    return TUTTI_OK;
}
