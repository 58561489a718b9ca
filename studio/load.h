/* load.h - finds whether other processes used the machine while something was measured on it.
 *
 *     got      the share of its computing time for which measuring had its processors: 100 % if no
 *              other process was on them
 *     others   the share of all processors that other processes used, as the kernel counts it
 *     stolen   the share that a hypervisor gave to other machines
 *
 * Several processes of a machine that measure together are not others to each other: each of them
 * begins, and ends with the sum of what all of them used.
 */
#ifndef TUTTI_STUDIO_LOAD_H
#define TUTTI_STUDIO_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct load {
    uint64_t began_ns, began_busy_ns, began_stolen_ns, began_own_ns;
    uint64_t computed_ns, got_ns;
};

struct load_verdict {
    double got_percent, others_percent, stolen_percent;
    bool is_loaded;
};

void load_begin(struct load *load);
/* A part of a process, which computed all the time: how long it took, and how much of it was
 * processor time. */
void load_computed(struct load *load, uint64_t wall_ns, uint64_t cpu_ns);
/* The processor time that this process has used since, with its children that it has waited for. */
uint64_t load_own_ns(const struct load *load);
/* own_ns: the processor time of all processes that measured. */
struct load_verdict load_end(const struct load *load, uint64_t own_ns);

/* Processor time of this thread. */
uint64_t load_thread_ns(void);

/* A text by which processes find out whether they are on one machine: that of its last start. "":
 * the kernel does not tell. */
enum { LOAD_MACHINE_SIZE = 40 };
void load_machine(char machine[static LOAD_MACHINE_SIZE]);

#endif
