#include "studio/synth/from_topo.h"

#include <math.h>
#include <stdlib.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "studio/synth/standing.h"

struct maker {
    const struct topo *topo;
    int *node;          /* of each of the topology's: which one stands for it, being joined */
    int *number;        /* of each that stands for others: in the graph; -1: none */
    int *links_inside;  /* of each: links to what stands in the same machine */
    int *ranks_inside;  /* of each accelerator */
    bool *is_joined;    /* of each that stands for itself: by standing there to what it stands in */
    int first_standing; /* edge: from there on they are for what is joined so */
    double unit;        /* bytes a second */
    struct from_topo_notes *notes;
    struct synth_graph *graph;
};

static int machine_of(const struct maker *maker, int node)
{
    return topo_within(maker->topo, node, TOPO_MACHINE);
}

/* ----------------------------------------------------------------------------- what is one node */

static void count_inside(struct maker *maker)
{
    const struct topo *topo = maker->topo;
    for (int i = 0; i < topo->link_count; i++) {
        const int *ends = topo->links[i].ends;
        const int machine = machine_of(maker, ends[0]);
        if (machine < 0 || machine != machine_of(maker, ends[1])) continue;
        maker->links_inside[ends[0]]++;
        maker->links_inside[ends[1]]++;
    }
    for (int i = 0; i < topo->node_count; i++) {
        const int parent = topo->nodes[i].parent;
        if (topo->nodes[i].kind == TOPO_RANK && topo->nodes[parent].kind == TOPO_ACCELERATOR)
            maker->ranks_inside[parent]++;
    }
}

/* Parents come first, so what a node joins is settled. */
static void join(struct maker *maker)
{
    const struct topo *topo = maker->topo;
    for (int i = 0; i < topo->node_count; i++) {
        const struct topo_node *node = &topo->nodes[i];
        maker->node[i] = i;
        if (node->parent < 0 || machine_of(maker, i) < 0) continue;
        if (node->kind == TOPO_RANK && maker->ranks_inside[node->parent] == 1)
            maker->node[i] = node->parent;
        else if ((standing_is_container(node->kind) && node->kind != TOPO_MACHINE) ||
                 node->kind == TOPO_NIC || node->kind == TOPO_SWITCH) {
            if (maker->links_inside[i] == 0) maker->node[i] = maker->node[node->parent];
        }
    }
}

static enum tutti_status number_ranks(struct maker *maker)
{
    const struct topo *topo = maker->topo;
    const int ranks = topo_rank_count(topo);
    if (ranks < 2 || ranks > SYNTH_NODES_MAX)
        return error_set(TUTTI_INVALID_RANK, "the topology has %d ranks; 2 to %d", ranks,
                         SYNTH_NODES_MAX);
    for (int i = 0; i < topo->node_count; i++) maker->number[i] = -1;
    for (int i = 0; i < topo->node_count; i++) {
        if (topo->nodes[i].kind != TOPO_RANK) continue;
        if (topo->nodes[i].number >= ranks)
            return error_set(TUTTI_INVALID_RANK, "rank %d of %d: ranks are numbered from 0 on",
                             topo->nodes[i].number, ranks);
        maker->number[maker->node[i]] = topo->nodes[i].number;
    }
    maker->graph->rank_count = maker->graph->node_count = ranks;
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------- units */

/* By which part of itself a capacity may be changed: measurements are not more exact than 2 %. */
static const double EXACT = 1e-9, MEASURED = 0.02, ROUNDED_MAX = 0.1;
enum { UNITS_MAX = 1 << 16 };

static bool fits_all(const struct topo *topo, double unit)
{
    for (int i = 0; i < topo->link_count; i++) {
        const struct topo_link *const link = &topo->links[i];
        const double units = link->bytes_per_second / unit;
        const double allowed = link->known == TOPO_MEASURED ? MEASURED : EXACT;
        if (fabs(units - round(units)) > allowed * units) return false;
    }
    return true;
}

/* A part of the narrowest link, or else what makes the widest link 16 bits wide. */
static enum tutti_status choose_unit(struct maker *maker)
{
    enum { PARTS_MAX = 64 };
    const struct topo *topo = maker->topo;
    double least = INFINITY, most = 0;
    for (int i = 0; i < topo->link_count; i++) {
        const double own = topo->links[i].bytes_per_second;
        if (!(own > 0) || !isfinite(own)) {
            char ends[2][TOPO_LABEL_SIZE];
            for (int k = 0; k < 2; k++) topo_label(&topo->nodes[topo->links[i].ends[k]], ends[k]);
            return error_set(TUTTI_INVALID_OPTIONS,
                             "link %d, from %.60s to %.60s, needs bytes_per_second above 0", i + 1,
                             ends[0], ends[1]);
        }
        if (own < least) least = own;
        if (own > most) most = own;
    }
    if (!(most > 0)) return error_set(TUTTI_INVALID_OPTIONS, "the topology has no links");
    for (int parts = 1; parts <= PARTS_MAX; parts++)
        if (fits_all(topo, least / parts) && most / (least / parts) <= UNITS_MAX) {
            maker->unit = least / parts;
            return TUTTI_OK;
        }
    maker->unit = most / UNITS_MAX;
    return TUTTI_OK;
}

static uint32_t units_of(struct maker *maker, double bytes_per_second)
{
    const double exact = bytes_per_second / maker->unit;
    const double units = fmax(1, round(exact));
    const double rounded = fabs(units - exact) / exact;
    if (rounded > EXACT && rounded > maker->notes->rounded_most)
        maker->notes->rounded_most = rounded;
    return (uint32_t)units;
}

/* ---------------------------------------------------------------------------------------- edges */

static enum tutti_status number_of(struct maker *maker, int node, int *number)
{
    node = maker->node[node];
    if (maker->number[node] < 0) {
        if (maker->graph->node_count == SYNTH_NODES_MAX)
            return error_set(TUTTI_UNSUPPORTED, "more than %d nodes with links", SYNTH_NODES_MAX);
        maker->number[node] = maker->graph->node_count++;
    }
    *number = maker->number[node];
    return TUTTI_OK;
}

static enum tutti_status add_cable(struct maker *maker, int a, int b, uint32_t units,
                                   double latency_ns)
{
    int ends[2] = {0, 0};
    TRY(number_of(maker, a, &ends[0]));
    TRY(number_of(maker, b, &ends[1]));
    if (ends[0] == ends[1]) return TUTTI_OK;
    TRY(synth_graph_add(maker->graph, ends[0], ends[1], units, latency_ns));
    return synth_graph_add(maker->graph, ends[1], ends[0], units, latency_ns);
}

static enum tutti_status add_standing(struct maker *maker, uint32_t units)
{
    const struct topo *topo = maker->topo;
    TRY(standing_find(topo, maker->node, maker->is_joined));
    maker->first_standing = maker->graph->edge_count;
    for (int i = 0; i < topo->node_count; i++) {
        const bool is_idle = topo->nodes[i].kind == TOPO_ACCELERATOR &&
                             maker->ranks_inside[i] == 0 && maker->links_inside[i] == 0;
        if (maker->is_joined[i] && !is_idle)
            TRY(add_cable(maker, i, topo->nodes[i].parent, units, 0));
    }
    return TUTTI_OK;
}

static enum tutti_status add_links(struct maker *maker)
{
    const struct topo *topo = maker->topo;
    uint64_t total = 0;
    for (int i = 0; i < topo->link_count; i++) {
        const struct topo_link *link = &topo->links[i];
        const uint32_t units = units_of(maker, link->bytes_per_second);
        total += units;
        TRY(add_cable(maker, link->ends[0], link->ends[1], units, link->latency_ns));
    }
    if (maker->notes->rounded_most > ROUNDED_MAX)
        return error_set(
            TUTTI_UNSUPPORTED,
            "the narrowest links carry so little beside the widest one, of %.3g GB/s, that "
            "they are no multiples of one unit",
            maker->unit * UNITS_MAX * 1e-9);
    return add_standing(maker, (uint32_t)(total < SYNTH_CAPACITY_MAX ? total : SYNTH_CAPACITY_MAX));
}

/* A switch with one neighbour leads nowhere; without it the next one may. */
static enum tutti_status prune(struct maker *maker)
{
    struct synth_graph *graph = maker->graph;
    int *neighbours = malloc((size_t)graph->node_count * sizeof *neighbours);
    if (neighbours == NULL) return error_set(TUTTI_NO_MEMORY, "%d nodes", graph->node_count);
    for (bool again = true; again;) {
        again = false;
        for (int n = 0; n < graph->node_count; n++) neighbours[n] = 0;
        for (int i = 0; i < graph->edge_count; i++) neighbours[graph->edges[i].from]++;
        int kept = 0, links = 0; /* edges before the edges that stand for standing */
        for (int i = 0; i < graph->edge_count; i++) {
            const struct synth_edge *edge = &graph->edges[i];
            if (i == maker->first_standing) links = kept;
            if ((edge->from >= graph->rank_count && neighbours[edge->from] == 1) ||
                (edge->to >= graph->rank_count && neighbours[edge->to] == 1))
                again = true;
            else
                graph->edges[kept++] = *edge;
        }
        maker->first_standing = maker->first_standing < graph->edge_count ? links : kept;
        graph->edge_count = kept;
    }
    maker->notes->assumed_count = (graph->edge_count - maker->first_standing) / 2;
    /* The nodes that are left get new numbers without gaps. */
    int next = graph->rank_count;
    for (int n = 0; n < graph->node_count; n++) {
        const bool is_kept = n < graph->rank_count || neighbours[n] > 0;
        neighbours[n] = n < graph->rank_count ? n : is_kept ? next++ : -1;
    }
    for (int i = 0; i < graph->edge_count; i++) {
        graph->edges[i].from = neighbours[graph->edges[i].from];
        graph->edges[i].to = neighbours[graph->edges[i].to];
    }
    graph->node_count = next;
    free(neighbours);
    return synth_graph_reindex(graph);
}

static int part_of(int *next, int node)
{
    for (; next[node] != node; node = next[node]) next[node] = next[next[node]];
    return node;
}

/* All cables go both ways, so one rank's part is all or not enough. */
static enum tutti_status check_joined(const struct synth_graph *graph)
{
    struct rank_list others = RANK_LIST_EMPTY;
    int *next = malloc((size_t)graph->node_count * sizeof *next);
    if (next == NULL) return error_set(TUTTI_NO_MEMORY, "%d nodes", graph->node_count);
    for (int n = 0; n < graph->node_count; n++) next[n] = n;
    for (int i = 0; i < graph->edge_count; i++)
        next[part_of(next, graph->edges[i].from)] = part_of(next, graph->edges[i].to);
    for (int r = 1; r < graph->rank_count; r++)
        if (part_of(next, r) != part_of(next, 0)) rank_list_add(&others, r);
    free(next);
    if (others.count == 0) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "nothing joins rank%s %s to rank 0: add the links between the machines, or "
                     "between their cards and switches (tutti-topo FILE --format matrix shows "
                     "which ranks reach each other)",
                     others.count > 1 ? "s" : "", others.text);
}

static void shorten(struct maker *maker)
{
    struct synth_graph *graph = maker->graph;
    uint32_t common = 0;
    for (int i = 0; i < graph->edge_count; i++) {
        uint32_t a = common, b = graph->edges[i].capacity;
        while (b != 0) {
            const uint32_t rest = a % b;
            a = b;
            b = rest;
        }
        common = a;
    }
    for (int i = 0; i < graph->edge_count; i++) graph->edges[i].capacity /= common;
    graph->bytes_per_second = maker->unit * (common > 0 ? common : 1);
}

static enum tutti_status make(struct maker *maker)
{
    count_inside(maker);
    join(maker);
    TRY(number_ranks(maker));
    TRY(choose_unit(maker));
    TRY(add_links(maker));
    TRY(prune(maker));
    TRY(check_joined(maker->graph));
    shorten(maker);
    maker->notes->switch_count = maker->graph->node_count - maker->graph->rank_count;
    return TUTTI_OK;
}

enum tutti_status synth_graph_from_topo(const struct topo *topo, struct synth_graph *graph,
                                        struct from_topo_notes *notes)
{
    const size_t nodes = (size_t)topo->node_count;
    *graph = (struct synth_graph){0};
    *notes = (struct from_topo_notes){0};
    int *arrays = calloc(4 * nodes + 1, sizeof *arrays);
    bool *is_joined = calloc(nodes + 1, sizeof *is_joined);
    if (arrays == NULL || is_joined == NULL) {
        free(arrays);
        free(is_joined);
        return error_set(TUTTI_NO_MEMORY, "a topology of %zu nodes", nodes);
    }
    struct maker maker = {.topo = topo,
                          .node = arrays,
                          .number = arrays + nodes,
                          .links_inside = arrays + 2 * nodes,
                          .ranks_inside = arrays + 3 * nodes,
                          .is_joined = is_joined,
                          .notes = notes,
                          .graph = graph};
    const enum tutti_status status = make(&maker);
    free(arrays);
    free(is_joined);
    if (status != TUTTI_OK) synth_graph_release(graph);
    return status;
}
