/* table_initial.h - the value that an element has before anybody has changed it.
 *
 * It depends on the table's seed, the row and the column alone, so every server makes the same row,
 * whenever and in whatever order. It is computed in integers and by at most two roundings, so it has
 * the same bits on every machine. A dense element is column 0 of the row of its index.
 */
#ifndef TUTTI_SERVER_TABLE_INITIAL_H
#define TUTTI_SERVER_TABLE_INITIAL_H

#include <stddef.h>
#include <stdint.h>

enum table_initial_kind {
    TABLE_INITIAL_CONSTANT, /* the value */
    TABLE_INITIAL_UNIFORM,  /* evenly distributed in [-scale, scale) */
    /* Mean 0 and standard deviation `scale`: the sum of twelve evenly distributed numbers, which is
     * near to a normal distribution, and never farther than six deviations from 0. */
    TABLE_INITIAL_NORMAL
};

struct table_initial {
    enum table_initial_kind kind;
    float value; /* of CONSTANT */
    float scale; /* of the others; finite, not negative */
};

/* The first `width` elements of the row. Pure. */
void table_initial_row(const struct table_initial *initial, uint64_t seed, uint64_t row,
                       size_t width, float *out);

#endif
