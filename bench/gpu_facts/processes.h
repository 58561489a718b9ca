/* processes.h - the part of gpu_facts about what another process can map, what it finds there, what
 * it waits for, and what is there when the owner has freed it. */
#ifndef TUTTI_BENCH_GPU_FACTS_PROCESSES_H
#define TUTTI_BENCH_GPU_FACTS_PROCESSES_H

#include <sys/types.h>

/* The other process, which must not have used the driver yet; file: the driver. Returns its exit
 * status. */
int processes_other(const char *file, int channel);
/* channel: to the other process. */
void processes_part(int channel, pid_t other);

#endif
