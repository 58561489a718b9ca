#include "tests/sim/engine_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/engine_sim_world.h"
#include "tests/sim/sim_seeds.h"

#define HORIZON_NS (1500 * PERIOD_NS)
/* Operations that have not moved for so long do not move any more. */
#define QUIET_NS (1000 * PERIOD_NS)

static void set_up(struct world *w)
{
    for (int node = 0; node < RANKS_MAX; node++)
        for (int i = 0; i < COMMS_MAX; i++)
            w->seats[node][i] = (struct seat){
                .world = w, .node = node, .comm = i, .tick_ns = UINT64_MAX, .failure.culprit = -1};
    w->node_count =
        sim_chance(w->sim, 30) ? 10 + (int)sim_below(w->sim, 7) : 2 + (int)sim_below(w->sim, 7);
    const int most = w->node_count < HOSTS_MAX ? w->node_count : HOSTS_MAX;
    w->host_count = 1 + (int)sim_below(w->sim, (unsigned)most);
    for (int node = 0; node < w->node_count; node++)
        w->host_of[node] = (int)sim_below(w->sim, (unsigned)w->host_count);
    faults_set_weather(w);
    world_create_comm(w, sim_random(w->sim) | 1, (UINT64_C(1) << w->node_count) - 1);
    for (int node = 0; node < w->node_count; node++) rank_enter(w, node, 0);
    faults_plan(w);
    sim_at(w->sim, HORIZON_NS, HORIZON, SIM_NOBODY, 0, 0);
}

/* Much data in small pieces, in bad weather, takes longer than most schedules do. */
static void look_at_horizon(struct world *w)
{
    if (sim_now_ns(w->sim) < w->moved_ns + QUIET_NS)
        sim_at(w->sim, w->moved_ns + QUIET_NS, HORIZON, SIM_NOBODY, 0, 0);
    else
        judge_horizon(w);
}

static void happen(struct world *w, const struct sim_event *event)
{
    const int node = event->node, number = event->number;
    switch (event->kind) {
    case SIM_MESSAGE: control_hear(w, event); break;
    case START: rank_start_round(w, &w->seats[node][number]); break;
    case NOTICE: control_notice(w, &w->seats[node][number]); break;
    case BEAT: control_beat(w, node, number); break;
    case TICK: control_tick(w, &w->seats[node][number]); break;
    case LOOK: control_look(w, &w->seats[node][number]); break;
    case LEARN: control_learn(w, node, number); break;
    case LOST: control_lose(w, node, number); break;
    case CRASH: sim_crash(w->sim, node); break;
    case ARM: sim_crash_after(w->sim, node, (unsigned)number); break;
    case VANISH: faults_vanish(w, number); break;
    case STALL: faults_stall(w, node, (uint64_t)number); break;
    case CUT: faults_change_cut(w, number, event->tag != 0); break;
    case RESET: faults_reset_some(w); break;
    case HORIZON: look_at_horizon(w); break;
    default:
        sim_links_happen(&w->comms[event->kind - NET].links, event);
        judge_links(w, &w->comms[event->kind - NET].links);
        break;
    }
}

/* Those that the last event left dead. */
static void find_crashed(struct world *w)
{
    for (int node = 0; node < w->node_count; node++) {
        if (sim_is_up(w->sim, node) || w->is_mourned[node]) continue;
        w->fault_count++;
        w->report->crashed++;
        faults_mourn(w, node);
    }
}

static void run(struct world *w)
{
    struct sim_event event;
    while (!w->story.has_failed && !judge_is_over(w) && sim_next(w->sim, &event)) {
        w->report->events++;
        happen(w, &event);
        if (event.node != SIM_NOBODY && sim_is_up(w->sim, event.node)) rank_work(w, event.node);
        find_crashed(w);
    }
}

static void clean_up(struct world *w)
{
    for (int i = 0; i < w->comm_count; i++) {
        struct comm *comm = &w->comms[i];
        for (int node = 0; node < w->node_count; node++) {
            rank_end_tasks(&w->seats[node][i]);
            agreement_free(w->seats[node][i].agreement);
        }
        for (int host = 0; host < HOSTS_MAX; host++) heartbeat_free(comm->heartbeats[host]);
        sim_links_free(&comm->links, w->report);
    }
    sim_graves_free(w->graves);
}

void engine_sim_run(uint64_t seed, enum engine_sim_carrier carrier, bool is_verbose,
                    struct engine_sim_report *report)
{
    struct world *w = calloc(1, sizeof *w);
    if (w == NULL) abort();
    w->sim = sim_create(seed);
    w->report = report;
    w->carrier = carrier;
    w->story = (struct sim_story){.sim = w->sim, .seed = seed, .is_verbose = is_verbose};
    set_up(w);
    run(w);
    if (!w->story.has_failed) judge_end(w);
    clean_up(w);
    report->has_failed = w->story.has_failed;
    memcpy(report->message, w->story.message, sizeof report->message);
    report->fingerprint = sim_fingerprint(w->sim);
    sim_free(w->sim);
    free(w);
}

static int run_seeds(int argument_count, char **arguments, enum engine_sim_carrier carrier)
{
    struct sim_seeds seeds;
    struct engine_sim_report report = {0};
    if (!sim_seeds_parse(argument_count, arguments, &seeds)) return 2;
    for (uint64_t i = 0; i < seeds.count && !report.has_failed; i++)
        engine_sim_run(seeds.first + i, carrier, seeds.is_verbose, &report);
    if (report.has_failed) return printf("%s\n", report.message), 1;
    printf(
        "%llu schedules from seed %llu held: %u events, %u operations, %u ranks finished;\n"
        "crashed %u, vanished hosts %u, cut %u, cut shortly %u, reset %u, stalled %u;\n"
        "failed %u, verdicts %u, suspicions taken back %u, went on %u, minority %u, left out %u;\n"
        "pieces sent again %u, broken off %u, by reference %u, expected %u, frames held up %u\n",
        (unsigned long long)seeds.count, (unsigned long long)seeds.first, report.events,
        report.operations, report.finished, report.crashed, report.vanished, report.cut,
        report.short_cuts, report.reset, report.stalled, report.failures, report.verdicts,
        report.taken_back, report.shrunk, report.minority, report.excluded, report.again,
        report.halves_lost, report.by_reference, report.expected, report.held_up);
    if (carrier == ENGINE_SIM_CARDS)
        printf("packets of messages %u, of writes %u, refused %u, out of turn %u\n",
               report.messages, report.writes, report.refused, report.turned);
    return 0;
}

int engine_sim_main(int argument_count, char **arguments)
{
    return run_seeds(argument_count, arguments, ENGINE_SIM_CONNECTIONS);
}

int engine_sim_card_main(int argument_count, char **arguments)
{
    return run_seeds(argument_count, arguments, ENGINE_SIM_CARDS);
}
