/* elements.h - inputs whose results are exact in every dtype, and what must come out, for tests of
 * collectives.
 *
 * What a rank contributes repeats with a prime period in the element's index, so that an expected
 * element costs a look into a table. What is only moved may be any bytes.
 */
#ifndef TUTTI_TESTS_KIT_ELEMENTS_H
#define TUTTI_TESTS_KIT_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/op.h"
#include "tutti/tutti.h"

enum { ELEMENTS_PERIOD = 251 };

/* One period of elements, twice, so that any run of up to a period is at hand in one piece. */
struct elements {
    size_t element_bytes;
    unsigned char bytes[2 * ELEMENTS_PERIOD * 8];
};

/* OP_SCALED_SUM is the sum times 3/4. OP_USER is not commutative: each byte of an element is a
 * function x -> ax + b modulo 16 (a in the high bits), and functions are composed, that of the left
 * operand applied first. */
bool elements_supported(enum op kind, enum tutti_dtype dtype);
/* The handle, to be given back with tutti_op_free; NULL when there is no memory for it. */
tutti_op elements_op(enum op kind);

/* What a rank of `size` contributes to a reduction, and the reduction. */
void elements_contribution(struct elements *elements, enum tutti_dtype dtype, enum op kind,
                           int rank, int size);
void elements_result(struct elements *elements, enum tutti_dtype dtype, enum op kind, int size);
/* Any bytes of that rank. */
void elements_bytes(struct elements *elements, enum tutti_dtype dtype, int rank);

/* The largest magnitude of a contribution to OP_SUM, OP_AVG or OP_MAX, and of the result. */
double elements_largest(enum tutti_dtype dtype);
/* Elements first_index, first_index + 1, ... into a buffer at any alignment. */
void elements_fill(void *buffer, const struct elements *elements, size_t first_index, size_t count);
/* The first element that is not as it should be, or count. */
size_t elements_first_wrong(const void *buffer, const struct elements *elements, size_t first_index,
                            size_t count);

/* A hash of two numbers. */
uint64_t elements_mixed(uint64_t a, uint64_t b);

#endif
