#include "trees.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"
#include "plan/verify.h"
#include "studio/synth/bound.h"
#include "studio/synth/forest.h"
#include "studio/synth/lay.h"

/* The things that are made on the way to a plan. */
struct trees {
    const struct job *job;
    struct synth_graph turned;
    struct forest down, up; /* of the graph, of the graph turned around; empty where not needed */
    bool is_up_own;         /* otherwise what goes up takes the trees that go down */
};

static enum tutti_status make_trees(struct trees *trees)
{
    const enum collective collective = trees->job->options->collective;
    const struct forest_options options = {
        .root = collective_is_rooted(collective) ? trees->job->options->root : SYNTH_EVERY_RANK,
        .k = trees->job->options->k,
        .deadline_ns = trees->job->deadline_ns};
    const bool goes_up = collective_reduces(collective);
    const bool goes_down = !goes_up || collective == COLLECTIVE_ALLREDUCE;
    trees->is_up_own = goes_up && !(goes_down && synth_graph_is_even(&trees->job->graph));
    job_show(trees->job, "packing trees");
    if (goes_down) TRY(forest_make(&trees->job->graph, &options, &trees->down));
    if (!trees->is_up_own) return TUTTI_OK;
    TRY(synth_graph_reverse(&trees->job->graph, &trees->turned));
    return forest_make(&trees->turned, &options, &trees->up);
}

static const struct forest *up_of(const struct trees *trees)
{
    if (!collective_reduces(trees->job->options->collective)) return NULL;
    return trees->is_up_own ? &trees->up : &trees->down;
}

static const struct forest *down_of(const struct trees *trees)
{
    return trees->down.tree_count > 0 ? &trees->down : NULL;
}

static void print_half(const char *what, const struct forest *forest)
{
    const bool optimal = synth_ratio_compare(forest->bound, forest->attained) == 0;
    printf("%sbound %" PRId64 "/%" PRId64 ", attained %" PRId64 "/%" PRId64
           "%s, %d trees, k %" PRId64 "\n",
           what, forest->bound.top, forest->bound.bottom, forest->attained.top,
           forest->attained.bottom, optimal ? ", which is the bound" : "", forest->tree_count,
           forest->k);
    if (!optimal)
        printf("%s%.1f%% above the bound%s\n", what,
               100 * (synth_ratio_value(forest->attained) / synth_ratio_value(forest->bound) - 1),
               forest->is_trimmed ? "; as much does not lead into some switch as out of it" : "");
}

static void report(const struct trees *trees)
{
    const enum collective collective = trees->job->options->collective;
    const struct synth_graph *graph = &trees->job->graph;
    const struct forest *up = up_of(trees), *down = down_of(trees);
    job_print_graph(trees->job);
    if (up != NULL) print_half(down != NULL ? "reduce_scatter: " : "", up);
    if (down != NULL) print_half(up != NULL ? "allgather:      " : "", down);
    double time = (up != NULL ? synth_ratio_value(up->attained) : 0) +
                  (down != NULL ? synth_ratio_value(down->attained) : 0);
    if (!collective_is_rooted(collective)) time /= graph->rank_count;
    printf("algorithm bandwidth of the trees %.6g GB/s, at infinite size%s\n",
           graph->bytes_per_second * 1e-9 / time,
           collective == COLLECTIVE_ALLREDUCE ? "; up, and then down" : "");
}

static enum tutti_status prove(const struct job *job, const struct plan *plan)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        if (job_left_ns(job) == 0)
            return error_set(TUTTI_TIMEOUT, "the time is over before the plan is proven");
        const struct verify_options options = {.in_place = in_place};
        struct verify_report proof;
        switch (plan_verify(plan, &options, &proof)) {
        case VERIFY_PROVEN: break;
        case VERIFY_NO_MEMORY:
        case VERIFY_TOO_COSTLY: return error_set(TUTTI_NO_MEMORY, "the proof takes more memory");
        default: return error_set(TUTTI_INTERNAL, "the plan is wrong: %s", proof.message);
        }
    }
    return TUTTI_OK;
}

static enum tutti_status make_plan(const struct trees *trees)
{
    const struct options *options = trees->job->options;
    const struct lay lay = {.collective = options->collective,
                            .down = down_of(trees),
                            .up = up_of(trees),
                            .pieces = options->pieces,
                            .deadline_ns = trees->job->deadline_ns};
    struct plan *plan;
    job_show(trees->job, "laying out the plan");
    TRY(lay_plan(&lay, &plan));
    job_show(trees->job, "proving the plan");
    enum tutti_status status = prove(trees->job, plan);
    if (status == TUTTI_OK) status = job_write(trees->job, options->output, plan);
    plan_free(plan);
    return status;
}

enum tutti_status trees_make(struct job *job, enum exit_code *code)
{
    struct trees trees = {.job = job};
    (void)code; /* there always are trees */
    enum tutti_status status = make_trees(&trees);
    if (status == TUTTI_OK && job->options->output != NULL) status = make_plan(&trees);
    job_show(job, NULL);
    if (status == TUTTI_OK) report(&trees);
    forest_release(&trees.down);
    forest_release(&trees.up);
    synth_graph_release(&trees.turned);
    return status;
}
