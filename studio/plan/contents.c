#include "studio/plan/contents.h"

#include <stdlib.h>
#include <string.h>

#include "base/collective.h"

uint32_t contents_cell_count(const struct plan_shape *shape)
{
    switch (shape->collective) {
    case COLLECTIVE_BARRIER: return 1;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST: return shape->parts;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_COUNT: break;
    }
    return (uint32_t)shape->rank_count * shape->parts;
}

/* Finds the cell of a rank that shows a class; false: the class only passes through. Classes
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

bool contents_is_complete(const struct contents *contents, const struct contents_cell *cell)
{
    const enum collective collective = contents->plan->shape.collective;
    const bool gathers = collective_reduces(collective) || collective == COLLECTIVE_BARRIER;
    return cell->held && (!gathers || cell->value.ranks == contents_all_ranks(contents->plan));
}

bool contents_is_wanted(const struct contents *contents, int rank, uint32_t cell)
{
    const struct plan_shape *shape = &contents->plan->shape;
    const uint32_t count = plan_chunk_count(shape, rank, PLAN_OUTPUT);
    if (shape->collective == COLLECTIVE_BARRIER || shape->collective == COLLECTIVE_ALLTOALL)
        return true;
    for (uint32_t i = 0; i < count; i++)
        if (plan_chunk_class(shape, rank, PLAN_OUTPUT, i) == cell) return true;
    return false;
}

/* A cell shows a value only if it is nearer to the result: a message put aside does not hide the
 * rank's own value. */
static void show_value(struct contents *contents, int rank, struct round_value value)
{
    uint32_t index;
    if (value.ranks == 0) return;
    if (!cell_of_class(&contents->plan->shape, rank, value.chunk_class, &index)) return;
    struct contents_cell *cell = contents_of(contents, rank) + index;
    if (cell->held && (cell->value.ranks & ~value.ranks) != 0) return;
    cell->fresh |= !cell->held || cell->value.ranks != value.ranks;
    cell->changed |= cell->fresh;
    cell->held = true;
    cell->value = value;
}

static void show_inputs(struct contents *contents)
{
    const struct plan_shape *shape = &contents->plan->shape;
    for (int rank = 0; rank < shape->rank_count; rank++) {
        struct contents_cell *cells = contents_of(contents, rank);
        if (shape->collective == COLLECTIVE_BARRIER)
            cells[0] = (struct contents_cell){true, false, true, {.ranks = UINT64_C(1) << rank}};
        const uint32_t count = plan_chunk_count(shape, rank, PLAN_INPUT);
        for (uint32_t i = 0; i < count; i++) {
            const struct round_value value =
                rounds_input(contents->plan, rank, i, contents->options);
            const bool alltoall = shape->collective == COLLECTIVE_ALLTOALL;
            cells[alltoall ? i : value.chunk_class] =
                (struct contents_cell){true, false, true, value};
        }
    }
}

/* From here on the cells of an all-to-all are outputs: empty, or in place with the blocks that
 * ranks have for themselves. */
static void turn_to_outputs(struct contents *contents)
{
    const struct plan_shape *shape = &contents->plan->shape;
    const size_t count = (size_t)shape->rank_count * contents->cell_count;
    memset(contents->cells, 0, count * sizeof *contents->cells);
    for (int rank = 0; contents->options->in_place && rank < shape->rank_count; rank++)
        for (uint32_t i = 0; i < plan_chunk_count(shape, rank, PLAN_INPUT); i++)
            show_value(contents, rank, rounds_input(contents->plan, rank, i, contents->options));
}

enum tutti_status contents_init(struct contents *contents, const struct plan *plan,
                                const struct rounds *rounds, const struct rounds_options *options)
{
    const size_t rank_count = (size_t)plan->shape.rank_count;
    *contents = (struct contents){.plan = plan,
                                  .rounds = rounds,
                                  .options = options,
                                  .cell_count = contents_cell_count(&plan->shape)};
    contents->cells = calloc(rank_count * contents->cell_count, sizeof *contents->cells);
    if (contents->cells == NULL) return TUTTI_NO_MEMORY;
    show_inputs(contents);
    return TUTTI_OK;
}

void contents_release(struct contents *contents)
{
    free(contents->cells);
    contents->cells = NULL;
}

void contents_show_round(struct contents *contents, uint32_t round)
{
    const struct plan_shape *shape = &contents->plan->shape;
    const size_t count = (size_t)shape->rank_count * contents->cell_count;
    if (round == 0 && shape->collective == COLLECTIVE_ALLTOALL) turn_to_outputs(contents);
    for (size_t i = 0; i < count; i++) contents->cells[i].fresh = false;
    for (uint32_t i = 0; i < contents->rounds->result_count; i++) {
        const struct round_result *result = &contents->rounds->results[i];
        if (result->round != round) continue;
        for (uint32_t k = 0; k < result->value_count; k++)
            show_value(contents, result->rank, contents->rounds->values[result->first_value + k]);
    }
}
