/* contents.h - what a rank holds of every chunk, round by round: the best that it has seen, stored
 * or on its way through.
 *
 * A rank has a *cell* for each chunk that can be of use there. An all-to-all shows inputs at the
 * start and outputs from then on; a barrier has one cell a rank, for the ranks that are known to
 * have entered.
 *
 *     contents_init ──► the inputs ── contents_show_round 0 ──► ── contents_show_round 1 ──► ... up to round_count
 */
#ifndef TUTTI_STUDIO_PLAN_CONTENTS_H
#define TUTTI_STUDIO_PLAN_CONTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"
#include "studio/plan/rounds.h"

struct contents_cell {
    bool held;
    bool fresh;   /* has changed in this round */
    bool changed; /* fresh in this round or before, and not looked at since: whoever looks says so */
    struct round_value value;
};

struct contents {
    const struct plan *plan; /* the caller's, as are the following two */
    const struct rounds *rounds;
    const struct rounds_options *options;
    uint32_t cell_count;         /* of one rank */
    struct contents_cell *cells; /* rank after rank */
};

/* How many cells a rank has. */
uint32_t contents_cell_count(const struct plan_shape *shape);

/* Shows the inputs; none of them is fresh. The options are those of the rounds. NO_MEMORY: there is
 * nothing to release. Any thread, as for all functions here. */
enum tutti_status contents_init(struct contents *contents, const struct plan *plan,
                                const struct rounds *rounds, const struct rounds_options *options);
void contents_release(struct contents *contents);
/* Shows the results of a round, after those of all rounds before it. The results of round 0 are
 * what the ranks had anyway. */
void contents_show_round(struct contents *contents, uint32_t round);

static inline struct contents_cell *contents_of(const struct contents *contents, int rank)
{
    return contents->cells + (uint32_t)rank * contents->cell_count;
}

/* The bits of all ranks, as in round_value. */
static inline uint64_t contents_all_ranks(const struct plan *plan)
{
    return UINT64_MAX >> (64 - plan->shape.rank_count);
}

bool contents_is_complete(const struct contents *contents, const struct contents_cell *cell);
/* Whether the collective promises this cell to this rank in the end. */
bool contents_is_wanted(const struct contents *contents, int rank, uint32_t cell);

#endif
