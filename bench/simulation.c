/* simulation - how fast the cost model simulates plans: `build/bench/simulation [RANKS]`, 64 of
 * them unless said.
 *
 * For each algorithm: steps and events a second, on one host a rank, with ports that are shared,
 * and what making and wiring the plan takes beside that. The last lines are the slowest by events,
 * and by steps of one message. Without table of paths, and with those of TCP.
 */
#include <stdio.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "model/simulate.h"
#include "timing.h"
#include "transport/paths.h"

enum { RANKS_DEFAULT = 64, RANKS_MAX = 1024, COUNT = 16384 };
static const double least_us = 50e3;

struct speed {
    double plan_us, wire_us, simulate_us;
    struct model_result result;
};

static struct model_machine machine_of(int rank_count, const int *hosts,
                                       const struct path_table *between)
{
    return (struct model_machine){.rank_count = rank_count,
                                  .host_count = rank_count,
                                  .rack_count = 1,
                                  .host_of = hosts,
                                  .core_count = 1,
                                  .latency_ps = {[MODEL_SAME_RACK] = 10000000},
                                  .card = {.message = {.byte_fs = 80000}},
                                  .between = between,
                                  .piece_bytes_max = 64 << 10,
                                  .piece_count_max = 16};
}

/* False: the algorithm cannot do that. */
static bool measure(const struct algorithm *algorithm, const struct model_machine *machine,
                    struct speed *speed)
{
    const struct algo_params params = {.collective = algorithm->collective,
                                       .rank_count = machine->rank_count};
    struct plan *plan;
    struct wiring wiring;
    struct verify_report report;
    const char *message;
    if (!algo_supports(algorithm, machine->rank_count)) return false;
    const double begun = now_us();
    if (algo_plan(algorithm, &params, &plan, &message) != TUTTI_OK) return false;
    const double planned = now_us();
    const bool is_wired = wiring_init(&wiring, plan, NULL, &report) == VERIFY_PROVEN;
    const double wired = now_us();
    int runs = 0;
    speed->result = (struct model_result){.time_ps = 0};
    while (is_wired && now_us() - wired < least_us &&
           model_simulate(plan, &wiring, machine, COUNT, sizeof(float), &speed->result) == TUTTI_OK)
        runs++;
    speed->plan_us = planned - begun;
    speed->wire_us = wired - planned;
    speed->simulate_us = runs > 0 ? (now_us() - wired) / runs : 0;
    wiring_release(&wiring);
    plan_free(plan);
    return runs > 0;
}

static void measure_all(int rank_count, const int *hosts, const char *title,
                        const struct path_table *between)
{
    const struct model_machine machine = machine_of(rank_count, hosts, between);
    double slowest = 0;
    const char *name = "";
    printf("%s, %d ranks\n%-15s %-24s %9s %9s %9s %9s %12s %12s\n", title, rank_count, "", "",
           "steps", "plan us", "wire us", "run us", "Msteps/s", "Mevents/s");
    for (int i = 0; i < algo_count; i++) {
        struct speed speed;
        if (!measure(&algo_list[i], &machine, &speed)) continue;
        const double events = (double)speed.result.events / speed.simulate_us;
        printf("%-15s %-24s %9llu %9.0f %9.0f %9.0f %12.2f %12.2f\n",
               collective_name(algo_list[i].collective), algo_list[i].name,
               (unsigned long long)speed.result.steps, speed.plan_us, speed.wire_us,
               speed.simulate_us, (double)speed.result.steps / speed.simulate_us, events);
        if (slowest > 0 && events >= slowest) continue;
        slowest = events;
        name = algo_list[i].name;
    }
    printf("slowest: %s, %.2f million events a second\n\n", name, slowest);
}

int main(int argc, char **argv)
{
    const int rank_count = argc > 1 ? atoi(argv[1]) : RANKS_DEFAULT;
    if (argc > 2 || rank_count < 1 || rank_count > RANKS_MAX) {
        fprintf(stderr, "usage: simulation [RANKS], 1 to %d\n", RANKS_MAX);
        return 2;
    }
    int hosts[RANKS_MAX];
    for (int r = 0; r < rank_count; r++) hosts[r] = r;
    measure_all(rank_count, hosts, "messages cost ranks nothing", NULL);
    measure_all(rank_count, hosts, "messages cost what they cost over TCP", transport_paths("tcp"));
    return 0;
}
