#include "studio/synth/residual.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "studio/synth/late.h"

static size_t squared(const struct residual *residual)
{
    return (size_t)residual->node_count * (size_t)residual->node_count;
}

enum tutti_status residual_init(struct residual *residual, const struct synth_graph *graph, int root,
                                struct synth_ratio width, int64_t each, uint64_t deadline_ns)
{
    *residual = (struct residual){.rank_count = graph->rank_count,
                                  .node_count = graph->node_count,
                                  .deadline_ns = deadline_ns};
    residual->room = calloc(squared(residual), sizeof *residual->room);
    residual->needs = calloc((size_t)graph->rank_count, sizeof *residual->needs);
    residual->cuts = calloc(RESIDUAL_CUTS_MAX, sizeof *residual->cuts);
    if (residual->room == NULL || residual->needs == NULL || residual->cuts == NULL) {
        residual_release(residual);
        return error_set(TUTTI_NO_MEMORY, "a graph of %d nodes", graph->node_count);
    }
    for (int i = 0; i < graph->edge_count; i++)
        *residual_room(residual, graph->edges[i].from, graph->edges[i].to) =
            (int64_t)((__int128)width.top * graph->edges[i].capacity / width.bottom);
    for (int r = 0; r < graph->rank_count; r++)
        if (root < 0 || r == root) {
            residual->needs[r] = each;
            residual->needs_total += each;
        }
    return TUTTI_OK;
}

void residual_release(struct residual *residual)
{
    for (int i = 0; i < residual->cut_count; i++) free(residual->cuts[i].has);
    free(residual->cuts);
    free(residual->room);
    free(residual->needs);
    max_flow_release(&residual->flow);
    *residual = (struct residual){0};
}

/* ----------------------------------------------------------------------------------------- cuts */

void residual_count(struct residual *residual, struct residual_cut *cut)
{
    cut->slack = 0;
    for (int a = 0; a < residual->node_count; a++) {
        if (!cut->has[a]) continue;
        const int64_t *room = residual_room(residual, a, 0);
        for (int b = 0; b < residual->node_count; b++)
            if (!cut->has[b]) cut->slack += room[b];
        if (a < residual->rank_count) cut->slack -= residual->needs[a];
    }
}

/* When the time is over, what was not counted is not used either: the next question says that it
 * is. */
void residual_count_all(struct residual *residual)
{
    for (int i = 0; i < residual->cut_count && !synth_is_late(residual->deadline_ns); i++)
        residual_count(residual, &residual->cuts[i]);
}

enum tutti_status residual_learn(struct residual *residual)
{
    const size_t nodes = (size_t)residual->node_count;
    if (residual->cut_count == RESIDUAL_CUTS_MAX) { /* the older half is found again if it matters */
        const int half = RESIDUAL_CUTS_MAX / 2;
        for (int i = 0; i < half; i++) free(residual->cuts[i].has);
        memmove(residual->cuts, residual->cuts + half, (size_t)half * sizeof *residual->cuts);
        residual->cut_count = half;
    }
    struct residual_cut cut = {.has = malloc(nodes * sizeof *cut.has)};
    if (cut.has == NULL)
        return error_set(TUTTI_NO_MEMORY, "a cut of %d nodes", residual->node_count);
    for (size_t i = 0; i < nodes; i++) cut.has[i] = max_flow_is_before_cut(&residual->flow, (int)i);
    residual->cuts[residual->cut_count++] = cut;
    return TUTTI_OK;
}

static enum tutti_status build(struct residual *residual)
{
    const int nodes = residual->node_count;
    TRY(max_flow_init(&residual->flow, nodes + 1));
    for (int a = 0; a < nodes; a++) {
        const int64_t *room = residual_room(residual, a, 0);
        for (int b = 0; b < nodes; b++)
            if (room[b] > 0) TRY(max_flow_add(&residual->flow, a, b, room[b]));
    }
    for (int r = 0; r < residual->rank_count; r++)
        if (residual->needs[r] > 0)
            TRY(max_flow_add(&residual->flow, nodes, r, residual->needs[r]));
    return TUTTI_OK;
}

/* A few cuts at a time: one forbids little, and each costs a flow. */
enum tutti_status residual_ask(struct residual *residual, bool *holds)
{
    enum { CUTS_A_TIME = 6 };
    const int first = residual->suspect;
    int found = 0;
    residual->asked++;
    TRY(build(residual));
    for (int i = 0; i < residual->rank_count && found < CUTS_A_TIME; i++) {
        const int rank = (first + i) % residual->rank_count;
        if (synth_is_late(residual->deadline_ns))
            return error_set(TUTTI_TIMEOUT, "the time is over before there are trees");
        if (max_flow_run(&residual->flow, residual->node_count, rank, residual->needs_total) ==
            residual->needs_total)
            continue;
        residual->suspect = rank;
        found++;
        TRY(residual_learn(residual));
    }
    *holds = found == 0;
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------- marks */

enum tutti_status residual_mark_init(const struct residual *residual, struct residual_mark *mark)
{
    mark->room = malloc(squared(residual) * sizeof *mark->room);
    mark->needs = malloc((size_t)residual->rank_count * sizeof *mark->needs);
    if (mark->room != NULL && mark->needs != NULL) return TUTTI_OK;
    residual_mark_release(mark);
    return error_set(TUTTI_NO_MEMORY, "a graph of %d nodes", residual->node_count);
}

void residual_mark_set(const struct residual *residual, struct residual_mark *mark)
{
    memcpy(mark->room, residual->room, squared(residual) * sizeof *mark->room);
    memcpy(mark->needs, residual->needs, (size_t)residual->rank_count * sizeof *mark->needs);
}

void residual_mark_return(struct residual *residual, const struct residual_mark *mark)
{
    memcpy(residual->room, mark->room, squared(residual) * sizeof *mark->room);
    memcpy(residual->needs, mark->needs, (size_t)residual->rank_count * sizeof *mark->needs);
    residual->needs_total = 0;
    for (int r = 0; r < residual->rank_count; r++) residual->needs_total += residual->needs[r];
    residual_count_all(residual);
}

void residual_mark_release(struct residual_mark *mark)
{
    free(mark->room);
    free(mark->needs);
    *mark = (struct residual_mark){NULL, NULL};
}
