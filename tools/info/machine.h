/* machine.h - this host, what this process may use of it, and its limits. */
#ifndef TUTTI_TOOLS_INFO_MACHINE_H
#define TUTTI_TOOLS_INFO_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "os/hardware.h"

enum { MACHINE_NAME_SIZE = 65 };
#define MACHINE_UNLIMITED UINT64_MAX

struct machine {
    char name[MACHINE_NAME_SIZE];
    struct hardware hardware;
    int allowed_cpu_count; /* that this process may run on */
    int cpu_limit;         /* of its control group, rounded up; 0: none */
    const char *kernels;   /* the instructions that reduce and copy */
    uint64_t descriptors, descriptors_max, locked_bytes, locked_bytes_max;
    bool has_shm; /* /dev/shm */
    uint64_t shm_bytes, shm_free_bytes;
};

void machine_look(struct machine *machine);

#endif
