/* service.h - runs collectives that the ranks of a job begin in any order, in the order on which
 * they agree (order.h).
 *
 *     any thread     service_submit ──► queue ──┐
 *     service        report ──► rank 0 ──► run ─┴─► started on the group's communicator ──► done
 *     finisher                                                                     call->done() ◄──┘
 *
 * One service for a process. Its thread makes all calls on its communicators, and sleeps while
 * nothing happens. The first collective of a group makes the group's communicator; for so long the
 * others of this rank wait.
 *
 * When a communicator fails, so do the calls that are under way on it. The text of a failure names
 * the call by report.what, and the rank at fault. When the job's communicator fails, all later calls
 * fail alike.
 *
 * Rank 0 writes a line to stderr when ranks are late, unless TUTTI_LOG is off.
 *
 * Threads: service_submit from any. service_start and service_stop from one at a time.
 */
#ifndef TUTTI_TENSORFLOW_SERVICE_H
#define TUTTI_TENSORFLOW_SERVICE_H

#include <stddef.h>

#include "front/order.h"

enum service_kind {
    SERVICE_ALLREDUCE,
    SERVICE_ALLGATHER,
    SERVICE_REDUCE_SCATTER,
    SERVICE_ALLTOALL,
    SERVICE_BROADCAST,
    SERVICE_GROUP /* makes the group, and does nothing else: report.has_place is true */
};

/* A collective. The caller fills what stands first, and keeps it until `done`. */
struct service_call {
    enum service_kind kind;
    const void *send; /* of a broadcast: recv, as the root's has the data */
    void *recv;
    size_t count; /* as the kind of collective counts it (tutti.h) */
    enum tutti_dtype dtype;
    tutti_op op; /* of reductions */
    struct order_report report;
    /* Called once, by the finisher: the buffers are the caller's again, and so is the call, which
     * may free itself. text: what went wrong; valid during the call. */
    void (*done)(struct service_call *call, enum tutti_status status, const char *text);

    struct service_call *next; /* the rest belongs to the service */
    struct tutti_request *request;
    enum tutti_status status;
    char *text;
};

/* Begins to serve. comm has all ranks of the job; nobody else may use it until service_stop, and it
 * stays the caller's. Not OK (INVALID_OPTIONS: it runs already; NO_MEMORY, SYSTEM): nothing has
 * begun, and tutti_error_message() or errno says why. Does not block. */
enum tutti_status service_start(struct tutti_comm *comm);
/* A child of fork() has no service: there service_submit fails with INVALID_COMM, and service_stop
 * does nothing. */

/* Ends it: calls that have not run fail as ABORTED; those under way are waited for, until their
 * deadlines. Without a service it does nothing. */
void service_stop(void);
/* Begins a call. It always ends by `done`, also when no service runs. Does not block. */
void service_submit(struct service_call *call);

#endif
