#include "studio/synth/bound.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"
#include "studio/synth/late.h"
#include "studio/synth/max_flow.h"

/* Whether `each` from every root fits to every rank at once, over edges that carry floor(width *
 * capacity). */
struct question {
    const struct synth_graph *graph;
    int root;
    uint64_t deadline_ns;
    struct synth_ratio width;
    int64_t each;
    struct max_flow flow;
    int first_rank;   /* earlier ranks were found to get all; that stays so while more fits */
    int refused_rank; /* the rank that does not, or -1 */
};

static bool is_root(const struct question *question, int rank)
{
    return question->root == SYNTH_EVERY_RANK || question->root == rank;
}

static int64_t room_of(const struct question *question, int64_t capacity)
{
    return (int64_t)((__int128)question->width.top * capacity / question->width.bottom);
}

/* Node node_count stands before all roots. */
static enum tutti_status build(struct question *question)
{
    const struct synth_graph *graph = question->graph;
    TRY(max_flow_init(&question->flow, graph->node_count + 1));
    for (int i = 0; i < graph->edge_count; i++)
        TRY(max_flow_add(&question->flow, graph->edges[i].from, graph->edges[i].to,
                         room_of(question, graph->edges[i].capacity)));
    for (int r = 0; r < graph->rank_count; r++)
        if (is_root(question, r))
            TRY(max_flow_add(&question->flow, graph->node_count, r, question->each));
    return TUTTI_OK;
}

static int root_count(const struct question *question)
{
    return question->root == SYNTH_EVERY_RANK ? question->graph->rank_count : 1;
}

static enum tutti_status ask(struct question *question)
{
    const struct synth_graph *graph = question->graph;
    const int64_t needed = question->each * root_count(question);
    question->refused_rank = -1;
    TRY(build(question));
    for (int r = question->first_rank; r < graph->rank_count; r++) {
        if (synth_is_late(question->deadline_ns))
            return error_set(TUTTI_TIMEOUT, "the time is over before the bound is known");
        if (max_flow_run(&question->flow, graph->node_count, r, needed) < needed) {
            question->refused_rank = r;
            return TUTTI_OK;
        }
    }
    return TUTTI_OK;
}

static enum tutti_status check(const struct synth_graph *graph, int root)
{
    if (graph->rank_count < 2 || graph->rank_count > graph->node_count ||
        graph->node_count > SYNTH_NODES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "a graph of %d ranks and %d nodes",
                         graph->rank_count, graph->node_count);
    if (root != SYNTH_EVERY_RANK && (root < 0 || root >= graph->rank_count))
        return error_set(TUTTI_INVALID_ROOT, "root %d of %d ranks", root, graph->rank_count);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------ the bound */

static struct synth_ratio ratio_of_cut(const struct question *question, const bool *is_before_cut)
{
    const struct synth_graph *graph = question->graph;
    struct synth_ratio ratio = {0, 0};
    for (int r = 0; r < graph->rank_count; r++)
        if (is_before_cut[r] && is_root(question, r)) ratio.top++;
    for (int i = 0; i < graph->edge_count; i++)
        if (is_before_cut[graph->edges[i].from] && !is_before_cut[graph->edges[i].to])
            ratio.bottom += graph->edges[i].capacity;
    return ratio;
}

static enum tutti_status climb(struct question *question, struct synth_bound *bound)
{
    const struct synth_graph *graph = question->graph;
    /* Everything but the last rank, or another one where that is the root. */
    const int last = graph->rank_count - 1;
    for (int i = 0; i < graph->node_count; i++) bound->is_before_cut[i] = true;
    bound->is_before_cut[question->root == last ? 0 : last] = false;
    for (;;) {
        bound->ratio = ratio_of_cut(question, bound->is_before_cut);
        if (bound->ratio.bottom == 0)
            return error_set(TUTTI_INVALID_OPTIONS, "nothing leads to rank %d from %s",
                             question->refused_rank >= 0 ? question->refused_rank : last,
                             question->root == SYNTH_EVERY_RANK ? "some others" : "the root");
        bound->ratio = synth_ratio_reduce(bound->ratio);
        question->width = (struct synth_ratio){bound->ratio.top, 1};
        question->each = bound->ratio.bottom;
        TRY(ask(question));
        if (question->refused_rank < 0) return TUTTI_OK;
        question->first_rank = question->refused_rank;
        for (int i = 0; i < graph->node_count; i++)
            bound->is_before_cut[i] = max_flow_is_before_cut(&question->flow, i);
    }
}

enum tutti_status synth_bound_find(const struct synth_graph *graph, int root, uint64_t deadline_ns,
                                   struct synth_bound *bound)
{
    *bound = (struct synth_bound){.is_before_cut = NULL};
    TRY(check(graph, root));
    bound->is_before_cut = calloc((size_t)graph->node_count, sizeof *bound->is_before_cut);
    if (bound->is_before_cut == NULL)
        return error_set(TUTTI_NO_MEMORY, "a cut of %d nodes", graph->node_count);
    struct question question = {
        .graph = graph, .root = root, .deadline_ns = deadline_ns, .refused_rank = -1};
    const enum tutti_status status = climb(&question, bound);
    max_flow_release(&question.flow);
    if (status != TUTTI_OK) synth_bound_release(bound);
    return status;
}

void synth_bound_release(struct synth_bound *bound)
{
    free(bound->is_before_cut);
    *bound = (struct synth_bound){.is_before_cut = NULL};
}

/* -------------------------------------------------------------------------- halves of the ranks */

enum { HALVES_MAX = 64 };

/* Sets the narrowest cut between the ranks from `first` on and the others. Two nodes behind the
 * graph's stand for the halves. */
static enum tutti_status cut_half(const struct synth_graph *graph, int first, struct max_flow *flow,
                                  int64_t *capacity)
{
    const int n = graph->rank_count, before = graph->node_count, behind = graph->node_count + 1;
    int64_t all = 1; /* more than any cut */
    TRY(max_flow_init(flow, graph->node_count + 2));
    for (int i = 0; i < graph->edge_count; i++) {
        const struct synth_edge *const edge = &graph->edges[i];
        all += edge->capacity;
        TRY(max_flow_add(flow, edge->from, edge->to, edge->capacity));
    }
    for (int i = 0; i < n; i++) {
        const int rank = (first + i) % n;
        TRY(i < n / 2 ? max_flow_add(flow, before, rank, all)
                      : max_flow_add(flow, rank, behind, all));
    }
    *capacity = max_flow_run(flow, before, behind, all);
    return TUTTI_OK;
}

enum tutti_status synth_bound_halves(const struct synth_graph *graph, uint64_t deadline_ns,
                                     struct synth_ratio *ratio)
{
    TRY(check(graph, SYNTH_EVERY_RANK));
    const int n = graph->rank_count, count = n < HALVES_MAX ? n : HALVES_MAX;
    struct max_flow flow = {0};
    enum tutti_status status = TUTTI_OK;
    *ratio = (struct synth_ratio){0, 1};
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        int64_t capacity = 0;
        status = synth_is_late(deadline_ns)
                     ? error_set(TUTTI_TIMEOUT, "the time is over before the bound is known")
                     : cut_half(graph, (int)((int64_t)i * n / count), &flow, &capacity);
        if (status == TUTTI_OK && capacity == 0)
            status = error_set(TUTTI_INVALID_OPTIONS, "nothing leads to half of the ranks");
        const struct synth_ratio across = {(int64_t)(n / 2) * (n - n / 2), capacity};
        if (status == TUTTI_OK && synth_ratio_compare(across, *ratio) > 0) *ratio = across;
    }
    max_flow_release(&flow);
    *ratio = synth_ratio_reduce(*ratio);
    return status;
}

/* -------------------------------------------------------------------------------- so many trees */

/* The least width at which every edge carries as many trees as at this one: n / capacity for one of
 * the edges. */
static struct synth_ratio lowered(const struct question *question)
{
    struct synth_ratio width = {0, 1};
    for (int i = 0; i < question->graph->edge_count; i++) {
        const int64_t capacity = question->graph->edges[i].capacity;
        const struct synth_ratio own = {room_of(question, capacity), capacity};
        if (synth_ratio_compare(own, width) > 0) width = own;
    }
    return width;
}

/* The next width at which an edge carries one tree more. */
static struct synth_ratio raised(const struct question *question)
{
    struct synth_ratio width = {1, 0};
    for (int i = 0; i < question->graph->edge_count; i++) {
        const int64_t capacity = question->graph->edges[i].capacity;
        const struct synth_ratio own = {room_of(question, capacity) + 1, capacity};
        if (synth_ratio_compare(own, width) < 0) width = own;
    }
    return width;
}

static enum tutti_status suffices(struct question *question, struct synth_ratio width, bool *does)
{
    question->width = width;
    question->first_rank = 0;
    TRY(ask(question));
    *does = question->refused_rank < 0;
    return TUTTI_OK;
}

/* Between one that is too little and one that suffices; capacities are small enough for the
 * products. */
static struct synth_ratio between(struct synth_ratio low, struct synth_ratio high)
{
    const int64_t parts = INT64_C(1) << 26;
    const double middle = (synth_ratio_value(low) + synth_ratio_value(high)) / 2;
    return (struct synth_ratio){(int64_t)(middle * (double)parts), parts};
}

static enum tutti_status narrow(struct question *question, struct synth_ratio low,
                                struct synth_ratio high, struct synth_ratio *width)
{
    bool does;
    for (;;) {
        question->width = low;
        const struct synth_ratio next = raised(question);
        if (synth_ratio_compare(next, high) >= 0) break;
        struct synth_ratio middle = between(low, high);
        if (synth_ratio_compare(middle, next) < 0 || synth_ratio_compare(middle, high) >= 0)
            middle = next;
        TRY(suffices(question, middle, &does));
        if (does)
            high = lowered(question);
        else
            low = middle;
    }
    *width = synth_ratio_reduce(high);
    return TUTTI_OK;
}

/* The least width that suffices; less than `least` does not. */
static enum tutti_status find_width(struct question *question, struct synth_ratio least,
                                    struct synth_ratio *width)
{
    struct synth_ratio low = least, high = least;
    bool does;
    TRY(suffices(question, least, &does));
    if (does) {
        *width = least;
        return TUTTI_OK;
    }
    while (!does) {
        low = high;
        high = synth_ratio_reduce((struct synth_ratio){high.top * 2, high.bottom});
        if (high.top > INT64_C(1) << 46)
            return error_set(TUTTI_UNSUPPORTED, "%lld trees a root need too wide edges",
                             (long long)question->each);
        TRY(suffices(question, high, &does));
    }
    question->width = high;
    return narrow(question, low, lowered(question), width);
}

enum tutti_status synth_bound_with(const struct synth_graph *graph, int root, int64_t k,
                                   uint64_t deadline_ns, struct synth_ratio *width)
{
    struct synth_bound bound;
    assert(k > 0 && k <= SYNTH_CAPACITY_MAX);
    TRY(synth_bound_find(graph, root, deadline_ns, &bound));
    struct question question = {.graph = graph, .root = root, .deadline_ns = deadline_ns, .each = k};
    const struct synth_ratio least =
        synth_ratio_reduce((struct synth_ratio){bound.ratio.top * k, bound.ratio.bottom});
    synth_bound_release(&bound);
    const enum tutti_status status = find_width(&question, least, width);
    max_flow_release(&question.flow);
    return status;
}
