/* monitor.h - the one thread of the process that answers while the application does not: to
 * tutti-trace, to a signal, to Prometheus, and to a process whose communicator has failed.
 *
 *     tutti-trace query ─────────┐                                    ┌──► describe: what each communicator does
 *     process whose comm failed ─┤ abstract socket "tutti-monitor/PID" ├──► look: has one of ours failed, too?
 *     TUTTI_TRACE_SIGNAL ────────┤ eventfd                             ├──► dump
 *     TUTTI_METRICS_INTERVAL ────┘ timeout of poll                     └──► measure, into tutti-HOST-PID-NUMBER.prom
 *
 * Invariants
 *  1. The thread exists as long as there are clients; it sleeps in poll, and without metrics
 *     nothing but the above wakes it.
 *  2. It blocks all signals. A child of fork() has neither the thread nor its clients, and does not
 *     keep the socket's name. fork() comes between two answers, unless one takes too long
 *     (os/fork.h).
 *  3. Clients are called with the monitor's lock held, so none goes away meanwhile; nothing is
 *     waited for with the lock held.
 *  4. The monitor answers only processes of the same user, or root: one at a time, one request
 *     each, for a moment at most.
 *
 * A process that cannot have it (no descriptor, no thread) works without, with a line in the log.
 */
#ifndef TUTTI_PROCESS_MONITOR_H
#define TUTTI_PROCESS_MONITOR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "process/metrics.h"
#include "tutti/tutti.h"

/* A query is answered by a text for each client. A text that has this many bytes or more comes in
 * several messages: all but its last have just this many. Where none would be shorter, a line's end
 * follows as the last. */
enum { MONITOR_MESSAGE_BYTES_MAX = 65536, MONITOR_NAME_SIZE = 48 };
#define MONITOR_NAME_PREFIX "tutti-monitor/"

struct monitor_client {
    /* Writes what a client does. */
    void (*describe)(struct monitor_client *client, FILE *file);
    void (*look)(struct monitor_client *client);
    void (*dump)(struct monitor_client *client);
    /* Adds to the sum, and says how it is itself. */
    void (*measure)(struct monitor_client *client, struct metrics_counts *sum,
                    struct metrics_communicator *own);
    struct monitor_client *next;
    bool is_registered;
};

/* Whether what the environment says of it can be understood; INVALID_OPTIONS names the variable.
 * Any thread. */
enum tutti_status monitor_check_options(void);
void monitor_register(struct monitor_client *client);
/* When this returns the client is not touched any more; with the last one the thread is gone. One
 * that is not registered is let alone. */
void monitor_unregister(struct monitor_client *client);
/* Makes the thread call the `look` of all clients. Any thread; cheap, a system call. */
void monitor_look(void);
/* Does the same in another process of this host, if it has a monitor. Never waits long. Any
 * thread. */
void monitor_look_at(pid_t pid);
/* The n-th name that the monitor of a process may listen at: the first that is free, of those with
 * the same pid in other PID namespaces. */
void monitor_name(pid_t pid, int n, char name[static MONITOR_NAME_SIZE]);

/* A request to a monitor is one message of this size. */
struct monitor_request {
    char what[8]; /* "query" or "look", then zeroes */
};

#endif
