/* path.c - breadth first, so that a node's path is final before it is passed on: O(nodes +
 * links). */
#include "studio/topo/path.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { NO_LINK = -1 };

/* Neighbours of node i are edges[first[i]] to edges[first[i + 1] - 1]. */
struct edge {
    int to, link; /* NO_LINK: inside a machine */
};

struct graph {
    const struct topo *topo;
    size_t *first;
    struct edge *edges;
    unsigned char *joined; /* to its parent by standing there, and by no link */
    unsigned char *above;  /* contains where all paths begin, or is it */
    int *queue;
};

static void find_joined(struct graph *graph)
{
    const struct topo *topo = graph->topo;
    for (int i = 1; i < topo->node_count; i++) {
        const int parent = topo->nodes[i].parent;
        graph->joined[i] = graph->joined[parent] || topo->nodes[parent].kind == TOPO_MACHINE;
    }
    for (int i = 0; i < topo->link_count; i++)
        for (int k = 0; k < 2; k++) {
            const int child = topo->links[i].ends[k], parent = topo->links[i].ends[1 - k];
            if (topo->nodes[child].parent == parent) graph->joined[child] = false;
        }
}

static void add_edge(struct graph *graph, int from, int to, int link)
{
    graph->edges[graph->first[from]++] = (struct edge){to, link};
}

/* Both directions of everything, sorted by where it leaves. */
static void fill_edges(struct graph *graph)
{
    const struct topo *topo = graph->topo;
    const size_t count = (size_t)topo->node_count;
    size_t *first = graph->first;
    for (int i = 0; i < topo->node_count; i++) {
        if (!graph->joined[i]) continue;
        first[i + 1]++;
        first[topo->nodes[i].parent + 1]++;
    }
    for (int i = 0; i < topo->link_count; i++)
        for (int k = 0; k < 2; k++) first[topo->links[i].ends[k] + 1]++;
    for (size_t i = 0; i < count; i++) first[i + 1] += first[i];
    for (int i = 0; i < topo->link_count; i++)
        for (int k = 0; k < 2; k++)
            add_edge(graph, topo->links[i].ends[k], topo->links[i].ends[1 - k], i);
    for (int i = 0; i < topo->node_count; i++) {
        if (!graph->joined[i]) continue;
        add_edge(graph, i, topo->nodes[i].parent, NO_LINK);
        add_edge(graph, topo->nodes[i].parent, i, NO_LINK);
    }
    /* Each beginning has moved to its end, which is the next one's beginning. */
    memmove(first + 1, first, count * sizeof *first);
    first[0] = 0;
}

static void graph_release(struct graph *graph)
{
    free(graph->first);
    free(graph->edges);
    free(graph->joined);
    free(graph->above);
    free(graph->queue);
}

static enum tutti_status graph_init(struct graph *graph, const struct topo *topo, int from)
{
    const size_t nodes = (size_t)topo->node_count, links = (size_t)topo->link_count;
    *graph = (struct graph){.topo = topo,
                            .first = calloc(nodes + 1, sizeof *graph->first),
                            .edges = calloc(2 * (nodes + links), sizeof *graph->edges),
                            .joined = calloc(nodes, 1),
                            .above = calloc(nodes, 1),
                            .queue = calloc(nodes, sizeof *graph->queue)};
    if (!graph->first || !graph->edges || !graph->joined || !graph->above || !graph->queue) {
        graph_release(graph);
        return error_set(TUTTI_NO_MEMORY, "topology: out of memory");
    }
    find_joined(graph);
    fill_edges(graph);
    for (int i = from; i >= 0; i = topo->nodes[i].parent) graph->above[i] = true;
    return TUTTI_OK;
}

/* Whether paths go on from this node to that one. */
static bool passes(const struct graph *graph, int node, int to)
{
    const struct topo_node *nodes = graph->topo->nodes;
    switch (nodes[node].kind) {
    case TOPO_RANK: return graph->above[node];
    case TOPO_PU:
    case TOPO_CORE:
    case TOPO_ACCELERATOR: return graph->above[node] || nodes[to].parent == node;
    case TOPO_CLUSTER:
    case TOPO_RACK:
    case TOPO_SWITCH:
    case TOPO_MACHINE:
    case TOPO_PACKAGE:
    case TOPO_NUMA:
    case TOPO_CACHE:
    case TOPO_NIC:
    case TOPO_KIND_COUNT: break;
    }
    return true;
}

static struct topo_reach extend(const struct topo_reach *path, int node,
                                const struct topo_link *link)
{
    struct topo_reach longer = *path;
    longer.hops++;
    longer.previous = node;
    if (link == NULL) return longer;
    longer.link_count++;
    longer.latency_ns += link->latency_ns;
    if (link->known < longer.known) longer.known = link->known;
    const double wide = link->bytes_per_second;
    if (wide > 0 && (longer.bytes_per_second == 0 || wide < longer.bytes_per_second))
        longer.bytes_per_second = wide;
    return longer;
}

/* A bandwidth that nobody has stated counts as the narrowest: a known path is better than a path
 * that may be anything. */
static bool is_better(const struct topo_reach *a, const struct topo_reach *b)
{
    if (b->hops < 0) return true;
    if (a->hops != b->hops) return a->hops < b->hops;
    if (a->bytes_per_second != b->bytes_per_second)
        return a->bytes_per_second > b->bytes_per_second;
    return a->latency_ns < b->latency_ns;
}

static void walk(const struct graph *graph, int from, struct topo_reach *reach)
{
    int begin = 0, end = 0;
    for (int i = 0; i < graph->topo->node_count; i++)
        reach[i] = (struct topo_reach){.hops = -1, .previous = -1};
    reach[from] = (struct topo_reach){.previous = -1, .known = TOPO_MEASURED};
    graph->queue[end++] = from;
    while (begin < end) {
        const int node = graph->queue[begin++];
        for (size_t i = graph->first[node]; i < graph->first[node + 1]; i++) {
            const struct edge edge = graph->edges[i];
            if (!passes(graph, node, edge.to)) continue;
            const struct topo_link *link =
                edge.link == NO_LINK ? NULL : &graph->topo->links[edge.link];
            const struct topo_reach longer = extend(&reach[node], node, link);
            if (!is_better(&longer, &reach[edge.to])) continue;
            if (reach[edge.to].hops < 0) graph->queue[end++] = edge.to;
            reach[edge.to] = longer;
        }
    }
}

enum tutti_status topo_reach_all(const struct topo *topo, int from, struct topo_reach *reach)
{
    struct graph graph;
    TRY(graph_init(&graph, topo, from));
    walk(&graph, from, reach);
    graph_release(&graph);
    return TUTTI_OK;
}

enum tutti_status topo_path(const struct topo *topo, int from_rank, int to_rank,
                            struct topo_reach *reach)
{
    const int from = topo_node_of_rank(topo, from_rank), to = topo_node_of_rank(topo, to_rank);
    if (from < 0 || to < 0)
        return error_set(TUTTI_INVALID_RANK, "topology: rank %d is not in it",
                         from < 0 ? from_rank : to_rank);
    struct topo_reach *all = calloc((size_t)topo->node_count, sizeof *all);
    if (all == NULL) return error_set(TUTTI_NO_MEMORY, "topology: out of memory");
    const enum tutti_status status = topo_reach_all(topo, from, all);
    if (status == TUTTI_OK) *reach = all[to];
    free(all);
    return status;
}
