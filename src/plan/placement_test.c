/* placement_test.c - which steps advertise and place, and that the verifier finds every way in
 * which that can go wrong.
 *
 * The search of tests/plans/explore.c, which executes placing, confirms each verdict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/placement.h"
#include "plan/text.h"
#include "plan/verify.h"
#include "tests/plans/explore.h"
#include "tests/plans/placement_plans.h"

/* ------------------------------------------------------------------------------------- the rule */

static struct plan *parse(const char *text)
{
    struct plan *plan;
    char message[200];
    if (plan_parse(text, strlen(text), &plan, message, sizeof message) != TUTTI_OK)
        fail_msg("%s in %s", message, text);
    return plan;
}

/* The steps of rank 0 of three, which reduces one part itself and lets rank 1 reduce another
 * part. */
struct wish {
    const char *steps; /* of rank 0, from the first lane on */
    /* The last step with a source on channel 1 advertises, with separate buffers and in place. */
    bool advertises, advertises_in_place;
};

#define RECEIVE "lane 1\n from 1 channel 1 -> out[1]\n"

static const struct wish wishes[] = {
    {"lane 0\n in[1] -> to 1\n" RECEIVE, true, true}, /* rank 1 reads there before it has a result */
    {"lane 0\n in[1] -> to 1\n in[1] -> to 2\n" RECEIVE, true, false},
    {"lane 0\n in[1] -> to 1, to 2\n" RECEIVE, true, false},
    {"lane 0\n in[0..1] -> to 1\n" RECEIVE, true, false},
    {"lane 0\n in[0..1] -> to 2\n" RECEIVE, true, false},
    {"lane 0\n in[1] -> scratch[0]\n" RECEIVE, true, false},
    {"lane 0\n in[1] + from 1 -> scratch[0]\n" RECEIVE, true, false},
    {"lane 0\n in[1] -> scratch[0], to 1\n" RECEIVE, true, false},
    {"lane 0\n in[0] -> to 1\n" RECEIVE, true, true},
    {"lane 0\n from 2 -> out[1]\n" RECEIVE, false, false},
    {"lane 0\n from 1 channel 1 -> out[0]\n from 1 channel 1 -> out[1]\n", false, false},
    {"lane 0\n from 2 channel 1 -> out[0]\n from 1 channel 1 -> out[1]\n", true, true},
    {"lane 0\n from 1 channel 1 -> out[0]\n" RECEIVE, false, false},
    {"lane 0\n in[1] -> to 1\n" RECEIVE " out[1] -> to 2\n", true, true},
    {"lane 0\n in[1] -> to 1\n" RECEIVE "lane 2\n out[1] -> to 2 channel 2\n", false, false},
    {"lane 0\n in[1] -> to 1\n lane 1\n from 1 channel 1 -> out[1]  after 0.0\n", false, false},
    {"lane 0\n in[1] -> to 1\n lane 1\n from 1 channel 1 -> scratch[0]\n", false, false},
    {"lane 0\n in[1] -> to 1\n lane 1\n from 1 channel 1 -> out[1], to 2\n", false, false},
    {"lane 0\n in[1] -> to 1\n lane 1\n from 1 channel 1 + in[1] -> out[1]\n", false, false},
};

static bool is_on_channel_1(const struct rank_plan *plan, const struct plan_step *step)
{
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &plan->sources[step->first_source + i];
        if (source->is_link && source->channel == 1 && source->peer == 1) return true;
    }
    return false;
}

static void messages_are_expected_where_nothing_else_touches_that_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        char text[500];
        snprintf(text, sizeof text,
                 "plan allreduce ranks 3 parts 2\nrank 0\nscratch like 1\n%srank 1\nrank 2\n",
                 wishes[i].steps);
        struct plan *plan = parse(text);
        const struct rank_plan *own = plan->ranks[0];
        uint32_t last = 0;
        for (uint32_t s = 0; s < own->step_count; s++)
            if (is_on_channel_1(own, &own->steps[s])) last = s;
        for (int in_place = 0; in_place < 2; in_place++) {
            const bool found = placement_of_step(own, last, in_place) == PLACEMENT_ADVERTISES;
            if (found != (in_place ? wishes[i].advertises_in_place : wishes[i].advertises))
                fail_msg("%s, in place %d: %d", wishes[i].steps, in_place, found);
        }
        plan_free(plan);
    }
}

/* In place, the block of a reduce_scatter's result is this rank's own one of the input. */
static void the_own_block_of_the_input_is_the_output_in_place(void **state)
{
    (void)state;
    struct plan *plan =
        parse("plan reduce_scatter ranks 3 parts 2\nrank 0\nrank 1\nlane 0\n"
              "in[3] -> to 2\nlane 1\nfrom 0 -> out[0]\nfrom 2 -> out[1]\nrank 2\n");
    for (uint32_t step = 1; step < 3; step++)
        for (int in_place = 0; in_place < 2; in_place++)
            assert_int_equal(placement_of_step(plan->ranks[1], step, in_place),
                             PLACEMENT_ADVERTISES);
    plan->ranks[1]->targets[0] = 0; /* in[3] is out[1], which comes from rank 2 */
    assert_int_equal(placement_of_step(plan->ranks[1], 1, true), PLACEMENT_ADVERTISES);
    assert_int_equal(placement_of_step(plan->ranks[1], 2, true), PLACEMENT_NONE);
    assert_int_equal(placement_of_step(plan->ranks[1], 2, false), PLACEMENT_ADVERTISES);
    plan_free(plan);
}

static void results_are_placed_with_those_that_they_were_reduced_from(void **state)
{
    (void)state;
    static const struct {
        const char *step;
        bool places;
    } cases[] = {
        {"from 1 + in[0] -> out[0], to 1", true},
        {"from 1 + in[0] -> to 1 channel 3", true},
        {"in[0] + from 1 + from 2 -> out[0], to 1, to 2", true},
        {"in[0] + from 1 + from 2 -> out[0], to 2", true},
        {"from 1 + in[0] -> out[0], to 2", false},
        {"from 1 + in[0] -> out[0], to 1, to 2", false},
        {"from 1 + in[0] -> out[0], to group 0", false},
        {"from 1 + from 2 + in[0] -> out[0], to group 0", true},
        {"from 1 group 0 + from 2 group 0 + in[0] -> out[0], to group 0 channel 1", true},
        {"from 1 + in[0] -> out[0]", false},
        {"from 1 -> out[0], to 1", false},
        {"in[0] + in[0] -> out[0], to 1", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[500];
        snprintf(text, sizeof text,
                 "plan allreduce ranks 3 parts 1\nrank 0\ngroup 0: 0 1 2\nlane 0\n%s\nrank 1\nrank "
                 "2\n",
                 cases[i].step);
        struct plan *plan = parse(text);
        const enum placement placement = placement_of_step(plan->ranks[0], 0, i % 2);
        if ((placement == PLACEMENT_PLACES) != cases[i].places)
            fail_msg("%s: %d", cases[i].step, placement);
        plan_free(plan);
    }
}

static void nothing_is_placed_where_nothing_is_reduced(void **state)
{
    (void)state;
    struct plan *plan =
        parse("plan broadcast ranks 2 root 0 parts 1\nrank 0\nlane 0\nin[0] -> to 1\n"
              "rank 1\nlane 0\nfrom 0 -> out[0]\n");
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(placement_of_step(plan->ranks[rank], 0, false), PLACEMENT_NONE);
    plan_free(plan);
}

/* ------------------------------------------------------------------------------------ the proof */

struct expectation {
    int plan, rule;
    int rank, lane, step; /* -1: proven */
    const char *message;
    bool shows; /* in results, whatever the verdict */
};

enum { ENGINE, NOTHING, ALL, AGAIN, PLACING, PLACING_ANYWHERE };

static const struct expectation expectations[] = {
    {PLACEMENT_HALVES, ENGINE, -1, -1, -1, "", false},
    {PLACEMENT_BORROWED, ENGINE, -1, -1, -1, "", false},
    {PLACEMENT_TWICE, ENGINE, -1, -1, -1, "", false},
    {PLACEMENT_STRANGER, ENGINE, -1, -1, -1, "", false},
    {PLACEMENT_OTHER_MESSAGE, NOTHING, -1, -1, -1, "", false},
    {PLACEMENT_OTHER_MESSAGE, ENGINE, 1, 0, 1,
     "may place its result in rank 0's output chunk 0, which rank 0's lane 0 step 0 may still be "
     "sending",
     true},
    {PLACEMENT_BORROWED, ALL, 1, 0, 1, "may place its result in rank 0's output chunk 0, which",
     true},
    {PLACEMENT_TWICE, AGAIN, 0, 0, 3, "not the first of its link", true},
    {PLACEMENT_STRANGER, PLACING, 1, 0, 0, "in the memory of rank 0 before that has begun", true},
};

static void races_of_what_is_placed_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++) {
        const struct expectation *expected = &expectations[i];
        const struct placement_plan *which = &placement_plans[expected->plan];
        const struct placement_test_rule *rule = &placement_rules[expected->rule];
        struct plan *plan = placement_plan_make(expected->plan);
        struct verify_report report;
        const struct verify_options options = {.in_place = which->in_place, .placement = rule->rule};
        const enum verify_verdict verdict = plan_verify(plan, &options, &report);
        if ((verdict == VERIFY_PROVEN) != (expected->rank < 0) ||
            strstr(report.message, expected->message) == NULL || report.rank != expected->rank ||
            report.lane != expected->lane || report.step != expected->step)
            fail_msg("%s, rule: %s: %s", which->name, rule->name, report.message);
        bool shows = false;
        for (unsigned mode = 0; mode < 8; mode++) {
            struct explore_report found;
            const struct explore_options search = {.in_place = which->in_place,
                                                   .placement = rule->rule,
                                                   .eager = mode & 1,
                                                   .capacity = mode & 2 ? 2 : 1,
                                                   .run_count = mode & 4 ? 2 : 1,
                                                   .events_max = 200000};
            shows |= explore(plan, &search, &found) == EXPLORE_WRONG;
        }
        if (shows != expected->shows)
            fail_msg("%s, rule: %s: the search says otherwise", which->name, rule->name);
        plan_free(plan);
    }
}

/* Unless a caller names another rule, the proof takes the rule that the engine follows. */
static void the_engines_rule_is_the_default(void **state)
{
    (void)state;
    struct plan *plan = placement_plan_make(PLACEMENT_OTHER_MESSAGE);
    struct verify_report report;
    assert_int_equal(plan_verify(plan, &(struct verify_options){.in_place = true}, &report),
                     VERIFY_WRONG);
    assert_int_equal(plan_verify(plan, &(struct verify_options){.in_place = false}, &report),
                     VERIFY_PROVEN);
    plan_free(plan);
}

/* One rank in place is enough: the others' buffers say nothing about its memory. */
static void ranks_may_differ_in_being_in_place(void **state)
{
    (void)state;
    struct plan *plan = placement_plan_make(PLACEMENT_OTHER_MESSAGE);
    for (unsigned mask = 0; mask < 8; mask++) {
        const bool in_place[3] = {mask & 1, mask >> 1 & 1, mask >> 2 & 1};
        struct verify_report report;
        const enum verify_verdict verdict =
            plan_verify(plan, &(struct verify_options){.ranks_in_place = in_place}, &report);
        assert_int_equal(verdict, in_place[0] ? VERIFY_WRONG : VERIFY_PROVEN);
    }
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_expected_where_nothing_else_touches_that_memory),
        cmocka_unit_test(the_own_block_of_the_input_is_the_output_in_place),
        cmocka_unit_test(results_are_placed_with_those_that_they_were_reduced_from),
        cmocka_unit_test(nothing_is_placed_where_nothing_is_reduced),
        cmocka_unit_test(races_of_what_is_placed_are_found),
        cmocka_unit_test(the_engines_rule_is_the_default),
        cmocka_unit_test(ranks_may_differ_in_being_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
