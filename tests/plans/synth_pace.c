#include "tests/plans/synth_pace.h"

#include <assert.h>
#include <stdlib.h>

enum { NODES_MAX = 2 * PACE_RANKS_MAX };

struct link_state {
    bool is_taken, has_arrived;
};

struct arrival {
    double time;
    int from, to, channel;
};

struct pace {
    const struct plan *plan;
    int pieces;
    double now;
    double room[NODES_MAX][NODES_MAX], free_at[PACE_RANKS_MAX][PACE_RANKS_MAX];
    struct link_state links[PACE_RANKS_MAX][PACE_RANKS_MAX][PLAN_CHANNELS_MAX];
    uint32_t done[PACE_RANKS_MAX][PLAN_LANES_MAX]; /* steps of a lane */
    struct arrival *heap;
    int heap_count, heap_room;
};

/* ------------------------------------------------------------------------------------- arrivals */

static void push(struct pace *pace, struct arrival arrival)
{
    if (pace->heap_count == pace->heap_room) {
        pace->heap_room = pace->heap_room > 0 ? 2 * pace->heap_room : 256;
        pace->heap = realloc(pace->heap, (size_t)pace->heap_room * sizeof *pace->heap);
        assert(pace->heap != NULL);
    }
    int at = pace->heap_count++;
    for (; at > 0 && pace->heap[(at - 1) / 2].time > arrival.time; at = (at - 1) / 2)
        pace->heap[at] = pace->heap[(at - 1) / 2];
    pace->heap[at] = arrival;
}

static struct arrival pop(struct pace *pace)
{
    const struct arrival first = pace->heap[0], last = pace->heap[--pace->heap_count];
    int at = 0;
    for (int child; (child = 2 * at + 1) < pace->heap_count; at = child) {
        if (child + 1 < pace->heap_count && pace->heap[child + 1].time < pace->heap[child].time)
            child++;
        if (pace->heap[child].time >= last.time) break;
        pace->heap[at] = pace->heap[child];
    }
    pace->heap[at] = last;
    return first;
}

/* ---------------------------------------------------------------------------------------- steps */

static bool is_ready(struct pace *pace, int rank, const struct plan_step *step)
{
    const struct rank_plan *own = pace->plan->ranks[rank];
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &own->sources[step->first_source + i];
        if (source->is_link && !pace->links[source->peer][rank][source->channel].has_arrived)
            return false;
    }
    for (uint32_t i = 0; i < step->target_count; i++)
        if (pace->links[rank][own->targets[step->first_target + i]][step->target_channel].is_taken)
            return false;
    for (uint32_t i = 0; i < step->after_count; i++) {
        const uint32_t after = own->afters[step->first_after + i];
        const uint32_t lane = own->steps[after].lane;
        if (own->lanes[lane].first_step + pace->done[rank][lane] <= after) return false;
    }
    return true;
}

static void advance(struct pace *pace, int rank);

static void execute(struct pace *pace, int rank, const struct plan_step *step)
{
    const struct rank_plan *own = pace->plan->ranks[rank];
    for (uint32_t i = 0; i < step->target_count; i++) {
        const int to = own->targets[step->first_target + i];
        double *free_at = &pace->free_at[rank][to];
        pace->links[rank][to][step->target_channel].is_taken = true;
        if (*free_at < pace->now) *free_at = pace->now;
        *free_at += step->chunk_count / (pace->pieces * pace->room[rank][to]);
        push(pace, (struct arrival){*free_at, rank, to, step->target_channel});
    }
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &own->sources[step->first_source + i];
        if (!source->is_link) continue;
        pace->links[source->peer][rank][source->channel] = (struct link_state){false, false};
        advance(pace, source->peer);
    }
}

/* A lane may wait for another one. */
static void advance(struct pace *pace, int rank)
{
    const struct rank_plan *own = pace->plan->ranks[rank];
    bool again = false;
    for (uint32_t lane = 0; lane < own->lane_count; lane++)
        while (pace->done[rank][lane] < own->lanes[lane].step_count) {
            const struct plan_step *step =
                &own->steps[own->lanes[lane].first_step + pace->done[rank][lane]];
            if (!is_ready(pace, rank, step)) break;
            pace->done[rank][lane]++;
            execute(pace, rank, step);
            again = true;
        }
    if (again) advance(pace, rank);
}

static double *room_of(struct pace *pace, int from, int to, bool is_turned)
{
    return is_turned ? &pace->room[to][from] : &pace->room[from][to];
}

/* Over a graph that is turned around data goes back to where its edges come from. */
static void fill_rooms(struct pace *pace, const struct synth_graph *graph,
                       const struct forest *forest, bool is_turned)
{
    for (int i = 0; i < graph->edge_count; i++)
        *room_of(pace, graph->edges[i].from, graph->edges[i].to, is_turned) =
            (double)(graph->edges[i].capacity * forest->width.top / forest->width.bottom);
    for (int i = 0; i < forest->splits.count; i++) {
        const struct split *split = &forest->splits.of[i];
        *room_of(pace, split->from, split->via, is_turned) -= (double)split->amount;
        *room_of(pace, split->via, split->to, is_turned) -= (double)split->amount;
        *room_of(pace, split->from, split->to, is_turned) += (double)split->amount;
    }
}

double pace_of(const struct plan *plan, const struct synth_graph *graph,
               const struct forest *forest, int pieces)
{
    const bool is_turned = plan->shape.collective == COLLECTIVE_REDUCE_SCATTER ||
                           plan->shape.collective == COLLECTIVE_REDUCE;
    struct pace *pace = calloc(1, sizeof *pace);
    assert(pace != NULL && graph->node_count <= NODES_MAX && graph->rank_count <= PACE_RANKS_MAX);
    pace->plan = plan;
    pace->pieces = pieces;
    fill_rooms(pace, graph, forest, is_turned);
    for (int r = 0; r < graph->rank_count; r++) advance(pace, r);
    while (pace->heap_count > 0) {
        const struct arrival arrival = pop(pace);
        pace->now = arrival.time;
        pace->links[arrival.from][arrival.to][arrival.channel].has_arrived = true;
        advance(pace, arrival.to);
    }
    const double end = pace->now;
    for (int r = 0; r < graph->rank_count; r++)
        for (uint32_t lane = 0; lane < plan->ranks[r]->lane_count; lane++)
            assert(pace->done[r][lane] == plan->ranks[r]->lanes[lane].step_count);
    free(pace->heap);
    free(pace);
    return end;
}

double pace_fill(const struct forest *forest, int pieces)
{
    double longest = 0, *at = calloc((size_t)forest->rank_count, sizeof *at);
    assert(at != NULL);
    for (int t = 0; t < forest->tree_count; t++) {
        const struct forest_tree *tree = &forest->trees[t];
        at[tree->root] = 0;
        for (int i = 1; i < forest->rank_count; i++) {
            const int rank = tree->order[i], parent = tree->parent[rank];
            const int64_t room = forest->room[parent * forest->rank_count + rank];
            at[rank] = at[parent] + (double)tree->weight / (double)(pieces * room);
            if (at[rank] > longest) longest = at[rank];
        }
    }
    free(at);
    return longest;
}
