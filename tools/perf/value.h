/* value.h - the values that go into the buffers and those that must come out, element by
 * element.
 *
 * Inputs are a hash of (rank, index, salt), so that a swapped block, a missing or doubled
 * contribution and a stale value all show. They are bounded so that every partial result is exact
 * in the dtype, whatever the order of the reduction; results are then compared bit by bit:
 *
 *     copies            any bits, but never those of the poison
 *     min, max          the largest range of integers that the dtype holds exactly
 *     sum, scaled, avg  floats: that range divided by the number of ranks. Integers: anything for
 *                       sum (it wraps), no overflow for avg. avg is the exact quotient, rounded
 *                       once.
 *     prod              floats: +-1, and +-2 or +-1/2 of a few ranks. Integers: odd numbers, so
 *                       that no factor can hide.
 *     logical           zeros so often that about a third of the results of land are 1, and of lor
 *                       0
 *     band, bor         bits so often that many survive
 *     user              any bits that are a function with an inverse
 *
 * Where calls go encoded (encoded.h), inputs and results are no larger than the encoding has numbers,
 * copies are integers as of min, and results may differ from the exact ones by a tolerance.
 *
 * Elements lie at any alignment.
 */
#ifndef TUTTI_TOOLS_PERF_VALUE_H
#define TUTTI_TOOLS_PERF_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "encoded.h"
#include "reduction.h"
#include "tutti/tutti.h"

enum { VALUE_POISON = 0xfb }; /* each byte; as a float: not a value of any reduction */

struct pattern {
    enum tutti_dtype dtype;
    bool reduces; /* false: copies; reduction means nothing */
    enum reduction reduction;
    int rank_count;
    uint64_t salt; /* another salt, other values */
    struct perf_encoded encoded;
};

/* How much a result may differ from the exact one. */
double value_tolerance(const struct pattern *pattern);

/* Writes elements first .. first + count - 1 of that rank's input. */
void value_inputs(const struct pattern *pattern, int rank, size_t first, size_t count,
                  void *elements);
/* Writes the reduction of these elements over all ranks. */
void value_reduced(const struct pattern *pattern, size_t first, size_t count, void *elements);

#endif
