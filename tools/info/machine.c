#include "machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/printable.h"
#include "kernel/kernel.h"
#include "os/cpu.h"

static uint64_t number_of(rlim_t limit)
{
    return limit == RLIM_INFINITY ? MACHINE_UNLIMITED : (uint64_t)limit;
}

static void read_limit(int resource, uint64_t *now, uint64_t *most)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    (void)getrlimit((__rlimit_resource_t)resource, &limit);
    *now = number_of(limit.rlim_cur);
    *most = number_of(limit.rlim_max);
}

void machine_look(struct machine *machine)
{
    cpu_set_t allowed;
    struct statvfs shm;
    *machine = (struct machine){.cpu_limit = cpu_limit(),
                                .kernels = kernel_level_name(kernel_level_chosen())};
    if (gethostname(machine->name, sizeof machine->name - 1) != 0) strcpy(machine->name, "?");
    printable_make(machine->name);
    hardware_of_host(&machine->hardware);
    machine->allowed_cpu_count = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                                     ? CPU_COUNT(&allowed)
                                     : machine->hardware.cpu_count;
    read_limit(RLIMIT_NOFILE, &machine->descriptors, &machine->descriptors_max);
    read_limit(RLIMIT_MEMLOCK, &machine->locked_bytes, &machine->locked_bytes_max);
    machine->has_shm = statvfs("/dev/shm", &shm) == 0;
    if (!machine->has_shm) return;
    machine->shm_bytes = (uint64_t)shm.f_blocks * shm.f_frsize;
    machine->shm_free_bytes = (uint64_t)shm.f_bavail * shm.f_frsize;
}
