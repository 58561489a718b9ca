/* progress.h - the one thread of the process that moves started operations while the application
 * computes.
 *
 * It exists from the first started operation on (of communicators with data over TCP: from their
 * creation), as long as a client is registered; sleeps while no client has anything to move; blocks
 * all signals. A child of fork() has neither the thread nor its clients. fork() comes between two
 * passes over the clients, unless one takes too long, or a client forks (os/fork.h).
 */
#ifndef TUTTI_PROCESS_PROGRESS_H
#define TUTTI_PROCESS_PROGRESS_H

#include <stdbool.h>

#include "tutti/tutti.h"

/* LISTENING: there is nothing to do, but it wants to be asked again within some milliseconds:
 * others may call. MOVED: others may wait for the next look. */
enum progress_result {
    PROGRESS_NOTHING_TO_DO,
    PROGRESS_LISTENING,
    PROGRESS_BLOCKED,
    PROGRESS_MOVED
};

struct progress_client {
    /* Moves what it can, never waits. Called by the progress thread. */
    enum progress_result (*progress)(struct progress_client *client);
    struct progress_client *next;
};

/* Whether TUTTI_PROGRESS_CPUS, the CPUs that the thread keeps to, can be read: a list such as 3 or
 * 0-1,8; INVALID_OPTIONS. */
enum tutti_status progress_check_options(void);
/* Whether it finds a CPU that none of rank_count ranks of this host computes on, as far as the
 * calling thread's CPUs tell: those of TUTTI_PROGRESS_CPUS, or more CPUs than ranks. */
bool progress_has_free_cpu(int rank_count);
/* Adds a client, if it is not there yet, and makes sure that the thread runs. */
enum tutti_status progress_register(struct progress_client *client);
/* Removes it; when this returns the thread does not touch the client any more. The thread ends with
 * its last one: then it is gone. */
void progress_unregister(struct progress_client *client);
/* A client that had nothing to do has something now. Cheap when the thread is awake. */
void progress_notify(void);

#endif
