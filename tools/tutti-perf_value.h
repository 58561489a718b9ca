/* tutti-perf_value.h - what goes into the buffers and what must come out, element by element.
 *
 * Inputs are integers, a hash of (rank, index, salt), so that a swapped block, a missing or doubled
 * contribution and a stale value all show. They are bounded so that every partial result is exact in the
 * dtype, whatever the order of the reduction; results are then compared bit by bit:
 *
 *     copies, min, max   the largest range of integers that the dtype holds exactly
 *     sum, avg           floats: that range divided by the number of ranks. Integers: anything for sum (it
 *                        wraps), no overflow for avg. avg is the exact quotient, rounded once.
 *     prod               floats: +-1 and a few +-2. Integers: odd numbers, so that no factor can hide.
 */
#ifndef TUTTI_PERF_VALUE_H
#define TUTTI_PERF_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct pattern {
    enum tutti_dtype dtype;
    bool reduces; /* false: copies; op means nothing */
    tutti_op op;
    int rank_count;
    uint64_t salt; /* another salt, other values */
};

/* Elements first .. first + count - 1 of that rank's input. */
void value_inputs(const struct pattern *pattern, int rank, size_t first, size_t count,
                  void *elements);
/* The reduction of these elements over all ranks. */
void value_reduced(const struct pattern *pattern, size_t first, size_t count, void *elements);
/* One element in words people read, for messages. */
void value_text(enum tutti_dtype dtype, const void *element, char *text, size_t text_bytes);

#endif
