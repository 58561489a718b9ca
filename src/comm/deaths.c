/* deaths.c - which of the other processes have ended.
 *
 *     process  0 ──► 1 ──► 2 ──► 3 ──► 0      each one holds descriptors of the next two (pidfd), and looks at all
 *              └─────────►                   others a few at a time, without keeping any
 *
 * So a rank has few descriptors however many ranks there are, and whoever has ended is noticed by everybody who waits within a few
 * looks. Only a descriptor that is kept is sure of its process: pids are used again. But of processes that end, one
 * has a neighbour before it that has not, and that one is sure.
 *
 * A process that executes another program (execve) keeps its pid, and its descriptors stay silent. Its memory is another one then, which
 * /proc tells. Each look asks that of the processes that it looks at, and remembers what the first one found; of up to A_LOOK processes
 * that is when the communicator is created.
 *
 * A process in another PID namespace has no pid here. Where there is one all ranks leave a word with the kernel (os/last_word.h), which
 * takes no descriptor to look at: so every look is at all of them.
 */
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>

#include "base/status.h"
#include "bootstrap/rendezvous.h"
#include "comm/comm.h"
#include "comm/deaths.h"
#include "comm/remote_rank.h"
#include "os/clock.h"
#include "process/watch.h"

enum { NEIGHBOURS = 2, A_LOOK = 64 };

static bool is_hidden(const struct watched_process *process)
{
    return process->pid == 0;
}

/* Whether it runs another program than when it was looked at first. */
static bool looks_another(struct watched_process *process)
{
    const uint64_t program = process_program(process->pid);
    if (program == 0) return false;
    uint64_t first = 0;
    if (atomic_compare_exchange_strong_explicit(&process->program, &first, program,
                                                memory_order_relaxed, memory_order_relaxed))
        return false;
    if (first != program) process->has_executed = true;
    return first != program;
}

static enum tutti_status watch_neighbours(struct tutti_comm *comm)
{
    int next = 0; /* the first process behind this rank's own */
    while (next < comm->health.processes.count && comm->health.processes.all[next].rank < comm->rank)
        next++;
    for (int i = 0, watched = 0; watched < NEIGHBOURS && i < comm->health.processes.count; i++) {
        struct watched_process *process =
            &comm->health.processes.all[(next + i) % comm->health.processes.count];
        if (is_hidden(process)) continue;
        TRY(watch_open(process->key, process->pid, &process->fd));
        watched++;
    }
    for (int i = 0; i < comm->health.processes.count && i < A_LOOK; i++)
        if (!is_hidden(&comm->health.processes.all[i]))
            (void)looks_another(&comm->health.processes.all[i]);
    return TUTTI_OK;
}

pid_t comm_visible_pid(const struct rendezvous_member *own, const struct rendezvous_member *member)
{
    return own->pid_namespace != 0 && member->pid_namespace == own->pid_namespace ? member->pid : 0;
}

enum tutti_status comm_know_processes(struct tutti_comm *comm,
                                      const struct rendezvous_member *members)
{
    struct processes *const processes = &comm->health.processes;
    const int size = comm_local_size(comm), number = comm_local_number(comm, comm->rank),
              own = members[number].first;
    processes->all = calloc((size_t)size, sizeof *processes->all);
    processes->of_ranks = calloc((size_t)size, sizeof *processes->of_ranks);
    if (processes->all == NULL || processes->of_ranks == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    for (int i = 0; i < size; i++) {
        const int first = members[i].first;
        const pid_t pid = comm_visible_pid(&members[number], &members[i]);
        comm->members.has_threads |= i != number && first == own;
        processes->of_ranks[i] = (struct local_rank){first, -1};
        if (first == own) continue;
        if (first != i && pid != 0) {
            processes->of_ranks[i].process = processes->of_ranks[first].process;
            continue;
        }
        processes->of_ranks[i].process = processes->count;
        processes->all[processes->count++] = (struct watched_process){
            .key = members[i].process_key, .pid = pid, .rank = comm_local_rank(comm, i), .fd = -1};
    }
    return watch_neighbours(comm);
}

void comm_unwatch(struct tutti_comm *comm)
{
    for (int i = 0; i < comm->health.processes.count; i++)
        if (comm->health.processes.all[i].fd >= 0) watch_close(comm->health.processes.all[i].fd);
    free(comm->health.processes.all);
    free(comm->health.processes.of_ranks);
    comm->health.processes.all = NULL;
    comm->health.processes.of_ranks = NULL;
    comm->health.processes.count = 0;
}

/* While the ranks are on their way to their segment, that looks for those who are not (transport/local). */
static bool has_spoken(const struct tutti_comm *comm, const struct watched_process *process)
{
    struct transport *host = comm->transports.set.host;
    const int number = comm_local_number(comm, process->rank);
    return host != NULL && host->peers->look(host, number, clock_now_ns()) == PEER_ENDED;
}

static bool looks_ended(const struct tutti_comm *comm, struct watched_process *process)
{
    struct pollfd entry = {process->fd, POLLIN, 0};
    if (is_hidden(process)) return has_spoken(comm, process);
    if (process->fd >= 0 ? poll(&entry, 1, 0) > 0 : watch_has_ended(process->pid)) return true;
    return looks_another(process);
}

static bool has_ended(const struct tutti_comm *comm, struct watched_process *process)
{
    if (process->has_ended) return true;
    const bool ended = looks_ended(comm, process);
    if (ended) process->has_ended = true;
    return ended;
}

bool comm_look_at_processes(struct tutti_comm *comm)
{
    const int all = comm->health.processes.count, some = all < A_LOOK ? all : A_LOOK;
    const int first = comm->health.processes.next;
    for (int i = 0; i < some; i++) has_ended(comm, &comm->health.processes.all[(first + i) % all]);
    if (all > some) comm->health.processes.next = (first + some) % all;
    bool any = false;
    for (int i = 0; i < all; i++) {
        struct watched_process *process = &comm->health.processes.all[i];
        const bool was_looked_at = (i - first + all) % all < some;
        const bool is_cheap = process->fd >= 0 || is_hidden(process);
        any |= is_cheap && !was_looked_at ? has_ended(comm, process) : process->has_ended;
    }
    return any;
}

/* The first rank of its process; -1: it is on another host, or not known yet. */
static int first_of_process(const struct tutti_comm *comm, int rank)
{
    if (comm->health.processes.of_ranks == NULL || !comm_shares_host(comm, rank)) return -1;
    return comm->health.processes.of_ranks[comm_local_number(comm, rank)].first;
}

bool comm_share_process(const struct tutti_comm *comm, int rank, int other)
{
    if (rank == other) return true;
    const int first = first_of_process(comm, rank);
    return first >= 0 && first == first_of_process(comm, other);
}

/* NULL: it is this process, or on another host. */
static struct watched_process *process_of(const struct tutti_comm *comm, int rank)
{
    if (first_of_process(comm, rank) < 0) return NULL;
    const int process = comm->health.processes.of_ranks[comm_local_number(comm, rank)].process;
    return process >= 0 ? &comm->health.processes.all[process] : NULL;
}

bool comm_is_hidden(const struct tutti_comm *comm, int rank)
{
    const struct watched_process *process = process_of(comm, rank);
    return process != NULL && is_hidden(process);
}

bool comm_has_executed(const struct tutti_comm *comm, int rank)
{
    const struct watched_process *process = process_of(comm, rank);
    return process != NULL && process->has_executed;
}

bool comm_is_stopped(const struct tutti_comm *comm, int rank)
{
    const struct watched_process *process = process_of(comm, rank);
    return process != NULL && !is_hidden(process) && process_is_stopped(process->pid);
}

bool comm_is_gone(struct tutti_comm *comm, int rank)
{
    struct watched_process *process = process_of(comm, rank);
    return process != NULL ? has_ended(comm, process) : remote_is_dead(comm, rank);
}

int comm_next_ended(const struct tutti_comm *comm, int *at)
{
    const struct processes *processes = &comm->health.processes;
    while (*at < processes->count) {
        const struct watched_process *process = &processes->all[(*at)++];
        if (process->has_ended) return process->rank;
    }
    return -1;
}

pid_t comm_next_pid(const struct tutti_comm *comm, int *at)
{
    const struct processes *processes = &comm->health.processes;
    while (*at < processes->count) {
        const struct watched_process *process = &processes->all[(*at)++];
        if (!is_hidden(process)) return process->pid;
    }
    return 0;
}

void comm_processes_footprint(const struct tutti_comm *comm, struct tutti_footprint *sum)
{
    const struct processes *processes = &comm->health.processes;
    sum->private_bytes +=
        malloc_usable_size(processes->all) + malloc_usable_size(processes->of_ranks);
    for (int i = 0; i < processes->count; i++) sum->descriptor_count += processes->all[i].fd >= 0;
}
