#include <string.h>

#include "tests/sim/step_sim_world.h"

static bool has_line(const struct world *w, int worker, int seat)
{
    return !w->lines[seat][step_end_of_worker(w, worker)].is_over;
}

/* To all seats to which the worker pushes. */
static void send_all(struct world *w, int worker, struct message message, uint64_t *missing)
{
    message.from = step_end_of_worker(w, worker);
    for (int s = 0; s < w->seats; s++) {
        const bool is_goodbye = message.kind == LEAVE;
        if (!has_line(w, worker, s) || (w->worker[worker].share_of[s] < 0 && !is_goodbye)) continue;
        if (w->bug == STEP_BUG_HALF_PUSH && message.push == 1 && s >= w->shares) continue;
        message.to = s;
        if (missing != NULL) *missing |= UINT64_C(1) << s;
        step_send(w, message);
    }
}

/* The seats of a share to which it pushes, a bit each. */
static uint64_t seats_of(const struct world *w, int worker, int share)
{
    uint64_t seats = 0;
    for (int s = 0; s < w->seats; s++)
        if (w->worker[worker].share_of[s] == share && has_line(w, worker, s))
            seats |= UINT64_C(1) << s;
    return seats;
}

void step_compute(struct world *w, int worker)
{
    w->worker[worker].role = COMPUTES;
    sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 1, 3 * MILLISECOND), COMPUTED,
           step_node_of(w, step_end_of_worker(w, worker)), worker, 0);
}

/* Which clock it is in, and where it is to push: first seats know that, if they live. */
static void enter(struct world *w, int worker)
{
    struct worker *const own = &w->worker[worker];
    while (own->enters_at < 2 * w->shares && !has_line(w, worker, own->enters_at)) own->enters_at++;
    own->role = own->enters_at < 2 * w->shares ? ENTERS : HAS_FAILED;
    if (own->role == ENTERS)
        step_send(w, (struct message){.kind = ENTER,
                                      .from = step_end_of_worker(w, worker),
                                      .to = own->enters_at});
}

void step_come(struct world *w, int worker)
{
    for (int s = 0; s < w->seats; s++)
        sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 1, 10 * MILLISECOND), LINK,
               step_node_of(w, s), s, worker);
    enter(w, worker);
}

static void is_in(struct world *w, int worker, const struct message *message)
{
    struct worker *const own = &w->worker[worker];
    if (own->role != ENTERS || message->from != own->enters_at) return;
    own->clock = message->clock;
    own->rounds = message->round;
    for (int s = 0; s < w->seats; s++)
        if (message->words[s] > 0 && (s < 2 * w->shares || w->bug != STEP_BUG_FIRST_SEATS))
            own->share_of[s] = (int)message->words[s] - 1;
    if (own->clock < w->clocks) {
        step_compute(w, worker);
        return;
    }
    own->role = IS_DONE;
    send_all(w, worker, (struct message){.kind = LEAVE}, NULL);
}

/* Most workers ask for the same rule. */
static void ask(struct world *w, int worker)
{
    struct worker *const own = &w->worker[worker];
    struct message message = {.kind = WISH,
                              .from = step_end_of_worker(w, worker),
                              .round = own->rounds,
                              .rule = {sim_chance(w->sim, 150) ? 2
                                       : own->rounds % 2 == 0  ? WORKER_CLOCK_UNBOUNDED
                                                               : 0,
                                       0}};
    own->role = AWAITS_RULE;
    own->answers_missing = 0;
    own->was_answered = false;
    for (message.to = 0; message.to < w->seats; message.to++) {
        if (own->share_of[message.to] != 0 || !has_line(w, worker, message.to)) continue;
        step_send(w, message);
        own->answers_missing |= UINT64_C(1) << message.to;
    }
    sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, MILLISECOND, 100 * MILLISECOND),
           GIVE_UP, step_node_of(w, step_end_of_worker(w, worker)), worker, (int)own->clock);
}

/* All answers to the wish are there. */
static void go_on_from_wish(struct world *w, int worker)
{
    struct worker *const own = &w->worker[worker];
    if (own->role != AWAITS_RULE || own->answers_missing != 0) return;
    own->rounds += own->was_answered;
    step_compute(w, worker);
}

void step_give_up_wish(struct world *w, int worker, uint64_t clock)
{
    struct worker *const own = &w->worker[worker];
    if (own->clock != clock || own->role != AWAITS_RULE) return;
    own->answers_missing = 0;
    go_on_from_wish(w, worker);
}

static void pull(struct world *w, int worker)
{
    struct worker *const own = &w->worker[worker];
    own->role = AWAITS_PULL;
    const uint64_t seats = seats_of(w, worker, own->pull_share);
    if (seats == 0) {
        own->role = HAS_FAILED;
        return;
    }
    own->pulls_from = __builtin_ctzll(seats);
    w->report->moved += own->pulls_from >= w->shares;
    w->report->served += own->pulls_from >= 2 * w->shares;
    step_send(w, (struct message){.kind = PULL,
                                  .from = step_end_of_worker(w, worker),
                                  .to = own->pulls_from,
                                  .clock = own->clock});
}

/* Spares that have asked for updates get those of the next clock, and of all behind it. */
static void begin_with_spares(struct world *w, int worker)
{
    struct worker *const own = &w->worker[worker];
    for (int s = 0; s < w->seats; s++) {
        if (own->invited[s] < 0) continue;
        own->share_of[s] = own->invited[s];
        own->invited[s] = -1;
        const bool is_early = w->bug == STEP_BUG_MID_CLOCK;
        step_send(w, (struct message){.kind = BEGIN,
                                      .from = step_end_of_worker(w, worker),
                                      .to = s,
                                      .clock = own->clock + !is_early});
        if (is_early)
            step_send(w, (struct message){.kind = TICK,
                                          .from = step_end_of_worker(w, worker),
                                          .to = s,
                                          .clock = own->clock});
    }
}

void step_work(struct world *w, int worker)
{
    struct worker *const own = &w->worker[worker];
    const unsigned pushes = 1 + sim_below(w->sim, PUSHES_MAX);
    if (own->role != COMPUTES) return;
    own->pushed[own->clock] = (1u << pushes) - 1;
    own->ticks_missing = own->probes_missing = own->sent = 0;
    memset(own->acks_missing, 0, sizeof own->acks_missing);
    for (unsigned p = 0; p < pushes; p++)
        send_all(w, worker, (struct message){.kind = PUSH, .clock = own->clock, .push = p},
                 &own->acks_missing[p]);
    send_all(w, worker, (struct message){.kind = TICK, .clock = own->clock}, &own->sent);
    own->ticks_missing = own->sent & seats_of(w, worker, 0);
    own->role = AWAITS_TICK;
    begin_with_spares(w, worker);
}

/* All answers that the tick and the pushes before it wait for are there. */
static void tick_if_done(struct world *w, int worker)
{
    struct worker *const own = &w->worker[worker];
    uint64_t missing = own->ticks_missing | own->probes_missing;
    for (int p = 0; p < PUSHES_MAX; p++) missing |= own->acks_missing[p];
    if (own->role != AWAITS_TICK || missing != 0) return;
    own->clock++;
    own->pull_share = (int)sim_below(w->sim, (unsigned)w->shares);
    pull(w, worker);
}

/* A spare that has begun behind the clock whose answers are lost knows whether that is in a step. */
static void probe(struct world *w, int worker, int share)
{
    struct worker *const own = &w->worker[worker];
    const uint64_t others = seats_of(w, worker, share) & ~own->sent;
    if (others == 0 || (own->probes_missing & others) != 0) return;
    const int to = __builtin_ctzll(others);
    own->probes_missing |= UINT64_C(1) << to;
    step_send(w, (struct message){.kind = PROBE,
                                  .from = step_end_of_worker(w, worker),
                                  .to = to,
                                  .clock = own->clock + 1});
}

void step_forget_seat(struct world *w, int worker, int seat)
{
    struct worker *const own = &w->worker[worker];
    const uint64_t bit = UINT64_C(1) << seat;
    const int share = own->share_of[seat];
    bool was_awaited = ((own->ticks_missing | own->probes_missing) & bit) != 0;
    for (int p = 0; p < PUSHES_MAX; p++) was_awaited |= (own->acks_missing[p] & bit) != 0;
    own->ticks_missing &= ~bit;
    own->answers_missing &= ~bit;
    own->probes_missing &= ~bit;
    own->invited[seat] = -1;
    for (int p = 0; p < PUSHES_MAX; p++) own->acks_missing[p] &= ~bit;
    if (own->role == ENTERS && own->enters_at == seat) enter(w, worker);
    if (own->role == IS_AWAY || own->role == ENTERS || own->role == IS_DONE ||
        own->role == HAS_FAILED || share < 0)
        return;
    if (own->role == AWAITS_TICK && was_awaited && (own->sent & seats_of(w, worker, share)) == 0)
        probe(w, worker, share);
    if (seats_of(w, worker, share) == 0)
        own->role = HAS_FAILED;
    else if (own->role == AWAITS_PULL && own->pulls_from == seat)
        pull(w, worker);
    else if (own->role == AWAITS_RULE)
        go_on_from_wish(w, worker);
    else
        tick_if_done(w, worker);
}

void step_hear_at_worker(struct world *w, int worker, const struct message *message)
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
    case PROBED:
        own->probes_missing &= ~(UINT64_C(1) << message->from);
        tick_if_done(w, worker);
        break;
    case INVITE:
        if (own->share_of[message->from] < 0) own->invited[message->from] = (int)message->push;
        break;
    case ENTERED: is_in(w, worker, message); break;
    case VALUES:
        if (own->role != AWAITS_PULL || message->from != own->pulls_from) break;
        step_judge_values(w, worker, message);
        if (own->clock < w->clocks && w->wishes > 0 && own->clock % (uint64_t)w->wishes == 0) {
            ask(w, worker);
            break;
        }
        if (own->clock < w->clocks) {
            step_compute(w, worker);
            break;
        }
        own->role = IS_DONE;
        send_all(w, worker, (struct message){.kind = LEAVE}, NULL);
        break;
    case ANSWERED:
        if (own->role != AWAITS_RULE || message->round != own->rounds) break;
        own->answers_missing &= ~(UINT64_C(1) << message->from);
        own->was_answered = true;
        go_on_from_wish(w, worker);
        break;
    default: /* FAIL */
        w->lines[message->from][step_end_of_worker(w, worker)].is_over = true;
        step_forget_seat(w, worker, message->from);
        break;
    }
}
