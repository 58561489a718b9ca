/* kernels.h - kernels.cu as the library carries it: PTX, which a device's driver compiles for it
 * when it is loaded.
 *
 *     kernels.cu, reduce_run.h, encoded_run.h, worker_run.h ── `make kernels`: clang ──► kernels.ptx ── kernels.c ──► this
 *
 * kernels.ptx is kept with the sources, so it takes no compiler for devices to build the library.
 * It is for devices from sm_70 on and drivers from CUDA 11.0 on.
 */
#ifndef TUTTI_GPU_KERNELS_H
#define TUTTI_GPU_KERNELS_H

#include <stddef.h>

#define GPU_KERNEL_WORKER "tutti_worker" /* a uint64_t: the address of a struct worker_home */

/* More than that, and a block of GPU_THREADS threads does not start: to be told to the driver when
 * it compiles. */
enum { GPU_KERNEL_REGISTERS = 128 };

extern const char gpu_kernels_ptx[];       /* ends in a 0 */
extern const size_t gpu_kernels_ptx_bytes; /* without it */

#endif
