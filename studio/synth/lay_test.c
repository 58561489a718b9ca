/* lay_test.c - every collective that trees are for, on published and on chance graphs, is
 * proven. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "plan/verify.h"
#include "studio/synth/lay.h"
#include "tests/plans/synth_graphs.h"

static const enum collective collectives[] = {COLLECTIVE_ALLGATHER, COLLECTIVE_REDUCE_SCATTER,
                                              COLLECTIVE_ALLREDUCE, COLLECTIVE_BROADCAST,
                                              COLLECTIVE_REDUCE};

static void expect_proven(const struct lay *lay)
{
    struct plan *plan;
    if (lay_plan(lay, &plan) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    for (int in_place = 0; in_place < 2; in_place++) {
        const struct verify_options options = {.in_place = in_place};
        struct verify_report report;
        if (plan_verify(plan, &options, &report) != VERIFY_PROVEN)
            fail_msg("%s, %d pieces: %s", collective_name(lay->collective), lay->pieces,
                     report.message);
    }
    plan_free(plan);
}

/* False: the graph has no trees. */
static bool make(const struct synth_graph *graph, int root, struct forest *forest)
{
    const struct forest_options options = {.root = root};
    const enum tutti_status status = forest_make(graph, &options, forest);
    if (status != TUTTI_OK && status != TUTTI_INVALID_OPTIONS)
        fail_msg("%s", tutti_error_message());
    return status == TUTTI_OK;
}

static void check_one(const struct synth_graph *graph, enum collective collective, int root,
                      int pieces)
{
    const bool down = collective != COLLECTIVE_REDUCE_SCATTER && collective != COLLECTIVE_REDUCE;
    const bool up = collective_reduces(collective);
    struct forest forests[2] = {{.k = 0}, {.k = 0}};
    struct synth_graph turned;
    assert_int_equal(synth_graph_reverse(graph, &turned), TUTTI_OK);
    if ((!down || make(graph, root, &forests[0])) && (!up || make(&turned, root, &forests[1]))) {
        const struct lay lay = {.collective = collective,
                                .down = down ? &forests[0] : NULL,
                                .up = up ? &forests[1] : NULL,
                                .pieces = pieces};
        expect_proven(&lay);
    }
    forest_release(&forests[0]);
    forest_release(&forests[1]);
    synth_graph_release(&turned);
}

static void check_all(struct synth_graph graph, int pieces)
{
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        check_one(&graph, collectives[i],
                  collective_is_rooted(collectives[i]) ? graph.rank_count - 1 : SYNTH_EVERY_RANK,
                  pieces);
    synth_graph_release(&graph);
}

static void published_topologies_have_proven_plans(void **state)
{
    (void)state;
    check_all(graph_dgx1(1), 2);
    for (int p = 2; p <= 6; p++) check_all(graph_torus(p, 1), 3);
    check_all(graph_torus(4, 4), 1);
    check_all(graph_torus(3, 3), 2);
    check_all(graph_torus(4, 2), 1);
    check_all(graph_cube(4), 1);
    check_all(graph_boxes(1, 8, 300, 0), 4);
    check_all(graph_boxes(2, 8, 450, 50), 1);
    check_all(graph_racks(2, 4, 7, 4), 2);
    struct synth_graph graph = graph_boxes(2, 8, 300, 25); /* 208 trees */
    check_one(&graph, COLLECTIVE_ALLGATHER, SYNTH_EVERY_RANK, 1);
    synth_graph_release(&graph);
    check_all(graph_two_ndv2(), 1);
}

static void chance_graphs_have_proven_plans(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++)
        check_all(graph_by_chance(seed), 1 + (int)(seed % 3));
}

static void what_trees_are_not_for_is_refused(void **state)
{
    (void)state;
    struct synth_graph graph = graph_torus(3, 1);
    struct forest forest;
    struct plan *plan;
    assert_true(make(&graph, SYNTH_EVERY_RANK, &forest));
    struct lay lay = {.collective = COLLECTIVE_ALLTOALL, .down = &forest, .pieces = 1};
    assert_int_equal(lay_plan(&lay, &plan), TUTTI_UNSUPPORTED);
    lay = (struct lay){.collective = COLLECTIVE_ALLGATHER, .down = &forest, .pieces = 0};
    assert_int_equal(lay_plan(&lay, &plan), TUTTI_INVALID_OPTIONS);
    forest_release(&forest);
    synth_graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_topologies_have_proven_plans),
        cmocka_unit_test(chance_graphs_have_proven_plans),
        cmocka_unit_test(what_trees_are_not_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
