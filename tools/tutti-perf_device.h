/* tutti-perf_device.h - the GPU of a rank, and its stream: for --memory device and --stream.
 *
 * Ranks that use none do not look for a driver either.
 */
#ifndef TUTTI_PERF_DEVICE_H
#define TUTTI_PERF_DEVICE_H

#include "tutti-perf_rank.h"

/* Once in a process that uses GPUs, before it has threads: this program is linked with no driver, so it names one, unless the user does. */
void perf_device_name_driver(void);

/* Finds the driver, before the first communicator does. INVALID_OPTIONS: there is none, or it has no device. Blocks. */
enum tutti_status perf_device_find(const struct perf_options *options);
/* A rank that knows its number gets its device, and with --stream a stream. INVALID_OPTIONS: there is no such device; or what the
 * driver says. Blocks, for seconds the first time on a machine. */
enum tutti_status perf_device_open(struct perf_rank *rank);
/* Nothing of the rank is under way. */
void perf_device_close(struct perf_rank *rank);

/* Blocks until all work of the rank's stream is done. TIMEOUT after --timeout, or why the communicator has failed meanwhile. Without a
 * stream: at once. */
enum tutti_status perf_device_finish(const struct perf_rank *rank);

#endif
