/* elastic_shards.c - the state of shards (ZeRO) as arrays of an elastic loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "elastic_state.h"
#include "shards_layout.h"

enum { NAME_BYTES = 64, VIEWS = 4 };

/* Numbers of the shards that come with their state. */
enum { IS_SET, STEPS, GOOD_STEPS, LOSS_SCALE, NUMBERS };

struct kept_array {
    size_t group;
    const char *view; /* its name in tutti_shards_views */
    char name[NAME_BYTES];
    void *data; /* of a replicated array */
};

struct tutti_elastic_shards {
    struct tutti_shards_options options;
    struct tutti_shard_group *groups;
    size_t group_count;
    struct tutti_elastic_array *arrays; /* the numbers, then those of the groups */
    struct kept_array *kept;            /* of arrays[1] on */
    size_t count;                       /* of kept */
    double numbers[NUMBERS];
};

/* ------------------------------------------------------------------------------------ the arrays */

static enum tutti_status add(struct tutti_elastic_shards *s, size_t group, const char *view,
                             enum tutti_dtype dtype, bool is_divided)
{
    const size_t count = s->groups[group].count;
    struct kept_array *const kept = &s->kept[s->count++];
    *kept = (struct kept_array){.group = group, .view = view};
    snprintf(kept->name, sizeof kept->name, "tutti shards %zu %s", group, view);
    if (!is_divided) kept->data = calloc(count, tutti_dtype_size(dtype));
    if (!is_divided && kept->data == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_elastic_shards_create: no memory for group %zu",
                         group);
    s->arrays[s->count] = (struct tutti_elastic_array){
        .name = kept->name,
        .kind = is_divided ? TUTTI_ELASTIC_BLOCKS : TUTTI_ELASTIC_REPLICATED,
        .dtype = dtype,
        .count = count,
        .data = kept->data};
    return TUTTI_OK;
}

static enum tutti_status add_group(struct tutti_elastic_shards *s, size_t group)
{
    const enum tutti_dtype dtype = s->options.dtype;
    const bool has_masters = tutti_dtype_size(dtype) == 2;
    const enum tutti_dtype state = has_masters ? TUTTI_FLOAT32 : dtype;
    const bool is_divided = s->options.stage >= TUTTI_SHARDS_OPTIMIZER;
    if (s->groups[group].count == 0) return TUTTI_OK;
    TRY(add(s, group, "parameters", dtype, s->options.stage == TUTTI_SHARDS_PARAMETERS));
    if (has_masters) TRY(add(s, group, "masters", TUTTI_FLOAT32, is_divided));
    TRY(add(s, group, "first moments", state, is_divided));
    if (s->options.optimizer != TUTTI_SHARDS_ADAMW) return TUTTI_OK;
    return add(s, group, "second moments", state, is_divided);
}

static enum tutti_status check_arguments(const struct tutti_shard_group *groups, size_t count,
                                         const struct tutti_shards_options *options)
{
    const enum tutti_dtype dtype = options->dtype;
    if (groups == NULL && count > 0)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_elastic_shards_create: groups is NULL");
    if (dtype != TUTTI_FLOAT32 && dtype != TUTTI_FLOAT64 && dtype != TUTTI_BFLOAT16 &&
        dtype != TUTTI_FLOAT16)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_elastic_shards_create: options.dtype is none that parameters have");
    return TUTTI_OK;
}

static enum tutti_status fill(struct tutti_elastic_shards *s, const struct tutti_shard_group *groups,
                              size_t count, const struct tutti_shards_options *options)
{
    s->options = (struct tutti_shards_options)TUTTI_SHARDS_OPTIONS_INIT;
    if (options != NULL)
        TRY(SIZED_READ("tutti_elastic_shards_create: options", tutti_shards_options, options,
                       &s->options));
    TRY(check_arguments(groups, count, &s->options));
    s->groups = calloc(count + 1, sizeof *s->groups);
    s->kept = calloc(count + 1, VIEWS * sizeof *s->kept);
    s->arrays = calloc(count + 1, VIEWS * sizeof *s->arrays);
    if (s->groups == NULL || s->kept == NULL || s->arrays == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_elastic_shards_create: no memory for %zu groups",
                         count);
    if (count > 0) memcpy(s->groups, groups, count * sizeof *groups);
    s->group_count = count;
    s->arrays[0] = (struct tutti_elastic_array){.name = "tutti shards",
                                                .kind = TUTTI_ELASTIC_REPLICATED,
                                                .dtype = TUTTI_FLOAT64,
                                                .count = NUMBERS,
                                                .data = s->numbers};
    for (size_t g = 0; g < count; g++) TRY(add_group(s, g));
    return TUTTI_OK;
}

enum tutti_status tutti_elastic_shards_create(const struct tutti_shard_group *groups, size_t count,
                                              const struct tutti_shards_options *options,
                                              struct tutti_elastic_shards **created)
{
    *created = NULL;
    struct tutti_elastic_shards *const s = calloc(1, sizeof *s);
    if (s == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_elastic_shards_create: out of memory");
    const enum tutti_status status = fill(s, groups, count, options);
    if (status == TUTTI_OK)
        *created = s;
    else
        tutti_elastic_shards_free(s);
    return status;
}

void tutti_elastic_shards_free(struct tutti_elastic_shards *s)
{
    if (s == NULL) return;
    for (size_t i = 0; i < s->count; i++) free(s->kept[i].data);
    free(s->groups);
    free(s->kept);
    free(s->arrays);
    free(s);
}

const struct tutti_elastic_array *tutti_elastic_shards_arrays(const struct tutti_elastic_shards *s,
                                                              size_t *count)
{
    *count = s->count + 1;
    return s->arrays;
}

/* ------------------------------------------------------------------------------------- the steps */

static enum tutti_status check_loop(const struct tutti_elastic_shards *s,
                                    const struct tutti_elastic *e)
{
    const char *wrong = NULL;
    if (e->phase != ELASTIC_IN_STEP) wrong = "no step has begun";
    if (!elastic_keeps_copies(e)) wrong = "the loop needs TUTTI_ELASTIC_UPDATE_BEFORE";
    if (e->array_count < s->count + 1 || e->arrays[0].live != (const char *)s->numbers)
        wrong = "the loop does not begin with the arrays of these shards";
    return wrong == NULL ? TUTTI_OK
                         : error_set(TUTTI_INVALID_OPTIONS, "tutti_elastic_shards: %s", wrong);
}

/* The loop's array for a view of a group, which has the same elements. */
static enum tutti_status find(const struct tutti_elastic_shards *s, const struct tutti_elastic *e,
                              size_t group, const struct tutti_shard_view *view, char **data)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct elastic_array *const array = &e->arrays[i + 1];
        const bool is_whole = array->kind == TUTTI_ELASTIC_REPLICATED;
        if (s->kept[i].group != group || strcmp(s->kept[i].view, view->name) != 0) continue;
        if (view->first != (is_whole ? 0 : array->shard.first) || view->dtype != array->dtype ||
            view->count != (is_whole ? array->count : array->shard.count))
            break;
        *data = is_whole ? array->live : array->shard.live;
        return TUTTI_OK;
    }
    return error_set(TUTTI_INTERNAL, "tutti_elastic_shards: group %zu has other %s than the loop",
                     group, view->name);
}

static enum tutti_status copy_group(const struct tutti_elastic_shards *s,
                                    const struct tutti_elastic *e, size_t group, bool to_shards)
{
    struct tutti_shard_view views[TUTTI_SHARDS_VIEWS];
    size_t count;
    TRY(tutti_shards_views(e->shards, group, views, &count));
    for (size_t v = 0; v < count; v++) {
        char *data = NULL;
        TRY(find(s, e, group, &views[v], &data));
        const size_t bytes = views[v].count * tutti_dtype_size(views[v].dtype);
        memcpy(to_shards ? views[v].data : data, to_shards ? data : views[v].data, bytes);
    }
    return TUTTI_OK;
}

static enum tutti_status make(const struct tutti_elastic_shards *s, struct tutti_elastic *e)
{
    struct tutti_shards_options options = s->options;
    const bool is_set = s->numbers[IS_SET] > 0;
    if (is_set) {
        options.first_step = (uint64_t)s->numbers[STEPS];
        options.first_good_steps = (uint64_t)s->numbers[GOOD_STEPS];
        if (options.loss_scale > 0) options.loss_scale = s->numbers[LOSS_SCALE];
    }
    TRY(tutti_shards_create(s->groups, s->group_count, &options, e->comm, &e->shards));
    for (size_t g = 0; is_set && g < s->group_count; g++) TRY(copy_group(s, e, g, true));
    return TUTTI_OK;
}

enum tutti_status tutti_elastic_shards_begin(struct tutti_elastic_shards *s, struct tutti_elastic *e,
                                             struct tutti_shards **shards, int *is_first)
{
    *shards = NULL;
    *is_first = 0;
    TRY(check_loop(s, e));
    if (e->shards == NULL) TRY(make(s, e));
    *is_first = s->numbers[IS_SET] <= 0;
    *shards = e->shards;
    return TUTTI_OK;
}

enum tutti_status tutti_elastic_shards_keep(struct tutti_elastic_shards *s, struct tutti_elastic *e)
{
    struct tutti_shards_counters counters = {.size_bytes = sizeof counters};
    TRY(check_loop(s, e));
    if (e->shards == NULL)
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "tutti_elastic_shards_keep: tutti_elastic_shards_begin has made no shards");
    for (size_t g = 0; g < s->group_count; g++) TRY(copy_group(s, e, g, false));
    TRY(tutti_shards_count(e->shards, &counters));
    s->numbers[IS_SET] = 1;
    s->numbers[STEPS] = (double)counters.steps;
    s->numbers[GOOD_STEPS] = (double)counters.good_steps;
    s->numbers[LOSS_SCALE] = tutti_shards_loss_scale(e->shards);
    return TUTTI_OK;
}
