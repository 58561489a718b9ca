/* steps_check.c - runs a schedule on sets of contributions: knows the collective and the graph, and
 * nothing of how schedules are made. */
#include "studio/synth/steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* The contributions to one chunk that each rank holds, with a bit for each contributing rank (ranks
 * x words). */
struct holdings {
    int rank_count, words;
    uint64_t *now, *next;
    bool *sent; /* the rank has passed its sum on: it must not do so again */
};

static uint64_t *set_of(uint64_t *sets, const struct holdings *holdings, int rank)
{
    return sets + (size_t)rank * (size_t)holdings->words;
}

static bool is_empty(const uint64_t *set, int words)
{
    for (int i = 0; i < words; i++)
        if (set[i] != 0) return false;
    return true;
}

static enum tutti_status wrong(const struct synth_transfer *t, const char *what)
{
    return error_set(TUTTI_INVALID_OPTIONS, "step %d, chunk %d from %d to %d: %s", t->step,
                     t->chunk, t->from, t->to, what);
}

static enum tutti_status move(struct holdings *holdings, const struct synth_transfer *t,
                              bool reduces)
{
    const uint64_t *const from = set_of(holdings->now, holdings, t->from);
    uint64_t *const to = set_of(holdings->next, holdings, t->to);
    const int words = holdings->words;
    if (is_empty(from, words)) return wrong(t, "the sender has nothing of it yet");
    if (!reduces) {
        memcpy(to, from, (size_t)words * sizeof *to);
        return TUTTI_OK;
    }
    if (holdings->sent[t->from]) return wrong(t, "the sender has sent its sum already");
    if (holdings->sent[t->to]) return wrong(t, "the receiver has sent its sum already");
    holdings->sent[t->from] = true;
    for (int i = 0; i < words; i++) {
        if ((to[i] & from[i]) != 0) return wrong(t, "a contribution is counted twice");
        to[i] |= from[i];
    }
    return TUTTI_OK;
}

static void begin_chunk(struct holdings *holdings, const struct plan_shape *shape, int chunk)
{
    const size_t words = (size_t)holdings->rank_count * (size_t)holdings->words;
    memset(holdings->now, 0, words * sizeof *holdings->now);
    memset(holdings->sent, 0, (size_t)holdings->rank_count * sizeof *holdings->sent);
    const int source = synth_chunk_source(shape, chunk);
    for (int r = 0; r < holdings->rank_count; r++)
        if (source < 0 || source == r)
            set_of(holdings->now, holdings, r)[r / 64] |= (uint64_t)1 << r % 64;
    memcpy(holdings->next, holdings->now, words * sizeof *holdings->now);
}

static enum tutti_status end_chunk(struct holdings *holdings, const struct plan_shape *shape,
                                   int chunk)
{
    const int source = synth_chunk_source(shape, chunk);
    for (int r = 0; r < holdings->rank_count; r++) {
        if (!synth_chunk_wanted(shape, chunk, r)) continue;
        const uint64_t *const set = set_of(holdings->now, holdings, r);
        for (int from = 0; from < holdings->rank_count; from++)
            if ((source < 0 || source == from) && (set[from / 64] >> from % 64 & 1) == 0)
                return error_set(TUTTI_INVALID_OPTIONS,
                                 "rank %d lacks chunk %d of rank %d at the end", r, chunk, from);
    }
    return TUTTI_OK;
}

/* `of_chunk` are indexes of its transfers, in their order. */
static enum tutti_status run_chunk(struct holdings *holdings, const struct synth_steps *steps,
                                   int chunk, const int *of_chunk, int count)
{
    begin_chunk(holdings, &steps->shape, chunk);
    const size_t bytes =
        (size_t)holdings->rank_count * (size_t)holdings->words * sizeof *holdings->now;
    for (int i = 0; i < count; i++) {
        const struct synth_transfer *const t = &steps->transfers[of_chunk[i]];
        if (i > 0 && t->step != steps->transfers[of_chunk[i - 1]].step)
            memcpy(holdings->now, holdings->next, bytes);
        const bool reduces = t->step < steps->reduce_step_count;
        if (!reduces && i > 0 && steps->transfers[of_chunk[i - 1]].step < steps->reduce_step_count)
            memset(holdings->sent, 0, (size_t)holdings->rank_count * sizeof *holdings->sent);
        TRY(move(holdings, t, reduces));
    }
    memcpy(holdings->now, holdings->next, bytes);
    return end_chunk(holdings, &steps->shape, chunk);
}

static enum tutti_status check_form(const struct synth_steps *steps, const struct synth_graph *graph)
{
    if (graph->rank_count != steps->shape.rank_count)
        return error_set(TUTTI_INVALID_OPTIONS, "a schedule of %d ranks for a graph of %d",
                         steps->shape.rank_count, graph->rank_count);
    const int chunk_count = synth_chunk_count(&steps->shape);
    for (int i = 0; i < steps->transfer_count; i++) {
        const struct synth_transfer *const t = &steps->transfers[i];
        if (t->step < 0 || t->step >= steps->step_count || t->chunk < 0 ||
            t->chunk >= chunk_count || (i > 0 && t->step < t[-1].step))
            return wrong(t, "no such step or chunk, or out of order");
        if (t->from < 0 || t->to < 0 || t->from >= graph->rank_count ||
            t->to >= graph->rank_count || synth_graph_find(graph, t->from, t->to) == NULL)
            return wrong(t, "there is no such edge");
    }
    return TUTTI_OK;
}

/* How much goes over each edge in each step. */
static enum tutti_status check_room(const struct synth_steps *steps, const struct synth_graph *graph)
{
    int64_t *const used = calloc((size_t)graph->edge_count + 1, sizeof *used);
    if (used == NULL) return error_set(TUTTI_NO_MEMORY, "a check of %d edges", graph->edge_count);
    enum tutti_status status = TUTTI_OK;
    for (int i = 0; i < steps->transfer_count && status == TUTTI_OK; i++) {
        const struct synth_transfer *const t = &steps->transfers[i];
        if (i > 0 && t->step != t[-1].step)
            memset(used, 0, (size_t)graph->edge_count * sizeof *used);
        const struct synth_edge *const edge = synth_graph_find(graph, t->from, t->to);
        const int64_t room = (int64_t)edge->capacity * steps->rounds[t->step];
        if (++used[edge - graph->edges] > room) status = wrong(t, "the edge is full in this step");
    }
    free(used);
    return status;
}

/* Indexes of transfers, chunk after chunk; first[c] is where chunk c's begin. */
static void sort_by_chunk(const struct synth_steps *steps, int chunk_count, int *first, int *sorted)
{
    memset(first, 0, ((size_t)chunk_count + 1) * sizeof *first);
    for (int i = 0; i < steps->transfer_count; i++) first[steps->transfers[i].chunk + 1]++;
    for (int c = 0; c < chunk_count; c++) first[c + 1] += first[c];
    for (int i = 0; i < steps->transfer_count; i++) sorted[first[steps->transfers[i].chunk]++] = i;
    for (int c = chunk_count; c > 0; c--) first[c] = first[c - 1];
    first[0] = 0;
}

static enum tutti_status check_chunks(const struct synth_steps *steps)
{
    const int n = steps->shape.rank_count, chunk_count = synth_chunk_count(&steps->shape);
    struct holdings holdings = {.rank_count = n, .words = (n + 63) / 64};
    const size_t words = (size_t)n * (size_t)holdings.words;
    uint64_t *const sets = calloc(2 * words, sizeof *sets);
    holdings.sent = calloc((size_t)n, sizeof *holdings.sent);
    int *const first = calloc((size_t)chunk_count + 1, sizeof *first);
    int *const sorted = calloc((size_t)steps->transfer_count + 1, sizeof *sorted);
    enum tutti_status status = TUTTI_OK;
    if (sets == NULL || holdings.sent == NULL || first == NULL || sorted == NULL) {
        status = error_set(TUTTI_NO_MEMORY, "a check of %d chunks", chunk_count);
    } else {
        holdings.now = sets;
        holdings.next = sets + words;
        sort_by_chunk(steps, chunk_count, first, sorted);
        for (int c = 0; c < chunk_count && status == TUTTI_OK; c++)
            status = run_chunk(&holdings, steps, c, sorted + first[c], first[c + 1] - first[c]);
    }
    free(sets);
    free(holdings.sent);
    free(first);
    free(sorted);
    return status;
}

enum tutti_status synth_steps_check(const struct synth_steps *steps, const struct synth_graph *graph)
{
    TRY(check_form(steps, graph));
    int64_t rounds = 0;
    for (int i = 0; i < steps->step_count; i++) {
        if (steps->rounds[i] < 1 || steps->rounds[i] > SYNTH_ROUNDS_MAX)
            return error_set(TUTTI_INVALID_OPTIONS, "step %d has %d rounds", i, steps->rounds[i]);
        rounds += steps->rounds[i];
    }
    if (rounds > SYNTH_ROUNDS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "a schedule of %lld rounds", (long long)rounds);
    TRY(check_room(steps, graph));
    return check_chunks(steps);
}
