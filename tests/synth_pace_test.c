/* synth_pace_test.c - a plan of trees takes about as long as its trees promise: its lanes keep the edges busy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/status.h"
#include "plan/verify.h"
#include "synth/lay.h"
#include "synth_graphs.h"
#include "synth_pace.h"

/* How much longer than promised, as a part of it. */
static double excess(const struct synth_graph *graph, int pieces, bool proves)
{
    const struct forest_options options = {.root = SYNTH_EVERY_RANK};
    struct forest forest;
    struct plan *plan;
    if (forest_make(graph, &options, &forest) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    const struct lay lay = {.collective = COLLECTIVE_ALLGATHER, .down = &forest, .pieces = pieces};
    if (lay_plan(&lay, &plan) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    if (proves) {
        const struct verify_options how = {.in_place = false};
        struct verify_report report;
        if (plan_verify(plan, &how, &report) != VERIFY_PROVEN) fail_msg("%s", report.message);
    }
    const double time = pace_of(plan, graph, &forest, pieces);
    plan_free(plan);
    forest_release(&forest);
    return time - 1;
}

static void expect(struct synth_graph graph, int pieces, bool proves, double most)
{
    const double more = excess(&graph, pieces, proves);
    printf("%d ranks, %d pieces: %.2f%% more than promised\n", graph.rank_count, pieces, 100 * more);
    assert_true(more > -1e-9);
    assert_true(more <= most);
    synth_graph_release(&graph);
}

static void plans_of_few_trees_keep_pace(void **state)
{
    (void)state;
    expect(graph_dgx1(1), 64, false, 0.03);
    expect(graph_torus(8, 1), 64, false, 0.1);
    expect(graph_torus(4, 4), 64, false, 0.1);
}

/* Their links can fill up in circles, so fewer pieces are under way, and it takes longer. */
static void a_plan_of_208_trees_is_proven(void **state)
{
    (void)state;
    expect(graph_boxes(2, 8, 300, 25), 16, true, 4);
    expect(graph_boxes(2, 8, 300, 25), 64, false, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_of_few_trees_keep_pace),
                                       cmocka_unit_test(a_plan_of_208_trees_is_proven)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
