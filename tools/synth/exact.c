#include "exact.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "studio/synth/direct.h"
#include "studio/synth/exact.h"
#include "studio/synth/steps.h"

static enum tutti_status check_graph(const struct job *job)
{
    if (job->notes.switch_count == 0) return TUTTI_OK;
    return error_set(
        TUTTI_UNSUPPORTED,
        "exact plans are for links from rank to rank, and here %d switches are between: "
        "--greedy and trees (neither --chunks, --steps nor --rounds) go over switches",
        job->notes.switch_count);
}

static enum tutti_status write_steps(const struct job *job, const char *name,
                                     const struct synth_steps *steps)
{
    struct plan *plan;
    job_show(job, "proving the plan");
    TRY(synth_steps_plan(steps, true, job->deadline_ns, &plan));
    const enum tutti_status status = job_write(job, name, plan);
    plan_free(plan);
    return status;
}

static void print_question(const struct job *job)
{
    const struct options *options = job->options;
    job_show(job, NULL);
    job_print_graph(job);
    printf("chunks %d, steps %d, rounds %d: ", options->chunks, options->steps, options->rounds);
}

/* ------------------------------------------------------------------------------------- one plan */

static void print_cost(const struct options *options, bool has_bound, struct synth_ratio bound)
{
    const struct synth_ratio rounds =
        synth_ratio_reduce((struct synth_ratio){options->rounds, options->chunks});
    printf("costs %d alpha + %" PRId64 "/%" PRId64
           " n beta, where n is the bytes of all these chunks and 1/beta is the unit\n",
           options->steps, rounds.top, rounds.bottom);
    if (has_bound)
        printf("the links allow no less than %" PRId64 "/%" PRId64 " n beta\n", bound.top,
               bound.bottom);
}

static const char *refuted_by(const struct exact_answer *answer)
{
    if ((answer->evidence & EXACT_BY_CUT) != 0)
        return "a checked cut through links and time leaves too little room";
    if ((answer->evidence & EXACT_BY_SOLVER) != 0) return "the solver refutes it";
    return "of the ways to split the rounds into steps, checked cuts refute some and the solver "
           "the others";
}

static const char *undecided_why(const struct exact_answer *answer)
{
    if (answer->is_late) return "the time is over";
    return "no reduce_scatter followed by an allgather in halves of these is one, but others may "
           "be (--direct)";
}

static enum tutti_status report_answer(const struct job *job, const struct exact_answer *answer,
                                       enum exit_code *code)
{
    const struct options *options = job->options;
    struct synth_ratio bound = {0, 1};
    bool has_bound = false;
    if (answer->verdict == EXACT_FEASIBLE) {
        TRY(job_bound(job, options->collective, &has_bound, &bound));
        if (options->output != NULL) TRY(write_steps(job, options->output, &answer->steps));
    }
    print_question(job);
    switch (answer->verdict) {
    case EXACT_FEASIBLE:
        puts("feasible");
        print_cost(options, has_bound, bound);
        break;
    case EXACT_INFEASIBLE:
        printf("infeasible: %s\n", refuted_by(answer));
        *code = EXIT_NO_PLAN;
        break;
    default: printf("undecided: %s\n", undecided_why(answer)); *code = EXIT_UNDECIDED;
    }
    return TUTTI_OK;
}

enum tutti_status exact_make(struct job *job, enum exit_code *code)
{
    const struct options *options = job->options;
    const struct exact_question question = {.collective = options->collective,
                                            .root = options->root,
                                            .chunk_count = options->chunks,
                                            .step_count = options->steps,
                                            .round_count = options->rounds,
                                            .cut_suffices = true};
    struct exact_answer answer;
    TRY(check_graph(job));
    job_show(job, "looking for cuts, and asking the solver");
    TRY(exact_ask(&job->graph, &question, job_left_ns(job), &answer));
    const enum tutti_status status = report_answer(job, &answer, code);
    exact_answer_release(&answer);
    return status;
}

/* --------------------------------------------------------------------------------------- direct */

enum tutti_status direct_make(struct job *job, enum exit_code *code)
{
    const struct options *options = job->options;
    const struct direct_question question = {.chunk_count = options->chunks,
                                             .step_count = options->steps,
                                             .rounds_per_step = options->rounds / options->steps,
                                             .in_place = true};
    struct plan *plan;
    TRY(check_graph(job));
    job_show(job, "asking the solver");
    TRY(direct_allreduce(&job->graph, &question, job_left_ns(job), &plan));
    enum tutti_status status = TUTTI_OK;
    if (plan != NULL && options->output != NULL) status = job_write(job, options->output, plan);
    const bool is_feasible = plan != NULL;
    if (is_feasible) plan_free(plan);
    TRY(status);
    print_question(job);
    puts(is_feasible ? "feasible"
                     : "infeasible directly: the solver refutes it; other allreduces may exist");
    if (is_feasible) print_cost(options, false, (struct synth_ratio){0, 1});
    *code = is_feasible ? EXIT_FINE : EXIT_NO_PLAN;
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------- front */

struct front {
    const struct job *job;
    int found_count;
};

static void show_question(const struct exact_point *point, void *context)
{
    const struct front *front = context;
    char stage[80];
    snprintf(stage, sizeof stage, "asking for chunks %d, steps %d, rounds %d", point->chunk_count,
             point->step_count, point->round_count);
    job_show(front->job, stage);
}

/* As soon as it is found: the next one may take long. */
static enum tutti_status take_point(const struct exact_point *point,
                                    const struct synth_steps *steps, void *context)
{
    struct front *front = context;
    const char *prefix = front->job->options->output;
    char name[4096] = "";
    if (prefix != NULL) {
        const int length = snprintf(name, sizeof name, "%s-%d-%d-%d.plan", prefix,
                                    point->chunk_count, point->step_count, point->round_count);
        if (length < 0 || (size_t)length >= sizeof name)
            return error_set(TUTTI_INVALID_OPTIONS, "%.40s... is too long for a file", prefix);
        TRY(write_steps(front->job, name, steps));
    }
    const struct synth_ratio rounds =
        synth_ratio_reduce((struct synth_ratio){point->round_count, point->chunk_count});
    job_show(front->job, NULL);
    printf("chunks %d, steps %d, rounds %d: costs %d alpha + %" PRId64 "/%" PRId64 " n beta%s%s\n",
           point->chunk_count, point->step_count, point->round_count, point->step_count, rounds.top,
           rounds.bottom, prefix != NULL ? ", in " : "", name);
    fflush(stdout);
    front->found_count++;
    return TUTTI_OK;
}

enum tutti_status front_make(struct job *job, enum exit_code *code)
{
    const struct options *options = job->options;
    const struct exact_front_question question = {.collective = options->collective,
                                                  .root = options->root,
                                                  .chunk_count_max = options->chunks,
                                                  .step_count_max = options->steps,
                                                  .round_count_max = options->rounds};
    struct front front = {.job = job};
    const struct exact_front_listener listener = {show_question, take_point, &front};
    struct synth_ratio bound;
    bool has_bound, is_certain;
    TRY(check_graph(job));
    TRY(job_bound(job, options->collective, &has_bound, &bound));
    job_print_graph(job);
    if (has_bound)
        printf("the links allow no less than %" PRId64 "/%" PRId64 " n beta\n", bound.top,
               bound.bottom);
    TRY(exact_front(&job->graph, &question, job_left_ns(job), &listener, &is_certain));
    job_show(job, NULL);
    printf("%s up to chunks %d, steps %d, rounds %d%s\n",
           front.found_count == 0 ? "no plan" : "no better plan", options->chunks, options->steps,
           options->rounds,
           is_certain ? "" : " is known, but not all was decided: try more --time or less --rounds");
    if (!is_certain)
        *code = EXIT_UNDECIDED;
    else if (front.found_count == 0)
        *code = EXIT_NO_PLAN;
    return TUTTI_OK;
}
