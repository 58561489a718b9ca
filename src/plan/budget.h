/* budget.h - how much work and memory a plan from outside may cost to read and to prove.
 *
 *     text ──► plan_parse_within ──► plan ──► plan_verify ──► proven
 *                      │                          │
 *                      └──── charge a budget ─────┘   and give up as soon as one of its four ends is reached
 *
 * A few bytes of text can name millions of chunks, messages and accesses. So code whose work or
 * memory grows with these, and not with the text, charges them first. Work is counted in *looks*:
 * at a chunk, a clock, an earlier access. A look takes 10 to 200 ns, as caches allow. How many
 * looks a plan takes does not depend on the machine, so all ranks refuse the same plans for their
 * work or memory; the deadline may be reached on one rank alone.
 */
#ifndef TUTTI_PLAN_BUDGET_H
#define TUTTI_PLAN_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum plan_budget_end {
    PLAN_BUDGET_LASTS,
    PLAN_BUDGET_WORK,
    PLAN_BUDGET_BYTES,
    PLAN_BUDGET_DEADLINE,
    PLAN_BUDGET_STOPPED
};

struct plan_budget {
    uint64_t work_max, bytes_max;
    uint64_t deadline_ns; /* of clock_now_ns; UINT64_MAX: none */
    /* Whether nobody needs the result any more; asked as often as the clock. NULL: no. */
    bool (*is_stopped)(const void *context);
    const void *context;

    uint64_t work,
        bytes; /* charged so far; bytes: those that are held now, or the request that was too much included */
    uint64_t look_at; /* the work at which the clock is due */
    enum plan_budget_end end;
};

/* To prove one plan: 2^30 looks (some two minutes) and 512 MiB; no deadline. */
struct plan_budget plan_budget_default(void);
/* To read a plan that is to be proven within such limits: a sixteenth of the looks, since a proof
 * looks at each chunk more often than that. */
struct plan_budget plan_budget_to_read(const struct plan_budget *limits);

/* Whether the budget lasts: for plan_budget_work. */
bool plan_budget_check(struct plan_budget *budget);

/* Charges that many looks. False: the budget has ended, now or earlier. NULL: without end. */
static inline bool plan_budget_work(struct plan_budget *budget, uint64_t looks)
{
    if (budget == NULL) return true;
    budget->work += looks;
    return budget->work < budget->look_at || plan_budget_check(budget);
}

/* Charges memory that is about to be allocated, even if that ends the budget. False and NULL as
 * above. */
bool plan_budget_hold(struct plan_budget *budget, uint64_t bytes);
void plan_budget_release(struct plan_budget *budget, uint64_t bytes);

/* Writes why the budget has ended, and returns the status of that: INVALID_ALGORITHM (work,
 * memory), TIMEOUT (deadline), ABORTED. */
enum tutti_status plan_budget_explain(const struct plan_budget *budget, char *why, size_t why_bytes);

#endif
