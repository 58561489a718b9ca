/* spread.h - a buffer that lies in pieces, and what every byte of its memory must be after a call.
 *
 *     memory    | guard | piece 1 | gap | piece 0 | piece 2 | gap | ... | guard |
 *     places      0 .. count - 1: elements of piece 0, then of piece 1, ... whatever the order in memory
 *
 * A test writes inputs into the memory, copies all of it as what is expected, writes results into
 * that copy, calls, and compares: gaps, guards and inputs that changed show as well as wrong
 * results.
 */
#ifndef TUTTI_TESTS_KIT_SPREAD_H
#define TUTTI_TESTS_KIT_SPREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/kit/elements.h"
#include "tutti/tutti.h"

enum spread_order { SPREAD_PACKED, SPREAD_GAPS, SPREAD_SHUFFLED };

/* Where it lies: on the heap, in memory of tutti_mem_alloc, or so that its last or first byte is
 * beside a page that nobody may touch (and there is no guard on that side). */
enum spread_memory { SPREAD_HEAP, SPREAD_MAPPED, SPREAD_FENCED_END, SPREAD_FENCED_BEGIN };

struct spread {
    size_t element_bytes;
    size_t piece_count;
    size_t *counts;  /* elements */
    size_t *offsets; /* elements from base */
    size_t count;    /* of all pieces */
    unsigned char *base;
    unsigned char *memory, *expected;
    size_t bytes;
    enum spread_memory kind;
    unsigned char *region; /* of fenced memory: with its fences */
    size_t region_bytes;
};

/* The next number of a sequence. */
uint64_t spread_random(uint64_t *state);

/* On the heap; base lies shift bytes off a cache line. False: out of memory; spread_release is
 * allowed all the same. */
bool spread_init(struct spread *spread, const size_t *counts, size_t piece_count,
                 size_t element_bytes, enum spread_order order, size_t shift, uint64_t *random);
/* The same in memory of that kind; at a fence, shift is between the fence and the elements. */
bool spread_init_in(struct spread *spread, enum spread_memory kind, const size_t *counts,
                    size_t piece_count, size_t element_bytes, enum spread_order order, size_t shift,
                    uint64_t *random);
void spread_release(struct spread *spread);

/* `count` elements of the table, from first_index on, to the places from first on: into the memory,
 * or into what is expected of it. */
void spread_put(struct spread *spread, bool expected, size_t first, size_t count,
                const struct elements *table, size_t first_index);
/* Poison instead of elements, into the memory. */
void spread_poison(struct spread *spread, size_t first, size_t count);
/* From now on what is in the memory is expected. */
void spread_expect(struct spread *spread);
/* Elements of float32, bfloat16 or float16 from first on that are not further than the tolerance from
 * those expected become the expected ones. 0: none. */
void spread_accept(struct spread *spread, size_t first, size_t count, enum tutti_dtype dtype,
                   double tolerance);
/* A hash of the elements in the memory from first on. */
uint64_t spread_number(const struct spread *spread, size_t first, size_t count);
/* The first byte that is not as expected, counted from base; false: there is none. */
bool spread_is_wrong(const struct spread *spread, long *byte);

/* The pieces of so many elements from first on as a list of tensors, empty ones included; room for
 * piece_count tensors. Returns their number. */
size_t spread_tensors(const struct spread *spread, size_t first, size_t count,
                      struct tutti_tensor *tensors);

#endif
