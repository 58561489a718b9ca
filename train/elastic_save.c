#include "elastic_save.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "elastic_shard.h"
#include "os/clock.h"

enum { PROGRESS_ROOM = 32, STEPS_MAX = 64 };
static const char progress_name[] = "tutti elastic progress";
static const double second_ns = 1e9, prior_s = 24 * 3600.0;

enum tutti_status elastic_save_open(struct tutti_elastic *e)
{
    if (e->checkpoint_folder == NULL || e->checkpoints != NULL) return TUTTI_OK;
    return tutti_checkpoints_open(e->checkpoint_folder, NULL, e->comm, &e->checkpoints);
}

void elastic_save_leave(struct tutti_elastic *e)
{
    char before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    if (e->checkpoints != NULL && tutti_checkpoints_close(e->checkpoints) != TUTTI_OK)
        log_write(LOG_INFO, "elastic: a checkpoint was not completed: %s", tutti_error_message());
    e->checkpoints = NULL;
    (void)error_unless_ok(TUTTI_OK, before);
}

/* ------------------------------------------------------------------------------------- the times */

static double mttf_s(const struct tutti_elastic *e, uint64_t now_ns)
{
    if (e->options.mttf_ns > 0) return (double)e->options.mttf_ns / second_ns;
    const uint64_t elapsed_ns = e->progress.elapsed_ns + (now_ns - e->counted_from_ns);
    return (prior_s + (double)elapsed_ns / second_ns) / (1.0 + (double)e->progress.failures);
}

uint64_t elastic_save_interval_ns(const struct tutti_elastic *e, uint64_t now_ns)
{
    if (e->options.checkpoint_every_ns > 0) return e->options.checkpoint_every_ns;
    const struct tutti_elastic_costs costs = {.nodes = 1,
                                              .failure_rate = 1 / mttf_s(e, now_ns),
                                              .write_s = (double)e->progress.write_ns / second_ns};
    return (uint64_t)(tutti_elastic_daly(&costs) * second_ns);
}

bool elastic_save_is_due(const struct tutti_elastic *e, uint64_t now_ns)
{
    return e->checkpoints != NULL && now_ns >= e->next_save_ns;
}

static uint64_t written_ns(const struct tutti_elastic *e)
{
    struct tutti_checkpoints_counters counters = {.size_bytes = sizeof counters};
    return tutti_checkpoints_count(e->checkpoints, &counters) == TUTTI_OK ? counters.written_ns : 0;
}

/* ------------------------------------------------------------------------------------ the tensors */

static void describe(const struct elastic_array *array, const struct elastic_shard *shard,
                     char *data, struct tutti_checkpoint_tensor *tensor)
{
    const bool is_whole = array->kind == TUTTI_ELASTIC_REPLICATED;
    *tensor =
        (struct tutti_checkpoint_tensor){.name = array->name, .dtype = array->dtype, .dims = 1};
    tensor->shape[0] = array->count;
    tensor->extent[0] = is_whole ? array->count : shard->count > 0 ? shard->count : 1;
    tensor->first[0] = is_whole || shard->count == 0 ? 0 : shard->first;
    tensor->count = is_whole ? array->count : shard->count;
    tensor->data = data;
}

/* The caller frees *tensors. */
static enum tutti_status describe_all(struct tutti_elastic *e, bool is_staged, uint64_t *numbers,
                                      struct tutti_checkpoint_tensor **tensors)
{
    *tensors = calloc(e->array_count + 1, sizeof **tensors);
    if (*tensors == NULL)
        return error_set(TUTTI_NO_MEMORY,
                         "tutti_elastic_begin: no memory to describe a checkpoint");
    for (size_t i = 0; i < e->array_count; i++) {
        struct elastic_array *const array = &e->arrays[i];
        const struct elastic_shard *const shard = is_staged ? &array->staged : &array->shard;
        char *const data = array->kind == TUTTI_ELASTIC_REPLICATED ? elastic_base(e, array)
                                                                   : elastic_shard_base(e, shard);
        describe(array, shard, data, &(*tensors)[i]);
    }
    (*tensors)[e->array_count] = (struct tutti_checkpoint_tensor)TUTTI_CHECKPOINT_ROW(
        progress_name, TUTTI_UINT64, PROGRESS_ROOM, numbers);
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------- saving, loading */

static enum tutti_status save(struct tutti_elastic *e, bool waits)
{
    uint64_t numbers[PROGRESS_ROOM] = {0};
    struct tutti_checkpoint_tensor *tensors;
    struct elastic_progress progress = e->progress;
    progress.elapsed_ns += clock_now_ns() - e->counted_from_ns;
    /* Ranks have clocks of their own, and a checkpoint wants the same from all of them. */
    memcpy(numbers, &progress, sizeof progress);
    TRY(tutti_broadcast(numbers, numbers, PROGRESS_ROOM, TUTTI_UINT64, 0, e->comm));
    TRY(describe_all(e, false, numbers, &tensors));
    enum tutti_status status =
        tutti_checkpoints_save(e->checkpoints, e->progress.step, tensors, e->array_count + 1);
    if (status == TUTTI_OK && waits) status = tutti_checkpoints_wait(e->checkpoints);
    free(tensors);
    return status;
}

enum tutti_status elastic_save(struct tutti_elastic *e, bool waits)
{
    if (e->checkpoints == NULL || e->saved_step == e->progress.step) return TUTTI_OK;
    const uint64_t began_ns = clock_now_ns(), written_before_ns = written_ns(e);
    const enum tutti_status status = save(e, waits);
    const uint64_t now_ns = clock_now_ns(), took_ns = written_ns(e) - written_before_ns;
    if (took_ns > 0) e->progress.write_ns = took_ns;
    e->progress.checkpoint_ns += now_ns - began_ns;
    e->next_save_ns = elastic_time_after(now_ns, elastic_save_interval_ns(e, now_ns));
    if (status == TUTTI_OK) {
        e->saved_step = e->progress.step;
        e->progress.checkpoints++;
    } else if (elastic_may_recover(status)) {
        e->is_broken = true;
    } else {
        log_write(LOG_WARN, "elastic: no checkpoint of step %llu: %s",
                  (unsigned long long)e->progress.step, tutti_error_message());
    }
    return TUTTI_OK;
}

/* A checkpoint of another run, which may have had more samples in an epoch, or fewer. */
static enum tutti_status read_progress(const struct tutti_elastic *e, uint64_t step,
                                       const uint64_t *numbers, struct elastic_progress *progress)
{
    memcpy(progress, numbers, sizeof *progress);
    if (progress->step != step)
        return error_set(TUTTI_CORRUPT,
                         "tutti_elastic_begin: the checkpoint of step %llu says that it is of step "
                         "%llu",
                         (unsigned long long)step, (unsigned long long)progress->step);
    if (e->options.sample_count > 0 && progress->position >= e->options.sample_count) {
        progress->position = 0;
        progress->epoch++;
    }
    return TUTTI_OK;
}

/* A checkpoint that is damaged is passed over. */
static bool may_try_older(enum tutti_status status)
{
    return status == TUTTI_CORRUPT || status == TUTTI_SYSTEM;
}

enum tutti_status elastic_save_load(struct tutti_elastic *e, struct elastic_progress *progress,
                                    bool *is_there)
{
    uint64_t steps[STEPS_MAX], numbers[PROGRESS_ROOM] = {0};
    size_t count = 0;
    struct tutti_checkpoint_tensor *tensors;
    *is_there = false;
    if (e->checkpoints == NULL) return TUTTI_OK;
    TRY(tutti_checkpoints_list(e->checkpoints, steps, STEPS_MAX, &count));
    if (count == 0) return TUTTI_OK;
    if (count > STEPS_MAX) count = STEPS_MAX;
    TRY(describe_all(e, true, numbers, &tensors));
    enum tutti_status status = TUTTI_OK;
    for (size_t i = 0; i < count && !*is_there; i++) {
        status = tutti_checkpoints_load(e->checkpoints, steps[i], tensors, e->array_count + 1);
        if (status == TUTTI_OK) status = read_progress(e, steps[i], numbers, progress);
        *is_there = status == TUTTI_OK;
        if (!*is_there && !may_try_older(status)) break;
        if (!*is_there)
            log_write(LOG_WARN, "elastic: the checkpoint of step %llu cannot be read: %s",
                      (unsigned long long)steps[i], tutti_error_message());
    }
    free(tensors);
    return status;
}
