#include "tests/sim/step_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "membership/rank_set.h"
#include "membership/step_leader.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_story.h"

enum {
    SHARES_MAX = 4,
    SEATS_MAX = 2 * SHARES_MAX,
    WORKERS_MAX = 5,
    ENDS_MAX = SEATS_MAX + WORKERS_MAX
};
enum { CLOCKS_MAX = 6, PUSHES_MAX = 2, ENTRIES_MAX = 256, EVENTS_MAX = 100000, QUEUE_MAX = 16 };
enum { ROUNDS_MAX = CLOCKS_MAX + 1 };
enum { DELIVER = 1, ENDED, COMPUTED, CRASH, CUT, GIVE_UP };

#define MILLISECOND UINT64_C(1000000)

/* Messages: of workers and to them; between seats. */
enum { PUSH, TICK, PULL, WISH, LEAVE, ACK, TICKED, VALUES, ANSWERED, FAIL };
enum { HAS = FAIL + 1, LOST, ENTRY, CONFIRM, RESUME, GONE };

struct message {
    int kind;
    int from, to; /* ends: seats, then workers */
    int worker;
    uint64_t clock, push, index, round;
    struct worker_clock_rule rule;
    struct step_entry entry;
    uint64_t members;
};

struct line { /* from one end to another */
    uint64_t last_at, cut_at;
    bool is_over; /* its reader has heard of the end */
};

/* A worker as one seat sees it. */
struct seen {
    unsigned open, ended; /* pushes, a bit each */
    bool has_ended, is_gone, awaits_tick, awaits_pull, asks;
    uint64_t asks_round;
    uint64_t ticked, decided, pull_clock;
    struct message queue[QUEUE_MAX]; /* behind a tick that came before its step */
    int queued;
    unsigned applied[CLOCKS_MAX];
};

struct seat {
    struct step_leader leader; /* of seats with a clock */
    uint64_t heard, steps;
    bool is_broken, leader_is_gone;
    struct seen of[WORKERS_MAX];
    struct message early; /* the planted bug: to be kept later */
    bool has_early;
};

enum role { COMPUTES, AWAITS_TICK, AWAITS_PULL, AWAITS_RULE, IS_DONE, HAS_FAILED };

struct worker {
    enum role role;
    uint64_t clock;
    unsigned pushed[CLOCKS_MAX]; /* pushes of each clock that it made */
    uint64_t acks_missing[PUSHES_MAX];
    uint64_t ticks_missing, answers_missing; /* seats, a bit each */
    uint64_t rounds;                         /* of wishes that were answered */
    bool was_answered;
    int pull_share, pulls_from;
};

struct world {
    struct sim *sim;
    struct sim_story story;
    struct step_sim_report *report;
    enum step_bug bug;
    int shares, seats, workers;
    uint64_t clocks;
    struct line lines[ENDS_MAX][ENDS_MAX];
    struct seat seat[SEATS_MAX];
    struct worker worker[WORKERS_MAX];
    struct message *messages;
    int message_count;
    struct {
        bool is_known;
        enum step_entry_kind kind;
        uint64_t number, members;
    } canon[ENTRIES_MAX];
    struct step_entry rounds[ROUNDS_MAX]; /* how each ended; DECIDED: it has not */
    bool wishes;                          /* workers ask for other rules in this schedule */
    bool has_taken_over;
    bool was_cut[SEATS_MAX]; /* from the leader, while both lived */
};

/* Seat r * shares + p lies on server (p + r) % shares. */
static int node_of(const struct world *w, int end)
{
    if (end >= w->seats) return w->shares + end - w->seats;
    return (end % w->shares + end / w->shares) % w->shares;
}

static bool is_up(const struct world *w, int end)
{
    return sim_is_up(w->sim, node_of(w, end));
}

static bool has_clock(const struct world *w, int seat)
{
    return step_seat_has_clock(seat, w->shares);
}

static int end_of_worker(const struct world *w, int worker)
{
    return w->seats + worker;
}

/* ---------------------------------------------------------------------------------------- lines */

static void send(struct world *w, struct message message)
{
    struct line *const line = &w->lines[message.from][message.to];
    if (!is_up(w, message.from) || line->is_over || line->cut_at != 0) return;
    uint64_t at = sim_now_ns(w->sim) + sim_between(w->sim, 1, MILLISECOND);
    if (sim_chance(w->sim, 50)) at += sim_between(w->sim, 1, 20 * MILLISECOND);
    if (at <= line->last_at) at = line->last_at + 1;
    line->last_at = at;
    if (w->message_count == EVENTS_MAX) {
        story_fail(&w->story, "too many messages");
        return;
    }
    message.entry.members = NULL;
    w->messages[w->message_count] = message;
    sim_at(w->sim, at, DELIVER, node_of(w, message.to), w->message_count++, 0);
}

/* The line loses some last messages, and its reader hears of it later. */
static void end_line(struct world *w, int from, int to)
{
    struct line *const line = &w->lines[from][to];
    const uint64_t now = sim_now_ns(w->sim), last = line->last_at > now ? line->last_at : now;
    if (line->cut_at != 0 || line->is_over) return;
    line->cut_at = sim_between(w->sim, now, last + 1);
    line->last_at = line->cut_at + sim_between(w->sim, 1, 10 * MILLISECOND);
    sim_at(w->sim, line->last_at, ENDED, node_of(w, to), from, to);
}

static void end_lines(struct world *w, int dead)
{
    for (int to = 0; to < w->seats + w->workers; to++) end_line(w, dead, to);
}

/* Both ways; an end that closes it hears of nothing. */
static void close_line(struct world *w, int one, int other)
{
    end_line(w, one, other);
    w->lines[other][one].is_over = true;
}

/* While both ends live. */
static void cut(struct world *w, int one, int other)
{
    if (!is_up(w, one) || !is_up(w, other)) return;
    w->report->cut++;
    end_line(w, one, other);
    end_line(w, other, one);
}

static void crash(struct world *w, int node)
{
    if (!sim_is_up(w->sim, node)) return;
    w->report->servers_died += node < w->shares;
    w->report->workers_died += node >= w->shares;
    for (int end = 0; end < w->seats + w->workers; end++)
        if (node_of(w, end) == node) end_lines(w, end);
    sim_crash(w->sim, node);
}

/* ------------------------------------------------------------------------------------ the judge */

static void judge_entry(struct world *w, int seat, const struct step_entry *entry, uint64_t members)
{
    if (entry->index >= ENTRIES_MAX) {
        story_fail(&w->story, "too many entries");
        return;
    }
    if (!w->canon[entry->index].is_known) {
        w->canon[entry->index].is_known = true;
        w->canon[entry->index].kind = entry->kind;
        w->canon[entry->index].number = entry->number;
        w->canon[entry->index].members = members;
        w->report->entries++;
        w->report->steps += entry->kind == STEP_DECIDED;
    } else if (w->canon[entry->index].kind != entry->kind ||
               w->canon[entry->index].number != entry->number ||
               w->canon[entry->index].members != members) {
        story_fail(&w->story, "seat %d carries out another entry %llu", seat,
                   (unsigned long long)entry->index);
    }
}

/* A seat carries out the end of a round of wishes: no worker takes part in more than ROUNDS_MAX. */
static void judge_round(struct world *w, int seat, const struct step_entry *end)
{
    struct step_entry *const first = &w->rounds[end->round % ROUNDS_MAX];
    if (first->kind == STEP_DECIDED) {
        *first = *end;
        w->report->changed += end->kind == STEP_CHANGED;
        w->report->kept += end->kind == STEP_KEPT;
    }
    if (first->kind != end->kind || first->number != end->number ||
        first->left_count != end->left_count)
        story_fail(&w->story, "seat %d ends round %llu otherwise", seat,
                   (unsigned long long)end->round);
}

static void judge_update(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    const uint64_t clock = of->decided;
    if (!of->has_ended)
        story_fail(&w->story, "seat %d lacks the update of worker %d for a step", seat, worker);
    else if (of->ended != w->worker[worker].pushed[clock])
        story_fail(&w->story, "seat %d has a part of update %llu of worker %d", seat,
                   (unsigned long long)clock, worker);
    else if (of->applied[clock] != 0)
        story_fail(&w->story, "seat %d applies update %llu of worker %d again", seat,
                   (unsigned long long)clock, worker);
    of->applied[clock] = of->ended;
    w->report->updates++;
}

/* The worker got values of a seat with so many steps. */
static void judge_values(struct world *w, int worker, const struct message *message)
{
    const struct worker *const own = &w->worker[worker];
    if (message->clock < own->clock)
        story_fail(&w->story, "worker %d pulled values of clock %llu in clock %llu", worker,
                   (unsigned long long)message->clock, (unsigned long long)own->clock);
    if (message->index > 0 && !w->canon[message->index].is_known)
        story_fail(&w->story, "worker %d pulled an entry that nobody carried out", worker);
}

/* ------------------------------------------------------------------------------------ the seats */

static void hear_request(struct world *w, int seat, const struct message *message);
static void act(struct world *w, int seat);

/* A share is lost: workers and other seats are told. Otherwise the seat's lines end, so that workers go
 * on with the other seat of its share. */
static void stop(struct world *w, int seat, bool is_everywhere)
{
    struct seat *const own = &w->seat[seat];
    if (own->is_broken) return;
    own->is_broken = true;
    story_tell(&w->story, "seat %d stops", seat);
    for (int i = 0; i < w->workers; i++)
        if (is_everywhere)
            send(w, (struct message){.kind = FAIL, .from = seat, .to = end_of_worker(w, i)});
        else
            close_line(w, seat, end_of_worker(w, i));
    for (int s = 0; s < w->seats; s++)
        if (s != seat && (has_clock(w, s) || has_clock(w, seat))) {
            if (is_everywhere) send(w, (struct message){.kind = FAIL, .from = seat, .to = s});
            if (!is_everywhere) close_line(w, seat, s);
        }
}

/* Of an update, or of a worker that died: to both seats that have a clock. */
static void tell_clocks(struct world *w, int seat, struct message message)
{
    const bool once = (w->bug == STEP_BUG_HAS_ONCE && message.kind == HAS) ||
                      (w->bug == STEP_BUG_LOST_ONCE && message.kind == LOST);
    message.from = seat;
    for (int s = 0; s < w->seats; s += w->shares) {
        message.to = s;
        if (once && s != 0) continue;
        if (s != seat) {
            send(w, message);
        } else if (message.kind == HAS) {
            (void)step_leader_has(&w->seat[s].leader, seat, message.worker, message.clock);
        } else {
            step_leader_report(&w->seat[s].leader, message.worker, message.push != 0);
        }
    }
}

static void answer_pull(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    if (!of->awaits_pull || (of->decided < of->pull_clock && w->bug != STEP_BUG_EARLY_PULL)) return;
    of->awaits_pull = false;
    send(w, (struct message){.kind = VALUES,
                             .from = seat,
                             .to = end_of_worker(w, worker),
                             .clock = of->decided,
                             .index = w->seat[seat].heard});
}

static void answer_tick(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    if (!of->awaits_tick || of->has_ended) return;
    of->awaits_tick = false;
    send(w, (struct message){
                .kind = TICKED, .from = seat, .to = end_of_worker(w, worker), .clock = of->decided});
}

static void answer_wish(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    const int to = end_of_worker(w, worker);
    of->asks = false;
    send(w, (struct message){.kind = ANSWERED, .from = seat, .to = to, .round = of->asks_round});
}

static void end_round(struct world *w, int seat, const struct step_entry *end)
{
    story_tell(&w->story, "seat %d ends round %llu (%d)", seat, (unsigned long long)end->round,
               end->kind);
    judge_round(w, seat, end);
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
    of->has_ended = of->awaits_tick = of->awaits_pull = false;
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

static void carry_out(struct world *w, int seat, const struct step_entry *entry, uint64_t members)
{
    struct seat *const own = &w->seat[seat];
    story_tell(&w->story, "seat %d carries out entry %llu (%d, %llu)", seat,
               (unsigned long long)entry->index, entry->kind, (unsigned long long)members);
    if (entry->index != own->heard + 1 && w->bug != STEP_BUG_RESUME_BEHIND)
        story_fail(&w->story, "seat %d carries out entry %llu after %llu", seat,
                   (unsigned long long)entry->index, (unsigned long long)own->heard);
    own->heard = entry->index;
    judge_entry(w, seat, entry, members);
    if (entry->kind == STEP_LOST) drop(&own->of[entry->number]);
    if (entry->kind != STEP_DECIDED) return;
    own->steps++;
    for (int i = 0; i < w->workers; i++)
        if (members >> i & 1) {
            judge_update(w, seat, i);
            own->of[i].has_ended = false;
            own->of[i].decided++;
        }
    for (int i = 0; i < w->workers; i++) {
        if (has_clock(w, seat)) answer_tick(w, seat, i);
        answer_pull(w, seat, i);
        if (members >> i & 1) go_on_with(w, seat, i);
    }
}

/* The wishes of this seat's clock. */
static void act(struct world *w, int seat)
{
    struct seat *const own = &w->seat[seat];
    if (!has_clock(w, seat) || own->is_broken) return;
    if (w->bug == STEP_BUG_HASTY && own->leader.role == STEP_WAITS)
        for (int s = 0; s < w->seats; s++)
            (void)step_leader_resume(&own->leader, s, own->leader.agreed);
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
        case STEP_NOTHING: return;
        case STEP_TELL:
            message.kind = ENTRY;
            send(w, message);
            w->report->resumed += seat != 0 && action.entry.index <= own->heard;
            if ((w->bug == STEP_BUG_UNCONFIRMED && action.seat == w->shares) ||
                (w->bug == STEP_BUG_RULE_ALONE && is_round))
                step_leader_confirm(&own->leader, action.entry.index, action.entry.round);
            break;
        case STEP_CONFIRM:
            message.kind = CONFIRM;
            if (w->bug != STEP_BUG_EARLY_CONFIRM || is_round) send(w, message);
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
    of->ended = of->open;
    of->open = 0;
    of->has_ended = true;
    of->awaits_tick = has_clock(w, seat);
    tell_clocks(w, seat, (struct message){.kind = HAS, .worker = worker, .clock = of->ticked++});
}

static void hear_request(struct world *w, int seat, const struct message *message)
{
    const int worker = message->from - w->seats;
    struct seen *const of = &w->seat[seat].of[worker];
    if (of->is_gone || w->seat[seat].is_broken) return;
    if (of->queued > 0 || (message->kind == TICK && of->has_ended)) {
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
        send(w, (struct message){.kind = ACK,
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
    case PULL:
        of->awaits_pull = true;
        of->pull_clock = message->clock;
        answer_pull(w, seat, worker);
        break;
    default: /* LEAVE */
        of->is_gone = true;
        if (has_clock(w, seat)) step_leader_report(&w->seat[seat].leader, worker, true);
        break;
    }
}

/* A leader that had lost this seat has decided without it, and is dead before all have heard of that. */
static bool lacks_update(const struct world *w, int seat, const struct step_entry *entry,
                         uint64_t members)
{
    const bool was_cut = w->lines[0][seat].is_over && w->was_cut[seat];
    for (int i = 0; i < w->workers && entry->kind == STEP_DECIDED; i++)
        if ((members >> i & 1) && !w->seat[seat].of[i].has_ended) return was_cut;
    return false;
}

static void hear_entry(struct world *w, int seat, const struct message *message)
{
    struct seat *const own = &w->seat[seat];
    struct step_entry entry = message->entry;
    entry.members = &message->members;
    if (!has_clock(w, seat)) {
        if (entry.index <= own->heard && w->bug != STEP_BUG_RESUME_BEHIND) return;
        if (lacks_update(w, seat, &entry, message->members))
            stop(w, seat, false);
        else
            carry_out(w, seat, &entry, message->members);
        return;
    }
    if (w->bug == STEP_BUG_EARLY_CONFIRM && entry.index > 0) {
        struct step_entry early = own->early.entry;
        early.members = &own->early.members;
        if (own->has_early) (void)step_leader_hear(&own->leader, &early);
        own->has_early = true;
        own->early = *message;
        send(w, (struct message){
                    .kind = CONFIRM, .from = seat, .to = 0, .index = message->entry.index});
    } else if (!step_leader_hear(&own->leader, &entry)) {
        stop(w, seat, false);
    }
}

/* The leader says so to all that have lines to that seat. */
static void tell_gone(struct world *w, int gone)
{
    for (int s = 0; s < w->seats; s++)
        if (s != 0 && s != gone && (s == w->shares || gone == w->shares) &&
            w->bug != STEP_BUG_NO_GONE)
            send(w, (struct message){.kind = GONE, .from = 0, .to = s, .index = (uint64_t)gone});
}

/* An end of a line that this seat had. */
static void lose(struct world *w, int seat, int other)
{
    struct seat *const own = &w->seat[seat];
    if (other >= w->seats) {
        struct seen *const of = &own->of[other - w->seats];
        if (of->is_gone) return;
        of->is_gone = true;
        if (w->bug == STEP_BUG_DROPS_EARLY) of->has_ended = false;
        tell_clocks(w, seat, (struct message){.kind = LOST, .worker = other - w->seats});
    } else if (has_clock(w, seat)) {
        const bool forgets = w->bug == STEP_BUG_WAITS_FOR_DEAD && !has_clock(w, other);
        if (forgets) return;
        if (!step_leader_gone(&own->leader, other))
            stop(w, seat, true);
        else if (seat == 0)
            tell_gone(w, other);
    } else if (has_clock(w, other)) {
        const bool both = w->lines[0][seat].is_over && w->lines[w->shares][seat].is_over;
        const uint64_t behind = w->bug == STEP_BUG_RESUME_BEHIND && own->heard > 0;
        if (both)
            stop(w, seat, false);
        else
            send(w, (struct message){.kind = RESUME,
                                     .from = seat,
                                     .to = other == 0 ? w->shares : 0,
                                     .index = own->heard - behind});
    }
}

static void hear_at_seat(struct world *w, int seat, const struct message *message)
{
    struct seat *const own = &w->seat[seat];
    if (own->is_broken) return;
    switch (message->kind) {
    case HAS:
        if (!step_leader_has(&own->leader, message->from, message->worker, message->clock))
            story_fail(&w->story, "seat %d has a clock that cannot be", message->from);
        break;
    case LOST: step_leader_report(&own->leader, message->worker, false); break;
    case ENTRY: hear_entry(w, seat, message); break;
    case CONFIRM: step_leader_confirm(&own->leader, message->index, message->round); break;
    case RESUME:
        if (!step_leader_resume(&own->leader, message->from, message->index)) stop(w, seat, true);
        break;
    case FAIL: stop(w, seat, true); break;
    case GONE: {
        const int gone = (int)message->index;
        if (w->lines[gone][seat].is_over) break;
        close_line(w, seat, gone);
        lose(w, seat, gone);
        break;
    }
    default: hear_request(w, seat, message); break;
    }
    act(w, seat);
}

/* ---------------------------------------------------------------------------------- the workers */

static bool has_line(const struct world *w, int worker, int seat)
{
    return !w->lines[seat][end_of_worker(w, worker)].is_over;
}

static void send_all(struct world *w, int worker, struct message message, uint64_t *missing)
{
    message.from = end_of_worker(w, worker);
    for (int s = 0; s < w->seats; s++) {
        if (!has_line(w, worker, s)) continue;
        if (w->bug == STEP_BUG_HALF_PUSH && message.push == 1 && s >= w->shares) continue;
        message.to = s;
        if (missing != NULL) *missing |= UINT64_C(1) << s;
        send(w, message);
    }
}

static void compute(struct world *w, int worker)
{
    w->worker[worker].role = COMPUTES;
    sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 1, 3 * MILLISECOND), COMPUTED,
           node_of(w, end_of_worker(w, worker)), worker, 0);
}

/* Most workers ask for the same rule. */
static void ask(struct world *w, int worker)
{
    struct worker *const own = &w->worker[worker];
    struct message message = {.kind = WISH,
                              .from = end_of_worker(w, worker),
                              .round = own->rounds,
                              .rule = {sim_chance(w->sim, 150) ? 2
                                       : own->rounds % 2 == 0  ? WORKER_CLOCK_UNBOUNDED
                                                               : 0,
                                       0}};
    own->role = AWAITS_RULE;
    own->answers_missing = 0;
    own->was_answered = false;
    for (message.to = 0; message.to < w->seats; message.to += w->shares) {
        if (!has_line(w, worker, message.to)) continue;
        send(w, message);
        own->answers_missing |= UINT64_C(1) << message.to;
    }
    sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, MILLISECOND, 100 * MILLISECOND),
           GIVE_UP, node_of(w, end_of_worker(w, worker)), worker, (int)own->clock);
}

/* All answers to the wish are there, or it is given up. */
static void go_on_from_wish(struct world *w, int worker, bool gives_up)
{
    struct worker *const own = &w->worker[worker];
    if (own->role != AWAITS_RULE || (own->answers_missing != 0 && !gives_up)) return;
    own->rounds += own->was_answered;
    compute(w, worker);
}

static void pull(struct world *w, int worker)
{
    struct worker *const own = &w->worker[worker];
    own->role = AWAITS_PULL;
    for (own->pulls_from = own->pull_share; own->pulls_from < w->seats; own->pulls_from += w->shares)
        if (has_line(w, worker, own->pulls_from)) break;
    if (own->pulls_from >= w->seats) {
        own->role = HAS_FAILED;
        return;
    }
    w->report->moved += own->pulls_from >= w->shares;
    send(w, (struct message){.kind = PULL,
                             .from = end_of_worker(w, worker),
                             .to = own->pulls_from,
                             .clock = own->clock});
}

static void work(struct world *w, int worker)
{
    struct worker *const own = &w->worker[worker];
    const unsigned pushes = 1 + sim_below(w->sim, PUSHES_MAX);
    if (own->role != COMPUTES) return;
    own->pushed[own->clock] = (1u << pushes) - 1;
    own->ticks_missing = 0;
    memset(own->acks_missing, 0, sizeof own->acks_missing);
    for (unsigned p = 0; p < pushes; p++)
        send_all(w, worker, (struct message){.kind = PUSH, .clock = own->clock, .push = p},
                 &own->acks_missing[p]);
    send_all(w, worker, (struct message){.kind = TICK, .clock = own->clock}, NULL);
    for (int s = 0; s < w->seats; s += w->shares)
        if (has_line(w, worker, s)) own->ticks_missing |= UINT64_C(1) << s;
    own->role = AWAITS_TICK;
}

/* All answers that the tick and the pushes before it wait for are there. */
static void tick_if_done(struct world *w, int worker)
{
    struct worker *const own = &w->worker[worker];
    uint64_t missing = own->ticks_missing;
    for (int p = 0; p < PUSHES_MAX; p++) missing |= own->acks_missing[p];
    if (own->role != AWAITS_TICK || missing != 0) return;
    own->clock++;
    own->pull_share = (int)sim_below(w->sim, (unsigned)w->shares);
    pull(w, worker);
}

static void forget_seat(struct world *w, int worker, int seat)
{
    struct worker *const own = &w->worker[worker];
    const uint64_t bit = UINT64_C(1) << seat;
    own->ticks_missing &= ~bit;
    own->answers_missing &= ~bit;
    for (int p = 0; p < PUSHES_MAX; p++) own->acks_missing[p] &= ~bit;
    if (own->role == IS_DONE || own->role == HAS_FAILED) return;
    bool has_any = false;
    for (int s = seat % w->shares; s < w->seats; s += w->shares) has_any |= has_line(w, worker, s);
    if (!has_any)
        own->role = HAS_FAILED;
    else if (own->role == AWAITS_PULL && own->pulls_from == seat)
        pull(w, worker);
    else if (own->role == AWAITS_RULE)
        go_on_from_wish(w, worker, false);
    else
        tick_if_done(w, worker);
}

static void hear_at_worker(struct world *w, int worker, const struct message *message)
{
    struct worker *const own = &w->worker[worker];
    switch (message->kind) {
    case ACK:
        if (message->clock == own->clock)
            own->acks_missing[message->push] &= ~(UINT64_C(1) << message->from);
        tick_if_done(w, worker);
        break;
    case TICKED:
        own->ticks_missing &= ~(UINT64_C(1) << message->from);
        tick_if_done(w, worker);
        break;
    case VALUES:
        if (own->role != AWAITS_PULL || message->from != own->pulls_from) break;
        judge_values(w, worker, message);
        if (own->clock < w->clocks && w->wishes && own->clock % 2 == 0) {
            ask(w, worker);
            break;
        }
        if (own->clock < w->clocks) {
            compute(w, worker);
            break;
        }
        own->role = IS_DONE;
        send_all(w, worker, (struct message){.kind = LEAVE}, NULL);
        break;
    case ANSWERED:
        if (own->role != AWAITS_RULE || message->round != own->rounds) break;
        own->answers_missing &= ~(UINT64_C(1) << message->from);
        own->was_answered = true;
        go_on_from_wish(w, worker, false);
        break;
    default: /* FAIL */
        w->lines[message->from][end_of_worker(w, worker)].is_over = true;
        forget_seat(w, worker, message->from);
        break;
    }
}

/* ------------------------------------------------------------------------------------ the world */

static void happen(struct world *w, const struct sim_event *event)
{
    switch (event->kind) {
    case DELIVER: {
        const struct message *const message = &w->messages[event->number];
        const struct line *const line = &w->lines[message->from][message->to];
        if (line->is_over || (line->cut_at != 0 && event->at_ns > line->cut_at)) return;
        story_tell(&w->story, "%d to %d: %d, clock %llu, entry %llu", message->from, message->to,
                   message->kind, (unsigned long long)message->clock,
                   (unsigned long long)message->index);
        if (message->to < w->seats)
            hear_at_seat(w, message->to, message);
        else
            hear_at_worker(w, message->to - w->seats, message);
        break;
    }
    case ENDED: /* number: the seat that died; tag: the one that hears of it */
        if (w->lines[event->number][event->tag].is_over) return;
        w->lines[event->number][event->tag].is_over = true;
        story_tell(&w->story, "%d hears that %d is gone", event->tag, event->number);
        if (event->tag >= w->seats) {
            if (event->number < w->seats) forget_seat(w, event->tag - w->seats, event->number);
        } else if (!w->seat[event->tag].is_broken) {
            lose(w, event->tag, event->number);
            act(w, event->tag);
        }
        break;
    case COMPUTED: work(w, event->number); break;
    case GIVE_UP: /* tag: the clock of its wish */
        if (w->worker[event->number].clock == (uint64_t)event->tag)
            go_on_from_wish(w, event->number, true);
        break;
    case CUT:
        if (event->number % w->shares == 0 && event->tag != 0) w->was_cut[event->tag] = true;
        cut(w, event->number, event->tag);
        break;
    default: crash(w, event->number); break;
    }
}

static void set_up_deaths(struct world *w)
{
    const unsigned deaths = sim_below(w->sim, 4);
    uint64_t at = sim_between(w->sim, 1, 40 * MILLISECOND);
    for (unsigned d = 0; d < deaths; d++) {
        const bool is_server = sim_chance(w->sim, 600);
        const int node =
            is_server ? (sim_chance(w->sim, 400) ? (int)sim_below(w->sim, 2)
                                                 : (int)sim_below(w->sim, (unsigned)w->shares))
                      : w->shares + (int)sim_below(w->sim, (unsigned)w->workers);
        sim_at(w->sim, at, CRASH, SIM_NOBODY, node, 0);
        at += sim_chance(w->sim, 500) ? sim_between(w->sim, 1, 2 * MILLISECOND)
                                      : sim_between(w->sim, 1, 30 * MILLISECOND);
    }
}

/* Of a seat with a clock and another one. */
static void set_up_cut(struct world *w)
{
    const int clock = sim_chance(w->sim, 500) ? 0 : w->shares;
    const int other = (clock + 1 + (int)sim_below(w->sim, (unsigned)w->seats - 1)) % w->seats;
    if (sim_chance(w->sim, 250))
        sim_at(w->sim, sim_between(w->sim, 1, 50 * MILLISECOND), CUT, SIM_NOBODY,
               other == 0 ? other : clock, other == 0 ? clock : other);
}

static void set_up(struct world *w)
{
    struct sim *const sim = w->sim;
    w->shares = 2 + (int)sim_below(sim, SHARES_MAX - 1);
    w->seats = 2 * w->shares;
    w->workers = 1 + (int)sim_below(sim, WORKERS_MAX);
    w->clocks = 2 + sim_below(sim, CLOCKS_MAX - 2);
    struct step_leader_config config = {
        .worker_count = w->workers, .share_count = w->shares, .copy_count = 2};
    const unsigned kind = sim_below(sim, 4);
    if (kind == 1) config.rule.staleness = 1;
    if (kind == 2) config.rule.staleness = WORKER_CLOCK_UNBOUNDED;
    if (kind == 3) config.rule.quorum = 1 + (int)sim_below(sim, (unsigned)w->workers);
    w->wishes = sim_chance(sim, 400);
    for (config.seat = 0; config.seat < w->seats; config.seat += w->shares)
        if (!step_leader_init(&w->seat[config.seat].leader, &config)) abort();
    for (int i = 0; i < w->workers; i++) compute(w, i);
    set_up_deaths(w);
    set_up_cut(w);
}

static bool is_left(const struct world *w, int seat)
{
    return is_up(w, seat) && !w->seat[seat].is_broken;
}

static bool some_share_is_gone(const struct world *w)
{
    for (int p = 0; p < w->shares; p++)
        if (!is_left(w, p) && !is_left(w, p + w->shares)) return true;
    return false;
}

static void judge_end(struct world *w)
{
    const bool is_over = some_share_is_gone(w);
    w->report->ended += is_over;
    for (int s = 0; s < w->seats && !is_over; s++)
        w->report->stopped += is_up(w, s) && w->seat[s].is_broken;
    for (int i = 0; i < w->workers; i++) {
        const struct worker *const own = &w->worker[i];
        if (!is_up(w, end_of_worker(w, i))) continue;
        if (own->role != IS_DONE && !(is_over && own->role == HAS_FAILED))
            story_fail(&w->story, "worker %d stays in clock %llu (%d)", i,
                       (unsigned long long)own->clock, own->role);
        for (int s = 0; s < w->seats && !is_over; s++)
            for (uint64_t c = 0; c < own->clock && is_left(w, s); c++)
                if (w->seat[s].of[i].applied[c] != own->pushed[c])
                    story_fail(&w->story, "seat %d lacks pushes of clock %llu of worker %d", s,
                               (unsigned long long)c, i);
    }
}

void step_sim_run(uint64_t seed, enum step_bug bug, bool is_verbose, struct step_sim_report *report)
{
    struct sim_event event;
    unsigned count = 0;
    struct world *const w = calloc(1, sizeof *w);
    struct message *const messages = calloc(EVENTS_MAX, sizeof *messages);
    if (w == NULL || messages == NULL) abort();
    w->sim = sim_create(seed);
    w->report = report;
    w->bug = bug;
    w->messages = messages;
    w->story = (struct sim_story){.sim = w->sim, .seed = seed, .is_verbose = is_verbose};
    set_up(w);
    while (!w->story.has_failed && sim_next(w->sim, &event)) {
        happen(w, &event);
        if (++count == EVENTS_MAX) story_fail(&w->story, "it never ends");
    }
    if (!w->story.has_failed) judge_end(w);
    report->events += count;
    report->taken_over += w->has_taken_over;
    report->has_failed = w->story.has_failed;
    memcpy(report->message, w->story.message, sizeof report->message);
    report->fingerprint = sim_fingerprint(w->sim);
    for (int s = 0; s < w->seats; s += w->shares) step_leader_release(&w->seat[s].leader);
    sim_free(w->sim);
    free(messages);
    free(w);
}
