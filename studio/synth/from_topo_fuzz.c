/* Whatever topology comes: a graph of it is one, or the refusal has a message; trees are found in
 * time or not, never beyond what edges have room for, and a plan of them is proven. */
#include <stdlib.h>

#include "os/clock.h"
#include "plan/verify.h"
#include "studio/synth/forest.h"
#include "studio/synth/from_topo.h"
#include "studio/synth/lay.h"
#include "studio/topo/topo_json.h"

enum { RANKS_MAX = 6, NODES_MAX = 12 };
static const uint64_t TIME_NS = 300000000;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void check_graph(const struct synth_graph *graph)
{
    must(graph->rank_count >= 1 && graph->node_count >= graph->rank_count &&
         graph->node_count <= SYNTH_NODES_MAX);
    for (int i = 0; i < graph->edge_count; i++) {
        const struct synth_edge *const edge = &graph->edges[i];
        must(edge->from >= 0 && edge->from < graph->node_count && edge->to >= 0 &&
             edge->to < graph->node_count && edge->from != edge->to);
        must(edge->capacity >= 1 && edge->capacity <= SYNTH_CAPACITY_MAX && edge->latency_ns >= 0);
        must(synth_graph_find(graph, edge->from, edge->to) == edge);
    }
}

static void check_trees(const struct forest *forest)
{
    const int n = forest->rank_count;
    int64_t used[RANKS_MAX][RANKS_MAX] = {0};
    for (int t = 0; t < forest->tree_count; t++) {
        const struct forest_tree *const tree = &forest->trees[t];
        for (int rank = 0; rank < n; rank++)
            if (tree->parent[rank] >= 0) used[tree->parent[rank]][rank] += tree->weight;
    }
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) must(used[from][to] <= forest->room[from * n + to]);
    must(synth_ratio_compare(forest->attained, forest->bound) >= 0);
}

static void check_plan(const struct forest *forest)
{
    const struct lay lay = {.collective = COLLECTIVE_ALLGATHER, .down = forest, .pieces = 2};
    const struct verify_options options = {.in_place = false};
    struct verify_report proof;
    struct plan *plan;
    if (lay_plan(&lay, &plan) != TUTTI_OK) return;
    must(plan_verify(plan, &options, &proof) == VERIFY_PROVEN);
    plan_free(plan);
}

static void make_trees(const struct synth_graph *graph)
{
    const struct forest_options options = {
        .root = SYNTH_EVERY_RANK, .k = 2, .deadline_ns = clock_now_ns() + TIME_NS};
    struct forest forest;
    if (forest_make(graph, &options, &forest) != TUTTI_OK) return;
    check_trees(&forest);
    check_plan(&forest);
    forest_release(&forest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct topo topo;
    struct synth_graph graph;
    struct from_topo_notes notes;
    if (topo_json_load((const char *)data, size, &topo) != TUTTI_OK) return 0;
    const enum tutti_status status = synth_graph_from_topo(&topo, &graph, &notes);
    if (status == TUTTI_OK) {
        check_graph(&graph);
        if (graph.rank_count <= RANKS_MAX && graph.node_count <= NODES_MAX) make_trees(&graph);
    } else {
        must(graph.edge_count == 0 && tutti_error_message()[0] != 0);
    }
    synth_graph_release(&graph);
    topo_release(&topo);
    return 0;
}
