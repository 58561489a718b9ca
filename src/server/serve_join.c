#include <stdlib.h>

#include "base/status.h"
#include "os/clock.h"
#include "server/serve_state.h"

/* Nobody listens to it here. */
static void turn_away(struct serve *serve, struct tutti_comm *comm, const char *why)
{
    (void)tutti_comm_abort(comm, why);
    closings_start(&serve->closings, comm);
}

/* Why no worker can come any more, or not this one; NULL: it can. */
static const char *reason_against(const struct serve *serve, int worker)
{
    if (serve->has_said_over || serve->has_told_over || serve->is_told_over)
        return "all workers of the parameter server have left";
    if (serve->workers[worker].presence != SERVE_AWAITED)
        return "another server has lost this worker";
    return NULL;
}

static void refuse(struct serve *serve, int worker)
{
    struct serve_worker *const of = &serve->workers[worker];
    if (of->presence != SERVE_AWAITED) return;
    of->presence = SERVE_LOST;
    serve_tell_clocks(serve,
                      &(struct server_request){.kind = SERVER_LOST, .number = (uint64_t)worker});
    if (serve_has_clock(serve)) step_leader_report(&serve->leader, worker, false);
}

static void take_newcomer(struct serve *serve, int worker, struct tutti_comm *comm)
{
    struct serve_worker *const of = &serve->workers[worker];
    const char *const why = reason_against(serve, worker);
    if (comm != NULL && why != NULL) turn_away(serve, comm, why);
    if (comm == NULL || why != NULL ||
        line_open(&of->line, comm, 0, SERVER_TAG_REQUEST, serve->event_fd, &serve->payloads,
                  &serve->closings) != TUTTI_OK) {
        refuse(serve, worker);
        return;
    }
    of->presence = SERVE_THERE;
    of->heard_ns = clock_now_ns();
    if (!of->is_in)
        serve_tell_linked(serve, worker, -1);
    else if (serve->map.seats[serve->config.seat].state == SEAT_INVITED && !of->is_invited)
        serve_invite(serve, worker);
}

bool serve_take_newcomers(struct serve *serve)
{
    pthread_mutex_lock(&serve->lock);
    struct serve_newcomer *all = serve->newcomers;
    serve->newcomers = NULL;
    pthread_mutex_unlock(&serve->lock);
    const bool has_any = all != NULL;
    while (all != NULL) {
        struct serve_newcomer *const one = all;
        all = one->next;
        take_newcomer(serve, one->worker, one->comm);
        free(one);
    }
    return has_any;
}

void serve_drop_newcomers(struct serve *serve, const char *why)
{
    while (serve->newcomers != NULL) {
        struct serve_newcomer *const one = serve->newcomers;
        serve->newcomers = one->next;
        if (one->comm != NULL && why != NULL) (void)tutti_comm_abort(one->comm, why);
        if (one->comm != NULL) (void)tutti_comm_free(one->comm);
        free(one);
    }
}

void serve_let_in(struct serve *serve, const struct step_entry *entry)
{
    const int worker = (int)entry->number;
    struct serve_worker *const of = &serve->workers[worker];
    of->is_in = true;
    of->first_clock = of->decided = entry->left_count;
    of->first_round = entry->round;
    serve->seen.joined++;
    if (seat_map_counts(&serve->map, serve->config.seat))
        of->ticked = of->decided;
    else if (of->presence == SERVE_THERE && !of->is_invited)
        serve_invite(serve, worker);
}

enum tutti_status serve_answer_enter(struct serve *serve, int worker)
{
    const struct serve_worker *const from = &serve->workers[worker];
    const struct seat_map *const map = &serve->map;
    const size_t bytes = server_enter_bytes(serve->config.division);
    if (serve->broken != TUTTI_OK)
        return serve_answer_failure(serve, worker, from->request.slot, serve->broken, serve->why);
    struct block *const block = block_take(&serve->payloads, bytes);
    if (block == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for an answer");
    uint64_t *const words = block_memory(block);
    for (int s = 0; s < map->seat_count; s++)
        words[s] = seat_map_counts(map, s) ? (uint64_t)map->seats[s].share + 1 : 0;
    const struct server_reply reply = {
        .payload_bytes = bytes, .clock = from->first_clock, .step = from->first_round};
    return serve_answer(serve, worker, from->request.slot, &reply, block);
}
