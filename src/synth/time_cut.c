#include "synth/time_cut.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "synth/steps.h"

bool time_cut_check(const struct synth_graph *graph, const struct plan_shape *shape,
                    const int *rounds, int step_count, const int *until_step)
{
    if (collective_reduces(shape->collective) && shape->collective != COLLECTIVE_ALLREDUCE)
        return false;
    int64_t room = 0, demand = 0;
    for (int i = 0; i < graph->edge_count; i++) {
        const struct synth_edge *const edge = &graph->edges[i];
        for (int step = 0; step < step_count; step++)
            if (step > until_step[edge->from] && step + 1 <= until_step[edge->to])
                room += (int64_t)edge->capacity * rounds[step];
    }
    const int chunk_count = synth_chunk_count(shape);
    for (int chunk = 0; chunk < chunk_count; chunk++) {
        bool outside = false, wanted = false;
        for (int rank = 0; rank < shape->rank_count; rank++) {
            const int source = synth_chunk_source(shape, chunk);
            if (until_step[rank] < 0 && (source < 0 || source == rank)) outside = true;
            if (until_step[rank] == step_count && synth_chunk_wanted(shape, chunk, rank))
                wanted = true;
        }
        if (outside && wanted) demand++;
    }
    return demand > room;
}

/* The network: node (v, t), t from 0 to S, is v + t·n; then the source. Arcs lie in pairs, each the other's reverse. */
struct arc {
    int to, next;
    int64_t room;
};

struct network {
    int node_count, source;
    struct arc *arcs;
    int arc_count;
    int *first, *level, *at, *queue;
};

static const int64_t endless = INT64_MAX / 4;

static void network_release(struct network *network)
{
    free(network->arcs);
    free(network->first);
}

static void add_arc(struct network *network, int from, int to, int64_t room)
{
    struct arc *const arcs = network->arcs + network->arc_count;
    arcs[0] = (struct arc){to, network->first[from], room};
    arcs[1] = (struct arc){from, network->first[to], 0};
    network->first[from] = network->arc_count++;
    network->first[to] = network->arc_count++;
}

/* With no arcs from the source yet. */
static enum tutti_status network_init(struct network *network, const struct synth_graph *graph,
                                      const int *rounds, int step_count)
{
    const int n = graph->node_count;
    const size_t nodes = (size_t)n * ((size_t)step_count + 1) + 1;
    const size_t arcs =
        2 * ((size_t)step_count * ((size_t)n + (size_t)graph->edge_count) + 2 * (size_t)n);
    *network = (struct network){.node_count = (int)nodes, .source = (int)nodes - 1};
    if (arcs > INT32_MAX / 4) return error_set(TUTTI_NO_MEMORY, "a network of %zu arcs", arcs);
    network->arcs = malloc(arcs * sizeof *network->arcs);
    network->first = malloc(4 * nodes * sizeof *network->first);
    if (network->arcs == NULL || network->first == NULL) {
        network_release(network);
        return error_set(TUTTI_NO_MEMORY, "a network of %zu arcs", arcs);
    }
    network->level = network->first + nodes;
    network->at = network->level + nodes;
    network->queue = network->at + nodes;
    for (size_t i = 0; i < nodes; i++) network->first[i] = -1;
    for (int step = 0; step < step_count; step++) {
        for (int v = 0; v < n; v++) add_arc(network, v + step * n, v + (step + 1) * n, endless);
        for (int i = 0; i < graph->edge_count; i++)
            add_arc(network, graph->edges[i].from + step * n, graph->edges[i].to + (step + 1) * n,
                    (int64_t)graph->edges[i].capacity * rounds[step]);
    }
    return TUTTI_OK;
}

/* Levels from the source on along arcs with room; whether the sink is reached. */
static bool find_levels(struct network *network, int sink)
{
    for (int i = 0; i < network->node_count; i++) network->level[i] = -1;
    int head = 0, tail = 0;
    network->level[network->source] = 0;
    network->queue[tail++] = network->source;
    while (head < tail) {
        const int node = network->queue[head++];
        for (int a = network->first[node]; a >= 0; a = network->arcs[a].next) {
            const int to = network->arcs[a].to;
            if (network->arcs[a].room == 0 || network->level[to] >= 0) continue;
            network->level[to] = network->level[node] + 1;
            network->queue[tail++] = to;
        }
    }
    return network->level[sink] >= 0;
}

/* As deep as there are levels: 2 S + 2 and the detours of residual arcs, at most the number of nodes. */
static int64_t push(struct network *network, int node, int sink, int64_t wanted)
{
    if (node == sink) return wanted;
    for (; network->at[node] >= 0; network->at[node] = network->arcs[network->at[node]].next) {
        struct arc *const arc = &network->arcs[network->at[node]];
        if (arc->room == 0 || network->level[arc->to] != network->level[node] + 1) continue;
        const int64_t pushed = push(network, arc->to, sink, wanted < arc->room ? wanted : arc->room);
        if (pushed == 0) continue;
        arc->room -= pushed;
        network->arcs[network->at[node] ^ 1].room += pushed;
        return pushed;
    }
    return 0;
}

/* Dinic's maximum flow; the levels of the last round tell what the source still reaches. */
static void saturate(struct network *network, int sink)
{
    while (find_levels(network, sink)) {
        memcpy(network->at, network->first, (size_t)network->node_count * sizeof *network->at);
        while (push(network, network->source, sink, endless) > 0) continue;
    }
}

/* The cut that lies next to the sources: inside is what the source does not reach. A node that keeps what it has is outside for good. */
static void read_cut(const struct network *network, int n, int step_count, int *until_step)
{
    for (int v = 0; v < n; v++) {
        until_step[v] = -1;
        for (int step = 0; step <= step_count && network->level[v + step * n] < 0; step++)
            until_step[v] = step;
    }
}

/* The ranks of `from` send what they have for the ranks of `to`: bits. More than one destination is judged with one sink of its own, which is the
 * source's twin backwards; here the destinations are joined at their ends. */
struct search {
    const struct synth_graph *graph;
    const struct plan_shape *shape;
    const int *rounds;
    int step_count;
    int *until_step;
};

/* `amount[r]`: so much starts at rank r; it ends at `sinks`. */
static enum tutti_status try_flow(const struct search *search, const int64_t *amount,
                                  const bool *sinks, bool *found)
{
    struct network network;
    const int n = search->graph->node_count;
    TRY(network_init(&network, search->graph, search->rounds, search->step_count));
    int sink = -1;
    for (int r = 0; r < search->shape->rank_count; r++) {
        if (amount[r] > 0) add_arc(&network, network.source, r, amount[r]);
        if (!sinks[r]) continue;
        const int end = r + search->step_count * n;
        if (sink < 0) sink = end;
        if (sink != end) add_arc(&network, end, sink, endless);
    }
    if (sink >= 0) saturate(&network, sink);
    read_cut(&network, n, search->step_count, search->until_step);
    network_release(&network);
    *found = sink >= 0 && time_cut_check(search->graph, search->shape, search->rounds,
                                         search->step_count, search->until_step);
    return TUTTI_OK;
}

/* One destination, and everybody sends it what it wants of theirs. */
static enum tutti_status try_destination(const struct search *search, int to, int64_t *amount,
                                         bool *sinks, bool *found)
{
    const struct plan_shape *const shape = search->shape;
    memset(amount, 0, (size_t)shape->rank_count * sizeof *amount);
    memset(sinks, 0, (size_t)shape->rank_count * sizeof *sinks);
    sinks[to] = true;
    const int chunk_count = synth_chunk_count(shape);
    for (int chunk = 0; chunk < chunk_count; chunk++) {
        const int source = synth_chunk_source(shape, chunk);
        if (source >= 0 && source != to && synth_chunk_wanted(shape, chunk, to)) amount[source]++;
    }
    return try_flow(search, amount, sinks, found);
}

/* One source and one set of destinations: halves, pairs. The source's amount is no bound here, only the cut's. */
static enum tutti_status try_sets(const struct search *search, uint32_t from, uint32_t to,
                                  int64_t *amount, bool *sinks, bool *found)
{
    for (int r = 0; r < search->shape->rank_count; r++) {
        amount[r] = (from >> r & 1) != 0 ? endless / SYNTH_NODES_MAX : 0;
        sinks[r] = (to >> r & 1) != 0;
    }
    return try_flow(search, amount, sinks, found);
}

static enum tutti_status try_all(const struct search *search, int64_t *amount, bool *sinks,
                                 bool *found)
{
    const int n = search->shape->rank_count;
    *found = false;
    for (int to = 0; to < n && !*found; to++)
        TRY(try_destination(search, to, amount, sinks, found));
    if (n > TIME_CUT_HALVES_MAX) return TUTTI_OK;
    const uint32_t all = (1u << n) - 1;
    for (int from = 0; from < n && !*found; from++)
        for (int to = 0; to < n && !*found; to++)
            if (to != from) TRY(try_sets(search, 1u << from, 1u << to, amount, sinks, found));
    for (uint32_t half = 1; half < all && !*found; half++)
        TRY(try_sets(search, half, all & ~half, amount, sinks, found));
    return TUTTI_OK;
}

enum tutti_status time_cut_find(const struct synth_graph *graph, const struct plan_shape *shape,
                                const int *rounds, int step_count, int *until_step, bool *found)
{
    *found = false;
    if (graph->rank_count < 2) return TUTTI_OK;
    int64_t *const amount = calloc((size_t)graph->rank_count, sizeof *amount);
    bool *const sinks = calloc((size_t)graph->rank_count, sizeof *sinks);
    const struct search search = {graph, shape, rounds, step_count, until_step};
    enum tutti_status status = TUTTI_OK;
    if (amount == NULL || sinks == NULL)
        status = error_set(TUTTI_NO_MEMORY, "a cut of %d ranks", graph->rank_count);
    else
        status = try_all(&search, amount, sinks, found);
    free(amount);
    free(sinks);
    return status;
}
