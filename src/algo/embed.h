/* embed.h - a small plan at its place in a larger one: on some of the ranks and of the chunks.
 *
 *     the whole   0  1  2  3  4  5     the small plan's rank i is rank ranks[i] of the whole; its
 *                    |     |  |        chunk i becomes `scale` chunks of the whole, from the given
 *     small          0     1  2        places on; groups, scratch and channels are renumbered
 *
 * What moves between ranks and what is added stays the same, so a small plan that does its
 * collective does it on those chunks of the whole. Whether the whole is right is for plan_verify to
 * say.
 */
#ifndef TUTTI_ALGO_EMBED_H
#define TUTTI_ALGO_EMBED_H

#include "plan/build.h"
#include "plan/plan.h"

struct embedding {
    const struct rank_plan *plan; /* NULL: this rank has no part in it */
    const int *ranks;     /* ascending, plan->shape.rank_count of them; NULL: the same numbers */
    uint32_t scale;       /* chunks of the whole in one of the plan */
    uint32_t first_class; /* of the whole, for the plan's class 0 */
    struct plan_place input, output; /* where the plan's first chunk of that buffer lies */
    int first_channel;
    bool partial; /* what the plan completes is not yet complete in the whole: nothing is `final` */
};

/* The embedding, prepared for one builder: the borrowed parts must outlive it. */
struct embedder {
    struct embedding of;
    struct plan_builder *builder;
    uint32_t first_scratch;
    int *groups; /* number in the whole, per group of the plan */
};

/* Declares scratch and groups of embedding->plan (which is not NULL) in the builder.  False when
 * out of memory (nothing to release then); what does not fit the builder sticks there. */
bool embedder_init(struct embedder *embedder, const struct embedding *embedding,
                   struct plan_builder *builder);
void embedder_release(struct embedder *embedder);

int embed_rank(const struct embedding *embedding, int rank);
struct plan_place embed_place(const struct embedder *embedder, struct plan_place place);
/* What a step of the plan says, for the builder's step that is begun: */
void embed_sources(const struct embedder *embedder, const struct plan_step *step);
void embed_targets(const struct embedder *embedder, const struct plan_step *step);

#endif
