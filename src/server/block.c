#include "server/block.h"

#include <stdalign.h>
#include <stdlib.h>

enum { LARGE = 64 << 10 };

struct block {
    alignas(64) struct block *next;
    struct block_pool *pool;
    size_t capacity;
};

void *block_memory(struct block *block)
{
    return block + 1;
}

/* Frees kept blocks until the pool has no more bytes than were in use at once. */
static void shrink(struct block_pool *pool)
{
    while (pool->kept != NULL && pool->kept_bytes + pool->used_bytes > pool->used_bytes_max) {
        struct block *const first = pool->kept;
        pool->kept = first->next;
        pool->kept_bytes -= first->capacity;
        free(first);
    }
}

/* The smallest one that fits, unless it would be half empty. */
static struct block *find_kept(struct block_pool *pool, size_t bytes)
{
    struct block **best = NULL;
    for (struct block **at = &pool->kept; *at != NULL; at = &(*at)->next)
        if ((*at)->capacity >= bytes && (*at)->capacity / 2 <= bytes &&
            (best == NULL || (*at)->capacity < (*best)->capacity))
            best = at;
    if (best == NULL) return NULL;
    struct block *const found = *best;
    *best = found->next;
    pool->kept_bytes -= found->capacity;
    return found;
}

struct block *block_take(struct block_pool *pool, size_t bytes)
{
    struct block *block = bytes < LARGE ? NULL : find_kept(pool, bytes);
    if (block == NULL) {
        if (bytes > SIZE_MAX / 2) return NULL;
        const size_t all = (sizeof *block + bytes + 63) / 64 * 64;
        block = aligned_alloc(64, all);
        if (block == NULL) return NULL;
        block->pool = pool;
        block->capacity = bytes;
    }
    if (bytes < LARGE) return block;
    pool->used_bytes += block->capacity;
    if (pool->used_bytes > pool->used_bytes_max) pool->used_bytes_max = pool->used_bytes;
    shrink(pool);
    return block;
}

void block_give(struct block *block)
{
    if (block == NULL) return;
    if (block->capacity < LARGE) {
        free(block);
        return;
    }
    struct block_pool *const pool = block->pool;
    pool->used_bytes -= block->capacity;
    pool->kept_bytes += block->capacity;
    block->next = pool->kept;
    pool->kept = block;
}

void block_pool_release(struct block_pool *pool)
{
    pool->used_bytes_max = 0;
    shrink(pool);
}
