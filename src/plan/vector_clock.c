#include "plan/vector_clock.h"

#include <stdlib.h>
#include <string.h>

enum { PER_VECTOR = sizeof(clock_entries) / sizeof(uint32_t) };

void clock_pool_init(struct clock_pool *pool, uint32_t lane_count, struct plan_budget *budget)
{
    *pool = (struct clock_pool){.width = (lane_count + PER_VECTOR - 1) / PER_VECTOR * PER_VECTOR,
                                .budget = budget};
}

void clock_pool_release(struct clock_pool *pool)
{
    while (pool->free != NULL) {
        struct clock *clock = pool->free;
        pool->free = clock->next_free;
        free(clock);
    }
}

/* With entries still to be written. */
static struct clock *take(struct clock_pool *pool)
{
    const size_t bytes = sizeof(struct clock) + pool->width * sizeof(uint32_t);
    struct clock *clock = pool->free;
    if (clock != NULL)
        pool->free = clock->next_free;
    else if (plan_budget_hold(pool->budget, bytes))
        clock = malloc(bytes);
    if (clock != NULL) clock->references = 1;
    return clock;
}

struct clock *clock_take(struct clock_pool *pool)
{
    struct clock *clock = take(pool);
    if (clock != NULL) memset(clock->entries, 0, pool->width * sizeof clock->entries[0]);
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
    struct clock *copy = take(pool);
    if (copy == NULL) return false;
    memcpy(copy->entries, (*clock)->entries, pool->width * sizeof copy->entries[0]);
    clock_drop(pool, *clock);
    *clock = copy;
    return true;
}

static clock_entries larger(clock_entries a, clock_entries b)
{
    const clock_entries a_is_larger = a > b;
    return (a & a_is_larger) | (b & ~a_is_larger);
}

void clock_join(struct clock_pool *pool, struct clock *into, const struct clock *from,
                uint32_t lane, uint32_t entry)
{
    clock_entries *to = (clock_entries *)into->entries;
    const clock_entries *other = (const clock_entries *)from->entries;
    for (uint32_t i = 0; i < pool->width / PER_VECTOR; i++) to[i] = larger(to[i], other[i]);
    if (into->entries[lane] < entry) into->entries[lane] = entry;
}

bool clock_complete(struct clock_pool *pool, struct clock **clock)
{
    struct clock *completed = *clock;
    if (completed->references > 1) completed = take(pool);
    if (completed == NULL) return false;
    clock_entries *to = (clock_entries *)completed->entries;
    const clock_entries *from = (const clock_entries *)(*clock)->entries;
    for (uint32_t i = 0; i < pool->width / PER_VECTOR; i++) to[i] = from[i] + (from[i] & 1);
    if (completed != *clock) clock_drop(pool, *clock);
    *clock = completed;
    return true;
}
