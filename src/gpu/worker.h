/* worker.h - how the CPU has a device reduce and copy while an operation runs: one kernel, the
 * *worker*, stays on the device from the operation's start to its end and takes orders through
 * memory that both reach.
 *
 *     the application's stream    ... fills the input │ worker: here ─ orders ─ orders ─ end │ reads the output ...
 *     the CPU (engine)                      gate open ◄─┘       ▲ │ done counts
 *                                                               └─┘
 *
 * Why not a kernel launch for each piece: what a stream waits for may sit in the same hidden
 * hardware queue as a launch behind it (CUDA_DEVICE_MAX_CONNECTIONS=1), so a launch might wait for
 * its own end. A worker is in the application's stream, so nothing else is queued while an
 * operation runs; it begins when the stream comes to it (that is the operation's *gate*) and what
 * is behind it waits for its end. `build/bench/gpu_check worker` prints the time that an order
 * takes (bench/RESULTS.md has figures of an H200).
 *
 * It occupies `blocks` multiprocessors meanwhile. Workers of all operations that wait for each
 * other must be on the device at once.
 */
#ifndef TUTTI_GPU_WORKER_H
#define TUTTI_GPU_WORKER_H

#include <stdint.h>

#include "gpu/reduce.h"

struct worker_home; /* in the device's memory; worker_protocol.h has its fields, for the executor and the kernel alone */

#endif
