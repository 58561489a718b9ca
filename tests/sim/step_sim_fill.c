#include <stdlib.h>
#include <string.h>

#include "tests/sim/step_sim_world.h"

static bool is_spare(const struct world *w, int seat)
{
    return w->seat[seat].map.seats[seat].state == SEAT_SPARE;
}

bool step_must_wait(const struct world *w, int seat, const struct message *message)
{
    const struct step_sim_seat *const own = &w->seat[seat];
    switch (message->kind) {
    case BASE:
    case FAIL:
    case GONE: return false;
    case ENTRY:
        return message->index > 0 && w->bug != STEP_BUG_NO_MARK &&
               !seat_fill_may_hear(&own->fill, message->from, message->index);
    case PIECE: return !seat_fill_may_load(&own->fill, own->heard, message->index);
    default: return is_spare(w, seat);
    }
}

/* -------------------------------------------------------------------------------- a spare is invited */

static void learn(struct world *w, int seat, const struct message *message)
{
    struct step_sim_seat *const own = &w->seat[seat];
    const struct step_leader_config config = {.worker_count = w->workers,
                                              .share_count = w->shares,
                                              .copy_count = 2,
                                              .spare_count = w->spares,
                                              .place_count = w->places,
                                              .seat = seat};
    if (!own->has_leader && !step_leader_init(&own->leader, &config)) abort();
    own->has_leader = true;
    if (!step_leader_learn(&own->leader, message->from, message->words))
        story_fail(&w->story, "seat %d cannot learn", seat);
    for (int s = 0; s < w->seats; s++)
        if (s != seat && w->lines[s][seat].is_over) (void)step_leader_gone(&own->leader, s);
}

void step_invite(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    of->is_invited = true;
    step_send(w, (struct message){.kind = INVITE,
                                  .from = seat,
                                  .to = step_end_of_worker(w, worker),
                                  .push = (uint64_t)w->seat[seat].map.seats[seat].share});
}

/* Of a worker: what the base says, beside what has come here. */
static void follow_base(struct world *w, int seat, int worker,
                        const struct worker_clock_worker *base)
{
    struct seen *const of = &w->seat[seat].of[worker];
    of->decided = base->clock;
    of->is_in |= base->state != WORKER_AWAITED;
    if (of->has_ended && of->ticked <= of->decided) of->has_ended = false;
    if (base->state == WORKER_AWAITED && of->is_linked && !of->is_gone) {
        step_tell_clocks(w, seat, (struct message){.kind = LINKED, .worker = worker});
    } else if (base->state == WORKER_GONE) {
        of->is_gone = true;
        of->has_ended = false;
    } else if (of->is_gone) {
        step_tell_clocks(w, seat,
                         (struct message){.kind = LOST, .worker = worker, .push = of->has_left});
    } else if (of->is_in && of->is_linked && !of->is_invited) {
        step_invite(w, seat, worker);
        if (w->bug == STEP_BUG_HASTY_JOIN)
            step_tell_clocks(
                w, seat, (struct message){.kind = BEGUN, .worker = worker, .clock = base->clock});
    }
    step_answer_waiting(w, seat, worker);
}

void step_take_base(struct world *w, int seat, const struct message *message)
{
    struct step_sim_seat *const own = &w->seat[seat];
    struct step_base base;
    struct worker_clock_worker workers[WORKERS_MAX];
    if (own->map.seats[seat].state > SEAT_INVITED) {
        story_fail(&w->story, "seat %d is given a base too late", seat);
        return;
    }
    if (!step_base_read(message->words, w->workers, &base, workers, &own->map)) abort();
    own->heard = base.index;
    own->steps = base.steps;
    if (own->map.seats[seat].share == 0) learn(w, seat, message);
    for (int i = 0; i < w->workers; i++) follow_base(w, seat, i, &workers[i]);
}

void step_take_begin(struct world *w, int seat, int worker, uint64_t clock)
{
    struct seen *const of = &w->seat[seat].of[worker];
    of->ticked = clock;
    of->begun = clock + 1;
    step_tell_clocks(w, seat, (struct message){.kind = BEGUN, .worker = worker, .clock = clock});
}

/* ----------------------------------------------------------------------------------- a share is copied */

void step_take_piece(struct world *w, int seat, const struct message *message)
{
    struct step_sim_seat *const own = &w->seat[seat];
    if (message->applied == NULL) return;
    for (int i = 0; i < w->workers; i++)
        memcpy(own->of[i].applied[own->ranges], message->applied[i], CLOCKS_MAX);
    own->ranges++;
    if (own->ranges < RANGES - (w->bug == STEP_BUG_EARLY_FULL)) return;
    if (own->ranges == RANGES) own->fill.is_filling = false;
    step_tell_clocks(w, seat, (struct message){.kind = FILLED});
    for (int i = 0; i < w->workers; i++) step_answer_waiting(w, seat, i);
}

/* Names the entry behind which this seat is, perhaps with a range. */
void step_copy_on(struct world *w, int seat, bool has_room)
{
    struct step_sim_seat *const own = &w->seat[seat];
    if (own->fill_to < 0 || own->is_broken) return;
    struct message piece = {.kind = PIECE, .from = seat, .to = own->fill_to, .index = own->heard};
    if (has_room) {
        piece.applied = calloc(WORKERS_MAX, sizeof *piece.applied);
        if (piece.applied == NULL) abort();
        for (int i = 0; i < w->workers; i++)
            memcpy(piece.applied[i], own->of[i].applied[own->next_range], CLOCKS_MAX);
    } else if (own->named == own->heard) {
        return;
    }
    own->named = own->heard;
    step_send(w, piece);
    if (!has_room) return;
    if (++own->next_range == RANGES)
        own->fill_to = -1;
    else
        sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 1, 10 * MILLISECOND), COPY,
               step_node_of(w, seat), seat, 0);
}

static void begin_copy(struct world *w, int seat, int to)
{
    struct step_sim_seat *const own = &w->seat[seat];
    if (w->lines[to][seat].is_over) return;
    own->fill_to = to;
    own->next_range = 0;
    own->named = 0;
    sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 1, 2 * MILLISECOND), COPY,
           step_node_of(w, seat), seat, 0);
}

static void begin_fill(struct world *w, int seat)
{
    struct step_sim_seat *const own = &w->seat[seat];
    const int source = seat_map_full(&own->map, own->map.seats[seat].share, seat);
    if (source < 0 || w->lines[source][seat].is_over)
        step_stop(w, seat, false);
    else
        seat_fill_begin(&own->fill, source);
}

/* ----------------------------------------------------------------------------------- the list of seats */

/* Another seat has the clock now, and has missed what was said to those that had it. */
static void tell_again(struct world *w, int seat, int clock)
{
    struct step_sim_seat *const own = &w->seat[seat];
    if (seat == clock) return;
    for (int i = 0; i < w->workers; i++) {
        const struct seen *const of = &own->of[i];
        struct message message = {.from = seat, .to = clock, .worker = i};
        if (of->begun > 0) {
            message.kind = BEGUN;
            message.clock = of->begun - 1;
            step_send(w, message);
        }
        if (of->has_ended) {
            message.kind = HAS;
            message.clock = of->ticked - 1;
            step_send(w, message);
        }
        message.kind = LINKED;
        if (of->is_linked && !of->is_in && !of->is_gone) step_send(w, message);
        message.kind = LOST;
        message.push = of->has_left;
        if (of->is_gone) step_send(w, message);
    }
    const bool is_filled = own->map.seats[seat].state == SEAT_JOINED && own->ranges == RANGES;
    if (is_filled) step_send(w, (struct message){.kind = FILLED, .from = seat, .to = clock});
    if (w->lines[clock][seat].is_over && !step_has_clock(w, seat))
        (void)step_resume_without(w, seat, clock);
}

void step_move_seat(struct world *w, int seat, const struct step_entry *entry)
{
    struct step_sim_seat *const own = &w->seat[seat];
    const int moved = (int)entry->number, share = (int)entry->left_count;
    enum seat_state state;
    if (!step_entry_moves(entry->kind, &state)) return;
    const bool had_clock = seat_map_has_clock(&own->map, moved);
    if (!seat_map_move(&own->map, moved, state, share))
        story_fail(&w->story, "seat %d cannot move seat %d", seat, moved);
    const bool has_share = own->map.seats[seat].share == share;
    switch (state) {
    case SEAT_INVITED:
        if (share == 0) tell_again(w, seat, moved);
        break;
    case SEAT_JOINED:
        if (moved == seat)
            begin_fill(w, seat);
        else if (has_share && own->map.seats[seat].state == SEAT_FULL)
            begin_copy(w, seat, moved);
        break;
    case SEAT_OUT:
        if (moved == seat || w->lines[moved][seat].is_over) break;
        own->map.seats[moved].state = had_clock ? SEAT_FULL : SEAT_OUT; /* lost as what it was */
        step_close_line(w, seat, moved);
        step_lose(w, seat, moved);
        own->map.seats[moved].state = SEAT_OUT;
        break;
    default: break;
    }
}
