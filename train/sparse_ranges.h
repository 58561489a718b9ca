/* sparse_ranges.h - which rank owns which rows: ranges of indices, in the order of ranks.
 *
 * Pure: all ranks compute the same from the same numbers, without floating point.
 */
#ifndef TUTTI_TRAIN_SPARSE_RANGES_H
#define TUTTI_TRAIN_SPARSE_RANGES_H

#include <stddef.h>
#include <stdint.h>

/* Rank r owns firsts[r] to firsts[r + 1] - 1: firsts has size + 1 entries, from 0 to row_count. */

/* Ranges of equally many rows, the first ones of one more. */
void sparse_ranges_even(uint64_t row_count, int size, int64_t *firsts);

/* `weight` of a rank's indices, which follow each other in its list and begin with `index`. */
struct sparse_sample {
    uint64_t index, weight;
};
/* Ranges of about equally many indices, as samples of all ranks' lists show them. Sorts the samples.
 * Each boundary is off by at most one sample of each rank. Their weights together fit into
 * uint64_t. */
void sparse_ranges_balanced(struct sparse_sample *samples, size_t sample_count, uint64_t row_count,
                            int size, int64_t *firsts);

/* The first place of increasing indices from which on none is below `index`. */
size_t sparse_find(const int64_t *indices, size_t count, int64_t index);

#endif
