/* deaths.h - which of the other processes of this host have ended, and what else is known of them. */
#ifndef TUTTI_COMM_DEATHS_H
#define TUTTI_COMM_DEATHS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tutti/tutti.h"

struct rendezvous_member;
struct tutti_comm;

/* Another process with ranks of the communicator, watched by this rank. Of one that is not visible from here each rank counts. */
struct watched_process {
    uint64_t key;
    pid_t pid;                 /* 0: not visible */
    int rank;                  /* the first of its ranks */
    int fd;                    /* of a neighbour; else -1 */
    _Atomic bool has_ended;    /* as far as it was noticed */
    _Atomic bool has_executed; /* and it goes on as another program */
    _Atomic uint64_t program;  /* at the first look, see process_program; 0: not known yet */
};

/* A rank of this host. */
struct local_rank {
    int first;   /* the lowest local number of its process */
    int process; /* of those watched; -1: this one */
};

struct processes {
    struct watched_process *all; /* but this one, in the order of their first ranks */
    int count;
    struct local_rank *of_ranks; /* by local number; NULL for a communicator of one */
    _Atomic int next;            /* to look at */
};

/* The pid by which this rank knows another rank of this host, or 0: it is in another PID namespace. */
pid_t comm_visible_pid(const struct rendezvous_member *own, const struct rendezvous_member *member);
/* Fills in the processes of those who have met on this host, and begins to watch those behind this rank's own as its neighbours.
 * NO_MEMORY, NO_DESCRIPTORS. */
enum tutti_status comm_know_processes(struct tutti_comm *comm,
                                      const struct rendezvous_member *members);
void comm_unwatch(struct tutti_comm *comm);
/* Looks at some of the processes; whether one is known to have ended (has_ended). Any thread. */
bool comm_look_at_processes(struct tutti_comm *comm);
/* Whether a rank's process is gone, with all its threads. Any thread. */
bool comm_is_gone(struct tutti_comm *comm, int rank);
/* Whether two ranks are of one process of this host. */
bool comm_share_process(const struct tutti_comm *comm, int rank, int other);
/* Whether a rank is of this host, and its process is in another PID namespace: its pid means nothing here. */
bool comm_is_hidden(const struct tutti_comm *comm, int rank);
/* Whether a rank of this host is gone because its process went on as another program. */
bool comm_has_executed(const struct tutti_comm *comm, int rank);
/* Whether a rank of this host is known to be stopped, by a signal or a debugger. */
bool comm_is_stopped(const struct tutti_comm *comm, int rank);
/* The first rank of the next process that is known to have ended, from *at (0 at first) on; -1: no more. */
int comm_next_ended(const struct tutti_comm *comm, int *at);
/* The pid of the next other process of this host that is visible; 0: no more. */
pid_t comm_next_pid(const struct tutti_comm *comm, int *at);
/* Adds what is held for them. */
void comm_processes_footprint(const struct tutti_comm *comm, struct tutti_footprint *sum);

#endif
