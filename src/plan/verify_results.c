/* verify_results.c - whether the outputs of a rank are what its collective says. */
#include <string.h>

#include "plan/verify_state.h"

/* The step that wrote an output; a wrong output shows there. */
static uint32_t writer_of(const struct verification *run, const struct cell *cell)
{
    if (!cell->written) return FAULT_NO_STEP;
    const struct wiring_lane *lane = &run->wiring.lanes[cell->write.lane];
    return lane->first_step + cell->write.step % lane->step_count -
           run->wiring.first_steps[lane->rank];
}

static int owner_of(const struct plan_shape *shape, uint32_t class)
{
    const uint32_t block = class / shape->parts;
    switch (shape->collective) {
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: return (int)block;
    case COLLECTIVE_ALLTOALL: return (int)(block / (uint32_t)shape->rank_count);
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return shape->root;
}

/* All ranks' trees of an allreduce's chunk must be one; all trees of the plan, if it claims so. */
static bool check_tree(struct verification *run, int rank, uint32_t chunk, const struct cell *cell)
{
    const bool uniform = run->options->associative_tree_uniform;
    if (!uniform && run->plan->shape.collective != COLLECTIVE_ALLREDUCE) return true;
    const uint32_t at = uniform ? 0 : chunk;
    if (run->tree[at] == VALUE_NONE) {
        run->tree[at] = cell->value;
        run->tree_rank[at] = rank;
        return true;
    }
    if (run->tree[at] == cell->value) return true;
    struct value_parts here, there;
    value_take(run->values, cell->value, &here);
    value_take(run->values, run->tree[at], &there);
    if (memcmp(here.hash, there.hash, sizeof here.hash) == 0) return true;
    if (run->options->places != NULL && here.class == there.class)
        return fault_at(
            run->report, run->plan->ranks[rank], writer_of(run, cell),
            "output chunk %u is not rounded as on rank %d: with encoded links, replicas "
            "would differ",
            chunk, run->tree_rank[at]);
    return fault_at(run->report, run->plan->ranks[rank], writer_of(run, cell),
                    "output chunk %u is added up in another order than chunk %u on rank %d", chunk,
                    there.class, run->tree_rank[at]);
}

/* The value of an output where nothing is reduced: its owner's contribution, as it is after it was
 * encoded and decoded if any link is encoded. */
static value moved_value(const struct verification *run, uint32_t class)
{
    const value given = value_contribution(owner_of(&run->plan->shape, class), class);
    return run->options->places != NULL ? value_rounded(given) : given;
}

/* The owner's contribution is where it belongs, but has not been rounded. */
static bool is_unrounded(const struct verification *run, const struct cell *cell, uint32_t class)
{
    return cell->value != VALUE_NONE && value_rounded(cell->value) == moved_value(run, class);
}

bool verify_check_output(struct verification *run, int rank, uint32_t chunk)
{
    const struct plan_shape *shape = &run->plan->shape;
    const struct rank_plan *rank_plan = run->plan->ranks[rank];
    const struct cell *cell = verify_cell_at(run, rank, PLAN_OUTPUT, chunk);
    const uint32_t class = plan_chunk_class(shape, rank, PLAN_OUTPUT, chunk);
    const uint32_t writer = writer_of(run, cell);
    const bool reduces = collective_reduces(shape->collective);
    struct value_parts found = {0};
    if (cell->value != VALUE_NONE) value_take(run->values, cell->value, &found);
    const bool right = reduces ? found.class == class && value_is_complete(run->values, &found)
                               : cell->value == moved_value(run, class);
    if (right && run->report->roundings < found.roundings) run->report->roundings = found.roundings;
    if (right) return !reduces || check_tree(run, rank, chunk, cell);
    if (!reduces && is_unrounded(run, cell, class))
        return fault_at(run->report, rank_plan, writer,
                        "output chunk %u is not rounded: with encoded links, replicas would differ",
                        chunk);
    if (!cell->written)
        return fault_at(run->report, rank_plan, writer, "output chunk %u is never written", chunk);
    if (found.class != class)
        return fault_at(run->report, rank_plan, writer, "output chunk %u holds chunk %u, not %u",
                        chunk, found.class, class);
    if (!reduces)
        return fault_at(run->report, rank_plan, writer, "output chunk %u is not rank %d's", chunk,
                        owner_of(shape, class));
    return fault_at(run->report, rank_plan, writer,
                    "output chunk %u ends with the contributions of %u of %d ranks", chunk,
                    found.count, shape->rank_count);
}

bool verify_check_barrier(struct verification *run, int rank)
{
    const struct wiring *w = &run->wiring;
    const struct rank_plan *rank_plan = run->plan->ranks[rank];
    const uint32_t first = w->first_lanes[rank];
    for (int other = 0; other < run->plan->shape.rank_count; other++) {
        bool began = other == rank;
        for (uint32_t i = w->first_lanes[other]; !began && i < w->first_lanes[other + 1]; i++)
            began = first < w->first_lanes[rank + 1] &&
                    run->lanes[first].clock->entries[i] >
                        2 * run->ranks[rank].run * w->lanes[i].step_count;
        if (!began)
            return fault_at(run->report, rank_plan,
                            rank_plan->step_count == 0 ? FAULT_NO_STEP : rank_plan->step_count - 1,
                            "the rank may end here before rank %d has begun", other);
    }
    return true;
}
