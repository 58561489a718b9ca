/* hierarchical.c - plans for hosts, racks and so on: each level has an algorithm of its own,
 * embedded (embed.h) in the ranks of one team after another and composed (compose.h) to one plan.
 *
 *     two hosts of three ranks      in the host          across          in the host
 *     rank 0   a b c                A . .   \            A . .           A B C
 *     rank 1   a b c                . B .    }  rails    . B .           A B C
 *     rank 2   a b c                . . C    }  between  . . C           A B C
 *     --------                               }  equals
 *     rank 3   a b c                A . .    }           A . .           A B C
 *     rank 4   a b c                . B .   /            . B .           A B C
 *     rank 5   a b c                . . C                . . C           A B C
 *                                 reduce_scatter       allreduce       allgather
 *
 * `hierarchical`: every rank of a host drives a *rail*, its shard's way across hosts, so that all
 * network cards of a host are busy.  With racks the middle part is the same once more, between the
 * hosts of a rack.  `hierarchical_ring` uses rings above the host instead of circulant graphs.
 * `hierarchical_direct` sends sums straight to their owners on each level: links that round
 * (plan/rounding.h) then round a sum once a level.  `hierarchical_tree`: one leader a team, for few
 * bytes.
 *
 * Cost for N hosts of L ranks (a = alpha, b = beta across hosts; the work in a host comes on top,
 * and overlaps with it), n bytes of a vector or of all blocks together:
 *
 *     allreduce       hierarchical        2 lg N a + 2 (N-1)/N n/L b     the least there can be
 *                     hierarchical_ring   2 (N-1) a + 2 (N-1)/N n/L b
 *                     hierarchical_direct N a + 2 (N-1)/N n/L b
 *                     hierarchical_tree   lg N (a + n b)                 at the leader only
 *     reduce_scatter hierarchical_direct  a + (N-1)/N n/L b
 *     reduce_scatter, allgather           (N-1) (a + n/NL b)             the least bytes
 *     broadcast, reduce                   (S + lg N) (2 a + n/SL b)      in S pieces, on double trees
 *     gather, scatter                     lg N a + (N-1)/N n b           at the root
 *
 * Uneven teams (levels.h): a host of fewer ranks has ranks with several shards.  No card carries
 * more than 1/l of what a single card of a host would, where l is the number of ranks of the
 * smallest host; no algorithm can do better for that host's cards.
 *
 * Order.  All of a rank's teams are at work one after the other, in an order that is the same on
 * all ranks: by shard, and within a shard by level.  So teams that share ranks do not wait for each
 * other in a circle.
 *
 * This file has the vectors on rails; hierarchical_blocks.c has the blocks on rails,
 * hierarchical_leaders.c the algorithms that go through leaders, hierarchical_exchange.c all-to-all
 * and barrier.
 *
 * Positions of levels.h stand for ranks throughout: interleaved ranks get the same messages as
 * contiguous ranks. A message is packed if it is a run of positions whose ranks are no run.
 *
 * All need a commutative operation.  Any number of levels, ranks in any order, teams of any size.
 *
 * Source: Cho, Finkler, Kung, Hunter, "BlueConnect: Decomposing All-Reduce for Deep Learning on
 * Heterogeneous Network Hierarchy", MLSys 2019; Karonis, de Supinski, Foster, Gropp, Lusk,
 * Bresnahan, "Exploiting Hierarchy in Parallel Computer Networks to Optimize Collective Operation
 * Performance", IPDPS 2000, for leaders.
 */
#include "algo/generators.h"
#include "algo/hierarchical_design.h"

/* ----------------------------------------------------------------------------- vectors on rails */

/* The generators that do the work: in hosts, between the teams of the levels in between, and at the
 * top. */
struct recipe {
    algo_generate *in_host_scatter, *in_host_gather;
    algo_generate *between_scatter, *between_gather;
    algo_generate *top;
};

struct vector_design {
    struct design d;
    const struct recipe *recipe;
    const uint32_t *like;                 /* every class by its number */
    uint32_t chunks[ALGO_LEVELS_MAX + 1]; /* of the work of a team at each level */
};

/* The chunk at which each member's share begins, if a shard has `chunks` chunks. */
static uint32_t *share_starts(struct design *d, int level, const struct subgroup *team,
                              uint32_t chunks)
{
    uint32_t *starts = design_keep_numbers(d, (size_t)team->count + 1);
    for (int i = 0; i <= team->count && starts != NULL; i++)
        starts[i] = (uint32_t)design_shards(d, level, team, i).first * chunks;
    return starts;
}

/* 0, 1, 2, .. */
static uint32_t *identity(struct design *d, uint32_t count)
{
    uint32_t *numbers = design_keep_numbers(d, count);
    for (uint32_t i = 0; i < count && numbers != NULL; i++) numbers[i] = i;
    return numbers;
}

/* Chunks of a block on each level, for a plan at the top that cuts it into so many. */
static void cut_vector(struct vector_design *v, uint32_t top_parts)
{
    struct design *d = &v->d;
    v->chunks[d->h.top] = top_parts;
    for (int k = d->h.top - 1; k >= 0; k--)
        v->chunks[k] = v->chunks[k + 1] * (uint32_t)d->h.shard_count[k];
    design_set_parts(d, DESIGN_SLICES * v->chunks[0]);
    v->like = identity(d, d->shape.parts);
}

/* Reduces the chunks from `first` on, which lie in `from` and then in the output, where each is the
 * same number. */
static void allreduce_on(struct vector_design *v, int level, struct path path, uint32_t first,
                         enum plan_buffer from)
{
    struct design *d = &v->d;
    const struct recipe *recipe = v->recipe;
    const struct subgroup team = design_team_on(d, &path, level);
    const bool is_in_host = level == 0 && d->h.has_hosts;
    if (design_failed(d)) return;
    if (level == d->h.top) {
        struct embedding *top = design_embed(d, COLLECTIVE_ALLREDUCE, recipe->top, &team, 0);
        top->first_class = first;
        top->input = (struct plan_location){from, first};
        top->output = (struct plan_location){PLAN_OUTPUT, first};
        return;
    }
    const uint32_t chunks = v->chunks[level + 1];
    const uint32_t *starts = share_starts(d, level, &team, chunks);
    if (starts == NULL) return;
    const struct plan_location own = {PLAN_OUTPUT, first + starts[team.index]};
    if (team.count > 1) {
        struct embedding *scatter =
            design_embed(d, COLLECTIVE_REDUCE_SCATTER,
                         is_in_host ? recipe->in_host_scatter : recipe->between_scatter, &team, 0);
        scatter->starts = starts;
        scatter->like = v->like + first;
        scatter->input = (struct plan_location){from, first};
        scatter->output = own;
        scatter->partial = true;
        from = PLAN_OUTPUT;
    }
    const struct shards shards = design_shards(d, level, &team, team.index);
    for (int shard = shards.first; shard < shards.end; shard++) {
        path.shards[level] = shard;
        allreduce_on(v, level + 1, path, first + (uint32_t)shard * chunks, from);
    }
    if (team.count == 1) return;
    struct embedding *gather =
        is_in_host ? design_embed(d, COLLECTIVE_ALLGATHER, recipe->in_host_gather, &team,
                                  DESIGN_GATHER_CHANNEL)
                   : design_embed(d, COLLECTIVE_ALLGATHER, recipe->between_gather, &team, 0);
    gather->starts = starts;
    gather->like = v->like + first;
    gather->input = own;
    gather->output = (struct plan_location){PLAN_OUTPUT, first};
}

/* A small plan of the top team, for its number of parts. */
static uint32_t parts_at_top(struct design *d, enum collective collective, algo_generate *generate)
{
    const struct subgroup team = {.count = d->h.unit_count[d->h.top],
                                  .index = d->h.unit_of[d->h.top][d->self]};
    const struct rank_plan *plan = design_part(d, collective, generate, &team);
    return plan != NULL ? plan->shape.parts : 1;
}

static void allreduce_by(const struct algo_params *params, int rank, struct plan_builder *b,
                         const struct recipe *recipe)
{
    struct vector_design v = {.recipe = recipe};
    if (!design_init(&v.d, params, rank, b)) return;
    cut_vector(&v, parts_at_top(&v.d, COLLECTIVE_ALLREDUCE, recipe->top));
    for (uint32_t slice = 0; slice < DESIGN_SLICES && !design_failed(&v.d); slice++) {
        design_begin_slice(&v.d, slice);
        allreduce_on(&v, 0, (struct path){{0}}, slice * v.chunks[0], PLAN_INPUT);
        design_end_slice(&v.d);
    }
    design_release(&v.d);
}

void hierarchical_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    allreduce_by(params, rank, b,
                 &(struct recipe){mesh_reduce_scatter, mesh_allgather, circulant_reduce_scatter,
                                  circulant_allgather, composed_allreduce});
}

void hierarchical_direct_allreduce(const struct algo_params *params, int rank,
                                   struct plan_builder *b)
{
    allreduce_by(params, rank, b,
                 &(struct recipe){mesh_reduce_scatter, mesh_allgather, mesh_reduce_scatter,
                                  ring_allgather, composed_direct_allreduce});
}

void hierarchical_ring_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    allreduce_by(params, rank, b,
                 &(struct recipe){mesh_reduce_scatter, mesh_allgather, ring_reduce_scatter,
                                  ring_allgather, ring_allreduce});
}

/* ---------------------------------------------------------------------- broadcast and reduce on rails
 *
 * Shards are made in the root's host only; above it a whole shard goes from team to team, through
 * one unit of each: the root's, or another one for each shard. */

/* From where on a shard is shared by hosts: hosts of one rank make no shards. */
static int first_shared_level(const struct design *d)
{
    return d->h.has_hosts ? 1 : 0;
}

/* The position in a unit that has the shard. */
static int position_with(const struct design *d, int shard, int level, int unit)
{
    const int root = d->h.position[d->params->root];
    for (int k = level - 1; k >= 0; k--) {
        const struct level_members members = hierarchy_members(&d->h, k, unit);
        if (k < first_shared_level(d))
            unit = members.first + shard_owner(d->h.shard_count[0], members.count, shard);
        else if (hierarchy_holds(&d->h, k + 1, unit, root))
            unit = d->h.unit_of[k][root];
        else
            unit = members.first + shard % members.count;
    }
    return unit;
}

static struct subgroup team_with(struct design *d, int shard, int level)
{
    const int number = hierarchy_subgroup(&d->h, level, d->self);
    const struct level_members members = hierarchy_members(&d->h, level, number);
    struct subgroup team = {.count = members.count, .index = design_member_at(d, level, d->self)};
    team.ranks = design_keep(d, (size_t)members.count, sizeof *team.ranks);
    for (int i = 0; i < members.count && team.ranks != NULL; i++)
        team.ranks[i] = d->h.order[position_with(d, shard, level, members.first + i)];
    /* The root of the team is the position that represents the team one level up: the shard comes
     * from there or goes there. */
    const int root = level == d->h.top ? d->h.position[d->params->root]
                                       : position_with(d, shard, level + 1, number);
    team.root = d->h.unit_of[level][root] - members.first;
    return team;
}

static bool takes_part_with(const struct design *d, int shard, int level)
{
    return position_with(d, shard, level, d->h.unit_of[level][d->self]) == d->self;
}

/* The ranks of this rank's host. */
static struct subgroup host_team(struct design *d)
{
    struct subgroup team = design_team_on(d, &(struct path){{0}}, 0);
    if (hierarchy_holds(&d->h, 1, hierarchy_subgroup(&d->h, 0, d->self),
                        d->h.position[d->params->root]))
        team.root = design_member_at(d, 0, d->h.position[d->params->root]);
    else
        team.root = -1;
    return team;
}

static uint32_t slice_start(const struct vector_design *v)
{
    return v->d.slice * v->chunks[0];
}

/* From the root's host on, level by level down from the top. */
static void broadcast_shard(struct vector_design *v, int shard, enum plan_buffer from)
{
    struct design *d = &v->d;
    const uint32_t first = slice_start(v) + (uint32_t)shard * v->chunks[1];
    for (int level = d->h.top; level >= first_shared_level(d); level--) {
        if (!takes_part_with(d, shard, level)) continue;
        const struct subgroup team = team_with(d, shard, level);
        if (team.count == 1) continue;
        struct embedding *embedding =
            design_embed(d, COLLECTIVE_BROADCAST, v->recipe->top, &team, 0);
        embedding->first_class = first;
        embedding->input = (struct plan_location){from, first};
        embedding->output = (struct plan_location){PLAN_OUTPUT, first};
        from = PLAN_OUTPUT;
    }
}

/* Two levels of the vector: shards of a host, and what the plans above it cut a shard into. */
static void cut_shards(struct vector_design *v, enum collective collective)
{
    struct design *d = &v->d;
    v->chunks[1] = parts_at_top(d, collective, v->recipe->top);
    v->chunks[0] = v->chunks[1] * (uint32_t)(d->h.has_hosts ? d->h.shard_count[0] : 1);
    design_set_parts(d, DESIGN_SLICES * v->chunks[0]);
    v->like = identity(d, d->shape.parts);
}

static void broadcast_slice(struct vector_design *v)
{
    struct design *d = &v->d;
    const uint32_t first = slice_start(v);
    if (!d->h.has_hosts) {
        broadcast_shard(v, 0, PLAN_INPUT);
        return;
    }
    const struct subgroup team = host_team(d);
    const uint32_t *starts = share_starts(d, 0, &team, v->chunks[1]);
    if (starts == NULL || design_failed(d)) return;
    const struct plan_location own = {PLAN_OUTPUT, first + starts[team.index]};
    enum plan_buffer from = PLAN_INPUT;
    if (team.count > 1) {
        if (team.root >= 0) {
            struct embedding *scatter =
                design_embed(d, COLLECTIVE_SCATTER, v->recipe->in_host_scatter, &team, 0);
            scatter->starts = starts;
            scatter->like = v->like + first;
            scatter->input = (struct plan_location){PLAN_INPUT, first};
            scatter->output = own;
        }
        from = PLAN_OUTPUT;
    }
    const struct shards shards = design_shards(d, 0, &team, team.index);
    for (int shard = shards.first; shard < shards.end; shard++) broadcast_shard(v, shard, from);
    if (team.count == 1) return;
    struct embedding *gather = design_embed(d, COLLECTIVE_ALLGATHER, v->recipe->in_host_gather,
                                            &team, DESIGN_GATHER_CHANNEL);
    gather->starts = starts;
    gather->like = v->like + first;
    gather->input = own;
    gather->output = (struct plan_location){PLAN_OUTPUT, first};
}

/* Writes the steps for one slice. */
typedef void write_slice(struct vector_design *v);

static void write_slices(const struct algo_params *params, int rank, struct plan_builder *b,
                         const struct recipe *recipe, write_slice *write)
{
    struct vector_design v = {.recipe = recipe};
    if (!design_init(&v.d, params, rank, b)) return;
    cut_shards(&v, params->collective);
    for (uint32_t slice = 0; slice < DESIGN_SLICES && !design_failed(&v.d); slice++) {
        design_begin_slice(&v.d, slice);
        write(&v);
        design_end_slice(&v.d);
    }
    design_release(&v.d);
}

void hierarchical_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    write_slices(params, rank, b,
                 &(struct recipe){.in_host_scatter = mesh_scatter,
                                  .in_host_gather = mesh_allgather,
                                  .top = double_tree_broadcast},
                 broadcast_slice);
}

/* The place where this rank keeps the sums of its own shards. */
static struct plan_location sums_of(struct vector_design *v, uint32_t first, uint32_t end)
{
    if (v->d.rank == v->d.params->root) return (struct plan_location){PLAN_OUTPUT, first};
    const struct plan_location sums = {PLAN_SCRATCH, plan_scratch(v->d.b, first)};
    for (uint32_t i = first + 1; i < end; i++) plan_scratch(v->d.b, i);
    return sums;
}

/* To the root's host, level by level up to the top; `from` and `sums` are the shard's. */
static void reduce_shard(struct vector_design *v, int shard, struct plan_location from,
                         struct plan_location sums)
{
    struct design *d = &v->d;
    for (int level = first_shared_level(d); level <= d->h.top && takes_part_with(d, shard, level);
         level++) {
        const struct subgroup team = team_with(d, shard, level);
        if (team.count == 1) continue;
        struct embedding *embedding = design_embed(d, COLLECTIVE_REDUCE, v->recipe->top, &team, 0);
        embedding->first_class = slice_start(v) + (uint32_t)shard * v->chunks[1];
        embedding->input = from;
        embedding->output = sums;
        embedding->partial = level < d->h.top;
        from = sums;
    }
}

static void reduce_slice(struct vector_design *v)
{
    struct design *d = &v->d;
    const uint32_t first = slice_start(v);
    if (!d->h.has_hosts) {
        reduce_shard(v, 0, (struct plan_location){PLAN_INPUT, first},
                     sums_of(v, first, first + v->chunks[1]));
        return;
    }
    const struct subgroup team = host_team(d);
    const uint32_t *starts = share_starts(d, 0, &team, v->chunks[1]);
    if (starts == NULL || design_failed(d)) return;
    const struct plan_location sums =
        sums_of(v, first + starts[team.index], first + starts[team.index + 1]);
    struct plan_location from = {PLAN_INPUT, first};
    if (team.count > 1) {
        struct embedding *scatter =
            design_embed(d, COLLECTIVE_REDUCE_SCATTER, v->recipe->in_host_scatter, &team, 0);
        scatter->starts = starts;
        scatter->like = v->like + first;
        scatter->input = from;
        scatter->output = sums;
        scatter->partial = true;
        from = sums;
    }
    const struct shards shards = design_shards(d, 0, &team, team.index);
    for (int shard = shards.first; shard < shards.end; shard++) {
        const uint32_t at = (uint32_t)(shard - shards.first) * v->chunks[1];
        reduce_shard(v, shard, (struct plan_location){from.buffer, from.first + at},
                     (struct plan_location){sums.buffer, sums.first + at});
    }
    if (team.count == 1 || team.root < 0) return;
    struct embedding *gather =
        design_embed(d, COLLECTIVE_GATHER, v->recipe->in_host_gather, &team, DESIGN_GATHER_CHANNEL);
    gather->starts = starts;
    gather->like = v->like + first;
    gather->input = sums;
    gather->output = (struct plan_location){PLAN_OUTPUT, first};
}

void hierarchical_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    write_slices(params, rank, b,
                 &(struct recipe){.in_host_scatter = mesh_reduce_scatter,
                                  .in_host_gather = mesh_gather,
                                  .top = double_tree_reduce},
                 reduce_slice);
}
