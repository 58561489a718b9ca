/* report.h - all that tutti-info finds, and what is wrong with it. */
#ifndef TUTTI_TOOLS_INFO_REPORT_H
#define TUTTI_TOOLS_INFO_REPORT_H

#include "devices.h"
#include "fabric.h"
#include "launch.h"
#include "machine.h"
#include "settings.h"
#include "transports.h"

/* A question to a child process has an answer where there was no trouble ("") with asking. */
struct report {
    struct machine machine;
    struct launch launch;
    const struct fabric *fabric;
    const struct cuda_devices *cuda;
    const struct rocm_devices *rocm;
    const struct pmix *pmix;
    const struct transports_found *paths;
    const char *fabric_trouble, *cuda_trouble, *rocm_trouble, *pmix_trouble, *paths_trouble;
    struct settings settings;
};

/* Looks at everything, once; takes little more than these seconds. */
void report_make(struct report *report, double seconds);
void report_release(struct report *report);

typedef void report_problem_function(const char *problem, void *context);
/* Calls `say` for each thing that is set and cannot work as it is set, and returns how many there
 * are. */
int report_problems(const struct report *report, report_problem_function *say, void *context);

#endif
