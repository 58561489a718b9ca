/* flow.h - the properties that the steps of one rank have in common and that decide the path of
 * their messages: a pure function of its plan. */
#ifndef TUTTI_PLAN_FLOW_H
#define TUTTI_PLAN_FLOW_H

#include <stdbool.h>

#include "plan/plan.h"

struct plan_flow {
    bool is_chain; /* no step needs messages of several links to go on */
    bool has_few_senders; /* at most two ranks, of which this one may be one, send to groups that it is in */
};

void plan_flow_init(struct plan_flow *flow, const struct rank_plan *rank_plan);
/* Whether a step on a chain passes on what is not complete: input, and what was added to it. */
bool plan_flow_is_partial(const struct plan_flow *flow, const struct rank_plan *rank_plan,
                          const struct plan_step *step);
/* Whether a step sends memory and does nothing else. */
static inline bool plan_step_only_sends(const struct rank_plan *rank_plan,
                                        const struct plan_step *step)
{
    return step->source_count == 1 && !rank_plan->sources[step->first_source].is_link &&
           !step->has_destination && !step->final;
}

#endif
