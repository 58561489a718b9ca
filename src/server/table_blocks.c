#include "server/table_blocks.h"

#include <string.h>

enum { FLOATS_OF_A_LINE = 16, ROWS_SHIFT_MAX = 12 };

void table_blocks_init(struct table_blocks *blocks, struct table_memory *memory, size_t row_floats)
{
    *blocks = (struct table_blocks){.memory = memory, .row_floats = row_floats};
    const size_t row_bytes = sizeof(int64_t) + row_floats * sizeof(float);
    while (blocks->shift < ROWS_SHIFT_MAX && row_bytes << (blocks->shift + 1) <= TABLE_BLOCK_BYTES)
        blocks->shift++;
}

/* Floats of the part with the numbers of rows, so that records begin a cache line. */
static size_t head_floats(const struct table_blocks *blocks)
{
    const size_t floats = ((size_t)1 << blocks->shift) * (sizeof(int64_t) / sizeof(float));
    return (floats + FLOATS_OF_A_LINE - 1) / FLOATS_OF_A_LINE * FLOATS_OF_A_LINE;
}

static uint64_t block_bytes(const struct table_blocks *blocks)
{
    return (head_floats(blocks) + ((uint64_t)blocks->row_floats << blocks->shift)) * sizeof(float);
}

void table_blocks_release(struct table_blocks *blocks)
{
    for (uint32_t i = 0; i < blocks->count; i++)
        table_memory_give(blocks->memory, blocks->list[i].rows, block_bytes(blocks));
    table_memory_give(blocks->memory, blocks->list, blocks->capacity * sizeof *blocks->list);
    blocks->list = NULL;
    blocks->count = blocks->capacity = blocks->row_count = 0;
}

static bool lengthen_list(struct table_blocks *blocks)
{
    const uint32_t capacity = blocks->capacity + blocks->capacity / 2 + 8;
    struct table_block *const list =
        table_memory_take(blocks->memory, capacity * sizeof *blocks->list);
    if (list == NULL) return false;
    if (blocks->count > 0) memcpy(list, blocks->list, blocks->count * sizeof *list);
    table_memory_give(blocks->memory, blocks->list, blocks->capacity * sizeof *list);
    blocks->list = list;
    blocks->capacity = capacity;
    return true;
}

static bool add_block(struct table_blocks *blocks)
{
    if (blocks->count == blocks->capacity && !lengthen_list(blocks)) return false;
    float *const memory = table_memory_take(blocks->memory, block_bytes(blocks));
    if (memory == NULL) return false;
    blocks->list[blocks->count++] =
        (struct table_block){(int64_t *)memory, memory + head_floats(blocks), 0};
    return true;
}

bool table_blocks_add(struct table_blocks *blocks, int64_t row)
{
    if (blocks->row_count == TABLE_PLACE_NONE - (1u << ROWS_SHIFT_MAX)) return false;
    if (blocks->row_count >> blocks->shift == blocks->count && !add_block(blocks)) return false;
    *table_blocks_row(blocks, blocks->row_count) = row;
    blocks->row_count++;
    return true;
}
