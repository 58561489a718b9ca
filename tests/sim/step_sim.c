#include "tests/sim/step_sim.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/step_sim_world.h"

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
            step_hear_at_seat(w, message->to, event->number);
        else
            step_hear_at_worker(w, message->to - w->seats, message);
        break;
    }
    case ENDED: /* number: the seat that died; tag: the one that hears of it */
        if (w->lines[event->number][event->tag].is_over) return;
        w->lines[event->number][event->tag].is_over = true;
        story_tell(&w->story, "%d hears that %d is gone", event->tag, event->number);
        if (event->tag >= w->seats) {
            if (event->number < w->seats) step_forget_seat(w, event->tag - w->seats, event->number);
        } else if (!w->seat[event->tag].is_broken) {
            step_lose(w, event->tag, event->number);
            step_stop_without_base(w, event->tag);
            step_act(w, event->tag);
        }
        break;
    case COMPUTED: step_work(w, event->number); break;
    case GIVE_UP: /* tag: the clock of its wish */
        step_give_up_wish(w, event->number, (uint64_t)event->tag);
        break;
    case COPY: step_copy_on(w, event->number, true); break;
    case COME: step_come(w, event->number); break;
    case LINK: /* tag: the worker */ step_link(w, event->number, event->tag); break;
    case CUT:
        w->was_cut[event->number] = w->was_cut[event->tag] = true;
        step_cut(w, event->number, event->tag);
        break;
    default: step_crash(w, event->number); break;
    }
}

static void set_up_deaths(struct world *w)
{
    const unsigned deaths = sim_below(w->sim, w->spares > 0 ? 6 : 4);
    const uint64_t pause = (w->spares > 0 ? 100 : 30) * MILLISECOND;
    uint64_t at = sim_between(w->sim, 1, 40 * MILLISECOND);
    for (unsigned d = 0; d < deaths; d++) {
        const bool is_server = sim_chance(w->sim, 600);
        const int node =
            is_server ? (sim_chance(w->sim, 400) ? (int)sim_below(w->sim, 2)
                                                 : (int)sim_below(w->sim, (unsigned)w->shares))
                      : w->shares + (int)sim_below(w->sim, (unsigned)w->workers);
        sim_at(w->sim, at, CRASH, SIM_NOBODY, node, 0);
        at += sim_chance(w->sim, 500) ? sim_between(w->sim, 1, 2 * MILLISECOND)
                                      : sim_between(w->sim, 1, pause);
    }
}

/* Some schedules have lines that are always slow, and leaders that die at the worst moment. */
static void set_up_trouble(struct world *w)
{
    static const enum step_entry_kind moments[] = {STEP_CHANGED, STEP_FULL, STEP_FULL, STEP_FULL,
                                                   STEP_JOINED};
    const unsigned slow = sim_chance(w->sim, 400) ? (sim_chance(w->sim, 600) ? 40 : 150) : 0;
    for (int from = 0; from < ENDS_MAX && slow > 0; from++)
        for (int to = 0; to < ENDS_MAX; to++) w->lines[from][to].is_slow = sim_chance(w->sim, slow);
    if (!sim_chance(w->sim, 300)) return;
    w->strikes = 1 + (int)sim_below(w->sim, 2);
    w->strikes_at = moments[w->spares > 0 ? sim_below(w->sim, 5) : 0];
}

/* Of a seat with a clock and another one. */
static void set_up_cut(struct world *w)
{
    const int clock = sim_chance(w->sim, 400) ? 0
                      : w->spares > 0 && sim_chance(w->sim, 500)
                          ? (int)sim_between(w->sim, 2 * (uint64_t)w->shares, (uint64_t)w->seats - 1)
                          : w->shares;
    const int other = (clock + 1 + (int)sim_below(w->sim, (unsigned)w->seats - 1)) % w->seats;
    if (sim_chance(w->sim, 250))
        sim_at(w->sim, sim_between(w->sim, 1, (w->spares > 0 ? 200 : 50) * MILLISECOND), CUT,
               SIM_NOBODY, other == 0 ? other : clock, other == 0 ? clock : other);
}

static void set_up_seats(struct world *w, struct step_leader_config *config)
{
    for (int s = 0; s < w->seats; s++) {
        struct step_sim_seat *const seat = &w->seat[s];
        if (!seat_map_init(&seat->map, w->shares, 2, w->spares)) abort();
        seat->fill_to = -1;
        seat->ranges = s < 2 * w->shares ? RANGES : 0;
        w->is_full[s] = s < 2 * w->shares;
        config->seat = s;
        if (s != 0 && s != w->shares) continue;
        if (!step_leader_init(&seat->leader, config)) abort();
        seat->has_leader = true;
    }
}

static void set_up_workers(struct world *w)
{
    for (int i = 0; i < w->workers; i++) {
        for (int s = 0; s < SEATS_MAX; s++) {
            w->worker[i].share_of[s] = s < 2 * w->shares ? s % w->shares : -1;
            w->worker[i].invited[s] = -1;
        }
        const bool is_there = i < w->workers - w->places;
        for (int s = 0; s < w->seats; s++)
            w->seat[s].of[i].is_linked = w->seat[s].of[i].is_in = is_there;
        if (is_there)
            step_compute(w, i);
        else
            sim_at(w->sim, sim_between(w->sim, 1, (w->spares > 0 ? 60 : 20) * MILLISECOND), COME,
                   step_node_of(w, step_end_of_worker(w, i)), i, 0);
    }
}

static void set_up(struct world *w)
{
    struct sim *const sim = w->sim;
    w->shares = 2 + (int)sim_below(sim, SHARES_MAX - 1);
    w->spares = w->shares > 2 && sim_chance(sim, 700) ? 1 + (int)sim_below(sim, SPARES_MAX) : 0;
    w->seats = (2 + w->spares) * w->shares;
    w->workers = 1 + (int)sim_below(sim, WORKERS_MAX);
    w->places = w->workers > 1 && sim_chance(sim, 400)
                    ? 1 + (int)sim_below(sim, (unsigned)w->workers - 1)
                    : 0;
    w->clocks = w->spares > 0 ? 4 + sim_below(sim, CLOCKS_MAX - 4) : 2 + sim_below(sim, 4);
    struct step_leader_config config = {.worker_count = w->workers,
                                        .share_count = w->shares,
                                        .copy_count = 2,
                                        .spare_count = w->spares,
                                        .place_count = w->places};
    const unsigned kind = sim_below(sim, 4);
    if (kind == 1) config.rule.staleness = 1;
    if (kind == 2) config.rule.staleness = WORKER_CLOCK_UNBOUNDED;
    if (kind == 3) config.rule.quorum = 1 + (int)sim_below(sim, (unsigned)w->workers);
    w->wishes = sim_chance(sim, 400) ? 1 + (int)sim_below(sim, 2) : 0;
    set_up_seats(w, &config);
    set_up_workers(w);
    set_up_deaths(w);
    set_up_cut(w);
    set_up_trouble(w);
}

static void release(struct world *w)
{
    for (int s = 0; s < w->seats; s++) {
        if (w->seat[s].has_leader) step_leader_release(&w->seat[s].leader);
        seat_map_release(&w->seat[s].map);
    }
    for (int i = 0; i < w->message_count; i++) {
        free(w->messages[i].words);
        free(w->messages[i].applied);
    }
    sim_free(w->sim);
    free(w->messages);
    free(w);
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
    if (!w->story.has_failed) step_judge_end(w);
    report->events += count;
    report->taken_over += w->has_taken_over;
    report->has_failed = w->story.has_failed;
    memcpy(report->message, w->story.message, sizeof report->message);
    report->fingerprint = sim_fingerprint(w->sim);
    release(w);
}
