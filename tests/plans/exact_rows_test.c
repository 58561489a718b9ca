/* ctest: label=long label=nosan timeout=900
 * Every published and computed row of small schedules (SCCL, table of the DGX-1; rings by hand),
 * found and proven, or refuted twice. */
#include "tests/plans/exact_rows.h"
#include "tests/plans/synth_graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void dgx1_is_answered(void **state)
{
    (void)state;
    static const struct exact_row rows[] = {
        {COLLECTIVE_ALLGATHER, 1, 2, 2, 1, 1},      {COLLECTIVE_ALLGATHER, 2, 2, 3, 1, 1},
        {COLLECTIVE_ALLGATHER, 2, 3, 3, 1, 1},      {COLLECTIVE_ALLGATHER, 3, 3, 4, 1, 1},
        {COLLECTIVE_ALLGATHER, 4, 3, 5, 1, 1},      {COLLECTIVE_ALLGATHER, 5, 3, 6, 1, 1},
        {COLLECTIVE_ALLGATHER, 6, 3, 7, 1, 1},      {COLLECTIVE_ALLGATHER, 1, 1, 1, 0, 0},
        {COLLECTIVE_ALLGATHER, 2, 2, 2, 0, 0},      {COLLECTIVE_ALLGATHER, 3, 2, 4, 0, 0},
        {COLLECTIVE_ALLGATHER, 4, 2, 5, 0, 0},      {COLLECTIVE_ALLGATHER, 5, 2, 6, 0, 0},
        {COLLECTIVE_ALLGATHER, 6, 2, 7, 0, 0},      {COLLECTIVE_ALLGATHER, 8, 2, 10, 0, 0},
        {COLLECTIVE_REDUCE_SCATTER, 1, 2, 2, 1, 1}, {COLLECTIVE_REDUCE_SCATTER, 2, 2, 3, 1, 1},
        {COLLECTIVE_REDUCE_SCATTER, 2, 3, 3, 1, 1}, {COLLECTIVE_REDUCE_SCATTER, 3, 3, 4, 1, 1},
        {COLLECTIVE_REDUCE_SCATTER, 4, 3, 5, 1, 1}, {COLLECTIVE_REDUCE_SCATTER, 5, 3, 6, 1, 1},
        {COLLECTIVE_REDUCE_SCATTER, 6, 3, 7, 1, 1}, {COLLECTIVE_REDUCE_SCATTER, 1, 1, 1, 0, 0},
        {COLLECTIVE_REDUCE_SCATTER, 2, 2, 2, 0, 0}, {COLLECTIVE_REDUCE_SCATTER, 3, 2, 4, 0, 0},
        {COLLECTIVE_REDUCE_SCATTER, 4, 2, 5, 0, 0}, {COLLECTIVE_REDUCE_SCATTER, 5, 2, 6, 0, 0},
        {COLLECTIVE_REDUCE_SCATTER, 6, 2, 7, 0, 0}, {COLLECTIVE_ALLREDUCE, 1, 1, 1, 0, 0},
        {COLLECTIVE_ALLREDUCE, 48, 6, 14, 1, 1}, /* 14/48 = 7/24 of n */
        {COLLECTIVE_GATHER, 1, 2, 2, 1, 1},         {COLLECTIVE_GATHER, 2, 2, 3, 1, 1},
        {COLLECTIVE_GATHER, 2, 3, 3, 1, 1},         {COLLECTIVE_GATHER, 3, 2, 4, 1, 0},
        {COLLECTIVE_GATHER, 4, 2, 5, 1, 0},         {COLLECTIVE_GATHER, 6, 2, 7, 1, 0},
        {COLLECTIVE_GATHER, 5, 2, 6, 0, 0},         {COLLECTIVE_GATHER, 6, 7, 7, 1, 1},
        {COLLECTIVE_SCATTER, 1, 2, 2, 1, 1},        {COLLECTIVE_SCATTER, 2, 2, 3, 1, 1},
        {COLLECTIVE_SCATTER, 2, 3, 3, 1, 1},        {COLLECTIVE_SCATTER, 3, 2, 4, 1, 0},
        {COLLECTIVE_SCATTER, 4, 2, 5, 1, 0},        {COLLECTIVE_SCATTER, 6, 2, 7, 1, 0},
        {COLLECTIVE_SCATTER, 5, 2, 6, 0, 0},        {COLLECTIVE_SCATTER, 6, 7, 7, 1, 1},
        {COLLECTIVE_ALLTOALL, 24, 2, 8, 1, 1},      {COLLECTIVE_ALLTOALL, 24, 2, 7, 0, 0},
        {COLLECTIVE_ALLTOALL, 8, 2, 2, 0, 0},       {COLLECTIVE_ALLTOALL, 16, 2, 5, 0, 0},
    };
    struct synth_graph graph = graph_dgx1(1);
    exact_rows_ask(&graph, rows, sizeof rows / sizeof *rows);
    synth_graph_release(&graph);
}

static void a_ring_of_eight_is_answered(void **state)
{
    (void)state;
    static const struct exact_row rows[] = {
        {COLLECTIVE_ALLGATHER, 1, 4, 4, 1, 1}, {COLLECTIVE_ALLGATHER, 2, 4, 7, 1, 1},
        {COLLECTIVE_ALLGATHER, 1, 3, 3, 0, 0}, {COLLECTIVE_ALLGATHER, 1, 3, 9, 0, 0},
        {COLLECTIVE_ALLGATHER, 2, 4, 6, 0, 0}, {COLLECTIVE_GATHER, 1, 4, 4, 1, 1},
        {COLLECTIVE_GATHER, 2, 4, 7, 1, 1},    {COLLECTIVE_GATHER, 1, 3, 3, 0, 0},
        {COLLECTIVE_GATHER, 2, 4, 6, 0, 0},    {COLLECTIVE_BROADCAST, 2, 4, 4, 1, 1},
        {COLLECTIVE_BROADCAST, 3, 4, 4, 0, 0}, {COLLECTIVE_BROADCAST, 4, 5, 5, 1, 1},
        {COLLECTIVE_BROADCAST, 5, 5, 5, 0, 0}, {COLLECTIVE_BROADCAST, 6, 6, 6, 1, 1},
        {COLLECTIVE_BROADCAST, 7, 6, 6, 0, 0}, {COLLECTIVE_ALLTOALL, 8, 4, 8, 1, 1},
        {COLLECTIVE_ALLTOALL, 8, 4, 7, 0, 0},
    };
    struct synth_graph graph = graph_ring(8);
    exact_rows_ask(&graph, rows, sizeof rows / sizeof *rows);
    synth_graph_release(&graph);
}

struct points {
    struct exact_point items[4];
    int count;
};

static void ignore_question(const struct exact_point *point, void *context)
{
    (void)point;
    (void)context;
}

static enum tutti_status keep_point(const struct exact_point *point,
                                    const struct synth_steps *steps, void *context)
{
    struct points *const points = context;
    (void)steps;
    printf("(%d, %d, %d)\n", point->chunk_count, point->step_count, point->round_count);
    points->items[points->count++] = *point;
    return TUTTI_OK;
}

/* SCCL's front of the DGX-1's allgather, and that nothing up to six chunks is better. */
static void the_front_of_dgx1_has_two_points(void **state)
{
    (void)state;
    const struct exact_front_question question = {COLLECTIVE_ALLGATHER, 0, 6, 4, 8};
    struct points points = {.count = 0};
    const struct exact_front_listener listener = {ignore_question, keep_point, &points};
    bool is_certain;
    struct synth_graph graph = graph_dgx1(1);
    if (exact_front(&graph, &question, 300000000000, &listener, &is_certain) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    assert_int_equal(points.count, 2);
    assert_memory_equal(&points.items[0], (&(struct exact_point){2, 2, 3}), sizeof *points.items);
    assert_memory_equal(&points.items[1], (&(struct exact_point){6, 3, 7}), sizeof *points.items);
    assert_true(is_certain);
    synth_graph_release(&graph);
}

int main(void)
{
    exact_rows_need_solver();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dgx1_is_answered),
        cmocka_unit_test(a_ring_of_eight_is_answered),
        cmocka_unit_test(the_front_of_dgx1_has_two_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
