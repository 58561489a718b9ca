#include "health/processes.h"

#include <poll.h>
#include <stdlib.h>

#include "base/held.h"
#include "base/status.h"
#include "os/process.h"
#include "process/watch.h"
#include "transport/open.h"

enum { NEIGHBOURS = 2, A_LOOK = 64 };

/* Another process of this host. A process that is not visible from here has an entry for each of
 * its ranks. */
struct watched_process {
    uint64_t key;
    pid_t pid;                 /* 0: not visible */
    int number, name;          /* the first of its ranks */
    int fd;                    /* of a neighbour; else -1 */
    _Atomic bool has_ended;    /* as far as it was noticed */
    _Atomic bool has_executed; /* and it goes on as another program */
    _Atomic uint64_t program;  /* at the first look, see process_program; 0: not known yet */
};

struct local_rank {
    int first;   /* the lowest number of its process */
    int process; /* an index of struct processes' `all`; -1: this process */
    int pid;     /* as it says itself */
};

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

static enum tutti_status watch_neighbours(struct processes *processes)
{
    int next = 0; /* the first process behind this rank's own */
    while (next < processes->count && processes->all[next].number < processes->own) next++;
    for (int i = 0, watched = 0; watched < NEIGHBOURS && i < processes->count; i++) {
        struct watched_process *process = &processes->all[(next + i) % processes->count];
        if (is_hidden(process)) continue;
        TRY(watch_open(process->key, process->pid, &process->fd));
        watched++;
    }
    for (int i = 0; i < processes->count && i < A_LOOK; i++)
        if (!is_hidden(&processes->all[i])) (void)looks_another(&processes->all[i]);
    return TUTTI_OK;
}

pid_t processes_visible_pid(const struct rendezvous_member *own,
                            const struct rendezvous_member *member)
{
    return own->pid_namespace != 0 && member->pid_namespace == own->pid_namespace ? member->pid : 0;
}

enum tutti_status processes_open(struct processes *processes,
                                 const struct rendezvous_member *members, int number, int size,
                                 const int *names)
{
    const int own = members[number].first;
    *processes = (struct processes){.own = number, .size = size, .host = processes->host};
    processes->all = calloc((size_t)size, sizeof *processes->all);
    processes->of_ranks = calloc((size_t)size, sizeof *processes->of_ranks);
    if (processes->all == NULL || processes->of_ranks == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    for (int i = 0; i < size; i++) {
        const int first = members[i].first;
        const pid_t pid = processes_visible_pid(&members[number], &members[i]);
        processes->of_ranks[i] = (struct local_rank){first, -1, members[i].pid};
        if (first == own) continue;
        if (first != i && pid != 0) {
            processes->of_ranks[i].process = processes->of_ranks[first].process;
            continue;
        }
        processes->of_ranks[i].process = processes->count;
        processes->all[processes->count++] =
            (struct watched_process){.key = members[i].process_key,
                                     .pid = pid,
                                     .number = i,
                                     .name = names != NULL ? names[i] : i,
                                     .fd = -1};
    }
    return watch_neighbours(processes);
}

void processes_close(struct processes *processes)
{
    for (int i = 0; i < processes->count; i++)
        if (processes->all[i].fd >= 0) watch_close(processes->all[i].fd);
    free(processes->all);
    free(processes->of_ranks);
    *processes = (struct processes){0};
}

void processes_use(struct processes *processes, const struct transport *host)
{
    processes->host = host;
}

static bool has_spoken(const struct processes *processes, const struct watched_process *process)
{
    return processes->host != NULL && transports_process_has_ended(processes->host, process->number);
}

static bool looks_ended(const struct processes *processes, struct watched_process *process)
{
    struct pollfd entry = {process->fd, POLLIN, 0};
    if (is_hidden(process)) return has_spoken(processes, process);
    if (process->fd >= 0 ? poll(&entry, 1, 0) > 0 : watch_has_ended(process->pid)) return true;
    return looks_another(process);
}

static bool has_ended(const struct processes *processes, struct watched_process *process)
{
    if (process->has_ended) return true;
    const bool ended = looks_ended(processes, process);
    if (ended) process->has_ended = true;
    return ended;
}

bool processes_look(struct processes *processes)
{
    const int all = processes->count, some = all < A_LOOK ? all : A_LOOK;
    const int first = processes->next;
    for (int i = 0; i < some; i++) has_ended(processes, &processes->all[(first + i) % all]);
    if (all > some) processes->next = (first + some) % all;
    bool any = false;
    for (int i = 0; i < all; i++) {
        struct watched_process *process = &processes->all[i];
        const bool was_looked_at = (i - first + all) % all < some;
        const bool is_cheap = process->fd >= 0 || is_hidden(process);
        any |= is_cheap && !was_looked_at ? has_ended(processes, process) : process->has_ended;
    }
    return any;
}

/* NULL: this one, or nothing is known. */
static struct watched_process *process_of(const struct processes *processes, int number)
{
    if (processes->of_ranks == NULL) return NULL;
    const int process = processes->of_ranks[number].process;
    return process >= 0 ? &processes->all[process] : NULL;
}

pid_t processes_pid_of(const struct processes *processes, int number)
{
    const struct watched_process *process = process_of(processes, number);
    return process == NULL || is_hidden(process) ? 0 : process->pid;
}

int processes_told_pid_of(const struct processes *processes, int number)
{
    return processes->of_ranks != NULL ? processes->of_ranks[number].pid : 0;
}

bool processes_has_ended(struct processes *processes, int number)
{
    struct watched_process *process = process_of(processes, number);
    return process != NULL && has_ended(processes, process);
}

bool processes_shares(const struct processes *processes, int number, int other)
{
    return number == other || (processes->of_ranks != NULL && processes->of_ranks[number].first ==
                                                                  processes->of_ranks[other].first);
}

bool processes_has_threads(const struct processes *processes)
{
    for (int i = 0; i < processes->size; i++)
        if (i != processes->own && processes_shares(processes, processes->own, i)) return true;
    return false;
}

bool processes_is_hidden(const struct processes *processes, int number)
{
    const struct watched_process *process = process_of(processes, number);
    return process != NULL && is_hidden(process);
}

bool processes_has_executed(const struct processes *processes, int number)
{
    const struct watched_process *process = process_of(processes, number);
    return process != NULL && process->has_executed;
}

bool processes_is_stopped(const struct processes *processes, int number)
{
    const struct watched_process *process = process_of(processes, number);
    return process != NULL && !is_hidden(process) && process_is_stopped(process->pid);
}

int processes_next_ended(const struct processes *processes, int *at)
{
    while (*at < processes->count) {
        const struct watched_process *process = &processes->all[(*at)++];
        if (process->has_ended) return process->name;
    }
    return -1;
}

pid_t processes_next_pid(const struct processes *processes, int *at)
{
    while (*at < processes->count) {
        const struct watched_process *process = &processes->all[(*at)++];
        if (!is_hidden(process)) return process->pid;
    }
    return 0;
}

void processes_footprint(const struct processes *processes, struct tutti_footprint *sum)
{
    sum->private_bytes += held(processes->all) + held(processes->of_ranks);
    for (int i = 0; i < processes->count; i++) sum->descriptor_count += processes->all[i].fd >= 0;
}
