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

static bool has_backups(const struct serve *serve)
{
    return serve->config.division->backup_count > 0;
}

bool serve_has_clock(const struct serve *serve)
{
    return step_seat_has_clock(serve->config.seat, serve->config.division->server_count);
}

static bool leads(const struct serve *serve)
{
    return serve_has_clock(serve) && serve->leader.role != STEP_STANDS_BY;
}

/* The rank of the server that has a seat. */
static int rank_of(const struct serve *serve, int seat)
{
    return serve->config.server_ranks[division_host(serve->config.division, seat)];
}

static int left_here(const struct serve *serve)
{
    int count = 0;
    for (int i = 0; i < worker_count(serve); i++)
        count += serve->workers[i].presence == SERVE_THERE;
    return count;
}

/* ----------------------------------------------------------------------------- what is told to seats */

/* In one message if the payload is small. */
static enum tutti_status send_request(struct line *line, int tag,
                                      const struct server_request *request, const void *payload)
{
    char together[sizeof *request + SERVER_INLINE_BYTES];
    size_t bytes = sizeof *request;
    const bool is_inline =
        request->payload_bytes > 0 && request->payload_bytes <= SERVER_INLINE_BYTES;
    memcpy(together, request, sizeof *request);
    if (is_inline) {
        memcpy(together + bytes, payload, request->payload_bytes);
        bytes += request->payload_bytes;
    }
    TRY(line_send(line, tag, together, bytes));
    if (is_inline || request->payload_bytes == 0) return TUTTI_OK;
    return line_send(line, tag + 1, payload, request->payload_bytes);
}

/* A failure there shows when the line is looked after. */
static void tell(struct serve *serve, int peer, const struct server_request *request,
                 const void *payload)
{
    struct line *const line = &serve->peers[peer].line;
    const int tag = peer > serve->config.seat ? SERVER_TAG_TO_HIGHER : SERVER_TAG_TO_LOWER;
    if (line->state == LINE_CLOSED) return;
    struct server_request whole = *request;
    whole.magic = SERVER_MAGIC;
    whole.version = SERVER_VERSION;
    const enum tutti_status status = send_request(line, tag, &whole, payload);
    if (status == TUTTI_OK) return;
    char why[120];
    error_copy(why, sizeof why);
    serve_lose_peer(serve, peer, why);
}

static void tell_all(struct serve *serve, const struct server_request *request)
{
    for (int i = 0; i < serve->peer_count; i++) tell(serve, i, request, NULL);
}

/* The other seats that have a clock. */
static void tell_clocks(struct serve *serve, const struct server_request *request)
{
    for (int i = 0; i < serve->peer_count; i += serve->config.division->server_count)
        tell(serve, i, request, NULL);
}

static void tell_entry(struct serve *serve, int peer, const struct step_entry *entry)
{
    static const enum server_kind kinds[] = {[STEP_DECIDED] = SERVER_DECIDED,
                                             [STEP_LOST] = SERVER_LOST,
                                             [STEP_LEFT] = SERVER_LEFT,
                                             [STEP_CHANGED] = SERVER_CHANGED,
                                             [STEP_KEPT] = SERVER_KEPT};
    const bool is_step = entry->kind == STEP_DECIDED;
    tell(serve, peer,
         &(struct server_request){.kind = (uint16_t)kinds[entry->kind],
                                  .sequence = entry->index,
                                  .clock = entry->round,
                                  .number = entry->number,
                                  .left_count = entry->left_count,
                                  .payload_bytes = is_step ? rank_set_words(worker_count(serve)) *
                                                                 sizeof *entry->members
                                                           : 0},
         entry->members);
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

/* A share has no seat any more. The other seats are told by the leader. */
static void stop_everywhere(struct serve *serve, int seat, const char *why)
{
    char text[256];
    snprintf(text, sizeof text, "the server at rank %d, which had a part of the tables, is gone: %s",
             rank_of(serve, seat), why);
    if (leads(serve))
        tell_all(serve, &(struct server_request){.kind = SERVER_GONE, .number = (uint64_t)seat});
    stop(serve, TUTTI_PROC_FAILED, text, true);
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

/* Applies the updates of the members, which are all here. */
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
    apply(serve, serve->members, entry->left_count);
    if (!serve_has_clock(serve)) return;
    keep_record(serve, serve->members, entry->left_count);
    for (int i = 0; i < worker_count(serve) && serve->broken == TUTTI_OK; i++)
        if (rank_set_has(serve->members, i)) serve_answer_tick(serve, i);
}

static void drop_worker(struct serve *serve, int worker)
{
    struct serve_worker *const of = &serve->workers[worker];
    if (of->presence == SERVE_THERE) {
        close_worker(serve, worker, "another server has lost it");
        log_write(LOG_WARN, "rank %d: parameter server: the worker at rank %d is gone (%d left): %s",
                  serve->config.rank, serve->config.worker_ranks[worker], left_here(serve),
                  "another server has lost it");
    }
    update_clear(&of->ended);
    of->has_ended = false;
}

static void carry_out(struct serve *serve, const struct step_entry *entry)
{
    if (entry->index > 0) serve->heard = entry->index;
    if (serve->broken != TUTTI_OK) return;
    if (entry->kind == STEP_DECIDED)
        take_step(serve, entry);
    else if (entry->kind == STEP_LOST)
        drop_worker(serve, (int)entry->number);
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
        if (action.kind == STEP_TELL) tell_entry(serve, action.seat, &action.entry);
        if (action.kind == STEP_CARRY_OUT) carry_out(serve, &action.entry);
        if (action.kind == STEP_CONFIRM)
            tell(serve, action.seat,
                 &(struct server_request){.kind = SERVER_CONFIRM,
                                          .sequence = action.entry.index,
                                          .clock = action.entry.round},
                 NULL);
    }
    serve->acts = false;
}

void serve_end_clock(struct serve *serve, int worker)
{
    struct serve_worker *const of = &serve->workers[worker];
    update_move(&of->open, &of->ended);
    of->has_ended = true;
    const uint64_t clock = of->ticked++;
    tell_clocks(serve, &(struct server_request){
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
                  serve->config.rank, serve->config.worker_ranks[worker], left_here(serve), why);
        if (!leads(serve))
            tell_clocks(serve,
                        &(struct server_request){.kind = SERVER_LOST, .number = (uint64_t)worker});
    }
    report(serve, worker, why == NULL);
}

/* Of a seat with a clock. */
static void go_on_without(struct serve *serve, int peer, const char *why)
{
    const int standby = serve->config.division->server_count;
    const bool is_complete = step_leader_gone(&serve->leader, peer);
    if (!is_complete) {
        stop_everywhere(serve, peer, why);
        return;
    }
    log_write(LOG_WARN, "rank %d: parameter server: the server at rank %d is gone; %s: %s",
              serve->config.rank, rank_of(serve, peer),
              peer == 0 ? "this one decides the steps" : "backups have its part of the tables", why);
    const struct server_request gone = {
        .kind = SERVER_GONE, .number = (uint64_t)peer, .left_count = 1};
    if (serve->config.seat == 0 && peer == standby) tell_all(serve, &gone);
    if (serve->config.seat == 0 && peer != standby) tell(serve, standby, &gone, NULL);
    serve_act(serve);
}

/* Of another seat: its leader, or the standby of that. */
static void follow_another(struct serve *serve, int peer, const char *why)
{
    const int other = peer == 0 ? serve->config.division->server_count : 0;
    if (!has_backups(serve) || serve->peers[other].line.state == LINE_CLOSED) {
        char text[256];
        snprintf(text, sizeof text,
                 "the server at rank %d, which had a part of the tables, is gone: %s",
                 rank_of(serve, peer), why);
        stop(serve, TUTTI_PROC_FAILED, text, false);
        return;
    }
    serve->follows = other;
    tell(serve, other, &(struct server_request){.kind = SERVER_RESUME, .sequence = serve->heard},
         NULL);
}

void serve_lose_peer(struct serve *serve, int peer, const char *why)
{
    struct serve_peer *const of = &serve->peers[peer];
    const bool was_over = of->is_over || serve->is_told_over;
    if (of->line.state == LINE_CLOSED) return;
    line_close(&of->line, why);
    of->is_over = true;
    if (serve->broken != TUTTI_OK) return;
    if (was_over) {
        if (serve_has_clock(serve)) (void)step_leader_gone(&serve->leader, peer);
        serve_act(serve);
    } else if (serve_has_clock(serve)) {
        go_on_without(serve, peer, why);
    } else {
        follow_another(serve, peer, why);
    }
}

/* --------------------------------------------------------------------------------- what seats say */

static enum tutti_status hear_entry(struct serve *serve, int peer,
                                    const struct server_request *request, const uint64_t *members)
{
    struct step_entry entry = {.index = request->sequence,
                               .number = request->number,
                               .left_count = request->left_count,
                               .members = members != NULL ? members : serve->members};
    entry.kind = request->kind == SERVER_DECIDED ? STEP_DECIDED
                 : request->kind == SERVER_LOST  ? STEP_LOST
                                                 : STEP_LEFT;
    if (entry.index <= serve->heard) return TUTTI_OK;
    if (peer != serve->follows || leads(serve) || entry.index != serve->heard + 1)
        return error_set(TUTTI_MISMATCH,
                         "entry %" PRIu64 " of the steps comes from seat %d after entry %" PRIu64,
                         entry.index, peer, serve->heard);
    if (entry.kind == STEP_DECIDED && entry.number != serve->steps + 1)
        return error_set(TUTTI_MISMATCH, "step %" PRIu64 " comes after step %" PRIu64, entry.number,
                         serve->steps);
    for (int i = 0; i < worker_count(serve) && entry.kind == STEP_DECIDED; i++)
        if (rank_set_has(members, i) && !serve->workers[i].has_ended)
            return error_set(TUTTI_MISMATCH,
                             "step %" PRIu64 " has an update of worker %d, which is not here",
                             entry.number, i);
    if (!serve_has_clock(serve)) {
        carry_out(serve, &entry);
    } else {
        if (!step_leader_hear(&serve->leader, &entry))
            return error_set(TUTTI_MISMATCH, "entry %" PRIu64 " of the steps is not the next one",
                             entry.index);
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
    if (peer != serve->follows || leads(serve) || !step_leader_hear(&serve->leader, &entry))
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

static void hear_resume(struct serve *serve, int peer, uint64_t index)
{
    if (!step_leader_resume(&serve->leader, peer, index))
        stop_everywhere(serve, 0, "this backup of it does not know all steps");
    serve_act(serve);
}

/* The leader has lost that seat: alone, so that this seat does, too, or with a share of the tables. */
static void hear_gone(struct serve *serve, int peer, const struct server_request *request)
{
    const int seat = (int)request->number;
    if (division_share(serve->config.division, peer) != 0) return;
    if (request->left_count == 0)
        stop_everywhere(serve, seat, "the leader has lost it");
    else
        serve_lose_peer(serve, seat, "the leader has lost it");
}

enum tutti_status serve_hear_seat(struct serve *serve, int peer,
                                  const struct server_request *request, const uint64_t *members)
{
    switch (request->kind) {
    case SERVER_HAS: return hear_has(serve, peer, request);
    case SERVER_LOST:
        if (request->sequence > 0) return hear_entry(serve, peer, request, members);
        if (!leads(serve) || serve->workers[request->number].presence != SERVE_THERE)
            report(serve, (int)request->number, false);
        else
            serve_lose_worker(serve, (int)request->number, "another server has lost it");
        return TUTTI_OK;
    case SERVER_LEFT:
    case SERVER_DECIDED: return hear_entry(serve, peer, request, members);
    case SERVER_CHANGED:
    case SERVER_KEPT: return hear_round(serve, peer, request);
    case SERVER_CONFIRM:
        step_leader_confirm(&serve->leader, request->sequence, request->clock);
        serve_act(serve);
        return TUTTI_OK;
    case SERVER_RESUME: hear_resume(serve, peer, request->sequence); return TUTTI_OK;
    case SERVER_GONE: hear_gone(serve, peer, request); return TUTTI_OK;
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
        tell_all(serve,
                 &(struct server_request){.kind = SERVER_OVER, .number = SERVER_OVER_EVERYWHERE});
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
            tell_clocks(serve, &(struct server_request){.kind = SERVER_OVER});
        serve->has_said_over = true;
    }
    return all && has_parted(serve);
}
