/* synth_pace_test.c - a plan of trees takes about as long as its trees promise: its lanes keep the
 * edges busy.
 *
 * ctest: label=notsan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/status.h"
#include "plan/verify.h"
#include "studio/synth/lay.h"
#include "tests/plans/synth_graphs.h"
#include "tests/plans/synth_pace.h"

static void expect_proven(const struct plan *plan)
{
    const struct verify_options how = {.in_place = false};
    struct verify_report report;
    if (plan_verify(plan, &how, &report) != VERIFY_PROVEN) fail_msg("%s", report.message);
}

static struct plan *make_plan(enum collective collective, const struct forest *forest, int pieces)
{
    const struct lay lay = {
        .collective = collective,
        .down = collective != COLLECTIVE_REDUCE_SCATTER ? forest : NULL,
        .up = collective_reduces(collective) ? forest : NULL,
        .pieces = pieces,
    };
    struct plan *plan;
    if (lay_plan(&lay, &plan) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    for (int r = 0; r < plan->shape.rank_count; r++)
        assert_true(plan->ranks[r]->lane_count <= LAY_LANES_MAX);
    return plan;
}

/* All graphs here are even: turned around they are the same. Nothing is lost but at the ends: while
 * the first piece comes, and the last one. */
static void expect(struct synth_graph graph, enum collective collective, int pieces, double most)
{
    const struct forest_options options = {.root = SYNTH_EVERY_RANK};
    const double promised = collective == COLLECTIVE_ALLREDUCE ? 2 : 1;
    struct forest forest;
    assert_true(synth_graph_is_even(&graph));
    if (forest_make(&graph, &options, &forest) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    struct plan *plan = make_plan(collective, &forest, pieces);
    const double more = pace_of(plan, &graph, &forest, pieces) / promised - 1;
    const double fill = pace_fill(&forest, pieces);
    printf(
        "%s of %d ranks, %d trees, %d pieces: %.2f%% more than promised; one piece alone %.2f%%\n",
        collective_name(collective), graph.rank_count, forest.tree_count, pieces, 100 * more,
        100 * fill);
    assert_true(more > -1e-9);
    assert_true(more <= most);
    assert_true(more <= fill);
    expect_proven(plan);
    plan_free(plan);
    forest_release(&forest);
    synth_graph_release(&graph);
}

static void plans_that_gather_keep_pace(void **state)
{
    (void)state;
    expect(graph_torus(8, 1), COLLECTIVE_ALLGATHER, 64, 0.015);
    expect(graph_torus(4, 4), COLLECTIVE_ALLGATHER, 64, 0.015);
    expect(graph_dgx1(1), COLLECTIVE_ALLGATHER, 64, 0.02);
    expect(graph_racks(2, 4, 7, 4), COLLECTIVE_ALLGATHER, 64, 0.025);
}

static void a_plan_of_two_dgx_a100_keeps_pace(void **state)
{
    (void)state;
    expect(graph_boxes(2, 8, 300, 25), COLLECTIVE_ALLGATHER, 64, 0.015);
    expect(graph_boxes(2, 8, 300, 25), COLLECTIVE_ALLGATHER, 16, 0.06);
    expect(graph_boxes(2, 8, 300, 25), COLLECTIVE_REDUCE_SCATTER, 16, 0.05);
}

static void plans_that_reduce_keep_pace(void **state)
{
    (void)state;
    expect(graph_dgx1(1), COLLECTIVE_REDUCE_SCATTER, 64, 0.02);
    expect(graph_torus(4, 4), COLLECTIVE_REDUCE_SCATTER, 64, 0.015);
    expect(graph_torus(8, 1), COLLECTIVE_ALLREDUCE, 64, 0.015);
    expect(graph_torus(4, 4), COLLECTIVE_ALLREDUCE, 64, 0.01);
    expect(graph_dgx1(1), COLLECTIVE_ALLREDUCE, 64, 0.015);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_that_gather_keep_pace),
                                       cmocka_unit_test(a_plan_of_two_dgx_a100_keeps_pace),
                                       cmocka_unit_test(plans_that_reduce_keep_pace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
