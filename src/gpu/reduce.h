/* reduce.h - one reduction or copy as a device runs it; one source for the device (kernels.cu, by
 * clang) and for the host (tests/gpu/twins.c), where it is what tests compare with and what a
 * stand-in for a device runs.
 *
 * Gives the bits of kernel/kernel.h's scalar twin, and those of the scalar codecs (encoding/codec.h),
 * but for the sign and the payload of NaN that were computed. Sources
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
    uint8_t encoding;  /* enum tutti_encoding, perhaps with GPU_THROUGH; 0: nothing is encoded */
    uint8_t share;     /* of a worker's order; else 0 */
    uint32_t source_count, destination_count; /* at least 1 each */
    /* As uint64_t, behind this struct: first the destinations, then the sources; addresses as the
     * device knows them, of any alignment to whole elements, some of them with GPU_ENCODED. A
     * destination may equal a source; otherwise nothing overlaps. */
};

/* A sum of float32, bfloat16 or float16 with an encoding may have places that are encoded, of any
 * alignment, which begin with a unit. encoding_reduce.c does the same on a CPU. It goes by rows:
 * whole units of every encoding. */
enum { GPU_ROW = 128 };                 /* elements */
#define GPU_ENCODED (UINT64_C(1) << 63) /* in a pointer: this place is */
#define GPU_THROUGH \
    0x80u /* in `encoding`: all places get what the result is after it was encoded and decoded */

/* Does the part of thread `thread` of `threads`: together they do all. On the host one thread of
 * one does. No barrier within.
 *
 *     static void gpu_reduce_run(const struct gpu_reduce *reduce, const uint64_t *pointers,
 *     uint32_t thread, uint32_t threads);
 *
 * is in reduce_run.h, which only kernels.cu and tests/gpu/twins.c include. */

#endif
