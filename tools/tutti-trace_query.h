/* tutti-trace_query.h - asks the processes of this host what they do (process/monitor.h answers). */
#ifndef TUTTI_TOOLS_TRACE_QUERY_H
#define TUTTI_TOOLS_TRACE_QUERY_H

#include <stdbool.h>
#include <stdio.h>

/* Prints a line for each communicator of the processes: of those named, or, with count 0, of all of this user that there are. With choices,
 * further lines say why calls got their algorithms. Returns how many did not answer; with none named and none there: 1. Waits at most 2 s for each. */
int query_processes(const int *pids, int count, bool with_choices, FILE *file);

#endif
