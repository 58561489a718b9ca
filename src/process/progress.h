/* progress.h - the one thread of the process that moves started operations while the application computes.
 *
 *     pass over all clients ──moved──► again ──on a CPU that others want, between ranks of a host──► leave it to them a while
 *        ├─blocked──────► sleep on what the client waits for
 *        └─nothing, or an application's thread moves it──► sleep until notified
 *
 * It exists from the first started operation on (of communicators of several hosts: from their creation), as long as a client is
 * registered; blocks all signals. A child of fork() has neither the thread nor its clients. Timers and wakes of idle CPUs cost
 * tens of microseconds on virtual machines: so it sleeps until something happens, and naps only where it has to.
 */
#ifndef TUTTI_PROCESS_PROGRESS_H
#define TUTTI_PROCESS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* What a client has to say, the busier the later.
 * LISTENING: there is nothing to do, but it wants to be asked again within some milliseconds: others may call. DRIVEN: a thread of
 * the application moves it, and notifies when it stops. BLOCKED: it waits for others. */
enum progress_result {
    PROGRESS_NOTHING_TO_DO,
    PROGRESS_LISTENING,
    PROGRESS_DRIVEN,
    PROGRESS_BLOCKED,
    PROGRESS_MOVED
};

struct progress_client {
    /* Moves what it can, never waits. */
    enum progress_result (*progress)(struct progress_client *client);
    /* Waits until there may be something to move, until it is woken, at most timeout_ns. It ends at once if
     * progress_is_called() after what wake needs is in place. False: it cannot wait. */
    bool (*sleep)(struct progress_client *client, uint64_t timeout_ns);
    /* Ends that, from another thread. */
    void (*wake)(struct progress_client *client);
    bool is_near; /* CPUs of this host move it, and no network */
    struct progress_client *next;
};

/* Whether TUTTI_PROGRESS_CPUS, the CPUs that the thread keeps to, can be read: a list such as 3 or 0-1,8; INVALID_OPTIONS. */
enum tutti_status progress_check_options(void);
/* Whether it finds a CPU that none of rank_count ranks of this host computes on, as far as the calling thread's CPUs tell:
 * those of TUTTI_PROGRESS_CPUS, or more CPUs than ranks. */
bool progress_has_free_cpu(int rank_count);
/* Adds a client, if it is not there yet, and makes sure that the thread runs. */
enum tutti_status progress_register(struct progress_client *client);
/* Removes it; when this returns the thread does not touch the client any more. The thread ends with its last one:
 * then it is gone. */
void progress_unregister(struct progress_client *client);
/* A client that had nothing to do has something now, or nobody else moves it any more. Cheap when the thread is awake. */
void progress_notify(void);
/* Whether somebody did, since the thread began to fall asleep. */
bool progress_is_called(void);

#endif
