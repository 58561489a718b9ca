/* shards_layout.h - which elements of a group each rank owns.
 *
 *     blocks of TUTTI_SHARDS_BLOCK   | 0 | 1 | 2 | 3 | 4 | 5 |6|     the last one may be shorter
 *     3 ranks                        |<- 0 ->|<- 1 ->|<-- 2 -->|
 *
 * Ranks own whole blocks, so the sum over a block does not depend on which rank owns it. With fewer
 * blocks than ranks, some ranks own nothing.
 */
#ifndef TUTTI_TRAIN_SHARDS_LAYOUT_H
#define TUTTI_TRAIN_SHARDS_LAYOUT_H

#include <stddef.h>

#include "tutti/train/shards.h"

struct shards_range {
    size_t first, count;
};

static inline size_t shards_blocks(size_t count)
{
    return count / TUTTI_SHARDS_BLOCK + (count % TUTTI_SHARDS_BLOCK != 0);
}

/* The blocks that a rank owns of a group of `count` elements. */
static inline struct shards_range shards_own_blocks(size_t count, int rank, int size)
{
    const size_t share = shards_blocks(count) / (size_t)size;
    const size_t rest = shards_blocks(count) % (size_t)size, r = (size_t)rank;
    /* The last ranks have one block more, since rank 0 has other work. */
    const size_t before = (size_t)size - rest;
    return (struct shards_range){share * r + (r > before ? r - before : 0), share + (r >= before)};
}

/* The same as elements. */
static inline struct shards_range shards_own(size_t count, int rank, int size)
{
    const struct shards_range blocks = shards_own_blocks(count, rank, size);
    const size_t first = blocks.first * TUTTI_SHARDS_BLOCK;
    const size_t end = (blocks.first + blocks.count) * TUTTI_SHARDS_BLOCK;
    if (blocks.count == 0) return (struct shards_range){first < count ? first : count, 0};
    return (struct shards_range){first, (end < count ? end : count) - first};
}

#endif
