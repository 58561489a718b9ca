/* serve.h - a server: one thread that answers all workers, and takes the steps.
 *
 *     worker ──push, set──► open update ──tick──► ended update ──┐
 *                                                                │ HAS, from each server
 *                                              server 0: worker_clock ── decides a step
 *                                                                │ DECIDED, to each server
 *     worker ◄──pull── tables ◄── applied in the order of workers┘
 *
 * Invariants
 *   1. Server 0 counts the end of a worker's clock when every server has its whole update. So each server
 *      can apply every step that was decided, even if the worker has died by then.
 *   2. All servers apply the same steps in the same order.
 *   3. A request is carried out once, whatever comes twice: each has the next number of its worker.
 *   4. A pull is answered when all clocks that its worker had ended are in steps.
 *   5. Memory is bounded: a worker's requests and update by `queue_bytes` each, requests by SERVER_SLOTS.
 *   6. A worker whose push cannot be kept is told so, is gone from then on, and ends the connection.
 */
#ifndef TUTTI_SERVER_SERVE_H
#define TUTTI_SERVER_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "membership/worker_clock.h"
#include "server/division.h"
#include "server/table.h"
#include "tutti/server.h"

struct serve;

struct serve_config {
    const struct server_division *division; /* outlives the server */
    struct tables *tables;                  /* becomes the server's; in the order of the division */
    struct worker_clock_rule rule;
    bool averages;
    int server;              /* its number */
    int rank;                /* in the communicator of the application, for the log */
    const int *worker_ranks; /* in that communicator; these two outlive the server */
    const int *server_ranks;
    /* Of this server with each worker, and: server 0: with each other server; another: [0], with
     * server 0. They become the server's, but for that of this rank alone (line.h). */
    struct tutti_comm **worker_comms;
    struct tutti_comm **server_comms;
};

/* Starts to serve. In any case tables and communicators are the server's. On failure *serve is
 * NULL. */
enum tutti_status serve_create(const struct serve_config *config, struct serve **serve);
/* Waits until all workers are gone, on all servers; or until the deadline (UINT64_MAX: none):
 * IN_PROGRESS. TIMEOUT: a worker has been silent for silence_ns (0: may be), and the message names
 * it. PROC_FAILED: a server died. INVALID_COMM: this is a child of fork(), which has no servers. Any
 * thread. */
enum tutti_status serve_wait(struct serve *serve, uint64_t deadline_ns, uint64_t silence_ns);
/* TIMEOUT, with a message that names a worker that has not left. Any thread. */
enum tutti_status serve_say_who_is_there(struct serve *serve);
/* Saves the tables, in the server's thread, between two steps; until the deadline. TIMEOUT: that goes
 * on. INVALID_REQUEST: another thread saves. Any thread. */
enum tutti_status serve_save(struct serve *serve, const char *folder, uint64_t deadline_ns);
/* Ends the thread; workers that are there get ABORTED. In a child of fork(), gives memory back
 * alone. NULL is allowed. */
void serve_free(struct serve *serve);
/* Any thread. */
void serve_count(struct serve *serve, struct tutti_server_counters *counters);

#endif
