#include "tests/sim/engine_sim_world.h"

/* Cuts of up to so long do no harm; those of at least so long are found. */
#define SHORT_NS (15 * PERIOD_NS)
#define LONG_NS (60 * PERIOD_NS)
/* All hosts have heard of each other by then. */
#define HEARD_NS (6 * PERIOD_NS)

/* --------------------------------------------------------------------------------- what happens */

static void part(struct world *w, int node, int other)
{
    if (w->apart_ns[node][other] != 0 || node == other) return;
    w->apart_ns[node][other] = sim_now_ns(w->sim);
    sim_at(w->sim, within(w, LOST_NS, LOST_NS + PERIOD_NS), LOST, node, other, 0);
}

static void let_learn(struct world *w, int node)
{
    for (int other = 0; other < w->node_count; other++) {
        if (other == node) continue;
        const uint64_t from_ns = is_near(w, node, other) ? 0 : 2 * PERIOD_NS;
        sim_at(w->sim, within(w, from_ns, from_ns + 2 * PERIOD_NS), LEARN, other, node, 0);
    }
}

void faults_mourn(struct world *w, int node)
{
    if (w->is_mourned[node]) return;
    w->is_mourned[node] = w->is_doubted[node] = true;
    w->last_change_ns = sim_now_ns(w->sim);
    story_tell(&w->story, "node %d is down", node);
    let_learn(w, node);
}

void faults_vanish(struct world *w, int host)
{
    story_tell(&w->story, "host %d vanishes", host);
    w->has_vanished[host] = true;
    w->fault_count++;
    w->report->vanished++;
    for (int node = 0; node < w->node_count; node++)
        if (w->host_of[node] == host) sim_crash(w->sim, node);
    for (int node = 0; node < w->node_count; node++) {
        if (w->host_of[node] != host) continue;
        faults_mourn(w, node);
        /* Nobody may have learned of one that was down before. */
        for (int other = 0; other < w->node_count; other++) part(w, other, node);
    }
}

static bool are_apart(const struct world *w, int one, int other)
{
    const int differ = (w->sides[0] >> w->host_of[one] ^ w->sides[0] >> w->host_of[other]) |
                       (w->sides[1] >> w->host_of[one] ^ w->sides[1] >> w->host_of[other]);
    return (differ & 1) != 0;
}

static void mend(struct world *w, int one, int other)
{
    w->apart_ns[one][other] = w->apart_ns[other][one] = 0;
    for (int i = 0; i < w->comm_count; i++)
        if (is_member(&w->comms[i], one) && is_member(&w->comms[i], other))
            sim_links_mend(&w->comms[i].links, w->comms[i].rank_of[one], w->comms[i].rank_of[other]);
}

/* Who has failed meanwhile says so once more. */
static void say_again(struct world *w)
{
    for (int node = 0; node < w->node_count; node++) {
        if (!sim_is_up(w->sim, node)) {
            let_learn(w, node);
            continue;
        }
        for (int i = 0; i <= w->current[node]; i++)
            if (w->seats[node][i].failure.culprit >= 0) control_tell_others(w, &w->seats[node][i]);
    }
}

void faults_change_cut(struct world *w, int sides, bool is_long)
{
    story_tell(&w->story, "%s cut: %x", is_long ? "long" : "short", (unsigned)sides);
    const int parted = sides | w->sides[!is_long];
    w->sides[!is_long] = sides;
    for (int one = 0; one < w->node_count; one++)
        for (int other = 0; other < one; other++) {
            const bool is_cut = are_apart(w, one, other);
            if (is_long && (parted >> w->host_of[one] & 1) != (parted >> w->host_of[other] & 1))
                w->is_doubted[one] = w->is_doubted[other] = true;
            if (is_cut == sim_is_cut(w->sim, one, other)) continue;
            sim_cut(w->sim, one, other, is_cut);
            if (is_cut) {
                part(w, one, other);
                part(w, other, one);
            } else if (sim_is_up(w->sim, one) && sim_is_up(w->sim, other)) {
                mend(w, one, other);
            }
        }
    if (is_long) w->last_change_ns = sim_now_ns(w->sim);
    if (sides == 0) {
        w->has_healed |= is_long;
        say_again(w);
        return;
    }
    w->fault_count += is_long;
    *(is_long ? &w->report->cut : &w->report->short_cuts) += 1;
}

void faults_reset_some(struct world *w)
{
    const struct comm *comm = &w->comms[w->comm_count - 1];
    for (int tries = 0; tries < 20; tries++) {
        const int one = (int)sim_below(w->sim, (unsigned)comm->size),
                  other = (int)sim_below(w->sim, (unsigned)comm->size);
        const unsigned stream = sim_below(w->sim, SIM_STREAMS_MAX);
        if (one == other || (tries < 19 && !sim_links_is_busy(&comm->links, one, other, stream)))
            continue;
        w->report->reset++;
        sim_links_reset(&comm->links, one, other, stream);
        return;
    }
}

void faults_stall(struct world *w, int node, uint64_t span_ns)
{
    story_tell(&w->story, "node %d stalls for %.3f ms", node, (double)span_ns / 1e6);
    w->report->stalled++;
    w->has_stalled = true;
    sim_stall(w->sim, node, sim_now_ns(w->sim) + span_ns);
}

/* ---------------------------------------------------------------------------- what is to happen */

static uint64_t some_time(struct world *w)
{
    return HEARD_NS +
           sim_between(w->sim, 0, sim_chance(w->sim, 500) ? 10 * MILLISECOND : 60 * MILLISECOND);
}

static int some_node(struct world *w)
{
    return (int)sim_below(w->sim, (unsigned)w->node_count);
}

static void plan_crash(struct world *w)
{
    if (sim_chance(w->sim, 500))
        sim_at(w->sim, some_time(w), CRASH, some_node(w), 0, 0);
    else
        sim_at(w->sim, some_time(w), ARM, some_node(w), (int)sim_below(w->sim, 60), 0);
}

static void plan_vanishing(struct world *w)
{
    sim_at(w->sim, some_time(w), VANISH, SIM_NOBODY,
           (int)sim_below(w->sim, (unsigned)w->host_count), 0);
}

static void plan_cut(struct world *w, bool is_long)
{
    const uint64_t from_ns = some_time(w);
    const int sides = 1 + (int)sim_below(w->sim, (1U << w->host_count) - 2);
    const uint64_t span_ns = is_long ? sim_between(w->sim, SHORT_NS, 3 * LONG_NS)
                                     : sim_between(w->sim, MILLISECOND, SHORT_NS);
    sim_at(w->sim, from_ns, CUT, SIM_NOBODY, sides, is_long);
    if (!is_long || sim_chance(w->sim, 300))
        sim_at(w->sim, from_ns + span_ns, CUT, SIM_NOBODY, 0, is_long);
}

static void plan_fault(struct world *w)
{
    const unsigned kind = sim_below(w->sim, w->host_count > 1 ? 4 : 2);
    if (kind < 2)
        plan_crash(w);
    else if (kind == 2)
        plan_vanishing(w);
    else if (!w->has_planned_cut)
        plan_cut(w, w->has_planned_cut = true);
}

/* What nobody may fail for. */
static void plan_nuisances(struct world *w)
{
    const unsigned resets = sim_chance(w->sim, 500) ? sim_below(w->sim, 12) : 0;
    const unsigned stalls = sim_chance(w->sim, 300) ? 1 + sim_below(w->sim, 2) : 0;
    for (unsigned i = 0; i < resets; i++)
        sim_at(w->sim, sim_between(w->sim, 0, i % 2 == 0 ? HEARD_NS / 2 : 2 * HEARD_NS), RESET,
               SIM_NOBODY, 0, 0);
    for (unsigned i = 0; i < stalls; i++)
        sim_at(w->sim, some_time(w), STALL, some_node(w),
               (int)sim_between(w->sim, MILLISECOND,
                                sim_chance(w->sim, 500) ? LONG_NS : 20 * MILLISECOND),
               0);
    if (w->host_count > 1 && sim_chance(w->sim, 200)) plan_cut(w, false);
}

void faults_plan(struct world *w)
{
    const unsigned faults = sim_below(w->sim, 10);
    for (unsigned i = 0; i < (faults < 4 ? 0 : faults < 8 ? 1 : faults - 6); i++) plan_fault(w);
    plan_nuisances(w);
}

void faults_set_weather(struct world *w)
{
    static const unsigned lost_permille[] = {0, 0, 10, 50, 200};
    const struct sim_weather weather = {
        .lost_permille = lost_permille[sim_below(w->sim, 5)],
        .doubled_permille = sim_chance(w->sim, 300) ? 100 : 0,
        .late_permille = sim_chance(w->sim, 500) ? 50 : 0,
        .delay_ns_min = 20000,
        .delay_ns_max = sim_chance(w->sim, 500) ? 60000 : 2 * MILLISECOND,
        .late_ns_max = sim_chance(w->sim, 500) ? 5 * MILLISECOND : 20 * MILLISECOND,
    };
    sim_set_weather(w->sim, &weather);
}
