/* placement_plans.h - plans in which it matters where and when results are placed in their
 * receivers' memory (plan/placement.h).
 *
 * All of them are right by their letter. The weaker rules at the end advertise or place more than
 * the engine does, and each of them spoils some of these plans.
 */
#ifndef TUTTI_TESTS_PLANS_PLACEMENT_PLANS_H
#define TUTTI_TESTS_PLANS_PLACEMENT_PLANS_H

#include "plan/placement.h"
#include "plan/plan.h"

struct placement_plan {
    const char *name;
    bool in_place; /* how it is meant */
    const char *text;
};

enum {
    PLACEMENT_HALVES,   /* two-shot of two ranks: results go where the operands came from */
    PLACEMENT_BORROWED, /* rank 0 keeps something else where its result comes, until shortly before */
    PLACEMENT_TWICE,    /* the second message of a link comes where rank 0 still has an operand */
    PLACEMENT_STRANGER, /* rank 1 sends rank 0 a sum of which nothing is rank 0's */
    /* Rank 0 sends an operand twice. Rank 1 reduces one of the messages, and passes the other one
     * on at any time: the engine's rule is wrong about this plan. */
    PLACEMENT_OTHER_MESSAGE,
    PLACEMENT_PLAN_COUNT
};
extern const struct placement_plan placement_plans[PLACEMENT_PLAN_COUNT];

/* Parses it; ends the program where that fails. */
struct plan *placement_plan_make(int which);

struct placement_test_rule {
    const char *name;
    placement_rule *rule;
};

enum {
    PLACEMENT_RULE_ENGINE,
    PLACEMENT_RULE_NOTHING,
    PLACEMENT_WEAK_RULES,
    PLACEMENT_RULES_MAX = 8
};
/* The engine's; one by which nothing is placed; from PLACEMENT_WEAK_RULES on, weaker ones. */
extern const struct placement_test_rule placement_rules[PLACEMENT_RULES_MAX];
extern const int placement_rule_count;

#endif
