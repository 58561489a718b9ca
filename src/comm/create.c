/* create.c - making a communicator whose place among its ranks is known, and taking it apart. */
#include "comm/create.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "comm/agree.h"
#include "comm/comm.h"
#include "comm/deaths.h"
#include "comm/derived_list.h"
#include "comm/failure.h"
#include "comm/join.h"
#include "comm/lock.h"
#include "comm/message.h"
#include "comm/network.h"
#include "comm/program.h"
#include "comm/progress.h"
#include "comm/recover.h"
#include "comm/request.h"
#include "comm/wait_loop.h"
#include "connect/port.h"
#include "memory/heap.h"
#include "os/at_exit.h"

static enum tutti_status be_alone(struct tutti_comm *comm)
{
    TRY(rendezvous_key_create(&comm->lineage.identity));
    comm->health.board = aligned_alloc(64, (board_bytes(1) + 63) / 64 * 64);
    if (comm->health.board == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    memset(comm->health.board, 0, board_bytes(1));
    board_enter(comm->health.board, 0, getpid());
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------------- life cycle */

/* What calls left behind: programs and operations. */
static void release_calls(struct tutti_comm *comm)
{
    operation_release(&comm->calls.blocking.operation);
    comm_requests_free(comm);
    comm_programs_free(comm);
}

/* Whether another thread of the parent was moving or queuing something when this process was forked from it. What
 * it was changing stays allocated: nobody can tell how far it came. */
static bool was_busy(struct tutti_comm *comm)
{
    if (atomic_load_explicit(&comm->domain.lock, memory_order_relaxed) != 0) return true;
    if (pthread_mutex_trylock(&comm->requests.lock) != 0) return true;
    pthread_mutex_unlock(&comm->requests.lock);
    return false;
}

static void levels_free(struct host_levels *levels)
{
    if (levels != NULL) host_levels_release(levels);
    free(levels);
}

static void release(struct tutti_comm *comm)
{
    if (!comm_is_foreign(comm) || !was_busy(comm)) {
        release_calls(comm);
        comm_messages_free(comm);
        pthread_mutex_destroy(&comm->requests.lock);
    }
    if (comm->size == 1) free(comm->health.board);
    transports_close(&comm->transports.set, comm_is_foreign(comm));
    comm_network_free(comm);
    if (comm->transports.has_port && !comm_is_foreign(comm)) port_close();
    for (int i = 0; comm->transports.windows != NULL && i < comm_local_size(comm); i++)
        heap_window_release(comm->transports.windows[i]);
    processes_close(&comm->health.processes);
    free(comm->transports.windows);
    free(comm->health.remote_board);
    comm_hosts_free(comm->members.hosts);
    levels_free(comm->members.levels);
    rules_free(comm->settings.rules);
    free(comm->settings.algorithms);
    trace_release(comm);
    straggler_release(&comm->health.straggler);
    derived_lists_free(comm);
    recover_free(comm);
    heap_release_of(comm->lineage.generation);
    free(comm);
}

/* Requests that nobody waited for: their deadlines bound this. */
static void finish_started(struct tutti_comm *comm)
{
    while (comm_has_requests(comm)) {
        struct tutti_request *request = NULL;
        if (comm_try_lock(comm)) {
            comm_progress(comm);
            request =
                comm->calls.running_count > 0 ? &comm->calls.order[0]->base : comm->messages.first;
            comm_unlock(comm);
        }
        if (request != NULL) comm_await_started(comm, request);
    }
}

static void finish_network(struct tutti_comm *comm)
{
    enum { FAILED_NS = 2000000000 }; /* whoever has it then is on the way out */
    const uint64_t timeout_ns =
        board_has_failed(comm->health.board) ? FAILED_NS : comm->settings.timeout_ns;
    if (comm_lock_failed(comm, timeout_ns) != TUTTI_OK) return;
    comm_network_finish(comm);
    comm_unlock(comm);
}

void comm_end(struct tutti_comm *comm)
{
    if (!comm_is_foreign(comm)) {
        if (comm->settings.is_encrypted && at_exit_has_begun()) /* nothing comes or goes any more */
            comm_fail(comm, NULL, TUTTI_ABORTED, comm->rank, "rank %d is in exit()", comm->rank);
        finish_started(comm);
        agree_leave(comm);
        if (comm_has_network(comm)) finish_network(comm);
        if (comm->domain.is_registered) progress_unregister(&comm->domain.client);
        trace_close(comm);
        board_leave(comm->health.board, comm->rank);
        if (comm->transports.set.all != NULL)
            comm->transports.set.all->ops->wake_all(comm->transports.set.all);
    }
    handle_remove(comm);
    release(comm);
}

static enum tutti_status create_at(const struct creation *creation, struct tutti_comm **comm)
{
    const struct tutti_comm_options *options = creation->options;
    struct tutti_comm *created = aligned_alloc(64, (sizeof *created + 63) / 64 * 64);
    *comm = NULL;
    enum tutti_status status = TUTTI_OK;
    process_watch_forks();
    if (created == NULL)
        status = error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    if (status == TUTTI_OK) status = heap_acquire();
    if (status != TUTTI_OK) {
        free(created);
        comm_hosts_free(creation->hosts);
        levels_free(creation->host_levels);
        return status;
    }
    memset(created, 0, sizeof *created);
    created->members.hosts = creation->hosts;
    created->members.levels = creation->host_levels;
    pthread_mutex_init(&created->requests.lock, NULL);
    created->lineage.generation = process_generation();
    created->rank = creation->rank;
    created->size = creation->size;
    created->settings.timeout_ns = options->timeout_ns;
    created->settings.init_timeout_ns = options->init_timeout_ns;
    created->settings.deterministic = options->deterministic != 0;
    created->settings.integrity = options->integrity;
    created->settings.is_encrypted = options->encryption == TUTTI_ENCRYPTION_ON;
    created->settings.level = kernel_level_chosen();
    created->domain.client.progress = comm_client_progress;
    created->domain.spins = true;
    created->calls.blocking.base.comm = created;
    if (gethostname(created->members.host_name, sizeof created->members.host_name - 1) != 0)
        strcpy(created->members.host_name, "?");

    status = trace_init(created);
    if (status == TUTTI_OK) status = straggler_init(&created->health.straggler, created->size);
    if (status == TUTTI_OK && options->algorithms != NULL &&
        (created->settings.algorithms = strdup(options->algorithms)) == NULL)
        status = error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    if (status == TUTTI_OK) status = rules_parse(options->algorithms, &created->settings.rules);
    if (status == TUTTI_OK)
        status = creation->size == 1 ? be_alone(created) : comm_join(created, creation);
    operation_init(&created->calls.blocking.operation, comm_spin_budget(created));
    if (status != TUTTI_OK) {
        release(created);
        return status;
    }
    status = handle_add(created);
    if (status != TUTTI_OK) {
        comm_end(created);
        return status;
    }
    trace_open(created);
    log_write(LOG_INFO, "rank %d of %d, from %s, kernels %s%s", created->rank, created->size,
              creation->origin, kernel_level_name(created->settings.level),
              created->members.oversubscribed ? ", more ranks than cores" : "");
    *comm = created;
    return TUTTI_OK;
}

enum tutti_status comm_create_at(const struct creation *creation, struct tutti_comm **comm)
{
    char before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    return error_unless_ok(create_at(creation, comm), before);
}
