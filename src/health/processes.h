/* processes.h - which of the other processes of this host have ended, and what else is known of
 * them.
 *
 *     process  0 ──► 1 ──► 2 ──► 3 ──► 0      each one holds descriptors of the next two (pidfd), and looks at all
 *              └─────────►                   others a few at a time, without keeping any
 *
 * So a rank has few descriptors however many ranks there are, and every rank that waits notices
 * within a few looks that a process has ended. Only a descriptor that is kept is sure of its
 * process: pids are used again. But of processes that end, one has a neighbour before it that has
 * not, and that one is sure.
 *
 * A process that executes another program (execve) keeps its pid, and its descriptors stay silent.
 * Its memory is another one then, which /proc tells. Each look asks that of the processes that it
 * looks at, and remembers what the first one found; of up to A_LOOK processes that is when the
 * communicator is created.
 *
 * A process in another PID namespace has no pid here. Where there is one, all ranks leave a word
 * with the kernel (os/last_word.h), which takes no descriptor to look at: so every look is at all
 * of them.
 *
 * Ranks of this host have numbers, 0 to size - 1; names are what the caller calls them.
 *
 * Threads: any, between open and close.
 */
#ifndef TUTTI_HEALTH_PROCESSES_H
#define TUTTI_HEALTH_PROCESSES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bootstrap/rendezvous.h"
#include "transport/transport.h"
#include "tutti/tutti.h"

struct watched_process; /* another process with ranks of the communicator, watched by this rank */
struct local_rank;

/* Zeroed, it knows of no other process. */
struct processes {
    struct watched_process *all; /* but this one, in the order of their first ranks */
    int count;
    struct local_rank *of_ranks;  /* by number; NULL: nothing is known */
    int own, size;                /* this rank's number, and how many there are */
    const struct transport *host; /* see processes_use; or NULL */
    _Atomic int next;             /* to look at */
};

/* The pid by which this rank knows another rank of this host, or 0: it is in another PID
 * namespace. */
pid_t processes_visible_pid(const struct rendezvous_member *own,
                            const struct rendezvous_member *member);
/* Fills in the processes of the ranks that have met on this host, and begins to watch those behind
 * this rank's own as its neighbours. names: of the ranks by number, or NULL: their numbers; not
 * kept. NO_MEMORY, NO_DESCRIPTORS; processes_close in any case. */
enum tutti_status processes_open(struct processes *processes,
                                 const struct rendezvous_member *members, int number, int size,
                                 const int *names);
void processes_close(struct processes *processes);
/* From now on the transport between the ranks of this host tells of processes that are not visible
 * from here; it stays the caller's. (While the ranks are on their way to it, it looks for them
 * itself.) */
void processes_use(struct processes *processes, const struct transport *host);
/* Looks at some of the processes; whether one is known to have ended. */
bool processes_look(struct processes *processes);
/* Whether a rank's process is gone, with all its threads; of ranks of this process false. */
bool processes_has_ended(struct processes *processes, int number);
/* Whether two ranks are of one process; and whether another rank lives in this one. */
bool processes_shares(const struct processes *processes, int number, int other);
bool processes_has_threads(const struct processes *processes);
/* The pid of its process; 0: that is this one, or in another PID namespace. */
pid_t processes_pid_of(const struct processes *processes, int number);
/* The pid that its process has in its own PID namespace, this one included; 0: not known. */
int processes_told_pid_of(const struct processes *processes, int number);
/* Whether its process is in another PID namespace: its pid means nothing here. */
bool processes_is_hidden(const struct processes *processes, int number);
/* Whether a rank is gone because its process went on as another program. */
bool processes_has_executed(const struct processes *processes, int number);
/* Whether a rank is known to be stopped, by a signal or a debugger. */
bool processes_is_stopped(const struct processes *processes, int number);
/* The name of the first rank of the next process that is known to have ended, from *at (0 at first)
 * on; -1: no more. */
int processes_next_ended(const struct processes *processes, int *at);
/* The pid of the next other process that is visible; 0: no more. */
pid_t processes_next_pid(const struct processes *processes, int *at);
/* Adds what is held for them. */
void processes_footprint(const struct processes *processes, struct tutti_footprint *sum);

#endif
