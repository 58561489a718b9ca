/* sparse_index.h - indices as they travel: increasing indices of a range of rows, in as few bytes
 * as one of these codes needs.
 *
 *     rows 0 to 9, indices 1 4 9     list      01 00  04 00  09 00     2, 4 or 8 bytes each, from
 *                                                                      the first row of the range
 *                                    bitmap    00010010 00000010       a bit for each row
 *                                    nothing   where all rows are there, or none
 *
 * Both ends know the range and the number of indices, and so which code it is and how long. With a
 * bitmap, indices never take more than 1/32 of what a dense float32 vector would.
 */
#ifndef TUTTI_TRAIN_SPARSE_INDEX_H
#define TUTTI_TRAIN_SPARSE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the code of `count` indices, count <= range. */
size_t sparse_index_bytes(size_t count, uint64_t range);
/* Writes the code of increasing indices from `first` to first + range - 1. */
void sparse_index_encode(const int64_t *indices, size_t count, int64_t first, uint64_t range,
                         unsigned char *code);
/* Reads sparse_index_bytes(count, range) bytes from another rank into indices[count]. false: they
 * are not the code of `count` increasing indices of that range; indices are then undefined. */
bool sparse_index_decode(const unsigned char *code, size_t count, int64_t first, uint64_t range,
                         int64_t *indices);

#endif
