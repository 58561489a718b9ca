/* The thread sanitizer takes the locks of libz3, which was built without it, for wrong ones.
 * ctest: label=notsan */
#include "studio/synth/direct.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/plans/exact_rows.h"
#include "tests/plans/synth_graphs.h"

static bool exists(const struct synth_graph *graph, int chunk_count, int step_count)
{
    bool found[2];
    for (int in_place = 0; in_place < 2; in_place++) {
        const struct direct_question question = {chunk_count, step_count, 1, in_place};
        struct plan *plan;
        if (direct_allreduce(graph, &question, 60000000000, &plan) != TUTTI_OK)
            fail_msg("%s", tutti_error_message());
        found[in_place] = plan != NULL;
        if (plan != NULL) plan_free(plan);
    }
    assert_int_equal(found[0], found[1]);
    return found[0];
}

/* SCCL's (1, 2, 2); one step reaches only neighbours. */
static void dgx1_sums_in_two_steps(void **state)
{
    (void)state;
    struct synth_graph graph = graph_dgx1(1);
    assert_true(exists(&graph, 1, 2));
    assert_false(exists(&graph, 1, 1));
    assert_true(exists(&graph, 1, 3));
    synth_graph_release(&graph);
}

static void small_graphs_sum(void **state)
{
    (void)state;
    struct synth_graph graph = graph_ring(2);
    assert_true(exists(&graph, 2, 2));
    assert_false(exists(&graph, 2, 1));
    assert_true(exists(&graph, 1, 1));
    synth_graph_release(&graph);
    graph = graph_ring(4);
    assert_true(exists(&graph, 1, 2));
    assert_false(exists(&graph, 1, 1));
    synth_graph_release(&graph);
}

static void questions_out_of_range_are_refused(void **state)
{
    (void)state;
    const struct direct_question questions[] = {
        {0, 1, 1, false}, {65, 1, 1, false}, {1, 0, 1, false}, {1, 9, 1, false}, {1, 1, 0, false}};
    struct synth_graph graph = graph_ring(4);
    struct plan *plan;
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        assert_int_equal(direct_allreduce(&graph, &questions[i], 1000000000, &plan),
                         TUTTI_INVALID_OPTIONS);
    synth_graph_release(&graph);
}

int main(void)
{
    exact_rows_need_solver();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dgx1_sums_in_two_steps),
        cmocka_unit_test(small_graphs_sum),
        cmocka_unit_test(questions_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
