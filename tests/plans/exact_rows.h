/* exact_rows.h - questions to exact synthesis whose answers are published or were computed by hand,
 * for its quick and its long test. */
#ifndef TUTTI_TESTS_PLANS_EXACT_ROWS_H
#define TUTTI_TESTS_PLANS_EXACT_ROWS_H

#include <stddef.h>

#include "studio/synth/exact.h"

/* Cables in both directions, of capacity 1: rank i to i+1; all ranks to rank 0. */
struct synth_graph graph_ring(int rank_count);
struct synth_graph graph_star(int rank_count);

struct exact_row {
    enum collective collective;
    int chunk_count, step_count, round_count;
    unsigned even_roots,
        odd_roots; /* 1: feasible, 0: not; those without a root are asked as root 0 */
};

/* Ends the program with 77, which is a skipped test, when there is no solver. */
void exact_rows_need_solver(void);
/* Asks for every root. Feasible: the plan is proven, separate and in place. Infeasible: the solver
 * and a cut say so, the solver within 10 seconds (not counted under a sanitizer). A failed row
 * fails the test. */
void exact_rows_ask(const struct synth_graph *graph, const struct exact_row *rows, size_t row_count);

#endif
