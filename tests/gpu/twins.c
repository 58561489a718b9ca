/* twins.c - see twins.h. */
#include "tests/gpu/twins.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#include "gpu/device_code.h"
#include "gpu/reduce_run.h"
#include "gpu/worker_run.h"

static void *reach_directly(uint64_t address, size_t bytes)
{
    (void)bytes;
    return (void *)(uintptr_t)address;
}

void *(*gpu_twin_reach)(uint64_t address, size_t bytes) = reach_directly;
_Thread_local uint32_t gpu_twin_block, gpu_twin_block_count;

void gpu_twin_sleep(uint32_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

uint64_t gpu_twin_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A kernel for each line; its name is a kernel's of kernels.cu. */
static void tutti_reduce_once(uint64_t reduce_and_pointers)
{
    const struct gpu_reduce *const reduce = gpu_twin_reach(reduce_and_pointers, sizeof(*reduce));
    const size_t pointers = (size_t)reduce->source_count + reduce->destination_count;
    gpu_reduce_run(
        reduce, gpu_twin_reach(reduce_and_pointers + sizeof(*reduce), pointers * sizeof(uint64_t)),
        device_block(), device_block_count());
}
static void tutti_worker(uint64_t home)
{
    worker_run(home);
}

#define TWIN(name)                                                                    \
    static void name##_block(uint64_t argument, uint32_t block, uint32_t block_count) \
    {                                                                                 \
        gpu_twin_block = block;                                                       \
        gpu_twin_block_count = block_count;                                           \
        name(argument);                                                               \
    }
TWIN(tutti_reduce_once)
TWIN(tutti_worker)
#undef TWIN

static const struct {
    const char *name; /* of the kernel */
    gpu_twin *run;
} twins[] = {{"tutti_reduce_once", tutti_reduce_once_block}, {"tutti_worker", tutti_worker_block}};

gpu_twin *gpu_twin_find(const char *name)
{
    for (size_t i = 0; i < sizeof(twins) / sizeof(twins[0]); i++)
        if (strcmp(twins[i].name, name) == 0) return twins[i].run;
    return NULL;
}
