/* deaths.c - which of the other processes have ended.
 *
 *     process  0 ──► 1 ──► 2 ──► 3 ──► 0      each one holds descriptors of the next two (pidfd), and looks at all
 *              └─────────►                   others a few at a time, without keeping any
 *
 * So a rank has few descriptors however many ranks there are, and whoever has ended is noticed by everybody who waits within a few
 * looks. Only a descriptor that is kept is sure of its process: pids are used again. But of processes that end, one
 * has a neighbour before it that has not, and that one is sure.
 */
#include <poll.h>
#include <stdlib.h>

#include "base/status.h"
#include "comm/comm.h"
#include "process/watch.h"

enum { NEIGHBOURS = 2, A_LOOK = 64 };

enum tutti_status comm_watch_neighbours(struct tutti_comm *comm)
{
    int next = 0; /* the first process behind this rank's own */
    while (next < comm->process_count && comm->processes[next].rank < comm->rank) next++;
    for (int i = 0; i < NEIGHBOURS && i < comm->process_count; i++) {
        struct watched_process *process = &comm->processes[(next + i) % comm->process_count];
        TRY(watch_open(process->key, process->pid, &process->fd));
    }
    return TUTTI_OK;
}

void comm_unwatch(struct tutti_comm *comm)
{
    for (int i = 0; i < comm->process_count; i++)
        if (comm->processes[i].fd >= 0) watch_close(comm->processes[i].fd);
    free(comm->processes);
    comm->processes = NULL;
    comm->process_count = 0;
}

static bool has_ended(struct watched_process *process)
{
    if (process->has_ended) return true;
    struct pollfd entry = {process->fd, POLLIN, 0};
    const bool ended = process->fd >= 0 ? poll(&entry, 1, 0) > 0 : watch_has_ended(process->pid);
    if (ended) process->has_ended = true;
    return ended;
}

bool comm_look_at_processes(struct tutti_comm *comm)
{
    const int all = comm->process_count, some = all < A_LOOK ? all : A_LOOK;
    const int first = comm->next_process;
    for (int i = 0; i < some; i++) has_ended(&comm->processes[(first + i) % all]);
    if (all > some) comm->next_process = (first + some) % all;
    bool any = false;
    for (int i = 0; i < all; i++) {
        struct watched_process *process = &comm->processes[i];
        any |= process->fd >= 0 ? has_ended(process) : process->has_ended;
    }
    return any;
}

bool comm_is_stopped(const struct tutti_comm *comm, int rank)
{
    const int pid = board_pid(comm->board, rank);
    for (int i = 0; i < comm->process_count; i++)
        if (comm->processes[i].pid == pid) return process_is_stopped(pid);
    return false;
}

bool comm_is_gone(struct tutti_comm *comm, int rank)
{
    if (!comm_is_near(comm, rank)) return comm_network_is_dead(comm, rank);
    const int pid = board_pid(comm->board, rank);
    for (int i = 0; i < comm->process_count; i++)
        if (comm->processes[i].pid == pid) return has_ended(&comm->processes[i]);
    return false;
}
