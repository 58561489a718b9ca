#include "tune/predict.h"

#include <stdlib.h>

#include "base/status.h"
#include "plan/wiring.h"

static uint32_t count_receivers(const struct rank_plan *plan, const struct plan_step *step)
{
    if (step->target_group == PLAN_NO_GROUP) return step->target_count;
    return step->target_count + plan->groups[step->target_group].member_count;
}

/* Judged by the steps of one rank. */
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

static enum tutti_status is_too_large(const struct predict_job *job,
                                      const struct algorithm *algorithm,
                                      const struct algo_params *params, bool *is)
{
    struct rank_plan *plan;
    const char *message = "";
    const enum tutti_status status =
        algo_rank_plan(algorithm, params, params->root, &plan, &message);
    if (status != TUTTI_OK) return error_set(status, "%s: %s", algorithm->name, message);
    *is = is_large(job, plan);
    plan_rank_free(plan);
    return TUTTI_OK;
}

static enum tutti_status simulate(const struct predict_job *job, const struct plan *plan,
                                  struct model_result *result)
{
    struct wiring wiring;
    struct verify_report report;
    enum tutti_status status;
    switch (wiring_init(&wiring, plan, &report)) {
    case VERIFY_PROVEN:
        status = model_simulate(plan, &wiring, job->machine, job->count, job->element_bytes, result);
        break;
    case VERIFY_NO_MEMORY:
        status = error_set(TUTTI_NO_MEMORY, "wiring a plan: out of memory");
        break;
    default: status = error_set(TUTTI_INVALID_ALGORITHM, "%s", report.message); break;
    }
    wiring_release(&wiring);
    return status;
}

enum tutti_status predict_one(const struct predict_job *job, const struct algorithm *algorithm,
                              bool only_hosts, struct prediction *prediction)
{
    struct algo_levels levels;
    struct algo_params params = {.collective = job->collective,
                                 .rank_count = job->machine->rank_count,
                                 .root = job->root,
                                 .in_place = job->in_place,
                                 .order = job->order,
                                 .levels = job->levels};
    const bool has_racks = job->levels != NULL && job->levels->level_count > 1;
    *prediction = (struct prediction){.algorithm = algorithm,
                                      .only_hosts = only_hosts,
                                      .has_one_plan = !algorithm->needs_levels || !has_racks};
    if (only_hosts && job->levels != NULL) {
        levels = *job->levels;
        levels.level_count = 1;
        params.levels = &levels;
    }
    if (algorithm->needs_levels && job->levels == NULL) {
        prediction->why_not = "all ranks are on one host";
        return TUTTI_OK;
    }
    if (!(job->levels != NULL ? algo_supports_levels(algorithm, params.rank_count)
                              : algo_supports(algorithm, params.rank_count))) {
        prediction->why_not = "cannot do that number of ranks";
        return TUTTI_OK;
    }
    bool is_over = false;
    TRY(is_too_large(job, algorithm, &params, &is_over));
    if (is_over) {
        prediction->why_not = "has too many steps or pieces to be simulated";
        return TUTTI_OK;
    }
    struct plan *plan;
    const char *message = "";
    enum tutti_status status = algo_plan(algorithm, &params, &plan, &message);
    if (status != TUTTI_OK) return error_set(status, "%s: %s", algorithm->name, message);
    status = simulate(job, plan, &prediction->result);
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
    qsort(predictions, (size_t)*count, sizeof *predictions, by_time);
    return TUTTI_OK;
}
