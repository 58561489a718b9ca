#include "studio/foreign/msccl_depth.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct depth_run {
    const struct plan *plan;
    const struct wiring *wiring;
    uint32_t depth;
    uint32_t *under_way;   /* of each port: messages that were sent and have not been taken */
    uint32_t *done, *part; /* of each lane: steps done; parts of the next step done */
    uint32_t *queue;       /* ring of lanes that may be able to go on */
    uint32_t head, count;
    bool *is_queued;
};

static void enqueue(struct depth_run *run, uint32_t lane)
{
    if (run->is_queued[lane]) return;
    run->is_queued[lane] = true;
    run->queue[(run->head + run->count++) % run->wiring->lane_count] = lane;
}

static uint32_t dequeue(struct depth_run *run)
{
    const uint32_t lane = run->queue[run->head];
    run->head = (run->head + 1) % run->wiring->lane_count;
    run->count--;
    run->is_queued[lane] = false;
    return lane;
}

/* One part of a step: the port that it receives from and the port that it sends to. WIRING_NONE: it
 * does not receive, or does not send. */
struct part {
    uint32_t in, out; /* ports */
    bool is_last;
};

/* The k-th port that the step sends to, or WIRING_NONE. */
static uint32_t target_of(const struct wiring *w, uint32_t step, uint32_t k)
{
    for (size_t i = w->first_sends[step]; i < w->first_sends[step + 1]; i++) {
        const struct wiring_link *link = &w->links[w->sends[i].link];
        if (k < link->port_count) return link->first_port + k;
        k -= link->port_count;
    }
    return WIRING_NONE;
}

static struct part part_of(const struct wiring *w, uint32_t step, uint32_t number)
{
    const size_t first = w->first_receives[step];
    const uint32_t receives = (uint32_t)(w->first_receives[step + 1] - first);
    const uint32_t fused = receives > 0 ? receives - 1 : 0; /* the part that sends, too */
    struct part part = {WIRING_NONE, WIRING_NONE, false};
    if (number < receives) part.in = w->receives[first + number].port;
    if (number < fused) return part;
    part.out = target_of(w, step, number - fused);
    part.is_last = target_of(w, step, number - fused + 1) == WIRING_NONE;
    return part;
}

/* Whether the steps that it comes after are over. */
static bool may_begin(const struct depth_run *run, uint32_t lane, uint32_t step)
{
    const struct wiring *w = run->wiring;
    const int rank = w->lanes[lane].rank;
    const struct rank_plan *rank_plan = run->plan->ranks[rank];
    const struct plan_step *of = &rank_plan->steps[step - w->first_steps[rank]];
    for (uint32_t i = 0; i < of->after_count; i++) {
        const uint32_t after = rank_plan->afters[of->first_after + i];
        const uint32_t other = w->first_lanes[rank] + rank_plan->steps[after].lane;
        if (run->done[other] <= w->first_steps[rank] + after - w->lanes[other].first_step)
            return false;
    }
    return true;
}

static void end_step(struct depth_run *run, uint32_t lane)
{
    const struct wiring *w = run->wiring;
    const int rank = w->lanes[lane].rank;
    const uint32_t end = w->first_lanes[rank] + run->plan->ranks[rank]->lane_count;
    run->done[lane]++;
    run->part[lane] = 0;
    for (uint32_t other = w->first_lanes[rank]; other < end; other++)
        if (other != lane) enqueue(run, other);
}

/* As far as the lane comes. */
static void run_lane(struct depth_run *run, uint32_t lane)
{
    const struct wiring *w = run->wiring;
    while (run->done[lane] < w->lanes[lane].step_count) {
        const uint32_t step = w->lanes[lane].first_step + run->done[lane];
        const struct part part = part_of(w, step, run->part[lane]);
        if (run->part[lane] == 0 && !may_begin(run, lane, step)) return;
        if (part.in != WIRING_NONE && run->under_way[part.in] == 0) return;
        if (part.out != WIRING_NONE && run->under_way[part.out] == run->depth) return;
        if (part.in != WIRING_NONE) {
            run->under_way[part.in]--;
            enqueue(run, w->links[w->ports[part.in].link].writer);
        }
        if (part.out != WIRING_NONE) {
            run->under_way[part.out]++;
            enqueue(run, w->ports[part.out].reader);
        }
        run->part[lane]++;
        if (part.is_last) end_step(run, lane);
    }
}

static bool suffices(struct depth_run *run, uint32_t depth)
{
    const struct wiring *w = run->wiring;
    run->depth = depth;
    memset(run->under_way, 0, w->port_count * sizeof *run->under_way);
    memset(run->done, 0, w->lane_count * sizeof *run->done);
    memset(run->part, 0, w->lane_count * sizeof *run->part);
    for (uint32_t lane = 0; lane < w->lane_count; lane++) enqueue(run, lane);
    while (run->count > 0) run_lane(run, dequeue(run));
    for (uint32_t lane = 0; lane < w->lane_count; lane++)
        if (run->done[lane] < w->lanes[lane].step_count) return false;
    return true;
}

static enum tutti_status find(struct depth_run *run, int *depth)
{
    const size_t lanes = (size_t)run->wiring->lane_count + 1;
    run->under_way = calloc((size_t)run->wiring->port_count + 1, sizeof *run->under_way);
    run->done = calloc(lanes, sizeof *run->done);
    run->part = calloc(lanes, sizeof *run->part);
    run->queue = calloc(lanes, sizeof *run->queue);
    run->is_queued = calloc(lanes, sizeof *run->is_queued);
    if (!run->under_way || !run->done || !run->part || !run->queue || !run->is_queued)
        return error_set(TUTTI_NO_MEMORY, "out of memory");
    for (int d = 1; d <= MSCCL_DEPTH_MAX && *depth == 0; d++)
        if (suffices(run, (uint32_t)d)) *depth = d;
    return TUTTI_OK;
}

enum tutti_status msccl_depth(const struct plan *plan, const struct wiring *wiring, int *depth)
{
    struct depth_run run = {.plan = plan, .wiring = wiring};
    *depth = 0;
    const enum tutti_status status = find(&run, depth);
    free(run.under_way);
    free(run.done);
    free(run.part);
    free(run.queue);
    free(run.is_queued);
    return status;
}
