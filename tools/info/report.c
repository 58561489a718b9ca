#include "report.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/option_mistake.h"

enum part { FABRIC, CUDA, ROCM, PMIX, PATHS, PART_COUNT };

static struct probe probes[PART_COUNT + OPTION_COUNT]; /* of the parts, then of settings */

static void prepare(enum part part, probe_function *ask, size_t bytes)
{
    probes[part] = (struct probe){.ask = ask, .answer = probe_memory(bytes)};
}

void report_make(struct report *report, double seconds)
{
    int setting_count = 0;
    *report = (struct report){.launch = {0}};
    machine_look(&report->machine);
    launch_look(&report->launch);
    prepare(FABRIC, fabric_ask, sizeof *report->fabric);
    prepare(CUDA, devices_ask_cuda, sizeof *report->cuda);
    prepare(ROCM, devices_ask_rocm, sizeof *report->rocm);
    prepare(PMIX, launch_ask_pmix, sizeof *report->pmix);
    prepare(PATHS, transports_ask, sizeof *report->paths);
    settings_read(&report->settings, probes + PART_COUNT, &setting_count);
    for (int i = 0; i < PART_COUNT + setting_count; i++) probe_start(&probes[i]);
    probes_await(probes, PART_COUNT + setting_count, seconds);
    settings_finish(&report->settings, probes + PART_COUNT);
    report->fabric = probes[FABRIC].answer;
    report->cuda = probes[CUDA].answer;
    report->rocm = probes[ROCM].answer;
    report->pmix = probes[PMIX].answer;
    report->paths = probes[PATHS].answer;
    report->fabric_trouble = probes[FABRIC].trouble;
    report->cuda_trouble = probes[CUDA].trouble;
    report->rocm_trouble = probes[ROCM].trouble;
    report->pmix_trouble = probes[PMIX].trouble;
    report->paths_trouble = probes[PATHS].trouble;
}

void report_release(struct report *report)
{
    settings_release(&report->settings);
}

static int say_settings(const struct settings *settings, report_problem_function *say, void *context)
{
    int count = 0;
    for (int i = 0; i < settings->count; i++) {
        if (settings->list[i].problem[0] == '\0') continue;
        say(settings->list[i].problem, context);
        count++;
    }
    return count;
}

int report_problems(const struct report *report, report_problem_function *say, void *context)
{
    int count = say_settings(&report->settings, say, context);
    /* A wish of a variable was said as the variable's. */
    const char *const paths =
        report->paths_trouble[0] != '\0' ? report->paths_trouble : report->paths->problem;
    if (count == 0 && paths[0] != '\0') {
        char text[sizeof report->paths->problem + 16];
        snprintf(text, sizeof text, "transports: %s", paths);
        say(text, context);
        count++;
    }
    for (int i = 0; i < report->settings.unknown_count; i++) {
        char text[OPTION_MISTAKE_SIZE];
        option_mistake_print(report->settings.unknown[i].name, text);
        say(text, context);
        count++;
    }
    return count;
}
