#include "studio/synth/exact.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "os/clock.h"
#include "studio/synth/late.h"
#include "studio/synth/time_cut.h"
#include "studio/synth/z3.h"

enum { SPLITS_MAX = 1 << 12, UNKNOWNS_MAX = 1 << 22 };

/* One question for the solver: a shape that copies, and the rounds of each step. */
struct encoding {
    const struct synth_graph *graph;
    const struct plan_shape *shape;
    const int *rounds;
    int step_count, chunk_count;
    struct z3 *z3;
    int *sent; /* fact of (chunk, edge, step) */
    int *has;  /* fact of (chunk, rank, step): at the beginning of that step; steps + 1 of them */
    int *work; /* literals of one constraint */
};

static int *sent(const struct encoding *e, int chunk, int edge, int step)
{
    return &e->sent[((size_t)chunk * (size_t)e->graph->edge_count + (size_t)edge) * (size_t)e->step_count +
                    (size_t)step];
}

static int *has(const struct encoding *e, int chunk, int rank, int step)
{
    return &e->has[((size_t)chunk * (size_t)e->shape->rank_count + (size_t)rank) *
                       ((size_t)e->step_count + 1) +
                   (size_t)step];
}

static void say_one(const struct encoding *e, int literal)
{
    z3_any(e->z3, &literal, 1);
}

static void say_implies(const struct encoding *e, int if_this, int then_that)
{
    z3_any(e->z3, (const int[]){-if_this, then_that}, 2);
}

/* A rank has at the end of a step what it had and what came. */
static void say_arrivals(const struct encoding *e, int chunk, int rank)
{
    for (int step = 0; step < e->step_count; step++) {
        const int after = *has(e, chunk, rank, step + 1), before = *has(e, chunk, rank, step);
        int count = 0;
        e->work[count++] = -after;
        e->work[count++] = before;
        for (int i = 0; i < e->graph->edge_count; i++)
            if (e->graph->edges[i].to == rank) e->work[count++] = *sent(e, chunk, i, step);
        z3_any(e->z3, e->work, count);
        say_implies(e, before, after);
    }
}

/* Once at most, and never where it comes from: more would be of no use. */
static void say_once(const struct encoding *e, int chunk, int rank)
{
    int count = 0;
    const bool mine = synth_chunk_source(e->shape, chunk) == rank;
    for (int i = 0; i < e->graph->edge_count; i++)
        for (int step = 0; step < e->step_count && e->graph->edges[i].to == rank; step++) {
            if (mine) say_one(e, -*sent(e, chunk, i, step));
            e->work[count++] = *sent(e, chunk, i, step);
        }
    if (!mine) z3_at_most(e->z3, e->work, count, 1);
}

/* A chunk that only one rank wants takes one path: no rank sends it twice, and the rank at its end
 * does not send it on. */
static void say_path(const struct encoding *e, int chunk, int rank)
{
    int count = 0;
    const bool is_end = synth_chunk_wanted(e->shape, chunk, rank);
    for (int i = 0; i < e->graph->edge_count; i++)
        for (int step = 0; step < e->step_count && e->graph->edges[i].from == rank; step++) {
            if (is_end) say_one(e, -*sent(e, chunk, i, step));
            e->work[count++] = *sent(e, chunk, i, step);
        }
    if (!is_end) z3_at_most(e->z3, e->work, count, 1);
}

static bool is_wanted_once(const struct plan_shape *shape, int chunk)
{
    int count = 0;
    for (int rank = 0; rank < shape->rank_count; rank++)
        count += synth_chunk_wanted(shape, chunk, rank);
    return count == 1;
}

static void say_chunk(const struct encoding *e, int chunk)
{
    const int n = e->shape->rank_count;
    const bool is_path = is_wanted_once(e->shape, chunk);
    for (int i = 0; i < e->graph->edge_count; i++)
        for (int step = 0; step < e->step_count; step++)
            *sent(e, chunk, i, step) = z3_new_fact(e->z3);
    for (int rank = 0; rank < n; rank++)
        for (int step = 0; step <= e->step_count; step++)
            *has(e, chunk, rank, step) = z3_new_fact(e->z3);
    for (int i = 0; i < e->graph->edge_count; i++)
        for (int step = 0; step < e->step_count; step++)
            say_implies(e, *sent(e, chunk, i, step), *has(e, chunk, e->graph->edges[i].from, step));
    for (int rank = 0; rank < n; rank++) {
        const int first = *has(e, chunk, rank, 0);
        say_one(e, synth_chunk_source(e->shape, chunk) == rank ? first : -first);
        if (synth_chunk_wanted(e->shape, chunk, rank))
            say_one(e, *has(e, chunk, rank, e->step_count));
        say_arrivals(e, chunk, rank);
        say_once(e, chunk, rank);
        if (is_path) say_path(e, chunk, rank);
    }
}

static bool say_room(const struct encoding *e, uint64_t deadline_ns)
{
    for (int i = 0; i < e->graph->edge_count; i++) {
        if (synth_is_late(deadline_ns)) return false;
        for (int step = 0; step < e->step_count; step++) {
            const int64_t room = (int64_t)e->graph->edges[i].capacity * e->rounds[step];
            for (int chunk = 0; chunk < e->chunk_count; chunk++)
                e->work[chunk] = *sent(e, chunk, i, step);
            if (room < e->chunk_count) z3_at_most(e->z3, e->work, e->chunk_count, (int)room);
        }
    }
    return true;
}

/* False: the time came first, and what was said until then is not to be asked. */
static bool encode(const struct encoding *e, uint64_t deadline_ns)
{
    for (int chunk = 0; chunk < e->chunk_count; chunk++) {
        if (synth_is_late(deadline_ns)) return false;
        say_chunk(e, chunk);
    }
    return say_room(e, deadline_ns);
}

static enum tutti_status read_steps(const struct encoding *e, struct synth_steps *steps)
{
    TRY(synth_steps_init(steps, e->shape, e->step_count));
    memcpy(steps->rounds, e->rounds, (size_t)e->step_count * sizeof *e->rounds);
    for (int step = 0; step < e->step_count; step++)
        for (int i = 0; i < e->graph->edge_count; i++)
            for (int chunk = 0; chunk < e->chunk_count; chunk++)
                if (z3_holds(e->z3, *sent(e, chunk, i, step)))
                    TRY(synth_steps_add(steps, step, chunk, e->graph->edges[i].from,
                                        e->graph->edges[i].to));
    return TUTTI_OK;
}

static enum tutti_status encoding_init(struct encoding *e)
{
    const size_t chunks = (size_t)e->chunk_count, steps = (size_t)e->step_count;
    const size_t edges = (size_t)e->graph->edge_count, ranks = (size_t)e->shape->rank_count;
    if (chunks * (edges + ranks) > UNKNOWNS_MAX / (steps + 1))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%zu chunks over %zu edges in %zu steps are too many for exact synthesis",
                         chunks, edges, steps);
    e->sent = calloc(chunks * edges * steps + 1, sizeof *e->sent);
    e->has = calloc(chunks * ranks * (steps + 1), sizeof *e->has);
    e->work = calloc(chunks + edges * steps + 2, sizeof *e->work);
    if (e->sent == NULL || e->has == NULL || e->work == NULL)
        return error_set(TUTTI_NO_MEMORY, "the unknowns of %zu chunks", chunks);
    return z3_open(&e->z3);
}

static void encoding_release(struct encoding *e)
{
    z3_close(e->z3);
    free(e->sent);
    free(e->has);
    free(e->work);
}

static enum tutti_status ask_solver(struct encoding *e, uint64_t deadline_ns,
                                    enum z3_answer *answer, struct synth_steps *steps)
{
    TRY(encoding_init(e));
    *answer = Z3_UNDECIDED;
    if (!encode(e, deadline_ns)) return TUTTI_OK;
    const uint64_t now = clock_now_ns();
    if (now >= deadline_ns) return TUTTI_OK;
    TRY(z3_solve(e->z3, deadline_ns - now, answer));
    return *answer == Z3_POSSIBLE ? read_steps(e, steps) : TUTTI_OK;
}

/* The answer to one split is added to the answer for all splits. */
struct asking {
    const struct synth_graph *graph;
    const struct plan_shape *shape;
    uint64_t deadline_ns;
    bool cut_suffices, every_split_refuted, every_split_cut, a_split_is_open;
    int *until_step;
    struct exact_answer *answer;
};

static enum tutti_status ask_split(struct asking *asking, const int *rounds, int step_count)
{
    struct exact_answer *const answer = asking->answer;
    struct encoding encoding = {.graph = asking->graph,
                                .shape = asking->shape,
                                .rounds = rounds,
                                .step_count = step_count,
                                .chunk_count = synth_chunk_count(asking->shape)};
    bool cut = false;
    if (synth_is_late(asking->deadline_ns)) {
        asking->every_split_refuted = asking->every_split_cut = false;
        asking->a_split_is_open = true;
        return TUTTI_OK;
    }
    TRY(time_cut_find(asking->graph, asking->shape, rounds, step_count, asking->deadline_ns,
                      asking->until_step, &cut));
    if (!cut) asking->every_split_cut = false;
    answer->split_count++;
    if (cut && asking->cut_suffices) {
        asking->every_split_refuted = false;
        return TUTTI_OK;
    }
    if (asking->shape->collective == COLLECTIVE_GATHER && !cut) {
        bool flows;
        TRY(time_flow_gather(asking->graph, asking->shape, rounds, step_count, asking->deadline_ns,
                             &answer->steps, &flows));
        if (flows) {
            answer->verdict = EXACT_FEASIBLE;
            return synth_steps_check(&answer->steps, asking->graph);
        }
    }
    enum z3_answer solved;
    const uint64_t began = clock_now_ns();
    const enum tutti_status status =
        ask_solver(&encoding, asking->deadline_ns, &solved, &answer->steps);
    encoding_release(&encoding);
    answer->solver_ns += clock_now_ns() - began;
    TRY(status);
    if (solved != Z3_IMPOSSIBLE) asking->every_split_refuted = false;
    if (solved == Z3_UNDECIDED && !cut) asking->a_split_is_open = true;
    if (solved != Z3_POSSIBLE) return TUTTI_OK;
    if (cut)
        return error_set(TUTTI_INTERNAL,
                         "a schedule was found through a cut that has no room for it");
    answer->verdict = EXACT_FEASIBLE;
    return synth_steps_check(&answer->steps, asking->graph);
}

/* Asks all splits whose largest step has so many rounds, the balanced splits first. */
static enum tutti_status ask_splits(struct asking *asking, int *rounds, int step, int step_count,
                                    int left, int largest)
{
    if (step == step_count) {
        bool reached = false;
        for (int i = 0; i < step_count; i++) reached |= rounds[i] == largest;
        return reached && left == 0 ? ask_split(asking, rounds, step_count) : TUTTI_OK;
    }
    for (rounds[step] = 1; rounds[step] <= largest && rounds[step] <= left; rounds[step]++) {
        const int after = step_count - step - 1, rest = left - rounds[step];
        if (rest < after || rest > (int64_t)after * largest) continue;
        TRY(ask_splits(asking, rounds, step + 1, step_count, rest, largest));
        if (asking->answer->verdict == EXACT_FEASIBLE) return TUTTI_OK;
    }
    return TUTTI_OK;
}

/* Asks until a split is feasible; those with the smallest largest step come first. */
static enum tutti_status ask_in_turn(struct asking *asking, int *rounds, int step_count,
                                     int round_count)
{
    const int least = (round_count + step_count - 1) / step_count,
              most = round_count - step_count + 1;
    for (int n = least; n <= most && asking->answer->verdict != EXACT_FEASIBLE; n++)
        TRY(ask_splits(asking, rounds, 0, step_count, round_count, n));
    return TUTTI_OK;
}

static enum tutti_status ask_all(struct asking *asking, int step_count, int round_count)
{
    int *const rounds = calloc((size_t)step_count, sizeof *rounds);
    asking->until_step = calloc((size_t)asking->graph->node_count, sizeof *asking->until_step);
    const enum tutti_status status =
        rounds != NULL && asking->until_step != NULL
            ? ask_in_turn(asking, rounds, step_count, round_count)
            : error_set(TUTTI_NO_MEMORY, "a question of %d steps", step_count);
    free(rounds);
    free(asking->until_step);
    if (status != TUTTI_OK || asking->answer->verdict == EXACT_FEASIBLE) return status;
    if (asking->every_split_refuted) asking->answer->evidence |= EXACT_BY_SOLVER;
    if (asking->every_split_cut) asking->answer->evidence |= EXACT_BY_CUT;
    if (asking->a_split_is_open)
        asking->answer->is_late = true;
    else
        asking->answer->verdict = EXACT_INFEASIBLE;
    return TUTTI_OK;
}

/* C(round_count - 1, step_count - 1), or SPLITS_MAX + 1 where there are more. */
static int64_t split_count(int round_count, int step_count)
{
    int64_t count = 1;
    for (int i = 1; i < step_count; i++) {
        count = count * (round_count - i) / i;
        if (count > SPLITS_MAX) return SPLITS_MAX + 1;
    }
    return count;
}

static enum tutti_status check_question(const struct synth_graph *graph,
                                        const struct exact_question *question)
{
    if (graph->node_count != graph->rank_count || graph->rank_count < 2)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "exact synthesis is for graphs of two ranks or more, without switches");
    if (question->chunk_count < 1 || question->step_count < 1 ||
        question->step_count > SYNTH_STEPS_MAX || question->round_count > SYNTH_ROUNDS_MAX ||
        question->round_count < question->step_count)
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "a schedule of %d chunks, %d steps and %d rounds: a step has a round or more",
            question->chunk_count, question->step_count, question->round_count);
    if (split_count(question->round_count, question->step_count) > SPLITS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%d rounds split into %d steps in more than %d ways",
                         question->round_count, question->step_count, SPLITS_MAX);
    return TUTTI_OK;
}

static enum tutti_status ask_copying(const struct synth_graph *graph, const struct plan_shape *shape,
                                     const struct exact_question *question, uint64_t deadline_ns,
                                     struct exact_answer *answer)
{
    TRY(synth_shape_check(shape));
    struct asking asking = {.graph = graph,
                            .shape = shape,
                            .deadline_ns = deadline_ns,
                            .cut_suffices = question->cut_suffices,
                            .every_split_refuted = true,
                            .every_split_cut = true,
                            .answer = answer};
    return ask_all(&asking, question->step_count, question->round_count);
}

/* An answer that was found backwards is turned round, and checked once more for its own
 * collective. */
static enum tutti_status turn_round(const struct synth_graph *graph, struct exact_answer *answer)
{
    struct synth_steps forwards;
    TRY(synth_steps_reverse(&answer->steps, &forwards));
    synth_steps_release(&answer->steps);
    answer->steps = forwards;
    return synth_steps_check(&answer->steps, graph);
}

/* The collective that is asked in place of this collective, or COLLECTIVE_COUNT if this collective
 * is asked itself. */
static enum collective asked_backwards(enum collective collective)
{
    switch (collective) {
    case COLLECTIVE_REDUCE: return COLLECTIVE_BROADCAST;
    case COLLECTIVE_REDUCE_SCATTER: return COLLECTIVE_ALLGATHER;
    case COLLECTIVE_SCATTER: return COLLECTIVE_GATHER; /* a flow */
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return COLLECTIVE_COUNT;
}

static enum tutti_status ask_backwards(const struct synth_graph *graph, struct plan_shape *shape,
                                       const struct exact_question *question, uint64_t deadline_ns,
                                       struct exact_answer *answer)
{
    struct synth_graph reversed;
    shape->collective = asked_backwards(shape->collective);
    TRY(synth_graph_reverse(graph, &reversed));
    enum tutti_status status = ask_copying(&reversed, shape, question, deadline_ns, answer);
    synth_graph_release(&reversed);
    if (status == TUTTI_OK && answer->verdict == EXACT_FEASIBLE) status = turn_round(graph, answer);
    return status;
}

/* An allreduce contains a broadcast of each rank, for the contribution of a rank reaches every
 * other rank. The allreduce is infeasible if one of these broadcasts is; otherwise nothing is
 * known. */
static enum tutti_status refute_allreduce(const struct synth_graph *graph,
                                          const struct exact_question *question,
                                          uint64_t deadline_ns, struct exact_answer *answer)
{
    struct plan_shape shape = {COLLECTIVE_BROADCAST, graph->rank_count, 0,
                               (uint32_t)question->chunk_count};
    for (; shape.root < graph->rank_count && answer->verdict != EXACT_INFEASIBLE; shape.root++) {
        synth_steps_release(&answer->steps);
        answer->verdict = EXACT_UNKNOWN;
        TRY(ask_copying(graph, &shape, question, deadline_ns, answer));
    }
    synth_steps_release(&answer->steps);
    if (answer->verdict == EXACT_FEASIBLE) answer->verdict = EXACT_UNKNOWN;
    return TUTTI_OK;
}

static enum tutti_status join_halves(const struct synth_graph *graph, struct exact_answer *answer,
                                     const struct exact_answer *gathering)
{
    struct synth_steps joined;
    TRY(synth_steps_join(&answer->steps, &gathering->steps, &joined));
    synth_steps_release(&answer->steps);
    answer->steps = joined;
    return synth_steps_check(&answer->steps, graph);
}

/* A reduce_scatter and an allgather; that there is no such half is no proof of anything. */
static enum tutti_status compose_allreduce(const struct synth_graph *graph,
                                           const struct exact_question *question,
                                           uint64_t deadline_ns, struct exact_answer *answer)
{
    const struct exact_question half = {.chunk_count = question->chunk_count / graph->rank_count,
                                        .step_count = question->step_count / 2,
                                        .round_count = question->round_count / 2};
    struct plan_shape shape = {COLLECTIVE_REDUCE_SCATTER, graph->rank_count, 0,
                               (uint32_t)half.chunk_count};
    const struct plan_shape gathered = {COLLECTIVE_ALLGATHER, graph->rank_count, 0, shape.parts};
    struct exact_answer gathering = {.verdict = EXACT_UNKNOWN};
    TRY(ask_backwards(graph, &shape, &half, deadline_ns, answer));
    const bool reduced = answer->verdict == EXACT_FEASIBLE;
    answer->verdict = EXACT_UNKNOWN;
    answer->evidence = 0;
    if (!reduced) return TUTTI_OK;
    enum tutti_status status = ask_copying(graph, &gathered, &half, deadline_ns, &gathering);
    answer->split_count += gathering.split_count;
    answer->is_late |= gathering.is_late;
    answer->solver_ns += gathering.solver_ns;
    if (status == TUTTI_OK && gathering.verdict == EXACT_FEASIBLE) {
        status = join_halves(graph, answer, &gathering);
        answer->verdict = EXACT_FEASIBLE;
    } else {
        synth_steps_release(&answer->steps);
    }
    synth_steps_release(&gathering.steps);
    return status;
}

/* Half of the time each. */
static enum tutti_status ask_allreduce(const struct synth_graph *graph,
                                       const struct exact_question *question, uint64_t deadline_ns,
                                       struct exact_answer *answer)
{
    const bool has_halves = question->chunk_count % graph->rank_count == 0 &&
                            question->step_count % 2 == 0 && question->round_count % 2 == 0;
    const uint64_t now = clock_now_ns();
    const uint64_t half_ns = now < deadline_ns ? now + (deadline_ns - now) / 2 : deadline_ns;
    if (has_halves) TRY(compose_allreduce(graph, question, half_ns, answer));
    if (answer->verdict == EXACT_FEASIBLE) return TUTTI_OK;
    return refute_allreduce(graph, question, deadline_ns, answer);
}

enum tutti_status exact_ask(const struct synth_graph *graph, const struct exact_question *question,
                            uint64_t timeout_ns, struct exact_answer *answer)
{
    *answer = (struct exact_answer){.verdict = EXACT_UNKNOWN};
    TRY(check_question(graph, question));
    const bool alltoall = question->collective == COLLECTIVE_ALLTOALL;
    if (alltoall && question->chunk_count % graph->rank_count != 0)
        return error_set(TUTTI_INVALID_OPTIONS, "%d chunks are not as many for each of %d ranks",
                         question->chunk_count, graph->rank_count);
    struct plan_shape shape = {
        .collective = question->collective,
        .rank_count = graph->rank_count,
        .root = collective_is_rooted(question->collective) ? question->root : 0,
        .parts = (uint32_t)(question->chunk_count / (alltoall ? graph->rank_count : 1))};
    const uint64_t now = clock_now_ns();
    const uint64_t deadline_ns = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    enum tutti_status status;
    if (question->collective == COLLECTIVE_ALLREDUCE)
        status = ask_allreduce(graph, question, deadline_ns, answer);
    else if (asked_backwards(question->collective) != COLLECTIVE_COUNT)
        status = ask_backwards(graph, &shape, question, deadline_ns, answer);
    else
        status = ask_copying(graph, &shape, question, deadline_ns, answer);
    if (status != TUTTI_OK) exact_answer_release(answer);
    return status;
}

void exact_answer_release(struct exact_answer *answer)
{
    synth_steps_release(&answer->steps);
    *answer = (struct exact_answer){.verdict = EXACT_UNKNOWN};
}

/* Whether a needs fewer rounds per chunk than b. */
static bool is_better(const struct exact_point *a, const struct exact_point *b)
{
    return (int64_t)a->round_count * b->chunk_count < (int64_t)b->round_count * a->chunk_count;
}

/* By rounds for a chunk, and then by chunks. */
static int compare_points(const void *left, const void *right)
{
    const struct exact_point *const a = left, *const b = right;
    if (is_better(a, b)) return -1;
    if (is_better(b, a)) return 1;
    return a->chunk_count - b->chunk_count;
}

/* Lists the points with so many steps that are better than the best point so far, if there is
 * one. */
static int list_candidates(const struct exact_front_question *question, int step_count,
                           const struct exact_point *best, struct exact_point *candidates)
{
    int count = 0;
    for (int chunks = 1; chunks <= question->chunk_count_max; chunks++)
        for (int rounds = step_count; rounds <= question->round_count_max; rounds++) {
            const struct exact_point point = {chunks, step_count, rounds};
            if (best == NULL || is_better(&point, best)) candidates[count++] = point;
        }
    qsort(candidates, (size_t)count, sizeof *candidates, compare_points);
    return count;
}

/* A search for a front, and the best point of fewer steps. */
struct front {
    const struct synth_graph *graph;
    const struct exact_front_question *question;
    const struct exact_front_listener *listener;
    uint64_t deadline_ns;
    bool *is_certain;
    struct exact_point best;
    bool has_best;
};

static enum tutti_status ask_point(struct front *front, const struct exact_point *point,
                                   bool *is_found)
{
    const struct exact_question question = {.collective = front->question->collective,
                                            .root = front->question->root,
                                            .chunk_count = point->chunk_count,
                                            .step_count = point->step_count,
                                            .round_count = point->round_count,
                                            .cut_suffices = true};
    const uint64_t now = clock_now_ns();
    struct exact_answer answer;
    front->listener->asks(point, front->listener->context);
    TRY(exact_ask(front->graph, &question, now < front->deadline_ns ? front->deadline_ns - now : 0,
                  &answer));
    enum tutti_status status = TUTTI_OK;
    *is_found = answer.verdict == EXACT_FEASIBLE;
    if (*is_found) status = front->listener->finds(point, &answer.steps, front->listener->context);
    if (answer.verdict == EXACT_UNKNOWN) *front->is_certain = false;
    exact_answer_release(&answer);
    return status;
}

/* The first candidate that exists; *is_certain is cleared where one before it may. */
static enum tutti_status find_first(struct front *front, const struct exact_point *candidates,
                                    int candidate_count)
{
    const bool is_alltoall = front->question->collective == COLLECTIVE_ALLTOALL;
    for (int i = 0; i < candidate_count; i++) {
        bool is_found;
        if (is_alltoall && candidates[i].chunk_count % front->graph->rank_count != 0) continue;
        if (split_count(candidates[i].round_count, candidates[i].step_count) > SPLITS_MAX) {
            *front->is_certain = false; /* exact_ask would refuse it */
            continue;
        }
        TRY(ask_point(front, &candidates[i], &is_found));
        if (!is_found) continue;
        front->best = candidates[i];
        front->has_best = true;
        return TUTTI_OK;
    }
    return TUTTI_OK;
}

enum tutti_status exact_front(const struct synth_graph *graph,
                              const struct exact_front_question *question, uint64_t timeout_ns,
                              const struct exact_front_listener *listener, bool *is_certain)
{
    *is_certain = true;
    const int chunks = question->chunk_count_max, steps = question->step_count_max;
    const int rounds = question->round_count_max;
    if (question->collective == COLLECTIVE_ALLREDUCE || chunks < 1 || chunks > EXACT_FRONT_MAX ||
        steps < 1 || steps > EXACT_FRONT_MAX || rounds < 1 || rounds > EXACT_FRONT_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "a front of %s up to %d chunks, %d steps, %d rounds",
                         collective_name(question->collective), chunks, steps, rounds);
    struct exact_point *const candidates =
        malloc((size_t)chunks * (size_t)rounds * sizeof *candidates);
    if (candidates == NULL) return error_set(TUTTI_NO_MEMORY, "a front of %d chunks", chunks);
    const uint64_t now = clock_now_ns();
    struct front front = {.graph = graph,
                          .question = question,
                          .listener = listener,
                          .deadline_ns =
                              timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX,
                          .is_certain = is_certain};
    enum tutti_status status = TUTTI_OK;
    for (int step_count = 1; step_count <= steps && status == TUTTI_OK; step_count++) {
        const int count =
            list_candidates(question, step_count, front.has_best ? &front.best : NULL, candidates);
        status = find_first(&front, candidates, count);
    }
    free(candidates);
    return status;
}
