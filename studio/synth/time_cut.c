#include "studio/synth/time_cut.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "studio/synth/late.h"

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
    for (int chunk = 0; chunk < chunk_count; chunk += (int)shape->parts) { /* one of each block */
        bool outside = false, wanted = false;
        for (int rank = 0; rank < shape->rank_count; rank++) {
            const int source = synth_chunk_source(shape, chunk);
            if (until_step[rank] < 0 && (source < 0 || source == rank)) outside = true;
            if (until_step[rank] == step_count && synth_chunk_wanted(shape, chunk, rank))
                wanted = true;
        }
        if (outside && wanted) demand += shape->parts;
    }
    return demand > room;
}

/* The network: node (v, t), t from 0 to S, is v + t·n; then the source and the sink. Arcs lie in
 * pairs, each the other's reverse. */
struct arc {
    int to, next;
    int64_t room;
};

struct cut_network {
    int node_count, source, sink;
    struct arc *arcs;
    int arc_count;
    int *first, *level, *at, *queue;
};

static const int64_t endless = INT64_MAX / 4;

static void network_release(struct cut_network *network)
{
    free(network->arcs);
    free(network->first);
}

static void add_arc(struct cut_network *network, int from, int to, int64_t room)
{
    struct arc *const arcs = network->arcs + network->arc_count;
    arcs[0] = (struct arc){to, network->first[from], room};
    arcs[1] = (struct arc){from, network->first[to], 0};
    network->first[from] = network->arc_count++;
    network->first[to] = network->arc_count++;
}

/* With no arcs from the source yet. */
static enum tutti_status network_init(struct cut_network *network, const struct synth_graph *graph,
                                      const int *rounds, int step_count)
{
    const int n = graph->node_count;
    const size_t nodes = (size_t)n * ((size_t)step_count + 1) + 2;
    const size_t arcs =
        2 * ((size_t)step_count * ((size_t)n + (size_t)graph->edge_count) + 2 * (size_t)n);
    *network = (struct cut_network){
        .node_count = (int)nodes, .source = (int)nodes - 2, .sink = (int)nodes - 1};
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
static bool find_levels(struct cut_network *network, int sink)
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

/* As deep as there are levels: 2 S + 2 and the detours of residual arcs, at most the number of
 * nodes. */
static int64_t push(struct cut_network *network, int node, int sink, int64_t wanted)
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

/* Dinic's maximum flow; the levels of the last round tell what the source still reaches. Less than
 * that where the time is over. */
static void saturate(struct cut_network *network, int sink, uint64_t deadline_ns)
{
    while (find_levels(network, sink) && !synth_is_late(deadline_ns)) {
        memcpy(network->at, network->first, (size_t)network->node_count * sizeof *network->at);
        while (push(network, network->source, sink, endless) > 0)
            if (synth_is_late(deadline_ns)) break;
    }
}

/* The cut that lies next to the sources: inside is what the source does not reach. A node that
 * keeps what it has is outside for good. */
static void read_cut(const struct cut_network *network, int n, int step_count, int *until_step)
{
    for (int v = 0; v < n; v++) {
        until_step[v] = -1;
        for (int step = 0; step <= step_count && network->level[v + step * n] < 0; step++)
            until_step[v] = step;
    }
}

struct search {
    const struct synth_graph *graph;
    const struct plan_shape *shape;
    const int *rounds;
    int step_count;
    uint64_t deadline_ns;
    int *until_step;
};

/* So much starts at each rank, and so much may end there. */
static enum tutti_status try_flow(const struct search *search, const int64_t *starts,
                                  const int64_t *ends, bool *found)
{
    struct cut_network network;
    const int n = search->graph->node_count;
    TRY(network_init(&network, search->graph, search->rounds, search->step_count));
    for (int r = 0; r < search->shape->rank_count; r++) {
        if (starts[r] > 0) add_arc(&network, network.source, r, starts[r]);
        if (ends[r] > 0) add_arc(&network, r + search->step_count * n, network.sink, ends[r]);
    }
    saturate(&network, network.sink, search->deadline_ns);
    read_cut(&network, n, search->step_count, search->until_step);
    network_release(&network);
    *found = time_cut_check(search->graph, search->shape, search->rounds, search->step_count,
                            search->until_step);
    return TUTTI_OK;
}

/* One destination to which everybody sends what it wants of theirs, or one source with what others
 * want of it. */
static enum tutti_status try_rank(const struct search *search, int rank, bool is_source,
                                  int64_t *starts, int64_t *ends, bool *found)
{
    const struct plan_shape *const shape = search->shape;
    const int n = shape->rank_count, chunk_count = synth_chunk_count(shape);
    memset(starts, 0, (size_t)n * sizeof *starts);
    memset(ends, 0, (size_t)n * sizeof *ends);
    (is_source ? starts : ends)[rank] = endless;
    for (int chunk = 0; chunk < chunk_count; chunk++) {
        const int source = synth_chunk_source(shape, chunk);
        if (is_source && source == rank)
            for (int to = 0; to < n; to++)
                ends[to] += to != rank && synth_chunk_wanted(shape, chunk, to);
        if (!is_source && source >= 0 && source != rank && synth_chunk_wanted(shape, chunk, rank))
            starts[source]++;
    }
    return try_flow(search, starts, ends, found);
}

/* Sets of ranks, as bits; how much is no bound here, only the cut is. */
static enum tutti_status try_sets(const struct search *search, uint32_t from, uint32_t to,
                                  int64_t *starts, int64_t *ends, bool *found)
{
    for (int r = 0; r < search->shape->rank_count; r++) {
        starts[r] = (from >> r & 1) != 0 ? endless : 0;
        ends[r] = (to >> r & 1) != 0 ? endless : 0;
    }
    return try_flow(search, starts, ends, found);
}

static bool goes_on(const struct search *search, const bool *found)
{
    return !*found && !synth_is_late(search->deadline_ns);
}

static enum tutti_status try_all(const struct search *search, int64_t *starts, int64_t *ends,
                                 bool *found)
{
    const int n = search->shape->rank_count;
    *found = false;
    for (int rank = 0; rank < n && goes_on(search, found); rank++) {
        TRY(try_rank(search, rank, false, starts, ends, found));
        if (!*found) TRY(try_rank(search, rank, true, starts, ends, found));
    }
    if (n > TIME_CUT_HALVES_MAX) return TUTTI_OK;
    const uint32_t all = (1u << n) - 1;
    for (int from = 0; from < n && goes_on(search, found); from++)
        for (int to = 0; to < n && goes_on(search, found); to++)
            if (to != from) TRY(try_sets(search, 1u << from, 1u << to, starts, ends, found));
    for (uint32_t half = 1; half < all && goes_on(search, found); half++)
        TRY(try_sets(search, half, all & ~half, starts, ends, found));
    return TUTTI_OK;
}

enum tutti_status time_cut_find(const struct synth_graph *graph, const struct plan_shape *shape,
                                const int *rounds, int step_count, uint64_t deadline_ns,
                                int *until_step, bool *found)
{
    *found = false;
    if (graph->rank_count < 2) return TUTTI_OK;
    int64_t *const starts = calloc(2 * (size_t)graph->rank_count, sizeof *starts);
    if (starts == NULL) return error_set(TUTTI_NO_MEMORY, "a cut of %d ranks", graph->rank_count);
    const struct search search = {graph, shape, rounds, step_count, deadline_ns, until_step};
    const enum tutti_status status = try_all(&search, starts, starts + graph->rank_count, found);
    free(starts);
    return status;
}

/* Follows one chunk from its source on through the flow, takes the chunk out of the flow, and
 * writes down its hops. Arcs at even places are the network's own; the flow through such an arc is
 * the room of its twin. */
static enum tutti_status follow(struct cut_network *network, int n, int chunk, int source,
                                struct synth_steps *steps)
{
    int node = source;
    for (int step = 0; step < steps->step_count; step++) {
        int a = network->first[node];
        while (a >= 0 && (a % 2 != 0 || network->arcs[a ^ 1].room == 0)) a = network->arcs[a].next;
        if (a < 0) return error_set(TUTTI_INTERNAL, "a flow ends at node %d", node);
        network->arcs[a ^ 1].room--;
        const int to = network->arcs[a].to;
        if (to % n != node % n) TRY(synth_steps_add(steps, step, chunk, node % n, to % n));
        node = to;
    }
    return TUTTI_OK;
}

static int compare_transfers(const void *left, const void *right)
{
    const struct synth_transfer *const a = left, *const b = right;
    return a->step != b->step ? a->step - b->step : a->chunk - b->chunk;
}

static enum tutti_status follow_all(struct cut_network *network, int n, const int *rounds,
                                    struct synth_steps *steps)
{
    const int chunk_count = synth_chunk_count(&steps->shape);
    memcpy(steps->rounds, rounds, (size_t)steps->step_count * sizeof *rounds);
    for (int chunk = 0; chunk < chunk_count; chunk++) {
        const int source = synth_chunk_source(&steps->shape, chunk);
        if (source != steps->shape.root) TRY(follow(network, n, chunk, source, steps));
    }
    if (steps->transfer_count > 0)
        qsort(steps->transfers, (size_t)steps->transfer_count, sizeof *steps->transfers,
              compare_transfers);
    return TUTTI_OK;
}

enum tutti_status time_flow_gather(const struct synth_graph *graph, const struct plan_shape *shape,
                                   const int *rounds, int step_count, uint64_t deadline_ns,
                                   struct synth_steps *steps, bool *found)
{
    struct cut_network network;
    const int n = graph->node_count;
    *found = false;
    TRY(synth_steps_init(steps, shape, step_count));
    enum tutti_status status = network_init(&network, graph, rounds, step_count);
    if (status != TUTTI_OK) {
        synth_steps_release(steps);
        return status;
    }
    for (int r = 0; r < shape->rank_count; r++)
        if (r != shape->root) add_arc(&network, network.source, r, shape->parts);
    add_arc(&network, shape->root + step_count * n, network.sink, endless);
    saturate(&network, network.sink, deadline_ns);
    const int64_t arrived = network.arcs[network.arc_count - 1].room;
    *found = arrived == (int64_t)shape->parts * (shape->rank_count - 1);
    if (*found) status = follow_all(&network, n, rounds, steps);
    network_release(&network);
    if (status != TUTTI_OK || !*found) synth_steps_release(steps);
    return status;
}
