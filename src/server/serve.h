/* serve.h - a seat: one thread that answers all workers about one share of the tables, and takes the
 * steps. A server has a seat for its own share, one for the backup of another server's, and spare ones, which
 * have no share until a server dies (division.h, serve_fill.c).
 *
 *     worker ──push, set──► open update ──tick──► ended update ──┐
 *                                                                │ HAS, from each seat
 *                                      the leader: step_leader.h ── decides a step
 *                                                                │ DECIDED, to each seat
 *     worker ◄──pull── tables ◄── applied in the order of workers┘
 *
 * Workers push to both seats of a share, and pull from one. So a backup has each update from its worker,
 * and applies the same updates in the same steps: nothing is copied between seats, and a worker whose
 * line to one seat has ended goes on with the other one. When a server dies, its seats are gone. Seat 0
 * decides steps; if it is gone, the seat that has its share decides (membership/step_leader.h).
 *
 * Invariants
 *   1. The leader counts the end of a worker's clock when every seat has its whole update. So each seat
 *      can apply every step that was decided, even if the worker has died by then.
 *   2. All seats apply the same steps in the same order.
 *   3. A request is carried out once, whatever comes twice: each has the next number of its worker.
 *   4. A pull is answered when all clocks that its worker had ended are in steps.
 *   5. Memory is bounded: a worker's requests and update by `queue_bytes` each, requests by SERVER_SLOTS.
 *   6. A worker whose push cannot be kept is told so, is gone from then on, and ends the connection.
 */
#ifndef TUTTI_SERVER_SERVE_H
#define TUTTI_SERVER_SERVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "membership/worker_clock.h"
#include "server/division.h"
#include "server/table.h"
#include "tutti/server.h"

struct serve;

struct serve_config {
    const struct server_division *division; /* outlives the server */
    struct tables *tables; /* becomes the server's; in the order of the division; of a spare
                                               without elements */
    struct worker_clock_rule rule;
    bool averages;
    int seat;                /* its number */
    int rank;                /* in the communicator of the application, for the log */
    const int *worker_ranks; /* in that communicator; these two outlive the server */
    const int *server_ranks;
    /* Of this seat with each worker (NULL: it comes later), and with other seats, by their numbers (division_has_line); NULL: none. They become the seat's, but for those of
     * this rank alone (line.h). In a communicator of two seats the lower one is rank 0. */
    struct tutti_comm **worker_comms;
    struct tutti_comm **seat_comms;
    pthread_mutex_t *function_lock; /* NULL, or held while users' optimizers may run */
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
/* Hands over the communicator with a worker that comes later; NULL: it does not come. It becomes the seat's. Does not
 * block. Any thread. NO_MEMORY: the communicator is freed, and the worker does not come. */
enum tutti_status serve_take_worker(struct serve *serve, int worker, struct tutti_comm *comm);
/* Whether a line to that server stands: it lives, as far as this seat knows. Any thread. */
bool serve_has_line_to(struct serve *serve, int server);
/* Ends the thread; workers that are there get ABORTED. In a child of fork(), gives memory back
 * alone. NULL is allowed. */
void serve_free(struct serve *serve);
/* Any thread. */
void serve_count(struct serve *serve, struct tutti_server_counters *counters);

#endif
