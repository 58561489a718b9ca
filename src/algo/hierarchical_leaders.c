/* hierarchical_leaders.c - few bytes between ranks on hosts: through one leader for each host, each
 * rack and so on.
 *
 *     two racks of two hosts      0   1   2     3   4     5   6   7     8   9
 *     of 3, 2, 3, 2 ranks         +---+---+     +---+     +---+---+     +---+    in the host
 *                                 0             3         5             8
 *                                 +-------------+         +-------------+        in the rack
 *                                 0                       5
 *                                 +-----------------------+                      at the top
 *
 * A leader is the root, if the root is among the ranks that it leads, and otherwise the first rank
 * (hierarchy_leader). In a host all ranks talk to their leader directly, above it trees do it;
 * allreduce doubles at the top, allgather and reduce_scatter go around a circulant graph there.
 *
 * A leader has the blocks of its members one behind the other, in the order of positions, so that a
 * unit's blocks are one message. They lie in the user's buffer if that is the order of ranks, too;
 * otherwise they are copied.
 *
 * Cost across N hosts: lg N (alpha + n beta) for vectors of n bytes, lg N alpha + (N-1)/N n beta
 * for blocks of n bytes in all; L times fewer messages than without leaders, for L ranks a host, at
 * L times the bytes at one card.
 *
 * One association tree where a whole vector is reduced.  A commutative operation; any levels, ranks
 * in any order, any root.
 *
 * Source: Karonis et al. 2000 (see hierarchical.c).
 */
#include "algo/generators.h"
#include "algo/hierarchical_design.h"

static int leader_of(const struct design *d, int level, int unit)
{
    return hierarchy_leader(&d->h, level, unit, d->h.position[d->params->root]);
}

static bool leads(const struct design *d, int level)
{
    return leader_of(d, level, d->h.unit_of[level][d->self]) == d->self;
}

/* The leaders of a team's units; its root is the leader of the team. */
static struct subgroup leader_team(struct design *d, int level)
{
    const int number = hierarchy_subgroup(&d->h, level, d->self);
    const struct level_members members = hierarchy_members(&d->h, level, number);
    struct subgroup team = {.count = members.count, .index = design_member_at(d, level, d->self)};
    team.ranks = design_keep(d, (size_t)members.count, sizeof *team.ranks);
    for (int i = 0; i < members.count && team.ranks != NULL; i++)
        team.ranks[i] = d->h.order[leader_of(d, level, members.first + i)];
    team.root = d->h.unit_of[level][leader_of(d, level + 1, number)] - members.first;
    return team;
}

/* To the leaders, which pass on their sums, up to that level. Returns where this rank's is. */
static struct plan_location reduce_to_leaders(struct design *d, struct plan_location sums,
                                              int end_level, bool is_partial)
{
    struct plan_location at = {PLAN_INPUT, 0};
    for (int level = 0; level < end_level && leads(d, level); level++) {
        const struct subgroup team = leader_team(d, level);
        if (team.count == 1) continue;
        struct embedding *reduce =
            design_embed(d, COLLECTIVE_REDUCE, level == 0 ? mesh_reduce : tree_reduce, &team, 0);
        reduce->input = at;
        reduce->output = sums;
        reduce->partial = is_partial || level < end_level - 1;
        at = sums;
    }
    return at;
}

/* From the leaders on, from below that level. */
static void broadcast_from_leaders(struct design *d, struct plan_location from, int end_level)
{
    for (int level = end_level - 1; level >= 0; level--) {
        if (!leads(d, level)) continue;
        const struct subgroup team = leader_team(d, level);
        if (team.count == 1) continue;
        struct embedding *broadcast =
            design_embed(d, COLLECTIVE_BROADCAST, level == 0 ? mesh_broadcast : tree_broadcast,
                         &team, DESIGN_GATHER_CHANNEL);
        broadcast->input = from;
        broadcast->output = (struct plan_location){PLAN_OUTPUT, 0};
        from = broadcast->output;
    }
}

void hierarchical_tree_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct plan_location output = {PLAN_OUTPUT, 0};
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    const struct plan_location at = reduce_to_leaders(&d, output, d.h.top, true);
    if (leads(&d, d.h.top) && !design_failed(&d)) {
        const struct subgroup team = leader_team(&d, d.h.top);
        struct embedding *top = design_embed(&d, COLLECTIVE_ALLREDUCE, doubling_allreduce, &team, 0);
        top->input = at;
        top->output = output;
    }
    broadcast_from_leaders(&d, output, d.h.top);
    design_end_slice(&d);
    design_release(&d);
}

void hierarchical_tree_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    broadcast_from_leaders(&d, (struct plan_location){PLAN_INPUT, 0}, d.h.top + 1);
    design_end_slice(&d);
    design_release(&d);
}

/* Only the root has an output; other ranks sum up in scratch. */
void hierarchical_tree_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    struct plan_location sums = {PLAN_OUTPUT, 0};
    if (rank != params->root) sums = (struct plan_location){PLAN_SCRATCH, plan_scratch(b, 0)};
    reduce_to_leaders(&d, sums, d.h.top + 1, false);
    design_end_slice(&d);
    design_release(&d);
}

/* ----------------------------------------------------------------------- blocks through leaders */

/* The largest unit that this rank leads. */
static struct level_members led_positions(const struct design *d)
{
    int level = 0;
    while (level <= d->h.top && leads(d, level + 1)) level++;
    const int unit = d->h.unit_of[level][d->self];
    return (struct level_members){d->h.units[level][unit], hierarchy_unit_size(&d->h, level, unit)};
}

static bool is_in_rank_order(const struct design *d)
{
    for (int i = 0; i < d->h.rank_count; i++)
        if (d->h.order[i] != i) return false;
    return true;
}

/* Blocks of consecutive positions: that of position p is at first + p - position. */
struct rank_run {
    struct plan_location place;
    int position;
};

static struct plan_location place_in(const struct rank_run *run, int position)
{
    return (struct plan_location){run->place.buffer,
                                  run->place.first + (uint32_t)(position - run->position)};
}

static struct rank_run scratch_run(struct design *d, struct level_members positions)
{
    struct rank_run run = {{PLAN_SCRATCH, 0}, positions.first};
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
    uint32_t *like = design_keep_numbers(d, (size_t)d->h.rank_count);
    for (int i = 0; i < d->h.rank_count && like != NULL; i++) like[i] = (uint32_t)d->h.order[i];
    return like;
}

/* The block of the team at which each member's unit begins. */
static uint32_t *unit_starts(struct design *d, int level, const struct level_members *members)
{
    const int *bounds = d->h.units[level] + members->first;
    uint32_t *starts = design_keep_numbers(d, (size_t)members->count + 1);
    for (int i = 0; i <= members->count && starts != NULL; i++)
        starts[i] = (uint32_t)(bounds[i] - bounds[0]);
    return starts;
}

/* A plan of a team on the blocks of its units. */
static struct embedding *embed_units(struct design *d, enum collective collective,
                                     algo_generate *generate, int level, const uint32_t *like,
                                     int channel)
{
    const struct level_members members =
        hierarchy_members(&d->h, level, hierarchy_subgroup(&d->h, level, d->self));
    const struct subgroup team = leader_team(d, level);
    struct embedding *embedding = design_embed(d, collective, generate, &team, channel);
    const uint32_t *starts = unit_starts(d, level, &members);
    if (starts == NULL || like == NULL) return embedding;
    embedding->starts = starts;
    embedding->like = like + d->h.units[level][members.first];
    return embedding;
}

static int team_start(const struct design *d, int level)
{
    return d->h.units[level + 1][hierarchy_subgroup(&d->h, level, d->self)];
}

static int unit_start(const struct design *d, int level)
{
    return d->h.units[level][d->h.unit_of[level][d->self]];
}

/* Copies of this rank alone between a user's buffer and a run of all positions. */
static void copy_all(struct design *d, const struct rank_run *run, enum plan_buffer user,
                     bool to_user)
{
    struct subgroup alone = {.count = 1, .ranks = design_keep(d, 1, sizeof(int))};
    if (design_failed(d)) return;
    alone.ranks[0] = d->rank;
    for (int i = 0; i < d->h.rank_count; i++) {
        const uint32_t rank = (uint32_t)d->h.order[i];
        struct embedding *copy = design_embed(d, COLLECTIVE_BROADCAST, mesh_broadcast, &alone, 0);
        const struct plan_location at_user = {user, rank}, at_run = place_in(run, i);
        copy->first_class = rank;
        copy->input = to_user ? at_run : at_user;
        copy->output = to_user ? at_user : at_run;
    }
}

/* Up to below that level; returns where this rank's part of the next one lies. */
static struct plan_location gather_to_leaders(struct design *d, const struct rank_run *run,
                                              const uint32_t *like, int end_level)
{
    struct plan_location at = {PLAN_INPUT, 0};
    for (int level = 0; level < end_level && leads(d, level); level++) {
        if (design_member_count_at(d, level, d->self) == 1) continue;
        struct embedding *gather = embed_units(
            d, COLLECTIVE_GATHER, level == 0 ? mesh_gather : tree_gather, level, like, 0);
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
    struct rank_run run = {{PLAN_OUTPUT, 0}, 0};
    if (!is_root || !in_order) run = scratch_run(&d, led_positions(&d));
    gather_to_leaders(&d, &run, like, d.h.top + 1);
    if (is_root && !in_order) copy_all(&d, &run, PLAN_OUTPUT, true);
    design_end_slice(&d);
    design_release(&d);
}

/* From below that level on down; the last message that this rank gets is its own block. */
static void scatter_from_leaders(struct design *d, const struct rank_run *run, const uint32_t *like,
                                 int end_level, int channel)
{
    for (int level = end_level - 1; level >= 0; level--) {
        if (!leads(d, level) || design_member_count_at(d, level, d->self) == 1) continue;
        const bool is_last = hierarchy_unit_size(&d->h, level, d->h.unit_of[level][d->self]) == 1;
        struct embedding *scatter = embed_units(
            d, COLLECTIVE_SCATTER, level == 0 ? mesh_scatter : tree_scatter, level, like, channel);
        scatter->input = place_in(run, team_start(d, level));
        scatter->output =
            is_last ? (struct plan_location){PLAN_OUTPUT, 0} : place_in(run, unit_start(d, level));
    }
}

void hierarchical_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    const uint32_t *like = position_classes(&d);
    const bool in_order = is_in_rank_order(&d), is_root = rank == params->root;
    struct rank_run run = {{PLAN_INPUT, 0}, 0};
    if (!is_root || !in_order) run = scratch_run(&d, led_positions(&d));
    if (is_root && !in_order) copy_all(&d, &run, PLAN_INPUT, false);
    scatter_from_leaders(&d, &run, like, d.h.top + 1, 0);
    design_end_slice(&d);
    design_release(&d);
}

static struct level_members all_positions(const struct design *d)
{
    return (struct level_members){0, d->h.rank_count};
}

/* All blocks as if they were one. */
static void embed_all_blocks(struct design *d, struct embedding *embedding, const uint32_t *like)
{
    uint32_t *starts = design_keep_numbers(d, 2);
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
    struct rank_run run = {{PLAN_OUTPUT, 0}, 0};
    if (!in_order) run = scratch_run(&d, all_positions(&d));
    const struct plan_location at = gather_to_leaders(&d, &run, like, d.h.top);
    if (leads(&d, d.h.top)) {
        struct embedding *top =
            embed_units(&d, COLLECTIVE_ALLGATHER, circulant_allgather, d.h.top, like, 0);
        top->input = at;
        top->output = place_in(&run, 0);
    }
    for (int level = d.h.top - 1; level >= 0 && !design_failed(&d); level--) {
        if (!leads(&d, level) || design_member_count_at(&d, level, d.self) == 1) continue;
        const struct subgroup team = leader_team(&d, level);
        struct embedding *broadcast =
            design_embed(&d, COLLECTIVE_BROADCAST, level == 0 ? mesh_broadcast : tree_broadcast,
                         &team, DESIGN_GATHER_CHANNEL);
        embed_all_blocks(&d, broadcast, like);
        broadcast->input = broadcast->output = run.place;
    }
    if (!in_order) copy_all(&d, &run, PLAN_OUTPUT, true);
    design_end_slice(&d);
    design_release(&d);
}

void hierarchical_tree_reduce_scatter(const struct algo_params *params, int rank,
                                      struct plan_builder *b)
{
    struct design d;
    if (!design_init(&d, params, rank, b)) return;
    const uint32_t *like = position_classes(&d);
    struct rank_run run = {{PLAN_INPUT, 0}, 0};
    if (!is_in_rank_order(&d)) {
        run = scratch_run(&d, all_positions(&d));
        copy_all(&d, &run, PLAN_INPUT, false);
    }
    const struct rank_run sums =
        scratch_run(&d, leads(&d, 1) ? all_positions(&d) : (struct level_members){0, 1});
    struct plan_location at = run.place;
    for (int level = 0; level < d.h.top && leads(&d, level) && !design_failed(&d); level++) {
        if (design_member_count_at(&d, level, d.self) == 1) continue;
        const struct subgroup team = leader_team(&d, level);
        struct embedding *reduce =
            design_embed(&d, COLLECTIVE_REDUCE, level == 0 ? mesh_reduce : tree_reduce, &team, 0);
        embed_all_blocks(&d, reduce, like);
        reduce->input = at;
        reduce->output = sums.place;
        reduce->partial = true;
        at = sums.place;
    }
    /* Sums that are complete lie apart from those that peers may still read. */
    const struct rank_run results = scratch_run(&d, led_positions(&d));
    if (leads(&d, d.h.top)) {
        const bool is_last =
            d.h.top == 0 || hierarchy_unit_size(&d.h, d.h.top, d.h.unit_of[d.h.top][d.self]) == 1;
        struct embedding *top =
            embed_units(&d, COLLECTIVE_REDUCE_SCATTER, circulant_reduce_scatter, d.h.top, like, 0);
        top->input = at;
        top->output = is_last ? (struct plan_location){PLAN_OUTPUT, 0}
                              : place_in(&results, unit_start(&d, d.h.top));
    }
    scatter_from_leaders(&d, &results, like, d.h.top, DESIGN_GATHER_CHANNEL);
    design_end_slice(&d);
    design_release(&d);
}
