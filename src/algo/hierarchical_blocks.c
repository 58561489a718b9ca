/* hierarchical_blocks.c - reduce_scatter and allgather of ranks on hosts: every rank drives a rail
 * (see hierarchical.c).
 *
 *     allgather, two hosts of three ranks
 *     rank 0   a          across     a d          in the host      a b c d e f
 *     rank 1   b          <----->    b e          <--------->      a b c d e f
 *     rank 2   c                     c f                           a b c d e f
 *     rank 3   d          with       a d
 *     rank 4   e          equals     b e          first the blocks of one host, then of the next
 *     rank 5   f                     c f          reduce_scatter is the way back
 *
 * A block's path is one on which its rank stands for all its units.  On a rail travel the blocks of
 * its path, of each top unit one at most.  In reduce_scatter those that a member of a team collects
 * on its way up, in allgather those that it hands on on its way down, are the same: round t of a
 * level is a small plan with the t-th of each member.
 *
 * Cost for N hosts of L ranks, across hosts: (N-1) alpha + (N-1)/N n/L beta, around rings, for n
 * bytes of all blocks together: the fewest bytes.  Each further level adds its rounds.  Uneven
 * hosts: a rank has the shards that it has in hierarchical.c, so a card of the smallest host
 * carries the most.
 *
 * Blocks are sent from where they lie and gathered where they belong; sums that are under way lie
 * in scratch.  A commutative operation; any levels, ranks in any order.
 *
 * Source: Cho et al. 2019 (see hierarchical.c).
 */
#include "algo/generators.h"
#include "algo/hierarchical_design.h"

struct blocks {
    int count;
    int *positions;
    uint32_t *at; /* chunk in the buffer that they lie in */
};

struct block_design {
    struct design d;
    algo_generate *in_host, *above;
};

/* The member of a team that handles the block of a position. */
static int member_for(const struct design *d, int level, const struct subgroup *team, int position)
{
    if (level == d->h.top) return d->h.unit_of[level][position];
    return shard_owner(d->h.shard_count[level], team->count,
                       hierarchy_block_shard(&d->h, level, position));
}

/* Sorts the blocks by member: member m has the blocks first[m] .. first[m+1]-1. */
static int *sort_by_member(struct design *d, int level, const struct subgroup *team,
                           struct blocks *blocks)
{
    int *first = design_keep(d, (size_t)team->count + 2, sizeof *first);
    struct blocks sorted = {blocks->count, design_keep(d, (size_t)blocks->count, sizeof(int)),
                            design_keep_numbers(d, (size_t)blocks->count)};
    if (design_failed(d)) return NULL;
    for (int i = 0; i < blocks->count; i++)
        first[member_for(d, level, team, blocks->positions[i]) + 2]++;
    for (int m = 0; m < team->count; m++) first[m + 2] += first[m + 1];
    for (int i = 0; i < blocks->count; i++) {
        const int to = first[member_for(d, level, team, blocks->positions[i]) + 1]++;
        sorted.positions[to] = blocks->positions[i];
        sorted.at[to] = blocks->at[i];
    }
    *blocks = sorted;
    return first;
}

static int most_of_a_member(const int *first, int member_count)
{
    int most = 0;
    for (int m = 0; m < member_count; m++)
        if (first[m + 1] - first[m] > most) most = first[m + 1] - first[m];
    return most;
}

static uint32_t class_of_block(const struct design *d, int position)
{
    return (uint32_t)d->h.order[position] * d->shape.parts + d->slice;
}

/* The classes of round t, one of each member that has as many; and where those blocks lie. */
static uint32_t *round_of(struct design *d, const struct blocks *blocks, const int *first,
                          int member_count, int t, struct embedding *embedding)
{
    const size_t count = (size_t)member_count;
    uint32_t *starts = design_keep_numbers(d, count + 1), *like = design_keep_numbers(d, count),
             *at = design_keep_numbers(d, count);
    if (design_failed(d)) return at;
    for (int m = 0; m < member_count; m++) {
        const int block = first[m] + t;
        starts[m + 1] = starts[m];
        if (block >= first[m + 1]) continue;
        like[starts[m]] = class_of_block(d, blocks->positions[block]);
        at[m] = blocks->at[block];
        starts[m + 1]++;
    }
    embedding->starts = starts;
    embedding->like = like;
    return at;
}

/* The places for a member's sums of blocks. At the top the only block is the member's own, and only
 * if the member is on this path. */
static uint32_t *declare_sums(struct design *d, int level, const struct blocks *own)
{
    uint32_t *sums = design_keep_numbers(d, (size_t)own->count);
    for (int i = 0; i < own->count && !design_failed(d); i++)
        sums[i] =
            level == d->h.top ? d->slice : plan_scratch(d->b, class_of_block(d, own->positions[i]));
    return sums;
}

/* The member's blocks that lie in shard `shard`. */
static struct blocks blocks_in_shard(struct design *d, int level, const struct blocks *own,
                                     int shard)
{
    struct blocks found = {0, design_keep(d, (size_t)own->count, sizeof(int)),
                           design_keep_numbers(d, (size_t)own->count)};
    for (int i = 0; i < own->count && !design_failed(d); i++) {
        if (hierarchy_block_shard(&d->h, level, own->positions[i]) != shard) continue;
        found.positions[found.count] = own->positions[i];
        found.at[found.count++] = own->at[i];
    }
    return found;
}

static bool is_in_host(const struct block_design *s, int level)
{
    return level == 0 && s->d.h.has_hosts;
}

static void reduce_blocks_on(struct block_design *s, int level, struct path path,
                             struct blocks blocks, enum plan_buffer from)
{
    struct design *d = &s->d;
    const struct subgroup team = design_team_on(d, &path, level);
    const int *first = design_failed(d) ? NULL : sort_by_member(d, level, &team, &blocks);
    if (first == NULL) return;
    struct blocks own = {first[team.index + 1] - first[team.index],
                         blocks.positions + first[team.index], blocks.at + first[team.index]};
    if (team.count > 1) {
        uint32_t *sums = declare_sums(d, level, &own);
        const enum plan_buffer to = level == d->h.top ? PLAN_OUTPUT : PLAN_SCRATCH;
        for (int t = 0; t < most_of_a_member(first, team.count) && !design_failed(d); t++) {
            struct embedding *scatter =
                design_embed(d, COLLECTIVE_REDUCE_SCATTER,
                             is_in_host(s, level) ? s->in_host : s->above, &team, 0);
            scatter->input = (struct plan_location){from, 0};
            scatter->output = (struct plan_location){to, t < own.count ? sums[t] : 0};
            scatter->input_at = round_of(d, &blocks, first, team.count, t, scatter);
            scatter->partial = level < d->h.top;
        }
        own.at = sums;
        from = to;
    }
    if (level == d->h.top || design_failed(d)) return;
    const struct shards shards = design_shards(d, level, &team, team.index);
    for (int shard = shards.first; shard < shards.end && !design_failed(d); shard++) {
        path.shards[level] = shard;
        reduce_blocks_on(s, level + 1, path, blocks_in_shard(d, level, &own, shard), from);
    }
}

static void gather_blocks_on(struct block_design *s, int level, struct path path,
                             struct blocks blocks)
{
    struct design *d = &s->d;
    const struct subgroup team = design_team_on(d, &path, level);
    const int *first = design_failed(d) ? NULL : sort_by_member(d, level, &team, &blocks);
    if (first == NULL) return;
    const struct blocks own = {first[team.index + 1] - first[team.index],
                               blocks.positions + first[team.index], blocks.at + first[team.index]};
    if (level < d->h.top) {
        const struct shards shards = design_shards(d, level, &team, team.index);
        for (int shard = shards.first; shard < shards.end && !design_failed(d); shard++) {
            path.shards[level] = shard;
            gather_blocks_on(s, level + 1, path, blocks_in_shard(d, level, &own, shard));
        }
    }
    for (int t = 0; team.count > 1 && t < most_of_a_member(first, team.count) && !design_failed(d);
         t++) {
        struct embedding *gather =
            design_embed(d, COLLECTIVE_ALLGATHER, is_in_host(s, level) ? s->in_host : s->above,
                         &team, is_in_host(s, level) ? DESIGN_GATHER_CHANNEL : 0);
        gather->input = level == d->h.top
                            ? (struct plan_location){PLAN_INPUT, d->slice}
                            : (struct plan_location){PLAN_OUTPUT, t < own.count ? own.at[t] : 0};
        gather->output = (struct plan_location){PLAN_OUTPUT, 0};
        gather->output_at = round_of(d, &blocks, first, team.count, t, gather);
    }
}

/* Every rank's block, in a buffer that holds them all. */
static struct blocks all_blocks(struct design *d)
{
    const int count = d->h.rank_count;
    struct blocks blocks = {count, design_keep(d, (size_t)count, sizeof(int)),
                            design_keep_numbers(d, (size_t)count)};
    for (int i = 0; i < count && !design_failed(d); i++) {
        blocks.positions[i] = i;
        blocks.at[i] = class_of_block(d, i);
    }
    return blocks;
}

static void blocks_by(const struct algo_params *params, int rank, struct plan_builder *b,
                      algo_generate *in_host, algo_generate *above)
{
    struct block_design s = {.in_host = in_host, .above = above};
    if (!design_init(&s.d, params, rank, b)) return;
    design_set_parts(&s.d, DESIGN_SLICES);
    for (uint32_t slice = 0; slice < DESIGN_SLICES && !design_failed(&s.d); slice++) {
        design_begin_slice(&s.d, slice);
        const struct blocks blocks = all_blocks(&s.d);
        if (params->collective == COLLECTIVE_REDUCE_SCATTER)
            reduce_blocks_on(&s, 0, (struct path){{0}}, blocks, PLAN_INPUT);
        else
            gather_blocks_on(&s, 0, (struct path){{0}}, blocks);
        design_end_slice(&s.d);
    }
    design_release(&s.d);
}

void hierarchical_reduce_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    blocks_by(params, rank, b, mesh_reduce_scatter, ring_reduce_scatter);
}

void hierarchical_direct_reduce_scatter(const struct algo_params *params, int rank,
                                        struct plan_builder *b)
{
    blocks_by(params, rank, b, mesh_reduce_scatter, mesh_reduce_scatter);
}

void hierarchical_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    blocks_by(params, rank, b, mesh_allgather, ring_allgather);
}
