#include "server/worker.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "membership/rank_set.h"
#include "os/clock.h"
#include "os/process.h"
#include "server/worker_state.h"

/* For the answer of a server to a call whose deadline it keeps itself. */
static const uint64_t GRACE_NS = 10000000000;

/* ----------------------------------------------------------------------------------------- calls */

static uint64_t timeout_of(const struct worker *worker,
                           const struct tutti_server_call_options *options)
{
    return options->timeout_ns != 0 ? options->timeout_ns : worker->config.timeout_ns;
}

/* For messages of a call whose deadline the server keeps. */
static uint64_t with_grace(uint64_t timeout_ns)
{
    return timeout_ns < UINT64_MAX - GRACE_NS ? timeout_ns + GRACE_NS : timeout_ns;
}

enum tutti_status worker_check_launch(const struct worker *worker, const char *function, int calls,
                                      bool with_tick)
{
    if (with_tick && worker->tick != NULL)
        return error_set(TUTTI_INVALID_REQUEST,
                         "%s: a tick was started, and has not been waited for", function);
    for (int s = 0; s < worker_seats(worker); s++)
        if (SERVER_SLOTS - __builtin_popcountll(worker->lines[s].used) < calls)
            return error_set(TUTTI_INVALID_REQUEST,
                             "%s: %d calls are on their way already; wait for some of them",
                             function, SERVER_SLOTS);
    return TUTTI_OK;
}

static void start_legs(struct tutti_server_operation *operation, uint64_t timeout_ns)
{
    struct worker *const worker = operation->worker;
    for (int s = 0; s < worker_seats(worker); s++)
        if (operation->legs[s].request != NULL)
            leg_start(&operation->legs[s],
                      &worker->lines[goes_to_one_seat(operation) ? reader_of(worker, s) : s],
                      timeout_ns);
}

/* A leg to one seat of its share, whose line has ended, goes to another one. Whether it is on its way. */
static bool move_leg(struct tutti_server_operation *operation, int share)
{
    struct worker *const worker = operation->worker;
    struct worker_leg *const leg = &operation->legs[share];
    if (!goes_to_one_seat(operation) || leg->request == NULL || !leg_is_lost(leg)) return false;
    const int reader = reader_of(worker, share);
    return !worker->lines[reader].is_lost &&
           leg_move(leg, &worker->lines[reader], operation->timeout_ns);
}

/* Whether the leg's end is known. */
static bool finish_leg(struct tutti_server_operation *operation, int seat, bool blocks)
{
    while (leg_finish(&operation->legs[seat], blocks))
        if (!move_leg(operation, seat)) return true;
    return false;
}

/* Says which server, by the numbers that the application knows: that of the line on which it went, perhaps to
 * the other seat of the share. */
static enum tutti_status failure_of(const struct tutti_server_operation *operation, int seat)
{
    const struct worker *const worker = operation->worker;
    const struct worker_leg *const leg = &operation->legs[seat];
    const int asked = leg->last_line != NULL ? (int)(leg->last_line - worker->lines) : seat;
    const int host = division_host(worker->config.division, asked);
    return error_set(leg->status, "%s: the server at rank %d (rank %d of the two): %.300s",
                     operation->function, worker->config.server_ranks[host],
                     worker->lines[asked].peer, leg->text != NULL ? leg->text : "no memory");
}

static enum tutti_status result_of(struct tutti_server_operation *operation)
{
    const struct worker_config *const config = &operation->worker->config;
    int failed = -1; /* the first, and not because of another one, if there is such a one */
    for (int share = config->division->server_count - 1; share >= 0; share--) {
        const int seat = failed_seat(operation, share);
        if (seat >= 0 && (failed < 0 || operation->legs[seat].status != TUTTI_ABORTED))
            failed = seat;
    }
    if (failed >= 0) return failure_of(operation, failed);
    if (operation->kind == SERVER_PULL)
        for (int s = 0; s < config->division->server_count; s++)
            parts_unpack(config->division, s, operation->parts, operation->part_count,
                         &operation->legs[s]);
    return TUTTI_OK;
}

enum tutti_status worker_finish(struct tutti_server_operation **operation, bool blocks)
{
    struct tutti_server_operation *const own = *operation;
    struct worker *const worker = own->worker;
    bool is_done = true;
    for (int s = 0; s < worker_seats(worker); s++) is_done &= finish_leg(own, s, blocks);
    if (!is_done) return TUTTI_IN_PROGRESS;
    const enum tutti_status status = result_of(own);
    if (worker->tick == own) {
        worker->tick = NULL;
        if (status == TUTTI_OK) worker->has_tick = worker->is_unfinished = false;
    }
    operation_free(own);
    *operation = NULL;
    return status;
}

/* -------------------------------------------------------------------------------- push and pull */

static enum tutti_status copy_parts(struct tutti_server_operation *operation,
                                    const struct tutti_server_part *parts, size_t part_count)
{
    size_t rows = 0;
    for (size_t p = 0; p < part_count; p++) rows += parts[p].row_count;
    operation->parts = calloc(part_count + 1, sizeof *operation->parts);
    operation->rows = malloc((rows + 1) * sizeof *operation->rows);
    if (operation->parts == NULL || operation->rows == NULL)
        return error_set(TUTTI_NO_MEMORY, "no memory for %zu rows", rows);
    int64_t *at = operation->rows;
    for (size_t p = 0; p < part_count; p++) {
        operation->parts[p] = parts[p];
        if (parts[p].row_count == 0) continue;
        memcpy(at, parts[p].rows, parts[p].row_count * sizeof *at);
        operation->parts[p].rows = at;
        at += parts[p].row_count;
    }
    operation->part_count = part_count;
    return TUTTI_OK;
}

static enum tutti_status pack(struct tutti_server_operation *operation,
                              const struct server_request *head, bool stays)
{
    struct worker *const worker = operation->worker;
    const struct server_division *const division = worker->config.division;
    for (int s = 0; s < division->server_count; s++)
        TRY(parts_pack(worker, s, head, operation->parts, operation->part_count, stays,
                       &operation->legs[s]));
    if (operation->kind == SERVER_PULL) return TUTTI_OK;
    for (int s = division->server_count; s < worker_seats(worker); s++)
        if (worker->lines[s].share >= 0)
            TRY(leg_copy(&operation->legs[worker->lines[s].share], &operation->legs[s]));
    return TUTTI_OK;
}

static void count_call(struct worker *worker, const struct tutti_server_operation *operation)
{
    const bool is_pull = operation->kind == SERVER_PULL;
    for (int s = 0; s < worker_seats(worker); s++) {
        const struct worker_leg *const leg = &operation->legs[s];
        if (leg->request == NULL) continue;
        const uint64_t bytes = is_pull ? leg->reply_bytes : leg->payload_bytes;
        __atomic_fetch_add(is_pull ? &worker->pulls : &worker->pushes, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&worker->bytes, bytes, __ATOMIC_RELAXED);
    }
}

enum tutti_status worker_prepare(struct worker *worker, enum worker_call call, const char *function,
                                 const struct tutti_server_part *parts, size_t part_count,
                                 const struct tutti_server_call_options *options, bool stays,
                                 struct tutti_server_operation **operation)
{
    static const enum server_kind kinds[] = {
        [WORKER_PUSH] = SERVER_PUSH, [WORKER_SET] = SERVER_SET, [WORKER_PULL] = SERVER_PULL};
    const uint64_t timeout_ns = timeout_of(worker, options);
    *operation = NULL;
    struct tutti_server_operation *const own = operation_create(worker, function, kinds[call]);
    if (own == NULL) return TUTTI_NO_MEMORY;
    const struct server_request head = {
        .kind = (uint16_t)kinds[call],
        .timeout_ns = call == WORKER_PULL ? timeout_ns : 0,
        .priority = options->priority,
        .encoding = call == WORKER_PULL ? TUTTI_ENCODING_NONE : (uint32_t)options->encoding};
    enum tutti_status status = copy_parts(own, parts, part_count);
    if (status == TUTTI_OK) status = pack(own, &head, stays);
    if (status != TUTTI_OK) {
        char message[ERROR_TEXT_MAX];
        operation_free(own);
        error_copy(message, sizeof message);
        return error_set(status, "%s: %s", function, message);
    }
    own->timeout_ns = call == WORKER_PULL ? with_grace(timeout_ns) : timeout_ns;
    *operation = own;
    return TUTTI_OK;
}

void worker_launch(struct tutti_server_operation *operation)
{
    const struct worker *const worker = operation->worker;
    for (int s = 0; s < worker_seats(worker); s++)
        if (operation->legs[s].request != NULL) operation->legs[s].request->clock = worker->clock;
    count_call(operation->worker, operation);
    start_legs(operation, operation->timeout_ns);
}

void worker_drop(struct tutti_server_operation *operation)
{
    operation_free(operation);
}

/* ---------------------------------------------------------------------------------------- ticks */

enum tutti_status worker_tick_start(struct worker *worker, const char *function,
                                    const struct tutti_server_call_options *options,
                                    struct tutti_server_operation **operation)
{
    const uint64_t timeout_ns = timeout_of(worker, options);
    *operation = NULL;
    TRY(worker_check_launch(worker, function, 1, true));
    struct tutti_server_operation *const own = operation_create(worker, function, SERVER_TICK);
    if (own == NULL) return TUTTI_NO_MEMORY;
    const struct server_request head = {
        .kind = SERVER_TICK, .clock = worker->clock - worker->has_tick, .timeout_ns = timeout_ns};
    const enum tutti_status status = plain_legs(own, &head);
    if (status != TUTTI_OK) {
        operation_free(own);
        return status;
    }
    const bool ends_clock = !worker->has_tick;
    if (ends_clock) __atomic_fetch_add(&worker->clock, 1, __ATOMIC_RELAXED);
    worker->has_tick = worker->gave_up = true;
    worker->tick = own;
    start_legs(own, with_grace(timeout_ns));
    if (ends_clock) worker_begin_with_spares(worker);
    *operation = own;
    return TUTTI_OK;
}

void worker_leave_unfinished(struct worker *worker)
{
    worker->has_tick = worker->is_unfinished = true;
}

bool worker_is_unfinished(const struct worker *worker)
{
    return worker->is_unfinished;
}

/* Whether a server that decides the steps can be reached; otherwise calls say why not. */
static bool has_clock(const struct worker *worker)
{
    for (int s = 0; s < worker_seats(worker); s++)
        if (worker->lines[s].share == 0 && !worker->lines[s].is_lost) return true;
    return false;
}

/* In the present round. Whether that was over before: then the answer is to an earlier wish of this worker, or
 * to no wish of it. */
static enum tutti_status ask(struct worker *worker, const char *function,
                             const struct worker_clock_rule *rule, uint64_t timeout_ns,
                             bool *was_over)
{
    struct tutti_server_operation *const own = operation_create(worker, function, SERVER_CHANGE);
    if (own == NULL) return TUTTI_NO_MEMORY;
    const struct server_request head = {.kind = SERVER_CHANGE,
                                        .clock = worker->changes,
                                        .number = rule->staleness,
                                        .left_count = (uint64_t)rule->quorum,
                                        .timeout_ns = timeout_ns};
    *was_over = false;
    enum tutti_status status = plain_legs(own, &head);
    if (status == TUTTI_OK) {
        start_legs(own, with_grace(timeout_ns));
        for (int s = 0; s < worker_seats(worker); s++) {
            (void)finish_leg(own, s, true);
            *was_over |= own->legs[s].is_answered && own->legs[s].reply.head.worker_count == 1;
        }
        status = result_of(own);
    }
    operation_free(own);
    return status;
}

/* Whether a round that was over is that of another wish, which this worker has given up. */
static bool is_of_old_wish(const struct worker *worker, const struct worker_clock_rule *rule)
{
    const bool is_same =
        rule->staleness == worker->wish.staleness && rule->quorum == worker->wish.quorum;
    return worker->has_wish && (worker->gave_up || !is_same);
}

enum tutti_status worker_change(struct worker *worker, const char *function,
                                const struct worker_clock_rule *rule,
                                const struct tutti_server_call_options *options)
{
    const uint64_t timeout_ns = timeout_of(worker, options);
    bool was_over;
    TRY(worker_check_launch(worker, function, 1, true));
    if (worker->has_tick && has_clock(worker))
        return error_set(TUTTI_INVALID_REQUEST, "%s: a tick that timed out is not over", function);
    enum tutti_status status = ask(worker, function, rule, timeout_ns, &was_over);
    if (was_over && is_of_old_wish(worker, rule)) {
        __atomic_fetch_add(&worker->changes, 1, __ATOMIC_RELAXED);
        status = ask(worker, function, rule, timeout_ns, &was_over);
    }
    const bool is_answered = status == TUTTI_OK || status == TUTTI_MISMATCH;
    if (is_answered) __atomic_fetch_add(&worker->changes, 1, __ATOMIC_RELAXED);
    worker->has_wish = status == TUTTI_TIMEOUT;
    worker->wish = *rule;
    worker->gave_up = false;
    return status;
}

static void read_step(const struct worker *worker, const struct worker_leg *leg, int *ranks,
                      size_t rank_capacity, struct tutti_server_step *step)
{
    const uint64_t *const members = parts_rest(leg);
    size_t count = 0;
    for (int i = 0; i < worker->config.division->worker_count; i++)
        if (rank_set_has(members, i) && count++ < rank_capacity)
            ranks[count - 1] = worker->config.worker_ranks[i];
    step->number = leg->reply.head.step;
    step->worker_count = leg->reply.head.worker_count;
    step->member_count = count;
}

enum tutti_status worker_step_read(struct worker *worker, const char *function, uint64_t number,
                                   int *ranks, size_t rank_capacity, struct tutti_server_step *step)
{
    TRY(worker_check_launch(worker, function, 1, false));
    struct tutti_server_operation *const own = operation_create(worker, function, SERVER_RECORD);
    if (own == NULL) return TUTTI_NO_MEMORY;
    struct worker_leg *const leg = &own->legs[0];
    const size_t bytes = rank_set_words(worker->config.division->worker_count) * sizeof(uint64_t);
    enum tutti_status status =
        plain_leg(leg, &(struct server_request){.kind = SERVER_RECORD, .number = number});
    if (status == TUTTI_OK) status = parts_make_room(worker, bytes, leg);
    if (status == TUTTI_OK) {
        start_legs(own, worker->config.timeout_ns);
        (void)finish_leg(own, 0, true);
        status = result_of(own);
    }
    if (status == TUTTI_OK) read_step(worker, leg, ranks, rank_capacity, step);
    operation_free(own);
    return status;
}

/* ------------------------------------------------------------------------------ coming and going */

/* Where this worker is to push, as the server of a seat says. False: it says nonsense. */
static bool take_shares(struct worker *worker, const struct worker_leg *leg)
{
    const struct server_division *const division = worker->config.division;
    const uint64_t *const words = parts_rest(leg);
    for (int s = 0; s < worker_seats(worker); s++) {
        const bool is_first = division_first_share(division, s) >= 0;
        if (words[s] > (uint64_t)division->server_count) return false;
        if (words[s] == 0) continue;
        if (is_first && (uint64_t)worker->lines[s].share + 1 != words[s]) return false;
        if (!is_first) worker_await_no_invitation(&worker->lines[s]);
        worker->lines[s].share = (int)words[s] - 1;
    }
    worker->clock = leg->reply.head.clock;
    worker->changes = leg->reply.head.step;
    return true;
}

/* Asks one seat. */
static enum tutti_status enter_at(struct worker *worker, const char *function, int seat,
                                  uint64_t timeout_ns)
{
    struct tutti_server_operation *const own = operation_create(worker, function, SERVER_ENTER);
    if (own == NULL) return TUTTI_NO_MEMORY;
    struct worker_leg *const leg = &own->legs[seat];
    enum tutti_status status = plain_leg(leg, &(struct server_request){.kind = SERVER_ENTER});
    if (status == TUTTI_OK)
        status = parts_make_room(worker, server_enter_bytes(worker->config.division), leg);
    if (status == TUTTI_OK) {
        leg_start(leg, &worker->lines[seat], timeout_ns);
        (void)leg_finish(leg, true);
        if (leg->status != TUTTI_OK)
            status = failure_of(own, seat);
        else if (!take_shares(worker, leg))
            status =
                error_set(TUTTI_INTERNAL, "%s: the answer of a server makes no sense", function);
    }
    operation_free(own);
    return status;
}

/* Of the seats that are there at the start: where a server lives, these hear what is decided. */
enum tutti_status worker_enter(struct worker *worker, const char *function)
{
    const struct server_division *const division = worker->config.division;
    const uint64_t timeout_ns = worker->config.timeout_ns, now = clock_now_ns();
    const uint64_t deadline_ns = timeout_ns < INT64_MAX - now ? now + timeout_ns : INT64_MAX;
    enum tutti_status status =
        error_set(TUTTI_PROC_FAILED, "%s: no server of a part of the tables is there", function);
    for (int s = 0; s < division->server_count * (1 + division->backup_count); s++) {
        const uint64_t at = clock_now_ns();
        if (worker->lines[s].is_lost || at >= deadline_ns) continue;
        status = enter_at(worker, function, s, deadline_ns - at);
        if (status == TUTTI_OK) return TUTTI_OK;
    }
    return status;
}

static struct worker_line line_of(struct tutti_comm *comm, int share)
{
    const int size = comm != NULL ? tutti_comm_size(comm) : 0;
    struct worker_line line = {
        .comm = comm, .peer = size - 1, .is_borrowed = size == 1, .share = share};
    if (comm != NULL) return line;
    line.is_lost = true;
    line.failed = TUTTI_PROC_FAILED;
    line.why = strdup("it was gone before this worker came");
    return line;
}

enum tutti_status worker_create(const struct worker_config *config, struct worker **made)
{
    const int servers = division_seats(config->division);
    struct worker *const worker = calloc(1, sizeof *worker);
    struct worker_line *const lines = calloc((size_t)servers, sizeof *lines);
    *made = NULL;
    if (worker == NULL || lines == NULL) {
        for (int s = 0; s < servers; s++)
            if (config->comms[s] != NULL && tutti_comm_size(config->comms[s]) > 1)
                (void)tutti_comm_free(config->comms[s]);
        free(worker);
        free(lines);
        return error_set(TUTTI_NO_MEMORY, "no memory for a worker of a parameter server");
    }
    for (int s = 0; s < servers; s++)
        lines[s] = line_of(config->comms[s], division_first_share(config->division, s));
    *worker = (struct worker){.config = *config, .generation = process_generation(), .lines = lines};
    for (int s = 0; s < servers; s++)
        if (lines[s].share < 0 && !lines[s].is_lost) worker_await_invitation(&lines[s]);
    *made = worker;
    return TUTTI_OK;
}

/* Servers that are gone need no goodbye. */
static void say_goodbye(struct worker *worker)
{
    const struct server_request head = {.kind = SERVER_LEAVE};
    struct tutti_server_operation *const own =
        operation_create(worker, "tutti_server_free", SERVER_LEAVE);
    for (int s = 0; s < worker_seats(worker); s++) worker_await_no_invitation(&worker->lines[s]);
    if (own == NULL) return;
    for (int s = 0; s < worker_seats(worker); s++)
        if (worker->lines[s].used != UINT64_MAX && plain_leg(&own->legs[s], &head) != TUTTI_OK)
            break;
    start_legs(own, worker->config.timeout_ns);
    for (int s = 0; s < worker_seats(worker); s++) (void)leg_finish(&own->legs[s], true);
    operation_free(own);
}

/* All but what the servers know of it. */
static enum tutti_status release(struct worker *worker)
{
    enum tutti_status status = TUTTI_OK;
    for (int s = 0; s < worker_seats(worker); s++) {
        if (worker->lines[s].is_borrowed || worker->lines[s].comm == NULL) continue;
        const enum tutti_status one = tutti_comm_free(worker->lines[s].comm);
        if (status == TUTTI_OK) status = one;
    }
    for (int s = 0; s < worker_seats(worker); s++) free(worker->lines[s].why);
    block_pool_release(&worker->payloads);
    free(worker->lines);
    free(worker);
    return status;
}

enum tutti_status worker_free(struct worker *worker)
{
    if (worker == NULL) return TUTTI_OK;
    if (worker->generation == process_generation()) say_goodbye(worker);
    return release(worker);
}

void worker_give_up(struct worker *worker)
{
    if (worker == NULL) return;
    for (int s = 0; s < worker_seats(worker); s++) {
        if (worker->lines[s].comm == NULL) continue;
        (void)tutti_comm_abort(worker->lines[s].comm, "this worker could not join");
        worker_await_no_invitation(&worker->lines[s]);
    }
    (void)release(worker);
}

void worker_count(const struct worker *worker, struct tutti_server_counters *counters)
{
    counters->clock = __atomic_load_n(&worker->clock, __ATOMIC_RELAXED);
    counters->pushes = __atomic_load_n(&worker->pushes, __ATOMIC_RELAXED);
    counters->pulls = __atomic_load_n(&worker->pulls, __ATOMIC_RELAXED);
    counters->bytes = __atomic_load_n(&worker->bytes, __ATOMIC_RELAXED);
    counters->changes = __atomic_load_n(&worker->changes, __ATOMIC_RELAXED);
}
