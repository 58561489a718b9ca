#include "algo/embed.h"

#include <stdlib.h>

int embed_rank(const struct embedding *embedding, int rank)
{
    return embedding->ranks == NULL ? rank : embedding->ranks[rank];
}

static bool declare_groups(struct embedder *embedder)
{
    const struct rank_plan *plan = embedder->of.plan;
    int *members = malloc(sizeof *members * (size_t)plan->shape.rank_count);
    if (members == NULL) return false;
    for (uint32_t g = 0; g < plan->group_count; g++) {
        const struct plan_group *group = &plan->groups[g];
        for (uint32_t i = 0; i < group->member_count; i++)
            members[i] = embed_rank(&embedder->of, plan->members[group->first_member + i]);
        embedder->groups[g] = plan_group(embedder->builder, members, (int)group->member_count);
    }
    free(members);
    return true;
}

bool embedder_init(struct embedder *embedder, const struct embedding *embedding,
                   struct plan_builder *builder)
{
    const struct rank_plan *plan = embedding->plan;
    *embedder = (struct embedder){.of = *embedding, .builder = builder};
    embedder->groups = malloc(sizeof *embedder->groups * ((size_t)plan->group_count + 1));
    if (embedder->groups == NULL || !declare_groups(embedder)) {
        embedder_release(embedder);
        return false;
    }
    for (uint32_t i = 0; i < plan->scratch_count; i++)
        for (uint32_t k = 0; k < embedding->scale; k++) {
            const uint32_t like =
                embedding->first_class + plan->scratch_like[i] * embedding->scale + k;
            const uint32_t chunk = plan_scratch(builder, like);
            if (i == 0 && k == 0) embedder->first_scratch = chunk;
        }
    return true;
}

void embedder_release(struct embedder *embedder)
{
    free(embedder->groups);
    embedder->groups = NULL;
}

struct plan_place embed_place(const struct embedder *embedder, struct plan_place place)
{
    const struct plan_place scratch = {PLAN_SCRATCH, embedder->first_scratch};
    const struct plan_place base = place.buffer == PLAN_INPUT    ? embedder->of.input
                                   : place.buffer == PLAN_OUTPUT ? embedder->of.output
                                                                 : scratch;
    return (struct plan_place){base.buffer, base.first + place.first * embedder->of.scale};
}

void embed_sources(const struct embedder *embedder, const struct plan_step *step)
{
    const struct rank_plan *plan = embedder->of.plan;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &plan->sources[step->first_source + i];
        if (!source->is_link) {
            const struct plan_place place = embed_place(embedder, source->place);
            plan_read(embedder->builder, place.buffer, place.first);
            continue;
        }
        const int peer = embed_rank(&embedder->of, source->peer);
        plan_channel(embedder->builder, embedder->of.first_channel + source->channel);
        if (source->group == PLAN_NO_GROUP)
            plan_receive(embedder->builder, peer);
        else
            plan_receive_group(embedder->builder, peer, embedder->groups[source->group]);
    }
}

void embed_targets(const struct embedder *embedder, const struct plan_step *step)
{
    const struct rank_plan *plan = embedder->of.plan;
    if (step->target_count == 0 && step->target_group == PLAN_NO_GROUP) return;
    plan_channel(embedder->builder, embedder->of.first_channel + step->target_channel);
    if (step->target_group != PLAN_NO_GROUP)
        plan_send_group(embedder->builder, embedder->groups[step->target_group]);
    for (uint32_t i = 0; i < step->target_count; i++)
        plan_send(embedder->builder,
                  embed_rank(&embedder->of, plan->targets[step->first_target + i]));
}
