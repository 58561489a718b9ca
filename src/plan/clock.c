#include "plan/clock.h"

#include <stdlib.h>
#include <string.h>

void clock_pool_init(struct clock_pool *pool, uint32_t width)
{
    *pool = (struct clock_pool){.width = width};
}

void clock_pool_release(struct clock_pool *pool)
{
    while (pool->free != NULL) {
        struct clock *clock = pool->free;
        pool->free = clock->next_free;
        free(clock);
    }
}

struct clock *clock_take(struct clock_pool *pool)
{
    struct clock *clock = pool->free;
    if (clock != NULL)
        pool->free = clock->next_free;
    else
        clock = malloc(sizeof *clock + pool->width * sizeof clock->entries[0]);
    if (clock != NULL) clock->references = 1;
    return clock;
}

struct clock *clock_keep(struct clock *clock)
{
    clock->references++;
    return clock;
}

void clock_drop(struct clock_pool *pool, struct clock *clock)
{
    if (clock == NULL || --clock->references > 0) return;
    clock->next_free = pool->free;
    pool->free = clock;
}

bool clock_own(struct clock_pool *pool, struct clock **clock)
{
    if ((*clock)->references == 1) return true;
    struct clock *copy = clock_take(pool);
    if (copy == NULL) return false;
    memcpy(copy->entries, (*clock)->entries, pool->width * sizeof copy->entries[0]);
    clock_drop(pool, *clock);
    *clock = copy;
    return true;
}

void clock_join(struct clock_pool *pool, struct clock *into, const struct clock *from,
                uint32_t lane, uint32_t entry)
{
    uint32_t *restrict to = into->entries;
    const uint32_t *restrict other = from->entries;
    for (uint32_t i = 0; i < pool->width; i++) to[i] = to[i] > other[i] ? to[i] : other[i];
    if (to[lane] < entry) to[lane] = entry;
}

void clock_complete(struct clock_pool *pool, struct clock *clock)
{
    for (uint32_t i = 0; i < pool->width; i++)
        clock->entries[i] += clock->entries[i] & 1;
}
