/* device.h - the GPU of a rank, and its stream: for --memory device and --stream.
 *
 * Ranks that use no GPU do not look for a driver either.
 */
#ifndef TUTTI_TOOLS_PERF_DEVICE_H
#define TUTTI_TOOLS_PERF_DEVICE_H

#include "rank.h"

/* Called once in a process that uses GPUs, before it has threads. This program is not linked with a
 * driver, so it names one, unless the user does. */
void perf_device_name_driver(void);

/* Finds the driver, before the first communicator looks for it. INVALID_OPTIONS: there is none, or
 * it has no device. Blocks. */
enum tutti_status perf_device_find(const struct perf_options *options);
/* Gives a rank, which must know its number, its device, and with --stream a stream.
 * INVALID_OPTIONS: there is no such device; or an error of the driver. Blocks, for seconds the
 * first time on a machine. */
enum tutti_status perf_device_open(struct perf_rank *rank);
/* Nothing of the rank may be under way. */
void perf_device_close(struct perf_rank *rank);

/* Blocks until all work of the rank's stream is done. TIMEOUT after --timeout, or the reason why
 * the communicator has failed meanwhile. Without a stream, returns at once. */
enum tutti_status perf_device_finish(const struct perf_rank *rank);

#endif
