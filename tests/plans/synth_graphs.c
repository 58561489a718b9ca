#include "tests/plans/synth_graphs.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/kit/chance.h"

static struct synth_graph empty(int rank_count, int node_count)
{
    return (struct synth_graph){.rank_count = rank_count, .node_count = node_count};
}

static void add(struct synth_graph *graph, int from, int to, uint32_t capacity)
{
    if (synth_graph_add(graph, from, to, capacity, 0) == TUTTI_OK) return;
    fprintf(stderr, "%s\n", tutti_error_message());
    abort();
}

static void cable(struct synth_graph *graph, int a, int b, uint32_t capacity)
{
    add(graph, a, b, capacity);
    add(graph, b, a, capacity);
}

struct synth_graph graph_dgx1(uint32_t link)
{
    static const char *const links[8] = {"02112000", "20120100", "11020020", "12200001",
                                         "20000211", "01002012", "00201102", "00011220"};
    struct synth_graph graph = empty(8, 8);
    for (int a = 0; a < 8; a++)
        for (int b = 0; b < 8; b++)
            if (links[a][b] != '0') add(&graph, a, b, link * (uint32_t)(links[a][b] - '0'));
    return graph;
}

static void ring(struct synth_graph *graph, int first, int stride, int count)
{
    if (count == 2) cable(graph, first, first + stride, 1);
    for (int i = 0; count > 2 && i < count; i++)
        cable(graph, first + stride * i, first + stride * ((i + 1) % count), 1);
}

struct synth_graph graph_torus(int width, int height)
{
    struct synth_graph graph = empty(width * height, width * height);
    for (int y = 0; y < height; y++) ring(&graph, y * width, 1, width);
    for (int x = 0; x < width; x++) ring(&graph, x, width, height);
    return graph;
}

struct synth_graph graph_cube(int dimensions)
{
    const int count = 1 << dimensions;
    struct synth_graph graph = empty(count, count);
    for (int a = 0; a < count; a++)
        for (int d = 0; d < dimensions; d++) add(&graph, a, a ^ 1 << d, 1);
    return graph;
}

struct synth_graph graph_boxes(int boxes, int ranks, uint32_t inside, uint32_t outside)
{
    const int count = boxes * ranks;
    struct synth_graph graph = empty(count, count + boxes + (outside > 0));
    for (int r = 0; r < count; r++) {
        cable(&graph, r, count + r / ranks, inside);
        if (outside > 0) cable(&graph, r, count + boxes, outside);
    }
    return graph;
}

struct synth_graph graph_racks(int racks, int ranks, uint32_t host, uint32_t uplink)
{
    const int count = racks * ranks;
    struct synth_graph graph = empty(count, count + racks + 1);
    for (int r = 0; r < count; r++) cable(&graph, r, count + r / ranks, host);
    for (int i = 0; i < racks; i++) cable(&graph, count + i, count + racks, uplink);
    return graph;
}

struct synth_graph graph_two_dgx2(void)
{
    struct synth_graph graph = empty(32, 35);
    for (int r = 0; r < 32; r++) cable(&graph, r, 32 + r / 16, 250);
    for (int r = 0; r < 32; r += 2) {
        add(&graph, r, 34, 25);
        add(&graph, 34, r + 1, 25);
    }
    return graph;
}

struct synth_graph graph_two_ndv2(void)
{
    struct synth_graph box = graph_dgx1(50), graph = empty(16, 17);
    for (int i = 0; i < 2 * box.edge_count; i++) {
        const struct synth_edge *edge = &box.edges[i % box.edge_count];
        const int first = i < box.edge_count ? 0 : 8;
        add(&graph, first + edge->from, first + edge->to, edge->capacity);
    }
    for (int first = 0; first < 16; first += 8) {
        add(&graph, first, 16, 25);
        add(&graph, 16, first + 1, 25);
    }
    synth_graph_release(&box);
    return graph;
}

struct synth_graph graph_by_chance(uint64_t seed)
{
    struct chance chance = {.seed = seed};
    const int ranks = 2 + chance_below(&chance, 3);
    struct synth_graph graph = empty(ranks, ranks + chance_below(&chance, 3));
    for (int a = 0; a < graph.node_count; a++)
        for (int b = 0; b < graph.node_count; b++)
            if (a != b && chance_below(&chance, 3) > 0)
                add(&graph, a, b, 1 + (uint32_t)chance_below(&chance, 7));
    return graph;
}
