/* worker.h - a worker's end of a parameter server: calls, each in parts to all servers, and what
 * they wait for.
 *
 *     call ──► a leg for each seat: request, payload ──►
 *                                   reply, payload   ◄──  all at once; then the values are put in place
 *
 * A seat is a server's own part of the tables, or the backup of another server's (division.h). Pushes
 * and ticks go to all seats, and are done when each seat has answered, or its line has ended; one
 * answer for each share is enough. A pull goes to one seat of each share, and again to the other one
 * if the line of the first ends before the answer.
 *
 * Tutti's own thread moves the messages, so a started call needs no other call. Each leg has one
 * of the SERVER_SLOTS of its server until its answer is there.
 *
 * One thread at a time, and counters for any thread.
 */
#ifndef TUTTI_SERVER_WORKER_H
#define TUTTI_SERVER_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "membership/worker_clock.h"
#include "server/division.h"
#include "tutti/server.h"

struct worker;

struct worker_config {
    const struct server_division *division; /* outlives the worker */
    int rank;                               /* in the communicator of the application */
    const int *server_ranks, *worker_ranks; /* in that communicator; outlive the worker */
    struct tutti_comm *
        *comms; /* with each seat; become the worker's, but for those of this rank alone. NULL: that
                                  server was gone before this worker came */
    uint64_t timeout_ns; /* default */
};

/* In any case these communicators are the worker's. On failure *worker is NULL: NO_MEMORY. */
enum tutti_status worker_create(const struct worker_config *config, struct worker **worker);
/* A worker that has come later waits until it is in, at most until its deadline. A failure is that of the last server
 * that it asked, and ends it: worker_give_up. */
enum tutti_status worker_enter(struct worker *worker, const char *function);
/* Ends its connections without a word, and frees everything. NULL is allowed. */
void worker_give_up(struct worker *worker);
/* Tells the servers that it leaves, waits for them at most until the deadline, and frees
 * everything. NULL is allowed. */
enum tutti_status worker_free(struct worker *worker);
void worker_count(const struct worker *worker, struct tutti_server_counters *counters);

/* The calls of server.h, for arguments that have been checked there (worker_check). */
enum worker_call { WORKER_PUSH, WORKER_SET, WORKER_PULL };
/* Everything of a call that can be refused. Then it is launched, or dropped: NULL is allowed. stays: values of parts
 * stay as they are until the operation is finished. */
enum tutti_status worker_prepare(struct worker *worker, enum worker_call call, const char *function,
                                 const struct tutti_server_part *parts, size_t part_count,
                                 const struct tutti_server_call_options *options, bool stays,
                                 struct tutti_server_operation **operation);
void worker_launch(struct tutti_server_operation *operation);
void worker_drop(struct tutti_server_operation *operation);
/* Refuses, as the calls do, if so many cannot be launched now; with a tick among them. */
enum tutti_status worker_check_launch(const struct worker *worker, const char *function, int calls,
                                      bool with_tick);
enum tutti_status worker_tick_start(struct worker *worker, const char *function,
                                    const struct tutti_server_call_options *options,
                                    struct tutti_server_operation **operation);
/* A push, tick and pull ended with TIMEOUT: its clock is not over, and the next tick is that tick again.
 * Until that is over, it is unfinished. */
void worker_leave_unfinished(struct worker *worker);
bool worker_is_unfinished(const struct worker *worker);
enum tutti_status worker_change(struct worker *worker, const char *function,
                                const struct worker_clock_rule *rule,
                                const struct tutti_server_call_options *options);
enum tutti_status worker_step_read(struct worker *worker, const char *function, uint64_t number,
                                   int *ranks, size_t rank_capacity, struct tutti_server_step *step);
/* tutti_server_wait and tutti_server_test. */
enum tutti_status worker_finish(struct tutti_server_operation **operation, bool blocks);

#endif
