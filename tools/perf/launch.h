/* launch.h - starts the ranks of a measurement: processes, threads, both, or just this
 * one. */
#ifndef TUTTI_TOOLS_PERF_LAUNCH_H
#define TUTTI_TOOLS_PERF_LAUNCH_H

#include "rank.h"

/* The work of a rank between joining and leaving. Returns an exit code; if that is not 0, it has
 * said why. */
typedef int perf_rank_main(struct perf_rank *rank);

/* Runs every rank that belongs to this process and those it starts, waits for them, and returns the
 * worst of their exit codes. Processes started here die with this one; when one of them fails, the
 * others get a short time to end by themselves, and then are killed. */
int perf_launch(const struct perf_options *options, perf_rank_main *rank_main);

#endif
