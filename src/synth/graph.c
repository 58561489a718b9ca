#include "synth/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static struct synth_edge *find(const struct synth_graph *graph, int from, int to)
{
    for (int i = 0; i < graph->edge_count; i++)
        if (graph->edges[i].from == from && graph->edges[i].to == to) return &graph->edges[i];
    return NULL;
}

const struct synth_edge *synth_graph_find(const struct synth_graph *graph, int from, int to)
{
    return find(graph, from, to);
}

static enum tutti_status make_room(struct synth_graph *graph)
{
    if (graph->edge_count < graph->edge_room) return TUTTI_OK;
    const int room = graph->edge_room > 0 ? 2 * graph->edge_room : 16;
    struct synth_edge *const edges = realloc(graph->edges, (size_t)room * sizeof *edges);
    if (edges == NULL) return error_set(TUTTI_NO_MEMORY, "a graph of %d edges", room);
    graph->edges = edges;
    graph->edge_room = room;
    return TUTTI_OK;
}

enum tutti_status synth_graph_add(struct synth_graph *graph, int from, int to, uint32_t capacity,
                                  double latency_ns)
{
    if (from < 0 || to < 0 || from >= graph->node_count || to >= graph->node_count || from == to)
        return error_set(TUTTI_INVALID_OPTIONS, "an edge from %d to %d in a graph of %d nodes",
                         from, to, graph->node_count);
    struct synth_edge *const edge = find(graph, from, to);
    const uint64_t total = (uint64_t)capacity + (edge != NULL ? edge->capacity : 0);
    if (capacity == 0 || total > SYNTH_CAPACITY_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "the edge from %d to %d has a capacity of %llu",
                         from, to, (unsigned long long)total);
    if (edge != NULL) {
        edge->capacity = (uint32_t)total;
        if (latency_ns > edge->latency_ns) edge->latency_ns = latency_ns;
        return TUTTI_OK;
    }
    TRY(make_room(graph));
    graph->edges[graph->edge_count++] =
        (struct synth_edge){.from = from, .to = to, .capacity = capacity, .latency_ns = latency_ns};
    return TUTTI_OK;
}

enum tutti_status synth_graph_copy(const struct synth_graph *graph, struct synth_graph *copy)
{
    *copy = *graph;
    copy->edge_room = graph->edge_count;
    copy->edges = NULL;
    if (graph->edge_count == 0) return TUTTI_OK;
    copy->edges = malloc((size_t)graph->edge_count * sizeof *copy->edges);
    if (copy->edges == NULL) {
        *copy = (struct synth_graph){0};
        return error_set(TUTTI_NO_MEMORY, "a graph of %d edges", graph->edge_count);
    }
    memcpy(copy->edges, graph->edges, (size_t)graph->edge_count * sizeof *copy->edges);
    return TUTTI_OK;
}

enum tutti_status synth_graph_reverse(const struct synth_graph *graph, struct synth_graph *reversed)
{
    TRY(synth_graph_copy(graph, reversed));
    for (int i = 0; i < reversed->edge_count; i++) {
        struct synth_edge *const edge = &reversed->edges[i];
        const int from = edge->from;
        edge->from = edge->to;
        edge->to = from;
    }
    return TUTTI_OK;
}

void synth_graph_release(struct synth_graph *graph)
{
    free(graph->edges);
    *graph = (struct synth_graph){0};
}
