/* cuda.h - NVIDIA's devices, through CUDA's driver (gpu/cuda_library.h), as gpu/gpu.h describes a
 * driver.
 *
 *  1. Each device is used through its primary context, the one of CUDA's runtime and of all
 *     frameworks. Memory of another context is refused with INVALID_BUFFER: kernels of this one
 *     would not reach it. Memory without a context (from pools, or mapped by hand) counts as the
 *     device's.
 *  2. A driver that TUTTI_CUDA_DRIVER names is initialised here. One that the process has loaded by
 *     itself is taken when the program has initialised it, and not before: a program may want to
 *     use CUDA in children that it has yet to fork, which could not be then.
 *  3. A child of fork() cannot use the driver that its parent used. It gets UNSUPPORTED, and
 *     INVALID_BUFFER for memory that the CPU does not reach; memory of the host works there as
 *     ever.
 *  4. Functions that allocate or load do not disturb a capture that goes on in another thread.
 *
 * The driver waits for all work of the device, so for all workers on it, when memory is released,
 * or a device is opened.
 */
#ifndef TUTTI_GPU_CUDA_H
#define TUTTI_GPU_CUDA_H

#include "gpu/gpu.h"

/* The driver; NULL: there is none, or the program has not initialised it, or there is no device. An
 * error: TUTTI_CUDA_DRIVER names a file that is no driver, or that fails. Any thread; several at
 * once get the same. Blocks. */
enum tutti_status cuda_driver(const struct gpu_driver **driver);

/* The device of a kind of memory; NULL: the kind is none of these devices'. Any thread; prompt. */
struct gpu_device *cuda_of_kind(const struct memory_kind *kind);

#endif
