/* Greedy schedules are proven as plans, and are as fast as their links allow where that is
 * known. */
#include "studio/synth/greedy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/kit/sanitized.h"
#include "tests/plans/exact_rows.h"
#include "tests/plans/synth_graphs.h"

static const uint64_t second = 1000000000;

static void add_cable(struct synth_graph *graph, int a, int b, uint32_t capacity, double latency_ns)
{
    assert_int_equal(synth_graph_add(graph, a, b, capacity, latency_ns), TUTTI_OK);
    assert_int_equal(synth_graph_add(graph, b, a, capacity, latency_ns), TUTTI_OK);
}

/* Hosts of ranks behind a switch each, and a switch that joins those. */
static struct synth_graph graph_tree(int host_count, int ranks_per_host, uint32_t uplink)
{
    const int n = host_count * ranks_per_host;
    struct synth_graph graph = {.rank_count = n, .node_count = n + host_count + 1};
    for (int r = 0; r < n; r++) add_cable(&graph, r, n + r / ranks_per_host, 1, 500);
    for (int h = 0; h < host_count; h++) add_cable(&graph, n + h, n + host_count, uplink, 1000);
    return graph;
}

/* Two DGX-1 whose ranks 0 and 8 lead to each other's 1: units of 12.5 GB/s (TE-CCL's NDv2). */
static struct synth_graph graph_ndv2(void)
{
    struct synth_graph one = graph_dgx1(1);
    struct synth_graph graph = {.rank_count = 16, .node_count = 16, .bytes_per_second = 12.5e9};
    for (int chassis = 0; chassis < 2; chassis++)
        for (int i = 0; i < one.edge_count; i++)
            assert_int_equal(synth_graph_add(&graph, 8 * chassis + one.edges[i].from,
                                             8 * chassis + one.edges[i].to,
                                             2 * one.edges[i].capacity, 700),
                             TUTTI_OK);
    assert_int_equal(synth_graph_add(&graph, 0, 9, 1, 1300), TUTTI_OK);
    assert_int_equal(synth_graph_add(&graph, 8, 1, 1, 1300), TUTTI_OK);
    synth_graph_release(&one);
    return graph;
}

/* The duration in ns; the plan is proven. */
static double planned(const struct synth_graph *graph, enum collective collective, uint32_t parts,
                      double block_bytes, int attempt_count)
{
    const struct plan_shape shape = {collective, graph->rank_count, 0, parts};
    const struct greedy_options options = {.seed = 1,
                                           .attempt_count = attempt_count,
                                           .block_bytes = block_bytes,
                                           .timeout_ns = 100 * second};
    struct synth_steps steps;
    double duration_ns;
    if (greedy_schedule(graph, &shape, &options, &steps, &duration_ns) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    for (int in_place = 0; in_place < 2; in_place++) {
        struct plan *plan;
        if (synth_steps_plan(&steps, in_place, 0, &plan) != TUTTI_OK)
            fail_msg("%s: %s", collective_name(collective), tutti_error_message());
        plan_free(plan);
    }
    synth_steps_release(&steps);
    printf("%s of %d ranks, %u parts: %.6g us\n", collective_name(collective), graph->rank_count,
           parts, duration_ns / 1e3);
    return duration_ns;
}

static void every_collective_is_planned_on_every_graph(void **state)
{
    (void)state;
    struct synth_graph graphs[] = {graph_ring(2), graph_ring(7),       graph_star(5),
                                   graph_dgx1(1), graph_tree(3, 2, 1), graph_tree(1, 6, 1)};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        for (int c = 0; c < COLLECTIVE_COUNT; c++) {
            const uint32_t parts = c == COLLECTIVE_ALLREDUCE ? (uint32_t)graphs[i].rank_count : 2;
            if (c != COLLECTIVE_BARRIER) planned(&graphs[i], (enum collective)c, parts, 1e6, 4);
        }
        synth_graph_release(&graphs[i]);
    }
}

/* The bounds are exact: what must come in, over how much can. */
static void simple_graphs_are_as_fast_as_they_can_be(void **state)
{
    (void)state;
    struct synth_graph graph = graph_ring(7);
    const double ring_ns = planned(&graph, COLLECTIVE_ALLGATHER, 2, 2e6, 8);
    assert_in_range((uint64_t)ring_ns, 5999999, 6600000); /* 6 blocks of 2 MB through 2 GB/s */
    synth_graph_release(&graph);
    graph = graph_tree(1, 6, 1);
    const double switch_ns = planned(&graph, COLLECTIVE_ALLGATHER, 1, 1e6, 8);
    assert_in_range((uint64_t)switch_ns, 5000000,
                    7100000); /* 5 blocks through 1 GB/s, and a late one */
    synth_graph_release(&graph);
}

/* Each rank gets 31 blocks through 1 GB/s, and each host 24 through 8 GB/s. */
static void many_ranks_on_hosts_are_planned(void **state)
{
    (void)state;
    struct synth_graph graph = graph_tree(4, 8, 8);
    const double ns = planned(&graph, COLLECTIVE_ALLGATHER, 1, 1e6, 1);
    assert_in_range((uint64_t)ns, 31000000, 62000000);
    planned(&graph, COLLECTIVE_REDUCE_SCATTER, 1, 1e6, 1);
    planned(&graph, COLLECTIVE_ALLTOALL, 1, 1e6, 1);
    synth_graph_release(&graph);
}

/* TE-CCL publishes 43.75 ms for 1 GB; without latency 500 MB take 40 ms between the two halves. */
static void ndv2_is_faster_than_published(void **state)
{
    (void)state;
    struct synth_graph graph = graph_ndv2();
    const double ns = planned(&graph, COLLECTIVE_ALLGATHER, 16, 62.5e6, IS_SANITIZED ? 1 : 4);
    assert_in_range((uint64_t)ns, 40000000, 40400000);
    synth_graph_release(&graph);
}

static void one_seed_makes_one_schedule(void **state)
{
    (void)state;
    struct synth_graph graph = graph_dgx1(1);
    const double first_ns = planned(&graph, COLLECTIVE_ALLTOALL, 3, 1e6, 3);
    assert_true(planned(&graph, COLLECTIVE_ALLTOALL, 3, 1e6, 3) == first_ns);
    synth_graph_release(&graph);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct synth_graph graph = {.rank_count = 3, .node_count = 3};
    assert_int_equal(synth_graph_add(&graph, 0, 1, 1, 0), TUTTI_OK);
    const struct plan_shape shape = {COLLECTIVE_ALLGATHER, 3, 0, 1};
    struct greedy_options options = {1, 1, 1e6, second};
    struct synth_steps steps;
    double ns;
    assert_int_equal(greedy_schedule(&graph, &shape, &options, &steps, &ns), TUTTI_INVALID_OPTIONS);
    synth_graph_release(&graph);
    graph = graph_ring(3);
    options.attempt_count = 0;
    assert_int_equal(greedy_schedule(&graph, &shape, &options, &steps, &ns), TUTTI_INVALID_OPTIONS);
    options.attempt_count = 1;
    options.timeout_ns = 0;
    assert_int_equal(greedy_schedule(&graph, &shape, &options, &steps, &ns), TUTTI_TIMEOUT);
    synth_graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_is_planned_on_every_graph),
        cmocka_unit_test(simple_graphs_are_as_fast_as_they_can_be),
        cmocka_unit_test(many_ranks_on_hosts_are_planned),
        cmocka_unit_test(ndv2_is_faster_than_published),
        cmocka_unit_test(one_seed_makes_one_schedule),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
