#include "server/payload.h"

#include <stdalign.h>
#include <stdlib.h>

enum { LARGE = 64 << 10 };

struct payload {
    alignas(64) struct payload *next;
    struct payload_pool *pool;
    size_t capacity;
};

void *payload_bytes(struct payload *payload)
{
    return payload + 1;
}

/* Frees kept blocks until the pool has no more bytes than were in use at once. */
static void shrink(struct payload_pool *pool)
{
    while (pool->kept != NULL && pool->kept_bytes + pool->used_bytes > pool->used_bytes_max) {
        struct payload *const first = pool->kept;
        pool->kept = first->next;
        pool->kept_bytes -= first->capacity;
        free(first);
    }
}

/* The smallest one that fits, unless it would be half empty. */
static struct payload *find_kept(struct payload_pool *pool, size_t bytes)
{
    struct payload **best = NULL;
    for (struct payload **at = &pool->kept; *at != NULL; at = &(*at)->next)
        if ((*at)->capacity >= bytes && (*at)->capacity / 2 <= bytes &&
            (best == NULL || (*at)->capacity < (*best)->capacity))
            best = at;
    if (best == NULL) return NULL;
    struct payload *const found = *best;
    *best = found->next;
    pool->kept_bytes -= found->capacity;
    return found;
}

struct payload *payload_take(struct payload_pool *pool, size_t bytes)
{
    struct payload *payload = bytes < LARGE ? NULL : find_kept(pool, bytes);
    if (payload == NULL) {
        if (bytes > SIZE_MAX / 2) return NULL;
        const size_t all = (sizeof *payload + bytes + 63) / 64 * 64;
        payload = aligned_alloc(64, all);
        if (payload == NULL) return NULL;
        payload->pool = pool;
        payload->capacity = bytes;
    }
    if (bytes < LARGE) return payload;
    pool->used_bytes += payload->capacity;
    if (pool->used_bytes > pool->used_bytes_max) pool->used_bytes_max = pool->used_bytes;
    shrink(pool);
    return payload;
}

void payload_give(struct payload *payload)
{
    if (payload == NULL) return;
    if (payload->capacity < LARGE) {
        free(payload);
        return;
    }
    struct payload_pool *const pool = payload->pool;
    pool->used_bytes -= payload->capacity;
    pool->kept_bytes += payload->capacity;
    payload->next = pool->kept;
    pool->kept = payload;
}

void payload_pool_release(struct payload_pool *pool)
{
    pool->used_bytes_max = 0;
    shrink(pool);
}
