#include "algo/hierarchical_design.h"

#include <stdlib.h>

static const char OUT_OF_MEMORY[] = "out of memory while a hierarchical plan was made";

struct design_part {
    enum collective collective;
    algo_generate *generate;
    int member_count, index, root;
    struct rank_plan *plan;
};

/* --------------------------------------------------------------------------------------- memory */

static void design_fail(struct design *d)
{
    plan_fail(d->b, TUTTI_NO_MEMORY, OUT_OF_MEMORY);
}

bool design_failed(const struct design *d)
{
    return plan_builder_error(d->b) != NULL;
}

/* Room for one more item; NULL, and that is known, when out of memory. */
static void *grown(struct design *d, void *items, int count, int *capacity, size_t item_bytes)
{
    if (count < *capacity) return items;
    const int wanted = *capacity * 2 + 16;
    void *larger = realloc(items, (size_t)wanted * item_bytes);
    if (larger == NULL)
        design_fail(d);
    else
        *capacity = wanted;
    return larger;
}

void *design_keep(struct design *d, size_t count, size_t item_bytes)
{
    void **kept = grown(d, d->kept, d->kept_count, &d->kept_capacity, sizeof *kept);
    if (kept == NULL) return NULL;
    d->kept = kept;
    void *memory = calloc(count + 1, item_bytes);
    if (memory == NULL)
        design_fail(d);
    else
        d->kept[d->kept_count++] = memory;
    return memory;
}

uint32_t *design_keep_numbers(struct design *d, size_t count)
{
    return design_keep(d, count, sizeof(uint32_t));
}

bool design_init(struct design *d, const struct algo_params *params, int rank,
                 struct plan_builder *b)
{
    *d = (struct design){.b = b, .params = params, .rank = rank};
    if (hierarchy_init(&d->h, params->levels, params->order, params->rank_count) != TUTTI_OK) {
        design_fail(d);
        return false;
    }
    d->self = d->h.position[rank];
    d->shape = (struct plan_shape){params->collective, params->rank_count, params->root, 1};
    return true;
}

void design_release(struct design *d)
{
    for (int i = 0; i < d->part_count; i++) plan_rank_free(d->parts[i].plan);
    for (int i = 0; i < d->kept_count; i++) free(d->kept[i]);
    free(d->parts);
    free(d->kept);
    free(d->embeddings);
    hierarchy_release(&d->h);
}

void design_set_parts(struct design *d, uint32_t parts)
{
    d->shape.parts = parts;
    plan_parts(d->b, parts);
}

void design_begin_slice(struct design *d, uint32_t slice)
{
    d->slice = slice;
    d->first_channel = (int)slice * DESIGN_SLICE_CHANNELS;
    d->embedding_count = 0;
}

void design_end_slice(struct design *d)
{
    if (!design_failed(d)) compose_sequence(d->b, &d->shape, d->embeddings, d->embedding_count);
}

/* ---------------------------------------------------------------------------------------- teams */

int design_member_count_at(const struct design *d, int level, int position)
{
    return hierarchy_members(&d->h, level, hierarchy_subgroup(&d->h, level, position)).count;
}

const struct rank_plan *design_part(struct design *d, enum collective collective,
                                    algo_generate *generate, const struct subgroup *team)
{
    const int root = collective_is_rooted(collective) ? team->root : 0;
    for (int i = 0; i < d->part_count; i++) {
        const struct design_part *part = &d->parts[i];
        if (part->collective == collective && part->generate == generate && part->root == root &&
            part->member_count == team->count && part->index == team->index)
            return part->plan;
    }
    struct design_part *parts = grown(d, d->parts, d->part_count, &d->part_capacity, sizeof *parts);
    if (parts == NULL) return NULL;
    d->parts = parts;
    /* In place: the data between two plans may lie in the whole's output. */
    const struct algo_params params = {
        .collective = collective, .rank_count = team->count, .root = root, .in_place = true};
    struct rank_plan *plan;
    const char *message;
    const enum tutti_status status =
        generate_rank_plan(generate, &params, team->index, &plan, &message);
    if (status != TUTTI_OK) {
        plan_fail(d->b, status, message);
        return NULL;
    }
    d->parts[d->part_count++] =
        (struct design_part){collective, generate, team->count, team->index, root, plan};
    return plan;
}

struct embedding *design_embed(struct design *d, enum collective collective,
                               algo_generate *generate, const struct subgroup *team, int channel)
{
    const struct rank_plan *plan =
        design_failed(d) ? NULL : design_part(d, collective, generate, team);
    struct embedding *embeddings = plan == NULL ? NULL
                                                : grown(d, d->embeddings, d->embedding_count,
                                                        &d->embedding_capacity, sizeof *embeddings);
    if (embeddings == NULL) return &d->nowhere;
    d->embeddings = embeddings;
    struct embedding *embedding = &d->embeddings[d->embedding_count++];
    *embedding = (struct embedding){
        .plan = plan, .ranks = team->ranks, .scale = 1, .first_channel = d->first_channel + channel};
    return embedding;
}

/* ---------------------------------------------------------------------------------------- rails */

static int position_on(const struct design *d, const struct path *path, int level, int unit)
{
    for (int k = level - 1; k >= 0; k--) {
        const struct level_members members = hierarchy_members(&d->h, k, unit);
        unit = members.first + shard_owner(d->h.shard_count[k], members.count, path->shards[k]);
    }
    return unit;
}

struct subgroup design_team_on(struct design *d, const struct path *path, int level)
{
    const int number = hierarchy_subgroup(&d->h, level, d->self);
    const struct level_members members = hierarchy_members(&d->h, level, number);
    struct subgroup team = {.count = members.count, .index = design_member_at(d, level, d->self)};
    team.ranks = design_keep(d, (size_t)members.count, sizeof *team.ranks);
    for (int i = 0; i < members.count && team.ranks != NULL; i++)
        team.ranks[i] = d->h.order[position_on(d, path, level, members.first + i)];
    return team;
}

struct shards design_shards(const struct design *d, int level, const struct subgroup *team,
                            int member)
{
    const int count = d->h.shard_count[level];
    return (struct shards){shard_first(count, team->count, member),
                           shard_first(count, team->count, member + 1)};
}
