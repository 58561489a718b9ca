/* hierarchical_design.h - the tools of the hierarchical algorithms: small plans, each embedded in
 * one team of the hierarchy after another, and composed.
 *
 *     design_init
 *         for each slice   design_begin_slice
 *                              design_embed, design_embed, ..      in the order in which they come
 *                          design_end_slice
 *     design_release
 *
 * Errors stick in the builder; until a caller looks, further calls have no effect.
 */
#ifndef TUTTI_ALGO_HIERARCHICAL_DESIGN_H
#define TUTTI_ALGO_HIERARCHICAL_DESIGN_H

#include "algo/compose.h"
#include "algo/levels.h"

/* Slices take their way through all levels in lanes and on channels of their own: while one is on
 * the network another one is in the hosts.  Two channels are what rings and circulant graphs take,
 * and transports have four. In a host the way back has its own one, since it goes to groups. */
enum { DESIGN_SLICES = 2, DESIGN_SLICE_CHANNELS = 2, DESIGN_GATHER_CHANNEL = 1 };

struct design_part; /* a small plan that may be used in several places */

struct design {
    struct plan_builder *b;
    const struct algo_params *params;
    struct hierarchy h;
    int rank, self; /* this rank and its position */
    struct plan_shape shape;
    int first_channel; /* of the slice that is being written */
    uint32_t slice;
    struct embedding *embeddings;
    int embedding_count, embedding_capacity;
    struct embedding nowhere; /* takes what is written when there is no memory */
    struct design_part *parts;
    int part_count, part_capacity;
    void **kept; /* memory that embeddings borrow */
    int kept_count, kept_capacity;
};

/* False, and nothing to release, when out of memory. */
bool design_init(struct design *design, const struct algo_params *params, int rank,
                 struct plan_builder *builder);
void design_release(struct design *design);
bool design_failed(const struct design *design);

/* Zeroed memory that lives as long as the design; NULL when there is none. */
void *design_keep(struct design *design, size_t count, size_t item_bytes);
uint32_t *design_keep_numbers(struct design *design, size_t count);

/* Chunks in a block; before anything else. */
void design_set_parts(struct design *design, uint32_t parts);
void design_begin_slice(struct design *design, uint32_t slice);
void design_end_slice(struct design *design);

/* ------------------------------------------------------------------------------- teams of ranks */

/* Some ranks with a job, one of each unit of a team of the hierarchy. */
struct subgroup {
    int count, index; /* members; this rank among them */
    int root;         /* whose job is special, if anybody's */
    int *ranks;
};

/* The member of its team that a position belongs to, and how many there are. */
static inline int design_member_at(const struct design *design, int level, int position)
{
    return hierarchy_member(&design->h, level, position);
}
int design_member_count_at(const struct design *design, int level, int position);

/* The small plan of this rank, by that generator of the collective; NULL when the design failed. */
const struct rank_plan *design_part(struct design *design, enum collective collective,
                                    algo_generate *generate, const struct subgroup *team);
/* The place of that plan in the whole; its chunks and classes have still to be filled in. Never
 * NULL; valid until the next call. */
struct embedding *design_embed(struct design *design, enum collective collective,
                               algo_generate *generate, const struct subgroup *team, int channel);

/* ---------------------------------------------------------------------------------------- rails */

/* A path names a shard of a shard of ..: shards[k] is the one at level k.  Every unit has one rank
 * on a path. */
struct path {
    int shards[ALGO_LEVELS_MAX];
};

/* This rank's team at that level, of those on the path; it has to be one of them. */
struct subgroup design_team_on(struct design *design, const struct path *path, int level);

/* The shards of a member of a team at that level. */
struct shards {
    int first, end;
};
struct shards design_shards(const struct design *design, int level, const struct subgroup *team,
                            int member);

#endif
