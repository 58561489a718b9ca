#include "greedy.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "studio/synth/bound.h"
#include "studio/synth/greedy.h"
#include "studio/synth/steps.h"

enum { CHUNKS_PER_BLOCK = 4 };

/* Into how many parts a block is cut; *is_even is false where the chunks do not come out even. */
static struct plan_shape shape_of(const struct job *job, bool *is_even)
{
    const struct options *options = job->options;
    const int n = job->graph.rank_count;
    const bool is_alltoall = options->collective == COLLECTIVE_ALLTOALL;
    const bool is_divided = is_alltoall || options->collective == COLLECTIVE_ALLREDUCE;
    int chunks = options->chunks;
    if (chunks == 0)
        chunks = is_alltoall ? n : is_divided ? CHUNKS_PER_BLOCK * n : CHUNKS_PER_BLOCK;
    *is_even = !is_divided || chunks % n == 0;
    return (struct plan_shape){options->collective, n, options->root,
                               (uint32_t)(is_alltoall ? chunks / n : chunks)};
}

static double block_bytes(const struct job *job)
{
    const double bytes = job->options->size_bytes;
    switch (job->options->collective) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_REDUCE: return bytes;
    default: return bytes / job->graph.rank_count;
    }
}

/* ---------------------------------------------------------------------------------------- bound */

/* The narrowest rank of a gather, scatter or alltoall: units that lead into it, or out of it. */
static struct synth_ratio port_bound(const struct synth_graph *graph, enum collective collective,
                                     int root)
{
    struct synth_ratio most = {0, 1};
    for (int rank = 0; rank < graph->rank_count; rank++) {
        int64_t into = 0, out = 0;
        for (int i = 0; i < graph->edge_count; i++) {
            if (graph->edges[i].to == rank) into += graph->edges[i].capacity;
            if (graph->edges[i].from == rank) out += graph->edges[i].capacity;
        }
        const bool is_root = rank == root;
        const struct synth_ratio all_in = {graph->rank_count - 1, into};
        const struct synth_ratio all_out = {graph->rank_count - 1, out};
        const bool gathers =
            collective == COLLECTIVE_GATHER ? is_root : collective == COLLECTIVE_ALLTOALL;
        const bool scatters =
            collective == COLLECTIVE_SCATTER ? is_root : collective == COLLECTIVE_ALLTOALL;
        if (gathers && synth_ratio_compare(all_in, most) > 0) most = all_in;
        if (scatters && synth_ratio_compare(all_out, most) > 0) most = all_out;
    }
    return most;
}

/* Across a cut, an alltoall has a block from each rank before it to each one behind it: across that
 * which binds an allgather, and across those between halves of the ranks. */
static enum tutti_status alltoall_bound(const struct job *job, struct synth_ratio *ratio)
{
    const struct synth_graph *const graph = &job->graph;
    struct synth_bound found;
    int before = 0;
    int64_t capacity = 0;
    TRY(synth_bound_find(graph, SYNTH_EVERY_RANK, job->deadline_ns, &found));
    for (int rank = 0; rank < graph->rank_count; rank++) before += found.is_before_cut[rank];
    for (int i = 0; i < graph->edge_count; i++) {
        const struct synth_edge *const edge = &graph->edges[i];
        if (found.is_before_cut[edge->from] && !found.is_before_cut[edge->to])
            capacity += edge->capacity;
    }
    synth_bound_release(&found);
    const struct synth_ratio across = {(int64_t)before * (graph->rank_count - before), capacity};
    struct synth_ratio halves;
    TRY(synth_bound_halves(graph, job->deadline_ns, &halves));
    if (synth_ratio_compare(across, *ratio) > 0) *ratio = across;
    if (synth_ratio_compare(halves, *ratio) > 0) *ratio = halves;
    return TUTTI_OK;
}

/* In units of a block's time. */
static enum tutti_status find_bound(const struct job *job, double *blocks)
{
    const enum collective collective = job->options->collective;
    struct synth_ratio bound;
    bool known;
    if (collective == COLLECTIVE_ALLREDUCE) {
        struct synth_ratio gathering;
        TRY(job_bound(job, COLLECTIVE_REDUCE_SCATTER, &known, &bound));
        TRY(job_bound(job, COLLECTIVE_ALLGATHER, &known, &gathering));
        *blocks = (synth_ratio_value(bound) + synth_ratio_value(gathering)) / job->graph.rank_count;
        return TUTTI_OK;
    }
    TRY(job_bound(job, collective, &known, &bound));
    if (!known) bound = port_bound(&job->graph, collective, job->options->root);
    if (collective == COLLECTIVE_ALLTOALL) TRY(alltoall_bound(job, &bound));
    *blocks = synth_ratio_value(bound);
    return TUTTI_OK;
}

static const char *bound_meaning(enum collective collective)
{
    switch (collective) {
    case COLLECTIVE_ALLREDUCE: return "of a reduce_scatter and an allgather";
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER: return "of the root's links";
    case COLLECTIVE_ALLTOALL: return "of the cuts looked at";
    default: return "of all links";
    }
}

/* ----------------------------------------------------------------------------------------- plan */

static enum tutti_status write_steps(const struct job *job, const struct synth_steps *steps)
{
    struct plan *plan;
    job_show(job, "proving the plan");
    TRY(synth_steps_plan(steps, true, job->deadline_ns, &plan));
    const enum tutti_status status = job_write(job, job->options->output, plan);
    plan_free(plan);
    return status;
}

static void report(const struct job *job, const struct plan_shape *shape, double duration_ns,
                   double bound_ns)
{
    const struct options *options = job->options;
    job_show(job, NULL);
    job_print_graph(job);
    printf("chunks %d of %.6g bytes, attempts %d at most, seed %d\n", synth_chunk_count(shape),
           block_bytes(job) / shape->parts, options->attempts, options->seed);
    printf("predicted %.6g us for %.6g bytes; the bound %s, without latencies, is %.6g us\n",
           duration_ns * 1e-3, options->size_bytes, bound_meaning(options->collective),
           bound_ns * 1e-3);
}

enum tutti_status greedy_make(struct job *job, enum exit_code *code)
{
    const struct options *options = job->options;
    const double block = block_bytes(job);
    bool is_even;
    const struct plan_shape shape = shape_of(job, &is_even);
    struct synth_steps steps;
    double duration_ns, blocks;
    (void)code; /* there always is a plan */
    if (!is_even)
        return error_set(TUTTI_INVALID_OPTIONS, "--chunks %d is no multiple of the %d ranks",
                         options->chunks, job->graph.rank_count);
    job_show(job, "finding the bound");
    TRY(find_bound(job, &blocks));
    job_show(job, "searching");
    const struct greedy_options search = {.seed = (uint64_t)options->seed,
                                          .attempt_count = options->attempts,
                                          .block_bytes = block,
                                          .timeout_ns = options->output != NULL
                                                            ? job_left_ns(job) / 4 *
                                                                  3 /* the proof takes time, too */
                                                            : job_left_ns(job)};
    TRY(greedy_schedule(&job->graph, &shape, &search, &steps, &duration_ns));
    enum tutti_status status = TUTTI_OK;
    if (options->output != NULL) status = write_steps(job, &steps);
    synth_steps_release(&steps);
    if (status == TUTTI_OK)
        report(job, &shape, duration_ns, blocks * block / job->graph.bytes_per_second * 1e9);
    return status;
}
