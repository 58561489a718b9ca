/* generate.h - one rank's plan, by one generator.
 *
 * A generator writes down one rank's steps and nothing else: no allocation, no state, the same
 * parameters on every rank. Plans that are made of other ones (composed.c, hierarchical.c) call the
 * generators of their parts through this; the list of all (algo.h) stands above both and is known
 * to neither.
 */
#ifndef TUTTI_ALGO_GENERATE_H
#define TUTTI_ALGO_GENERATE_H

#include <stdbool.h>

#include "base/collective.h"
#include "plan/build.h"
#include "plan/plan.h"

enum { ALGO_LEVELS_MAX = 4 };

/* The ranks that are near each other: the ranks of a host, from the finest level on, then the hosts
 * of a rack, and so on. The groups of a level may have any numbers. Ranks that are together at one
 * level are together at the next; the groups of the last level are still apart. The same on all
 * ranks. */
struct algo_levels {
    int level_count;                      /* 1 or more */
    const int *group_of[ALGO_LEVELS_MAX]; /* of each rank */
};

struct algo_params {
    enum collective collective;
    int rank_count;
    int root;
    bool in_place; /* input aliases output; links and messages must not depend on it */
    bool encodes; /* links are encoded: in place, algo_rank_plan and algo_plan let the plan begin with a step that rounds the rank's own block (plan/rounding.h) */
    unsigned radix; /* of what has one: 2 or more; 0: the algorithm's default */
    /* The ranks in the order in which they are near each other: ranks that share a core or a cache
     * stand side by side. Each rank once, the same on all ranks; NULL: by their numbers. */
    const int *order;
    const struct algo_levels *levels; /* NULL: nothing is known of hosts */
};

typedef void algo_generate(const struct algo_params *params, int rank, struct plan_builder *builder);

/* The generator is one of the parameters' collective and can do that number of ranks; order and
 * levels were checked. A rank or root out of range is found here. *message tells what went wrong;
 * *rank_plan is the caller's, NULL on failure. */
enum tutti_status generate_rank_plan(algo_generate *generate, const struct algo_params *params,
                                     int rank, struct rank_plan **rank_plan, const char **message);

#endif
