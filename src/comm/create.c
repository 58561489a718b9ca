/* create.c - making a communicator whose place among its ranks is known, and taking it apart. */
#include "comm/create.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "call/communicator.h"
#include "call/message.h"
#include "call/program.h"
#include "call/progress.h"
#include "call/request.h"
#include "call/wait_loop.h"
#include "comm/derived_list.h"
#include "comm/join.h"
#include "connect/port.h"
#include "health/agree.h"
#include "health/deaths.h"
#include "health/failure.h"
#include "health/lock.h"
#include "health/recover.h"
#include "health/remote_ranks.h"
#include "memory/heap.h"
#include "os/at_exit.h"

static enum tutti_status be_alone(struct tutti_comm *comm)
{
    TRY(rendezvous_key_create(&comm->team.identity));
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
    if (atomic_load_explicit(&comm->team.domain.lock, memory_order_relaxed) != 0) return true;
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
    if (comm->team.size == 1) free(comm->health.board);
    transports_close(&comm->team.transports.set, comm_is_foreign(comm));
    remote_free(&comm->health);
    if (comm->team.transports.has_port && !comm_is_foreign(comm)) port_close();
    for (int i = 0; comm->team.transports.windows != NULL && i < team_local_size(&comm->team); i++)
        heap_window_release(comm->team.transports.windows[i]);
    processes_close(&comm->health.processes);
    free(comm->team.transports.windows);
    free(comm->health.remote_board);
    comm_hosts_free(comm->team.members.hosts);
    levels_free(comm->team.members.levels);
    rules_free(comm->team.settings.rules);
    free(comm->team.settings.algorithms);
    trace_release(&comm->health);
    straggler_release(&comm->health.straggler);
    derived_lists_free(comm);
    recover_free(&comm->health);
    heap_release_of(comm->team.generation);
    free(comm);
}

/* Requests that nobody waited for: their deadlines bound this. */
static void finish_started(struct tutti_comm *comm)
{
    while (comm_has_requests(comm)) {
        struct tutti_request *request = NULL;
        if (domain_try_lock(&comm->team.domain)) {
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
        board_has_failed(comm->health.board) ? FAILED_NS : comm->team.settings.timeout_ns;
    if (health_lock_failed(&comm->health, timeout_ns) != TUTTI_OK) return;
    remote_finish(&comm->health);
    comm_unlock(comm);
}

void comm_end(struct tutti_comm *comm)
{
    if (!comm_is_foreign(comm)) {
        if (comm->team.settings.is_encrypted &&
            at_exit_has_begun()) /* nothing comes or goes any more */
            health_fail(&comm->health, NULL, TUTTI_ABORTED, comm->team.rank, "rank %d is in exit()",
                        comm->team.rank);
        finish_started(comm);
        agree_leave(&comm->health);
        if (health_has_network(&comm->health)) finish_network(comm);
        if (comm->team.domain.is_registered) progress_unregister(&comm->team.domain.client);
        trace_close(&comm->health);
        board_leave(comm->health.board, comm->team.rank);
        if (comm->team.transports.set.all != NULL)
            comm->team.transports.set.all->ops->wake_all(comm->team.transports.set.all);
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
    created->team.members.hosts = creation->hosts;
    created->team.members.levels = creation->host_levels;
    pthread_mutex_init(&created->requests.lock, NULL);
    created->health.team = &created->team;
    created->team.generation = process_generation();
    created->team.rank = creation->rank;
    created->team.size = creation->size;
    created->team.settings.timeout_ns = options->timeout_ns;
    created->team.settings.init_timeout_ns = options->init_timeout_ns;
    created->team.settings.deterministic = options->deterministic != 0;
    created->team.settings.integrity = options->integrity;
    created->team.settings.is_encrypted = options->encryption == TUTTI_ENCRYPTION_ON;
    created->team.settings.level = kernel_level_chosen();
    created->team.domain.client.progress = comm_client_progress;
    created->team.domain.spins = true;
    created->calls.blocking.base.comm = created;
    if (gethostname(created->team.members.host_name, sizeof created->team.members.host_name - 1) != 0)
        strcpy(created->team.members.host_name, "?");

    status = trace_init(&created->health);
    if (status == TUTTI_OK) status = straggler_init(&created->health.straggler, created->team.size);
    if (status == TUTTI_OK && options->algorithms != NULL &&
        (created->team.settings.algorithms = strdup(options->algorithms)) == NULL)
        status = error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    if (status == TUTTI_OK)
        status = rules_parse(options->algorithms, &created->team.settings.rules);
    if (status == TUTTI_OK)
        status = creation->size == 1 ? be_alone(created) : comm_join(created, creation);
    operation_init(&created->calls.blocking.operation, team_spin_budget(&created->team));
    if (status != TUTTI_OK) {
        release(created);
        return status;
    }
    status = handle_add(created);
    if (status != TUTTI_OK) {
        comm_end(created);
        return status;
    }
    trace_open(&created->health);
    log_write(LOG_INFO, "rank %d of %d, from %s, kernels %s%s", created->team.rank,
              created->team.size, creation->origin, kernel_level_name(created->team.settings.level),
              created->team.members.oversubscribed ? ", more ranks than cores" : "");
    *comm = created;
    return TUTTI_OK;
}

enum tutti_status comm_create_at(const struct creation *creation, struct tutti_comm **comm)
{
    char before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    return error_unless_ok(create_at(creation, comm), before);
}
