/* shards_pass.c - what happens while passes go on: parameters come and go, and gradients are
 * reduced. */
#include <string.h>

#include "base/status.h"
#include "shards_state.h"

static bool is_alone(const struct tutti_shards *s)
{
    return s->size == 1;
}

/* ----------------------------------------------------------------------------------- parameters */

/* Whether the whole group is here only after an allgather. */
static bool comes_and_goes(const struct tutti_shards *s, const struct shards_group *group)
{
    return s->options.stage == TUTTI_SHARDS_PARAMETERS && !is_alone(s) && group->count > 0;
}

static enum tutti_status start_gather(struct tutti_shards *s, struct shards_group *group)
{
    if (!comes_and_goes(s, group) || group->gathered != NULL) return TUTTI_OK;
    TRY(shards_pool_take(&s->gathered, group->count * s->parameter_size, &group->gathered));
    TRY(tutti_allgatherv_start(group->parameters, shards_buffer_memory(group->gathered),
                               group->counts, NULL, s->options.dtype, NULL, s->comm, &group->gather));
    s->counters.elements_gathered += group->count;
    return TUTTI_OK;
}

/* First the group itself, then those that follow it: operations end in about the order of their
 * starts. */
static enum tutti_status gather(struct tutti_shards *s, enum tutti_pass pass, size_t index)
{
    const size_t ahead = (size_t)s->options.ahead;
    for (size_t i = 0; i <= ahead; i++) {
        const size_t left = pass == TUTTI_PASS_FORWARD ? s->group_count - 1 - index : index;
        if (i > left) break;
        TRY(start_gather(s, &s->groups[pass == TUTTI_PASS_FORWARD ? index + i : index - i]));
    }
    return shards_wait_gather(&s->groups[index]);
}

enum tutti_status tutti_shards_acquire(struct tutti_shards *s, enum tutti_pass pass, size_t index,
                                       void **parameters)
{
    *parameters = NULL;
    TRY(shards_check(s, "acquire", index));
    if (pass != TUTTI_PASS_FORWARD && pass != TUTTI_PASS_BACKWARD)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_shards_acquire: %d is no pass", (int)pass);
    struct shards_group *const group = &s->groups[index];
    TRY(shards_broken_by(s, gather(s, pass, index)));
    group->use_count++;
    *parameters =
        group->gathered != NULL ? shards_buffer_memory(group->gathered) : group->parameters;
    return TUTTI_OK;
}

enum tutti_status tutti_shards_release(struct tutti_shards *s, size_t index)
{
    TRY(shards_check(s, "release", index));
    struct shards_group *const group = &s->groups[index];
    if (group->use_count == 0)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_shards_release: group %zu is not acquired",
                         index);
    if (--group->use_count == 0) shards_drop_gathered(s, group);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------ gradients */

/* Zeros before the first micro-batch whose gradients are added up here. */
static enum tutti_status open_gradient(struct tutti_shards *s, struct shards_group *group,
                                       void **gradient)
{
    const size_t bytes = group->count * s->gradient_size;
    const bool is_new = s->keeps_gradients ? group->is_stale : group->open == NULL;
    if (is_new && !s->keeps_gradients) {
        TRY(shards_settle(s, (size_t)s->options.ahead));
        TRY(shards_pool_take(&s->buckets, bytes > 0 ? bytes : 1, &group->open));
    }
    *gradient = s->keeps_gradients ? group->gradients : shards_buffer_memory(group->open);
    if (is_new) memset(*gradient, 0, bytes);
    group->is_stale = false;
    return TUTTI_OK;
}

enum tutti_status tutti_shards_gradient(struct tutti_shards *s, size_t index, void **gradient)
{
    *gradient = NULL;
    TRY(shards_check(s, "gradient", index));
    struct shards_group *const group = &s->groups[index];
    if (group->ready_count == s->options.micro_batches)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_shards_gradient: group %zu was ready for all micro-batches of the "
                         "step, %d",
                         index, s->options.micro_batches);
    TRY(shards_broken_by(s, open_gradient(s, group, gradient)));
    group->is_asked_for = true;
    return TUTTI_OK;
}

static enum tutti_status start_reduction(struct tutti_shards *s, struct shards_group *group,
                                         struct shards_reduction *reduction)
{
    char *const whole =
        reduction->buffer != NULL ? shards_buffer_memory(reduction->buffer) : group->gradients;
    if (is_alone(s) || group->count == 0) return TUTTI_OK;
    if (s->options.stage == TUTTI_SHARDS_NONE) {
        s->counters.elements_allreduced += group->count;
        return tutti_allreduce_start(whole, whole, group->count, s->gradient_dtype, TUTTI_SUM, NULL,
                                     s->comm, &reduction->request);
    }
    s->counters.elements_reduce_scattered += group->count;
    return tutti_reduce_scatterv_start(whole, whole + group->own.first * s->gradient_size,
                                       group->counts, s->gradient_dtype, TUTTI_SUM, NULL, s->comm,
                                       &reduction->request);
}

enum tutti_status tutti_shards_ready(struct tutti_shards *s, size_t index)
{
    TRY(shards_check(s, "ready", index));
    struct shards_group *const group = &s->groups[index];
    if (!group->is_asked_for)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_shards_ready: the gradient of group %zu was not asked for with "
                         "tutti_shards_gradient",
                         index);
    group->is_asked_for = false;
    group->ready_count++;
    if (s->options.reduction == TUTTI_SHARDS_REDUCE_ONCE &&
        group->ready_count < s->options.micro_batches)
        return TUTTI_OK;
    /* Each that is under way had its buffer when at most `ahead` others were: so there is room. */
    const size_t place = (s->reduction_first + s->reduction_count) % s->reduction_room;
    struct shards_reduction *const reduction = &s->reductions[place];
    *reduction = (struct shards_reduction){.group = group, .buffer = group->open};
    group->open = NULL;
    s->reduction_count++;
    return shards_broken_by(s, start_reduction(s, group, reduction));
}
