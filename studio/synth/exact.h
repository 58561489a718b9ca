/* exact.h - whether a schedule of C chunks, S steps and R rounds exists, and the schedule.
 *
 * C counts the chunks of a rank's input (of its output where a reduce_scatter gives one), so an
 * alltoall has C/n for each destination. All splits of R rounds into S steps are asked, balanced
 * ones first. Chunks are unknowns of a satisfiability question: chunk c goes over edge e in step s;
 * it is at most once received by every rank; so many fit over an edge. A schedule that is found has
 * passed synth_steps_check; that there is none is said only when the solver has refuted every
 * split, or a checked cut has (time_cut.h), and `evidence` says which of both have, for all.
 *
 * reduce_scatter, reduce, scatter: the reverse of an allgather, a broadcast, a gather over the
 * reversed edges. gather: a maximum flow, where that has room; the solver is asked only about what
 * it cannot do. allreduce: refuted where one rank's broadcast is, for its contribution must get
 * everywhere; found as a reduce_scatter and an allgather of C/n chunks, S/2 steps and R/2 rounds
 * each. If neither succeeds the answer is unknown.
 */
#ifndef TUTTI_STUDIO_SYNTH_EXACT_H
#define TUTTI_STUDIO_SYNTH_EXACT_H

#include <stdbool.h>
#include <stdint.h>

#include "studio/synth/graph.h"
#include "studio/synth/steps.h"
#include "tutti/tutti.h"

struct exact_question {
    enum collective collective;
    int root;
    int chunk_count, step_count, round_count; /* C, S, R */
    bool cut_suffices; /* the solver is not asked about a split that a cut refutes */
};

enum exact_verdict { EXACT_FEASIBLE, EXACT_INFEASIBLE, EXACT_UNKNOWN };
enum exact_evidence { EXACT_BY_SOLVER = 1, EXACT_BY_CUT = 2 };

struct exact_answer {
    enum exact_verdict verdict;
    unsigned evidence; /* of EXACT_INFEASIBLE: exact_evidence, each for every split */
    bool is_late; /* of EXACT_UNKNOWN: a question ended with the time, so more time may answer it */
    int split_count; /* splits that were asked */
    uint64_t solver_ns;
    struct synth_steps steps; /* of EXACT_FEASIBLE; the caller's */
};

/* Blocks for at most about timeout_ns. INVALID_OPTIONS: a question about nothing, or a graph with
 * switches; UNSUPPORTED: no solver here. */
enum tutti_status exact_ask(const struct synth_graph *graph, const struct exact_question *question,
                            uint64_t timeout_ns, struct exact_answer *answer);
void exact_answer_release(struct exact_answer *answer);

/* A schedule than which no other has fewer steps and at most as many rounds for a chunk, or the
 * other way round. */
struct exact_point {
    int chunk_count, step_count, round_count;
};

struct exact_front_question {
    enum collective collective; /* not allreduce, whose halves say it all */
    int root;
    int chunk_count_max, step_count_max, round_count_max; /* 1 to EXACT_FRONT_MAX */
};

enum { EXACT_FRONT_MAX = 64 };

/* Hears of a front while it is being found, in the thread that asks for it. */
struct exact_front_listener {
    void (*asks)(const struct exact_point *point, void *context); /* before each question */
    /* A point of the front and its schedule, which is exact_front's. Any other status than OK ends
     * the search with that status. */
    enum tutti_status (*finds)(const struct exact_point *point, const struct synth_steps *steps,
                               void *context);
    void *context;
};

/* Finds the points in order of their steps, one at most for each number of steps; *is_certain tells
 * that nothing within the bounds remained undecided. Blocks for about timeout_ns at most; the
 * questions it asks are exact_ask's, and so are its failures. */
enum tutti_status exact_front(const struct synth_graph *graph,
                              const struct exact_front_question *question, uint64_t timeout_ns,
                              const struct exact_front_listener *listener, bool *is_certain);

#endif
