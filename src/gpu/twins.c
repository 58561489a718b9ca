/* twins.c - see twins.h. */
#include "gpu/twins.h"

#include <string.h>
#include <time.h>

#include "gpu/reduce_run.h"
#if __has_include("gpu/worker_run.h")
#include "gpu/worker_run.h"
#endif

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
#if __has_include("gpu/worker_run.h")
static void tutti_worker(uint64_t home)
{
    worker_run(home);
}
#endif

#define TWIN(name)                                                                    \
    static void name##_block(uint64_t argument, uint32_t block, uint32_t block_count) \
    {                                                                                 \
        gpu_twin_block = block;                                                       \
        gpu_twin_block_count = block_count;                                           \
        name(argument);                                                               \
    }
TWIN(tutti_reduce_once)
#if __has_include("gpu/worker_run.h")
TWIN(tutti_worker)
#endif
#undef TWIN

const struct gpu_twin_entry gpu_twins[] = {{"tutti_reduce_once", tutti_reduce_once_block},
#if __has_include("gpu/worker_run.h")
                                           {"tutti_worker", tutti_worker_block},
#endif
                                           {NULL, NULL}};

gpu_twin *gpu_twin_find(const char *name)
{
    for (const struct gpu_twin_entry *entry = gpu_twins; entry->name != NULL; entry++)
        if (strcmp(entry->name, name) == 0) return entry->run;
    return NULL;
}
