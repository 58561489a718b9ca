#include "tests/plans/placement_plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/text.h"

const struct placement_plan placement_plans[PLACEMENT_PLAN_COUNT] = {
    [PLACEMENT_HALVES] = {"halves", true,
                          "plan allreduce ranks 2 parts 2\n"
                          "rank 0\n"
                          "  lane 0\n"
                          "    in[1] -> to 1\n"
                          "    in[0] + from 1 -> out[0], to 1 channel 1  final\n"
                          "  lane 1\n"
                          "    from 1 channel 1 -> out[1]\n"
                          "rank 1\n"
                          "  lane 0\n"
                          "    in[0] -> to 0\n"
                          "    from 0 + in[1] -> out[1], to 0 channel 1  final\n"
                          "  lane 1\n"
                          "    from 0 channel 1 -> out[0]\n"},
    [PLACEMENT_BORROWED] = {"borrowed", false,
                            "plan allreduce ranks 3 parts 1\n"
                            "rank 0\n"
                            "  scratch like 0\n"
                            "  lane 0\n"
                            "    in[0] -> to 1\n"
                            "    in[0] -> out[0]\n"
                            "    out[0] -> scratch[0]\n"
                            "    scratch[0] -> to 2\n"
                            "    from 1 channel 1 -> out[0]\n"
                            "rank 1\n"
                            "  lane 0\n"
                            "    in[0] -> to 2\n"
                            "    from 0 + in[0] + from 2 -> out[0], to 0 channel 1  final\n"
                            "rank 2\n"
                            "  lane 0\n"
                            "    in[0] -> to 1\n"
                            "    from 0 + from 1 + in[0] -> out[0]  final\n"},
    [PLACEMENT_TWICE] = {"twice", true,
                         "plan allreduce ranks 2 parts 2\n"
                         "rank 0\n"
                         "  lane 0\n"
                         "    in[0] -> to 1\n"
                         "    from 1 -> out[0]\n"
                         "    in[1] -> to 1\n"
                         "    from 1 -> out[1]\n"
                         "rank 1\n"
                         "  lane 0\n"
                         "    from 0 + in[0] -> out[0], to 0  final\n"
                         "    from 0 + in[1] -> out[1], to 0  final\n"},
    [PLACEMENT_STRANGER] =
        {"stranger", true,
         "plan allreduce ranks 3 parts 1\n"
         "rank 0\n"
         "  scratch like 0\n"
         "  lane 0\n"
         "    in[0] -> to 1\n"
         "    from 1 channel 2 -> scratch[0]\n"
         "    from 1 channel 1 -> out[0]\n"
         "    scratch[0] + out[0] -> out[0]  final\n"
         "rank 1\n"
         "  scratch like 0 0\n"
         "  lane 0\n"
         "    in[0] + from 2 -> scratch[1], to 0 channel 1\n"
         "  lane 1\n"
         "    from 0 -> scratch[0], to 0 channel 2\n"
         "    scratch[0] + scratch[1] -> out[0], to 2 channel 3  final after 0.0\n"
         "rank 2\n"
         "  lane 0\n"
         "    in[0] -> to 1\n"
         "    from 1 channel 3 -> out[0]\n"},
    [PLACEMENT_OTHER_MESSAGE] = {"other message", true,
                                 "plan allreduce ranks 3 parts 1\n"
                                 "rank 0\n"
                                 "  scratch like 0\n"
                                 "  lane 0\n"
                                 "    in[0] -> to 1\n"
                                 "    in[0] -> to 1 channel 3\n"
                                 "    from 1 channel 2 -> scratch[0]\n"
                                 "    from 1 channel 1 -> out[0]\n"
                                 "rank 1\n"
                                 "  scratch like 0\n"
                                 "  lane 0\n"
                                 "    in[0] -> to 2\n"
                                 "    from 0 channel 3 + in[0] + from 2 -> to 0 channel 1  final\n"
                                 "    from 2 channel 1 -> out[0]\n"
                                 "  lane 1\n"
                                 "    from 0 -> scratch[0], to 2 channel 5\n"
                                 "    scratch[0] -> to 0 channel 2\n"
                                 "rank 2\n"
                                 "  scratch like 0\n"
                                 "  lane 0\n"
                                 "    in[0] -> scratch[0], to 1\n"
                                 "    from 1 channel 5 + from 1 + in[0] -> out[0], to 1 channel 1"
                                 "  final\n"},
};

struct plan *placement_plan_make(int which)
{
    struct plan *plan;
    char message[200];
    const char *const text = placement_plans[which].text;
    if (plan_parse(text, strlen(text), &plan, message, sizeof message) != TUTTI_OK) {
        fprintf(stderr, "%s: %s\n", placement_plans[which].name, message);
        abort();
    }
    return plan;
}

/* ---------------------------------------------------------------------------------------- rules */

static enum placement nothing(const struct rank_plan *plan, uint32_t step, bool in_place)
{
    (void)plan, (void)step, (void)in_place;
    return PLACEMENT_NONE;
}

static bool is_plain_receive(const struct rank_plan *plan, uint32_t index)
{
    const struct plan_step *step = &plan->steps[index];
    return collective_reduces(plan->shape.collective) && step->source_count == 1 &&
           plan->sources[step->first_source].is_link && step->has_destination && !step->final;
}

static bool is_first_of_link(const struct rank_plan *plan, uint32_t index)
{
    const struct plan_source *link = &plan->sources[plan->steps[index].first_source];
    for (uint32_t i = 0; i < plan->steps[index].first_source; i++)
        if (plan->sources[i].is_link && plan->sources[i].peer == link->peer &&
            plan->sources[i].channel == link->channel)
            return false;
    return true;
}

/* Whatever else touches that memory. */
static enum placement advertising_all(const struct rank_plan *plan, uint32_t step, bool in_place)
{
    if (is_plain_receive(plan, step) && is_first_of_link(plan, step)) return PLACEMENT_ADVERTISES;
    return placement_of_step(plan, step, in_place);
}

/* Also for the second message of a link. */
static enum placement advertising_again(const struct rank_plan *plan, uint32_t step, bool in_place)
{
    if (is_plain_receive(plan, step)) return PLACEMENT_ADVERTISES;
    return placement_of_step(plan, step, in_place);
}

/* Also for ranks whose messages were not reduced. */
static enum placement placing_all(const struct rank_plan *plan, uint32_t index, bool in_place)
{
    const struct plan_step *step = &plan->steps[index];
    const bool sends = step->target_count > 0 || step->target_group != PLAN_NO_GROUP;
    if (collective_reduces(plan->shape.collective) && step->source_count > 1 && sends)
        return PLACEMENT_PLACES;
    return placement_of_step(plan, index, in_place);
}

static enum placement placing_all_anywhere(const struct rank_plan *plan, uint32_t step,
                                           bool in_place)
{
    const enum placement placement = placing_all(plan, step, in_place);
    return placement == PLACEMENT_PLACES ? placement : advertising_all(plan, step, in_place);
}

const struct placement_test_rule placement_rules[PLACEMENT_RULES_MAX] = {
    {"the engine's", placement_of_step},  {"nothing", nothing},
    {"advertising all", advertising_all}, {"advertising again", advertising_again},
    {"placing all", placing_all},         {"placing all anywhere", placing_all_anywhere}};
const int placement_rule_count = PLACEMENT_WEAK_RULES + 4;
