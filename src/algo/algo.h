/* algo.h - the list of all algorithms: what the choice, the tests, the documents and `tutti-plan list` read.
 *
 * A generator writes down one rank's steps and nothing else: no allocation, no state, the same parameters on
 * every rank. A new algorithm is one file (or one more function in its family's file) and one line in
 * list.c; it is then verified, run by the conformance tests and listed in the documents.
 */
#ifndef TUTTI_ALGO_ALGO_H
#define TUTTI_ALGO_ALGO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/collective.h"
#include "plan/build.h"
#include "plan/plan.h"

enum { ALGO_LEVELS_MAX = 4 };

/* Which ranks are near each other: the ranks of a host, from the finest level on, then the hosts of a rack, and
 * so on. Groups of a level have numbers of any kind; ranks that are together at one level are so at the next. What
 * is together at the last level is still apart from the rest. The same on all ranks. */
struct algo_levels {
    int level_count;                      /* 1 or more */
    const int *group_of[ALGO_LEVELS_MAX]; /* of each rank */
};

struct algo_params {
    enum collective collective;
    int rank_count;
    int root;
    bool in_place;  /* input aliases output; links and messages must not depend on it */
    unsigned radix; /* of what has one: 2 or more; 0: the algorithm's default */
    /* The ranks in the order in which they are near each other: what shares a core or a cache side by side. Each
     * once, the same on all ranks; NULL: as they are numbered. */
    const int *order;
    const struct algo_levels *levels; /* NULL: nothing is known of hosts */
};

typedef void algo_generate(const struct algo_params *params, int rank, struct plan_builder *builder);

struct algorithm {
    const char *name; /* "ring"; with the collective it is unique */
    enum collective collective;
    algo_generate *generate;
    bool has_radix; /* of a tree, or one more than the ports it sends through at once */
    bool is_direct; /* every block goes in one message from its source to its destination */
    bool needs_power_of_two;
    bool needs_levels;
    bool needs_commutative; /* operands do not come in rank order */
    bool deterministic; /* one association tree for every element, whatever count, offset and chunking */
    int rank_count_max;  /* what the algorithm can sensibly do, PLAN_RANKS_MAX if anything */
    const char *summary; /* one line for people */
    const char *cost;    /* in alpha, beta, gamma, p, n */
    const char *source;  /* paper or origin */
};

extern const struct algorithm algo_list[];
extern const int algo_count;

/* NULL when there is none of that name for that collective. */
const struct algorithm *algo_find(enum collective collective, const char *name);
enum { ALGO_RADIX_MIN = 2, ALGO_RADIX_MAX = 64 };
/* "NAME", or "NAME/RADIX" for what has a radix; *radix is 0 where none is said. False, and nothing
 * is set, when there is none of that name, or none with such a radix. */
bool algo_parse(enum collective collective, const char *text, const struct algorithm **algorithm,
                unsigned *radix);
/* Whether every rank is in the order once: INVALID_RANK and *message, where it is not. */
enum tutti_status algo_check_order(const int *order, int rank_count, const char **message);
/* Whether the levels can be used: INVALID_RANK and *message, where they cannot. */
enum tutti_status algo_check_levels(const struct algo_levels *levels, int rank_count,
                                    const char **message);
/* Fills order with all ranks, those that are together side by side: at each level, groups come in the order of their
 * smallest ranks. Levels that were checked; NO_MEMORY. */
enum tutti_status algo_order_by_levels(const struct algo_levels *levels, int rank_count, int *order);
/* Where nothing is known of hosts: what needs levels supports nothing. */
bool algo_supports(const struct algorithm *algorithm, int rank_count);
/* Where it is known which ranks are on one host. */
bool algo_supports_levels(const struct algorithm *algorithm, int rank_count);
/* One rank's plan. *message tells what went wrong. */
enum tutti_status algo_rank_plan(const struct algorithm *algorithm, const struct algo_params *params,
                                 int rank, struct rank_plan **rank_plan, const char **message);
/* The plan of all ranks, for proving and drawing. */
enum tutti_status algo_plan(const struct algorithm *algorithm, const struct algo_params *params,
                            struct plan **plan, const char **message);

#endif
