/* double_tree.c - two binary trees, half of the vector each, in which nobody has more than two children.
 *
 *     p = 8, tree 0       0                   tree 1: the same, mirrored     7
 *                         |                                                  |
 *                         4                                                  3
 *                       /   \                                              /   \
 *                     2       6                                          5       1
 *                    / \     / \                                        / \     / \
 *                   1   3   5   7                                      6   4   2   0
 *
 * A place in a tree is a position. The lowest bit of a position says how high it stands: odd
 * positions are leaves, position 0 is the root above all, with one child. A single binary tree
 * keeps only its inner ranks busy. Tree 1 is tree 0 mirrored, or, if that would give the same inner
 * ranks again, moved by one: a leaf of one tree is an inner rank of the other. So every rank sends
 * and receives about as much, and a long vector streams through both trees at full speed.
 *
 * Every rank has one fused step a tree for the way up and one for the way down, each in a lane of
 * its own: pieces of both halves go up and down at once.
 *
 * Cost with S pieces of each half: allreduce (S + 2 lg p) (4 alpha + 2 n/S beta + n/S gamma),
 * broadcast (S + lg p) (2 alpha + n/S beta), reduce the same with gamma: the bytes of a ring with
 * the depth of a tree.  Any rank count and root; three neighbours a tree.
 *
 * What holds (double_tree_test.c): both trees are ceil(log2 p) deep.  Over both a rank has at most
 * two children.  Allreduce: no rank is an inner one of both for even p, exactly one for odd p >= 3.
 * Broadcast and reduce, where the root is the same for both: only that root.
 *
 * Operands are combined in the order of positions, which is not rank order in both trees.
 *
 * Source: Sanders, Speck, Träff, "Two-Tree Algorithms for Full Bandwidth Broadcast, Reduction and
 * Scan", Parallel Computing 35(12), 2009; as NCCL has it, with a root above each tree.
 */
#include "algo/generators.h"

enum { TREES = 2, NOBODY = -1 };

/* A rank's place in one of the trees, as ranks. */
struct place {
    int parent, lower, higher; /* lower: the child whose subtree comes before us; or NOBODY */
};

/* Maps positions to ranks, and back. */
struct numbering {
    int ranks, tree;
    int root; /* position 0 of both trees if is_rooted */
    bool is_rooted;
};

/* Tree 1 moves by one where the mirror image of an even position is an even position. */
static int rank_at_position(struct numbering n, int position)
{
    const int others = n.ranks - 1;
    if (n.is_rooted) {
        int further = position;
        if (n.tree == 1 && position > 0 && others % 2 == 0) further = n.ranks - position;
        if (n.tree == 1 && position > 0 && others % 2 == 1)
            further = position == 1 ? others : position - 1;
        return rank_at(n.root, further, n.ranks);
    }
    if (n.tree == 0) return position;
    return n.ranks % 2 == 0 ? others - position : rank_at(position, 1, n.ranks);
}

static int position_of(struct numbering n, int rank)
{
    const int others = n.ranks - 1;
    if (n.is_rooted) {
        const int further = rank_at(rank, -n.root, n.ranks);
        if (n.tree == 0 || further == 0) return further;
        if (others % 2 == 0) return n.ranks - further;
        return further == others ? 1 : further + 1;
    }
    if (n.tree == 0) return rank;
    return n.ranks % 2 == 0 ? others - rank : rank_at(rank, -1, n.ranks);
}

/* Positions x - bit + 1 .. x + bit - 1 are the subtree of x, whose lowest bit that is. */
static int parent_of(int position, int ranks)
{
    const int bit = position & -position, sibling_bit = bit * 2;
    const int above = (position - bit) | sibling_bit; /* if we are its lower child */
    return above < ranks ? above : position - bit;
}

static int higher_child_of(int position, int ranks)
{
    int half = (position & -position) / 2;
    while (half > 0 && position + half >= ranks) half /= 2;
    return half > 0 ? position + half : NOBODY;
}

static struct place place_of(struct numbering n, int rank)
{
    const int position = position_of(n, rank), bit = position & -position;
    struct place place = {NOBODY, NOBODY, NOBODY};
    int lower = NOBODY, higher = NOBODY;
    if (position == 0) {
        higher = power_of_two_within(n.ranks - 1);
    } else {
        place.parent = rank_at_position(n, parent_of(position, n.ranks));
        if (bit > 1) lower = position - bit / 2;
        higher = higher_child_of(position, n.ranks);
    }
    if (lower != NOBODY) place.lower = rank_at_position(n, lower);
    if (higher != NOBODY) place.higher = rank_at_position(n, higher);
    return place;
}

static void send_to_children(struct plan_builder *b, struct place place)
{
    if (place.lower != NOBODY) plan_send(b, place.lower);
    if (place.higher != NOBODY) plan_send(b, place.higher);
}

/* The sum of our subtree; left open, for where it goes to. */
static void begin_sum(struct plan_builder *b, struct place place, uint32_t half)
{
    plan_begin(b, 1);
    if (place.lower != NOBODY) plan_receive(b, place.lower);
    plan_read(b, PLAN_INPUT, half);
    if (place.higher != NOBODY) plan_receive(b, place.higher);
}

static void finish_at_root(struct plan_builder *b, uint32_t half)
{
    plan_write(b, PLAN_OUTPUT, half);
    plan_final(b);
}

/* The halves have channels of their own: two ranks may be neighbours in both trees. */
static void begin_tree(struct plan_builder *b, int tree)
{
    plan_lane(b);
    plan_channel(b, tree);
}

void double_tree_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    plan_parts(b, TREES);
    for (int tree = 0; tree < TREES; tree++) {
        const struct numbering numbering = {params->rank_count, tree, params->root, true};
        const struct place place = place_of(numbering, rank);
        begin_tree(b, tree);
        plan_begin(b, 1);
        if (place.parent == NOBODY)
            plan_read(b, PLAN_INPUT, (uint32_t)tree);
        else
            plan_receive(b, place.parent);
        plan_write(b, PLAN_OUTPUT, (uint32_t)tree);
        send_to_children(b, place);
        plan_end(b);
    }
}

void double_tree_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    plan_parts(b, TREES);
    for (int tree = 0; tree < TREES; tree++) {
        const struct numbering numbering = {params->rank_count, tree, params->root, true};
        const struct place place = place_of(numbering, rank);
        begin_tree(b, tree);
        begin_sum(b, place, (uint32_t)tree);
        if (place.parent == NOBODY)
            finish_at_root(b, (uint32_t)tree);
        else
            plan_send(b, place.parent);
        plan_end(b);
    }
}

void double_tree_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    plan_parts(b, TREES);
    for (int tree = 0; tree < TREES; tree++) {
        const struct numbering numbering = {params->rank_count, tree, 0, false};
        const struct place place = place_of(numbering, rank);
        begin_tree(b, tree);
        begin_sum(b, place, (uint32_t)tree);
        if (place.parent == NOBODY) {
            finish_at_root(b, (uint32_t)tree);
        } else {
            plan_send(b, place.parent);
            plan_end(b);
            begin_tree(b, tree); /* results come down while later pieces still go up */
            plan_begin(b, 1);
            plan_receive(b, place.parent);
            plan_write(b, PLAN_OUTPUT, (uint32_t)tree);
        }
        send_to_children(b, place);
        plan_end(b);
    }
}
