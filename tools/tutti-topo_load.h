/* tutti-topo_load.h - whether others used the machine while it was measured.
 *
 *     got      of the time that measuring computed, what its processors gave it: 100 % if nobody else was on them
 *     others   what processes of others used of all processors meanwhile, as the kernel counts it
 *     stolen   what a hypervisor gave to other machines
 */
#ifndef TUTTI_TOOLS_TOPO_LOAD_H
#define TUTTI_TOOLS_TOPO_LOAD_H

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
/* A part of a process, which computed all the time: how long it took, and how much of it was processor time. */
void load_computed(struct load *load, uint64_t wall_ns, uint64_t cpu_ns);
/* All processes that measured have been waited for. */
struct load_verdict load_end(const struct load *load);

/* Processor time of this thread. */
uint64_t load_thread_ns(void);

#endif
