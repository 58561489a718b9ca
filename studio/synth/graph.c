#include "studio/synth/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* The slot of the edge, or the free one where it belongs; there always is a free one. */
static int slot_of(const struct synth_graph *graph, int from, int to)
{
    const uint32_t key = (uint32_t)from * SYNTH_NODES_MAX + (uint32_t)to;
    const uint32_t last = (uint32_t)graph->slot_count - 1;
    for (uint32_t slot = key * 2654435761u >> 7 & last;; slot = (slot + 1) & last) {
        const int edge = graph->slots[slot] - 1;
        if (edge < 0 || (graph->edges[edge].from == from && graph->edges[edge].to == to))
            return (int)slot;
    }
}

static struct synth_edge *find(const struct synth_graph *graph, int from, int to)
{
    if (graph->slot_count == 0) return NULL;
    const int edge = graph->slots[slot_of(graph, from, to)] - 1;
    return edge >= 0 ? &graph->edges[edge] : NULL;
}

const struct synth_edge *synth_graph_find(const struct synth_graph *graph, int from, int to)
{
    return find(graph, from, to);
}

enum tutti_status synth_graph_reindex(struct synth_graph *graph)
{
    int count = graph->slot_count > 0 ? graph->slot_count : 32;
    while (count / 2 < graph->edge_count) count *= 2;
    if (count != graph->slot_count) {
        int *const slots = realloc(graph->slots, (size_t)count * sizeof *slots);
        if (slots == NULL)
            return error_set(TUTTI_NO_MEMORY, "a graph of %d edges", graph->edge_count);
        graph->slots = slots;
        graph->slot_count = count;
    }
    memset(graph->slots, 0, (size_t)count * sizeof *graph->slots);
    for (int i = 0; i < graph->edge_count; i++)
        graph->slots[slot_of(graph, graph->edges[i].from, graph->edges[i].to)] = i + 1;
    return TUTTI_OK;
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
    if (graph->slot_count / 2 >= graph->edge_count) {
        graph->slots[slot_of(graph, from, to)] = graph->edge_count;
        return TUTTI_OK;
    }
    const enum tutti_status status = synth_graph_reindex(graph);
    if (status != TUTTI_OK) graph->edge_count--;
    return status;
}

enum tutti_status synth_graph_copy(const struct synth_graph *graph, struct synth_graph *copy)
{
    *copy = *graph;
    copy->edge_room = graph->edge_count;
    copy->edges = NULL;
    copy->slots = NULL;
    copy->slot_count = 0;
    if (graph->edge_count == 0) return TUTTI_OK;
    copy->edges = malloc((size_t)graph->edge_count * sizeof *copy->edges);
    if (copy->edges == NULL) {
        *copy = (struct synth_graph){0};
        return error_set(TUTTI_NO_MEMORY, "a graph of %d edges", graph->edge_count);
    }
    memcpy(copy->edges, graph->edges, (size_t)graph->edge_count * sizeof *copy->edges);
    const enum tutti_status status = synth_graph_reindex(copy);
    if (status != TUTTI_OK) synth_graph_release(copy);
    return status;
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
    return synth_graph_reindex(reversed);
}

bool synth_graph_is_even(const struct synth_graph *graph)
{
    for (int i = 0; i < graph->edge_count; i++) {
        const struct synth_edge *const edge = &graph->edges[i];
        const struct synth_edge *const back = find(graph, edge->to, edge->from);
        if (back == NULL || back->capacity != edge->capacity) return false;
    }
    return true;
}

void synth_graph_release(struct synth_graph *graph)
{
    free(graph->edges);
    free(graph->slots);
    *graph = (struct synth_graph){0};
}
