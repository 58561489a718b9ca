/* forest_test.c - trees attain the bound exactly, reach every rank, and share no edge beyond its
 * capacity, switches included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/status.h"
#include "studio/synth/forest.h"
#include "tests/plans/synth_graphs.h"

enum { NODES_MAX = 64 };

/* Uses of edges between ranks, then of what switches were split into, last split first, must fit
 * the graph's own edges. */
static void expect_capacities(const struct synth_graph *graph, const struct forest *forest)
{
    static double used[NODES_MAX][NODES_MAX];
    for (int a = 0; a < NODES_MAX; a++)
        for (int b = 0; b < NODES_MAX; b++) used[a][b] = 0;
    for (int t = 0; t < forest->tree_count; t++)
        for (int r = 0; r < forest->rank_count; r++)
            if (forest->trees[t].parent[r] >= 0)
                used[forest->trees[t].parent[r]][r] += (double)forest->trees[t].weight;
    for (int i = forest->splits.count - 1; i >= 0; i--) {
        const struct split *split = &forest->splits.of[i];
        double *use = &used[split->from][split->to];
        const struct synth_edge *edge = synth_graph_find(graph, split->from, split->to);
        double own = edge != NULL ? edge->capacity * synth_ratio_value(forest->width) : 0;
        const double beyond = *use - own;
        const double amount = beyond <= 0                      ? 0
                              : beyond < (double)split->amount ? beyond
                                                               : (double)split->amount;
        *use -= amount;
        used[split->from][split->via] += amount;
        used[split->via][split->to] += amount;
    }
    for (int a = 0; a < graph->node_count; a++)
        for (int b = 0; b < graph->node_count; b++) {
            const struct synth_edge *edge = synth_graph_find(graph, a, b);
            const double room = edge != NULL ? edge->capacity * synth_ratio_value(forest->width) : 0;
            if (used[a][b] > room + 1e-6)
                fail_msg("edge %d-%d carries %g trees of %g", a, b, used[a][b], room);
        }
}

static void expect_trees(const struct forest *forest)
{
    int64_t weights[NODES_MAX] = {0};
    for (int t = 0; t < forest->tree_count; t++) {
        const struct forest_tree *tree = &forest->trees[t];
        bool reached[NODES_MAX] = {false};
        assert_true(tree->weight > 0);
        assert_int_equal(tree->order[0], tree->root);
        assert_int_equal(tree->parent[tree->root], -1);
        for (int i = 0; i < forest->rank_count; i++) {
            const int rank = tree->order[i];
            assert_false(reached[rank]);
            if (i > 0) assert_true(reached[tree->parent[rank]]);
            reached[rank] = true;
        }
        weights[tree->root] += tree->weight;
    }
    for (int r = 0; r < forest->rank_count; r++)
        assert_int_equal(weights[r],
                         forest->root == SYNTH_EVERY_RANK || forest->root == r ? forest->k : 0);
}

/* Whether it attains the bound. */
static bool check(const struct synth_graph *graph, int root, int64_t k)
{
    const struct forest_options options = {.root = root, .k = k};
    struct forest forest;
    if (forest_make(graph, &options, &forest) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    expect_trees(&forest);
    expect_capacities(graph, &forest);
    const int order = synth_ratio_compare(forest.attained, forest.bound);
    assert_true(order >= 0);
    forest_release(&forest);
    return order == 0;
}

static void expect_optimal(struct synth_graph graph, int root)
{
    assert_true(check(&graph, root, 0));
    synth_graph_release(&graph);
}

static void published_topologies_are_packed_to_the_bound(void **state)
{
    (void)state;
    const int all = SYNTH_EVERY_RANK;
    expect_optimal(graph_dgx1(1), all);
    for (int p = 2; p <= 9; p++) expect_optimal(graph_torus(p, 1), all);
    expect_optimal(graph_torus(4, 4), all);
    expect_optimal(graph_torus(3, 3), all);
    expect_optimal(graph_torus(4, 2), all);
    expect_optimal(graph_cube(4), all);
    expect_optimal(graph_boxes(1, 8, 300, 0), all);
    expect_optimal(graph_boxes(2, 8, 300, 25), all);
    expect_optimal(graph_boxes(2, 8, 450, 50), all);
    expect_optimal(graph_racks(2, 4, 7, 4), all);
    expect_optimal(graph_racks(2, 4, 7, 3), all);
    expect_optimal(graph_dgx1(1), 0);
    expect_optimal(graph_boxes(2, 8, 300, 25), 3);
    expect_optimal(graph_racks(2, 4, 7, 3), 1);
}

static void few_trees_come_near_to_the_bound(void **state)
{
    (void)state;
    struct synth_graph graph = graph_boxes(2, 8, 300, 25);
    for (int k = 1; k <= 4; k *= 2) check(&graph, SYNTH_EVERY_RANK, k);
    synth_graph_release(&graph);
    graph = graph_dgx1(1);
    for (int k = 1; k <= 4; k *= 2) check(&graph, SYNTH_EVERY_RANK, k);
    synth_graph_release(&graph);
}

/* Half of them have a switch with more capacity in than out. Without a switch nothing is ever
 * lost. */
static void chance_graphs_have_trees(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct synth_graph graph = graph_by_chance(seed);
        struct synth_bound bound;
        const int root = seed % 3 == 0 ? (int)(seed % (unsigned)graph.rank_count) : SYNTH_EVERY_RANK;
        if (synth_bound_find(&graph, root, 0, &bound) == TUTTI_OK) {
            synth_bound_release(&bound);
            const struct forest_options options = {.root = root};
            struct forest forest;
            const enum tutti_status status = forest_make(&graph, &options, &forest);
            if (status == TUTTI_OK) {
                expect_trees(&forest);
                expect_capacities(&graph, &forest);
                assert_true(synth_ratio_compare(forest.attained, forest.bound) >= 0);
                if (!forest.is_trimmed)
                    assert_int_equal(synth_ratio_compare(forest.attained, forest.bound), 0);
                forest_release(&forest);
            } else if (status != TUTTI_INVALID_OPTIONS || graph.node_count == graph.rank_count) {
                fail_msg("seed %d: %s", (int)seed, tutti_error_message());
            }
        }
        synth_graph_release(&graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_topologies_are_packed_to_the_bound),
        cmocka_unit_test(few_trees_come_near_to_the_bound),
        cmocka_unit_test(chance_graphs_have_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
