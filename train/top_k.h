/* top_k.h - the largest elements of a tensor, by magnitude, as pairs of place and value.
 *
 * A selection of k elements is k places (uint32, rising), then k values (float32) in the same
 * order: 8 k bytes. NaN counts as larger than everything; of equal magnitudes the first elements
 * are taken. So the selection is a function of the numbers alone.
 */
#ifndef TUTTI_TRAIN_TOP_K_H
#define TUTTI_TRAIN_TOP_K_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Places are of 32 bits. */
#define TOP_K_COUNT_MAX UINT32_MAX

/* The bytes of a selection of k elements. */
static inline size_t top_k_bytes(size_t k)
{
    return k * (sizeof(uint32_t) + sizeof(float));
}

/* How many elements are the share of `count`: at least 1 of any. */
size_t top_k_of(size_t count, double share);

/* Selects k of `count` elements, 1 <= k <= count <= TOP_K_COUNT_MAX. Reads the elements three
 * times. `room`: 2^16 numbers, whose contents do not matter. */
enum { TOP_K_ROOM = 1 << 16 };
void top_k_select(const float *elements, size_t count, size_t k, uint32_t *room, void *selection);

/* Whether all places are below `count` and rise, in a selection from elsewhere. */
bool top_k_is_valid(const void *selection, size_t k, size_t count);

/* Adds the values of a selection to the elements at their places. */
void top_k_add(const void *selection, size_t k, float *elements);
/* Sets the elements at the places of a selection to 0. */
void top_k_clear(const void *selection, size_t k, float *elements);

#endif
