/* query.h - asks the processes of this host what they are doing (process/monitor.h
 * answers). */
#ifndef TUTTI_TOOLS_TRACE_QUERY_H
#define TUTTI_TOOLS_TRACE_QUERY_H

#include <stdbool.h>
#include <stdio.h>

/* Prints a line for each communicator of the named processes, or, if count is 0, of all processes
 * of this user. With choices, further lines say why calls got their algorithms. Asks all processes
 * at once, and waits until none has said a word for 2 s. Names those that did not answer on stderr
 * at the end. Returns how many processes did not answer, or 1 if none was named and there are
 * none. */
int query_processes(const int *pids, int count, bool with_choices, FILE *file);

#endif
