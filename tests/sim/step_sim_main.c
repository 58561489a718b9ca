#include <stdio.h>

#include "tests/sim/sim_seeds.h"
#include "tests/sim/step_sim.h"

int step_sim_main(int argument_count, char **arguments)
{
    struct sim_seeds seeds;
    struct step_sim_report report = {0};
    if (!sim_seeds_parse(argument_count, arguments, &seeds)) return 2;
    for (uint64_t i = 0; i < seeds.count && !report.has_failed; i++)
        step_sim_run(seeds.first + i, STEP_BUG_NONE, seeds.is_verbose, &report);
    if (report.has_failed) return printf("%s\n", report.message), 1;
    printf(
        "%llu schedules from seed %llu held: %llu events, %llu entries, %llu steps, %llu updates "
        "on seats;\n"
        "%llu rules changed and %llu kept;\n"
        "%llu servers and %llu workers died, %llu lines cut, %llu seats stopped; %llu taken over, "
        "%llu entries heard again, %llu pulls "
        "moved, %llu lost a share;\n"
        "%llu spares invited, %llu became full, %llu of them with the clock, and answered %llu "
        "pulls;\n"
        "%llu workers came later, %llu of them behind clock 0, and %llu lines to others ended "
        "before\n",
        (unsigned long long)seeds.count, (unsigned long long)seeds.first,
        (unsigned long long)report.events, (unsigned long long)report.entries,
        (unsigned long long)report.steps, (unsigned long long)report.updates,
        (unsigned long long)report.changed, (unsigned long long)report.kept,
        (unsigned long long)report.servers_died, (unsigned long long)report.workers_died,
        (unsigned long long)report.cut, (unsigned long long)report.stopped,
        (unsigned long long)report.taken_over, (unsigned long long)report.resumed,
        (unsigned long long)report.moved, (unsigned long long)report.ended,
        (unsigned long long)report.invited, (unsigned long long)report.refilled,
        (unsigned long long)report.learned, (unsigned long long)report.served,
        (unsigned long long)report.came, (unsigned long long)report.came_late,
        (unsigned long long)report.refused);
    return 0;
}
