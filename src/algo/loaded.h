/* loaded.h - a plan that comes from a file or from the user, as an algorithm.
 *
 *     text or steps ──► plan ──► loaded_create ──► loaded_prove ──► struct algorithm, by a name of its own
 *
 * Such an algorithm does one collective on one number of ranks and, where there is one, from one
 * root. It is not in the list (algo.h), so algo_find does not find it; the code that loaded it
 * hands it on.
 *
 * Before it runs, its proof (plan/verify.h) has to hold for every way in which it can be called:
 *   1. with separate buffers on all ranks, and in place on all ranks,
 *   2. where ranks differ in that. The stores of one rank in another one's memory
 *      (plan/placement.h) depend on these two alone, so every pair of ranks is tried both ways:
 *      ranks that have bit k in their number are in place, and then those that have it not.
 */
#ifndef TUTTI_ALGO_LOADED_H
#define TUTTI_ALGO_LOADED_H

#include <stdbool.h>
#include <stddef.h>

#include "algo/algo.h"
#include "plan/budget.h"
#include "plan/plan.h"

/* More is refused. */
enum { LOADED_RANKS_MAX = 1024, LOADED_STEPS_MAX = 250000 };

/* The findings of a proof besides that the plan is right. */
struct loaded_proof {
    bool in_rank_order; /* operands come in the order of ranks */
    bool has_one_tree;  /* one association tree for every element */
};

/* Takes the plan over. The name is copied. On failure the plan is freed, and *algorithm is NULL:
 * INVALID_ALGORITHM (too many ranks or steps), NO_MEMORY. The algorithm is not to be run before it
 * is proven. */
enum tutti_status loaded_create(const char *name, struct plan *plan, struct algorithm **algorithm);
void loaded_free(struct algorithm *algorithm);

/* Charges all its proofs, some twice lg n, to the budget, which stays the caller's.
 * INVALID_ALGORITHM: it is wrong, and this thread's message says how it was called, and which rank,
 * lane and step it shows at; or it costs more work or memory than the budget has, and the message
 * says how much. TIMEOUT, ABORTED: nothing is known, since the budget's deadline has passed or it
 * was stopped. NO_MEMORY. Any thread; blocks until the budget ends, at most. */
enum tutti_status loaded_prove(const struct algorithm *algorithm, struct plan_budget *budget,
                               struct loaded_proof *proof);
/* Gives the algorithm the promises that its proof showed, now or earlier. */
void loaded_set_proof(struct algorithm *algorithm, const struct loaded_proof *proof);

#endif
