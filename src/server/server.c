/* server.c - the functions of server.h: a rank's parameter server, made and freed, and calls
 * that go to its worker. */
#include "tutti/server.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/group_depth.h"
#include "base/sized.h"
#include "base/status.h"
#include "os/clock.h"
#include "server/finite.h"
#include "server/server_state.h"
#include "server/snapshot.h"

/* -------------------------------------------------------------------------------- made and freed */

/* Tables of both copies become the seats'. */
static enum tutti_status start_serving(struct tutti_server *server, struct tables **tables,
                                       struct server_lines *lines)
{
    enum tutti_status status = TUTTI_OK;
    for (int copy = 0; copy < server_copies(server) && status == TUTTI_OK; copy++) {
        const struct serve_config config = {
            .division = &server->setup.division,
            .tables = tables[copy],
            .rule = server->setup.rule,
            .averages = server->setup.averages,
            .seat = server_seat_here(server, copy),
            .rank = server->rank,
            .worker_ranks = server->setup.worker_ranks,
            .server_ranks = server->setup.server_ranks,
            .worker_comms = lines->to_workers[copy],
            .seat_comms = lines->between[copy],
            .function_lock = server_copies(server) > 1 ? &server->function_lock : NULL};
        tables[copy] = NULL;
        status = serve_create(&config, &server->seats[copy]);
    }
    return status;
}

enum tutti_status server_start_working(struct tutti_server *server, struct server_lines *lines)
{
    const struct worker_config config = {.division = &server->setup.division,
                                         .rank = server->rank,
                                         .server_ranks = server->setup.server_ranks,
                                         .worker_ranks = server->setup.worker_ranks,
                                         .comms = lines->to_seats,
                                         .timeout_ns = server->setup.timeout_ns};
    const enum tutti_status status = worker_create(&config, &server->worker_end);
    memset(lines->to_seats, 0,
           (size_t)division_seats(&server->setup.division) * sizeof *lines->to_seats);
    return status;
}

enum tutti_status server_say_where(enum tutti_status status, const char *where)
{
    char message[ERROR_TEXT_MAX];
    if (status == TUTTI_OK || status == TUTTI_IN_PROGRESS) return status;
    error_copy(message, sizeof message);
    return error_set(status, "%s: %s", where, message);
}

/* The greatest step, and the least one, negative, of what ranks have loaded. */
struct loaded {
    int64_t bounds[2];
};

static void note_step(struct loaded *loaded, uint64_t step)
{
    const int64_t own[2] = {(int64_t)step, -(int64_t)step};
    for (int i = 0; i < 2; i++)
        if (own[i] > loaded->bounds[i]) loaded->bounds[i] = own[i];
}

/* The tables of a share, perhaps as they were saved; -1: as a spare has them, which gets no elements yet. */
static enum tutti_status make_tables(const struct tutti_server *server,
                                     const struct tutti_server_options *options, int share,
                                     struct tables **tables, struct loaded *loaded)
{
    const char *const folder = options->load_folder;
    struct snapshot_part part = {.server = share,
                                 .server_count = server->setup.division.server_count};
    TRY(server_say_where(server_setup_tables(&server->setup, options, share, tables),
                         "tutti_server_create"));
    if (share < 0) return TUTTI_OK;
    const enum tutti_status status =
        folder != NULL ? snapshot_read(*tables, folder, &part) : TUTTI_OK;
    note_step(loaded, folder != NULL ? part.step : 0);
    return server_say_where(status, "tutti_server_create: load_folder");
}

/* Whether all servers loaded parts of one step. */
static enum tutti_status agree_on_step(struct loaded *loaded, struct tutti_comm *comm)
{
    int64_t *const bounds = loaded->bounds;
    TRY(tutti_allreduce(bounds, bounds, 2, TUTTI_INT64, TUTTI_MAX, comm));
    if (bounds[0] == -bounds[1]) return TUTTI_OK;
    return error_set(TUTTI_MISMATCH,
                     "tutti_server_create: load_folder has parts after step %" PRId64
                     " and after step %" PRId64,
                     -bounds[1], bounds[0]);
}

/* Between two agreements: the work of a rank by itself, and with the others. */
static enum tutti_status make(struct tutti_server *server,
                              const struct tutti_server_options *options, struct tutti_comm *comm)
{
    const struct server_division *const division = &server->setup.division;
    struct server_lines lines = {0};
    struct tables *tables[SERVER_SEATS] = {NULL};
    struct loaded loaded = {{INT64_MIN, INT64_MIN}};
    enum tutti_status status =
        server_say_where(server_lines_init(&lines, server), "tutti_server_create");
    for (int copy = 0; copy < server_copies(server) && status == TUTTI_OK && server->server >= 0;
         copy++)
        status = make_tables(server, options,
                             division_first_share(division, server_seat_here(server, copy)),
                             &tables[copy], &loaded);
    status = server_setup_agree(comm, "tutti_server_create", status, NULL, NULL);
    if (status == TUTTI_OK) status = agree_on_step(&loaded, comm);
    if (status == TUTTI_OK) {
        status = server_lines_connect(server, comm, &lines);
        if (status == TUTTI_OK && server->server >= 0)
            status = start_serving(server, tables, &lines);
        if (status == TUTTI_OK && server->worker >= 0)
            status = server_start_working(server, &lines);
        status = server_setup_agree(comm, "tutti_server_create", status, NULL, NULL);
    }
    for (int copy = 0; copy < SERVER_SEATS; copy++) tables_free(tables[copy]);
    server_lines_release(&lines, server);
    return status;
}

void server_end(struct tutti_server *server)
{
    if (server == NULL) return;
    for (int copy = 0; copy < SERVER_SEATS; copy++) serve_free(server->seats[copy]);
    for (int i = 0; i < server->own_count; i++) (void)tutti_comm_free(server->own[i]);
    pthread_mutex_destroy(&server->function_lock);
    server_setup_release(&server->setup);
    free(server);
}

enum tutti_status server_check_comm(const char *who, struct tutti_comm *comm)
{
    if (tutti_comm_rank(comm) < 0)
        return error_set(TUTTI_INVALID_COMM, "%s: comm is not a communicator of this process", who);
    if (group_is_open())
        return error_set(TUTTI_INVALID_REQUEST,
                         "%s: must not be called between tutti_group_begin and tutti_group_end",
                         who);
    return TUTTI_OK;
}

struct tutti_server *server_begin(const char *who)
{
    struct tutti_server *const server = calloc(1, sizeof *server);
    if (server == NULL) {
        (void)!error_set(TUTTI_NO_MEMORY, "%s: no memory", who);
        return NULL;
    }
    pthread_mutex_init(&server->function_lock, NULL);
    return server;
}

/* Where this rank is among the others. */
static void find_own_numbers(struct tutti_server *server, struct tutti_comm *comm)
{
    const struct server_setup *const setup = &server->setup;
    server->rank = tutti_comm_rank(comm);
    server->server =
        server_setup_find(setup->server_ranks, setup->division.server_count, server->rank);
    server->worker =
        server_setup_find(setup->worker_ranks, setup->division.worker_count, server->rank);
    if (setup->timeout_ns == 0) server->setup.timeout_ns = SERVER_TIMEOUT_NS;
}

enum tutti_status tutti_server_create(const struct tutti_server_options *options,
                                      struct tutti_comm *comm, struct tutti_server **made)
{
    static const char who[] = "tutti_server_create";
    struct tutti_server_options own = TUTTI_SERVER_OPTIONS_INIT;
    if (made == NULL) return error_set(TUTTI_INVALID_BUFFER, "%s: server is NULL", who);
    *made = NULL;
    TRY(server_check_comm(who, comm));
    struct tutti_server *const server = server_begin(who);
    enum tutti_status status =
        server == NULL ? TUTTI_NO_MEMORY
        : options == NULL
            ? error_set(TUTTI_INVALID_OPTIONS, "%s: options is NULL", who)
            : SIZED_READ("tutti_server_create: options", tutti_server_options, options, &own);
    if (status == TUTTI_OK)
        status = server_say_where(server_setup_init(&server->setup, &own, comm), who);
    const struct server_setup *const setup = status == TUTTI_OK ? &server->setup : NULL;
    status = server_setup_agree(comm, who, status, setup, setup != NULL ? setup->hashes : NULL);
    if (status == TUTTI_OK) {
        find_own_numbers(server, comm);
        status = make(server, &own, comm);
    }
    if (status == TUTTI_OK) {
        *made = server;
        return TUTTI_OK;
    }
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    if (server != NULL) (void)worker_free(server->worker_end);
    server_end(server);
    return error_set(status, "%s", message);
}

static uint64_t after(uint64_t timeout_ns)
{
    const uint64_t now = clock_now_ns();
    return timeout_ns < INT64_MAX - now ? now + timeout_ns : INT64_MAX;
}

/* Of several failures the first one counts. A worker is silent if it is so for the server's own share, to
 * which all its calls go; TIMEOUT then waits for nothing else. */
static enum tutti_status wait_for_seats(struct tutti_server *server, uint64_t deadline_ns,
                                        uint64_t silence_ns)
{
    char message[ERROR_TEXT_MAX] = "";
    enum tutti_status first = TUTTI_OK;
    for (int copy = 0; copy < SERVER_SEATS; copy++) {
        struct serve *const seat = server->seats[copy];
        if (seat == NULL) continue;
        const enum tutti_status status = serve_wait(seat, deadline_ns, copy == 0 ? silence_ns : 0);
        if (status == TUTTI_TIMEOUT) return status;
        if (status == TUTTI_OK || (first != TUTTI_OK && first != TUTTI_IN_PROGRESS)) continue;
        first = status;
        error_copy(message, sizeof message);
    }
    return first == TUTTI_OK || first == TUTTI_IN_PROGRESS ? first : error_set(first, "%s", message);
}

static enum tutti_status serve_until(struct tutti_server *server, uint64_t deadline_ns,
                                     const char *who)
{
    if (server == NULL) return error_set(TUTTI_INVALID_BUFFER, "%s: server is NULL", who);
    return server_say_where(wait_for_seats(server, deadline_ns, server->setup.serve_timeout_ns),
                            who);
}

enum tutti_status tutti_server_serve(struct tutti_server *server)
{
    return serve_until(server, UINT64_MAX, "tutti_server_serve");
}

enum tutti_status tutti_server_serve_for(struct tutti_server *server, uint64_t wait_ns)
{
    return serve_until(server, after(wait_ns), "tutti_server_serve_for");
}

enum tutti_status tutti_server_save(struct tutti_server *server, const char *folder)
{
    static const char who[] = "tutti_server_save";
    if (server == NULL || folder == NULL)
        return error_set(TUTTI_INVALID_BUFFER, "%s: %s is NULL", who,
                         server == NULL ? "server" : "folder");
    if (server->seats[0] == NULL)
        return error_set(TUTTI_INVALID_RANK, "%s: rank %d is no server", who, server->rank);
    const uint64_t deadline = after(server->setup.timeout_ns);
    for (int copy = 0; copy < SERVER_SEATS; copy++)
        if (server->seats[copy] != NULL)
            TRY(server_say_where(serve_save(server->seats[copy], folder, deadline), who));
    return TUTTI_OK;
}

/* On a seat that some worker has not left. */
static enum tutti_status say_who_is_there(const struct tutti_server *server)
{
    const bool has_first = serve_wait(server->seats[0], 0, 0) == TUTTI_IN_PROGRESS;
    return serve_say_who_is_there(server->seats[has_first ? 0 : 1]);
}

int tutti_server_rank(const struct tutti_server *server)
{
    return server != NULL ? server->rank : -1;
}

enum tutti_status tutti_server_free(struct tutti_server *server)
{
    if (server == NULL) return TUTTI_OK;
    enum tutti_status status = worker_free(server->worker_end);
    enum tutti_status waited = wait_for_seats(server, after(server->setup.timeout_ns), 0);
    if (waited == TUTTI_IN_PROGRESS) waited = say_who_is_there(server);
    waited = server_say_where(waited, "tutti_server_free");
    if (status == TUTTI_OK) status = waited;
    server_end(server);
    return status;
}

/* ---------------------------------------------------------------------------------------- calls */

static enum tutti_status check_server(const char *who, const struct tutti_server *server)
{
    if (server == NULL) return error_set(TUTTI_INVALID_BUFFER, "%s: server is NULL", who);
    if (server->worker_end == NULL)
        return error_set(TUTTI_INVALID_RANK, "%s: rank %d is no worker", who, server->rank);
    return TUTTI_OK;
}

static enum tutti_status read_options(const char *who,
                                      const struct tutti_server_call_options *options,
                                      struct tutti_server_call_options *own)
{
    *own = (struct tutti_server_call_options)TUTTI_SERVER_CALL_OPTIONS_INIT;
    if (options != NULL) TRY(SIZED_READ(who, tutti_server_call_options, options, own));
    if (own->priority < -100 || own->priority > 100)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: priority is %d; -100 to 100 are possible", who,
                         own->priority);
    if (own->encoding != TUTTI_ENCODING_NONE && !encoding_is_valid(own->encoding))
        return error_set(TUTTI_INVALID_OPTIONS, "%s: encoding %d is unknown", who,
                         (int)own->encoding);
    return TUTTI_OK;
}

static enum tutti_status check_rows(const char *who, size_t p, const struct division_table *table,
                                    const struct tutti_server_part *part)
{
    for (size_t i = 0; i < part->row_count; i++)
        if (part->rows[i] < 0 || (uint64_t)part->rows[i] >= table->row_count)
            return error_set(TUTTI_INVALID_COUNT,
                             "%s: parts[%zu].rows[%zu] is %" PRId64 ", and table '%s' has %" PRIu64
                             " rows",
                             who, p, i, part->rows[i], table->name, table->row_count);
    return TUTTI_OK;
}

static enum tutti_status check_finite(const char *who, size_t p, const struct division_table *table,
                                      const struct tutti_server_part *part)
{
    const float *const values = part->values;
    const size_t count = table->is_rows ? part->row_count * table->width : table->width;
    const size_t end = finite_end(count, values);
    if (end < count)
        return error_set(TUTTI_INVALID_BUFFER, "%s: parts[%zu].values[%zu], for table '%s', is %g",
                         who, p, end, table->name, (double)values[end]);
    return TUTTI_OK;
}

static enum tutti_status check_part(const char *who, const struct server_division *division,
                                    enum worker_call call, size_t p,
                                    const struct tutti_server_part *part)
{
    if (part->table >= division->table_count)
        return error_set(TUTTI_INVALID_COUNT, "%s: parts[%zu].table is %zu of %zu", who, p,
                         part->table, division->table_count);
    const struct division_table *const table = &division->tables[part->table];
    if (!table->is_rows && (part->rows != NULL || part->row_count != 0))
        return error_set(TUTTI_INVALID_BUFFER, "%s: parts[%zu]: table '%s' has no rows", who, p,
                         table->name);
    const bool has_rows = table->is_rows && part->row_count > 0;
    if ((has_rows && part->rows == NULL) || ((has_rows || !table->is_rows) && part->values == NULL))
        return error_set(TUTTI_INVALID_BUFFER,
                         "%s: parts[%zu] of table '%s': rows or values is NULL", who, p,
                         table->name);
    if (table->is_rows && part->row_count > division->payload_max / sizeof(float) / table->width)
        return error_set(TUTTI_INVALID_COUNT,
                         "%s: parts[%zu] has %zu rows of '%s', too many for %" PRIu64
                         " bytes; raise queue_bytes, or use more calls",
                         who, p, part->row_count, table->name, division->payload_max);
    if (table->is_rows) TRY(check_rows(who, p, table, part));
    return call == WORKER_PULL || table->allows_nan ? TUTTI_OK : check_finite(who, p, table, part);
}

/* All that can be refused. */
static enum tutti_status prepare(struct tutti_server *server, enum worker_call call,
                                 const char *who, const struct tutti_server_part *parts,
                                 size_t part_count, const struct tutti_server_call_options *options,
                                 bool stays, struct tutti_server_operation **operation)
{
    struct tutti_server_call_options own;
    *operation = NULL;
    TRY(check_server(who, server));
    TRY(read_options(who, options, &own));
    if (part_count > TUTTI_SERVER_PARTS)
        return error_set(TUTTI_INVALID_COUNT, "%s: %zu parts; at most %d are possible", who,
                         part_count, TUTTI_SERVER_PARTS);
    if (parts == NULL && part_count > 0)
        return error_set(TUTTI_INVALID_BUFFER, "%s: parts is NULL", who);
    for (size_t p = 0; p < part_count; p++)
        TRY(check_part(who, &server->setup.division, call, p, &parts[p]));
    return worker_prepare(server->worker_end, call, who, parts, part_count, &own, stays, operation);
}

static enum tutti_status start(struct tutti_server *server, enum worker_call call, const char *who,
                               const struct tutti_server_part *parts, size_t part_count,
                               const struct tutti_server_call_options *options, bool stays,
                               struct tutti_server_operation **operation)
{
    struct tutti_server_operation *own;
    if (operation == NULL) return error_set(TUTTI_INVALID_BUFFER, "%s: operation is NULL", who);
    *operation = NULL;
    TRY(prepare(server, call, who, parts, part_count, options, stays, &own));
    const enum tutti_status status = worker_check_launch(server->worker_end, who, 1, false);
    if (status != TUTTI_OK) {
        worker_drop(own);
        return status;
    }
    worker_launch(own);
    *operation = own;
    return TUTTI_OK;
}

static enum tutti_status start_and_wait(struct tutti_server *server, enum worker_call call,
                                        const char *who, const struct tutti_server_part *parts,
                                        size_t part_count,
                                        const struct tutti_server_call_options *options)
{
    struct tutti_server_operation *operation;
    TRY(start(server, call, who, parts, part_count, options, true, &operation));
    return worker_finish(&operation, true);
}

enum tutti_status tutti_server_push(struct tutti_server *server,
                                    const struct tutti_server_part *parts, size_t part_count,
                                    const struct tutti_server_call_options *options)
{
    return start_and_wait(server, WORKER_PUSH, "tutti_server_push", parts, part_count, options);
}

enum tutti_status tutti_server_set(struct tutti_server *server,
                                   const struct tutti_server_part *parts, size_t part_count,
                                   const struct tutti_server_call_options *options)
{
    return start_and_wait(server, WORKER_SET, "tutti_server_set", parts, part_count, options);
}

enum tutti_status tutti_server_pull(struct tutti_server *server,
                                    const struct tutti_server_part *parts, size_t part_count,
                                    const struct tutti_server_call_options *options)
{
    return start_and_wait(server, WORKER_PULL, "tutti_server_pull", parts, part_count, options);
}

enum tutti_status tutti_server_push_start(struct tutti_server *server,
                                          const struct tutti_server_part *parts, size_t part_count,
                                          const struct tutti_server_call_options *options,
                                          struct tutti_server_operation **operation)
{
    return start(server, WORKER_PUSH, "tutti_server_push_start", parts, part_count, options, false,
                 operation);
}

enum tutti_status tutti_server_set_start(struct tutti_server *server,
                                         const struct tutti_server_part *parts, size_t part_count,
                                         const struct tutti_server_call_options *options,
                                         struct tutti_server_operation **operation)
{
    return start(server, WORKER_SET, "tutti_server_set_start", parts, part_count, options, false,
                 operation);
}

enum tutti_status tutti_server_pull_start(struct tutti_server *server,
                                          const struct tutti_server_part *parts, size_t part_count,
                                          const struct tutti_server_call_options *options,
                                          struct tutti_server_operation **operation)
{
    return start(server, WORKER_PULL, "tutti_server_pull_start", parts, part_count, options, false,
                 operation);
}

static enum tutti_status start_tick(struct tutti_server *server, const char *who,
                                    const struct tutti_server_call_options *options,
                                    struct tutti_server_operation **operation)
{
    struct tutti_server_call_options own;
    if (operation == NULL) return error_set(TUTTI_INVALID_BUFFER, "%s: operation is NULL", who);
    *operation = NULL;
    TRY(check_server(who, server));
    TRY(read_options(who, options, &own));
    return worker_tick_start(server->worker_end, who, &own, operation);
}

enum tutti_status tutti_server_tick_start(struct tutti_server *server,
                                          const struct tutti_server_call_options *options,
                                          struct tutti_server_operation **operation)
{
    return start_tick(server, "tutti_server_tick_start", options, operation);
}

enum tutti_status tutti_server_tick(struct tutti_server *server,
                                    const struct tutti_server_call_options *options)
{
    struct tutti_server_operation *operation;
    TRY(start_tick(server, "tutti_server_tick", options, &operation));
    return worker_finish(&operation, true);
}

/* Waits for all operations, and returns the first failure, with its message. In their order, since a server
 * that refuses a push says nothing about what came behind it. */
static enum tutti_status finish_all(enum tutti_status before,
                                    struct tutti_server_operation **operations, int count)
{
    enum tutti_status status = before;
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    for (int i = 0; i < count; i++) {
        if (operations[i] == NULL) continue;
        const enum tutti_status one = worker_finish(&operations[i], true);
        if (one == TUTTI_OK || status != TUTTI_OK) continue;
        status = one;
        error_copy(message, sizeof message);
    }
    return status == TUTTI_OK ? TUTTI_OK : error_set(status, "%s", message);
}

enum tutti_status tutti_server_push_pull(struct tutti_server *server,
                                         const struct tutti_server_part *pushed, size_t pushed_count,
                                         const struct tutti_server_part *pulled, size_t pulled_count,
                                         const struct tutti_server_call_options *options)
{
    static const char who[] = "tutti_server_push_pull";
    struct tutti_server_operation *push = NULL, *tick = NULL, *pull = NULL;
    TRY(check_server(who, server));
    const bool is_pushed = worker_is_unfinished(server->worker_end);
    enum tutti_status status = worker_check_launch(server->worker_end, who, 3, true);
    if (status == TUTTI_OK && pushed_count > 0 && !is_pushed)
        status = prepare(server, WORKER_PUSH, who, pushed, pushed_count, options, true, &push);
    if (status == TUTTI_OK && pulled_count > 0)
        status = prepare(server, WORKER_PULL, who, pulled, pulled_count, options, true, &pull);
    if (status != TUTTI_OK) {
        worker_drop(push);
        worker_drop(pull);
        return status;
    }
    if (push != NULL) worker_launch(push);
    status = start_tick(server, who, options, &tick);
    const bool has_ended = status == TUTTI_OK;
    if (has_ended && pull != NULL) {
        worker_launch(pull);
    } else {
        worker_drop(pull);
        pull = NULL;
    }
    status = finish_all(status, (struct tutti_server_operation *[]){push, tick, pull}, 3);
    if (has_ended && status == TUTTI_TIMEOUT) worker_leave_unfinished(server->worker_end);
    return status;
}

static enum tutti_status finish(struct tutti_server_operation **operation, const char *who,
                                bool blocks)
{
    if (operation == NULL || *operation == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "%s: operation is NULL", who);
    return worker_finish(operation, blocks);
}

enum tutti_status tutti_server_wait(struct tutti_server_operation **operation)
{
    return finish(operation, "tutti_server_wait", true);
}

enum tutti_status tutti_server_test(struct tutti_server_operation **operation)
{
    return finish(operation, "tutti_server_test", false);
}

/* A number that the mode does not have would be ignored. */
static enum tutti_status check_change(const struct tutti_server_change *change)
{
    if (change->staleness != 0 && change->mode != TUTTI_SERVER_BOUNDED)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "staleness is %d, and only mode BOUNDED has a staleness",
                         change->staleness);
    if (change->quorum != 0 && change->mode != TUTTI_SERVER_QUORUM)
        return error_set(TUTTI_INVALID_OPTIONS, "quorum is %d, and only mode QUORUM has a quorum",
                         change->quorum);
    return TUTTI_OK;
}

enum tutti_status tutti_server_change_mode(struct tutti_server *server,
                                           const struct tutti_server_change *change,
                                           const struct tutti_server_call_options *options)
{
    static const char who[] = "tutti_server_change_mode";
    struct tutti_server_change own = TUTTI_SERVER_CHANGE_INIT;
    struct tutti_server_call_options how;
    struct worker_clock_rule rule;
    TRY(check_server(who, server));
    TRY(read_options(who, options, &how));
    if (change == NULL) return error_set(TUTTI_INVALID_OPTIONS, "%s: change is NULL", who);
    TRY(SIZED_READ("tutti_server_change_mode: change", tutti_server_change, change, &own));
    TRY(server_say_where(check_change(&own), who));
    TRY(server_say_where(server_rule_of(&own, server->setup.division.worker_count, &rule), who));
    return worker_change(server->worker_end, who, &rule, &how);
}

/* -------------------------------------------------------------------------------------- results */

enum tutti_status tutti_server_step_read(struct tutti_server *server, uint64_t number, int *ranks,
                                         size_t rank_capacity, struct tutti_server_step *step)
{
    static const char who[] = "tutti_server_step_read";
    struct tutti_server_step own = {0};
    TRY(check_server(who, server));
    TRY(SIZED_CHECK_RESULT("tutti_server_step_read: step", tutti_server_step, step));
    const size_t bytes = step->size_bytes;
    if (ranks == NULL && rank_capacity > 0)
        return error_set(TUTTI_INVALID_BUFFER, "%s: ranks is NULL", who);
    TRY(worker_step_read(server->worker_end, who, number, ranks, rank_capacity, &own));
    SIZED_WRITE(tutti_server_step, step, bytes, &own);
    return TUTTI_OK;
}

/* Requests of all seats, and what else there is of the first. */
static void add_counters(struct serve *seat, bool is_first, struct tutti_server_counters *sum)
{
    struct tutti_server_counters served;
    serve_count(seat, &served);
    sum->pushes += served.pushes;
    sum->pulls += served.pulls;
    sum->bytes += served.bytes;
    sum->duplicates += served.duplicates;
    sum->refused += served.refused;
    if (!is_first) return;
    sum->steps = served.steps;
    sum->workers = served.workers;
    sum->parts_alone = served.parts_alone;
    sum->joined = served.joined;
}

enum tutti_status tutti_server_count(const struct tutti_server *server,
                                     struct tutti_server_counters *counters)
{
    static const char who[] = "tutti_server_count";
    struct tutti_server_counters own = {0};
    if (server == NULL) return error_set(TUTTI_INVALID_BUFFER, "%s: server is NULL", who);
    TRY(SIZED_CHECK_RESULT("tutti_server_count: counters", tutti_server_counters, counters));
    const size_t bytes = counters->size_bytes;
    for (int copy = 0; copy < SERVER_SEATS; copy++)
        if (server->seats[copy] != NULL) add_counters(server->seats[copy], copy == 0, &own);
    if (server->worker_end != NULL) worker_count(server->worker_end, &own);
    SIZED_WRITE(tutti_server_counters, counters, bytes, &own);
    return TUTTI_OK;
}
