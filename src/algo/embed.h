/* embed.h - a small plan at its place in a larger one: on some of the ranks and of the chunks.
 *
 *     the whole   0  1  2  3  4  5     the small plan's rank i is rank ranks[i] of the whole; its
 *                    |     |  |        chunk i becomes `scale` chunks of the whole, from the given
 *     small          0     1  2        places on; groups, scratch and channels are renumbered
 *
 * The messages and the sums stay the same, so a small plan that does its collective does it on
 * those chunks of the whole. plan_verify says whether the whole is right.
 *
 * An uneven embedding gives each class of the plan its own number of chunks, where its ranks have
 * shares of different sizes; it says what they are like and where they lie:
 *
 *     class of the plan      0      1        2      3          starts   0 2 3 3 5
 *     like                  [6 7]  [0]      [ ]    [3 4]       like     6 7 0 3 4
 *
 * Steps on a class of which the whole has no chunk, such as 2, are left out, on all ranks alike.
 *
 * The root of a whole that is a broadcast or a scatter has everything (plan_has_all), and in place
 * it must not store it again. So no rank sends to it, and it reads from its input what it would
 * receive, or copy from scratch.
 */
#ifndef TUTTI_ALGO_EMBED_H
#define TUTTI_ALGO_EMBED_H

#include "plan/build.h"
#include "plan/plan.h"

struct embedding {
    const struct rank_plan *plan;       /* NULL: this rank has no part in it */
    const int *ranks;                   /* plan->shape.rank_count of them; NULL: the same numbers */
    uint32_t scale;                     /* chunks of the whole in one of the plan */
    uint32_t first_class;               /* of the whole, for the plan's class 0 */
    struct plan_location input, output; /* where the plan's first chunk of that buffer lies */
    /* Uneven, in place of scale and first_class: the plan's class c is like the classes
     * like[starts[c]] .. like[starts[c+1]-1] of the whole.  NULL: even. */
    const uint32_t *starts, *like;
    /* The chunk of input.buffer and output.buffer at which each chunk of the plan begins, if the
     * plan is uneven; NULL: each follows the previous chunk. A range of several chunks has to lie
     * in one piece. */
    const uint32_t *input_at, *output_at;
    int first_channel;
    bool partial; /* a result of the plan is not yet complete in the whole: no step is `final` */
};

enum { EMBED_NO_ROOT = -1 };

/* The embedding, prepared for one builder: the borrowed parts, and the shape, must outlive it. */
struct embedder {
    struct embedding of;
    struct plan_builder *builder;
    const struct plan_shape *whole;
    int root; /* of the whole, where that has everything; or EMBED_NO_ROOT */
    uint32_t first_scratch;
    int *groups; /* number in the whole, per group of the plan */
    /* The same without the root, for messages of others: PLAN_NO_GROUP if that leaves no rank to
     * send to. */
    int *other_groups;
    uint32_t *at[PLAN_BUFFER_COUNT]; /* uneven: where each chunk of the plan begins */
};

/* Declares scratch and groups of embedding->plan (which is not NULL) in the builder of the whole.
 * False when out of memory (nothing to release then). If something does not fit the builder, the
 * builder keeps that error. */
bool embedder_init(struct embedder *embedder, const struct embedding *embedding,
                   const struct plan_shape *whole, struct plan_builder *builder);
void embedder_release(struct embedder *embedder);

int embed_rank(const struct embedding *embedding, int rank);
/* Chunks of the whole that a step of the plan acts on; 0 where it is left out, and in barriers. */
uint32_t embed_chunk_count(const struct embedder *embedder, const struct plan_step *step);
/* Whether each range of the step lies in one piece. */
bool embed_fits(const struct embedder *embedder, const struct plan_step *step);
struct plan_location embed_place(const struct embedder *embedder, struct plan_location place);
/* Source number i of the step, where that is a place and no link in the whole. */
bool embed_source_place(const struct embedder *embedder, const struct plan_step *step, uint32_t i,
                        struct plan_location *place);
/* Whether the step sends to any rank in the whole. */
bool embed_sends(const struct embedder *embedder, const struct plan_step *step);
/* Add the parts of a step of the plan to the builder's step that is begun: */
void embed_sources(const struct embedder *embedder, const struct plan_step *step);
void embed_targets(const struct embedder *embedder, const struct plan_step *step);

#endif
