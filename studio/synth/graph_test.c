#include "studio/synth/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

/* Each edge is found exactly once, at its place. */
static void check_found(const struct synth_graph *graph)
{
    for (int i = 0; i < graph->edge_count; i++)
        assert_ptr_equal(synth_graph_find(graph, graph->edges[i].from, graph->edges[i].to),
                         &graph->edges[i]);
}

static struct synth_graph complete(int ranks)
{
    struct synth_graph graph = {.rank_count = ranks, .node_count = ranks};
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++)
            if (a != b)
                assert_int_equal(synth_graph_add(&graph, a, b, (uint32_t)(1 + a), 0), TUTTI_OK);
    return graph;
}

/* Half a million edges: their square would take a minute of the processor. */
static void edges_are_found_however_many_there_are(void **state)
{
    (void)state;
    const clock_t began = clock();
    struct synth_graph graph = complete(700);
    assert_int_equal(graph.edge_count, 700 * 699);
    check_found(&graph);
    assert_true(clock() - began < 20 * CLOCKS_PER_SEC);
    synth_graph_release(&graph);
}

static void parallel_edges_add_up(void **state)
{
    (void)state;
    struct synth_graph graph = {.rank_count = 2, .node_count = 2};
    assert_null(synth_graph_find(&graph, 0, 1));
    assert_int_equal(synth_graph_add(&graph, 0, 1, 2, 30), TUTTI_OK);
    assert_int_equal(synth_graph_add(&graph, 0, 1, 3, 20), TUTTI_OK);
    assert_int_equal(graph.edge_count, 1);
    assert_int_equal(graph.edges[0].capacity, 5);
    assert_true(graph.edges[0].latency_ns == 30);
    assert_null(synth_graph_find(&graph, 1, 0));
    assert_int_equal(synth_graph_add(&graph, 0, 1, SYNTH_CAPACITY_MAX, 0), TUTTI_INVALID_OPTIONS);
    assert_int_equal(synth_graph_add(&graph, 0, 2, 1, 0), TUTTI_INVALID_OPTIONS);
    synth_graph_release(&graph);
}

static void edges_that_were_turned_or_moved_are_found(void **state)
{
    (void)state;
    struct synth_graph graph = complete(9), reversed;
    assert_false(synth_graph_is_even(&graph));
    assert_int_equal(synth_graph_reverse(&graph, &reversed), TUTTI_OK);
    check_found(&reversed);
    assert_int_equal(synth_graph_find(&reversed, 2, 7)->capacity, 8);
    int kept = 0;
    for (int i = 0; i < graph.edge_count; i++)
        if (graph.edges[i].from % 2 == 0) graph.edges[kept++] = graph.edges[i];
    graph.edge_count = kept;
    assert_int_equal(synth_graph_reindex(&graph), TUTTI_OK);
    check_found(&graph);
    assert_null(synth_graph_find(&graph, 1, 2));
    assert_int_equal(synth_graph_add(&graph, 1, 2, 4, 0), TUTTI_OK);
    check_found(&graph);
    synth_graph_release(&graph);
    synth_graph_release(&reversed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_are_found_however_many_there_are),
        cmocka_unit_test(parallel_edges_add_up),
        cmocka_unit_test(edges_that_were_turned_or_moved_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
