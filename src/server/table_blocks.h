/* table_blocks.h - rows in blocks, in the order in which they were added, and never moved.
 *
 *     block   ├ rows: their numbers ┤├ row 0: values, state ┤├ row 1: values, state ┤ ..
 *
 * A block has a power of two of rows, about BLOCK_BYTES. One block is taken in advance.
 */
#ifndef TUTTI_SERVER_TABLE_BLOCKS_H
#define TUTTI_SERVER_TABLE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/table_memory.h"

struct table_block {
    int64_t *rows;    /* [rows of a block] */
    float *records;   /* [rows of a block][floats of a row]; behind the rows, in the same memory */
    uint64_t version; /* of the last change */
};

struct table_blocks {
    struct table_memory *memory;
    struct table_block *list;
    uint32_t count, capacity; /* of the list */
    uint32_t shift;           /* a block has 1 << shift rows */
    uint32_t row_count;
    size_t row_floats; /* of values and state */
};

enum { TABLE_BLOCK_BYTES = 128 << 10 };
/* Places are below it. */
#define TABLE_PLACE_NONE UINT32_MAX

void table_blocks_init(struct table_blocks *blocks, struct table_memory *memory, size_t row_floats);
void table_blocks_release(struct table_blocks *blocks);
/* Adds the row at place row_count, with an undefined record. false: no memory, or no places; nothing
 * has changed. */
bool table_blocks_add(struct table_blocks *blocks, int64_t row);

static inline struct table_block *table_block_of(const struct table_blocks *blocks, uint32_t place)
{
    return &blocks->list[place >> blocks->shift];
}
static inline int64_t *table_blocks_row(const struct table_blocks *blocks, uint32_t place)
{
    return &table_block_of(blocks, place)->rows[place & ((1u << blocks->shift) - 1)];
}
static inline float *table_blocks_record(const struct table_blocks *blocks, uint32_t place)
{
    const size_t in_block = place & ((1u << blocks->shift) - 1);
    return table_block_of(blocks, place)->records + in_block * blocks->row_floats;
}
/* Rows of a block that are there. index < count */
static inline uint32_t table_blocks_rows_of(const struct table_blocks *blocks, uint32_t index)
{
    const uint32_t whole = 1u << blocks->shift, rest = blocks->row_count - (index << blocks->shift);
    return rest < whole ? rest : whole;
}

#endif
