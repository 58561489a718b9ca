/* vector_clock.h - vector clocks over all lanes of a plan, shared until they change.
 *
 * An entry says what is known of a lane:  2k + 1  its step k comes before, position by position of the range;
 *                                         2k + 2  its step k is completed;            0  nothing.
 * So larger is later, and joining is taking the larger.
 */
#ifndef TUTTI_PLAN_VECTOR_CLOCK_H
#define TUTTI_PLAN_VECTOR_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/budget.h"

/* Four entries, below 2^31 so that comparing them signed is right: that is one instruction
 * anywhere. */
typedef int32_t clock_entries __attribute__((vector_size(16), may_alias));

struct clock {
    uint32_t references;
    struct clock *next_free;
    uint32_t entries[] __attribute__((aligned(16)));
};

struct clock_pool {
    uint32_t width; /* entries, a multiple of those of clock_entries */
    struct clock *free;
    struct plan_budget *budget; /* or NULL */
};

static inline uint32_t clock_before(uint32_t step)
{
    return 2 * step + 1;
}

static inline uint32_t clock_completed(uint32_t step)
{
    return 2 * step + 2;
}

void clock_pool_init(struct clock_pool *pool, uint32_t lane_count, struct plan_budget *budget);
/* All clocks must have been dropped. */
void clock_pool_release(struct clock_pool *pool);

/* A clock that knows nothing, of one holder; NULL when out of memory, or of the budget. */
struct clock *clock_take(struct clock_pool *pool);
struct clock *clock_keep(struct clock *clock);
/* NULL is allowed. */
void clock_drop(struct clock_pool *pool, struct clock *clock);

/* Replaces *clock, if others hold it too, by a copy for this holder alone; false when out of
 * memory. */
bool clock_own(struct clock_pool *pool, struct clock **clock);
/* Adds what another lane's clock knows, and `entry` of that lane itself. */
void clock_join(struct clock_pool *pool, struct clock *into, const struct clock *from,
                uint32_t lane, uint32_t entry);
/* Everything that came before is now completed, for this holder alone; false when out of memory. */
bool clock_complete(struct clock_pool *pool, struct clock **clock);

#endif
