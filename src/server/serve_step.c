#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "membership/rank_set.h"
#include "os/clock.h"
#include "server/serve_state.h"

static const uint64_t FAREWELL_NS = 2000000000;

static int worker_count(const struct serve *serve)
{
    return serve->config.division->worker_count;
}

static bool leads(const struct serve *serve)
{
    return serve_has_clock(serve) &&
           (serve->leader.role == STEP_LEADS || serve->leader.role == STEP_WAITS);
}

/* The rank of the server that has a seat. */
static int rank_of(const struct serve *serve, int seat)
{
    return serve->config.server_ranks[division_host(serve->config.division, seat)];
}

int serve_left_here(const struct serve *serve)
{
    int count = 0;
    for (int i = 0; i < worker_count(serve); i++)
        count += serve->workers[i].presence == SERVE_THERE && serve->workers[i].is_in;
    return count;
}

/* ------------------------------------------------------------------------------------- what is lost */

/* Ends what only a worker that is there needs. Its ended update may be part of a step yet. */
static void close_worker(struct serve *serve, int worker, const char *why)
{
    struct serve_worker *const of = &serve->workers[worker];
    if (of->presence != SERVE_THERE) return;
    of->presence = why == NULL ? SERVE_LEFT : SERVE_LOST;
    of->awaits_tick = false;
    update_clear(&of->open);
    serve_drop_pulls(serve, worker);
    if (of->is_told && of->line.state == LINE_TAKEN && line_listen(&of->line) == TUTTI_OK) return;
    line_close(&of->line, why);
}

static void close_peers(struct serve *serve, const char *why)
{
    for (int i = 0; i < serve->peer_count; i++) {
        line_close(&serve->peers[i].line, why);
        serve->peers[i].is_over = true;
    }
}

/* This seat takes no more steps: the tables are not complete, here or anywhere. Workers get the reason
 * as answers, and go on with the other seat of the share, if there is one. The leader leaves its lines
 * to those who are to hear that a share is lost. */
static void stop(struct serve *serve, enum tutti_status status, const char *why, bool is_everywhere)
{
    if (serve->broken != TUTTI_OK) return;
    serve->broken = status;
    snprintf(serve->why, sizeof serve->why, "%s", why);
    log_write(LOG_WARN, "rank %d: parameter server: %s", serve->config.rank, serve->why);
    if (!is_everywhere || !leads(serve)) close_peers(serve, serve->why);
    serve_answer_broken(serve);
}

/* A seat is gone, without which this one cannot go on. */
static void stop_without(struct serve *serve, int seat, const char *why, bool is_everywhere)
{
    char text[256];
    snprintf(text, sizeof text, "the server at rank %d, which had a part of the tables, is gone: %s",
             rank_of(serve, seat), why);
    stop(serve, TUTTI_PROC_FAILED, text, is_everywhere);
}

void serve_stop_without(struct serve *serve, int seat)
{
    stop_without(serve, seat, "it has told this spare nothing", false);
}

/* A share has no seat any more. The other seats are told by the leader. */
static void stop_everywhere(struct serve *serve, int seat, const char *why)
{
    if (leads(serve))
        serve_tell_all(serve,
                       &(struct server_request){.kind = SERVER_GONE, .number = (uint64_t)seat});
    stop_without(serve, seat, why, true);
}

/* ---------------------------------------------------------------------------------------- entries */

static enum tutti_status apply_updates(struct serve *serve, size_t count, float factor)
{
    pthread_mutex_t *const lock = serve->config.function_lock;
    if (lock != NULL) pthread_mutex_lock(lock);
    const enum tutti_status status =
        update_apply(serve->config.tables, serve->firsts, serve->updates, count, factor);
    if (lock != NULL) pthread_mutex_unlock(lock);
    return status;
}

/* Before this spare has joined, its copy will have the step: updates of it are dropped. */
static void skip_step(struct serve *serve, const uint64_t *members)
{
    serve->steps++;
    for (int i = 0; i < worker_count(serve); i++) {
        struct serve_worker *const worker = &serve->workers[i];
        if (!rank_set_has(members, i)) continue;
        worker->decided++;
        worker->tick_number = serve->steps;
        if (worker->ticked > worker->decided) continue;
        update_clear(&worker->ended);
        worker->has_ended = false;
    }
}

/* Applies the updates of the members, which are all here. A spare does so with all that it has room for: what
 * has not been copied to it yet comes later, with the step in it. */
static void apply(struct serve *serve, const uint64_t *members, uint64_t left_count)
{
    size_t count = 0;
    for (int i = 0; i < worker_count(serve); i++)
        if (rank_set_has(members, i)) serve->updates[count++] = &serve->workers[i].ended;
    serve_reap(serve);
    const float factor = serve->config.averages ? 1.0f / (float)left_count : 1.0f;
    const enum tutti_status status = apply_updates(serve, count, factor);
    serve->steps++;
    for (int i = 0; i < worker_count(serve); i++) {
        struct serve_worker *const worker = &serve->workers[i];
        if (!rank_set_has(members, i)) continue;
        update_clear(&worker->ended);
        worker->has_ended = false;
        worker->decided++;
        worker->tick_number = serve->steps;
    }
    if (status == TUTTI_OK) return;
    char why[160], text[256];
    error_copy(why, sizeof why);
    snprintf(text, sizeof text, "the server at rank %d could not apply a step: %s",
             serve->config.rank, why);
    stop(serve, status, text, false);
}

static void keep_record(struct serve *serve, const uint64_t *members, uint64_t left_count)
{
    const uint64_t number = serve->steps, place = number % SERVE_RECORDS;
    const size_t words = rank_set_words(worker_count(serve));
    serve->records[place] = (struct serve_record){
        number, (uint32_t)left_count, (uint32_t)rank_set_count(members, worker_count(serve))};
    memcpy(serve->record_members + place * words, members, words * sizeof *members);
}

static void take_step(struct serve *serve, const struct step_entry *entry)
{
    memcpy(serve->members, entry->members,
           rank_set_words(worker_count(serve)) * sizeof *serve->members);
    if (seat_map_counts(&serve->map, serve->config.seat))
        apply(serve, serve->members, entry->left_count);
    else
        skip_step(serve, serve->members);
    if (!serve_has_clock(serve)) return;
    keep_record(serve, serve->members, entry->left_count);
    for (int i = 0; i < worker_count(serve) && serve->broken == TUTTI_OK; i++)
        if (rank_set_has(serve->members, i) && !serve->workers[i].has_ended)
            serve_answer_tick(serve, i);
}

static void drop_worker(struct serve *serve, int worker)
{
    struct serve_worker *const of = &serve->workers[worker];
    if (of->presence == SERVE_THERE) {
        close_worker(serve, worker, "another server has lost it");
        log_write(LOG_WARN, "rank %d: parameter server: the worker at rank %d is gone (%d left): %s",
                  serve->config.rank, serve->config.worker_ranks[worker], serve_left_here(serve),
                  "another server has lost it");
    }
    if (of->presence == SERVE_AWAITED) of->presence = SERVE_LOST;
    update_clear(&of->ended);
    of->has_ended = false;
}

void serve_end_clock(struct serve *serve, int worker)
{
    struct serve_worker *const of = &serve->workers[worker];
    const uint64_t clock = of->ticked++;
    if (clock < of->decided) { /* the copy that this spare will get has it */
        update_clear(&of->open);
        if (serve_has_clock(serve)) serve_answer_tick(serve, worker);
        return;
    }
    update_move(&of->open, &of->ended);
    of->has_ended = true;
    serve_tell_clocks(serve, &(struct server_request){
                                 .kind = SERVER_HAS, .number = (uint64_t)worker, .clock = clock});
    if (!serve_has_clock(serve)) return;
    (void)step_leader_has(&serve->leader, serve->config.seat, worker, clock);
    serve_act(serve);
}

/* ----------------------------------------------------------------------------------- who is gone */

static void report(struct serve *serve, int worker, bool has_left)
{
    if (!serve_has_clock(serve)) return;
    step_leader_report(&serve->leader, worker, has_left);
    serve_act(serve);
}

void serve_lose_worker(struct serve *serve, int worker, const char *why)
{
    if (serve->workers[worker].presence != SERVE_THERE) return;
    close_worker(serve, worker, why);
    if (why != NULL) {
        log_write(LOG_WARN, "rank %d: parameter server: the worker at rank %d is gone (%d left): %s",
                  serve->config.rank, serve->config.worker_ranks[worker], serve_left_here(serve),
                  why);
        serve_tell_clocks(
            serve, &(struct server_request){.kind = SERVER_LOST, .number = (uint64_t)worker});
    }
    report(serve, worker, why == NULL);
}

/* The leader says so to all that have lines to that seat. */
static void tell_gone(struct serve *serve, int gone, bool had_clock)
{
    const struct server_request request = {
        .kind = SERVER_GONE, .number = (uint64_t)gone, .left_count = 1};
    for (int s = 0; s < serve->peer_count; s++)
        if (s != gone && (had_clock || s == serve->leader.standby))
            serve_tell(serve, s, &request, NULL);
}

/* Of a seat with a clock. */
static void go_on_without(struct serve *serve, int peer, bool had_clock, const char *why)
{
    const bool puts_out = step_leader_puts_out(&serve->leader), led = leads(serve);
    if (!step_leader_gone(&serve->leader, peer)) {
        stop_everywhere(serve, peer, why);
        return;
    }
    if (serve->map.seats[peer].state != SEAT_SPARE)
        log_write(LOG_WARN, "rank %d: parameter server: the server at rank %d is gone; %s: %s",
                  serve->config.rank, rank_of(serve, peer),
                  leads(serve) && !led ? "this one decides the steps"
                                       : "backups have its part of the tables",
                  why);
    if (puts_out) tell_gone(serve, peer, had_clock);
    serve_act(serve);
}

/* To the other seats with a clock: the line to one of them has ended. False: there is no other one. */
static bool resume_without(struct serve *serve, int lost)
{
    bool has_any = false;
    for (int s = 0; s < serve->peer_count; s++) {
        if (s == serve->config.seat || s == lost || !seat_map_has_clock(&serve->map, s) ||
            serve->peers[s].line.state == LINE_CLOSED)
            continue;
        has_any = true;
        serve_tell(serve, s,
                   &(struct server_request){
                       .kind = SERVER_RESUME, .sequence = serve->heard, .number = (uint64_t)lost},
                   NULL);
    }
    return has_any;
}

/* had_clock: of the seat that is lost, before it was out. */
static void lose_peer(struct serve *serve, int peer, bool had_clock, const char *why)
{
    struct serve_peer *const of = &serve->peers[peer];
    const bool is_part_of_list = seat_map_hears(&serve->map, serve->config.seat);
    const bool is_over =
        serve->is_told_over || of->is_silent || (serve_has_clock(serve) && of->is_over);
    if (of->line.state == LINE_CLOSED) return;
    line_close(&of->line, why);
    of->is_over = true;
    of->is_held = of->has_failed = false;
    if (serve->copying.to == peer) serve->copying.to = -1;
    if (serve->broken != TUTTI_OK) return;
    if (is_over) {
        if (serve_has_clock(serve)) (void)step_leader_gone(&serve->leader, peer);
        serve_act(serve);
    } else if (serve_has_clock(serve)) {
        go_on_without(serve, peer, had_clock, why);
    } else if (serve->fill.is_filling && serve->fill.source == peer) {
        stop_without(serve, peer, why, false);
    } else if (is_part_of_list && had_clock && !resume_without(serve, peer)) {
        stop_without(serve, peer, why, false);
    }
}

void serve_lose_peer(struct serve *serve, int peer, const char *why)
{
    lose_peer(serve, peer, seat_map_has_clock(&serve->map, peer), why);
}

/* --------------------------------------------------------------------------- seats that come and go */

/* Another seat has the clock now, and has missed what was said to those that had it. */
static void tell_again(struct serve *serve, int clock)
{
    const int seat = serve->config.seat;
    if (seat == clock) return;
    for (int i = 0; i < worker_count(serve); i++) {
        const struct serve_worker *const of = &serve->workers[i];
        struct server_request request = {.kind = SERVER_BEGUN, .number = (uint64_t)i};
        if (of->begun > 0) {
            request.clock = of->begun - 1;
            serve_tell(serve, clock, &request, NULL);
        }
        if (of->has_ended) {
            request.kind = SERVER_HAS;
            request.clock = of->ticked - 1;
            serve_tell(serve, clock, &request, NULL);
        }
        if (of->presence == SERVE_THERE && !of->is_in) serve_tell_linked(serve, i, clock);
        if (of->presence == SERVE_THERE || of->presence == SERVE_AWAITED) continue;
        request = (struct server_request){
            .kind = SERVER_LOST, .number = (uint64_t)i, .left_count = of->presence == SERVE_LEFT};
        serve_tell(serve, clock, &request, NULL);
    }
    if (serve->map.seats[seat].state == SEAT_JOINED && serve->has_all)
        serve_tell(serve, clock, &(struct server_request){.kind = SERVER_FILLED}, NULL);
    if (serve->peers[clock].line.state == LINE_CLOSED && !serve_has_clock(serve))
        (void)resume_without(serve, clock);
}

/* This seat fills a spare that has joined, or is that spare. */
static void begin_to_fill(struct serve *serve, int joined, int share)
{
    const int seat = serve->config.seat;
    const int source = seat_map_full(&serve->map, share, joined);
    enum tutti_status status = TUTTI_OK;
    if (joined == seat) {
        if (source < 0 || serve->peers[source].line.state == LINE_CLOSED)
            stop(serve, TUTTI_PROC_FAILED, "the server that was to copy its part is gone", false);
        else
            seat_fill_begin(&serve->fill, source);
    } else if (source == seat && serve->peers[joined].line.state != LINE_CLOSED) {
        status = serve_copy_begin(serve, joined);
    }
    if (status != TUTTI_OK) serve->peers[joined].has_failed = true;
}

/* A seat is out: its line ends here, too, as it does where its end was found. */
static void put_out(struct serve *serve, int seat, bool had_clock)
{
    if (seat == serve->config.seat || serve->peers[seat].line.state == LINE_CLOSED) return;
    lose_peer(serve, seat, had_clock, "the leader has lost it");
}

static void say_what_becomes(const struct serve *serve, int seat, enum seat_state state, int share)
{
    static const char *const words[] = {
        [SEAT_INVITED] = "becomes a backup", [SEAT_JOINED] = "gets a copy", [SEAT_FULL] = "has a whole copy"};
    if (!leads(serve) || state == SEAT_OUT) return;
    log_write(LOG_INFO, "rank %d: parameter server: the server at rank %d %s of the part of rank %d",
              serve->config.rank, rank_of(serve, seat), words[state],
              serve->config.server_ranks[share]);
}

/* Parts that the next death may take. */
static void say_what_stays_alone(struct serve *serve)
{
    if (serve->config.division->spare_count == 0 || !leads(serve)) return;
    const int count = seat_map_stay_alone(&serve->leader.map);
    if (count > serve->said_alone)
        log_write(LOG_WARN,
                  "rank %d: parameter server: %d part%s on one server alone: no server has a place "
                  "left for a backup",
                  serve->config.rank, count, count == 1 ? " is" : "s are");
    serve->said_alone = count;
}

/* An entry about a seat. */
static void move_seat(struct serve *serve, const struct step_entry *entry, enum seat_state state)
{
    const int seat = (int)entry->number, share = (int)entry->left_count;
    const bool had_clock = seat_map_has_clock(&serve->map, seat);
    if (!seat_map_move(&serve->map, seat, state, share)) {
        stop(serve, TUTTI_INTERNAL, "the list of steps makes no sense", false);
        return;
    }
    say_what_becomes(serve, seat, state, share);
    if (state == SEAT_INVITED && share == 0) tell_again(serve, seat);
    if (state == SEAT_JOINED) begin_to_fill(serve, seat, share);
    if (state == SEAT_OUT) put_out(serve, seat, had_clock);
    say_what_stays_alone(serve);
}

/* ---------------------------------------------------------------------------------------- the list */

static void let_in(struct serve *serve, const struct step_entry *entry)
{
    serve_let_in(serve, entry);
    if (!leads(serve)) return;
    log_write(LOG_INFO,
              "rank %d: parameter server: a worker has come as rank %d, in clock %" PRIu64
              " (%d are there)",
              serve->config.rank, serve->config.worker_ranks[entry->number], entry->left_count,
              serve_left_here(serve));
}

static void carry_out(struct serve *serve, const struct step_entry *entry)
{
    enum seat_state state;
    if (entry->index > 0) serve->heard = entry->index;
    if (serve->broken != TUTTI_OK) return;
    if (entry->kind == STEP_DECIDED)
        take_step(serve, entry);
    else if (entry->kind == STEP_LOST)
        drop_worker(serve, (int)entry->number);
    else if (entry->kind == STEP_CAME)
        let_in(serve, entry);
    else if (step_entry_moves(entry->kind, &state))
        move_seat(serve, entry, state);
    else if (entry->kind != STEP_LEFT)
        serve_end_round(serve, entry);
}

void serve_act(struct serve *serve)
{
    if (!serve_has_clock(serve) || serve->acts) return;
    serve->acts = true;
    while (serve->broken == TUTTI_OK) {
        const struct step_action action = step_leader_next(&serve->leader);
        if (action.kind == STEP_NOTHING) break;
        if (action.kind == STEP_GIVE_BASE) serve_give_base(serve, action.seat);
        if (action.kind == STEP_TELL) serve_tell_entry(serve, action.seat, &action.entry);
        if (action.kind == STEP_CARRY_OUT) carry_out(serve, &action.entry);
        if (action.kind == STEP_CONFIRM)
            serve_tell(serve, action.seat,
                       &(struct server_request){.kind = SERVER_CONFIRM,
                                                .sequence = action.entry.index,
                                                .clock = action.entry.round},
                       NULL);
    }
    serve->acts = false;
}

/* --------------------------------------------------------------------------------- what seats say */

static enum step_entry_kind kind_of(unsigned kind)
{
    switch (kind) {
    case SERVER_DECIDED: return STEP_DECIDED;
    case SERVER_LOST: return STEP_LOST;
    case SERVER_LEFT: return STEP_LEFT;
    case SERVER_CAME: return STEP_CAME;
    case SERVER_INVITED: return STEP_INVITED;
    case SERVER_JOINED: return STEP_JOINED;
    case SERVER_FULL: return STEP_FULL;
    default: return STEP_OUT;
    }
}

/* A leader that had lost this seat may have decided without it, and be dead before all have heard of that. */
static bool lacks_update(const struct serve *serve, const struct step_entry *entry)
{
    if (entry->kind != STEP_DECIDED || !seat_map_counts(&serve->map, serve->config.seat))
        return false;
    for (int i = 0; i < worker_count(serve); i++)
        if (rank_set_has(entry->members, i) && !serve->workers[i].has_ended) return true;
    return false;
}

static enum tutti_status hear_entry(struct serve *serve, int peer,
                                    const struct server_request *request, const uint64_t *members)
{
    const struct step_entry entry = {.index = request->sequence,
                                     .kind = kind_of(request->kind),
                                     .number = request->number,
                                     .left_count = request->left_count,
                                     .members = members != NULL ? members : serve->members,
                                     .round = request->clock};
    if (entry.index <= serve->heard) return TUTTI_OK;
    if (leads(serve) || (!serve_has_clock(serve) && entry.index != serve->heard + 1))
        return error_set(TUTTI_MISMATCH,
                         "entry %" PRIu64 " of the steps comes from seat %d after entry %" PRIu64,
                         entry.index, peer, serve->heard);
    if (lacks_update(serve, &entry)) {
        stop_without(serve, serve->config.seat, "it lacks an update of a step", false);
        return TUTTI_OK;
    }
    if (!serve_has_clock(serve)) {
        carry_out(serve, &entry);
    } else if (!step_leader_hear(&serve->leader, &entry)) {
        stop_without(serve, serve->config.seat, "it has missed a step", false);
    } else {
        serve_act(serve);
    }
    return TUTTI_OK;
}

static enum tutti_status hear_round(struct serve *serve, int peer,
                                    const struct server_request *request)
{
    const struct step_entry entry = {.kind =
                                         request->kind == SERVER_CHANGED ? STEP_CHANGED : STEP_KEPT,
                                     .number = request->number,
                                     .left_count = request->left_count,
                                     .round = request->clock};
    if (!serve_has_clock(serve)) return TUTTI_OK;
    if (leads(serve) || !step_leader_hear(&serve->leader, &entry))
        return error_set(TUTTI_MISMATCH,
                         "the end of change %" PRIu64 " of the mode comes from seat %d out of turn",
                         request->clock, peer);
    serve_act(serve);
    return TUTTI_OK;
}

static enum tutti_status hear_has(struct serve *serve, int peer,
                                  const struct server_request *request)
{
    if (!step_leader_has(&serve->leader, peer, (int)request->number, request->clock))
        return error_set(TUTTI_MISMATCH, "it has an update of clock %" PRIu64 " too early",
                         request->clock);
    serve_act(serve);
    return TUTTI_OK;
}

static enum tutti_status hear_resume(struct serve *serve, int peer,
                                     const struct server_request *request)
{
    switch (step_leader_resume(&serve->leader, peer, (int)request->number, request->sequence)) {
    case STEP_RESUMED: break;
    case STEP_PUT_OUT:
        return error_set(TUTTI_MISMATCH, "it lacks more entries of the steps than are kept");
    case STEP_CANNOT:
        stop_everywhere(serve, (int)request->number, "this backup of it does not know all steps");
        break;
    }
    serve_act(serve);
    return TUTTI_OK;
}

/* The leader has lost that seat: alone, so that this seat does, too, or with a share of the tables. */
static void hear_gone(struct serve *serve, const struct server_request *request)
{
    const int seat = (int)request->number;
    if (request->left_count == 0)
        stop_everywhere(serve, seat, "the leader has lost it");
    else if (seat != serve->config.seat)
        serve_lose_peer(serve, seat, "the leader has lost it");
}

static void hear_lost(struct serve *serve, const struct server_request *request)
{
    const int worker = (int)request->number;
    if (!leads(serve) || serve->workers[worker].presence != SERVE_THERE || request->left_count > 0)
        report(serve, worker, request->left_count > 0);
    else
        serve_lose_worker(serve, worker, "another server has lost it");
}

/* A base, or a piece of a share, has been taken. Without it this seat is of no use. */
static enum tutti_status act_or_stop(struct serve *serve, enum tutti_status status)
{
    if (status == TUTTI_OK) {
        serve_act(serve);
        return TUTTI_OK;
    }
    char why[160];
    error_copy(why, sizeof why);
    stop(serve, status, why, false);
    return TUTTI_OK;
}

/* What only a seat with a clock hears. Others ignore it: it was said to a seat that was not lost yet. */
static enum tutti_status hear_of_clock(struct serve *serve, int peer,
                                       const struct server_request *request)
{
    if (!serve_has_clock(serve)) return TUTTI_OK;
    switch (request->kind) {
    case SERVER_HAS: return hear_has(serve, peer, request);
    case SERVER_LOST: hear_lost(serve, request); return TUTTI_OK;
    case SERVER_RESUME: return hear_resume(serve, peer, request);
    case SERVER_LINKED: step_leader_linked(&serve->leader, peer, (int)request->number); break;
    case SERVER_BEGUN:
        step_leader_begun(&serve->leader, peer, (int)request->number, request->clock);
        break;
    case SERVER_FILLED: step_leader_filled(&serve->leader, peer); break;
    default: step_leader_confirm(&serve->leader, request->sequence, request->clock); break;
    }
    serve_act(serve);
    return TUTTI_OK;
}

enum tutti_status serve_hear_seat(struct serve *serve, int peer,
                                  const struct server_request *request, const void *payload)
{
    if (serve->broken != TUTTI_OK && request->kind != SERVER_OVER) return TUTTI_OK;
    switch (request->kind) {
    case SERVER_LOST:
        if (request->sequence == 0) return hear_of_clock(serve, peer, request);
        return hear_entry(serve, peer, request, payload);
    case SERVER_LEFT:
    case SERVER_CAME:
    case SERVER_DECIDED:
    case SERVER_INVITED:
    case SERVER_JOINED:
    case SERVER_FULL:
    case SERVER_OUT: return hear_entry(serve, peer, request, payload);
    case SERVER_CHANGED:
    case SERVER_KEPT: return hear_round(serve, peer, request);
    case SERVER_HAS:
    case SERVER_LINKED:
    case SERVER_CONFIRM:
    case SERVER_RESUME:
    case SERVER_BEGUN:
    case SERVER_FILLED: return hear_of_clock(serve, peer, request);
    case SERVER_GONE: hear_gone(serve, request); return TUTTI_OK;
    case SERVER_BASE: return act_or_stop(serve, serve_take_base(serve, peer, payload));
    case SERVER_PIECE: return act_or_stop(serve, serve_take_piece(serve, request, payload));
    default:
        serve->peers[peer].is_over = true;
        serve->peers[peer].is_silent |= request->number == SERVER_OVER_EVERYWHERE;
        serve->is_told_over |= request->number == SERVER_OVER_EVERYWHERE;
        return TUTTI_OK;
    }
}

/* The last word to all other seats. Whether all have said theirs: until then nobody ends a line on which
 * another one may still speak, or listen. A seat that is stopped is not waited for for long. */
static bool has_parted(struct serve *serve)
{
    bool all = true;
    if (!serve->has_told_over) {
        serve->has_told_over = true;
        serve->farewell_ns = clock_now_ns() + FAREWELL_NS;
        serve_tell_all(
            serve, &(struct server_request){.kind = SERVER_OVER, .number = SERVER_OVER_EVERYWHERE});
    }
    for (int i = 0; i < serve->peer_count; i++)
        all &= serve->peers[i].line.state == LINE_CLOSED ||
               (serve->peers[i].is_silent && !line_is_sending(&serve->peers[i].line));
    if (!all && clock_now_ns() < serve->farewell_ns) return false;
    serve->farewell_ns = 0;
    return true;
}

bool serve_is_over(struct serve *serve)
{
    for (int i = 0; i < worker_count(serve); i++)
        if (serve->workers[i].line.state != LINE_CLOSED) return false;
    bool all = true;
    for (int i = 0; i < serve->peer_count; i++) all &= serve->peers[i].is_over;
    if (!leads(serve)) {
        all = serve->is_told_over || serve->broken != TUTTI_OK;
        if (!serve->has_said_over)
            serve_tell_all(serve, &(struct server_request){.kind = SERVER_OVER});
        serve->has_said_over = true;
    }
    return all && has_parted(serve);
}
