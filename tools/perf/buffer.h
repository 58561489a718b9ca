/* buffer.h - send and receive buffers of one rank, filled, poisoned and checked.
 *
 *     out of place    | off | send ............ |guard|     | off | recv ............ |guard|
 *     in place        | off | send or recv, the larger; the other lies in it ......... |guard|
 *
 * Elements are where the layout says (see layout.h), shifted by the number of bytes that
 * was asked for; every other byte is guarded. Several sets of buffers let successive iterations use
 * different memory. A buffer that a rank does not have (the receive buffer of reduce away from the
 * root) is NULL.
 *
 * Memory of a device is filled and checked as a whole, guards included, in an image of it in the
 * host's memory.
 */
#ifndef TUTTI_TOOLS_PERF_BUFFER_H
#define TUTTI_TOOLS_PERF_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "layout.h"
#include "operation.h"
#include "value.h"

struct gpu_device;

struct buffer_set {
    unsigned char *regions[SIDE_COUNT]; /* one and the same in place */
    struct tutti_tensor *tensors[SIDE_COUNT];
    struct tutti_list lists[SIDE_COUNT];
};

struct buffers {
    const struct perf_operation *operation;
    struct perf_shape shape;
    size_t element_bytes;
    struct perf_layout layouts[SIDE_COUNT];
    size_t misalign[SIDE_COUNT]; /* bytes before the first element; the same in place */
    bool aliased;                /* send and recv share memory: in place, and this rank has both */
    bool mapped;
    struct gpu_device *device; /* the device that has the memory; NULL: the host has it */
    int set_count;
    struct buffer_set *sets;
    unsigned char *images[SIDE_COUNT]; /* of the regions of a set in memory of a device; one and the same in place */
    void *arena;                       /* mapped memory of all sets; NULL for private memory */
};

struct buffers_options {
    size_t element_bytes;
    size_t misalign; /* bytes that send is off the start of a page; recv is off by twice as many */
    bool mapped;     /* tutti_mem_alloc instead of malloc, */
    struct gpu_device *device; /* or memory of this one; NULL: the host's */
    int set_count;
};

/* Buffers for set_count iterations, touched. NO_MEMORY, SYSTEM, or what tutti_mem_alloc returns;
 * nothing is left behind then. */
enum tutti_status buffers_init(struct buffers *buffers, const struct perf_operation *operation,
                               const struct perf_shape *shape,
                               const struct buffers_options *options);
/* With memory of a device: waits for all work of the process on the device, so no rank of the
 * process may be in a call. */
void buffers_release(struct buffers *buffers);

/* Writes the arguments of the call that a set decides: buffers, counts, displacements and lists.
 * They belong to the set. */
void buffers_call(const struct buffers *buffers, int set, struct perf_call *call);

/* Fills a set with inputs of the pattern; whatever a right call overwrites gets poison. SYSTEM: the
 * device does not copy. */
enum tutti_status buffers_fill(struct buffers *buffers, int set, const struct pattern *pattern);
/* For timing: fills with inputs of the pattern, or with zeros if results of one call become inputs
 * of the next. */
enum tutti_status buffers_fill_for_timing(struct buffers *buffers, int set,
                                          const struct pattern *pattern);
/* Compares every element and guard byte of the set with those that a right call leaves; returns how
 * many elements are wrong. The first one is described in text ("" when none is). */
size_t buffers_check(const struct buffers *buffers, int set, const struct pattern *pattern,
                     char *text, size_t text_bytes);

#endif
