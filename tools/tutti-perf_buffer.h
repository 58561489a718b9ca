/* tutti-perf_buffer.h - send and receive buffers of one rank, filled, poisoned and checked.
 *
 *     out of place    | send ............ |guard|     | recv ............ |guard|
 *     in place        | send or recv, the larger; the other lies at block `rank` of it |guard|
 *
 * Several sets of buffers let successive iterations use different memory. A buffer that a rank does not have
 * (the receive buffer of reduce away from the root) is NULL.
 */
#ifndef TUTTI_PERF_BUFFER_H
#define TUTTI_PERF_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti-perf_operation.h"
#include "tutti-perf_value.h"

struct buffer_set {
    unsigned char *send;
    unsigned char *recv;
};

struct buffers {
    const struct operation *operation;
    struct shape shape;
    size_t element_bytes;
    size_t send_bytes;
    size_t recv_bytes;
    bool aliased; /* send and recv share memory: in place, and this rank has both */
    bool mapped;
    int set_count;
    struct buffer_set *sets;
    void *arena; /* mapped memory of all sets; NULL for private memory */
};

/* Buffers for set_count iterations, private (malloc) or mapped (tutti_mem_alloc), page aligned and touched.
 * NO_MEMORY or what tutti_mem_alloc returns; nothing is left behind then. */
enum tutti_status buffers_init(struct buffers *buffers, const struct operation *operation,
                               const struct shape *shape, size_t element_bytes, bool in_place,
                               bool mapped, int set_count);
void buffers_release(struct buffers *buffers);

/* Inputs of the pattern; whatever a right call overwrites holds poison. */
void buffers_fill(struct buffers *buffers, int set, const struct pattern *pattern);
/* For timing: inputs of the pattern, or zeros where results of one call become inputs of the next. */
void buffers_fill_for_timing(struct buffers *buffers, int set, const struct pattern *pattern);
/* Compares every element and guard byte of the set with what a right call leaves; returns how many elements
 * are wrong. The first one is described in text ("" when none is). */
size_t buffers_check(const struct buffers *buffers, int set, const struct pattern *pattern,
                     char *text, size_t text_bytes);

#endif
