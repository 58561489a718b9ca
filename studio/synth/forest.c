#include "studio/synth/forest.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "studio/synth/grow.h"
#include "studio/synth/late.h"
#include "studio/synth/residual.h"

void forest_release(struct forest *forest)
{
    for (int i = 0; i < forest->tree_count; i++)
        free(forest->trees[i].parent); /* and the order with it */
    free(forest->trees);
    free(forest->room);
    splits_release(&forest->splits);
    *forest = (struct forest){0};
}

static struct synth_ratio over(struct synth_ratio width, int64_t k)
{
    return synth_ratio_reduce((struct synth_ratio){width.top, width.bottom * k});
}

/* The fewest trees with which every edge has a whole number of them at the bound. */
static struct synth_ratio exact_width(const struct synth_graph *graph, struct synth_ratio bound,
                                      int64_t *k)
{
    int64_t common = bound.bottom;
    for (int i = 0; i < graph->edge_count; i++)
        common = synth_gcd(graph->edges[i].capacity, common);
    *k = bound.bottom / common;
    return synth_ratio_reduce((struct synth_ratio){bound.top, common});
}

/* Tries some numbers of trees and takes the number that comes nearest to the bound; of equal
 * numbers, the first. */
static enum tutti_status near_width(const struct synth_graph *graph,
                                    const struct forest_options *options, int64_t *k,
                                    struct synth_ratio *width)
{
    *k = 0;
    for (int64_t trees = 1; trees <= FOREST_K_MAX / 4; trees *= 2) {
        struct synth_ratio one;
        TRY(synth_bound_with(graph, options->root, trees, options->deadline_ns, &one));
        if (*k > 0 && synth_ratio_compare(over(one, trees), over(*width, *k)) >= 0) continue;
        *k = trees;
        *width = one;
    }
    return TUTTI_OK;
}

static enum tutti_status choose_width(const struct synth_graph *graph,
                                      const struct forest_options *options, struct forest *forest)
{
    struct synth_bound bound;
    TRY(synth_bound_find(graph, options->root, options->deadline_ns, &bound));
    forest->bound = bound.ratio;
    synth_bound_release(&bound);
    forest->k = options->k;
    if (options->k > 0)
        return synth_bound_with(graph, options->root, options->k, options->deadline_ns,
                                &forest->width);
    forest->width = exact_width(graph, forest->bound, &forest->k);
    return forest->k <= FOREST_K_MAX ? TUTTI_OK
                                     : near_width(graph, options, &forest->k, &forest->width);
}

/* ------------------------------------------------------------------ switches that do not add up */

struct sums {
    int64_t in, out;
};

static struct sums sums_of(const struct synth_graph *graph, int node)
{
    struct sums sums = {0, 0};
    for (int i = 0; i < graph->edge_count; i++) {
        if (graph->edges[i].to == node) sums.in += graph->edges[i].capacity;
        if (graph->edges[i].from == node) sums.out += graph->edges[i].capacity;
    }
    return sums;
}

/* Takes so much from the edges on that side, from each its share; one at a time for the rest. */
static void take(struct synth_graph *graph, int node, bool of_inward, int64_t total, int64_t excess)
{
    int64_t left = excess;
    for (int i = 0; i < graph->edge_count; i++) {
        struct synth_edge *edge = &graph->edges[i];
        if ((of_inward ? edge->to : edge->from) != node) continue;
        const int64_t share = (int64_t)((__int128)edge->capacity * excess / total);
        edge->capacity -= (uint32_t)share;
        left -= share;
    }
    for (int i = 0; i < graph->edge_count && left > 0; i++) {
        struct synth_edge *edge = &graph->edges[i];
        if ((of_inward ? edge->to : edge->from) != node || edge->capacity == 0) continue;
        edge->capacity--;
        left--;
    }
}

static enum tutti_status forget_empty(struct synth_graph *graph)
{
    int kept = 0;
    for (int i = 0; i < graph->edge_count; i++)
        if (graph->edges[i].capacity > 0) graph->edges[kept++] = graph->edges[i];
    graph->edge_count = kept;
    return synth_graph_reindex(graph);
}

/* Capacity that one switch gives up may unbalance the next switch. Each time there is less to give
 * up, so the loop ends. */
static enum tutti_status trim(struct synth_graph *graph, uint64_t deadline_ns, bool *trimmed)
{
    *trimmed = false;
    for (bool again = true; again;) {
        again = false;
        for (int node = graph->rank_count; node < graph->node_count; node++) {
            if (synth_is_late(deadline_ns))
                return error_set(TUTTI_TIMEOUT, "the time is over before switches are even");
            const struct sums sums = sums_of(graph, node);
            if (sums.in > sums.out) take(graph, node, true, sums.in, sums.in - sums.out);
            if (sums.out > sums.in) take(graph, node, false, sums.out, sums.out - sums.in);
            again |= sums.in != sums.out;
        }
        *trimmed |= again;
    }
    return forget_empty(graph);
}

/* --------------------------------------------------------------------------------- all together */

static enum tutti_status keep_rooms(const struct residual *residual, struct forest *forest)
{
    const size_t ranks = (size_t)residual->rank_count;
    forest->room = malloc(ranks * ranks * sizeof *forest->room);
    if (forest->room == NULL) return error_set(TUTTI_NO_MEMORY, "edges of %zu ranks", ranks);
    for (size_t from = 0; from < ranks; from++)
        memcpy(forest->room + from * ranks, residual_room(residual, (int)from, 0),
               ranks * sizeof *forest->room);
    return TUTTI_OK;
}

static enum tutti_status fill_from(struct residual *residual, struct forest *forest, bool *holds)
{
    TRY(split_switches(residual, &forest->splits, holds));
    if (!*holds) return TUTTI_OK;
    TRY(keep_rooms(residual, forest));
    return grow_trees(residual, forest);
}

/* Trees of the width that the forest has now; *holds: there are some. */
static enum tutti_status fill(const struct synth_graph *graph, const struct forest_options *options,
                              struct forest *forest, bool *holds)
{
    struct residual residual;
    TRY(residual_init(&residual, graph, options->root, forest->width, forest->k,
                      options->deadline_ns));
    const enum tutti_status status = fill_from(&residual, forest, holds);
    residual_release(&residual);
    return status;
}

/* With a given k, edges carry whole trees, and the edges of a switch may no longer add up. Then the
 * width grows until they do. */
static enum tutti_status make(const struct synth_graph *graph, const struct forest_options *options,
                              struct forest *forest)
{
    enum { WIDENED_MAX = 100 };
    TRY(choose_width(graph, options, forest));
    for (int i = 0; i < WIDENED_MAX; i++) {
        bool holds;
        TRY(fill(graph, options, forest, &holds));
        if (holds) {
            forest->attained = over(forest->width, forest->k);
            return TUTTI_OK;
        }
        splits_release(&forest->splits);
        forest->width.top = (forest->width.top * 21 + 19) / 20;
    }
    return error_set(TUTTI_UNSUPPORTED, "the switches of the graph cannot be taken apart");
}

static enum tutti_status make_trimmed(const struct synth_graph *graph,
                                      const struct forest_options *options, struct forest *forest)
{
    struct synth_bound bound;
    struct synth_graph copy;
    TRY(synth_bound_find(graph, options->root, options->deadline_ns, &bound));
    const struct synth_ratio ratio = bound.ratio;
    synth_bound_release(&bound);
    TRY(synth_graph_copy(graph, &copy));
    enum tutti_status status = trim(&copy, options->deadline_ns, &forest->is_trimmed);
    if (status == TUTTI_OK) status = make(&copy, options, forest);
    forest->bound = ratio;
    synth_graph_release(&copy);
    return status;
}

enum tutti_status forest_make(const struct synth_graph *graph, const struct forest_options *options,
                              struct forest *forest)
{
    *forest = (struct forest){.rank_count = graph->rank_count, .root = options->root};
    if (options->k < 0 || options->k > FOREST_K_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%lld trees of each root; 1 to %d, or 0",
                         (long long)options->k, FOREST_K_MAX);
    const enum tutti_status status = make_trimmed(graph, options, forest);
    if (status != TUTTI_OK) forest_release(forest);
    return status;
}
