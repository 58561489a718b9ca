/* Questions that are answered within a second; exact_rows_test has the others.
 * The thread sanitizer takes the locks of libz3, which was built without it, for wrong ones.
 * ctest: label=notsan */
#include "studio/synth/exact.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "studio/synth/time_cut.h"
#include "studio/synth/z3.h"
#include "tests/plans/exact_rows.h"
#include "tests/plans/synth_graphs.h"

static void dgx1_is_answered(void **state)
{
    (void)state;
    static const struct exact_row rows[] = {
        {COLLECTIVE_ALLGATHER, 1, 2, 2, 1, 1},      {COLLECTIVE_ALLGATHER, 2, 2, 3, 1, 1},
        {COLLECTIVE_ALLGATHER, 1, 1, 1, 0, 0},      {COLLECTIVE_ALLGATHER, 2, 2, 2, 0, 0},
        {COLLECTIVE_REDUCE_SCATTER, 2, 2, 3, 1, 1}, {COLLECTIVE_REDUCE_SCATTER, 2, 2, 2, 0, 0},
        {COLLECTIVE_ALLREDUCE, 1, 1, 1, 0, 0},      {COLLECTIVE_ALLREDUCE, 8, 4, 4, 1, 1},
        {COLLECTIVE_GATHER, 1, 2, 2, 1, 1},
    };
    struct synth_graph graph = graph_dgx1(1);
    exact_rows_ask(&graph, rows, sizeof rows / sizeof *rows);
    synth_graph_release(&graph);
}

static void two_ranks_and_stars_and_rings_are_answered(void **state)
{
    (void)state;
    static const struct exact_row two_rows[] = {
        {COLLECTIVE_ALLGATHER, 2, 1, 1, 0, 0},      {COLLECTIVE_ALLGATHER, 2, 2, 2, 1, 1},
        {COLLECTIVE_REDUCE_SCATTER, 2, 1, 1, 0, 0}, {COLLECTIVE_REDUCE_SCATTER, 2, 2, 2, 1, 1},
        {COLLECTIVE_ALLREDUCE, 2, 1, 1, 0, 0},      {COLLECTIVE_ALLREDUCE, 2, 2, 2, 1, 1},
    };
    static const struct exact_row star_rows[] = {
        {COLLECTIVE_ALLTOALL, 4, 2, 4, 1, 1},
        {COLLECTIVE_ALLTOALL, 4, 2, 3, 0, 0},
        {COLLECTIVE_BROADCAST, 1, 2, 2, 1, 1},
        {COLLECTIVE_REDUCE, 1, 2, 2, 1, 1},
    };
    static const struct exact_row ring_rows[] = {
        {COLLECTIVE_GATHER, 1, 2, 2, 1, 1},
        {COLLECTIVE_GATHER, 2, 2, 3, 1, 1},
        {COLLECTIVE_SCATTER, 1, 2, 2, 1, 1},
    };
    struct synth_graph graph = graph_ring(2);
    exact_rows_ask(&graph, two_rows, sizeof two_rows / sizeof *two_rows);
    synth_graph_release(&graph);
    graph = graph_star(4);
    exact_rows_ask(&graph, star_rows, sizeof star_rows / sizeof *star_rows);
    synth_graph_release(&graph);
    graph = graph_ring(4);
    exact_rows_ask(&graph, ring_rows, sizeof ring_rows / sizeof *ring_rows);
    synth_graph_release(&graph);
}

/* Points as they are found, each with its schedule. */
struct points {
    struct exact_point items[4];
    int count, asked_count;
};

static void count_question(const struct exact_point *point, void *context)
{
    struct points *const points = context;
    assert_true(point->step_count >= 1);
    points->asked_count++;
}

static enum tutti_status keep_point(const struct exact_point *point,
                                    const struct synth_steps *steps, void *context)
{
    struct points *const points = context;
    assert_true(points->count < 4);
    assert_int_equal(steps->step_count, point->step_count);
    points->items[points->count++] = *point;
    return TUTTI_OK;
}

static enum tutti_status refuse_point(const struct exact_point *point,
                                      const struct synth_steps *steps, void *context)
{
    (void)point;
    (void)steps;
    (void)context;
    return TUTTI_SYSTEM;
}

static void a_ring_of_four_has_a_front(void **state)
{
    (void)state;
    const struct exact_front_question question = {COLLECTIVE_GATHER, 1, 2, 3, 5};
    struct points points = {.count = 0};
    struct exact_front_listener listener = {count_question, keep_point, &points};
    bool is_certain;
    struct synth_graph graph = graph_ring(4);
    assert_int_equal(exact_front(&graph, &question, 60000000000, &listener, &is_certain), TUTTI_OK);
    assert_true(is_certain);
    assert_int_equal(points.count, 1); /* 3 blocks over 2 links: no fewer rounds for a chunk */
    assert_memory_equal(&points.items[0], (&(struct exact_point){2, 2, 3}), sizeof *points.items);
    assert_true(points.asked_count > 1);
    listener.finds = refuse_point;
    assert_int_equal(exact_front(&graph, &question, 60000000000, &listener, &is_certain),
                     TUTTI_SYSTEM);
    listener.finds = keep_point;
    points.count = 0;
    assert_int_equal(exact_front(&graph, &question, 0, &listener, &is_certain), TUTTI_OK);
    assert_false(is_certain); /* no time for a single question */
    assert_int_equal(points.count, 0);
    synth_graph_release(&graph);
}

static struct synth_steps found(const struct synth_graph *graph,
                                const struct exact_question *question)
{
    struct exact_answer answer;
    assert_int_equal(exact_ask(graph, question, 60000000000, &answer), TUTTI_OK);
    assert_int_equal(answer.verdict, EXACT_FEASIBLE);
    return answer.steps;
}

/* A schedule that lacks a transfer, sends something too early or too much is refused: each one of
 * them, changed. */
static void changed_schedules_are_refused(void **state)
{
    (void)state;
    struct synth_graph graph = graph_ring(4);
    const struct exact_question questions[] = {{COLLECTIVE_ALLGATHER, 0, 2, 2, 3, false},
                                               {COLLECTIVE_REDUCE_SCATTER, 0, 2, 2, 3, false},
                                               {COLLECTIVE_GATHER, 1, 2, 2, 3, false}};
    for (size_t q = 0; q < sizeof questions / sizeof *questions; q++) {
        struct synth_steps steps = found(&graph, &questions[q]);
        for (int i = 0; i < steps.transfer_count; i++) {
            const struct synth_transfer kept = steps.transfers[i];
            struct plan *plan;
            steps.transfers[i].chunk = (kept.chunk + 1) % synth_chunk_count(&steps.shape);
            assert_int_equal(synth_steps_check(&steps, &graph), TUTTI_INVALID_OPTIONS);
            assert_int_not_equal(synth_steps_plan(&steps, false, 0, &plan), TUTTI_OK);
            steps.transfers[i] = kept;
            steps.transfers[i].to = kept.from;
            assert_int_equal(synth_steps_check(&steps, &graph), TUTTI_INVALID_OPTIONS);
            steps.transfers[i] = kept;
        }
        assert_int_equal(synth_steps_check(&steps, &graph), TUTTI_OK);
        for (int step = 0; step < steps.step_count; step++) {
            if (steps.rounds[step] == 1) continue;
            steps.rounds[step]--;
            assert_int_equal(synth_steps_check(&steps, &graph), TUTTI_INVALID_OPTIONS);
            steps.rounds[step]++;
        }
        synth_steps_release(&steps);
    }
    synth_graph_release(&graph);
}

/* Every cut of a question that has an answer is refused. */
static void no_cut_refutes_what_exists(void **state)
{
    (void)state;
    struct synth_graph graph = graph_ring(4);
    const struct plan_shape shape = {COLLECTIVE_GATHER, 4, 0, 2};
    const int rounds[] = {1, 2};
    int until_step[4];
    for (int cut = 0; cut < 256; cut++) {
        for (int i = 0; i < 4; i++) until_step[i] = (cut >> 2 * i & 3) - 1;
        assert_false(time_cut_check(&graph, &shape, rounds, 2, until_step));
    }
    const int fewer[] = {1, 1};
    bool is_found;
    assert_int_equal(time_cut_find(&graph, &shape, fewer, 2, 0, until_step, &is_found), TUTTI_OK);
    assert_true(is_found);
    until_step[0] = -1; /* nothing is wanted inside any more */
    assert_false(time_cut_check(&graph, &shape, fewer, 2, until_step));
    synth_graph_release(&graph);
}

/* The first moment of the clock has been over for long. */
static void nothing_is_found_when_the_time_is_over(void **state)
{
    (void)state;
    struct synth_graph graph = graph_ring(4);
    const struct plan_shape shape = {COLLECTIVE_GATHER, 4, 0, 2};
    const int rounds[] = {1, 1}, more[] = {2, 4};
    const struct exact_question question = {COLLECTIVE_ALLGATHER, 0, 2, 2, 3, false};
    int until_step[4];
    struct synth_steps steps;
    struct plan *plan;
    bool is_found = true;
    assert_int_equal(time_cut_find(&graph, &shape, rounds, 2, 1, until_step, &is_found), TUTTI_OK);
    assert_false(is_found);
    assert_int_equal(time_flow_gather(&graph, &shape, more, 2, 0, &steps, &is_found), TUTTI_OK);
    assert_true(is_found);
    synth_steps_release(&steps);
    assert_int_equal(time_flow_gather(&graph, &shape, more, 2, 1, &steps, &is_found), TUTTI_OK);
    assert_false(is_found);
    steps = found(&graph, &question);
    assert_int_equal(synth_steps_plan(&steps, true, 1, &plan), TUTTI_TIMEOUT);
    assert_null(plan);
    synth_steps_release(&steps);
    synth_graph_release(&graph);
}

static void questions_about_nothing_are_refused(void **state)
{
    (void)state;
    struct synth_graph graph = graph_ring(4);
    const struct exact_question questions[] = {{COLLECTIVE_ALLGATHER, 0, 0, 2, 2, false},
                                               {COLLECTIVE_ALLGATHER, 0, 1, 3, 2, false},
                                               {COLLECTIVE_BARRIER, 0, 1, 2, 2, false},
                                               {COLLECTIVE_ALLTOALL, 0, 3, 2, 2, false},
                                               {COLLECTIVE_GATHER, 4, 1, 2, 2, false},
                                               {COLLECTIVE_ALLGATHER, 0, 1 << 20, 2, 2, false},
                                               {COLLECTIVE_ALLGATHER, 0, 1, 20, 60, false},
                                               {COLLECTIVE_ALLGATHER, 0, 1, 1, 1 << 30, false}};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        struct exact_answer answer;
        assert_int_equal(exact_ask(&graph, &questions[i], 1000000000, &answer),
                         TUTTI_INVALID_OPTIONS);
    }
    graph.node_count = 5;
    struct exact_answer answer;
    assert_int_equal(exact_ask(&graph,
                               &(struct exact_question){COLLECTIVE_ALLGATHER, 0, 1, 2, 2, false},
                               1000000000, &answer),
                     TUTTI_INVALID_OPTIONS);
    synth_graph_release(&graph);
}

/* Pigeons and holes, one too many: a solver of clauses takes very long for that. */
static void say_pigeons(struct z3 *z3)
{
    enum { HOLES = 11 };
    int in[HOLES + 1][HOLES];
    for (int pigeon = 0; pigeon <= HOLES; pigeon++) {
        for (int hole = 0; hole < HOLES; hole++) in[pigeon][hole] = z3_new_fact(z3);
        z3_any(z3, in[pigeon], HOLES);
        for (int other = 0; other < pigeon; other++)
            for (int hole = 0; hole < HOLES; hole++)
                z3_any(z3, (const int[]){-in[pigeon][hole], -in[other][hole]}, 2);
    }
}

/* Solves for so long, and for not much longer. */
static void solve_pigeons(struct z3 *z3, uint64_t timeout_ns)
{
    const uint64_t began = clock_now_ns();
    enum z3_answer answer;
    assert_int_equal(z3_solve(z3, timeout_ns, &answer), TUTTI_OK);
    assert_int_not_equal(answer, Z3_POSSIBLE);
    assert_in_range(clock_now_ns() - began, 0, 30000000000);
}

static void the_solver_keeps_its_time(void **state)
{
    (void)state;
    struct z3 *z3;
    assert_int_equal(z3_open(&z3), TUTTI_OK);
    say_pigeons(z3);
    solve_pigeons(z3, 100000000);
    z3_close(z3);
}

static void *interrupt(void *z3)
{
    usleep(100000);
    z3_interrupt(z3);
    return NULL;
}

static void the_solver_can_be_interrupted(void **state)
{
    (void)state;
    struct z3 *z3;
    pthread_t thread;
    assert_int_equal(z3_open(&z3), TUTTI_OK);
    say_pigeons(z3);
    assert_int_equal(pthread_create(&thread, NULL, interrupt, z3), 0);
    solve_pigeons(z3, 600000000000);
    pthread_join(thread, NULL);
    z3_close(z3);
}

int main(void)
{
    exact_rows_need_solver();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dgx1_is_answered),
        cmocka_unit_test(two_ranks_and_stars_and_rings_are_answered),
        cmocka_unit_test(a_ring_of_four_has_a_front),
        cmocka_unit_test(changed_schedules_are_refused),
        cmocka_unit_test(no_cut_refutes_what_exists),
        cmocka_unit_test(nothing_is_found_when_the_time_is_over),
        cmocka_unit_test(questions_about_nothing_are_refused),
        cmocka_unit_test(the_solver_keeps_its_time),
        cmocka_unit_test(the_solver_can_be_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
