/* tree.c - k-nomial trees (binomial for k = 2, a star for k >= p).
 *
 *     k = 2, p = 8        0            numbered from the root on: virtual rank v = rank - root
 *                ________/|\
 *               4       2   1          v's parent is v with its lowest digit (to base k) that is
 *              / \      |              not 0 cleared; v's subtree is the run of virtual ranks from
 *             6   5     3              v on that this digit allows
 *             |
 *             7
 *
 * Cost: broadcast ceil(log_k p) (alpha + (k-1) n beta); reduce the same with gamma; allreduce is
 * both; gather and scatter ceil(log_k p) (k-1) alpha + (p-1)/p n beta at the root for p blocks of
 * n/p bytes; barrier 2 ceil(log_k p) alpha. For small messages; a larger k saves depth where many
 * sends at once are cheap.
 *
 * Reductions combine a rank's operand with its subtrees in virtual order: one tree for all
 * elements, in rank order when the root is 0, as in allreduce. Any rank count; at most
 * ceil(log_k p) (k-1) + 1 links.
 *
 * Source: Bruck, Ho, Kipnis, Weathersby, "Efficient Algorithms for All-to-All Communications in
 * Multiport Message-Passing Systems", TPDS 8(11), 1997; Thakur et al. 2005 (see mesh.c).
 */
#include "algo/generators.h"

/* A rank's place in the tree, in virtual ranks. */
struct tree {
    uint32_t size, radix, self, root;
    uint32_t span; /* the power of the radix that our lowest digit is at; beyond all for the root */
};

static struct tree tree_of(const struct algo_params *params, int root, int rank)
{
    struct tree tree = {.size = (uint32_t)params->rank_count, .root = (uint32_t)root};
    tree.radix = (uint32_t)radix_of(params);
    tree.self = (uint32_t)rank_at(rank, -root, params->rank_count);
    tree.span = 1;
    while (tree.span < tree.size && tree.self % (tree.span * tree.radix) == 0)
        tree.span *= tree.radix;
    return tree;
}

static int rank_of(const struct tree *tree, uint32_t virtual_rank)
{
    return (int)((virtual_rank + tree->root) % tree->size);
}

static bool is_root(const struct tree *tree)
{
    return tree->self == 0;
}

static uint32_t parent_of(const struct tree *tree)
{
    return tree->self - tree->self % (tree->span * tree->radix);
}

/* Virtual ranks in the subtree of `top`, whose lowest digit is at that power of the radix. */
static uint32_t subtree_size(const struct tree *tree, uint32_t top, uint32_t span)
{
    return span < tree->size - top ? span : tree->size - top;
}

/* Children in virtual order: digit 1 .. k-1 at power 1, then at power k, ...  Nearest first,
 * smallest subtree first; child 0 with span 0 starts, false when there are no more. */
struct child {
    uint32_t top, span;
};

static bool next_child(const struct tree *tree, struct child *child)
{
    if (child->span == 0)
        *child = (struct child){tree->self + 1, 1};
    else if (child->top - tree->self == child->span * (tree->radix - 1))
        child->span *= tree->radix, child->top = tree->self + child->span;
    else
        child->top += child->span;
    return child->span < tree->span && child->top < tree->size;
}

/* The same from the largest subtree on; it has the longest way to go. */
static bool previous_child(const struct tree *tree, struct child *child)
{
    if (child->span == 0) {
        struct child next = {0, 0};
        while (next_child(tree, &next)) *child = next;
        return child->span > 0;
    }
    if (child->top - tree->self > child->span) {
        child->top -= child->span;
        return true;
    }
    child->span /= tree->radix;
    child->top = tree->self + child->span * (tree->radix - 1);
    return child->span > 0;
}

static void send_to_children(struct plan_builder *b, const struct tree *tree)
{
    for (struct child child = {0, 0}; previous_child(tree, &child);)
        plan_send(b, rank_of(tree, child.top));
}

static void receive_from_children(struct plan_builder *b, const struct tree *tree)
{
    for (struct child child = {0, 0}; next_child(tree, &child);)
        plan_receive(b, rank_of(tree, child.top));
}

void tree_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct tree tree = tree_of(params, params->root, rank);
    plan_lane(b);
    plan_begin(b, 1);
    if (is_root(&tree))
        plan_read(b, PLAN_INPUT, 0);
    else
        plan_receive(b, rank_of(&tree, parent_of(&tree)));
    plan_write(b, PLAN_OUTPUT, 0);
    send_to_children(b, &tree);
    plan_end(b);
}

void tree_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct tree tree = tree_of(params, params->root, rank);
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    receive_from_children(b, &tree);
    if (is_root(&tree)) {
        plan_write(b, PLAN_OUTPUT, 0);
        plan_final(b);
    } else {
        plan_send(b, rank_of(&tree, parent_of(&tree)));
    }
    plan_end(b);
}

/* Up to rank 0 and down again; the way down has its own lane, so that pieces come back while others
 * still go up. */
void tree_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct tree tree = tree_of(params, 0, rank);
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    receive_from_children(b, &tree);
    if (is_root(&tree)) {
        plan_final(b);
    } else {
        const int parent = rank_of(&tree, parent_of(&tree));
        plan_send(b, parent);
        plan_end(b);
        plan_lane(b);
        plan_begin(b, 1);
        plan_receive(b, parent);
    }
    plan_write(b, PLAN_OUTPUT, 0);
    send_to_children(b, &tree);
    plan_end(b);
}

void tree_barrier(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct tree tree = tree_of(params, 0, rank);
    plan_lane(b);
    plan_begin(b, 0);
    plan_read(b, PLAN_INPUT, 0);
    receive_from_children(b, &tree);
    if (!is_root(&tree)) {
        const int parent = rank_of(&tree, parent_of(&tree));
        plan_send(b, parent);
        plan_end(b);
        plan_begin(b, 0);
        plan_receive(b, parent);
    }
    plan_write(b, PLAN_OUTPUT, 0);
    send_to_children(b, &tree);
    plan_end(b);
}

/* The blocks of a subtree are a run in virtual order.  In the root's buffer, which is in rank
 * order, a run that passes the last rank is two, so it travels as two messages there. */
static uint32_t run_before_wrap(const struct tree *tree, uint32_t top, uint32_t count)
{
    const uint32_t until_wrap = tree->size - (uint32_t)rank_of(tree, top);
    return count < until_wrap ? count : until_wrap;
}

/* Scratch for our own subtree, block of virtual rank self + i in chunk i. */
static void declare_subtree_scratch(struct plan_builder *b, const struct tree *tree, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) plan_scratch(b, (uint32_t)rank_of(tree, tree->self + i));
}

void tree_gather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct tree tree = tree_of(params, params->root, rank);
    plan_lane(b);
    if (is_root(&tree)) {
        plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, (uint32_t)rank, 1);
        for (struct child child = {0, 0}; next_child(&tree, &child);) {
            const int peer = rank_of(&tree, child.top);
            const uint32_t count = subtree_size(&tree, child.top, child.span);
            const uint32_t head = run_before_wrap(&tree, child.top, count);
            plan_receive_to(b, peer, PLAN_OUTPUT, (uint32_t)peer, head);
            if (head < count) plan_receive_to(b, peer, PLAN_OUTPUT, 0, count - head);
        }
        return;
    }
    const uint32_t parent = parent_of(&tree), count = subtree_size(&tree, tree.self, tree.span);
    if (count == 1) {
        plan_send_from(b, rank_of(&tree, parent), PLAN_INPUT, 0, 1);
        return;
    }
    declare_subtree_scratch(b, &tree, count);
    plan_copy(b, PLAN_INPUT, 0, PLAN_SCRATCH, 0, 1);
    for (struct child child = {0, 0}; next_child(&tree, &child);)
        plan_receive_to(b, rank_of(&tree, child.top), PLAN_SCRATCH, child.top - tree.self,
                        subtree_size(&tree, child.top, child.span));
    const uint32_t head = parent == 0 ? run_before_wrap(&tree, tree.self, count) : count;
    plan_send_from(b, rank_of(&tree, parent), PLAN_SCRATCH, 0, head);
    if (head < count) plan_send_from(b, rank_of(&tree, parent), PLAN_SCRATCH, head, count - head);
}

void tree_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct tree tree = tree_of(params, params->root, rank);
    plan_lane(b);
    if (is_root(&tree)) {
        for (struct child child = {0, 0}; previous_child(&tree, &child);) {
            const int peer = rank_of(&tree, child.top);
            const uint32_t count = subtree_size(&tree, child.top, child.span);
            const uint32_t head = run_before_wrap(&tree, child.top, count);
            plan_send_from(b, peer, PLAN_INPUT, (uint32_t)peer, head);
            if (head < count) plan_send_from(b, peer, PLAN_INPUT, 0, count - head);
        }
        plan_copy(b, PLAN_INPUT, (uint32_t)rank, PLAN_OUTPUT, 0, 1);
        return;
    }
    const uint32_t parent = parent_of(&tree), count = subtree_size(&tree, tree.self, tree.span);
    const int from = rank_of(&tree, parent);
    if (count == 1) {
        plan_receive_to(b, from, PLAN_OUTPUT, 0, 1);
        return;
    }
    declare_subtree_scratch(b, &tree, count);
    const uint32_t head = parent == 0 ? run_before_wrap(&tree, tree.self, count) : count;
    plan_receive_to(b, from, PLAN_SCRATCH, 0, head);
    if (head < count) plan_receive_to(b, from, PLAN_SCRATCH, head, count - head);
    for (struct child child = {0, 0}; previous_child(&tree, &child);)
        plan_send_from(b, rank_of(&tree, child.top), PLAN_SCRATCH, child.top - tree.self,
                       subtree_size(&tree, child.top, child.span));
    plan_copy(b, PLAN_SCRATCH, 0, PLAN_OUTPUT, 0, 1);
}
