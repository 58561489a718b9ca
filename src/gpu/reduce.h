/* reduce.h - one reduction or copy as a device runs it; one source for the device (kernels.cu, by
 * clang) and for the host (tests/gpu/twins.c), where it is what tests compare with and what a
 * stand-in for a device runs.
 *
 * Gives the bits of kernel/kernel.h's scalar twin, but for the sign and the payload of NaN. Sources
 * are read, and destinations stored, past the cache of a multiprocessor: another one, another
 * process or the CPU may have written, or read next, what lies there.
 */
#ifndef TUTTI_GPU_REDUCE_H
#define TUTTI_GPU_REDUCE_H

#include <stdint.h>

/* A part of kernel_call, as it lies in memory that host and device reach. */
struct gpu_reduce {
    uint64_t count; /* elements */
    double factor;  /* as in kernel_call */
    uint32_t divisor;
    uint8_t dtype, op; /* enum tutti_dtype; enum op, of the builtin ones */
    uint16_t reserved;
    uint32_t source_count, destination_count; /* at least 1 each */
    /* As uint64_t, behind this struct: first the destinations, then the sources; addresses as the
     * device knows them, of any alignment to whole elements. A destination may equal a source;
     * otherwise nothing overlaps. */
};

/* Does the part of thread `thread` of `threads`: together they do all. On the host one thread of
 * one does. No barrier within.
 *
 *     static void gpu_reduce_run(const struct gpu_reduce *reduce, const uint64_t *pointers,
 *     uint32_t thread, uint32_t threads);
 *
 * is in reduce_run.h, which only kernels.cu and tests/gpu/twins.c include. */

#endif
