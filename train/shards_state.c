#include "shards_state.h"

#include "base/status.h"
#include "shards_update.h"

enum tutti_status shards_check(const struct tutti_shards *s, const char *function, size_t group)
{
    if (s->is_broken)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_shards_%s: an operation failed before; free the shards", function);
    if (group >= s->group_count)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_shards_%s: there is no group %zu of %zu",
                         function, group, s->group_count);
    return TUTTI_OK;
}

enum tutti_status shards_broken_by(struct tutti_shards *s, enum tutti_status status)
{
    if (status != TUTTI_OK) s->is_broken = true;
    return status;
}

enum tutti_status shards_wait_gather(struct shards_group *group)
{
    return group->gather != NULL ? tutti_wait(&group->gather) : TUTTI_OK;
}

void shards_drop_gathered(struct tutti_shards *s, struct shards_group *group)
{
    shards_pool_give(&s->gathered, group->gathered);
    group->gathered = NULL;
}

/* Waits for the reduction that was started first. */
static enum tutti_status end_reduction(struct tutti_shards *s)
{
    struct shards_reduction *const reduction = &s->reductions[s->reduction_first];
    struct shards_group *const group = reduction->group;
    if (reduction->request != NULL) TRY(tutti_wait(&reduction->request));
    if (reduction->buffer != NULL)
        shards_add(s->gradient_dtype, group->own.count, group->added_count == 0,
                   (const char *)shards_buffer_memory(reduction->buffer) +
                       group->own.first * s->gradient_size,
                   group->sums);
    group->added_count++;
    shards_pool_give(&s->buckets, reduction->buffer);
    s->reduction_first = (s->reduction_first + 1) % s->reduction_room;
    s->reduction_count--;
    return TUTTI_OK;
}

enum tutti_status shards_settle(struct tutti_shards *s, size_t left)
{
    while (s->reduction_count > left) TRY(end_reduction(s));
    return TUTTI_OK;
}
