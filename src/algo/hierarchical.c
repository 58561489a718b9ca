/* hierarchical.c - plans for hosts, racks and so on: each level has an algorithm of its own, embedded
 * (embed.h) in the ranks of one team after another and composed (compose.h) to one plan.
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
 * `hierarchical_tree`: one leader a team, for few bytes.
 *
 * Cost for N hosts of L ranks (a = alpha, b = beta across hosts; what happens in a host comes on top,
 * and overlaps with it: see SLICES), n bytes of a vector or of all blocks together:
 *
 *     allreduce       hierarchical        2 lg N a + 2 (N-1)/N n/L b     the least there can be
 *                     hierarchical_ring   2 (N-1) a + 2 (N-1)/N n/L b
 *                     hierarchical_tree   lg N (a + n b)                 at the leader only
 *     reduce_scatter, allgather           (N-1) (a + n/NL b)             the least bytes
 *     broadcast, reduce                   (S + lg N) (a + n/SL b)        S = 16 blocks of a shard
 *     gather, scatter                     lg N a + (N-1)/N n b           at the root
 *
 * Uneven teams (levels.h): a host of fewer ranks has ranks with several shards.  No card carries more
 * than 1/l of what a single card of a host would, where l is the number of ranks of the smallest
 * host; no algorithm can do better for that host's cards.
 *
 * Order.  All of a rank's teams are at work one after the other, in an order that is the same on all
 * ranks: by shard, and within a shard by level.  So teams that share ranks do not wait for each other
 * in a circle.
 *
 * A slice of every chunk takes its way through all levels in lanes of its own: while one slice is on
 * the network another one is in the hosts.
 *
 * Positions of levels.h stand for ranks throughout: interleaved ranks get the same messages as
 * contiguous ones.  Where a message is a run of positions whose ranks are no run, it is packed.
 *
 * All need a commutative operation.  Any number of levels, ranks in any order, teams of any size.
 *
 * Source: Cho, Finkler, Kung, Hunter, "BlueConnect: Decomposing All-Reduce for Deep Learning on
 * Heterogeneous Network Hierarchy", MLSys 2019; Karonis, de Supinski, Foster, Gropp, Lusk, Bresnahan,
 * "Exploiting Hierarchy in Parallel Computer Networks to Optimize Collective Operation Performance",
 * IPDPS 2000, for leaders.
 */
#include <stdlib.h>

#include "algo/compose.h"
#include "algo/generators.h"
#include "algo/levels.h"

static const char OUT_OF_MEMORY[] = "out of memory while a hierarchical plan was made";

/* Two channels are what rings and circulant graphs take, and transports have four.  In a host the way
 * back has its own one, since it goes to groups. */
enum { SLICES = 2, SLICE_CHANNELS = 2, GATHER_CHANNEL = 1 };

/* A small plan that is used in several places. */
struct part {
    enum collective collective;
    const char *name;
    int member_count, index, root;
    struct rank_plan *plan;
};

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
    struct embedding nowhere; /* what is written when there is no memory */
    struct part *parts;
    int part_count, part_capacity;
    void **kept; /* memory that embeddings borrow */
    int kept_count, kept_capacity;
};

/* ----------------------------------------------------------------------------------------- memory */

static void fail(struct design *d)
{
    plan_fail(d->b, TUTTI_NO_MEMORY, OUT_OF_MEMORY);
}

static bool failed(const struct design *d)
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
        fail(d);
    else
        *capacity = wanted;
    return larger;
}

/* Memory until the plan is written; NULL, and that is known, when there is none. */
static void *keep(struct design *d, size_t count, size_t item_bytes)
{
    void **kept = grown(d, d->kept, d->kept_count, &d->kept_capacity, sizeof *kept);
    if (kept == NULL) return NULL;
    d->kept = kept;
    void *memory = calloc(count + 1, item_bytes);
    if (memory == NULL)
        fail(d);
    else
        d->kept[d->kept_count++] = memory;
    return memory;
}

static uint32_t *keep_numbers(struct design *d, size_t count)
{
    return keep(d, count, sizeof(uint32_t));
}

static bool design_init(struct design *d, const struct algo_params *params, int rank,
                        struct plan_builder *b)
{
    *d = (struct design){.b = b, .params = params, .rank = rank};
    if (hierarchy_init(&d->h, params->levels, params->rank_count) != TUTTI_OK) {
        fail(d);
        return false;
    }
    d->self = d->h.position[rank];
    d->shape = (struct plan_shape){params->collective, params->rank_count, params->root, 1};
    return true;
}

static void design_release(struct design *d)
{
    for (int i = 0; i < d->part_count; i++) plan_rank_free(d->parts[i].plan);
    for (int i = 0; i < d->kept_count; i++) free(d->kept[i]);
    free(d->parts);
    free(d->kept);
    free(d->embeddings);
    hierarchy_release(&d->h);
}

static void set_parts(struct design *d, uint32_t parts)
{
    d->shape.parts = parts;
    plan_parts(d->b, parts);
}

static void begin_slice(struct design *d, uint32_t slice)
{
    d->slice = slice;
    d->first_channel = (int)slice * SLICE_CHANNELS;
    d->embedding_count = 0;
}

static void end_slice(struct design *d)
{
    if (!failed(d)) compose_sequence(d->b, &d->shape, d->embeddings, d->embedding_count);
}

/* ------------------------------------------------------------------------------------------ teams */

/* Some ranks with a job, one of each unit of a team of the hierarchy. */
struct team {
    int count, index; /* members; this rank among them */
    int root;         /* whose job is special, if anybody's */
    int *ranks;
};

static int member_at(const struct design *d, int level, int position)
{
    return hierarchy_member(&d->h, level, position);
}

static int members_at(const struct design *d, int level, int position)
{
    return hierarchy_members(&d->h, level, hierarchy_team(&d->h, level, position)).count;
}

/* The small plan of this rank; NULL when the design failed. */
static const struct rank_plan *part_of(struct design *d, enum collective collective,
                                       const char *name, const struct team *team)
{
    const int root = collective_is_rooted(collective) ? team->root : 0;
    for (int i = 0; i < d->part_count; i++) {
        const struct part *part = &d->parts[i];
        if (part->collective == collective && part->name == name && part->root == root &&
            part->member_count == team->count && part->index == team->index)
            return part->plan;
    }
    struct part *parts = grown(d, d->parts, d->part_count, &d->part_capacity, sizeof *parts);
    if (parts == NULL) return NULL;
    d->parts = parts;
    /* In place: what lies between two plans may be the whole's output. */
    const struct algo_params params = {
        .collective = collective, .rank_count = team->count, .root = root, .in_place = true};
    const struct algorithm *algorithm = algo_find(collective, name);
    struct rank_plan *plan = NULL;
    const char *message = "a part of a hierarchical algorithm is not listed";
    enum tutti_status status = TUTTI_INTERNAL;
    if (algorithm != NULL)
        status = algo_rank_plan(algorithm, &params, team->index, &plan, &message);
    if (status != TUTTI_OK) {
        plan_fail(d->b, status, message);
        return NULL;
    }
    d->parts[d->part_count++] =
        (struct part){collective, name, team->count, team->index, root, plan};
    return plan;
}

/* To be filled in; a place where nobody looks when the design failed. */
static struct embedding *embed(struct design *d, enum collective collective, const char *name,
                               const struct team *team, int channel)
{
    const struct rank_plan *plan = failed(d) ? NULL : part_of(d, collective, name, team);
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

/* ------------------------------------------------------------------------------------------ rails
 *
 * A path names a shard of a shard of ..: path[k] is the shard at level k.  Every unit has one rank on
 * a path. */

struct path {
    int shards[ALGO_LEVELS_MAX];
};

static int position_on(const struct design *d, const struct path *path, int level, int unit)
{
    for (int k = level - 1; k >= 0; k--) {
        const struct members members = hierarchy_members(&d->h, k, unit);
        unit = members.first + shard_owner(d->h.shard_count[k], members.count, path->shards[k]);
    }
    return unit;
}

/* This rank's team at that level, of those on the path; it is one of them. */
static struct team team_on(struct design *d, const struct path *path, int level)
{
    const int number = hierarchy_team(&d->h, level, d->self);
    const struct members members = hierarchy_members(&d->h, level, number);
    struct team team = {.count = members.count, .index = member_at(d, level, d->self)};
    team.ranks = keep(d, (size_t)members.count, sizeof *team.ranks);
    for (int i = 0; i < members.count && team.ranks != NULL; i++)
        team.ranks[i] = d->h.order[position_on(d, path, level, members.first + i)];
    return team;
}

/* The shards of a member of a team at that level. */
struct shards {
    int first, end;
};

static struct shards shards_of(const struct design *d, int level, const struct team *team,
                               int member)
{
    const int count = d->h.shard_count[level];
    return (struct shards){shard_first(count, team->count, member),
                           shard_first(count, team->count, member + 1)};
}

/* Where the share of each member begins, in chunks, for chunks of a shard each. */
static uint32_t *share_starts(struct design *d, int level, const struct team *team, uint32_t chunks)
{
    uint32_t *starts = keep_numbers(d, (size_t)team->count + 1);
    for (int i = 0; i <= team->count && starts != NULL; i++)
        starts[i] = (uint32_t)shards_of(d, level, team, i).first * chunks;
    return starts;
}

/* 0, 1, 2, .. */
static uint32_t *identity(struct design *d, uint32_t count)
{
    uint32_t *numbers = keep_numbers(d, count);
    for (uint32_t i = 0; i < count && numbers != NULL; i++) numbers[i] = i;
    return numbers;
}

/* ------------------------------------------------------------------------------ vectors on rails */

/* What does the work: in hosts, between the teams of the levels in between, and at the top. */
struct recipe {
    const char *in_host_scatter, *in_host_gather;
    const char *between_scatter, *between_gather;
    const char *top;
};

struct vector_design {
    struct design d;
    const struct recipe *recipe;
    const uint32_t *like;                 /* every class by its number */
    uint32_t chunks[ALGO_LEVELS_MAX + 1]; /* of the work of a team at each level */
};

/* Chunks of a block on each level, for a plan at the top that cuts it into so many. */
static void cut_vector(struct vector_design *v, uint32_t top_parts)
{
    struct design *d = &v->d;
    v->chunks[d->h.top] = top_parts;
    for (int k = d->h.top - 1; k >= 0; k--)
        v->chunks[k] = v->chunks[k + 1] * (uint32_t)d->h.shard_count[k];
    set_parts(d, SLICES * v->chunks[0]);
    v->like = identity(d, d->shape.parts);
}

/* Reduces the chunks from `first` on, which lie in `from` and then in the output, where each is the same
 * number. */
static void allreduce_on(struct vector_design *v, int level, struct path path, uint32_t first,
                         enum plan_buffer from)
{
    struct design *d = &v->d;
    const struct recipe *recipe = v->recipe;
    const struct team team = team_on(d, &path, level);
    if (failed(d)) return;
    if (level == d->h.top) {
        struct embedding *top = embed(d, COLLECTIVE_ALLREDUCE, recipe->top, &team, 0);
        top->first_class = first;
        top->input = (struct plan_place){from, first};
        top->output = (struct plan_place){PLAN_OUTPUT, first};
        return;
    }
    const uint32_t chunks = v->chunks[level + 1];
    const uint32_t *starts = share_starts(d, level, &team, chunks);
    if (starts == NULL) return;
    const struct plan_place own = {PLAN_OUTPUT, first + starts[team.index]};
    if (team.count > 1) {
        struct embedding *scatter =
            embed(d, COLLECTIVE_REDUCE_SCATTER,
                  level == 0 ? recipe->in_host_scatter : recipe->between_scatter, &team, 0);
        scatter->starts = starts;
        scatter->like = v->like + first;
        scatter->input = (struct plan_place){from, first};
        scatter->output = own;
        scatter->partial = true;
        from = PLAN_OUTPUT;
    }
    const struct shards shards = shards_of(d, level, &team, team.index);
    for (int shard = shards.first; shard < shards.end; shard++) {
        path.shards[level] = shard;
        allreduce_on(v, level + 1, path, first + (uint32_t)shard * chunks, from);
    }
    if (team.count == 1) return;
    struct embedding *gather =
        level == 0 ? embed(d, COLLECTIVE_ALLGATHER, recipe->in_host_gather, &team, GATHER_CHANNEL)
                   : embed(d, COLLECTIVE_ALLGATHER, recipe->between_gather, &team, 0);
    gather->starts = starts;
    gather->like = v->like + first;
    gather->input = own;
    gather->output = (struct plan_place){PLAN_OUTPUT, first};
}

/* A small plan of the top team, for its number of parts. */
static uint32_t parts_at_top(struct design *d, enum collective collective, const char *name)
{
    const struct team team = {.count = d->h.unit_count[d->h.top],
                              .index = d->h.unit_of[d->h.top][d->self]};
    const struct rank_plan *plan = part_of(d, collective, name, &team);
    return plan != NULL ? plan->shape.parts : 1;
}

static void allreduce_by(const struct algo_params *params, int rank, struct plan_builder *b,
                         const struct recipe *recipe)
{
    struct vector_design v = {.recipe = recipe};
    if (!design_init(&v.d, params, rank, b)) return;
    cut_vector(&v, parts_at_top(&v.d, COLLECTIVE_ALLREDUCE, recipe->top));
    for (uint32_t slice = 0; slice < SLICES && !failed(&v.d); slice++) {
        begin_slice(&v.d, slice);
        allreduce_on(&v, 0, (struct path){{0}}, slice * v.chunks[0], PLAN_INPUT);
        end_slice(&v.d);
    }
    design_release(&v.d);
}

void hierarchical_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    allreduce_by(params, rank, b,
                 &(struct recipe){"direct", "direct", "circulant", "circulant", "circulant"});
}

void hierarchical_ring_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    allreduce_by(params, rank, b, &(struct recipe){"direct", "direct", "ring", "ring", "ring"});
}

/* ---------------------------------------------------------------------- broadcast and reduce on rails
 *
 * Shards are made in the root's host only; above it a whole shard goes from team to team, through one
 * unit of each: the root's, or another one for each shard. */

/* Who has the shard in a unit. */
static int position_with(const struct design *d, int shard, int level, int unit)
{
    const int root = d->h.position[d->params->root];
    for (int k = level - 1; k >= 0; k--) {
        const struct members members = hierarchy_members(&d->h, k, unit);
        if (k == 0)
            unit = members.first + shard_owner(d->h.shard_count[0], members.count, shard);
        else if (hierarchy_holds(&d->h, k + 1, unit, root))
            unit = d->h.unit_of[k][root];
        else
            unit = members.first + shard % members.count;
    }
    return unit;
}

static struct team team_with(struct design *d, int shard, int level)
{
    const int number = hierarchy_team(&d->h, level, d->self);
    const struct members members = hierarchy_members(&d->h, level, number);
    struct team team = {.count = members.count, .index = member_at(d, level, d->self)};
    team.ranks = keep(d, (size_t)members.count, sizeof *team.ranks);
    for (int i = 0; i < members.count && team.ranks != NULL; i++)
        team.ranks[i] = d->h.order[position_with(d, shard, level, members.first + i)];
    /* Where the shard comes from or goes to: what stands for the team one level up. */
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
static struct team host_team(struct design *d)
{
    struct team team = team_on(d, &(struct path){{0}}, 0);
    if (hierarchy_holds(&d->h, 1, hierarchy_team(&d->h, 0, d->self), d->h.position[d->params->root]))
        team.root = member_at(d, 0, d->h.position[d->params->root]);
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
    for (int level = d->h.top; level > 0; level--) {
        if (!takes_part_with(d, shard, level)) continue;
        const struct team team = team_with(d, shard, level);
        if (team.count == 1) continue;
        struct embedding *embedding = embed(d, COLLECTIVE_BROADCAST, v->recipe->top, &team, 0);
        embedding->first_class = first;
        embedding->input = (struct plan_place){from, first};
        embedding->output = (struct plan_place){PLAN_OUTPUT, first};
        from = PLAN_OUTPUT;
    }
}

/* Two levels of the vector: shards of a host, and what the plans above it cut a shard into. */
static void cut_shards(struct vector_design *v, enum collective collective)
{
    struct design *d = &v->d;
    v->chunks[1] = parts_at_top(d, collective, v->recipe->top);
    v->chunks[0] = v->chunks[1] * (uint32_t)d->h.shard_count[0];
    set_parts(d, SLICES * v->chunks[0]);
    v->like = identity(d, d->shape.parts);
}

static void broadcast_slice(struct vector_design *v)
{
    struct design *d = &v->d;
    const uint32_t first = slice_start(v);
    const struct team team = host_team(d);
    const uint32_t *starts = share_starts(d, 0, &team, v->chunks[1]);
    if (starts == NULL || failed(d)) return;
    const struct plan_place own = {PLAN_OUTPUT, first + starts[team.index]};
    enum plan_buffer from = PLAN_INPUT;
    if (team.count > 1) {
        if (team.root >= 0) {
            struct embedding *scatter =
                embed(d, COLLECTIVE_SCATTER, v->recipe->in_host_scatter, &team, 0);
            scatter->starts = starts;
            scatter->like = v->like + first;
            scatter->input = (struct plan_place){PLAN_INPUT, first};
            scatter->output = own;
        }
        from = PLAN_OUTPUT;
    }
    const struct shards shards = shards_of(d, 0, &team, team.index);
    for (int shard = shards.first; shard < shards.end; shard++) broadcast_shard(v, shard, from);
    if (team.count == 1) return;
    struct embedding *gather =
        embed(d, COLLECTIVE_ALLGATHER, v->recipe->in_host_gather, &team, GATHER_CHANNEL);
    gather->starts = starts;
    gather->like = v->like + first;
    gather->input = own;
    gather->output = (struct plan_place){PLAN_OUTPUT, first};
}

/* One level: the top's algorithm does it. */
static void whole_vector(struct vector_design *v, enum collective collective)
{
    struct design *d = &v->d;
    struct team team = team_on(d, &(struct path){{0}}, 0);
    team.root = d->h.position[d->params->root];
    if (failed(d)) return;
    set_parts(d, parts_at_top(d, collective, v->recipe->top));
    begin_slice(d, 0);
    embed(d, collective, v->recipe->top, &team, 0)->output = (struct plan_place){PLAN_OUTPUT, 0};
    end_slice(d);
}

void hierarchical_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct recipe recipe = {"direct", "direct", NULL, NULL, "circulant"};
    struct vector_design v = {.recipe = &recipe};
    if (!design_init(&v.d, params, rank, b)) return;
    if (v.d.h.top == 0) {
        whole_vector(&v, COLLECTIVE_BROADCAST);
    } else {
        cut_shards(&v, COLLECTIVE_BROADCAST);
        for (uint32_t slice = 0; slice < SLICES && !failed(&v.d); slice++) {
            begin_slice(&v.d, slice);
            broadcast_slice(&v);
            end_slice(&v.d);
        }
    }
    design_release(&v.d);
}

/* Where this rank keeps what it has of its own shards: sums. */
static struct plan_place sums_of(struct vector_design *v, const struct team *host,
                                 const uint32_t *starts)
{
    const uint32_t first = slice_start(v) + starts[host->index],
                   end = slice_start(v) + starts[host->index + 1];
    if (v->d.rank == v->d.params->root) return (struct plan_place){PLAN_OUTPUT, first};
    const struct plan_place sums = {PLAN_SCRATCH, plan_scratch(v->d.b, first)};
    for (uint32_t i = first + 1; i < end; i++) plan_scratch(v->d.b, i);
    return sums;
}

/* To the root's host, level by level up to the top; `from` and `sums` are the shard's. */
static void reduce_shard(struct vector_design *v, int shard, struct plan_place from,
                         struct plan_place sums)
{
    struct design *d = &v->d;
    for (int level = 1; level <= d->h.top && takes_part_with(d, shard, level); level++) {
        const struct team team = team_with(d, shard, level);
        if (team.count == 1) continue;
        struct embedding *embedding = embed(d, COLLECTIVE_REDUCE, v->recipe->top, &team, 0);
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
    const struct team team = host_team(d);
    const uint32_t *starts = share_starts(d, 0, &team, v->chunks[1]);
    if (starts == NULL || failed(d)) return;
    const struct plan_place sums = sums_of(v, &team, starts);
    struct plan_place from = {PLAN_INPUT, first};
    if (team.count > 1) {
        struct embedding *scatter =
            embed(d, COLLECTIVE_REDUCE_SCATTER, v->recipe->in_host_scatter, &team, 0);
        scatter->starts = starts;
        scatter->like = v->like + first;
        scatter->input = from;
        scatter->output = sums;
        scatter->partial = true;
        from = sums;
    }
    const struct shards shards = shards_of(d, 0, &team, team.index);
    for (int shard = shards.first; shard < shards.end; shard++) {
        const uint32_t at = (uint32_t)(shard - shards.first) * v->chunks[1];
        reduce_shard(v, shard, (struct plan_place){from.buffer, from.first + at},
                     (struct plan_place){sums.buffer, sums.first + at});
    }
    if (team.count == 1 || team.root < 0) return;
    struct embedding *gather =
        embed(d, COLLECTIVE_GATHER, v->recipe->in_host_gather, &team, GATHER_CHANNEL);
    gather->starts = starts;
    gather->like = v->like + first;
    gather->input = sums;
    gather->output = (struct plan_place){PLAN_OUTPUT, first};
}

void hierarchical_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct recipe recipe = {"direct", "direct", NULL, NULL, "circulant"};
    struct vector_design v = {.recipe = &recipe};
    if (!design_init(&v.d, params, rank, b)) return;
    if (v.d.h.top == 0) {
        whole_vector(&v, COLLECTIVE_REDUCE);
    } else {
        cut_shards(&v, COLLECTIVE_REDUCE);
        for (uint32_t slice = 0; slice < SLICES && !failed(&v.d); slice++) {
            begin_slice(&v.d, slice);
            reduce_slice(&v);
            end_slice(&v.d);
        }
    }
    design_release(&v.d);
}

/* --------------------------------------------------------------------------------- blocks on rails
 *
 * A block's path is one on which its rank stands for all its units.  On a rail travel the blocks of its
 * path, of each top unit one at most.  In reduce_scatter those that a member of a team collects on its
 * way up, in allgather those that it hands on on its way down, are the same: round t of a level is a
 * small plan with the t-th of each member. */

struct blocks {
    int count;
    int *positions;
    uint32_t *at; /* chunk in the buffer that they lie in */
};

struct block_design {
    struct design d;
    const char *in_host, *above;
};

/* Which member of a team has to do with a block. */
static int member_for(const struct design *d, int level, const struct team *team, int position)
{
    if (level == d->h.top) return d->h.unit_of[level][position];
    return shard_owner(d->h.shard_count[level], team->count,
                       hierarchy_block_shard(&d->h, level, position));
}

/* The blocks sorted by member: those of member m are first[m] .. first[m+1]-1. */
static int *sort_by_member(struct design *d, int level, const struct team *team,
                           struct blocks *blocks)
{
    int *first = keep(d, (size_t)team->count + 2, sizeof *first);
    struct blocks sorted = {blocks->count, keep(d, (size_t)blocks->count, sizeof(int)),
                            keep_numbers(d, (size_t)blocks->count)};
    if (failed(d)) return NULL;
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
    uint32_t *starts = keep_numbers(d, count + 1), *like = keep_numbers(d, count),
             *at = keep_numbers(d, count);
    if (failed(d)) return at;
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

/* Where a member's sums of blocks go: at the top there is its own one, if it is on this path. */
static uint32_t *declare_sums(struct design *d, int level, const struct blocks *own)
{
    uint32_t *sums = keep_numbers(d, (size_t)own->count);
    for (int i = 0; i < own->count && !failed(d); i++)
        sums[i] =
            level == d->h.top ? d->slice : plan_scratch(d->b, class_of_block(d, own->positions[i]));
    return sums;
}

/* Those of the member's blocks that are in one of its shards. */
static struct blocks blocks_in_shard(struct design *d, int level, const struct blocks *own,
                                     int shard)
{
    struct blocks found = {0, keep(d, (size_t)own->count, sizeof(int)),
                           keep_numbers(d, (size_t)own->count)};
    for (int i = 0; i < own->count && !failed(d); i++) {
        if (hierarchy_block_shard(&d->h, level, own->positions[i]) != shard) continue;
        found.positions[found.count] = own->positions[i];
        found.at[found.count++] = own->at[i];
    }
    return found;
}

static void reduce_blocks_on(struct block_design *s, int level, struct path path,
                             struct blocks blocks, enum plan_buffer from)
{
    struct design *d = &s->d;
    const struct team team = team_on(d, &path, level);
    const int *first = failed(d) ? NULL : sort_by_member(d, level, &team, &blocks);
    if (first == NULL) return;
    struct blocks own = {first[team.index + 1] - first[team.index],
                         blocks.positions + first[team.index], blocks.at + first[team.index]};
    if (team.count > 1) {
        uint32_t *sums = declare_sums(d, level, &own);
        const enum plan_buffer to = level == d->h.top ? PLAN_OUTPUT : PLAN_SCRATCH;
        for (int t = 0; t < most_of_a_member(first, team.count) && !failed(d); t++) {
            struct embedding *scatter =
                embed(d, COLLECTIVE_REDUCE_SCATTER, level == 0 ? s->in_host : s->above, &team, 0);
            scatter->input = (struct plan_place){from, 0};
            scatter->output = (struct plan_place){to, t < own.count ? sums[t] : 0};
            scatter->input_at = round_of(d, &blocks, first, team.count, t, scatter);
            scatter->partial = level < d->h.top;
        }
        own.at = sums;
        from = to;
    }
    if (level == d->h.top || failed(d)) return;
    const struct shards shards = shards_of(d, level, &team, team.index);
    for (int shard = shards.first; shard < shards.end && !failed(d); shard++) {
        path.shards[level] = shard;
        reduce_blocks_on(s, level + 1, path, blocks_in_shard(d, level, &own, shard), from);
    }
}

static void gather_blocks_on(struct block_design *s, int level, struct path path,
                             struct blocks blocks)
{
    struct design *d = &s->d;
    const struct team team = team_on(d, &path, level);
    const int *first = failed(d) ? NULL : sort_by_member(d, level, &team, &blocks);
    if (first == NULL) return;
    const struct blocks own = {first[team.index + 1] - first[team.index],
                               blocks.positions + first[team.index], blocks.at + first[team.index]};
    if (level < d->h.top) {
        const struct shards shards = shards_of(d, level, &team, team.index);
        for (int shard = shards.first; shard < shards.end && !failed(d); shard++) {
            path.shards[level] = shard;
            gather_blocks_on(s, level + 1, path, blocks_in_shard(d, level, &own, shard));
        }
    }
    for (int t = 0; team.count > 1 && t < most_of_a_member(first, team.count) && !failed(d); t++) {
        struct embedding *gather = embed(d, COLLECTIVE_ALLGATHER, level == 0 ? s->in_host : s->above,
                                         &team, level == 0 ? GATHER_CHANNEL : 0);
        gather->input = level == d->h.top
                            ? (struct plan_place){PLAN_INPUT, d->slice}
                            : (struct plan_place){PLAN_OUTPUT, t < own.count ? own.at[t] : 0};
        gather->output = (struct plan_place){PLAN_OUTPUT, 0};
        gather->output_at = round_of(d, &blocks, first, team.count, t, gather);
    }
}

/* Every rank's block, in a buffer that holds them all. */
static struct blocks all_blocks(struct design *d)
{
    const int count = d->h.rank_count;
    struct blocks blocks = {count, keep(d, (size_t)count, sizeof(int)),
                            keep_numbers(d, (size_t)count)};
    for (int i = 0; i < count && !failed(d); i++) {
        blocks.positions[i] = i;
        blocks.at[i] = class_of_block(d, i);
    }
    return blocks;
}

static void blocks_by(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct block_design s = {.in_host = "direct", .above = "ring"};
    if (!design_init(&s.d, params, rank, b)) return;
    set_parts(&s.d, SLICES);
    for (uint32_t slice = 0; slice < SLICES && !failed(&s.d); slice++) {
        begin_slice(&s.d, slice);
        const struct blocks blocks = all_blocks(&s.d);
        if (params->collective == COLLECTIVE_REDUCE_SCATTER)
            reduce_blocks_on(&s, 0, (struct path){{0}}, blocks, PLAN_INPUT);
        else
            gather_blocks_on(&s, 0, (struct path){{0}}, blocks);
        end_slice(&s.d);
    }
    design_release(&s.d);
}

void hierarchical_reduce_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    blocks_by(params, rank, b);
}

void hierarchical_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    blocks_by(params, rank, b);
}

/* ---------------------------------------------------------------------------------------- leaders
 *
 * hierarchy_leader: the root, where it is in there, and the first rank elsewhere. */

static int leader_of(const struct design *d, int level, int unit)
{
    return hierarchy_leader(&d->h, level, unit, d->h.position[d->params->root]);
}

static bool leads(const struct design *d, int level)
{
    return leader_of(d, level, d->h.unit_of[level][d->self]) == d->self;
}

/* The leaders of a team's units; its root is the leader of the team. */
static struct team leader_team(struct design *d, int level)
{
    const int number = hierarchy_team(&d->h, level, d->self);
    const struct members members = hierarchy_members(&d->h, level, number);
    struct team team = {.count = members.count, .index = member_at(d, level, d->self)};
    team.ranks = keep(d, (size_t)members.count, sizeof *team.ranks);
    for (int i = 0; i < members.count && team.ranks != NULL; i++)
        team.ranks[i] = d->h.order[leader_of(d, level, members.first + i)];
    team.root = d->h.unit_of[level][leader_of(d, level + 1, number)] - members.first;
    return team;
}

/* To the leaders, which pass on their sums, up to that level. Returns where this rank's is. */
static struct plan_place reduce_to_leaders(struct design *d, struct plan_place sums, int end_level,
                                           bool is_partial)
{
    struct plan_place at = {PLAN_INPUT, 0};
    for (int level = 0; level < end_level && leads(d, level); level++) {
        const struct team team = leader_team(d, level);
        if (team.count == 1) continue;
        struct embedding *reduce =
            embed(d, COLLECTIVE_REDUCE, level == 0 ? "direct" : "tree", &team, 0);
        reduce->input = at;
        reduce->output = sums;
        reduce->partial = is_partial || level < end_level - 1;
        at = sums;
    }
    return at;
}

/* From the leaders on, from below that level. */
static void broadcast_from_leaders(struct design *d, struct plan_place from, int end_level)
{
    for (int level = end_level - 1; level >= 0; level--) {
        if (!leads(d, level)) continue;
        const struct team team = leader_team(d, level);
        if (team.count == 1) continue;
        struct embedding *broadcast =
            embed(d, COLLECTIVE_BROADCAST, level == 0 ? "direct" : "tree", &team, GATHER_CHANNEL);
        broadcast->input = from;
        broadcast->output = (struct plan_place){PLAN_OUTPUT, 0};
        from = broadcast->output;
    }
}

void hierarchical_tree_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct plan_place output = {PLAN_OUTPUT, 0};
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    const struct plan_place at = reduce_to_leaders(&d, output, d.h.top, true);
    if (leads(&d, d.h.top) && !failed(&d)) {
        const struct team team = leader_team(&d, d.h.top);
        struct embedding *top = embed(&d, COLLECTIVE_ALLREDUCE, "doubling", &team, 0);
        top->input = at;
        top->output = output;
    }
    broadcast_from_leaders(&d, output, d.h.top);
    end_slice(&d);
    design_release(&d);
}

void hierarchical_tree_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    broadcast_from_leaders(&d, (struct plan_place){PLAN_INPUT, 0}, d.h.top + 1);
    end_slice(&d);
    design_release(&d);
}

/* Those who are no root have no output. */
void hierarchical_tree_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    struct plan_place sums = {PLAN_OUTPUT, 0};
    if (rank != params->root) sums = (struct plan_place){PLAN_SCRATCH, plan_scratch(b, 0)};
    reduce_to_leaders(&d, sums, d.h.top + 1, false);
    end_slice(&d);
    design_release(&d);
}

/* ------------------------------------------------------------------------- blocks through leaders
 *
 * A leader has the blocks of what it leads one behind the other, in the order of positions, so that a
 * unit's are one message.  Where that is the order of ranks, too, they lie in the user's buffer. */

/* The largest unit that this rank leads. */
static struct members led_positions(const struct design *d)
{
    int level = 0;
    while (level <= d->h.top && leads(d, level + 1)) level++;
    const int unit = d->h.unit_of[level][d->self];
    return (struct members){d->h.units[level][unit], hierarchy_unit_size(&d->h, level, unit)};
}

static bool is_in_rank_order(const struct design *d)
{
    for (int i = 0; i < d->h.rank_count; i++)
        if (d->h.order[i] != i) return false;
    return true;
}

/* Blocks of consecutive positions: that of position p is at first + p - position. */
struct run {
    struct plan_place place;
    int position;
};

static struct plan_place place_in(const struct run *run, int position)
{
    return (struct plan_place){run->place.buffer,
                               run->place.first + (uint32_t)(position - run->position)};
}

static struct run scratch_run(struct design *d, struct members positions)
{
    struct run run = {{PLAN_SCRATCH, 0}, positions.first};
    for (int i = 0; i < positions.count; i++) {
        const uint32_t chunk =
            plan_scratch(d->b, (uint32_t)d->h.order[positions.first + i] * d->shape.parts);
        if (i == 0) run.place.first = chunk;
    }
    return run;
}

/* Classes of all positions' blocks. */
static uint32_t *position_classes(struct design *d)
{
    uint32_t *like = keep_numbers(d, (size_t)d->h.rank_count);
    for (int i = 0; i < d->h.rank_count && like != NULL; i++) like[i] = (uint32_t)d->h.order[i];
    return like;
}

/* Where each member's unit begins within the team's blocks. */
static uint32_t *unit_starts(struct design *d, int level, const struct members *members)
{
    const int *bounds = d->h.units[level] + members->first;
    uint32_t *starts = keep_numbers(d, (size_t)members->count + 1);
    for (int i = 0; i <= members->count && starts != NULL; i++)
        starts[i] = (uint32_t)(bounds[i] - bounds[0]);
    return starts;
}

/* A plan of a team on the blocks of its units. */
static struct embedding *embed_units(struct design *d, enum collective collective, const char *name,
                                     int level, const uint32_t *like, int channel)
{
    const struct members members =
        hierarchy_members(&d->h, level, hierarchy_team(&d->h, level, d->self));
    const struct team team = leader_team(d, level);
    struct embedding *embedding = embed(d, collective, name, &team, channel);
    const uint32_t *starts = unit_starts(d, level, &members);
    if (starts == NULL || like == NULL) return embedding;
    embedding->starts = starts;
    embedding->like = like + d->h.units[level][members.first];
    return embedding;
}

static int team_start(const struct design *d, int level)
{
    return d->h.units[level + 1][hierarchy_team(&d->h, level, d->self)];
}

static int unit_start(const struct design *d, int level)
{
    return d->h.units[level][d->h.unit_of[level][d->self]];
}

/* Copies of this rank alone between a user's buffer and a run of all positions. */
static void copy_all(struct design *d, const struct run *run, enum plan_buffer user, bool to_user)
{
    struct team alone = {.count = 1, .ranks = keep(d, 1, sizeof(int))};
    if (failed(d)) return;
    alone.ranks[0] = d->rank;
    for (int i = 0; i < d->h.rank_count; i++) {
        const uint32_t rank = (uint32_t)d->h.order[i];
        struct embedding *copy = embed(d, COLLECTIVE_BROADCAST, "direct", &alone, 0);
        const struct plan_place at_user = {user, rank}, at_run = place_in(run, i);
        copy->first_class = rank;
        copy->input = to_user ? at_run : at_user;
        copy->output = to_user ? at_user : at_run;
    }
}

/* Up to below that level; returns where this rank's part of the next one lies. */
static struct plan_place gather_to_leaders(struct design *d, const struct run *run,
                                           const uint32_t *like, int end_level)
{
    struct plan_place at = {PLAN_INPUT, 0};
    for (int level = 0; level < end_level && leads(d, level); level++) {
        if (members_at(d, level, d->self) == 1) continue;
        struct embedding *gather =
            embed_units(d, COLLECTIVE_GATHER, level == 0 ? "direct" : "tree", level, like, 0);
        gather->input = at;
        gather->output = place_in(run, team_start(d, level));
        at = gather->output;
    }
    return at;
}

void hierarchical_gather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    const uint32_t *like = position_classes(&d);
    const bool in_order = is_in_rank_order(&d), is_root = rank == params->root;
    struct run run = {{PLAN_OUTPUT, 0}, 0};
    if (!is_root || !in_order) run = scratch_run(&d, led_positions(&d));
    gather_to_leaders(&d, &run, like, d.h.top + 1);
    if (is_root && !in_order) copy_all(&d, &run, PLAN_OUTPUT, true);
    end_slice(&d);
    design_release(&d);
}

/* From below that level on down; what this rank gets last is its own block. */
static void scatter_from_leaders(struct design *d, const struct run *run, const uint32_t *like,
                                 int end_level, int channel)
{
    for (int level = end_level - 1; level >= 0; level--) {
        if (!leads(d, level) || members_at(d, level, d->self) == 1) continue;
        const bool is_last = hierarchy_unit_size(&d->h, level, d->h.unit_of[level][d->self]) == 1;
        struct embedding *scatter =
            embed_units(d, COLLECTIVE_SCATTER, level == 0 ? "direct" : "tree", level, like, channel);
        scatter->input = place_in(run, team_start(d, level));
        scatter->output =
            is_last ? (struct plan_place){PLAN_OUTPUT, 0} : place_in(run, unit_start(d, level));
    }
}

void hierarchical_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    const uint32_t *like = position_classes(&d);
    const bool in_order = is_in_rank_order(&d), is_root = rank == params->root;
    struct run run = {{PLAN_INPUT, 0}, 0};
    if (!is_root || !in_order) run = scratch_run(&d, led_positions(&d));
    if (is_root && !in_order) copy_all(&d, &run, PLAN_INPUT, false);
    scatter_from_leaders(&d, &run, like, d.h.top + 1, 0);
    end_slice(&d);
    design_release(&d);
}

static struct members all_positions(const struct design *d)
{
    return (struct members){0, d->h.rank_count};
}

/* All blocks as if they were one. */
static void embed_all_blocks(struct design *d, struct embedding *embedding, const uint32_t *like)
{
    uint32_t *starts = keep_numbers(d, 2);
    if (starts == NULL || like == NULL) return;
    starts[1] = (uint32_t)d->h.rank_count;
    embedding->starts = starts;
    embedding->like = like;
}

void hierarchical_tree_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    const uint32_t *like = position_classes(&d);
    const bool in_order = is_in_rank_order(&d);
    struct run run = {{PLAN_OUTPUT, 0}, 0};
    if (!in_order) run = scratch_run(&d, all_positions(&d));
    const struct plan_place at = gather_to_leaders(&d, &run, like, d.h.top);
    if (leads(&d, d.h.top)) {
        struct embedding *top = embed_units(&d, COLLECTIVE_ALLGATHER, "circulant", d.h.top, like, 0);
        top->input = at;
        top->output = place_in(&run, 0);
    }
    for (int level = d.h.top - 1; level >= 0 && !failed(&d); level--) {
        if (!leads(&d, level) || members_at(&d, level, d.self) == 1) continue;
        const struct team team = leader_team(&d, level);
        struct embedding *broadcast =
            embed(&d, COLLECTIVE_BROADCAST, level == 0 ? "direct" : "tree", &team, GATHER_CHANNEL);
        embed_all_blocks(&d, broadcast, like);
        broadcast->input = broadcast->output = run.place;
    }
    if (!in_order) copy_all(&d, &run, PLAN_OUTPUT, true);
    end_slice(&d);
    design_release(&d);
}

void hierarchical_tree_reduce_scatter(const struct algo_params *params, int rank,
                                      struct plan_builder *b)
{
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    const uint32_t *like = position_classes(&d);
    struct run run = {{PLAN_INPUT, 0}, 0};
    if (!is_in_rank_order(&d)) {
        run = scratch_run(&d, all_positions(&d));
        copy_all(&d, &run, PLAN_INPUT, false);
    }
    const struct run sums =
        scratch_run(&d, leads(&d, 1) ? all_positions(&d) : (struct members){0, 1});
    struct plan_place at = run.place;
    for (int level = 0; level < d.h.top && leads(&d, level) && !failed(&d); level++) {
        if (members_at(&d, level, d.self) == 1) continue;
        const struct team team = leader_team(&d, level);
        struct embedding *reduce =
            embed(&d, COLLECTIVE_REDUCE, level == 0 ? "direct" : "tree", &team, 0);
        embed_all_blocks(&d, reduce, like);
        reduce->input = at;
        reduce->output = sums.place;
        reduce->partial = true;
        at = sums.place;
    }
    /* Sums that are complete lie apart from those that peers may still read. */
    const struct run results = scratch_run(&d, led_positions(&d));
    if (leads(&d, d.h.top)) {
        const bool is_last =
            d.h.top == 0 || hierarchy_unit_size(&d.h, d.h.top, d.h.unit_of[d.h.top][d.self]) == 1;
        struct embedding *top =
            embed_units(&d, COLLECTIVE_REDUCE_SCATTER, "circulant", d.h.top, like, 0);
        top->input = at;
        top->output = is_last ? (struct plan_place){PLAN_OUTPUT, 0}
                              : place_in(&results, unit_start(&d, d.h.top));
    }
    scatter_from_leaders(&d, &results, like, d.h.top, GATHER_CHANNEL);
    end_slice(&d);
    design_release(&d);
}
