/* shards_pool.h - memory for groups that are gathered, or whose gradients are being reduced: a
 * group takes it and gives it back, and another group of the same size takes it again.
 */
#ifndef TUTTI_TRAIN_SHARDS_POOL_H
#define TUTTI_TRAIN_SHARDS_POOL_H

#include <stddef.h>

#include "tutti/tutti.h"

struct shards_buffer;

/* Zeros are a pool. */
struct shards_pool {
    struct shards_buffer *unused; /* in a list */
    size_t bytes, bytes_max;      /* from the system, with unused buffers: now; the most so far */
    size_t table_bytes;           /* for its own notes about them, likewise the most */
};

/* Gives a buffer, 64-byte aligned, whose contents are undefined. NO_MEMORY, NO_SPACE. */
enum tutti_status shards_pool_take(struct shards_pool *pool, size_t bytes,
                                   struct shards_buffer **buffer);
void *shards_buffer_memory(struct shards_buffer *buffer);
/* NULL is allowed. */
void shards_pool_give(struct shards_pool *pool, struct shards_buffer *buffer);
/* Everything that was taken must have been given back. */
void shards_pool_release(struct shards_pool *pool);

#endif
