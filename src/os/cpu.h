/* cpu.h - where the operating system lets a thread run and for how long, what those CPUs share, and
 * what they have.
 *
 * A part of the machine goes by the number of its lowest CPU, so that every thread that asks gets
 * the same name.
 */
#ifndef TUTTI_OS_CPU_H
#define TUTTI_OS_CPU_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

enum { CPU_COUNT_MAX = 1024 };
enum cpu_level { CPU_PACKAGE, CPU_CACHE, CPU_CORE, CPU_ITSELF, CPU_LEVEL_COUNT };

/* The parts that a thread cannot leave, from the largest one (a package) by its last cache and core
 * to one CPU: 1 + the number of the part's lowest CPU; 0 from where on it may move between
 * several. */
struct cpu_binding {
    uint16_t parts[CPU_LEVEL_COUNT];
};

/* The place of the calling thread, as it is bound now. Any thread; reads a few small files. */
void cpu_binding_of_thread(struct cpu_binding *place);
/* The place of a thread with that mask, on the machine that the folder describes as
 * /sys/devices/system/cpu does. A part that the folder does not describe is taken to be as large as
 * the next larger part. */
void cpu_binding_within(const cpu_set_t *allowed, const char *folder, struct cpu_binding *place);
/* A list as Linux writes it, "0-3,8-11", perhaps with a newline behind it; numbers that no mask
 * holds are left out. */
bool cpu_list_read(const char *text, cpu_set_t *cpus);
/* The number of CPUs, rounded up, to which a control group (mostly a container's) limits the time
 * of this process. 0: there is no limit. Any thread; reads a few small files. */
int cpu_limit(void);
/* The same for a process with that /proc/PID/cgroup, where control groups are below that folder
 * (/sys/fs/cgroup). */
int cpu_limit_within(const char *groups, const char *folder);
/* Whether processors of this host have instructions for AES. */
bool cpu_has_aes(void);

#endif
