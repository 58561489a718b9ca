/* server_admit.c - workers that come later: tutti_server_admit and tutti_server_join.
 *
 *     servers                          a worker that comes
 *       tables and places alike? ◄────────► the same tables?             all ranks agree
 *       what the server is       ─────────► it has places, ranks, shares
 *       a communicator with each ◄────────► seat                         all or none: tutti_comm_agree
 *       seats take them (serve_join.c)
 *                                ◄───────── ENTER: in which clock am I?  when all seats have a line to it
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sized.h"
#include "base/status.h"
#include "os/clock.h"
#include "server/server_state.h"

enum { NAP_NS = 5000000 };
/* A server whose death is known to others is known here to be dead after so long. */
static const uint64_t DEATH_NS = 10000000000;

/* A rank of the communicator, as it tells the others. */
struct role {
    int64_t server; /* its number; -1: it is none */
    int64_t joins, places_taken;
};

/* Servers and workers that come, by their ranks in the communicator. */
struct meeting {
    const char *who;
    struct tutti_comm *comm;
    int root;                   /* the first server */
    int *joiners, joiner_count; /* those that get a place: the lowest */
    int comer_count;            /* those that want one */
    int *hosts;                 /* of each server; -1: it is not here */
    int places_taken, places_left;
};

/* A server tells this to a worker that comes, before the ranks of servers and workers. */
struct facts {
    int64_t server_count, worker_count, place_count, backup_count, spare_count;
    uint64_t payload_max;
};

static void meeting_release(struct meeting *meeting)
{
    free(meeting->joiners);
    free(meeting->hosts);
}

/* ---------------------------------------------------------------------------------- all ranks agree */

/* A server is one rank: two parameter servers cannot admit together. */
static enum tutti_status check_servers(const struct meeting *meeting, const struct role *roles,
                                       int size)
{
    for (int high = 0; high < size; high++)
        for (int low = 0; low < high && roles[high].server >= 0; low++)
            if (roles[low].server == roles[high].server)
                return error_set(TUTTI_INVALID_COMM,
                                 "%s: ranks %d and %d of the communicator are server %d of two "
                                 "parameter servers",
                                 meeting->who, low, high, (int)roles[low].server);
    return TUTTI_OK;
}

static enum tutti_status read_roles(struct meeting *meeting, const struct role *roles, int size)
{
    meeting->root = -1;
    TRY(check_servers(meeting, roles, size));
    for (int r = 0; r < size; r++) {
        if (roles[r].server >= 0 && meeting->root < 0) meeting->root = r;
        if (roles[r].joins) meeting->joiners[meeting->joiner_count++] = r;
        if (roles[r].places_taken > meeting->places_taken)
            meeting->places_taken = (int)roles[r].places_taken;
    }
    if (meeting->root < 0)
        return error_set(TUTTI_INVALID_COMM, "%s: the communicator has no rank of a server",
                         meeting->who);
    if (meeting->joiner_count == 0)
        return error_set(TUTTI_INVALID_COMM, "%s: no rank of the communicator joins", meeting->who);
    return TUTTI_OK;
}

/* The part that each rank has. All ranks come to the same result, but for a failure of their own. */
static enum tutti_status exchange_roles(struct meeting *meeting, const struct tutti_server *server,
                                        bool joins, struct role **roles)
{
    const int size = tutti_comm_size(meeting->comm), rank = tutti_comm_rank(meeting->comm);
    *roles = calloc((size_t)size, sizeof **roles);
    meeting->joiners = calloc((size_t)size, sizeof *meeting->joiners);
    enum tutti_status status =
        *roles != NULL && meeting->joiners != NULL
            ? TUTTI_OK
            : error_set(TUTTI_NO_MEMORY, "%s: no memory for %d ranks", meeting->who, size);
    TRY(server_setup_agree(meeting->comm, meeting->who, status, NULL, NULL));
    (*roles)[rank] = (struct role){server->server, joins, server->places_taken};
    TRY(tutti_allgather(&(*roles)[rank], *roles, sizeof **roles, TUTTI_UINT8, meeting->comm));
    return read_roles(meeting, *roles, size);
}

static struct facts facts_of(const struct server_division *division)
{
    return (struct facts){division->server_count, division->worker_count, division->place_count,
                          division->backup_count, division->spare_count,  division->payload_max};
}

static bool make_sense(const struct facts *facts)
{
    return facts->server_count > 0 && facts->server_count <= INT32_MAX / 8 &&
           facts->place_count >= 0 && facts->worker_count > facts->place_count &&
           facts->worker_count <= INT32_MAX / 2 && facts->backup_count >= 0 &&
           facts->backup_count <= 1 && facts->spare_count >= 0 &&
           facts->spare_count <= SERVER_SPARES_MAX && facts->payload_max <= DIVISION_QUEUE_MAX;
}

/* Of a worker that comes: all that it does not know of the server. */
static void take_facts(struct server_setup *setup, const struct facts *facts)
{
    struct server_division *const division = &setup->division;
    division->server_count = (int)facts->server_count;
    division->worker_count = (int)facts->worker_count;
    division->place_count = (int)facts->place_count;
    division->backup_count = (int)facts->backup_count;
    division->spare_count = (int)facts->spare_count;
    division->payload_max = facts->payload_max;
    if (setup->timeout_ns == 0) setup->timeout_ns = SERVER_TIMEOUT_NS;
}

/* The ranks of servers and workers, which the first server tells. */
static enum tutti_status exchange_ranks(struct meeting *meeting, struct tutti_server *server,
                                        const struct facts *facts, bool joins)
{
    struct server_setup *const setup = &server->setup;
    const size_t servers = (size_t)facts->server_count, workers = (size_t)facts->worker_count;
    int *const ranks = calloc(servers + workers, sizeof *ranks);
    meeting->hosts = calloc(servers, sizeof *meeting->hosts);
    if (joins) setup->server_ranks = calloc(servers, sizeof *setup->server_ranks);
    if (joins) setup->worker_ranks = calloc(workers, sizeof *setup->worker_ranks);
    const bool has_memory = ranks != NULL && meeting->hosts != NULL &&
                            setup->server_ranks != NULL && setup->worker_ranks != NULL;
    enum tutti_status status =
        has_memory ? TUTTI_OK : error_set(TUTTI_NO_MEMORY, "%s: no memory for ranks", meeting->who);
    status = server_setup_agree(meeting->comm, meeting->who, status, NULL, NULL);
    if (status == TUTTI_OK && !joins) {
        memcpy(ranks, setup->server_ranks, servers * sizeof *ranks);
        memcpy(ranks + servers, setup->worker_ranks, workers * sizeof *ranks);
    }
    if (status == TUTTI_OK)
        status = tutti_broadcast(ranks, ranks, (servers + workers) * sizeof *ranks, TUTTI_UINT8,
                                 meeting->root, meeting->comm);
    if (status == TUTTI_OK && joins) {
        memcpy(setup->server_ranks, ranks, servers * sizeof *ranks);
        memcpy(setup->worker_ranks, ranks + servers, workers * sizeof *ranks);
    }
    free(ranks);
    return status;
}

static enum tutti_status no_place(const struct meeting *meeting, int place_count)
{
    if (place_count == 0)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s: joiner_max of the parameter server is 0: no worker can come",
                         meeting->who);
    if (meeting->places_left <= 0)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s: joiner_max of the parameter server is %d, and all these places are "
                         "taken",
                         meeting->who, place_count);
    return error_set(TUTTI_INVALID_OPTIONS,
                     "%s: joiner_max of the parameter server is %d; %d workers come at once, and "
                     "lower ranks get the last places, of which there %s %d",
                     meeting->who, place_count, meeting->comer_count,
                     meeting->places_left == 1 ? "is" : "are", meeting->places_left);
}

static enum tutti_status exchange_facts(struct meeting *meeting, struct tutti_server *server,
                                        bool joins)
{
    struct facts facts = {0}, own = facts_of(&server->setup.division);
    if (tutti_comm_rank(meeting->comm) == meeting->root) facts = own;
    TRY(tutti_broadcast(&facts, &facts, sizeof facts, TUTTI_UINT8, meeting->root, meeting->comm));
    const bool fits = make_sense(&facts) && (joins || memcmp(&facts, &own, sizeof own) == 0);
    TRY(server_setup_agree(
        meeting->comm, meeting->who,
        fits ? TUTTI_OK
             : error_set(TUTTI_MISMATCH, "%s: it is another parameter server", meeting->who),
        NULL, NULL));
    meeting->places_left = (int)facts.place_count - meeting->places_taken;
    meeting->comer_count = meeting->joiner_count;
    if (meeting->places_left <= 0) return no_place(meeting, (int)facts.place_count);
    if (meeting->joiner_count > meeting->places_left) meeting->joiner_count = meeting->places_left;
    if (joins) take_facts(&server->setup, &facts);
    return exchange_ranks(meeting, server, &facts, joins);
}

/* Without a connection with each server that lives, a worker never comes. This server may hear of a death later than the
 * communicator. */
static enum tutti_status check_missing(const struct meeting *meeting,
                                       const struct tutti_server *server)
{
    const uint64_t until_ns = clock_now_ns() + DEATH_NS;
    for (int s = 0; s < server->setup.division.server_count; s++)
        while (meeting->hosts[s] < 0 && server->seats[0] != NULL &&
               serve_has_line_to(server->seats[0], s)) {
            if (clock_now_ns() > until_ns)
                return error_set(TUTTI_INVALID_COMM,
                                 "%s: the server at rank %d lives, and is not in the communicator",
                                 meeting->who, server->setup.server_ranks[s]);
            nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        }
    return TUTTI_OK;
}

/* All that ranks must know before they connect. status: of what this rank did before. */
static enum tutti_status meet(struct meeting *meeting, struct tutti_server *server, bool joins,
                              enum tutti_status status)
{
    const struct server_setup *const setup = status == TUTTI_OK ? &server->setup : NULL;
    const uint64_t hashes[SERVER_HASHES] = {[SERVER_TABLES] =
                                                setup != NULL ? setup->hashes[SERVER_TABLES] : 0};
    const int size = tutti_comm_size(meeting->comm);
    struct role *roles = NULL;
    TRY(server_setup_agree(meeting->comm, meeting->who, status, setup, hashes));
    status = exchange_roles(meeting, server, joins, &roles);
    if (status == TUTTI_OK) status = exchange_facts(meeting, server, joins);
    const int servers = server->setup.division.server_count;
    for (int s = 0; s < servers && status == TUTTI_OK; s++) meeting->hosts[s] = -1;
    for (int r = 0; r < size && status == TUTTI_OK; r++)
        if (roles[r].server >= 0 && roles[r].server < servers) meeting->hosts[roles[r].server] = r;
    free(roles);
    if (status != TUTTI_OK) return status;
    return server_setup_agree(meeting->comm, meeting->who, check_missing(meeting, server), NULL,
                              NULL);
}

/* ----------------------------------------------------------------------------------- the connections */

/* Whether all ranks that are left have made their communicators. is_known: all of these have the same answer. */
static enum tutti_status settle(const struct meeting *meeting, enum tutti_status status,
                                bool *is_known)
{
    char message[ERROR_TEXT_MAX];
    uint64_t word = status == TUTTI_OK;
    error_copy(message, sizeof message);
    const enum tutti_status agreed = tutti_comm_agree(meeting->comm, &word);
    *is_known = agreed == TUTTI_OK || agreed == TUTTI_PROC_FAILED;
    if (*is_known && word == 1) return TUTTI_OK;
    if (status != TUTTI_OK) return error_set(status, "%s", message);
    if (!*is_known) return agreed;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    (void)tutti_comm_failure(meeting->comm, &failure);
    const bool has_reason = failure.status != TUTTI_OK;
    return error_set(TUTTI_PROC_FAILED, "%s: another rank could not connect%s%s", meeting->who,
                     has_reason ? ": " : "; its own message says why",
                     has_reason ? failure.message : "");
}

/* Of a server: all workers that come, or that they do not. */
static enum tutti_status hand_over(struct tutti_server *server, const struct meeting *meeting,
                                   int first, bool come, struct server_lines *lines)
{
    enum tutti_status status = TUTTI_OK;
    for (int copy = 0; copy < SERVER_SEATS; copy++)
        for (int w = first; w < first + meeting->joiner_count; w++) {
            if (server->seats[copy] == NULL) continue;
            struct tutti_comm **const comm = &lines->to_workers[copy][w];
            const enum tutti_status one =
                serve_take_worker(server->seats[copy], w, come ? *comm : NULL);
            if (come) *comm = NULL;
            if (one != TUTTI_OK) status = one;
        }
    return status;
}

static enum tutti_status connect(struct tutti_server *server, const struct meeting *meeting,
                                 int first, struct server_lines *lines)
{
    enum tutti_status status = server_say_where(server_lines_init(lines, server), meeting->who);
    bool is_known = false;
    TRY(server_setup_agree(meeting->comm, meeting->who, status, NULL, NULL));
    status = server_lines_connect_new(server, meeting->comm, first, meeting->joiner_count,
                                      meeting->joiners, meeting->hosts, lines);
    status = settle(meeting, status, &is_known);
    if (status == TUTTI_OK || !is_known) {
        server->places_taken = meeting->places_taken + meeting->joiner_count;
        const enum tutti_status handed =
            hand_over(server, meeting, first, status == TUTTI_OK, lines);
        if (status == TUTTI_OK) status = handed;
    }
    return status;
}

/* ---------------------------------------------------------------------------------------- the calls */

/* The error may name a call within this one, which the program did not make. */
static enum tutti_status say_call(enum tutti_status status, const char *who)
{
    char message[ERROR_TEXT_MAX];
    if (status == TUTTI_OK) return TUTTI_OK;
    error_copy(message, sizeof message);
    return strncmp(message, who, strlen(who)) == 0 ? status : server_say_where(status, who);
}

enum tutti_status tutti_server_admit(struct tutti_server *server, struct tutti_comm *grown)
{
    struct meeting meeting = {.who = "tutti_server_admit", .comm = grown};
    struct server_lines lines = {0};
    if (server == NULL) return error_set(TUTTI_INVALID_BUFFER, "%s: server is NULL", meeting.who);
    TRY(server_check_comm(meeting.who, grown));
    enum tutti_status status = meet(&meeting, server, false, TUTTI_OK);
    if (status == TUTTI_OK) {
        const int first = division_first_workers(&server->setup.division) + meeting.places_taken;
        status = connect(server, &meeting, first, &lines);
        server_lines_release(&lines, server);
    }
    meeting_release(&meeting);
    return say_call(status, meeting.who);
}

/* Its number among the workers, and its rank; -1: all places are taken by lower ranks. */
static int take_place(struct tutti_server *server, const struct meeting *meeting)
{
    const int first = division_first_workers(&server->setup.division) + meeting->places_taken;
    const int rank = tutti_comm_rank(meeting->comm);
    const int place = server_setup_find(meeting->joiners, meeting->joiner_count, rank);
    server->worker = place >= 0 ? first + place : -1;
    server->rank = place >= 0 ? server->setup.worker_ranks[server->worker] : -1;
    return first;
}

static enum tutti_status join(struct tutti_server *server, struct meeting *meeting,
                              enum tutti_status status)
{
    struct server_lines lines = {0};
    status = meet(meeting, server, true, status);
    if (status == TUTTI_OK) {
        status = connect(server, meeting, take_place(server, meeting), &lines);
        if (status == TUTTI_OK && server->worker < 0)
            status = no_place(meeting, server->setup.division.place_count);
        if (status == TUTTI_OK) status = server_start_working(server, &lines);
        if (status == TUTTI_OK) status = worker_enter(server->worker_end, meeting->who);
        server_lines_release(&lines, server);
    }
    meeting_release(meeting);
    return status;
}

enum tutti_status tutti_server_join(const struct tutti_server_options *options,
                                    struct tutti_comm *grown, struct tutti_server **made)
{
    struct meeting meeting = {.who = "tutti_server_join", .comm = grown};
    struct tutti_server_options own = TUTTI_SERVER_OPTIONS_INIT;
    struct tutti_server none = {.server = -1, .worker = -1}; /* for the agreement of all ranks */
    char message[ERROR_TEXT_MAX];
    if (made == NULL) return error_set(TUTTI_INVALID_BUFFER, "%s: server is NULL", meeting.who);
    *made = NULL;
    TRY(server_check_comm(meeting.who, grown));
    struct tutti_server *const server = server_begin(meeting.who);
    enum tutti_status status =
        server == NULL ? TUTTI_NO_MEMORY
        : options == NULL
            ? error_set(TUTTI_INVALID_OPTIONS, "%s: options is NULL", meeting.who)
            : SIZED_READ("tutti_server_join: options", tutti_server_options, options, &own);
    if (server != NULL) server->server = server->worker = -1;
    if (status == TUTTI_OK)
        status = server_say_where(server_setup_init_tables(&server->setup, &own), meeting.who);
    status = say_call(join(server != NULL ? server : &none, &meeting, status), meeting.who);
    if (status == TUTTI_OK) {
        *made = server;
        return TUTTI_OK;
    }
    error_copy(message, sizeof message);
    if (server != NULL) worker_give_up(server->worker_end);
    server_end(server);
    return error_set(status, "%s", message);
}
