#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "membership/rank_set.h"
#include "server/serve_state.h"

enum { PIECE_BYTES = 256 << 10 };

static int worker_count(const struct serve *serve)
{
    return serve->config.division->worker_count;
}

static size_t seat_words(const struct serve *serve)
{
    return step_base_words(worker_count(serve), serve->peer_count);
}

static size_t record_words(const struct serve *serve)
{
    return SERVER_BASE_HEAD + rank_set_words(worker_count(serve));
}

/* ----------------------------------------------------------------------------------------- the base */

static uint64_t *members_of(const struct serve *serve, uint64_t number)
{
    return serve->record_members + number % SERVE_RECORDS * rank_set_words(worker_count(serve));
}

static void put_record(const struct serve *serve, int worker, uint64_t *words)
{
    const uint64_t number = serve->workers[worker].tick_number;
    const struct serve_record *const record = &serve->records[number % SERVE_RECORDS];
    if (number == 0 || record->number != number) return;
    words[0] = number;
    words[1] = record->left_count;
    memcpy(words + SERVER_BASE_HEAD, members_of(serve, number),
           rank_set_words(worker_count(serve)) * sizeof *words);
}

static void take_record(struct serve *serve, int worker, const uint64_t *words)
{
    const uint64_t number = words[0];
    const size_t set_words = rank_set_words(worker_count(serve));
    serve->workers[worker].tick_number = number;
    if (number == 0) return;
    memcpy(members_of(serve, number), words + SERVER_BASE_HEAD, set_words * sizeof *words);
    serve->records[number % SERVE_RECORDS] = (struct serve_record){
        number, (uint32_t)words[1],
        (uint32_t)rank_set_count(words + SERVER_BASE_HEAD, worker_count(serve))};
}

void serve_give_base(struct serve *serve, int seat)
{
    const size_t bytes = server_base_bytes(serve->config.division);
    const size_t record = record_words(serve);
    uint64_t *const words = calloc(1, bytes);
    if (words == NULL) {
        serve->peers[seat].has_failed = true;
        return;
    }
    step_leader_base(&serve->leader, words);
    for (int i = 0; i < worker_count(serve); i++)
        put_record(serve, i, words + seat_words(serve) + (size_t)i * record);
    serve_tell(serve, seat, &(struct server_request){.kind = SERVER_BASE, .payload_bytes = bytes},
               words);
    free(words);
}

/* Room for the share, which has initial values. */
static enum tutti_status make_share(struct serve *serve, int share)
{
    const struct server_division *const division = serve->config.division;
    struct tables *tables;
    TRY(tables_create(0, &tables));
    enum tutti_status status = TUTTI_OK;
    for (size_t t = 0; t < division->table_count && status == TUTTI_OK; t++) {
        struct table_spec spec = *table_spec_of(tables_at(serve->config.tables, t));
        struct table *table;
        if (!division->tables[t].is_rows)
            division_dense(division, t, share, &spec.first, &spec.share);
        serve->firsts[t] = spec.first;
        status = tables_add(tables, &spec, &table);
    }
    if (status != TUTTI_OK) {
        tables_free(tables);
        return status;
    }
    tables_free(serve->config.tables);
    serve->config.tables = tables;
    serve->share = share;
    return TUTTI_OK;
}

/* A spare with the first share is to decide steps one day. */
static enum tutti_status learn(struct serve *serve, int peer, const uint64_t *words)
{
    const struct server_division *const division = serve->config.division;
    const struct step_leader_config config = {.worker_count = division->worker_count,
                                              .share_count = division->server_count,
                                              .copy_count = 1 + division->backup_count,
                                              .spare_count = division->spare_count,
                                              .place_count = division->place_count,
                                              .seat = serve->config.seat};
    if (!serve->has_leader && !step_leader_init(&serve->leader, &config)) {
        step_leader_release(&serve->leader);
        return error_set(TUTTI_NO_MEMORY, "no memory for the clocks of workers");
    }
    serve->has_leader = true;
    if (!step_leader_learn(&serve->leader, peer, words))
        return error_set(TUTTI_MISMATCH, "what it is to begin with makes no sense");
    for (int s = 0; s < serve->peer_count; s++)
        if (s != serve->config.seat && serve->peers[s].line.state == LINE_CLOSED)
            (void)step_leader_gone(&serve->leader, s);
    return TUTTI_OK;
}

void serve_invite(struct serve *serve, int worker)
{
    struct serve_worker *const of = &serve->workers[worker];
    const struct server_reply invitation = {
        .magic = SERVER_MAGIC, .version = SERVER_VERSION, .member_count = (uint32_t)serve->share};
    of->is_invited = true;
    of->has_failed |=
        line_send(&of->line, SERVER_TAG_INVITE, &invitation, sizeof invitation) != TUTTI_OK;
}

/* Takes over the state of a worker in the base, beside updates that have come here. */
static void follow_base(struct serve *serve, int worker, const struct worker_clock_worker *base)
{
    struct serve_worker *const of = &serve->workers[worker];
    const bool is_gone = base->state == WORKER_GONE, is_awaited = base->state == WORKER_AWAITED;
    of->decided = base->clock;
    of->is_in |= !is_awaited;
    if (of->has_ended && (of->ticked <= of->decided || is_gone)) {
        update_clear(&of->ended);
        of->has_ended = false;
    }
    if (of->presence == SERVE_AWAITED) {
        if (is_gone) of->presence = SERVE_LOST;
    } else if (!is_gone && of->presence != SERVE_THERE) {
        const bool has_left = of->presence == SERVE_LEFT;
        serve_tell_clocks(serve, &(struct server_request){.kind = SERVER_LOST,
                                                          .number = (uint64_t)worker,
                                                          .left_count = has_left});
        if (serve_has_clock(serve)) step_leader_report(&serve->leader, worker, has_left);
    } else if (is_awaited) {
        serve_tell_linked(serve, worker, -1);
    } else if (!is_gone && !of->is_invited) {
        serve_invite(serve, worker);
    }
    if (serve_has_clock(serve) && !of->has_ended) serve_answer_tick(serve, worker);
}

enum tutti_status serve_take_base(struct serve *serve, int peer, const uint64_t *words)
{
    const int workers = worker_count(serve), seat = serve->config.seat;
    const size_t record = record_words(serve);
    struct step_base base;
    if (serve->map.seats[seat].state > SEAT_INVITED)
        return error_set(TUTTI_MISMATCH, "it is given a base too late");
    struct worker_clock_worker *const clocks = calloc((size_t)workers, sizeof *clocks);
    if (clocks == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for the clocks of workers");
    enum tutti_status status = TUTTI_OK;
    if (!step_base_read(words, workers, &base, clocks, &serve->map) ||
        serve->map.seats[seat].state != SEAT_INVITED ||
        (serve->share >= 0 && serve->share != serve->map.seats[seat].share))
        status = error_set(TUTTI_MISMATCH, "what it is to begin with makes no sense");
    if (status == TUTTI_OK && serve->share < 0)
        status = make_share(serve, serve->map.seats[seat].share);
    if (status == TUTTI_OK && serve->share == 0) status = learn(serve, peer, words);
    if (status == TUTTI_OK) {
        serve->heard = base.index;
        serve->steps = base.steps;
        for (int i = 0; i < workers; i++) {
            take_record(serve, i, words + seat_words(serve) + (size_t)i * record);
            follow_base(serve, i, &clocks[i]);
        }
    }
    free(clocks);
    return status;
}

enum tutti_status serve_take_begin(struct serve *serve, int worker)
{
    struct serve_worker *const of = &serve->workers[worker];
    const uint64_t clock = of->request.clock;
    if (!of->is_invited || of->begun > 0)
        return error_set(TUTTI_MISMATCH, "it begins with clock %" PRIu64 " uninvited", clock);
    of->ticked = clock;
    of->begun = clock + 1;
    serve_tell_clocks(serve, &(struct server_request){
                                 .kind = SERVER_BEGUN, .number = (uint64_t)worker, .clock = clock});
    if (serve_has_clock(serve))
        step_leader_begun(&serve->leader, serve->config.seat, worker, clock);
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- the copy */

enum tutti_status serve_copy_begin(struct serve *serve, int seat)
{
    struct serve_copying *const copying = &serve->copying;
    const size_t least = tables_copy_capacity_min(serve->config.tables);
    if (copying->bytes == NULL) {
        copying->capacity = least > PIECE_BYTES ? least : PIECE_BYTES;
        copying->bytes = malloc(copying->capacity);
    }
    if (copying->bytes == NULL)
        return error_set(TUTTI_NO_MEMORY, "no memory for a copy of the tables");
    copying->to = seat;
    copying->named = 0;
    tables_copy_init(&copying->copy);
    return TUTTI_OK;
}

bool serve_copy_on(struct serve *serve)
{
    struct serve_copying *const copying = &serve->copying;
    if (copying->to < 0 || serve->broken != TUTTI_OK) return false;
    const bool has_room = !line_is_sending(&serve->peers[copying->to].line);
    size_t size = 0;
    if (!has_room && copying->named == serve->heard) return false;
    if (has_room && tables_copy_next(serve->config.tables, &copying->copy, copying->bytes,
                                     copying->capacity, &size) != TUTTI_OK)
        serve->peers[copying->to].has_failed = true;
    const bool is_last = has_room && !copying->copy.in_pass;
    copying->named = serve->heard;
    serve_tell(serve, copying->to,
               &(struct server_request){.kind = SERVER_PIECE,
                                        .sequence = serve->heard,
                                        .number = is_last,
                                        .payload_bytes = size},
               copying->bytes);
    if (is_last) {
        copying->to = -1;
        free(copying->bytes);
        copying->bytes = NULL;
    }
    return has_room;
}

enum tutti_status serve_take_piece(struct serve *serve, const struct server_request *request,
                                   const void *bytes)
{
    const size_t size = (size_t)request->payload_bytes;
    size_t used = 0;
    if (size > 0) TRY(tables_load(serve->config.tables, bytes, size, &used, &serve->loaded));
    if (used != size) return error_set(TUTTI_CORRUPT, "a piece of the tables is damaged");
    if (request->number == 0) return TUTTI_OK;
    serve->fill.is_filling = false;
    serve->has_all = true;
    serve_tell_clocks(serve, &(struct server_request){.kind = SERVER_FILLED});
    if (serve_has_clock(serve)) step_leader_filled(&serve->leader, serve->config.seat);
    return TUTTI_OK;
}
