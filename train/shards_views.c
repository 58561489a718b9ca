/* shards_views.c - the parts of the shards that go on from step to step, for checkpoints. */
#include "base/status.h"
#include "shards_state.h"

static enum tutti_status check_time(const struct tutti_shards *s, size_t index)
{
    const struct shards_group *const group = &s->groups[index];
    if (group->use_count > 0 || group->ready_count > 0 || group->is_asked_for)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_shards_views: group %zu is %s", index,
                         group->use_count > 0 ? "acquired" : "in the middle of a step");
    return TUTTI_OK;
}

static void add(struct tutti_shard_view *views, size_t *count, const char *name,
                enum tutti_dtype dtype, struct shards_range range, void *data)
{
    if (data != NULL && range.count > 0)
        views[(*count)++] = (struct tutti_shard_view){name, dtype, range.first, range.count, data};
}

enum tutti_status tutti_shards_views(struct tutti_shards *s, size_t index,
                                     struct tutti_shard_view *views, size_t *count)
{
    *count = 0;
    TRY(shards_check(s, "views", index));
    TRY(check_time(s, index));
    struct shards_group *const group = &s->groups[index];
    TRY(shards_broken_by(s, shards_wait_gather(group)));
    shards_drop_gathered(s, group); /* it would be old if parameters are changed */
    const enum tutti_dtype dtype = s->options.dtype;
    const bool is_whole = s->options.stage < TUTTI_SHARDS_PARAMETERS;
    const struct shards_range whole = {0, group->count};
    add(views, count, "parameters", dtype, is_whole ? whole : group->own, group->parameters);
    add(views, count, "masters", TUTTI_FLOAT32, group->own, group->masters);
    add(views, count, "first moments", s->state_dtype, group->own, group->first);
    add(views, count, "second moments", s->state_dtype, group->own, group->second);
    return TUTTI_OK;
}
