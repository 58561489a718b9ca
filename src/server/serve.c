#include "server/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/status.h"
#include "membership/rank_set.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/thread.h"
#include "server/serve_state.h"
#include "server/snapshot.h"

/* ------------------------------------------------------------------------------------- the thread */

/* A push that cannot be kept is answered: its worker is told more than that it is gone. */
static bool tell_why(struct serve *serve, int worker, enum tutti_status status, const char *why)
{
    const struct server_request *const request = &serve->workers[worker].request;
    if (status != TUTTI_NO_MEMORY || (request->kind != SERVER_PUSH && request->kind != SERVER_SET))
        return false;
    serve->workers[worker].why_told = strdup(why);
    return serve_answer_failure(serve, worker, request->slot, status, why) == TUTTI_OK;
}

/* refused: the status with which its request was refused, if it was. */
static void lose_failed_worker(struct serve *serve, int worker, enum tutti_status refused)
{
    char why[200];
    error_copy(why, sizeof why);
    serve->workers[worker].is_told = tell_why(serve, worker, refused, why);
    serve_lose_worker(serve, worker, why);
}

/* A worker that was told why it is gone ends the connection. Its requests on their way get the same answer:
 * it may wait for a pull before it looks at the push. There are no more of them than it can have. */
static void await_its_end(struct serve *serve, int i)
{
    struct serve_worker *const worker = &serve->workers[i];
    bool has_come = false;
    if (worker->line.state == LINE_CLOSED) return;
    enum tutti_status status = line_take(&worker->line, &has_come);
    if (status == TUTTI_OK) status = line_reap(&worker->line);
    if (status == TUTTI_OK && has_come) status = serve_answer_again(serve, i);
    if (status == TUTTI_OK && has_come && worker->ended_count++ < SERVER_SLOTS)
        status = line_listen(&worker->line);
    if (status != TUTTI_OK || worker->ended_count > SERVER_SLOTS)
        line_close(&worker->line, "the worker is gone");
}

/* Whether anything changed. */
static bool look_after_worker(struct serve *serve, int i)
{
    struct serve_worker *const worker = &serve->workers[i];
    bool has_come = false;
    enum tutti_status refused = TUTTI_OK;
    if (worker->presence != SERVE_THERE) {
        await_its_end(serve, i);
        return false;
    }
    enum tutti_status status = line_take(&worker->line, &has_come);
    if (status == TUTTI_OK) status = line_reap(&worker->line);
    if (status == TUTTI_OK && has_come) {
        worker->heard_ns = clock_now_ns();
        status = refused = serve_hear_worker(serve, i);
        serve->seen.refused += status != TUTTI_OK;
    }
    if (status == TUTTI_OK && worker->presence == SERVE_THERE) status = serve_go_on(serve, i);
    if (status == TUTTI_OK && worker->has_failed)
        status = error_set(TUTTI_NO_MEMORY, "no memory for an answer");
    if (status != TUTTI_OK)
        lose_failed_worker(serve, i, refused);
    else if (worker->leaves && !line_is_sending(&worker->line))
        serve_lose_worker(serve, i, NULL);
    return has_come || worker->presence != SERVE_THERE;
}

static bool look_after_peer(struct serve *serve, int i)
{
    struct serve_peer *const peer = &serve->peers[i];
    bool has_come = false;
    if (peer->line.state == LINE_CLOSED) return false;
    const bool was_held = peer->is_held;
    enum tutti_status status = line_take(&peer->line, &has_come);
    if (status == TUTTI_OK) status = line_reap(&peer->line);
    if (status == TUTTI_OK && (has_come || was_held)) status = serve_hear_peer(serve, i);
    if (status == TUTTI_OK && peer->has_failed)
        status = error_set(TUTTI_NO_MEMORY, "a message to it could not be sent");
    if (status == TUTTI_OK) return has_come || (was_held && !peer->is_held);
    char why[200];
    error_copy(why, sizeof why);
    serve_lose_peer(serve, i, why);
    return true;
}

/* Such a worker says nothing, and is not to blame for it. */
static bool waits_for_us(const struct serve_worker *worker)
{
    return !worker->is_in || worker->has_ended || worker->awaits_tick || worker->queued_count > 0 ||
           worker->asks_until_ns != 0;
}

static void note_who_waits(struct serve *serve)
{
    const uint64_t now = clock_now_ns();
    for (int i = 0; i < serve->config.division->worker_count; i++) {
        struct serve_worker *const worker = &serve->workers[i];
        if (waits_for_us(worker)) worker->heard_ns = now;
        if (worker->asks_until_ns <= now) worker->asks_until_ns = 0; /* it has given up */
    }
}

/* A change may let a worker go on that was looked after before: then all are looked after again. */
static bool look_after_all(struct serve *serve)
{
    bool has_changed = serve_take_newcomers(serve);
    if (has_changed) serve_act(serve);
    note_who_waits(serve);
    for (int i = 0; i < serve->peer_count; i++) has_changed |= look_after_peer(serve, i);
    for (int i = 0; i < serve->config.division->worker_count; i++)
        has_changed |= look_after_worker(serve, i);
    const uint64_t now = clock_now_ns();
    has_changed |= serve_answer_pulls(serve, now);
    has_changed |= serve_answer_late_ticks(serve, now);
    has_changed |= serve_copy_on(serve);
    for (int i = 0; i < serve->peer_count; i++) has_changed |= serve->peers[i].has_failed;
    return has_changed;
}

/* The worker that has been silent for the longest time; -1: none that is there. */
static int find_silent(const struct serve *serve)
{
    int silent = -1;
    for (int i = 0; i < serve->config.division->worker_count; i++) {
        const struct serve_worker *const worker = &serve->workers[i];
        if (worker->line.state == LINE_CLOSED || waits_for_us(worker)) continue;
        if (silent < 0 || worker->heard_ns < serve->workers[silent].heard_ns) silent = i;
    }
    return silent;
}

/* For what others ask. */
static void publish(struct serve *serve)
{
    const bool is_over = serve_is_over(serve);
    const int silent = find_silent(serve);
    pthread_mutex_lock(&serve->lock);
    serve->counters = serve->seen;
    serve->counters.steps = serve->steps;
    serve->counters.workers = (uint64_t)serve_left_here(serve);
    serve->counters.parts_alone =
        serve->config.division->spare_count > 0 ? (uint64_t)seat_map_unbacked(&serve->map) : 0;
    serve->is_over = is_over;
    for (int i = 0; i < serve->peer_count; i++)
        serve->has_line[i] = serve->peers[i].line.state != LINE_CLOSED;
    serve->silent = silent;
    serve->silent_since_ns = silent >= 0 ? serve->workers[silent].heard_ns : 0;
    /* A spare that has failed leaves the tables as they are. */
    serve->result =
        serve->map.seats[serve->config.seat].state >= SEAT_FULL ? serve->broken : TUTTI_OK;
    pthread_cond_broadcast(&serve->changed);
    pthread_mutex_unlock(&serve->lock);
}

/* Another thread waits for this in serve_save. */
static void save_if_wanted(struct serve *serve)
{
    pthread_mutex_lock(&serve->lock);
    char *const folder = serve->save.folder;
    pthread_mutex_unlock(&serve->lock);
    if (folder == NULL) return;
    const struct snapshot_part part = {.server = serve->share,
                                       .server_count = serve->config.division->server_count,
                                       .step = serve->steps};
    const enum tutti_status status =
        serve->has_all ? snapshot_write(serve->config.tables, folder, &part) : TUTTI_OK;
    pthread_mutex_lock(&serve->lock);
    serve->save.status = status;
    if (status != TUTTI_OK) error_copy(serve->save.why, sizeof serve->save.why);
    serve->save.folder = NULL;
    serve->save.done++;
    pthread_cond_broadcast(&serve->changed);
    pthread_mutex_unlock(&serve->lock);
    free(folder);
}

static void sleep_until_something(const struct serve *serve)
{
    struct pollfd wait = {.fd = serve->event_fd, .events = POLLIN};
    uint64_t count;
    if (poll(&wait, 1, clock_poll_ms(serve_next_deadline(serve))) > 0)
        (void)!read(serve->event_fd, &count, sizeof count);
}

static void *run(void *context)
{
    struct serve *const serve = context;
    while (!atomic_load_explicit(&serve->stops, memory_order_acquire)) {
        const bool has_changed = look_after_all(serve);
        publish(serve);
        save_if_wanted(serve);
        if (!has_changed) sleep_until_something(serve);
    }
    return NULL;
}

/* -------------------------------------------------------------------------------- start and end */

static void close_lines(struct serve *serve)
{
    for (int i = 0; i < serve->config.division->worker_count; i++)
        line_close(&serve->workers[i].line, "the parameter server was freed");
    for (int i = 0; i < serve->peer_count; i++) line_close(&serve->peers[i].line, NULL);
}

static bool is_of_parent(const struct serve *serve)
{
    return serve->generation != process_generation();
}

/* All but the lines. */
static void release(struct serve *serve)
{
    serve_drop_pulls(serve, -1);
    serve_drop_newcomers(serve, is_of_parent(serve) ? NULL : "the parameter server was freed");
    closings_release(&serve->closings, is_of_parent(serve));
    for (int i = 0; serve->workers != NULL && i < serve->config.division->worker_count; i++) {
        update_clear(&serve->workers[i].open);
        update_clear(&serve->workers[i].ended);
        free(serve->workers[i].why_told);
    }
    tables_free(serve->config.tables);
    block_pool_release(&serve->payloads);
    if (serve->event_fd >= 0) close(serve->event_fd);
    free(serve->firsts);
    free(serve->workers);
    free(serve->peers);
    free(serve->has_line);
    step_leader_release(&serve->leader);
    seat_map_release(&serve->map);
    free(serve->copying.bytes);
    free(serve->records);
    free(serve->record_members);
    free(serve->members);
    free(serve->updates);
    free(serve->save.folder);
    pthread_mutex_destroy(&serve->lock);
    pthread_cond_destroy(&serve->changed);
    free(serve);
}

/* Where it is among the seats, and what it does there. */
static bool init_seat(struct serve *serve)
{
    const struct server_division *const division = serve->config.division;
    const struct step_leader_config config = {.rule = serve->config.rule,
                                              .worker_count = division->worker_count,
                                              .share_count = division->server_count,
                                              .copy_count = 1 + division->backup_count,
                                              .spare_count = division->spare_count,
                                              .place_count = division->place_count,
                                              .seat = serve->config.seat};
    serve->share = division_first_share(division, config.seat);
    serve->has_all = serve->share >= 0;
    serve->copying.to = -1;
    if (!seat_map_init(&serve->map, config.share_count, config.copy_count, config.spare_count))
        return false;
    serve->has_leader = serve->share == 0;
    return !serve->has_leader || step_leader_init(&serve->leader, &config);
}

static enum tutti_status allocate(struct serve *serve)
{
    const struct server_division *const division = serve->config.division;
    const size_t workers = (size_t)division->worker_count, words = rank_set_words((int)workers);
    serve->peer_count = division_seats(division);
    serve->firsts = calloc(division->table_count, sizeof *serve->firsts);
    serve->workers = calloc(workers, sizeof *serve->workers);
    serve->peers = calloc((size_t)serve->peer_count, sizeof *serve->peers);
    serve->has_line = calloc((size_t)serve->peer_count, sizeof *serve->has_line);
    serve->records = calloc(SERVE_RECORDS, sizeof *serve->records);
    serve->record_members = calloc(SERVE_RECORDS * words, sizeof *serve->record_members);
    serve->members = calloc(words, sizeof *serve->members);
    serve->updates = calloc(workers, sizeof *serve->updates);
    if (serve->firsts == NULL || serve->workers == NULL || serve->peers == NULL ||
        serve->has_line == NULL || serve->records == NULL || serve->record_members == NULL ||
        serve->members == NULL || serve->updates == NULL || !init_seat(serve))
        return error_set(TUTTI_NO_MEMORY, "no memory for a parameter server of %zu workers",
                         workers);
    serve->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return serve->event_fd >= 0 ? TUTTI_OK : error_system("eventfd for a parameter server");
}

static void set_up(struct serve *serve)
{
    const struct server_division *const division = serve->config.division;
    for (size_t t = 0; t < division->table_count; t++) {
        uint64_t share;
        if (!division->tables[t].is_rows && serve->share >= 0)
            division_dense(division, t, serve->share, &serve->firsts[t], &share);
    }
    for (int i = 0; i < division->worker_count; i++) {
        serve->workers[i].heard_ns = clock_now_ns();
        serve->workers[i].is_in = i < division_first_workers(division);
        if (!serve->workers[i].is_in) serve->workers[i].presence = SERVE_AWAITED;
        update_init(&serve->workers[i].open);
        update_init(&serve->workers[i].ended);
    }
}

/* Takes over all communicators; those that no line takes are freed. */
static enum tutti_status open_lines(struct serve *serve, enum tutti_status status)
{
    const int seat = serve->config.seat;
    for (int i = 0; i < serve->config.division->worker_count; i++) {
        struct tutti_comm *const comm = serve->config.worker_comms[i];
        serve->config.worker_comms[i] = NULL;
        if (comm == NULL) continue;
        if (status == TUTTI_OK)
            status = line_open(&serve->workers[i].line, comm, 0, SERVER_TAG_REQUEST,
                               serve->event_fd, &serve->payloads, &serve->closings);
        else if (tutti_comm_size(comm) > 1)
            (void)tutti_comm_free(comm);
    }
    for (int i = 0; i < serve->peer_count; i++) {
        struct tutti_comm *const comm = serve->peer_count > 1 ? serve->config.seat_comms[i] : NULL;
        serve->peers[i].is_over = comm == NULL;
        if (comm == NULL) continue;
        serve->config.seat_comms[i] = NULL;
        const bool is_alone = tutti_comm_size(comm) == 1;
        if (status == TUTTI_OK)
            status =
                line_open(&serve->peers[i].line, comm,
                          !is_alone && seat<i, seat> i ? SERVER_TAG_TO_HIGHER : SERVER_TAG_TO_LOWER,
                          serve->event_fd, &serve->payloads, &serve->closings);
        else if (!is_alone)
            (void)tutti_comm_free(comm);
    }
    return status;
}

enum tutti_status serve_create(const struct serve_config *config, struct serve **made)
{
    *made = NULL;
    struct serve *const serve = calloc(1, sizeof *serve);
    if (serve == NULL) {
        tables_free(config->tables);
        return error_set(TUTTI_NO_MEMORY, "no memory for a parameter server");
    }
    serve->config = *config;
    serve->event_fd = -1;
    serve->silent = -1;
    serve->generation = process_generation();
    pthread_mutex_init(&serve->lock, NULL);
    pthread_cond_init(&serve->changed, NULL);
    enum tutti_status status = allocate(serve);
    if (status == TUTTI_OK) set_up(serve);
    status = open_lines(serve, status);
    if (status == TUTTI_OK)
        status = thread_start(&serve->thread, run, serve, NULL, "the parameter server's thread");
    if (status != TUTTI_OK) {
        if (serve->workers != NULL && serve->peers != NULL) close_lines(serve);
        release(serve);
        return status;
    }
    *made = serve;
    return TUTTI_OK;
}

/* With the lock. */
static enum tutti_status say_who_is_silent(const struct serve *serve)
{
    const double seconds = 1e-9 * (double)(clock_now_ns() - serve->silent_since_ns);
    const uint64_t there = serve->counters.workers;
    if (serve->silent < 0)
        return error_set(TUTTI_TIMEOUT,
                         "%" PRIu64 " workers have not left, or not from all servers", there);
    return error_set(TUTTI_TIMEOUT,
                     "the worker at rank %d has said nothing for %.3g s; %" PRIu64
                     " workers have not left",
                     serve->config.worker_ranks[serve->silent], seconds, there);
}

enum tutti_status serve_say_who_is_there(struct serve *serve)
{
    pthread_mutex_lock(&serve->lock);
    const enum tutti_status status = say_who_is_silent(serve);
    pthread_mutex_unlock(&serve->lock);
    return status;
}

static uint64_t end_of_silence(const struct serve *serve, uint64_t silence_ns)
{
    if (silence_ns == 0 || serve->silent < 0) return UINT64_MAX;
    const uint64_t since = serve->silent_since_ns;
    return silence_ns < UINT64_MAX - since ? since + silence_ns : UINT64_MAX;
}

/* With the lock: until something changes, or a deadline (UINT64_MAX: none) has passed. */
static void wait_for_change(struct serve *serve, uint64_t deadline_ns)
{
    const struct timespec until = {(time_t)(deadline_ns / 1000000000),
                                   (long)(deadline_ns % 1000000000)};
    if (deadline_ns == UINT64_MAX)
        pthread_cond_wait(&serve->changed, &serve->lock);
    else
        (void)pthread_cond_clockwait(&serve->changed, &serve->lock, CLOCK_MONOTONIC, &until);
}

enum tutti_status serve_wait(struct serve *serve, uint64_t deadline_ns, uint64_t silence_ns)
{
    enum tutti_status status = TUTTI_OK;
    if (is_of_parent(serve))
        return error_set(TUTTI_INVALID_COMM,
                         "the parameter server is one of this process's parent (fork)");
    pthread_mutex_lock(&serve->lock);
    while (!serve->is_over && status == TUTTI_OK) {
        const uint64_t silent_ns = end_of_silence(serve, silence_ns), now = clock_now_ns();
        if (silent_ns <= now)
            status = say_who_is_silent(serve);
        else if (deadline_ns <= now)
            status = TUTTI_IN_PROGRESS;
        else
            wait_for_change(serve, silent_ns < deadline_ns ? silent_ns : deadline_ns);
    }
    if (status == TUTTI_OK && serve->result != TUTTI_OK)
        status = error_set(serve->result, "%s", serve->why);
    pthread_mutex_unlock(&serve->lock);
    return status;
}

enum tutti_status serve_take_worker(struct serve *serve, int worker, struct tutti_comm *comm)
{
    struct serve_newcomer *const newcomer = malloc(sizeof *newcomer);
    const uint64_t one = 1;
    if (newcomer == NULL) {
        if (comm != NULL) (void)tutti_comm_free(comm);
        return error_set(TUTTI_NO_MEMORY, "no memory for a worker that comes");
    }
    pthread_mutex_lock(&serve->lock);
    *newcomer = (struct serve_newcomer){serve->newcomers, worker, comm};
    serve->newcomers = newcomer;
    pthread_mutex_unlock(&serve->lock);
    (void)!write(serve->event_fd, &one, sizeof one);
    return TUTTI_OK;
}

bool serve_has_line_to(struct serve *serve, int server)
{
    bool has_line = false;
    pthread_mutex_lock(&serve->lock);
    for (int i = 0; i < serve->peer_count; i++)
        has_line |= serve->has_line[i] && division_host(serve->config.division, i) == server;
    pthread_mutex_unlock(&serve->lock);
    return has_line;
}

static enum tutti_status wait_for_save(struct serve *serve, uint64_t done, uint64_t deadline_ns)
{
    const struct timespec until = {(time_t)(deadline_ns / 1000000000),
                                   (long)(deadline_ns % 1000000000)};
    while (serve->save.done == done)
        if (pthread_cond_clockwait(&serve->changed, &serve->lock, CLOCK_MONOTONIC, &until) ==
            ETIMEDOUT)
            return error_set(TUTTI_TIMEOUT, "the tables are not written yet");
    if (serve->save.status == TUTTI_OK) return TUTTI_OK;
    return error_set(serve->save.status, "%s", serve->save.why);
}

enum tutti_status serve_save(struct serve *serve, const char *folder, uint64_t deadline_ns)
{
    char *const copy = strdup(folder);
    if (copy == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for the name of a folder");
    pthread_mutex_lock(&serve->lock);
    const bool is_free = serve->save.folder == NULL;
    const uint64_t done = serve->save.done;
    if (is_free) serve->save.folder = copy;
    pthread_mutex_unlock(&serve->lock);
    if (!is_free) {
        free(copy);
        return error_set(TUTTI_INVALID_REQUEST, "the tables are being saved already");
    }
    const uint64_t one = 1;
    (void)!write(serve->event_fd, &one, sizeof one);
    pthread_mutex_lock(&serve->lock);
    const enum tutti_status status = wait_for_save(serve, done, deadline_ns);
    pthread_mutex_unlock(&serve->lock);
    return status;
}

/* Requests stay what they are: the thread that ends them is the parent's. */
static void forget_lines(struct serve *serve)
{
    for (int i = 0; i < serve->config.division->worker_count; i++)
        if (!serve->workers[i].line.is_borrowed) (void)tutti_comm_free(serve->workers[i].line.comm);
    for (int i = 0; i < serve->peer_count; i++)
        if (!serve->peers[i].line.is_borrowed) (void)tutti_comm_free(serve->peers[i].line.comm);
}

void serve_free(struct serve *serve)
{
    if (serve == NULL) return;
    if (is_of_parent(serve)) {
        forget_lines(serve);
        release(serve);
        return;
    }
    atomic_store_explicit(&serve->stops, true, memory_order_release);
    const uint64_t one = 1;
    (void)!write(serve->event_fd, &one, sizeof one);
    pthread_join(serve->thread, NULL);
    close_lines(serve);
    release(serve);
}

void serve_count(struct serve *serve, struct tutti_server_counters *counters)
{
    *counters = (struct tutti_server_counters){0};
    if (is_of_parent(serve)) return;
    pthread_mutex_lock(&serve->lock);
    *counters = serve->counters;
    pthread_mutex_unlock(&serve->lock);
}
