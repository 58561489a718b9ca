/* verify_state.c - the state of the abstract run begins and ends. */
#include "plan/verify_state.h"

#include <stdlib.h>

uint64_t verify_cells_of(const struct rank_plan *rank_plan)
{
    const struct plan_shape *shape = &rank_plan->shape;
    return (uint64_t)plan_chunk_count(shape, rank_plan->rank, PLAN_INPUT) +
           plan_chunk_count(shape, rank_plan->rank, PLAN_OUTPUT) + rank_plan->scratch_count;
}

/* An array of its own, all zero; NULL when out of memory, or of the budget. */
static void *charged_array(struct verification *run, uint64_t count, size_t item_bytes)
{
    return plan_budget_hold(run->budget, count * item_bytes) ? calloc(count, item_bytes) : NULL;
}

void verify_drop_message(struct verification *run, struct verified_message *message)
{
    if (--message->references > 0) return;
    plan_budget_release(run->budget, sizeof *message + message->chunk_count * sizeof(value));
    clock_drop(&run->clocks, message->clock);
    free(message);
}

static bool lay_out_cells(struct verification *run)
{
    const struct plan_shape *shape = &run->plan->shape;
    uint64_t cell_count = 0;
    run->ranks = charged_array(run, (uint64_t)shape->rank_count, sizeof *run->ranks);
    if (run->ranks == NULL) return verify_out_of_memory(run);
    for (int rank = 0; rank < shape->rank_count; rank++) {
        run->ranks[rank].first_cell = (size_t)cell_count;
        cell_count += verify_cells_of(run->plan->ranks[rank]);
    }
    run->cells = charged_array(run, cell_count + 1, sizeof *run->cells);
    return run->cells != NULL || verify_out_of_memory(run);
}

static uint32_t longest_range(const struct plan *plan)
{
    uint32_t longest = 0;
    for (int rank = 0; rank < plan->shape.rank_count; rank++)
        for (uint32_t i = 0; i < plan->ranks[rank]->step_count; i++)
            if (plan->ranks[rank]->steps[i].chunk_count > longest)
                longest = plan->ranks[rank]->steps[i].chunk_count;
    return longest;
}

bool verify_set_up(struct verification *run)
{
    const struct wiring *w = &run->wiring;
    const size_t tree_count =
        run->plan->shape.collective == COLLECTIVE_ALLREDUCE ? run->plan->shape.parts : 1;
    if (!lay_out_cells(run)) return false;
    run->values = value_table_create(run->plan->shape.rank_count, run->budget);
    run->lanes = charged_array(run, (uint64_t)w->lane_count + 1, sizeof *run->lanes);
    run->reads_capacity = 64;
    run->reads_used = 1;
    run->reads = charged_array(run, run->reads_capacity, sizeof *run->reads);
    run->in_flight = charged_array(run, (uint64_t)w->link_count + 1, sizeof *run->in_flight);
    run->waiting = charged_array(run, (uint64_t)w->link_count + 1, sizeof *run->waiting);
    run->taken = charged_array(run, (uint64_t)w->port_count + 1, sizeof *run->taken);
    run->completed = charged_array(run, (uint64_t)w->step_count + 1, sizeof *run->completed);
    run->dependents = charged_array(run, (uint64_t)w->step_count + 1, sizeof *run->dependents);
    run->queue = charged_array(run, (uint64_t)w->lane_count + 1, sizeof *run->queue);
    run->results = charged_array(run, (uint64_t)longest_range(run->plan) + 1, sizeof *run->results);
    run->placements = charged_array(run, (uint64_t)w->step_count + 1, sizeof *run->placements);
    run->tree = charged_array(run, tree_count, sizeof *run->tree);
    run->tree_rank = charged_array(run, tree_count, sizeof *run->tree_rank);
    if (!run->values || !run->lanes || !run->reads || !run->in_flight || !run->waiting ||
        !run->taken || !run->completed || !run->dependents || !run->queue || !run->results ||
        !run->placements || !run->tree || !run->tree_rank)
        return verify_out_of_memory(run);
    clock_pool_init(&run->clocks, w->lane_count, run->budget);
    struct clock *nothing = clock_take(&run->clocks);
    if (nothing == NULL) return verify_out_of_memory(run);
    for (uint32_t i = 0; i < w->lane_count; i++) run->lanes[i].clock = clock_keep(nothing);
    clock_drop(&run->clocks, nothing);
    return true;
}

void verify_tear_down(struct verification *run)
{
    const struct wiring *w = &run->wiring;
    for (uint32_t i = 0; run->in_flight != NULL && i < w->link_count; i++)
        if (run->in_flight[i] != NULL) verify_drop_message(run, run->in_flight[i]);
    for (uint32_t i = 0; run->completed != NULL && i < w->step_count; i++)
        clock_drop(&run->clocks, run->completed[i]);
    for (uint32_t i = 0; run->lanes != NULL && i < w->lane_count; i++) {
        if (run->lanes[i].outgoing != NULL) {
            clock_drop(&run->clocks, run->lanes[i].outgoing->clock);
            free(run->lanes[i].outgoing);
        }
        clock_drop(&run->clocks, run->lanes[i].clock);
    }
    clock_pool_release(&run->clocks);
    value_table_free(run->values);
    free(run->lanes);
    free(run->ranks);
    free(run->cells);
    free(run->reads);
    free(run->in_flight);
    free(run->waiting);
    free(run->taken);
    free(run->completed);
    free(run->dependents);
    free(run->queue);
    free(run->results);
    free(run->placements);
    free(run->tree);
    free(run->tree_rank);
}
