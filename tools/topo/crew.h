/* crew.h - processes that measure something together, each bound to a processor. They
 * are forked, so they have a copy of this process's memory; they return their results in memory
 * that all of them share.
 */
#ifndef TUTTI_TOOLS_TOPO_CREW_H
#define TUTTI_TOOLS_TOPO_CREW_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

/* The work of one such process; false: it could not do its part. It ends by itself within a few
 * seconds, whatever the others do. */
typedef bool crew_work(int index, void *context);
/* The work of this process meanwhile. */
typedef void crew_lead(void *context);

/* Runs work(i) on processor cpus[i], and waits until all are done. 20 s after this process has done
 * its part, those that are left are killed. lead may be NULL. SYSTEM, UNSUPPORTED: a process could
 * not be started or bound, or failed. */
enum tutti_status crew_run(const int *cpus, int count, crew_work *work, crew_lead *lead,
                           void *context);

/* Zeroed memory that a crew shares; NULL: there is none. */
void *crew_memory(size_t bytes);
void crew_free(void *memory, size_t bytes);

/* The processors that this process may run on, in ascending order; returns how many. */
enum { CREW_CPUS_MAX = 1024 };
int crew_cpus(int cpus[CREW_CPUS_MAX]);

#endif
