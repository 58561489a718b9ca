/* pinned.h - which of the host's memory devices reach where it lies: the ranges of gpu_pinned_add (executor.h), as one run sees them.
 *
 *     ranges of the process, under a lock ──copied when they have changed──► view of a run, of one thread
 */
#ifndef TUTTI_GPU_PINNED_H
#define TUTTI_GPU_PINNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/gpu.h"

enum { GPU_PINNED_VIEW = 256 };

/* Zeroed: of no ranges. */
struct gpu_pinned_view {
    unsigned version;
    unsigned count; /* ranges beyond GPU_PINNED_VIEW count as not pinned: they are copied */
    struct {
        uintptr_t begin, end;
    } ranges[GPU_PINNED_VIEW]; /* in order */
};

/* A device is there now: ranges that were added before are pinned through it, and so are all later ones. Blocks the first time. */
void gpu_pinned_open(struct gpu_device *device);
/* Brings a view up to date: one load if nothing has changed. Never waits for a driver. */
void gpu_pinned_look(struct gpu_pinned_view *view);
/* Whether all of these bytes are pinned. */
bool gpu_pinned_has(const struct gpu_pinned_view *view, const void *address, size_t bytes);

#endif
