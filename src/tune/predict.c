#include "tune/predict.h"

#include <stdlib.h>

#include "base/status.h"
#include "plan/wiring.h"

static uint32_t count_receivers(const struct rank_plan *plan, const struct plan_step *step)
{
    if (step->target_group == PLAN_NO_GROUP) return step->target_count;
    return step->target_count + plan->groups[step->target_group].member_count;
}

/* Whether a plan is large, judged by the steps of one rank. */
static bool is_large(const struct predict_job *job, const struct rank_plan *plan)
{
    const double ranks = plan->shape.rank_count,
                 chunk_bytes = (double)(job->count * job->element_bytes) / plan->shape.parts;
    double largest = 0, pieces = 0;
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].chunk_count * chunk_bytes > largest)
            largest = plan->steps[i].chunk_count * chunk_bytes;
    const double piece = (double)model_piece_bytes(job->machine, (uint64_t)largest);
    for (uint32_t i = 0; i < plan->step_count; i++)
        pieces += (plan->steps[i].chunk_count * chunk_bytes / piece + 1) *
                  (1 + count_receivers(plan, &plan->steps[i]));
    return plan->step_count * ranks > PREDICT_STEPS_MAX || pieces * ranks > PREDICT_PIECES_MAX;
}

/* The levels are `hosts` if only hosts count. */
static struct algo_params params_of(const struct predict_job *job, const struct algorithm *algorithm,
                                    bool only_hosts, struct algo_levels *hosts)
{
    struct algo_params params = {.collective = job->collective,
                                 .rank_count = job->machine->rank_count,
                                 .root = algorithm->plan != NULL ? algorithm->plan->shape.root
                                                                 : job->root,
                                 .in_place = job->in_place,
                                 .order = job->order,
                                 .levels = job->levels};
    if (only_hosts && job->levels != NULL) {
        *hosts = *job->levels;
        hosts->level_count = 1;
        params.levels = hosts;
    }
    return params;
}

enum tutti_status predict_rank_plan(const struct predict_job *job, const struct algorithm *algorithm,
                                    bool only_hosts, int rank, struct rank_plan **plan)
{
    struct algo_levels hosts;
    const struct algo_params params = params_of(job, algorithm, only_hosts, &hosts);
    const char *message = "";
    const enum tutti_status status = algo_rank_plan(algorithm, &params, rank, plan, &message);
    return status == TUTTI_OK ? TUTTI_OK : error_set(status, "%s: %s", algorithm->name, message);
}

static enum tutti_status is_too_large(const struct predict_job *job,
                                      const struct algorithm *algorithm, bool only_hosts, bool *is)
{
    const int root = algorithm->plan != NULL ? algorithm->plan->shape.root : job->root;
    struct rank_plan *plan;
    TRY(predict_rank_plan(job, algorithm, only_hosts, root, &plan));
    *is = is_large(job, plan);
    plan_rank_free(plan);
    return TUTTI_OK;
}

enum tutti_status predict_plan(const struct predict_job *job, const struct algorithm *algorithm,
                               bool only_hosts, struct plan **plan, struct wiring *wiring)
{
    struct algo_levels hosts;
    struct verify_report report;
    const struct algo_params params = params_of(job, algorithm, only_hosts, &hosts);
    const char *message = "";
    const enum tutti_status status = algo_plan(algorithm, &params, plan, &message);
    if (status != TUTTI_OK) return error_set(status, "%s: %s", algorithm->name, message);
    const enum verify_verdict verdict = wiring_init(wiring, *plan, NULL, &report);
    if (verdict == VERIFY_PROVEN) return TUTTI_OK;
    wiring_release(wiring);
    plan_free(*plan);
    *plan = NULL;
    return verdict == VERIFY_NO_MEMORY ? error_set(TUTTI_NO_MEMORY, "wiring a plan: out of memory")
                                       : error_set(TUTTI_INVALID_ALGORITHM, "%s", report.message);
}

bool predict_begin(const struct predict_job *job, const struct algorithm *algorithm,
                   bool only_hosts, struct prediction *prediction)
{
    const int ranks = job->machine->rank_count;
    const bool has_racks = job->levels != NULL && job->levels->level_count > 1;
    *prediction = (struct prediction){.algorithm = algorithm,
                                      .only_hosts = only_hosts,
                                      .has_one_plan = !algorithm->needs_levels || !has_racks};
    if (algorithm->needs_levels && job->levels == NULL)
        prediction->why_not = "all ranks are on one host";
    else if (!(job->levels != NULL ? algo_supports_levels(algorithm, ranks)
                                   : algo_supports(algorithm, ranks)))
        prediction->why_not = "cannot do that number of ranks";
    return prediction->why_not == NULL;
}

enum tutti_status predict_one(const struct predict_job *job, const struct algorithm *algorithm,
                              bool only_hosts, struct prediction *prediction)
{
    if (!predict_begin(job, algorithm, only_hosts, prediction)) return TUTTI_OK;
    bool is_over = false;
    TRY(is_too_large(job, algorithm, only_hosts, &is_over));
    if (is_over) {
        prediction->why_not = "has too many steps or pieces to be simulated";
        return TUTTI_OK;
    }
    struct plan *plan;
    struct wiring wiring;
    TRY(predict_plan(job, algorithm, only_hosts, &plan, &wiring));
    const enum tutti_status status = model_simulate(plan, &wiring, job->machine, job->count,
                                                    job->element_bytes, &prediction->result);
    wiring_release(&wiring);
    plan_free(plan);
    return status;
}

static int by_time(const void *a, const void *b)
{
    const struct prediction *one = a, *other = b;
    if ((one->why_not != NULL) != (other->why_not != NULL)) return one->why_not != NULL ? 1 : -1;
    if (one->result.time_ps != other->result.time_ps)
        return one->result.time_ps < other->result.time_ps ? -1 : 1;
    if (one->algorithm != other->algorithm) return one->algorithm < other->algorithm ? -1 : 1;
    return (int)one->only_hosts - (int)other->only_hosts;
}

enum tutti_status predict_all(const struct predict_job *job,
                              struct prediction predictions[PREDICTIONS_MAX], int *count)
{
    *count = 0;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        if (algorithm->collective != job->collective || *count == PREDICTIONS_MAX) continue;
        TRY(predict_one(job, algorithm, false, &predictions[(*count)++]));
        if (predictions[*count - 1].has_one_plan || *count == PREDICTIONS_MAX) continue;
        TRY(predict_one(job, algorithm, true, &predictions[(*count)++]));
    }
    for (int i = 0; i < job->loaded_count && *count < PREDICTIONS_MAX; i++)
        TRY(predict_one(job, job->loaded[i], false, &predictions[(*count)++]));
    qsort(predictions, (size_t)*count, sizeof *predictions, by_time);
    return TUTTI_OK;
}
