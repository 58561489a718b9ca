/* draw_contents.c - what the cells of a picture show after each round. */
#include "studio/plan/draw_state.h"

uint32_t draw_cell_count(const struct plan_shape *shape)
{
    switch (shape->collective) {
    case COLLECTIVE_BARRIER: return 1;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST: return shape->parts;
    default: return (uint32_t)shape->rank_count * shape->parts;
    }
}

/* Finds the cell in a rank's box that shows a class; false: the class only passes through. Classes
 * are cells, except that an all-to-all has one cell for each output chunk. */
static bool cell_of_class(const struct plan_shape *shape, int rank, uint32_t chunk_class,
                          uint32_t *cell)
{
    *cell = chunk_class;
    if (shape->collective != COLLECTIVE_ALLTOALL) return true;
    const uint32_t all = (uint32_t)shape->rank_count, block = chunk_class / shape->parts;
    *cell = block / all * shape->parts + chunk_class % shape->parts;
    return block % all == (uint32_t)rank;
}

bool draw_is_complete(const struct draw_picture *picture, const struct draw_cell *cell)
{
    const bool gathers = draw_reduces(picture) || draw_is_barrier(picture);
    return cell->held && (!gathers || cell->value.ranks == draw_all_ranks(picture));
}

bool draw_is_wanted(const struct draw_picture *picture, int rank, uint32_t cell)
{
    const struct plan_shape *shape = &picture->plan->shape;
    const uint32_t count = plan_chunk_count(shape, rank, PLAN_OUTPUT);
    if (draw_is_barrier(picture) || shape->collective == COLLECTIVE_ALLTOALL) return true;
    for (uint32_t i = 0; i < count; i++)
        if (plan_chunk_class(shape, rank, PLAN_OUTPUT, i) == cell) return true;
    return false;
}

/* A cell shows a value only if it is nearer to the result: a message put aside does not hide the
 * rank's own value. */
static void show_value(struct draw_picture *picture, int rank, struct round_value value)
{
    uint32_t index;
    if (value.ranks == 0) return;
    if (!cell_of_class(&picture->plan->shape, rank, value.chunk_class, &index)) return;
    struct draw_cell *cell = &picture->cells[(uint32_t)rank * picture->cell_count + index];
    if (cell->held && (cell->value.ranks & ~value.ranks) != 0) return;
    cell->fresh |= !cell->held || cell->value.ranks != value.ranks;
    cell->changed |= cell->fresh;
    cell->held = true;
    cell->value = value;
}

void draw_show_inputs(struct draw_picture *picture)
{
    const struct plan_shape *shape = &picture->plan->shape;
    for (int rank = 0; rank < shape->rank_count; rank++) {
        struct draw_cell *cells = picture->cells + (uint32_t)rank * picture->cell_count;
        if (draw_is_barrier(picture))
            show_value(picture, rank, (struct round_value){.ranks = UINT64_C(1) << rank});
        const uint32_t count = plan_chunk_count(shape, rank, PLAN_INPUT);
        for (uint32_t i = 0; i < count; i++) {
            const struct round_value value =
                rounds_input(picture->plan, rank, i, picture->options->example_values,
                             picture->options->value_count);
            const bool alltoall = shape->collective == COLLECTIVE_ALLTOALL;
            cells[alltoall ? i : value.chunk_class] = (struct draw_cell){true, false, true, value};
        }
    }
}

void draw_show_round(struct draw_picture *picture, uint32_t round)
{
    const size_t count = (size_t)picture->plan->shape.rank_count * picture->cell_count;
    for (size_t i = 0; i < count; i++) picture->cells[i].fresh = false;
    for (uint32_t i = 0; i < picture->rounds->result_count; i++) {
        const struct round_result *result = &picture->rounds->results[i];
        if (result->round != round) continue;
        for (uint32_t k = 0; k < result->value_count; k++)
            show_value(picture, result->rank, picture->rounds->values[result->first_value + k]);
    }
}
