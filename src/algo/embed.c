#include "algo/embed.h"

#include <stdlib.h>

int embed_rank(const struct embedding *embedding, int rank)
{
    return embedding->ranks == NULL ? rank : embedding->ranks[rank];
}

static int compare_ranks(const void *one, const void *other)
{
    const int a = *(const int *)one, b = *(const int *)other;
    return (a > b) - (a < b);
}

static int own_rank(const struct embedder *embedder)
{
    return embed_rank(&embedder->of, embedder->of.plan->rank);
}

static bool is_root(const struct embedder *embedder)
{
    return own_rank(embedder) == embedder->root;
}

/* The group without the root, which has everything. Takes it out of the members. */
static int declare_others(const struct embedder *embedder, int group, int *members, int count)
{
    int left = 0;
    for (int i = 0; i < count; i++)
        if (members[i] != embedder->root) members[left++] = members[i];
    if (left == count) return group;
    return left < 2 || is_root(embedder) ? PLAN_NO_GROUP
                                         : plan_group(embedder->builder, members, left);
}

static bool declare_groups(struct embedder *embedder)
{
    const struct rank_plan *plan = embedder->of.plan;
    if (plan->group_count == 0) return true;
    int *members = malloc(sizeof *members * (size_t)plan->shape.rank_count);
    const size_t group_bytes = sizeof *embedder->groups * (size_t)plan->group_count;
    embedder->groups = malloc(group_bytes);
    embedder->other_groups = malloc(group_bytes);
    if (members == NULL || embedder->groups == NULL || embedder->other_groups == NULL) {
        free(members);
        return false;
    }
    for (uint32_t g = 0; g < plan->group_count; g++) {
        const struct plan_group *group = &plan->groups[g];
        const int count = (int)group->member_count;
        for (uint32_t i = 0; i < group->member_count; i++)
            members[i] = embed_rank(&embedder->of, plan->members[group->first_member + i]);
        qsort(members, group->member_count, sizeof *members, compare_ranks);
        embedder->groups[g] = plan_group(embedder->builder, members, count);
        embedder->other_groups[g] = declare_others(embedder, embedder->groups[g], members, count);
    }
    free(members);
    return true;
}

/* The whole's group for a group of the plan, for messages that `sender` sends; `sender` is a rank
 * of the whole. */
static int group_for(const struct embedder *embedder, int sender, int group)
{
    return sender == embedder->root ? embedder->groups[group] : embedder->other_groups[group];
}

static bool is_uneven(const struct embedding *embedding)
{
    return embedding->starts != NULL;
}

static uint32_t width_of(const struct embedding *embedding, uint32_t class)
{
    return embedding->starts[class + 1] - embedding->starts[class];
}

static uint32_t chunks_of(const struct rank_plan *plan, enum plan_buffer buffer)
{
    if (buffer == PLAN_SCRATCH) return plan->scratch_count;
    return plan_chunk_count(&plan->shape, plan->rank, buffer);
}

/* Lays out the chunks of one of the plan's buffers: finds where each begins. */
static bool lay_out(struct embedder *embedder, enum plan_buffer buffer)
{
    const struct embedding *of = &embedder->of;
    const uint32_t count = chunks_of(of->plan, buffer);
    const uint32_t *given = buffer == PLAN_INPUT    ? of->input_at
                            : buffer == PLAN_OUTPUT ? of->output_at
                                                    : NULL;
    uint32_t next = buffer == PLAN_INPUT    ? of->input.first
                    : buffer == PLAN_OUTPUT ? of->output.first
                                            : embedder->first_scratch;
    uint32_t *at = malloc(sizeof *at * ((size_t)count + 1));
    embedder->at[buffer] = at;
    if (at == NULL) return false;
    for (uint32_t i = 0; i < count; i++) {
        at[i] = given != NULL ? given[i] : next;
        next += width_of(of, plan_location_class(of->plan, buffer, i));
    }
    return true;
}

/* Chunks of the whole for a scratch chunk of the plan. */
static void declare_scratch(struct embedder *embedder, uint32_t class, bool *is_first)
{
    const struct embedding *of = &embedder->of;
    const uint32_t count = is_uneven(of) ? width_of(of, class) : of->scale;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t like = is_uneven(of) ? of->like[of->starts[class] + i]
                                            : of->first_class + class * of->scale + i;
        const uint32_t chunk = plan_scratch(embedder->builder, like);
        if (*is_first) embedder->first_scratch = chunk;
        *is_first = false;
    }
}

bool embedder_init(struct embedder *embedder, const struct embedding *embedding,
                   const struct plan_shape *whole, struct plan_builder *builder)
{
    const struct rank_plan *plan = embedding->plan;
    *embedder =
        (struct embedder){.of = *embedding,
                          .builder = builder,
                          .whole = whole,
                          .root = plan_has_all(whole, whole->root) ? whole->root : EMBED_NO_ROOT};
    if (!declare_groups(embedder)) {
        embedder_release(embedder);
        return false;
    }
    bool is_first = true;
    for (uint32_t i = 0; i < plan->scratch_count; i++)
        declare_scratch(embedder, plan->scratch_like[i], &is_first);
    for (int buffer = 0; is_uneven(embedding) && buffer < PLAN_BUFFER_COUNT; buffer++)
        if (!lay_out(embedder, (enum plan_buffer)buffer)) {
            embedder_release(embedder);
            return false;
        }
    return true;
}

void embedder_release(struct embedder *embedder)
{
    free(embedder->groups);
    free(embedder->other_groups);
    embedder->groups = embedder->other_groups = NULL;
    for (int buffer = 0; buffer < PLAN_BUFFER_COUNT; buffer++) {
        free(embedder->at[buffer]);
        embedder->at[buffer] = NULL;
    }
}

struct plan_location embed_place(const struct embedder *embedder, struct plan_location place)
{
    const struct plan_location scratch = {PLAN_SCRATCH, embedder->first_scratch};
    const struct plan_location base = place.buffer == PLAN_INPUT    ? embedder->of.input
                                      : place.buffer == PLAN_OUTPUT ? embedder->of.output
                                                                    : scratch;
    if (is_uneven(&embedder->of))
        return (struct plan_location){base.buffer, embedder->at[place.buffer][place.first]};
    return (struct plan_location){base.buffer, base.first + place.first * embedder->of.scale};
}

/* Some place of the step, from which its classes are known: where it reads or where it writes. */
static bool find_place(const struct rank_plan *plan, const struct plan_step *step,
                       struct plan_location *place)
{
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &plan->sources[step->first_source + i];
        if (source->is_link) continue;
        *place = source->location;
        return true;
    }
    *place = step->destination;
    return step->has_destination;
}

uint32_t embed_chunk_count(const struct embedder *embedder, const struct plan_step *step)
{
    const struct embedding *of = &embedder->of;
    if (!is_uneven(of)) return step->chunk_count * of->scale;
    struct plan_location place;
    uint32_t count = 0;
    if (!find_place(of->plan, step, &place)) return step->chunk_count; /* see embed_fits */
    for (uint32_t i = 0; i < step->chunk_count; i++)
        count += width_of(of, plan_location_class(of->plan, place.buffer, place.first + i));
    return count;
}

static bool lies_in_one_piece(const struct embedder *embedder, struct plan_location place,
                              uint32_t count)
{
    const uint32_t *at = embedder->at[place.buffer];
    uint32_t end = at[place.first];
    for (uint32_t i = 0; i < count; i++) {
        if (at[place.first + i] != end) return false;
        end += width_of(&embedder->of,
                        plan_location_class(embedder->of.plan, place.buffer, place.first + i));
    }
    return true;
}

bool embed_fits(const struct embedder *embedder, const struct plan_step *step)
{
    const struct rank_plan *plan = embedder->of.plan;
    struct plan_location place;
    if (!is_uneven(&embedder->of)) return true;
    if (!find_place(plan, step, &place)) return false;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &plan->sources[step->first_source + i];
        if (!source->is_link && !lies_in_one_piece(embedder, source->location, step->chunk_count))
            return false;
    }
    return !step->has_destination ||
           lies_in_one_piece(embedder, step->destination, step->chunk_count);
}

/* The root has in its input all that it stores in its output, even if the plan brings it from
 * elsewhere. */
static bool lies_in_input(const struct embedder *embedder, const struct plan_step *step,
                          const struct plan_source *source, struct plan_location *place)
{
    if (!is_root(embedder) || !step->has_destination ||
        (!source->is_link && embed_place(embedder, source->location).buffer != PLAN_SCRATCH))
        return false;
    *place = embed_place(embedder, step->destination);
    if (place->buffer != PLAN_OUTPUT) return false;
    *place = (struct plan_location){
        PLAN_INPUT, plan_chunk_class(embedder->whole, embedder->root, PLAN_OUTPUT, place->first)};
    return true;
}

bool embed_source_place(const struct embedder *embedder, const struct plan_step *step, uint32_t i,
                        struct plan_location *place)
{
    const struct plan_source *source = &embedder->of.plan->sources[step->first_source + i];
    if (lies_in_input(embedder, step, source, place)) return true;
    if (!source->is_link) *place = embed_place(embedder, source->location);
    return !source->is_link;
}

static void receive(const struct embedder *embedder, const struct plan_source *source)
{
    const int peer = embed_rank(&embedder->of, source->peer);
    if (is_root(embedder))
        plan_fail(embedder->builder, TUTTI_INVALID_ALGORITHM,
                  "the root of a composed plan would receive what it does not keep");
    plan_channel(embedder->builder, embedder->of.first_channel + source->channel);
    if (source->group == PLAN_NO_GROUP)
        plan_receive(embedder->builder, peer);
    else
        plan_receive_group(embedder->builder, peer, group_for(embedder, peer, source->group));
}

void embed_sources(const struct embedder *embedder, const struct plan_step *step)
{
    struct plan_location place;
    for (uint32_t i = 0; i < step->source_count; i++) {
        if (embed_source_place(embedder, step, i, &place))
            plan_read(embedder->builder, place.buffer, place.first);
        else
            receive(embedder, &embedder->of.plan->sources[step->first_source + i]);
    }
}

static int target_at(const struct embedder *embedder, const struct plan_step *step, uint32_t i)
{
    return embed_rank(&embedder->of, embedder->of.plan->targets[step->first_target + i]);
}

static int target_group(const struct embedder *embedder, const struct plan_step *step)
{
    if (step->target_group == PLAN_NO_GROUP) return PLAN_NO_GROUP;
    return group_for(embedder, own_rank(embedder), step->target_group);
}

bool embed_sends(const struct embedder *embedder, const struct plan_step *step)
{
    for (uint32_t i = 0; i < step->target_count; i++)
        if (target_at(embedder, step, i) != embedder->root) return true;
    return target_group(embedder, step) != PLAN_NO_GROUP;
}

void embed_targets(const struct embedder *embedder, const struct plan_step *step)
{
    const int group = target_group(embedder, step);
    if (!embed_sends(embedder, step)) return;
    plan_channel(embedder->builder, embedder->of.first_channel + step->target_channel);
    if (group != PLAN_NO_GROUP) plan_send_group(embedder->builder, group);
    for (uint32_t i = 0; i < step->target_count; i++)
        if (target_at(embedder, step, i) != embedder->root)
            plan_send(embedder->builder, target_at(embedder, step, i));
}
