/* plan_rounds.h - for tests of published properties: plans by name, the rounds of a listed
 * algorithm, and what is sent in them. */
#ifndef TUTTI_TESTS_PLANS_PLAN_ROUNDS_H
#define TUTTI_TESTS_PLANS_PLAN_ROUNDS_H

#include "algo/algo.h"
#include "studio/plan/rounds.h"

/* Of that listed algorithm; ends the program when there is no such algorithm or plan. plan_free()
 * it. */
struct plan *plan_named(const char *name, const struct algo_params *params);

struct plan_rounds {
    struct plan *plan;
    struct rounds rounds;
};

/* At that many messages a lane and round (0: any number). Ends the program as plan_named does. */
struct plan_rounds plan_rounds_of(const char *name, const struct algo_params *params,
                                  unsigned ports);
void plan_rounds_release(struct plan_rounds *plan_rounds);

/* The most ranks that one rank sends to, or hears from, in one round; several messages to one rank
 * count once. */
int plan_rounds_peers_max(const struct plan_rounds *plan_rounds);
/* The most messages from one rank to one other in a round. */
int plan_rounds_messages_max(const struct plan_rounds *plan_rounds);
/* Chunks that the rank sends, to whomever. */
uint32_t plan_rounds_chunks_sent(const struct plan_rounds *plan_rounds, int rank);

/* The logarithm of count, rounded up. */
uint32_t log_up(int count, int base);

#endif
