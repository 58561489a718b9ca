/* server_state.h - the members of a rank's parameter server, for the files that make it up:
 *
 *     server.c            made and freed; the calls of its worker
 *       server_admit.c    workers that come later
 *         server_lines.c  communicators of a worker and a seat, and of two seats
 */
#ifndef TUTTI_SERVER_SERVER_STATE_H
#define TUTTI_SERVER_SERVER_STATE_H

#include <pthread.h>

#include "server/serve.h"
#include "server/server_options.h"
#include "server/worker.h"

/* Of one rank, at most: seats, and communicators of it alone, from its worker and from seat to seat. */
enum {
    SERVER_SEATS = 2 + SERVER_SPARES_MAX,
    SERVER_OWN_COMMS = SERVER_SEATS + SERVER_SEATS * (SERVER_SEATS - 1) / 2
};

/* Of calls, if a program gives none. */
#define SERVER_TIMEOUT_NS (30 * UINT64_C(60) * 1000000000)

struct tutti_server {
    struct server_setup setup;
    int rank;                          /* in the communicator of the application */
    int server, worker;                /* its number among those; -1: it is none */
    struct serve *seats[SERVER_SEATS]; /* its own share, that of which it has the backup, spares; NULL: none */
    struct worker *worker_end;                /* NULL: it is no worker */
    struct tutti_comm *own[SERVER_OWN_COMMS]; /* of this rank alone: of its worker and a seat, or two seats */
    int own_count;
    int places_taken; /* by workers that came later, as far as this rank knows */
    pthread_mutex_t function_lock;
};

/* -------------------------------------------------------------------------------- server_lines.c */

/* Communicators while they are made. */
struct server_lines {
    struct tutti_comm **to_workers[SERVER_SEATS], **to_seats, **between[SERVER_SEATS];
};

/* The seats of each server. */
static inline int server_copies(const struct tutti_server *server)
{
    return 1 + server->setup.division.backup_count + server->setup.division.spare_count;
}
/* The seat of this rank for that copy; -1: it is no server. */
static inline int server_seat_here(const struct tutti_server *server, int copy)
{
    return server->server < 0 ? -1 : division_seat_of(&server->setup.division, server->server, copy);
}

/* NO_MEMORY. Zeroed, they may be released in any case. */
enum tutti_status server_lines_init(struct server_lines *lines, const struct tutti_server *server);
/* Those of this rank alone stay until the server is freed. */
void server_lines_release(struct server_lines *lines, const struct tutti_server *server);
/* Makes those of all workers that are there at the start, and between seats. */
enum tutti_status server_lines_connect(struct tutti_server *server, struct tutti_comm *comm,
                                       struct server_lines *lines);
/* Makes those of workers that come, the `first` and those behind it, in a communicator in which they have
 * these ranks, and each server has that one; -1: it is not there. On failure the communicator is revoked. */
enum tutti_status server_lines_connect_new(struct tutti_server *server, struct tutti_comm *comm,
                                           int first, int count, const int *joiner_ranks,
                                           const int *host_ranks, struct server_lines *lines);

/* -------------------------------------------------------------------------------------- server.c */

/* Checks what tutti_server_create and functions like it are given: a communicator of this process, outside of
 * groups. */
enum tutti_status server_check_comm(const char *who, struct tutti_comm *comm);
enum tutti_status server_start_working(struct tutti_server *server, struct server_lines *lines);
/* NULL: no memory, with a message. It is freed by server_end, with the seats that it has. */
struct tutti_server *server_begin(const char *who);
void server_end(struct tutti_server *server);
/* The thread's message, behind a name. */
enum tutti_status server_say_where(enum tutti_status status, const char *where);

#endif
