/* twins.h - the kernels of src/gpu/kernels.cu as functions of the host: the same source
 * (gpu/device_code.h), for tests and for a driver that stands in for a device's.
 */
#ifndef TUTTI_TESTS_GPU_TWINS_H
#define TUTTI_TESTS_GPU_TWINS_H

#include <stdint.h>

/* Runs one block of a kernel, as one thread; the caller runs all of them, those of a worker at the
 * same time. */
typedef void gpu_twin(uint64_t argument, uint32_t block, uint32_t block_count);

/* By the name of the kernel. NULL: there is none. */
gpu_twin *gpu_twin_find(const char *name);

#endif
