/* twins.h - the kernels of kernels.cu as functions of the host: the same source (device.h), for tests and for a driver that
 * stands in for a device's. No part of the library.
 */
#ifndef TUTTI_GPU_TWINS_H
#define TUTTI_GPU_TWINS_H

#include <stddef.h>
#include <stdint.h>

/* Runs one block of a kernel, as one thread; the caller runs all of them, those of a worker at the same time. */
typedef void gpu_twin(uint64_t argument, uint32_t block, uint32_t block_count);

struct gpu_twin_entry {
    const char *name; /* of the kernel; NULL: the end of the table */
    gpu_twin *run;
};
extern const struct gpu_twin_entry gpu_twins[];
/* NULL: there is none. */
gpu_twin *gpu_twin_find(const char *name);

/* The address at which the host reaches memory that a kernel was given: at its address, unless a
 * stand-in hides memory and sets another function before it runs the first twin. That one is called
 * in all threads of twins. */
extern void *(*gpu_twin_reach)(uint64_t address, size_t bytes);

/* For device.h: what differs from thread to thread, and time. */
extern _Thread_local uint32_t gpu_twin_block, gpu_twin_block_count;
void gpu_twin_sleep(uint32_t ns);
uint64_t gpu_twin_clock_ns(void);

#endif
