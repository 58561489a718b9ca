#include "shards_pool.h"

#include <stdlib.h>

#include "base/status.h"

struct shards_buffer {
    struct shards_buffer *next;
    void *memory; /* of tutti_mem_alloc: peers of this host read it in place */
    size_t bytes;
};

enum tutti_status shards_pool_take(struct shards_pool *pool, size_t bytes,
                                   struct shards_buffer **buffer)
{
    for (struct shards_buffer **at = &pool->unused; *at != NULL; at = &(*at)->next) {
        if ((*at)->bytes != bytes) continue;
        *buffer = *at;
        *at = (*at)->next;
        return TUTTI_OK;
    }
    struct shards_buffer *made = calloc(1, sizeof *made);
    if (made == NULL) return error_set(TUTTI_NO_MEMORY, "shards: out of memory");
    const enum tutti_status status = tutti_mem_alloc(bytes, &made->memory);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    made->bytes = bytes;
    pool->bytes += bytes;
    pool->table_bytes += sizeof *made;
    if (pool->bytes > pool->bytes_max) pool->bytes_max = pool->bytes;
    *buffer = made;
    return TUTTI_OK;
}

void *shards_buffer_memory(struct shards_buffer *buffer)
{
    return buffer->memory;
}

void shards_pool_give(struct shards_pool *pool, struct shards_buffer *buffer)
{
    if (buffer == NULL) return;
    buffer->next = pool->unused;
    pool->unused = buffer;
}

void shards_pool_release(struct shards_pool *pool)
{
    while (pool->unused != NULL) {
        struct shards_buffer *const buffer = pool->unused;
        pool->unused = buffer->next;
        pool->bytes -= buffer->bytes;
        tutti_mem_free(buffer->memory);
        free(buffer);
    }
}
