#include "plan/flow.h"

void plan_flow_init(struct plan_flow *flow, const struct rank_plan *rank_plan)
{
    int senders[2] = {-1, -1}, sender_count = 0;
    flow->is_chain = true;
    for (uint32_t i = 0; i < rank_plan->step_count; i++) {
        const struct plan_step *step = &rank_plan->steps[i];
        int links = 0, sender = step->target_group != PLAN_NO_GROUP ? rank_plan->rank : -1;
        for (uint32_t s = 0; s < step->source_count; s++) {
            const struct plan_source *source = &rank_plan->sources[step->first_source + s];
            links += source->is_link;
            if (source->is_link && source->group != PLAN_NO_GROUP) sender = source->peer;
        }
        if (links > 1) flow->is_chain = false;
        if (sender < 0 || sender == senders[0] || sender == senders[1]) continue;
        if (sender_count < 2) senders[sender_count] = sender;
        sender_count++;
    }
    flow->has_few_senders = sender_count <= 2;
}

bool plan_flow_is_partial(const struct plan_flow *flow, const struct rank_plan *rank_plan,
                          const struct plan_step *step)
{
    const struct plan_source *first = &rank_plan->sources[step->first_source];
    const bool is_partial =
        step->source_count > 1 || (!first->is_link && first->location.buffer == PLAN_INPUT);
    return flow->is_chain && is_partial && !step->final;
}
