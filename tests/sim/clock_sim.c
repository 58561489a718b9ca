#include "tests/sim/clock_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "membership/rank_set.h"
#include "membership/worker_clock.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_seeds.h"
#include "tests/sim/sim_story.h"

enum { WORKERS_MAX = 8, CLOCKS_MAX = 12, CHANGES_MAX = 3, SERVER = 0, EVENTS_MAX = 200000 };
enum { END = 1, DONE, LEAVE, JOIN, JOINED, WISH, CHANGED }; /* tags */
enum { COMPUTED = 1, AGAIN, NOTICED, CRASH, CALM };
enum { CLOCK_BITS = 8 };

#define MILLISECOND UINT64_C(1000000)

/* A worker as it really is. */
enum role { COMPUTES, ENDS, LEAVES, IS_AWAY, JOINS, WISHES, IS_FINISHED };

struct worker {
    enum role role;
    uint64_t clock;      /* in which it is, or which it has ended */
    uint64_t compute_ns; /* about what a clock takes */
    unsigned away;       /* how often it may still leave */
    uint64_t heard;      /* clocks of which the server has heard the end */
    bool is_counted;     /* by the server */
    bool is_heard_now;   /* its update waits */
    bool is_dead;        /* and the server knows; it hears no old messages of it */
    uint64_t updates;    /* that are in steps */
    uint64_t rounds;     /* of wishes that it has behind it */
    bool is_heard_wish;  /* the server has heard it, and has not changed the rule since then */
    uint64_t number;     /* of what it says, so that an old timer says nothing */
    bool is_new;         /* it has not been there yet */
};

struct world {
    struct sim *sim;
    struct sim_story story;
    struct clock_sim_report *report;
    struct worker_clock_rule rule;
    struct worker_clock clock;
    struct worker_clock_worker states[WORKERS_MAX];
    struct worker workers[WORKERS_MAX];
    int count;
    uint64_t clocks; /* that each worker does */
    /* Behind which clock workers ask for another rule, and for which. */
    struct change {
        uint64_t clock;
        struct worker_clock_rule rule;
    } changes[CHANGES_MAX];
    uint64_t change_count;
    bool was_at_bound;
};

static int node_of(int worker)
{
    return worker + 1;
}

static bool is_there(const struct world *w, int worker)
{
    const enum role role = w->workers[worker].role;
    return sim_is_up(w->sim, node_of(worker)) && role != IS_AWAY && role != JOINS &&
           role != IS_FINISHED;
}

/* Clocks that the worker has really ended. */
static uint64_t ended(const struct worker *worker)
{
    return worker->clock + (worker->role == ENDS);
}

/* -------------------------------------------------------------------------------------- the judge */

static bool is_bounded(const struct world *w)
{
    return w->rule.quorum == 0 && w->rule.staleness != WORKER_CLOCK_UNBOUNDED;
}

/* A worker begins a clock. */
static void judge_begin(struct world *w, int worker)
{
    const struct worker *const own = &w->workers[worker];
    if (own->updates != own->clock)
        story_fail(&w->story, "worker %d is in clock %llu, and %llu of its updates are in steps",
                   worker, (unsigned long long)own->clock, (unsigned long long)own->updates);
    if (!is_bounded(w)) return;
    for (int i = 0; i < w->count; i++) {
        const struct worker *const other = &w->workers[i];
        if (i == worker || !other->is_counted || !is_there(w, i)) continue;
        const uint64_t before = ended(other);
        if (own->clock > before + w->rule.staleness)
            story_fail(&w->story, "worker %d is in clock %llu, and worker %d in %llu", worker,
                       (unsigned long long)own->clock, i, (unsigned long long)before);
        if (own->clock == before + w->rule.staleness) w->was_at_bound = true;
        if (own->clock > w->rule.staleness && other->updates < own->clock - w->rule.staleness)
            story_fail(&w->story, "worker %d is in clock %llu without update %llu of worker %d",
                       worker, (unsigned long long)own->clock, (unsigned long long)other->updates,
                       i);
    }
}

static int counted(const struct world *w)
{
    int count = 0;
    for (int i = 0; i < w->count; i++) count += w->workers[i].is_counted;
    return count;
}

static int waiting(const struct world *w)
{
    int count = 0;
    for (int i = 0; i < w->count; i++) count += w->workers[i].is_heard_now;
    return count;
}

static int wishing(const struct world *w)
{
    int count = 0;
    for (int i = 0; i < w->count; i++) count += w->workers[i].is_heard_wish;
    return count;
}

static void judge_step(struct world *w, const uint64_t *members)
{
    const int count = rank_set_count(members, w->count), left = counted(w);
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (int i = 0; i < w->count; i++) {
        struct worker *const worker = &w->workers[i];
        if (!rank_set_has(members, i)) continue;
        if (!worker->is_heard_now) story_fail(&w->story, "worker %d has no update for a step", i);
        const uint64_t number = worker->heard - 1;
        if (number != worker->updates)
            story_fail(&w->story, "update %llu of worker %d is in a step, after %llu others",
                       (unsigned long long)number, i, (unsigned long long)worker->updates);
        if (number < lowest) lowest = number;
        if (number > highest) highest = number;
    }
    for (int i = 0; i < w->count; i++)
        if (rank_set_has(members, i) && w->workers[i].heard - 1 < highest) w->report->late++;
    if (count == 0) story_fail(&w->story, "a step has no update");
    if (w->rule.quorum == 0 && lowest != highest)
        story_fail(&w->story, "a step has updates of clocks %llu and %llu",
                   (unsigned long long)lowest, (unsigned long long)highest);
    if (w->rule.quorum == 0 && w->rule.staleness == 0 && count != left)
        story_fail(&w->story, "a step has updates of %d of %d workers", count, left);
    const int able = left - wishing(w);
    if (w->rule.quorum > 0 && count < w->rule.quorum && count < able)
        story_fail(&w->story, "a step has %d updates, of %d workers", count, left);
}

/* It comes beside the slowest worker, or in its old clock. */
static void judge_join(struct world *w, int worker)
{
    const uint64_t clock = w->states[worker].clock;
    uint64_t lowest = UINT64_MAX;
    for (int i = 0; i < w->count; i++)
        if (w->workers[i].is_counted && w->workers[i].heard < lowest) lowest = w->workers[i].heard;
    if (lowest == UINT64_MAX) return;
    if (clock < lowest || (w->workers[worker].is_new && clock != lowest))
        story_fail(&w->story, "worker %d comes in clock %llu, and all others have ended %llu",
                   worker, (unsigned long long)clock, (unsigned long long)lowest);
}

/* No update waits that need not. */
static void judge_rest(struct world *w)
{
    const int left = counted(w) - wishing(w), there = waiting(w);
    if (w->rule.quorum > 0 && there > 0 && (there >= w->rule.quorum || there == left))
        story_fail(&w->story, "%d updates of %d workers wait", there, left);
    if (w->rule.quorum > 0) return;
    uint64_t slowest = UINT64_MAX;
    for (int i = 0; i < w->count; i++)
        if (w->workers[i].is_counted && w->workers[i].heard < slowest)
            slowest = w->workers[i].heard;
    for (int i = 0; i < w->count; i++) {
        const struct worker *const worker = &w->workers[i];
        if (!worker->is_heard_now) continue;
        const uint64_t number = worker->heard - 1;
        if (w->rule.staleness == WORKER_CLOCK_UNBOUNDED || number < w->rule.staleness ||
            slowest > number - w->rule.staleness)
            story_fail(&w->story, "update %llu of worker %d waits; all have ended %llu clocks",
                       (unsigned long long)number, i, (unsigned long long)slowest);
    }
}

/* ------------------------------------------------------------------------------------- the server */

static void tell_done(struct world *w, int worker)
{
    const uint64_t clock = w->states[worker].clock;
    sim_send(w->sim, SERVER, node_of(worker), DONE, &clock, sizeof clock);
}

static void decide(struct world *w)
{
    uint64_t members[1];
    while (worker_clock_decide(&w->clock, members)) {
        judge_step(w, members);
        w->report->steps++;
        for (int i = 0; i < w->count; i++) {
            if (!rank_set_has(members, i)) continue;
            w->workers[i].is_heard_now = false;
            w->workers[i].updates++;
            w->report->updates++;
            tell_done(w, i);
        }
        if (w->story.has_failed) return;
    }
    judge_rest(w);
}

static void tell_changed(struct world *w, int worker, uint64_t round)
{
    sim_send(w->sim, SERVER, node_of(worker), CHANGED, &round, sizeof round);
}

/* All that are left have asked for it, and the books say so, too. */
static void change_rule(struct world *w)
{
    int differing[2];
    switch (worker_clock_change(&w->clock, differing)) {
    case WORKER_CLOCK_STAYS:
        if (wishing(w) > 0 && wishing(w) == counted(w))
            story_fail(&w->story, "all workers have asked, and the rule stays");
        return;
    case WORKER_CLOCK_DIFFERS: story_fail(&w->story, "all ask for one rule"); return;
    case WORKER_CLOCK_AGREES: break;
    }
    if (wishing(w) != counted(w) || waiting(w) > 0)
        story_fail(&w->story, "the rule changes: %d of %d have asked, %d updates wait", wishing(w),
                   counted(w), waiting(w));
    for (int i = 0; i < w->count; i++) {
        if (w->workers[i].is_heard_wish) tell_changed(w, i, w->clock.changes - 1);
        w->workers[i].is_heard_wish = false;
    }
    w->rule = w->changes[w->clock.changes - 1].rule;
    w->report->changed++;
}

static void hear_wish(struct world *w, int worker, uint64_t round)
{
    struct worker *const own = &w->workers[worker];
    switch (worker_clock_wish(&w->clock, worker, round, &w->changes[round].rule)) {
    case WORKER_CLOCK_NEW:
        own->is_heard_wish = true;
        change_rule(w);
        decide(w); /* a quorum may need fewer now */
        break;
    case WORKER_CLOCK_KNOWN:
        if (round + 1 == w->clock.changes && !worker_clock_has_changed(&w->clock, round))
            story_fail(&w->story, "round %llu has no result", (unsigned long long)round);
        tell_changed(w, worker, round);
        break;
    case WORKER_CLOCK_REFUSED: break;
    }
}

static void hear_end(struct world *w, int worker, uint64_t number)
{
    struct worker *const own = &w->workers[worker];
    switch (worker_clock_end(&w->clock, worker, number)) {
    case WORKER_CLOCK_NEW:
        own->heard = number + 1;
        own->is_heard_now = true;
        decide(w);
        w->report->blocked += own->is_heard_now;
        break;
    case WORKER_CLOCK_KNOWN:
        w->report->repeated++;
        if (w->states[worker].clock > number) tell_done(w, worker);
        break;
    case WORKER_CLOCK_REFUSED: break; /* an old message of a worker that has left */
    }
}

static void lose(struct world *w, int worker)
{
    w->workers[worker].is_counted = w->workers[worker].is_heard_now = false;
    w->workers[worker].is_heard_wish = false;
    worker_clock_remove(&w->clock, worker);
    change_rule(w);
    decide(w);
}

/* A message of an earlier leave changes nothing. */
static void hear_leave(struct world *w, int worker, uint64_t clock)
{
    if (w->workers[worker].role != LEAVES || clock != w->workers[worker].clock) return;
    lose(w, worker);
    sim_send(w->sim, SERVER, node_of(worker), LEAVE, &clock, sizeof clock);
}

/* The answer has the number of the question: a worker may have left since then, and come back. */
static void let_in(struct world *w, int worker, uint64_t question)
{
    struct worker *const own = &w->workers[worker];
    if (!own->is_counted && own->role == JOINS && !own->is_dead) {
        worker_clock_join(&w->clock, worker);
        judge_join(w, worker);
        own->is_counted = true;
        own->heard = own->updates = w->states[worker].clock;
        own->rounds = w->clock.changes;
        w->report->joined++;
        w->report->came += own->is_new;
        own->is_new = false;
        decide(w);
    }
    const uint64_t answer = question | w->states[worker].clock;
    if (own->is_counted) sim_send(w->sim, SERVER, node_of(worker), JOINED, &answer, sizeof answer);
}

/* ------------------------------------------------------------------------------------ the workers */

static void compute(struct world *w, int worker)
{
    struct worker *const own = &w->workers[worker];
    own->role = COMPUTES;
    const uint64_t until =
        sim_now_ns(w->sim) + sim_between(w->sim, own->compute_ns / 2, 2 * own->compute_ns);
    sim_at(w->sim, until, COMPUTED, node_of(worker), 0, 0);
}

/* Says what its role is, now and until it has another. */
static void say(struct world *w, int worker, uint64_t number)
{
    struct worker *const own = &w->workers[worker];
    static const int tags[] = {
        [ENDS] = END, [LEAVES] = LEAVE, [JOINS] = JOIN, [WISHES] = WISH, [IS_FINISHED] = 0};
    if (number != own->number || tags[own->role] == 0) return;
    const uint64_t told = own->role == WISHES  ? own->rounds
                          : own->role == JOINS ? own->number << CLOCK_BITS
                                               : own->clock;
    sim_send(w->sim, node_of(worker), SERVER, tags[own->role], &told, sizeof told);
    sim_at(w->sim, sim_now_ns(w->sim) + sim_again_ns(w->sim), AGAIN, node_of(worker), (int)number,
           0);
}

static void change(struct world *w, int worker, enum role role)
{
    w->workers[worker].role = role;
    say(w, worker, ++w->workers[worker].number);
}

static void go_on(struct world *w, int worker)
{
    struct worker *const own = &w->workers[worker];
    own->number++;
    judge_begin(w, worker);
    if (own->rounds < w->change_count && own->clock >= w->changes[own->rounds].clock) {
        change(w, worker, WISHES);
    } else if (own->clock >= w->clocks) {
        w->report->left++;
        change(w, worker, LEAVES);
    } else if (own->away > 0 && sim_chance(w->sim, 50)) {
        own->away--;
        w->report->left++;
        change(w, worker, LEAVES);
    } else {
        compute(w, worker);
    }
}

static void hear_done(struct world *w, int worker, uint64_t clock)
{
    struct worker *const own = &w->workers[worker];
    if (own->role != ENDS || clock <= own->clock) return;
    if (clock != own->clock + 1)
        story_fail(&w->story, "worker %d was told of a later clock", worker);
    own->clock = clock;
    own->role = COMPUTES;
    go_on(w, worker);
}

static void hear_changed(struct world *w, int worker, uint64_t round)
{
    struct worker *const own = &w->workers[worker];
    if (own->role != WISHES || round != own->rounds) return;
    own->rounds++;
    own->role = COMPUTES;
    go_on(w, worker);
}

static void hear_left(struct world *w, int worker, uint64_t clock)
{
    struct worker *const own = &w->workers[worker];
    if (own->role != LEAVES || clock != own->clock) return;
    change(w, worker, own->clock >= w->clocks ? IS_FINISHED : IS_AWAY);
    if (own->role == IS_AWAY)
        sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 1, 5 * own->compute_ns), COMPUTED,
               node_of(worker), 0, 0);
}

static void hear_joined(struct world *w, int worker, uint64_t answer)
{
    struct worker *const own = &w->workers[worker];
    if (own->role != JOINS || answer >> CLOCK_BITS != own->number) return;
    own->clock = answer & ((UINT64_C(1) << CLOCK_BITS) - 1);
    own->role = COMPUTES;
    go_on(w, worker);
}

/* -------------------------------------------------------------------------------------- the world */

static void hear(struct world *w, const struct sim_event *event)
{
    uint64_t number;
    memcpy(&number, event->bytes, sizeof number);
    const int worker = event->node == SERVER ? event->number - 1 : event->node - 1;
    story_tell(&w->story, "worker %d, message %d, clock %llu", worker, event->tag,
               (unsigned long long)number);
    switch (event->tag) {
    case END: hear_end(w, worker, number); break;
    case DONE: hear_done(w, worker, number); break;
    case LEAVE:
        if (event->node == SERVER)
            hear_leave(w, worker, number);
        else
            hear_left(w, worker, number);
        break;
    case JOIN: let_in(w, worker, number); break;
    case JOINED: hear_joined(w, worker, number); break;
    case WISH: hear_wish(w, worker, number); break;
    case CHANGED: hear_changed(w, worker, number); break;
    default: abort();
    }
}

static void happen(struct world *w, const struct sim_event *event)
{
    const int worker = event->node - 1;
    switch (event->kind) {
    case SIM_MESSAGE: hear(w, event); break;
    case COMPUTED: change(w, worker, w->workers[worker].role == IS_AWAY ? JOINS : ENDS); break;
    case AGAIN: say(w, worker, (uint64_t)event->number); break;
    case CRASH:
        w->report->crashed++;
        sim_crash(w->sim, event->number);
        sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 1, 30 * MILLISECOND), NOTICED,
               SERVER, event->number - 1, 0);
        break;
    case NOTICED:
        w->workers[event->number].is_dead = true;
        lose(w, event->number);
        break;
    case CALM: sim_set_weather(w->sim, &(struct sim_weather){.delay_ns_max = MILLISECOND}); break;
    default: abort();
    }
}

static struct worker_clock_rule any_rule(const struct world *w)
{
    const unsigned kind = sim_below(w->sim, 8);
    if (kind == 0) return (struct worker_clock_rule){WORKER_CLOCK_UNBOUNDED, 0};
    if (kind <= 2)
        return (struct worker_clock_rule){0, 1 + (int)sim_below(w->sim, (unsigned)w->count)};
    return (struct worker_clock_rule){sim_below(w->sim, 5), 0};
}

static void set_up_rules(struct world *w)
{
    w->rule = any_rule(w);
    if (sim_chance(w->sim, 500)) return; /* it never changes */
    w->change_count = 1 + sim_below(w->sim, CHANGES_MAX);
    for (uint64_t i = 0, clock = 1; i < w->change_count; i++) {
        clock += sim_below(w->sim, CLOCKS_MAX / CHANGES_MAX);
        w->changes[i] = (struct change){clock, any_rule(w)};
    }
}

static void come_later(struct world *w, int worker)
{
    w->workers[worker].role = IS_AWAY;
    sim_at(w->sim, sim_between(w->sim, 1, 60 * MILLISECOND), COMPUTED, node_of(worker), 0, 0);
}

static void set_up(struct world *w)
{
    struct sim *const sim = w->sim;
    w->count = 2 + (int)sim_below(sim, WORKERS_MAX - 1);
    w->clocks = 3 + sim_below(sim, CLOCKS_MAX - 3);
    const bool has_places = sim_chance(sim, 400);
    const int first_count = has_places ? 1 + (int)sim_below(sim, (unsigned)w->count - 1) : w->count;
    set_up_rules(w);
    worker_clock_init(&w->clock, &w->rule, w->count, first_count, w->states);
    sim_set_weather(sim, &(struct sim_weather){.lost_permille = sim_below(sim, 300),
                                               .doubled_permille = sim_below(sim, 200),
                                               .late_permille = sim_below(sim, 200),
                                               .delay_ns_min = MILLISECOND / 10,
                                               .delay_ns_max = MILLISECOND,
                                               .late_ns_max = 30 * MILLISECOND});
    for (int i = 0; i < w->count; i++) {
        const uint64_t slow = sim_chance(sim, 200) ? 10 : 1;
        w->workers[i].compute_ns = sim_between(sim, MILLISECOND, slow * 5 * MILLISECOND);
        w->workers[i].is_counted = i < first_count;
        w->workers[i].is_new = i >= first_count;
        w->workers[i].away = sim_below(sim, 3) == 0;
        if (sim_chance(sim, 60))
            sim_at(sim, sim_between(sim, 1, 60 * MILLISECOND), CRASH, SIM_NOBODY, node_of(i), 0);
        if (i < first_count)
            compute(w, i);
        else
            come_later(w, i);
    }
    sim_at(sim, 400 * MILLISECOND, CALM, SIM_NOBODY, 0, 0);
}

static void judge_end(struct world *w)
{
    for (int i = 0; i < w->count; i++)
        if (sim_is_up(w->sim, node_of(i)) && w->workers[i].role != IS_FINISHED)
            story_fail(&w->story, "worker %d stays in clock %llu", i,
                       (unsigned long long)w->workers[i].clock);
}

void clock_sim_run(uint64_t seed, bool is_verbose, struct clock_sim_report *report)
{
    struct sim_event event;
    unsigned count = 0;
    struct world w = {.sim = sim_create(seed), .report = report};
    w.story = (struct sim_story){.sim = w.sim, .seed = seed, .is_verbose = is_verbose};
    set_up(&w);
    while (!w.story.has_failed && sim_next(w.sim, &event)) {
        happen(&w, &event);
        if (++count == EVENTS_MAX) story_fail(&w.story, "it never ends");
    }
    if (!w.story.has_failed) judge_end(&w);
    report->events += count;
    report->quorums += w.rule.quorum > 0;
    report->bounded += is_bounded(&w) && w.rule.staleness > 0;
    report->at_bound += w.was_at_bound && w.rule.staleness > 0;
    report->has_failed = w.story.has_failed;
    memcpy(report->message, w.story.message, sizeof report->message);
    report->fingerprint = sim_fingerprint(w.sim);
    sim_free(w.sim);
}

int clock_sim_main(int argument_count, char **arguments)
{
    struct sim_seeds seeds;
    struct clock_sim_report report = {0};
    if (!sim_seeds_parse(argument_count, arguments, &seeds)) return 2;
    for (uint64_t i = 0; i < seeds.count && !report.has_failed; i++)
        clock_sim_run(seeds.first + i, seeds.is_verbose, &report);
    if (report.has_failed) return printf("%s\n", report.message), 1;
    printf(
        "%llu schedules from seed %llu held: %llu events, %llu steps of %llu updates, %llu had to "
        "wait;\n"
        "%llu bounded, %llu reached the bound; %llu quorums, %llu late updates; crashed %llu, left "
        "%llu, joined %llu, %llu of them for the first time, said again %llu, changed rules %llu\n",
        (unsigned long long)seeds.count, (unsigned long long)seeds.first,
        (unsigned long long)report.events, (unsigned long long)report.steps,
        (unsigned long long)report.updates, (unsigned long long)report.blocked,
        (unsigned long long)report.bounded, (unsigned long long)report.at_bound,
        (unsigned long long)report.quorums, (unsigned long long)report.late,
        (unsigned long long)report.crashed, (unsigned long long)report.left,
        (unsigned long long)report.joined, (unsigned long long)report.came,
        (unsigned long long)report.repeated, (unsigned long long)report.changed);
    return 0;
}
