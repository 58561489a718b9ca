#include "tests/plans/exact_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "studio/synth/z3.h"
#include "tests/kit/sanitized.h"

static void add(struct synth_graph *graph, int from, int to, uint32_t capacity)
{
    if (synth_graph_add(graph, from, to, capacity, 0) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
}

static void add_cable(struct synth_graph *graph, int a, int b)
{
    add(graph, a, b, 1);
    add(graph, b, a, 1);
}

struct synth_graph graph_ring(int rank_count)
{
    struct synth_graph graph = {.rank_count = rank_count, .node_count = rank_count};
    for (int i = 0; i < rank_count && (rank_count > 2 || i < 1); i++)
        add_cable(&graph, i, (i + 1) % rank_count);
    return graph;
}

struct synth_graph graph_star(int rank_count)
{
    struct synth_graph graph = {.rank_count = rank_count, .node_count = rank_count};
    for (int i = 1; i < rank_count; i++) add_cable(&graph, 0, i);
    return graph;
}

void exact_rows_need_solver(void)
{
    struct z3 *z3;
    const enum tutti_status status = z3_open(&z3);
    if (status == TUTTI_OK) {
        z3_close(z3);
        return;
    }
    puts(tutti_error_message());
    exit(status == TUTTI_UNSUPPORTED ? 77 : 1);
}

static void expect_plan(const struct synth_steps *steps, const char *name)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        struct plan *plan;
        if (synth_steps_plan(steps, in_place, 0, &plan) != TUTTI_OK)
            fail_msg("%s: %s", name, tutti_error_message());
        plan_free(plan);
    }
}

static void ask(const struct synth_graph *graph, const struct exact_row *row, int root)
{
    const uint64_t second = 1000000000;
    const struct exact_question question = {
        row->collective, root, row->chunk_count, row->step_count, row->round_count, false};
    const bool feasible = root % 2 == 0 ? row->even_roots : row->odd_roots;
    struct exact_answer answer;
    struct timespec began, ended; /* the processor's: others may use it, too */
    char name[128];
    snprintf(name, sizeof name, "%s (%d, %d, %d) root %d", collective_name(row->collective),
             row->chunk_count, row->step_count, row->round_count, root);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
    if (exact_ask(graph, &question, 100 * second, &answer) != TUTTI_OK)
        fail_msg("%s: %s", name, tutti_error_message());
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
    const double seconds =
        (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
    printf("%s: %s, %d splits, %.3f s\n", name, feasible ? "feasible" : "infeasible",
           answer.split_count, seconds);
    if (answer.verdict != (feasible ? EXACT_FEASIBLE : EXACT_INFEASIBLE))
        fail_msg("%s: the verdict is %d", name, answer.verdict);
    if (feasible)
        expect_plan(&answer.steps, name);
    else if (answer.evidence != (EXACT_BY_SOLVER | EXACT_BY_CUT))
        fail_msg("%s: evidence %u", name, answer.evidence);
    else if (!IS_SANITIZED && seconds > 10)
        fail_msg("%s: took too long", name);
    exact_answer_release(&answer);
}

void exact_rows_ask(const struct synth_graph *graph, const struct exact_row *rows, size_t row_count)
{
    for (size_t i = 0; i < row_count; i++)
        for (int root = 0;
             root < (collective_is_rooted(rows[i].collective) ? graph->rank_count : 1); root++)
            ask(graph, &rows[i], root);
}
