#include <stdlib.h>
#include <string.h>

#include "tests/sim/step_sim_world.h"

static void hear_request(struct world *w, int seat, const struct message *message);

bool step_has_clock(const struct world *w, int seat)
{
    const struct step_sim_seat *const own = &w->seat[seat];
    return own->has_leader && seat_map_has_clock(&own->map, seat);
}

/* Lines lead from seats with a clock, and from spares, to all others. */
static bool has_line(const struct world *w, int one, int other)
{
    return one != other && (one % w->shares == 0 || other % w->shares == 0 ||
                            one >= 2 * w->shares || other >= 2 * w->shares);
}

/* A share is lost: workers and other seats are told. Otherwise the seat's lines end, so that workers go
 * on with the other seat of its share. */
void step_stop(struct world *w, int seat, bool is_everywhere)
{
    struct step_sim_seat *const own = &w->seat[seat];
    if (own->is_broken) return;
    own->is_broken = true;
    story_tell(&w->story, "seat %d stops", seat);
    for (int i = 0; i < w->workers; i++)
        if (is_everywhere)
            step_send(w,
                      (struct message){.kind = FAIL, .from = seat, .to = step_end_of_worker(w, i)});
        else
            step_close_line(w, seat, step_end_of_worker(w, i));
    for (int s = 0; s < w->seats; s++)
        if (has_line(w, s, seat)) {
            if (is_everywhere) step_send(w, (struct message){.kind = FAIL, .from = seat, .to = s});
            if (!is_everywhere) step_close_line(w, seat, s);
        }
}

static void tell_own_clock(struct world *w, int seat, const struct message *message)
{
    struct step_leader *const leader = &w->seat[seat].leader;
    if (message->kind == HAS)
        (void)step_leader_has(leader, seat, message->worker, message->clock);
    else if (message->kind == BEGUN)
        step_leader_begun(leader, seat, message->worker, message->clock);
    else if (message->kind == LINKED)
        step_leader_linked(leader, seat, message->worker);
    else if (message->kind == FILLED)
        step_leader_filled(leader, seat);
    else
        step_leader_report(leader, message->worker, message->push != 0);
}

/* Of updates, workers and a copy: to all seats that have a clock. */
void step_tell_clocks(struct world *w, int seat, struct message message)
{
    const struct step_sim_seat *const own = &w->seat[seat];
    const bool once = (w->bug == STEP_BUG_HAS_ONCE && message.kind == HAS) ||
                      (w->bug == STEP_BUG_LOST_ONCE && message.kind == LOST) ||
                      (w->bug == STEP_BUG_LINKED_ONCE && message.kind == LINKED);
    message.from = seat;
    for (int s = 0; s < w->seats; s++) {
        message.to = s;
        if (!seat_map_has_clock(&own->map, s) || (once && s != 0)) continue;
        if (s != seat)
            step_send(w, message);
        else if (own->has_leader)
            tell_own_clock(w, seat, &message);
    }
}

static bool is_full(const struct world *w, int seat)
{
    return w->seat[seat].ranges == RANGES;
}

static void answer_pull(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    const int to = step_end_of_worker(w, worker);
    if (of->awaits_probe && of->decided >= of->probe_clock && is_full(w, seat)) {
        of->awaits_probe = false;
        step_send(w, (struct message){.kind = PROBED, .from = seat, .to = to});
    }
    if (!of->awaits_pull || !is_full(w, seat) ||
        (of->decided < of->pull_clock && w->bug != STEP_BUG_EARLY_PULL))
        return;
    of->awaits_pull = false;
    step_send(w, (struct message){.kind = VALUES,
                                  .from = seat,
                                  .to = to,
                                  .clock = of->decided,
                                  .index = w->seat[seat].heard});
}

static void answer_tick(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    if (!of->awaits_tick || of->has_ended) return;
    of->awaits_tick = false;
    step_send(w, (struct message){.kind = TICKED,
                                  .from = seat,
                                  .to = step_end_of_worker(w, worker),
                                  .clock = of->decided});
}

static void answer_wish(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    const int to = step_end_of_worker(w, worker);
    of->asks = false;
    step_send(w,
              (struct message){.kind = ANSWERED, .from = seat, .to = to, .round = of->asks_round});
}

static void end_round(struct world *w, int seat, const struct step_entry *end)
{
    story_tell(&w->story, "seat %d ends round %llu (%d)", seat, (unsigned long long)end->round,
               end->kind);
    step_judge_round(w, seat, end);
    step_strike(w, seat, STEP_CHANGED);
    for (int i = 0; i < w->workers; i++)
        if (w->seat[seat].of[i].asks && w->seat[seat].of[i].asks_round == end->round)
            answer_wish(w, seat, i);
}

static void wish(struct world *w, int seat, int worker, const struct message *message)
{
    struct seen *const of = &w->seat[seat].of[worker];
    of->asks = true;
    of->asks_round = message->round;
    switch (step_leader_wish(&w->seat[seat].leader, worker, message->round, &message->rule)) {
    case WORKER_CLOCK_NEW: break;
    case WORKER_CLOCK_KNOWN: answer_wish(w, seat, worker); break;
    case WORKER_CLOCK_REFUSED:
        if (w->seat[seat].leader.workers[worker].state != WORKER_GONE)
            story_fail(&w->story, "seat %d does not know of the end of round %llu", seat,
                       (unsigned long long)message->round - 1);
        break;
    }
}

static void drop(struct seen *of)
{
    of->open = of->ended = 0;
    of->has_ended = of->awaits_tick = of->awaits_pull = of->awaits_probe = false;
    of->queued = 0;
    of->is_gone = true;
}

static void go_on_with(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    const int count = of->queued;
    struct message queue[QUEUE_MAX];
    memcpy(queue, of->queue, sizeof queue);
    of->queued = 0;
    for (int i = 0; i < count; i++) hear_request(w, seat, &queue[i]);
}

void step_answer_waiting(struct world *w, int seat, int worker)
{
    if (step_has_clock(w, seat)) answer_tick(w, seat, worker);
    answer_pull(w, seat, worker);
    if (!w->seat[seat].of[worker].has_ended) go_on_with(w, seat, worker);
}

/* Of a member: applied here, or, before this spare has joined, in the tables that will be copied to it. */
static void take_update(struct world *w, int seat, int worker)
{
    struct step_sim_seat *const own = &w->seat[seat];
    struct seen *const of = &own->of[worker];
    const bool counts = seat_map_counts(&own->map, seat);
    if (counts) step_judge_update(w, seat, worker);
    of->decided++;
    if (counts || of->ticked <= of->decided) of->has_ended = false;
}

/* Where the worker is to push, and from which clock on. */
static void answer_entry(struct world *w, int seat, int worker)
{
    const struct seat_map *const map = &w->seat[seat].map;
    struct seen *const of = &w->seat[seat].of[worker];
    struct message message = {.kind = ENTERED,
                              .from = seat,
                              .to = step_end_of_worker(w, worker),
                              .clock = of->first,
                              .round = of->rounds,
                              .words = calloc(WORDS_MAX, sizeof *message.words)};
    if (message.words == NULL) abort();
    for (int s = 0; s < w->seats; s++)
        message.words[s] = seat_map_counts(map, s) ? (uint64_t)map->seats[s].share + 1 : 0;
    step_send(w, message);
}

/* A worker has come. */
static void let_in(struct world *w, int seat, const struct step_entry *entry)
{
    struct step_sim_seat *const own = &w->seat[seat];
    const int worker = (int)entry->number;
    struct seen *const of = &own->of[worker];
    if (of->is_in) story_fail(&w->story, "seat %d lets worker %d in again", seat, worker);
    of->is_in = true;
    of->first = entry->left_count;
    of->rounds = entry->round;
    of->decided = w->bug == STEP_BUG_FIRST_CLOCK ? 0 : of->first;
    if (seat_map_counts(&own->map, seat))
        of->ticked = of->decided;
    else if (of->is_linked && !of->is_gone)
        step_invite(w, seat, worker);
    go_on_with(w, seat, worker);
}

void step_link(struct world *w, int seat, int worker)
{
    struct step_sim_seat *const own = &w->seat[seat];
    struct seen *const of = &own->of[worker];
    if (own->is_broken || of->is_gone) {
        step_close_line(w, seat, step_end_of_worker(w, worker));
        return;
    }
    of->is_linked = true;
    if (w->lines[step_end_of_worker(w, worker)][seat].is_over) {
        step_lose(w, seat, step_end_of_worker(w, worker));
    } else {
        step_tell_clocks(w, seat, (struct message){.kind = LINKED, .worker = worker});
        if (own->map.seats[seat].state == SEAT_INVITED && of->is_in && !of->is_invited)
            step_invite(w, seat, worker);
    }
    step_act(w, seat);
}

static void carry_out(struct world *w, int seat, const struct step_entry *entry, uint64_t members)
{
    struct step_sim_seat *const own = &w->seat[seat];
    story_tell(&w->story, "seat %d carries out entry %llu (%d, %llu, %llu)", seat,
               (unsigned long long)entry->index, entry->kind, (unsigned long long)entry->number,
               (unsigned long long)members);
    if (entry->index != own->heard + 1 && w->bug != STEP_BUG_RESUME_BEHIND)
        story_fail(&w->story, "seat %d carries out entry %llu after %llu", seat,
                   (unsigned long long)entry->index, (unsigned long long)own->heard);
    own->heard = entry->index;
    step_judge_entry(w, seat, entry, members);
    if (entry->kind == STEP_LOST) drop(&own->of[entry->number]);
    if (entry->kind == STEP_CAME) let_in(w, seat, entry);
    step_move_seat(w, seat, entry);
    if (step_has_clock(w, seat)) step_strike(w, seat, entry->kind);
    if (entry->kind != STEP_DECIDED) return;
    own->steps++;
    for (int i = 0; i < w->workers; i++)
        if (members >> i & 1) take_update(w, seat, i);
    for (int i = 0; i < w->workers; i++) step_answer_waiting(w, seat, i);
}

/* The wishes of this seat's clock. */
void step_act(struct world *w, int seat)
{
    struct step_sim_seat *const own = &w->seat[seat];
    if (own->is_broken) return;
    if (!step_has_clock(w, seat)) {
        step_copy_on(w, seat, false);
        return;
    }
    if (w->bug == STEP_BUG_HASTY && own->leader.role == STEP_WAITS)
        for (int s = 0; s < w->seats; s++)
            (void)step_leader_resume(&own->leader, s, own->leader.lost, own->leader.agreed);
    for (;;) {
        const struct step_action action = step_leader_next(&own->leader);
        const uint64_t members = action.entry.members == NULL ? 0 : action.entry.members[0];
        const bool is_round = action.entry.index == 0;
        struct message message = {.from = seat,
                                  .to = action.seat,
                                  .entry = action.entry,
                                  .index = action.entry.index,
                                  .round = action.entry.round,
                                  .members = members};
        if (seat != 0 && own->leader.role == STEP_LEADS) w->has_taken_over = true;
        switch (action.kind) {
        case STEP_NOTHING: step_copy_on(w, seat, false); return;
        case STEP_GIVE_BASE:
            message.kind = BASE;
            message.words = calloc(WORDS_MAX, sizeof *message.words);
            if (message.words == NULL) abort();
            step_leader_base(&own->leader, message.words);
            step_send(w, message);
            break;
        case STEP_TELL:
            message.kind = ENTRY;
            step_send(w, message);
            w->report->resumed += seat != 0 && action.entry.index <= own->heard;
            if ((w->bug == STEP_BUG_UNCONFIRMED && action.seat == own->leader.standby) ||
                (w->bug == STEP_BUG_RULE_ALONE && is_round))
                step_leader_confirm(&own->leader, action.entry.index, action.entry.round);
            break;
        case STEP_CONFIRM:
            message.kind = CONFIRM;
            if (w->bug != STEP_BUG_EARLY_CONFIRM || is_round) step_send(w, message);
            break;
        case STEP_CARRY_OUT:
            if (is_round)
                end_round(w, seat, &action.entry);
            else
                carry_out(w, seat, &action.entry, members);
            break;
        }
        if (w->story.has_failed) return;
    }
}

static void end_clock(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    const uint64_t clock = of->ticked++;
    of->ended = of->open;
    of->open = 0;
    of->has_ended = clock >= of->decided; /* otherwise the copy has it */
    of->awaits_tick = step_has_clock(w, seat);
    if (of->has_ended)
        step_tell_clocks(w, seat, (struct message){.kind = HAS, .worker = worker, .clock = clock});
    else
        step_answer_waiting(w, seat, worker);
}

static void hear_request(struct world *w, int seat, const struct message *message)
{
    const int worker = message->from - w->seats;
    struct seen *const of = &w->seat[seat].of[worker];
    if (of->is_gone || w->seat[seat].is_broken) return;
    const bool is_early = (!of->is_in && message->kind != LEAVE) ||
                          (message->kind == WISH && w->bug != STEP_BUG_EARLY_WISH &&
                           step_leader_is_early(&w->seat[seat].leader, message->round));
    if (of->queued > 0 || (message->kind == TICK && of->has_ended) || is_early) {
        if (of->queued < QUEUE_MAX)
            of->queue[of->queued++] = *message;
        else
            story_fail(&w->story, "too many requests wait");
        return;
    }
    switch (message->kind) {
    case PUSH:
        if (message->clock != of->ticked) story_fail(&w->story, "a push of another clock");
        of->open |= 1u << message->push;
        step_send(w, (struct message){.kind = ACK,
                                      .from = seat,
                                      .to = message->from,
                                      .push = message->push,
                                      .clock = message->clock});
        break;
    case TICK:
        of->asks = false;
        end_clock(w, seat, worker);
        break;
    case WISH: wish(w, seat, worker, message); break;
    case BEGIN: step_take_begin(w, seat, worker, message->clock); break;
    case ENTER: answer_entry(w, seat, worker); break;
    case PROBE:
        of->awaits_probe = true;
        of->probe_clock = message->clock;
        answer_pull(w, seat, worker);
        break;
    case PULL:
        of->awaits_pull = true;
        of->pull_clock = message->clock;
        answer_pull(w, seat, worker);
        break;
    default: /* LEAVE */
        of->is_gone = of->has_left = true;
        if (step_has_clock(w, seat)) step_leader_report(&w->seat[seat].leader, worker, true);
        break;
    }
}

/* A leader that had lost this seat has decided without it, and is dead before all have heard of that. */
static bool lacks_update(const struct world *w, int seat, const struct step_entry *entry,
                         uint64_t members)
{
    for (int i = 0; i < w->workers && entry->kind == STEP_DECIDED; i++)
        if ((members >> i & 1) && !w->seat[seat].of[i].has_ended) return w->was_cut[seat];
    return false;
}

static void hear_entry(struct world *w, int seat, const struct message *message)
{
    struct step_sim_seat *const own = &w->seat[seat];
    struct step_entry entry = message->entry;
    entry.members = &message->members;
    if (!step_has_clock(w, seat)) {
        if (entry.index <= own->heard && w->bug != STEP_BUG_RESUME_BEHIND) return;
        if (lacks_update(w, seat, &entry, message->members))
            step_stop(w, seat, false);
        else
            carry_out(w, seat, &entry, message->members);
        return;
    }
    if (w->bug == STEP_BUG_EARLY_CONFIRM && entry.index > 0 && seat == w->shares) {
        struct step_entry early = own->early.entry;
        early.members = &own->early.members;
        if (own->has_early) (void)step_leader_hear(&own->leader, &early);
        own->has_early = true;
        own->early = *message;
        step_send(w, (struct message){.kind = CONFIRM,
                                      .from = seat,
                                      .to = message->from,
                                      .index = message->entry.index});
    } else if (!step_leader_hear(&own->leader, &entry)) {
        step_stop(w, seat, false);
    }
}

/* The leader says so to all that have lines to that seat. */
static void tell_gone(struct world *w, int seat, int gone, bool had_clock)
{
    for (int s = 0; s < w->seats; s++)
        if (s != seat && s != gone && (had_clock || s == w->seat[seat].leader.standby) &&
            w->bug != STEP_BUG_NO_GONE)
            step_send(
                w, (struct message){.kind = GONE, .from = seat, .to = s, .index = (uint64_t)gone});
}

bool step_resume_without(struct world *w, int seat, int lost)
{
    const struct step_sim_seat *const own = &w->seat[seat];
    const uint64_t behind = w->bug == STEP_BUG_RESUME_BEHIND && own->heard > 0;
    bool has_any = false;
    for (int s = 0; s < w->seats; s++) {
        if (s == seat || s == lost || !seat_map_has_clock(&own->map, s) || w->lines[s][seat].is_over)
            continue;
        has_any = true;
        step_send(w, (struct message){.kind = RESUME,
                                      .from = seat,
                                      .to = s,
                                      .worker = lost,
                                      .index = own->heard - behind});
    }
    return has_any;
}

static void lose_worker(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    if (of->is_gone || !of->is_linked) return;
    of->is_gone = true;
    w->report->refused += !of->is_in;
    if (w->bug == STEP_BUG_NO_FAREWELL && !of->is_in) return;
    if (w->bug == STEP_BUG_DROPS_EARLY) of->has_ended = false;
    step_tell_clocks(w, seat, (struct message){.kind = LOST, .worker = worker});
}

static void lose_seat_of_clock(struct world *w, int seat, int other)
{
    struct step_sim_seat *const own = &w->seat[seat];
    const bool had_clock = seat_map_has_clock(&own->map, other);
    if (w->bug == STEP_BUG_WAITS_FOR_DEAD && !had_clock) return;
    const bool puts_out = step_leader_puts_out(&own->leader);
    if (!step_leader_gone(&own->leader, other))
        step_stop(w, seat, true);
    else if (puts_out)
        tell_gone(w, seat, other, had_clock);
}

void step_lose(struct world *w, int seat, int other)
{
    struct step_sim_seat *const own = &w->seat[seat];
    if (own->is_broken) return;
    if (other >= w->seats) {
        lose_worker(w, seat, other - w->seats);
        return;
    }
    if (own->fill_to == other) own->fill_to = -1;
    if (step_has_clock(w, seat))
        lose_seat_of_clock(w, seat, other);
    else if (own->fill.is_filling && own->fill.source == other)
        step_stop(w, seat, false);
    else if (seat_map_hears(&own->map, seat) && seat_map_has_clock(&own->map, other) &&
             !step_resume_without(w, seat, other))
        step_stop(w, seat, false);
}

static void hear_gone(struct world *w, int seat, int gone)
{
    if (gone == seat || w->lines[gone][seat].is_over) return;
    step_close_line(w, seat, gone);
    step_lose(w, seat, gone);
}

static void hear_resume(struct world *w, int seat, const struct message *message)
{
    struct step_leader *const leader = &w->seat[seat].leader;
    switch (step_leader_resume(leader, message->from, message->worker, message->index)) {
    case STEP_RESUMED: break;
    case STEP_PUT_OUT: hear_gone(w, seat, message->from); break;
    case STEP_CANNOT: step_stop(w, seat, true); break;
    }
}

static void hear(struct world *w, int seat, const struct message *message)
{
    struct step_sim_seat *const own = &w->seat[seat];
    const bool is_for_clock = message->kind == HAS || message->kind == LOST ||
                              message->kind == LINKED || message->kind == BEGUN ||
                              message->kind == FILLED || message->kind == CONFIRM ||
                              message->kind == RESUME;
    if (is_for_clock && !step_has_clock(w, seat))
        return; /* as it was said to a seat that was not lost yet */
    switch (message->kind) {
    case HAS:
        if (!step_leader_has(&own->leader, message->from, message->worker, message->clock))
            story_fail(&w->story, "seat %d has a clock that cannot be", message->from);
        break;
    case LOST: step_leader_report(&own->leader, message->worker, message->push != 0); break;
    case LINKED:
        for (int s = 0; s < w->seats; s++)
            if (s == message->from || w->bug == STEP_BUG_HASTY_ENTRY)
                step_leader_linked(&own->leader, s, message->worker);
        break;
    case BEGUN:
        step_leader_begun(&own->leader, message->from, message->worker, message->clock);
        break;
    case FILLED: step_leader_filled(&own->leader, message->from); break;
    case ENTRY: hear_entry(w, seat, message); break;
    case CONFIRM: step_leader_confirm(&own->leader, message->index, message->round); break;
    case RESUME: hear_resume(w, seat, message); break;
    case BASE: step_take_base(w, seat, message); break;
    case PIECE: step_take_piece(w, seat, message); break;
    case FAIL: step_stop(w, seat, true); break;
    case GONE: hear_gone(w, seat, (int)message->index); break;
    default: hear_request(w, seat, message); break;
    }
    step_act(w, seat);
}

/* A spare hears that it is to have the clock, from a seat that has lost the only other seat that had it. If this one
 * has lost that, too, and without its base, nobody has the clock. */
static bool has_no_base(const struct world *w, int seat, const struct message *message)
{
    const struct step_sim_seat *const own = &w->seat[seat];
    return message->kind == RESUME && own->map.seats[seat].state == SEAT_SPARE &&
           w->lines[message->worker][seat].is_over;
}

void step_stop_without_base(struct world *w, int seat)
{
    const struct step_sim_seat *const own = &w->seat[seat];
    for (int i = 0; i < own->held_count; i++)
        if (has_no_base(w, seat, &w->messages[own->held[i]])) step_stop(w, seat, false);
}

/* Messages of one seat keep their order. */
static bool is_behind_held(const struct world *w, int seat, int from, int count)
{
    for (int i = 0; i < count; i++)
        if (w->messages[w->seat[seat].held[i]].from == from) return true;
    return false;
}

static bool hear_held(struct world *w, int seat)
{
    struct step_sim_seat *const own = &w->seat[seat];
    for (int i = 0; i < own->held_count; i++) {
        const struct message *const message = &w->messages[own->held[i]];
        if (is_behind_held(w, seat, message->from, i) || step_must_wait(w, seat, message)) continue;
        own->held_count--;
        memmove(&own->held[i], &own->held[i + 1], (size_t)(own->held_count - i) * sizeof *own->held);
        hear(w, seat, message);
        return true;
    }
    return false;
}

void step_hear_at_seat(struct world *w, int seat, int index)
{
    struct step_sim_seat *const own = &w->seat[seat];
    const struct message *const message = &w->messages[index];
    if (own->is_broken) return;
    if (message->kind == PIECE) seat_fill_name(&own->fill, message->index);
    const bool is_urgent = message->kind == FAIL || message->kind == GONE || message->kind == BASE;
    if (message->from < w->seats && !is_urgent &&
        (step_must_wait(w, seat, message) ||
         is_behind_held(w, seat, message->from, own->held_count))) {
        if (own->held_count < HELD_MAX)
            own->held[own->held_count++] = index;
        else
            story_fail(&w->story, "too many messages wait");
    } else {
        hear(w, seat, message);
    }
    while (!own->is_broken && !w->story.has_failed && hear_held(w, seat)) continue;
    step_stop_without_base(w, seat);
}
