#include "measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "os/clock.h"

/* If several candidates are equally fast, one of them always seems to be a little faster. */
static const double gain_min = 0.02;

enum { ROUNDS = 9, WARM_CALLS = 3, CALLS_MAX = 2000, ROOT = 0 };

struct bench {
    struct tutti_comm *comm;
    const struct tune_question *question;
    const struct candidates *candidates;
    void *send, *recv;
    size_t count; /* elements of a block */
    double times_ns[ROUNDS][CANDIDATES_MAX];
};

/* -------------------------------------------------------------------------------------- buffers */

static size_t send_blocks(enum collective collective, int rank_count)
{
    switch (collective) {
    case COLLECTIVE_BARRIER: return 0;
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL: return (size_t)rank_count;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_COUNT: break;
    }
    return 1;
}

static size_t recv_blocks(enum collective collective, int rank_count)
{
    switch (collective) {
    case COLLECTIVE_BARRIER: return 0;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLTOALL: return (size_t)rank_count;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_COUNT: break;
    }
    return 1;
}

size_t measure_buffer_bytes(const struct tune_question *question, int rank_count)
{
    const size_t blocks = send_blocks(question->collective, rank_count) +
                          recv_blocks(question->collective, rank_count);
    return question->bytes > SIZE_MAX / (blocks + 1) ? SIZE_MAX : question->bytes * blocks;
}

/* Zeros, whose sums stay zeros, in memory that is there. */
static enum tutti_status allocate(const struct bench *bench, size_t bytes, void **memory)
{
    *memory = NULL;
    if (bytes == 0) return TUTTI_OK;
    if (bench->question->is_mapped)
        TRY(tutti_mem_alloc(bytes, memory));
    else if ((*memory = malloc(bytes)) == NULL)
        return error_set(TUTTI_NO_MEMORY, "out of memory: %zu bytes", bytes);
    memset(*memory, 0, bytes);
    return TUTTI_OK;
}

static void release(const struct bench *bench, void *memory)
{
    if (bench->question->is_mapped)
        tutti_mem_free(memory);
    else
        free(memory);
}

/* ---------------------------------------------------------------------------------------- calls */

static enum tutti_status call(const struct bench *b, const struct tutti_call_options *options)
{
    const enum tutti_dtype dtype = b->question->dtype;
    switch (b->question->collective) {
    case COLLECTIVE_ALLREDUCE:
        return tutti_allreduce_with(b->send, b->recv, b->count, dtype, TUTTI_SUM, options, b->comm);
    case COLLECTIVE_REDUCE:
        return tutti_reduce_with(b->send, b->recv, b->count, dtype, TUTTI_SUM, ROOT, options,
                                 b->comm);
    case COLLECTIVE_BROADCAST:
        return tutti_broadcast_with(b->send, b->recv, b->count, dtype, ROOT, options, b->comm);
    case COLLECTIVE_GATHER:
        return tutti_gather_with(b->send, b->recv, b->count, dtype, ROOT, options, b->comm);
    case COLLECTIVE_SCATTER:
        return tutti_scatter_with(b->send, b->recv, b->count, dtype, ROOT, options, b->comm);
    case COLLECTIVE_ALLGATHER:
        return tutti_allgather_with(b->send, b->recv, b->count, dtype, options, b->comm);
    case COLLECTIVE_REDUCE_SCATTER:
        return tutti_reduce_scatter_with(b->send, b->recv, b->count, dtype, TUTTI_SUM, options,
                                         b->comm);
    case COLLECTIVE_ALLTOALL:
        return tutti_alltoall_with(b->send, b->recv, b->count, dtype, options, b->comm);
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return tutti_barrier_with(options, b->comm);
}

/* How long a call of a candidate takes this rank, on average. */
static enum tutti_status time_calls(const struct bench *bench, const struct candidate *candidate,
                                    int calls, double *time_ns)
{
    const bool meets = collective_is_rooted(bench->question->collective);
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    if (!candidate->only_hosts) options.algorithm = candidate->algorithm->name;
    uint64_t sum_ns = 0;
    TRY(tutti_barrier(bench->comm));
    if (meets) {
        for (int i = 0; i < calls; i++) {
            TRY(tutti_barrier(bench->comm));
            const uint64_t begin_ns = clock_now_ns();
            TRY(call(bench, &options));
            sum_ns += clock_now_ns() - begin_ns;
        }
    } else {
        const uint64_t begin_ns = clock_now_ns();
        for (int i = 0; i < calls; i++) TRY(call(bench, &options));
        sum_ns = clock_now_ns() - begin_ns;
    }
    *time_ns = (double)sum_ns / calls;
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- rounds */

/* An order of all candidates, another one each time. */
static void shuffle(uint64_t *chance, int order[CANDIDATES_MAX], int count)
{
    for (int i = 0; i < count; i++) {
        *chance = hash_take(*chance, (uint64_t)i);
        const int at = (int)(*chance % (uint64_t)(i + 1));
        order[i] = order[at];
        order[at] = i;
    }
}

/* The first calls plan and bind; a call of the slowest candidate says how many fit into the
 * time. */
static enum tutti_status warm_up(const struct bench *bench, double seconds,
                                 int calls[CANDIDATES_MAX])
{
    const int count = bench->candidates->count;
    double times_ns[CANDIDATES_MAX] = {0};
    for (int i = 0; i < count; i++)
        for (int again = 0; again < 2; again++)
            TRY(time_calls(bench, &bench->candidates->of[i], again == 0 ? 1 : WARM_CALLS,
                           &times_ns[i]));
    TRY(tutti_allreduce(times_ns, times_ns, (size_t)count, TUTTI_FLOAT64, TUTTI_MAX, bench->comm));
    for (int i = 0; i < count; i++) {
        const double fit = seconds * 1e9 / ROUNDS / count / (times_ns[i] + 1);
        calls[i] = fit < 1 ? 1 : fit > CALLS_MAX ? CALLS_MAX : (int)fit;
    }
    return TUTTI_OK;
}

static enum tutti_status run_rounds(struct bench *bench, const int calls[CANDIDATES_MAX])
{
    const int count = bench->candidates->count;
    uint64_t chance = hash_take(bench->question->collective, bench->question->bytes);
    int order[CANDIDATES_MAX] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        shuffle(&chance, order, count);
        for (int i = 0; i < count; i++)
            TRY(time_calls(bench, &bench->candidates->of[order[i]], calls[order[i]],
                           &bench->times_ns[round][order[i]]));
    }
    return tutti_allreduce(bench->times_ns, bench->times_ns, (size_t)ROUNDS * CANDIDATES_MAX,
                           TUTTI_FLOAT64, TUTTI_MAX, bench->comm);
}

static int by_size(const void *a, const void *b)
{
    const double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static struct timing sum_up(const struct bench *bench, int candidate)
{
    double times_ns[ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        times_ns[round] = bench->times_ns[round][candidate];
    qsort(times_ns, ROUNDS, sizeof *times_ns, by_size);
    return (struct timing){times_ns[ROUNDS / 2],
                           times_ns[ROUNDS - 1 - ROUNDS / 4] - times_ns[ROUNDS / 4]};
}

static enum tutti_status measure(struct bench *bench, double seconds)
{
    const int rank_count = tutti_comm_size(bench->comm);
    const struct tune_question *question = bench->question;
    int calls[CANDIDATES_MAX];
    TRY(allocate(bench, send_blocks(question->collective, rank_count) * question->bytes,
                 &bench->send));
    TRY(allocate(bench, recv_blocks(question->collective, rank_count) * question->bytes,
                 &bench->recv));
    TRY(warm_up(bench, seconds, calls));
    TRY(run_rounds(bench, calls));
    return tutti_barrier(bench->comm); /* nobody reads these buffers any more */
}

enum tutti_status measure_candidates(struct tutti_comm *comm, const struct tune_question *question,
                                     const struct candidates *candidates, double seconds,
                                     struct timing timings[CANDIDATES_MAX])
{
    struct bench bench = {.comm = comm,
                          .question = question,
                          .candidates = candidates,
                          .count = question->bytes / dtype_size(question->dtype)};
    const enum tutti_status status = measure(&bench, seconds);
    for (int i = 0; i < candidates->count; i++) timings[i] = sum_up(&bench, i);
    /* After a failure others may still read: the process ends soon. */
    if (status == TUTTI_OK) {
        release(&bench, bench.send);
        release(&bench, bench.recv);
    }
    return status;
}

int measure_winner(const struct timing *timings, int count)
{
    int winner = 0;
    for (int i = 1; i < count; i++)
        if (timings[i].median_ns < timings[winner].median_ns) winner = i;
    const double gain_ns = timings[0].median_ns - timings[winner].median_ns;
    const bool is_clear = gain_ns > timings[0].spread_ns && gain_ns > timings[winner].spread_ns &&
                          gain_ns >= gain_min * timings[0].median_ns;
    return is_clear ? winner : 0;
}
