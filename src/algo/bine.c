/* bine.c - binomial trees and butterflies with numbers to base -2, so that partners are nearer.
 *
 *     p = 8, root 0        ... 6   7   0   1   2   3   4   5 ...      the ranks on their circle
 *     level 2, distance 3                +-----------3
 *     level 1, distance 1          7-----0           3---4
 *     level 0, distance 1      6---7     0---1   2---3   4---5
 *
 * A binomial tree goes to one side only, so its first step takes half of the circle. Here (see
 * negabinary.h) every step goes to the other side of the ranks that are already served: two thirds
 * of the way. If the ranks of a rack have neighbouring numbers, fewer messages leave the rack,
 * unless racks are aligned powers of two and the root is rank 0, which suits a binomial tree best.
 *
 * With the levels below k a rank serves a run of 2^k ranks on the circle around it: an even rank
 * serves all ranks whose distance from it is a number of k digits to base -2, an odd rank mirrors
 * that. So gather, scatter and the butterflies move runs of blocks. A run is one message, or two if
 * it passes the last rank and lies in a user's buffer.
 *
 * A rank gets what the root sends at the level of the lowest digit that is not like the one above
 * it, its distance from the root being written to base -2; its own partners are at the levels
 * below.
 *
 * The butterflies are those with the farthest partners first (for reduce_scatter; allgather is the
 * way back).  All pairs that meet have then summed up the same ranks in the same way: one
 * association tree for all elements.  The butterflies with the nearest partners first, which leave
 * fewer bytes on far links but need blocks in another order, are those of swing.c.
 *
 * Cost as with binomial trees and recursive halving: broadcast lg p (alpha + n beta), reduce the
 * same with gamma; gather and scatter lg p alpha + (p-1)/p n beta at the root; reduce_scatter
 * lg p alpha + (p-1)/p n beta + (p-1)/p n gamma, allgather the same without gamma, allreduce the
 * sum of both; one more alpha a round where a run passes the last rank.
 *
 * Needs a power of two of ranks and a commutative operation.
 *
 * Source: De Sensi et al., "Bine Trees: Enhancing Collective Operations by Optimizing Communication
 * Locality", SC 2025.
 */
#include "algo/negabinary.h"

/* Ranks, or their blocks, first, first + 1, ... on the circle. */
struct rank_run {
    int first;
    uint32_t count;
};

/* The largest number of that many digits to base -2: ones at even places.  The smallest is the same
 * number with ones at the odd ones. */
static int largest_of(int digits)
{
    return (int)(0x55555555U & ((1U << digits) - 1));
}

static int smallest_of(int digits)
{
    return -(int)(0xaaaaaaaaU & ((1U << digits) - 1));
}

/* The ranks that a rank serves with the levels below `level`. */
static struct rank_run reach(int rank, int level, int ranks)
{
    const int offset = rank % 2 == 0 ? smallest_of(level) : -largest_of(level);
    return (struct rank_run){rank_at(rank, offset, ranks), 1U << level};
}

/* How far into a run a rank is. */
static uint32_t offset_in(struct rank_run run, int rank, int ranks)
{
    return (uint32_t)rank_at(rank, -run.first, ranks);
}

/* How much of a run comes before rank 0. */
static uint32_t before_wrap(struct rank_run run, int ranks)
{
    const uint32_t until_wrap = (uint32_t)(ranks - run.first);
    return run.count < until_wrap ? run.count : until_wrap;
}

/* -------------------------------------------------------------------------------------- trees */

struct tree {
    int ranks, root;
    int self;  /* numbered from the root on */
    int level; /* at which the parent serves us; beyond all for the root */
};

static struct tree tree_of(const struct algo_params *params, int rank)
{
    struct tree tree = {.ranks = params->rank_count, .root = params->root};
    const int levels = negabinary_level_count(tree.ranks);
    tree.self = rank_at(rank, -tree.root, tree.ranks);
    const int number = tree.self > largest_of(levels) ? tree.self - tree.ranks : tree.self;
    const unsigned odd_places = 0xaaaaaaaaU;
    const unsigned digits = ((unsigned)number + odd_places) ^ odd_places;
    const unsigned unlike = digits ^ digits >> 1; /* the digit above */
    while (tree.level < levels && (unlike >> tree.level & 1) == 0) tree.level++;
    return tree;
}

static int rank_of(const struct tree *tree, int self)
{
    return rank_at(self, tree->root, tree->ranks);
}

static bool is_root(const struct tree *tree)
{
    return tree->self == 0;
}

/* Our partner at a level below ours is a child; at ours, the parent. */
static int partner_of(const struct tree *tree, int level)
{
    return rank_of(tree, negabinary_partner(tree->self, level, tree->ranks));
}

static int parent_of(const struct tree *tree)
{
    return partner_of(tree, tree->level);
}

/* The child's subtree, numbered from the root on. */
static struct rank_run subtree_at(const struct tree *tree, int level)
{
    return reach(negabinary_partner(tree->self, level, tree->ranks), level, tree->ranks);
}

static struct rank_run own_subtree(const struct tree *tree)
{
    return reach(tree->self, tree->level, tree->ranks);
}

static struct rank_run as_ranks(const struct tree *tree, struct rank_run run)
{
    return (struct rank_run){rank_of(tree, run.first), run.count};
}

void bine_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct tree tree = tree_of(params, rank);
    plan_lane(b);
    plan_begin(b, 1);
    if (is_root(&tree))
        plan_read(b, PLAN_INPUT, 0);
    else
        plan_receive(b, parent_of(&tree));
    plan_write(b, PLAN_OUTPUT, 0);
    for (int level = tree.level - 1; level >= 0; level--) plan_send(b, partner_of(&tree, level));
    plan_end(b);
}

void bine_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct tree tree = tree_of(params, rank);
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    for (int level = 0; level < tree.level; level++) plan_receive(b, partner_of(&tree, level));
    if (is_root(&tree)) {
        plan_write(b, PLAN_OUTPUT, 0);
        plan_final(b);
    } else {
        plan_send(b, parent_of(&tree));
    }
    plan_end(b);
}

/* Scratch for our own subtree, in the order of the run. */
static void declare_subtree_scratch(struct plan_builder *b, const struct tree *tree)
{
    const struct rank_run own = own_subtree(tree);
    for (uint32_t i = 0; i < own.count; i++)
        plan_scratch(b, (uint32_t)rank_of(tree, own.first + (int)i));
}

/* The root's buffer is in rank order: there a run that passes the last rank is two messages. */
static void receive_at_root(struct plan_builder *b, int peer, struct rank_run run, int ranks)
{
    const uint32_t head = before_wrap(run, ranks);
    plan_receive_to(b, peer, PLAN_OUTPUT, (uint32_t)run.first, head);
    if (head < run.count) plan_receive_to(b, peer, PLAN_OUTPUT, 0, run.count - head);
}

static void send_from_root(struct plan_builder *b, int peer, struct rank_run run, int ranks)
{
    const uint32_t head = before_wrap(run, ranks);
    plan_send_from(b, peer, PLAN_INPUT, (uint32_t)run.first, head);
    if (head < run.count) plan_send_from(b, peer, PLAN_INPUT, 0, run.count - head);
}

/* Blocks of our own run that travel to or from the parent as a first message; the rest, if any, as
 * a second one. */
static uint32_t head_for_parent(const struct tree *tree)
{
    const struct rank_run own = own_subtree(tree);
    if (parent_of(tree) != tree->root) return own.count;
    return before_wrap(as_ranks(tree, own), tree->ranks);
}

static void gather_at_root(struct plan_builder *b, const struct tree *tree)
{
    plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, (uint32_t)tree->root, 1);
    for (int level = 0; level < tree->level; level++)
        receive_at_root(b, partner_of(tree, level), as_ranks(tree, subtree_at(tree, level)),
                        tree->ranks);
}

void bine_gather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct tree tree = tree_of(params, rank);
    plan_lane(b);
    if (is_root(&tree)) {
        gather_at_root(b, &tree);
        return;
    }
    if (tree.level == 0) {
        plan_send_from(b, parent_of(&tree), PLAN_INPUT, 0, 1);
        return;
    }
    const struct rank_run own = own_subtree(&tree);
    declare_subtree_scratch(b, &tree);
    plan_copy(b, PLAN_INPUT, 0, PLAN_SCRATCH, offset_in(own, tree.self, tree.ranks), 1);
    for (int level = 0; level < tree.level; level++) {
        const struct rank_run run = subtree_at(&tree, level);
        plan_receive_to(b, partner_of(&tree, level), PLAN_SCRATCH,
                        offset_in(own, run.first, tree.ranks), run.count);
    }
    const uint32_t head = head_for_parent(&tree);
    plan_send_from(b, parent_of(&tree), PLAN_SCRATCH, 0, head);
    if (head < own.count) plan_send_from(b, parent_of(&tree), PLAN_SCRATCH, head, own.count - head);
}

static void scatter_at_root(struct plan_builder *b, const struct tree *tree)
{
    for (int level = tree->level - 1; level >= 0; level--)
        send_from_root(b, partner_of(tree, level), as_ranks(tree, subtree_at(tree, level)),
                       tree->ranks);
    plan_copy(b, PLAN_INPUT, (uint32_t)tree->root, PLAN_OUTPUT, 0, 1);
}

void bine_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct tree tree = tree_of(params, rank);
    plan_lane(b);
    if (is_root(&tree)) {
        scatter_at_root(b, &tree);
        return;
    }
    if (tree.level == 0) {
        plan_receive_to(b, parent_of(&tree), PLAN_OUTPUT, 0, 1);
        return;
    }
    const struct rank_run own = own_subtree(&tree);
    declare_subtree_scratch(b, &tree);
    const uint32_t head = head_for_parent(&tree);
    plan_receive_to(b, parent_of(&tree), PLAN_SCRATCH, 0, head);
    if (head < own.count)
        plan_receive_to(b, parent_of(&tree), PLAN_SCRATCH, head, own.count - head);
    for (int level = tree.level - 1; level >= 0; level--) {
        const struct rank_run run = subtree_at(&tree, level);
        plan_send_from(b, partner_of(&tree, level), PLAN_SCRATCH,
                       offset_in(own, run.first, tree.ranks), run.count);
    }
    plan_copy(b, PLAN_SCRATCH, offset_in(own, tree.self, tree.ranks), PLAN_OUTPUT, 0, 1);
}

/* --------------------------------------------------------------------------------- butterflies
 *
 * Partners share a run before their round, and of two halves of a run at most one passes the last
 * rank: so it is never both that have two messages to send before they receive. */

static void send_run(struct plan_builder *b, int peer, enum plan_buffer at, struct rank_run run,
                     int ranks)
{
    const uint32_t head = before_wrap(run, ranks);
    plan_send_from(b, peer, at, (uint32_t)run.first, head);
    if (head < run.count) plan_send_from(b, peer, at, 0, run.count - head);
}

static void receive_run(struct plan_builder *b, int peer, struct rank_run run, int ranks)
{
    const uint32_t head = before_wrap(run, ranks);
    plan_receive_to(b, peer, PLAN_OUTPUT, (uint32_t)run.first, head);
    if (head < run.count) plan_receive_to(b, peer, PLAN_OUTPUT, 0, run.count - head);
}

/* The partner's message and what we have. */
static void add(struct plan_builder *b, int peer, struct plan_location own,
                struct plan_location sum, uint32_t count, bool is_last)
{
    plan_begin(b, count);
    plan_receive(b, peer);
    plan_read(b, own.buffer, own.first);
    plan_write(b, sum.buffer, sum.first);
    if (is_last) plan_final(b);
    plan_end(b);
}

static void gather_runs(struct plan_builder *b, int rank, int ranks)
{
    const int levels = negabinary_level_count(ranks);
    for (int level = 0; level < levels; level++) {
        const int peer = negabinary_partner(rank, level, ranks);
        send_run(b, peer, PLAN_OUTPUT, reach(rank, level, ranks), ranks);
        receive_run(b, peer, reach(peer, level, ranks), ranks);
    }
}

/* As in halving.c, what was sent is stored over only by results that were made of it. */
void bine_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count;
    enum plan_buffer at = PLAN_INPUT; /* where our partial result lies */
    plan_parts(b, (uint32_t)ranks);
    plan_lane(b);
    for (int level = negabinary_level_count(ranks) - 1; level >= 0; level--) {
        const int peer = negabinary_partner(rank, level, ranks);
        const struct rank_run kept = reach(rank, level, ranks);
        const uint32_t first = (uint32_t)kept.first, head = before_wrap(kept, ranks);
        send_run(b, peer, at, reach(peer, level, ranks), ranks);
        add(b, peer, (struct plan_location){at, first}, (struct plan_location){PLAN_OUTPUT, first},
            head, level == 0);
        if (head < kept.count)
            add(b, peer, (struct plan_location){at, 0}, (struct plan_location){PLAN_OUTPUT, 0},
                kept.count - head, level == 0);
        at = PLAN_OUTPUT;
    }
    gather_runs(b, rank, ranks);
}

void bine_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    plan_lane(b);
    plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, (uint32_t)rank, 1);
    gather_runs(b, rank, params->rank_count);
}

/* The first round is between inputs, where a run may be two messages. The part that a rank keeps
 * goes to scratch, where a run is one message from then on. */
static void scatter_inputs(struct plan_builder *b, int rank, int level, int ranks)
{
    const int peer = negabinary_partner(rank, level, ranks);
    const struct rank_run kept = reach(rank, level, ranks);
    const uint32_t head = before_wrap(kept, ranks);
    const struct plan_location result = {level == 0 ? PLAN_OUTPUT : PLAN_SCRATCH, 0};
    send_run(b, peer, PLAN_INPUT, reach(peer, level, ranks), ranks);
    add(b, peer, (struct plan_location){PLAN_INPUT, (uint32_t)kept.first}, result, head, level == 0);
    if (head < kept.count)
        add(b, peer, (struct plan_location){PLAN_INPUT, 0},
            (struct plan_location){PLAN_SCRATCH, head}, kept.count - head, false);
}

void bine_reduce_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count, last_level = negabinary_level_count(ranks) - 1;
    const struct rank_run all = reach(rank, last_level, ranks); /* of what is in scratch */
    for (uint32_t i = 0; i < all.count && last_level > 0; i++)
        plan_scratch(b, (uint32_t)rank_at(all.first, (int)i, ranks));
    plan_lane(b);
    scatter_inputs(b, rank, last_level, ranks);
    for (int level = last_level - 1; level >= 0; level--) {
        const int peer = negabinary_partner(rank, level, ranks);
        const struct rank_run kept = reach(rank, level, ranks), given = reach(peer, level, ranks);
        const struct plan_location own = {PLAN_SCRATCH, offset_in(all, kept.first, ranks)};
        plan_send_from(b, peer, PLAN_SCRATCH, offset_in(all, given.first, ranks), given.count);
        add(b, peer, own, level == 0 ? (struct plan_location){PLAN_OUTPUT, 0} : own, kept.count,
            level == 0);
    }
}
