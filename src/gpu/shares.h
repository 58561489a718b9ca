/* shares.h - memory of devices that other processes read where it lies: what this process exports,
 * and what it has imported.
 *
 *     path of a message                        begin of a call: gpu_shares_open
 *     share: is it exported? ── no ── wish ──► exports it
 *     map:   is it imported? ── no ── wish ──► imports it
 *
 * Invariants
 *  1. An export is known by the driver's number of its allocation. An address alone goes stale:
 *     memory is freed, and another allocation gets the address. Memory that was mapped by hand
 *     (VMM) is known by what is mapped, and from which address on, because drivers do not say what
 *     its number is. Other processes know an export by a number that this process never uses again.
 *  2. A driver keeps memory that was freed while another process has it imported. Memory that was
 *     mapped by hand is kept in any case. A program that frees what it had exported gets no more
 *     exports once that is a GPU_FREED_SHARE-th of the device's memory.
 *  3. Memory that was imported stays so until the process ends. To close it would mean to wait for
 *     all that the device does, also for workers that wait for the thread that closes. So there are
 *     at most GPU_IMPORTS_MAX imports; later ones are refused.
 *  4. No thread that holds the lock waits for a driver. Memory is mapped only while no worker of
 *     this process is on the device, or stands in a stream, since a driver may wait for it.
 *  5. Memory that was mapped by hand goes to other processes as a descriptor. They copy it when
 *     they hear of it: later the number may be another descriptor's.
 *  6. There are at most GPU_EXPORTS_MAX exports. Places of memory that is gone are free again when
 *     a new wish has a place, or after so many messages that had found none.
 */
#ifndef TUTTI_GPU_SHARES_H
#define TUTTI_GPU_SHARES_H

#include <stdbool.h>
#include <stddef.h>

#include "memory/kind.h"

struct gpu_device;

enum { GPU_EXPORTS_MAX = 256, GPU_IMPORTS_MAX = 256, GPU_FREED_SHARE = 64 };

/* memory_kind.share and .map */
bool gpu_shares_share(const struct memory_kind *kind, const void *address, size_t bytes,
                      struct memory_share *share);
enum memory_mapping gpu_shares_map(const struct memory_kind *kind, const struct memory_share *share,
                                   void **address, size_t *bytes);
/* Grants the wishes for memory of the device. While a worker is out it maps nothing: a later call
 * does that. Costs a load if there is nothing to do. Any thread, outside of all operations. Blocks;
 * keeps the thread's error. */
void gpu_shares_open(struct gpu_device *device);

#endif
