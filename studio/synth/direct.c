#include "studio/synth/direct.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "os/clock.h"
#include "plan/build.h"
#include "plan/verify.h"
#include "studio/synth/late.h"
#include "studio/synth/z3.h"

/* A block is named by its smallest rank. Level 0 has every rank by itself, level S all in one
 * block. */
enum { RANKS = DIRECT_RANKS_MAX, LEVELS = DIRECT_STEPS_MAX + 1 };

/* The facts about one chunk. Later the same places say whether these facts hold. */
struct sums {
    int same[LEVELS][RANKS][RANKS]; /* ranks p < q are in one block */
    int has[LEVELS][RANKS][RANKS];  /* rank v has the sum of the block of p */
    int gets[LEVELS][RANKS][RANKS]; /* ... at the end of the step, before it adds up */
    int *sent;                      /* (step, edge, p): the block of p goes over the edge */
    bool need[LEVELS][RANKS][RANKS];
};

struct asking {
    const struct synth_graph *graph;
    const struct direct_question *question;
    int n, step_count;
    struct sums *chunks;
    struct z3 *z3;
    int *work;
};

static int *sent(const struct asking *a, const struct sums *sums, int step, int edge, int p)
{
    return &sums->sent[((size_t)step * (size_t)a->graph->edge_count + (size_t)edge) * (size_t)a->n +
                       (size_t)p];
}

static void say1(const struct asking *a, int x)
{
    z3_any(a->z3, &x, 1);
}

static void say2(const struct asking *a, int x, int y)
{
    z3_any(a->z3, (const int[]){x, y}, 2);
}

static void say3(const struct asking *a, int x, int y, int z)
{
    z3_any(a->z3, (const int[]){x, y, z}, 3);
}

/* Blocks are an equivalence, and coarser from level to level. */
static void say_blocks(const struct asking *a, struct sums *sums, int level)
{
    const int n = a->n;
    for (int p = 0; p < n; p++)
        for (int q = p + 1; q < n; q++) {
            const int same = sums->same[level][p][q] = sums->same[level][q][p] = z3_new_fact(a->z3);
            if (level == 0) say1(a, -same);
            if (level == a->step_count) say1(a, same);
            if (level > 0) say2(a, -sums->same[level - 1][p][q], same);
        }
    for (int p = 0; p < n; p++)
        for (int q = 0; q < n; q++)
            for (int r = q + 1; r < n; r++)
                if (p != q && p != r)
                    say3(a, -sums->same[level][p][q], -sums->same[level][p][r],
                         sums->same[level][q][r]);
}

/* Says which blocks a rank may pass on, and what it needs for that. */
static void say_sent(const struct asking *a, struct sums *sums, int step)
{
    for (int i = 0; i < a->graph->edge_count; i++)
        for (int p = 0; p < a->n; p++) {
            const int fact = *sent(a, sums, step, i, p) = z3_new_fact(a->z3);
            say2(a, -fact, sums->has[step][a->graph->edges[i].from][p]);
            for (int q = 0; q < p; q++) say2(a, -fact, -sums->same[step][q][p]);
        }
}

/* A rank gets the block of p if it has the block, or if the block comes. If p is not the name of
 * its block, the rank gets the block of p only if it gets the block under its name. */
static void say_gets(const struct asking *a, struct sums *sums, int step, int v)
{
    for (int p = 0; p < a->n; p++) sums->gets[step][v][p] = z3_new_fact(a->z3);
    for (int p = 0; p < a->n; p++) {
        int count = 0;
        a->work[count++] = -sums->gets[step][v][p];
        a->work[count++] = sums->has[step][v][p];
        for (int q = 0; q < p; q++) {
            a->work[count++] = sums->same[step][q][p];
            say3(a, -sums->same[step][q][p], -sums->gets[step][v][p], sums->gets[step][v][q]);
        }
        for (int i = 0; i < a->graph->edge_count; i++)
            if (a->graph->edges[i].to == v) a->work[count++] = *sent(a, sums, step, i, p);
        z3_any(a->z3, a->work, count);
    }
}

/* A rank has a larger block if it gets all blocks of which the larger block consists. */
static void say_adds(const struct asking *a, struct sums *sums, int step, int v)
{
    for (int p = 0; p < a->n; p++) {
        const int has = sums->has[step + 1][v][p];
        say2(a, -has, sums->gets[step][v][p]);
        for (int q = 0; q < a->n; q++)
            if (q != p) say3(a, -has, -sums->same[step + 1][p][q], sums->gets[step][v][q]);
    }
}

static void say_chunk(const struct asking *a, struct sums *sums)
{
    for (int level = 0; level <= a->step_count; level++) {
        say_blocks(a, sums, level);
        for (int v = 0; v < a->n; v++)
            for (int p = 0; p < a->n; p++) {
                sums->has[level][v][p] = z3_new_fact(a->z3);
                if (level == 0) say1(a, v == p ? sums->has[0][v][p] : -sums->has[0][v][p]);
            }
    }
    for (int step = 0; step < a->step_count; step++) {
        say_sent(a, sums, step);
        for (int v = 0; v < a->n; v++) {
            say_gets(a, sums, step, v);
            say_adds(a, sums, step, v);
        }
    }
    for (int v = 0; v < a->n; v++) say1(a, sums->has[a->step_count][v][0]);
}

static void say_room(const struct asking *a)
{
    for (int step = 0; step < a->step_count; step++)
        for (int i = 0; i < a->graph->edge_count; i++) {
            const int64_t room = (int64_t)a->graph->edges[i].capacity * a->question->rounds_per_step;
            int count = 0;
            for (int c = 0; c < a->question->chunk_count; c++)
                for (int p = 0; p < a->n; p++)
                    a->work[count++] = *sent(a, &a->chunks[c], step, i, p);
            if (room < count) z3_at_most(a->z3, a->work, count, (int)room);
        }
}

static void read_facts(const struct asking *a, struct sums *sums)
{
    for (int level = 0; level <= a->step_count; level++)
        for (int p = 0; p < a->n; p++)
            for (int q = 0; q < a->n; q++) {
                sums->same[level][p][q] = p == q || z3_holds(a->z3, sums->same[level][p][q]);
                sums->has[level][p][q] = z3_holds(a->z3, sums->has[level][p][q]);
            }
    for (int step = 0; step < a->step_count; step++)
        for (int i = 0; i < a->graph->edge_count; i++)
            for (int p = 0; p < a->n; p++) {
                int *const fact = sent(a, sums, step, i, p);
                *fact = z3_holds(a->z3, *fact);
            }
}

static bool names_block(const struct sums *sums, int level, int p)
{
    for (int q = 0; q < p; q++)
        if (sums->same[level][q][p]) return false;
    return true;
}

/* The edge by which the block comes. Copies of it over other edges are not needed. */
static int edge_of(const struct asking *a, const struct sums *sums, int step, int v, int p)
{
    for (int i = 0; i < a->graph->edge_count; i++)
        if (a->graph->edges[i].to == v && *sent(a, sums, step, i, p) != 0) return i;
    return -1;
}

/* From the end on: what each rank needs to have, and to be sent; the rest is struck out. */
static void keep_needed(const struct asking *a, struct sums *sums)
{
    memset(sums->need, 0, sizeof sums->need);
    for (int v = 0; v < a->n; v++) sums->need[a->step_count][v][0] = true;
    for (int step = a->step_count - 1; step >= 0; step--)
        for (int v = 0; v < a->n; v++)
            for (int p = 0; p < a->n; p++) {
                bool needed = false;
                for (int q = 0; q < a->n && names_block(sums, step, p); q++)
                    needed |= sums->need[step + 1][v][q] && sums->same[step + 1][q][p];
                const int edge =
                    needed && !sums->has[step][v][p] ? edge_of(a, sums, step, v, p) : -1;
                for (int i = 0; i < a->graph->edge_count; i++)
                    if (a->graph->edges[i].to == v && i != edge) *sent(a, sums, step, i, p) = 0;
                if (edge >= 0)
                    sums->need[step][a->graph->edges[edge].from][p] = true;
                else if (needed)
                    sums->need[step][v][p] = true;
            }
}

/* The place of a block's sum at a rank, and the step that put it there. */
struct held {
    struct plan_location place;
    uint32_t step;
    bool has_step;
};

enum { SENDING_LANES = 8, LANES = 16 };

struct writing {
    const struct asking *asking;
    struct plan_builder *builder;
    int rank;
    int lanes[LANES];
    struct held held[DIRECT_CHUNKS_MAX][RANKS]; /* by the name of the block */
};

/* Lanes keep one order, by steps, edges and chunks, and so never wait in a circle. */
static void enter_lane(struct writing *w, int lane)
{
    if (w->lanes[lane] < 0)
        w->lanes[lane] = (int)plan_lane(w->builder);
    else
        plan_lane_again(w->builder, (uint32_t)w->lanes[lane]);
}

static void read_held(struct writing *w, const struct held *held)
{
    plan_read(w->builder, held->place.buffer, held->place.first);
    if (held->has_step) plan_after(w->builder, held->step);
}

static bool is_all(const struct asking *a, const struct sums *sums, int level, int p)
{
    for (int q = 0; q < a->n; q++)
        if (!sums->same[level][p][q]) return false;
    return true;
}

static struct plan_location place_for(struct writing *w, int chunk, bool is_whole)
{
    if (is_whole) return (struct plan_location){PLAN_OUTPUT, (uint32_t)chunk};
    return (struct plan_location){PLAN_SCRATCH, plan_scratch(w->builder, (uint32_t)chunk)};
}

static void write_message(struct writing *w, int step, int edge, int chunk, int p)
{
    const struct asking *const a = w->asking;
    const struct synth_edge *const e = &a->graph->edges[edge];
    struct held *const held = &w->held[chunk][p];
    if (e->from == w->rank) {
        enter_lane(w, e->to % SENDING_LANES);
        plan_begin(w->builder, 1);
        read_held(w, held);
        plan_send(w->builder, e->to);
        plan_end(w->builder);
    } else if (e->to == w->rank) {
        const struct plan_location place =
            place_for(w, chunk, is_all(a, &a->chunks[chunk], step, p));
        enter_lane(w, SENDING_LANES + e->from % (LANES - SENDING_LANES));
        *held = (struct held){
            place, plan_receive_to(w->builder, e->from, place.buffer, place.first, 1), true};
    }
}

/* Writes the sum of the larger block of p, from the sums of the blocks of the level below, in the
 * order of their names. */
static void write_sum(struct writing *w, int level, int chunk, int p)
{
    const struct asking *const a = w->asking;
    const struct sums *const sums = &a->chunks[chunk];
    int part_count = 0;
    for (int q = p; q < a->n; q++)
        part_count += sums->same[level][p][q] && names_block(sums, level - 1, q);
    if (part_count == 1) return;
    const bool is_whole = is_all(a, sums, level, p);
    const struct plan_location place = place_for(w, chunk, is_whole);
    enter_lane(w, 0);
    plan_begin(w->builder, 1);
    for (int q = p; q < a->n; q++)
        if (sums->same[level][p][q] && names_block(sums, level - 1, q))
            read_held(w, &w->held[chunk][q]);
    plan_write(w->builder, place.buffer, place.first);
    if (is_whole) plan_final(w->builder);
    w->held[chunk][p] = (struct held){place, plan_end(w->builder), true};
}

/* In place the result is stored where peers may still read the input from: they get a copy. */
static void write_rank(struct writing *w)
{
    const struct asking *const a = w->asking;
    const int chunk_count = a->question->chunk_count;
    plan_parts(w->builder, (uint32_t)chunk_count);
    for (int c = 0; c < chunk_count; c++) {
        struct held *const held = &w->held[c][w->rank];
        *held = (struct held){.place = {PLAN_INPUT, (uint32_t)c}};
        if (!a->question->in_place) continue;
        const struct plan_location place = place_for(w, c, false);
        enter_lane(w, 0);
        const uint32_t step =
            plan_copy(w->builder, PLAN_INPUT, (uint32_t)c, place.buffer, place.first, 1);
        *held = (struct held){place, step, true};
    }
    for (int step = 0; step < a->step_count; step++) {
        for (int i = 0; i < a->graph->edge_count; i++)
            for (int c = 0; c < chunk_count; c++)
                for (int p = 0; p < a->n; p++)
                    if (*sent(a, &a->chunks[c], step, i, p) != 0) write_message(w, step, i, c, p);
        for (int c = 0; c < chunk_count; c++)
            for (int p = 0; p < a->n; p++)
                if (a->chunks[c].need[step + 1][w->rank][p]) write_sum(w, step + 1, c, p);
    }
}

static enum tutti_status make_rank(const struct asking *a, struct writing *w, int rank,
                                   struct rank_plan **rank_plan)
{
    const char *message = NULL;
    *w = (struct writing){.asking = a, .rank = rank};
    memset(w->lanes, -1, sizeof w->lanes);
    w->builder = plan_builder_create(COLLECTIVE_ALLREDUCE, a->n, 0, rank);
    if (w->builder == NULL) return error_set(TUTTI_NO_MEMORY, "the plan of rank %d", rank);
    write_rank(w);
    const enum tutti_status status = plan_builder_finish(w->builder, rank_plan, &message);
    plan_builder_free(w->builder);
    return status == TUTTI_OK ? status
                              : error_set(status, "no plan for rank %d: %s", rank,
                                          message != NULL ? message : "unknown");
}

static enum tutti_status prove(const struct plan *plan, bool in_place)
{
    struct verify_report report;
    switch (plan_verify(plan, &(struct verify_options){.in_place = in_place}, &report)) {
    case VERIFY_PROVEN: return TUTTI_OK;
    case VERIFY_NO_MEMORY:
    case VERIFY_TOO_COSTLY: return error_set(TUTTI_NO_MEMORY, "the proof of a plan");
    default: return error_set(TUTTI_INTERNAL, "a direct allreduce is wrong: %s", report.message);
    }
}

static enum tutti_status make_ranks(const struct asking *a, struct writing *w, struct plan *plan)
{
    for (int rank = 0; rank < a->n; rank++) TRY(make_rank(a, w, rank, &plan->ranks[rank]));
    TRY(prove(plan, false));
    return a->question->in_place ? prove(plan, true) : TUTTI_OK;
}

static enum tutti_status make_plan(const struct asking *a, struct plan **plan)
{
    struct plan *const made = calloc(1, sizeof *made);
    struct writing *const w = malloc(sizeof *w);
    if (made != NULL) {
        made->shape =
            (struct plan_shape){COLLECTIVE_ALLREDUCE, a->n, 0, (uint32_t)a->question->chunk_count};
        made->ranks = calloc((size_t)a->n, sizeof *made->ranks);
    }
    const bool has_memory = made != NULL && w != NULL && made->ranks != NULL;
    const enum tutti_status status =
        has_memory ? make_ranks(a, w, made) : error_set(TUTTI_NO_MEMORY, "a plan");
    free(w);
    if (status == TUTTI_OK)
        *plan = made;
    else
        plan_free(made);
    return status;
}

static enum tutti_status ask(struct asking *a, uint64_t deadline_ns, struct plan **plan)
{
    enum z3_answer answer = Z3_UNDECIDED;
    for (int c = 0; c < a->question->chunk_count && !synth_is_late(deadline_ns); c++)
        say_chunk(a, &a->chunks[c]);
    if (!synth_is_late(deadline_ns)) say_room(a);
    const uint64_t now = clock_now_ns();
    if (now < deadline_ns) TRY(z3_solve(a->z3, deadline_ns - now, &answer));
    if (answer == Z3_UNDECIDED)
        return error_set(TUTTI_TIMEOUT, "no direct allreduce was found in time");
    if (answer == Z3_IMPOSSIBLE) return TUTTI_OK;
    for (int c = 0; c < a->question->chunk_count; c++) {
        read_facts(a, &a->chunks[c]);
        keep_needed(a, &a->chunks[c]);
    }
    return make_plan(a, plan);
}

static enum tutti_status asking_init(struct asking *a)
{
    const size_t chunks = (size_t)a->question->chunk_count, n = (size_t)a->n;
    const size_t edges = (size_t)a->graph->edge_count, steps = (size_t)a->step_count;
    a->chunks = calloc(chunks, sizeof *a->chunks);
    a->work = calloc(chunks * n + edges + n + 2, sizeof *a->work);
    if (a->chunks == NULL || a->work == NULL)
        return error_set(TUTTI_NO_MEMORY, "an allreduce of %zu chunks", chunks);
    for (size_t c = 0; c < chunks; c++) {
        a->chunks[c].sent = calloc(steps * edges * n + 1, sizeof(int));
        if (a->chunks[c].sent == NULL)
            return error_set(TUTTI_NO_MEMORY, "an allreduce of %zu chunks", chunks);
    }
    return z3_open(&a->z3);
}

static void asking_release(struct asking *a)
{
    z3_close(a->z3);
    for (int c = 0; a->chunks != NULL && c < a->question->chunk_count; c++) free(a->chunks[c].sent);
    free(a->chunks);
    free(a->work);
}

enum tutti_status direct_allreduce(const struct synth_graph *graph,
                                   const struct direct_question *question, uint64_t timeout_ns,
                                   struct plan **plan)
{
    *plan = NULL;
    if (graph->node_count != graph->rank_count || graph->rank_count < 2 ||
        graph->rank_count > DIRECT_RANKS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "a direct allreduce is for graphs of 2 to %d ranks, without switches",
                         DIRECT_RANKS_MAX);
    if (question->chunk_count < 1 || question->chunk_count > DIRECT_CHUNKS_MAX ||
        question->step_count < 1 || question->step_count > DIRECT_STEPS_MAX ||
        question->rounds_per_step < 1)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "a direct allreduce of %d chunks in %d steps of %d rounds",
                         question->chunk_count, question->step_count, question->rounds_per_step);
    struct asking a = {.graph = graph,
                       .question = question,
                       .n = graph->rank_count,
                       .step_count = question->step_count};
    const uint64_t now = clock_now_ns();
    const uint64_t deadline_ns = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    enum tutti_status status = asking_init(&a);
    if (status == TUTTI_OK) status = ask(&a, deadline_ns, plan);
    asking_release(&a);
    return status;
}
