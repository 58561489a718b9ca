/* executor.h - runs the kernels of one operation on a device, through a worker (worker.h): it is
 * the operation's executor (kernel/executor.h) and its gate (engine/gate.h) at once.
 *
 *     gpu_run_take ──► gpu_run_begin ──► gate opens ──► start, flush, is_finished ... ──► gate told the end ──► begin again, or give back
 *                      worker on a stream                                                 worker ends, and the stream goes on
 *
 * Memory of the host that the device does not reach goes through pinned memory of the executor:
 * what a kernel reads is copied there before it starts, what it stores is copied from there before
 * it is called finished. So any link serves any device.
 *
 * One thread at a time calls a run; others may read through it meanwhile. Nothing here waits but
 * take and read.
 */
#ifndef TUTTI_GPU_EXECUTOR_H
#define TUTTI_GPU_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/gate.h"
#include "gpu/gpu.h"
#include "kernel/executor.h"

struct gpu_run;

/* A run of the device's, idle, from its pool or new: the first time as many are made as the ranks
 * of the process are likely to need. Blocks. NO_MEMORY, UNSUPPORTED. Any thread. */
enum tutti_status gpu_run_take(struct gpu_device *device, struct gpu_run **run);
/* Gives it back to the pool. Its operation is over; the worker may still be on its way out. Any
 * thread. */
void gpu_run_give_back(struct gpu_run *run);

struct kernel_executor *gpu_run_executor(struct gpu_run *run);
struct operation_gate *gpu_run_gate(struct gpu_run *run);

/* For one operation to come: puts the worker on a stream, of the application's or (has_stream
 * false) of this library's own. The gate opens when the stream has come so far. Any failure:
 * nothing was queued. Prompt, but for the first time without a stream, which makes one. */
enum tutti_status gpu_run_begin(struct gpu_run *run, bool has_stream, void *stream);
/* Until gpu_run_let_in no worker begins: for a driver that waits for all work on the device. False,
 * and there is nothing to undo: a worker is there, or stands in a stream, and may wait for the
 * caller's next action. Blocks while a worker is put on a stream; any thread. */
bool gpu_run_keep_out(const struct gpu_device *device);
void gpu_run_let_in(void);
/* begin succeeded, but no operation will come after all: as if the gate were told the end. */
void gpu_run_cancel(struct gpu_run *run);

/* Kernels that say which formats they store and read (kernel_formats): for the executor, never
 * called by the CPU. */
extern const struct kernel_set gpu_kernels;

/* Copies from memory of the device to the host's by a worker that is on the device, of any run of
 * this process. A copy that a driver queues may stand behind work that waits for that worker to end
 * (CUDA_DEVICE_MAX_CONNECTIONS=1); this one stands behind nothing. False: no worker is there, or it
 * was told to leave first, or its device has failed, or it does nothing for a minute. The
 * destination is the caller's again either way. Any thread; waits for the worker alone. */
bool gpu_run_read(struct gpu_device *device, void *destination, const void *source, size_t bytes);

/* So many ranks of this process are in one communicator, and may share a device: their workers must
 * be on it at once. From then on workers have as many blocks as that allows (TUTTI_GPU_BLOCKS has
 * the last word). Makes runs of devices that are in use. Any thread; blocks: while a communicator
 * is made, before any of its ranks can have a call. */
void gpu_share(unsigned ranks);

#endif
