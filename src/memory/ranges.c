#include "memory/ranges.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"

static bool comes_before(const struct range *a, const struct range *b)
{
    if (a->begin != b->begin) return a->begin < b->begin;
    return (uintptr_t)a < (uintptr_t)b;
}

static void update(struct range *node)
{
    node->reach = node->end;
    if (node->left != NULL && node->left->reach > node->reach) node->reach = node->left->reach;
    if (node->right != NULL && node->right->reach > node->reach) node->reach = node->right->reach;
}

/* Ranges before `at` go to the left. */
static void split(struct range *node, const struct range *at, struct range **left,
                  struct range **right)
{
    if (node == NULL) {
        *left = *right = NULL;
        return;
    }
    if (comes_before(node, at)) {
        split(node->right, at, &node->right, right);
        *left = node;
    } else {
        split(node->left, at, left, &node->left);
        *right = node;
    }
    update(node);
}

static struct range *join(struct range *left, struct range *right)
{
    if (left == NULL) return right;
    if (right == NULL) return left;
    struct range *const top = left->weight >= right->weight ? left : right;
    if (top == left)
        left->right = join(left->right, right);
    else
        right->left = join(left, right->left);
    update(top);
    return top;
}

static struct range *add(struct range *node, struct range *range)
{
    if (node == NULL || node->weight < range->weight) {
        split(node, range, &range->left, &range->right);
        update(range);
        return range;
    }
    if (comes_before(range, node))
        node->left = add(node->left, range);
    else
        node->right = add(node->right, range);
    update(node);
    return node;
}

static struct range *without(struct range *node, const struct range *range)
{
    if (node == range) return join(node->left, node->right);
    if (comes_before(range, node))
        node->left = without(node->left, range);
    else
        node->right = without(node->right, range);
    update(node);
    return node;
}

void ranges_add(struct ranges *set, struct range *range)
{
    set->chance = hash_take(set->chance + 1, (uintptr_t)range);
    range->left = range->right = NULL;
    range->weight = set->chance;
    set->root = add(set->root, range);
}

void ranges_remove(struct ranges *set, struct range *range)
{
    set->root = without(set->root, range);
    range->left = range->right = NULL;
}

/* Below a node that begins early enough, everything on the left does, too: there only the reach
 * counts. */
struct range *ranges_covering(const struct ranges *set, uintptr_t begin, uintptr_t end)
{
    struct range *node = set->root;
    while (node != NULL && (node->begin > begin || node->end < end)) {
        if (node->begin > begin)
            node = node->left;
        else if (node->left != NULL && node->left->reach >= end)
            node = node->left;
        else
            node = node->right;
    }
    return node;
}

static struct range *next(struct range *node, uintptr_t begin, uintptr_t end,
                          const struct range *after)
{
    if (node == NULL || node->reach <= begin) return NULL;
    if (after == NULL || comes_before(after, node)) {
        struct range *const found = next(node->left, begin, end, after);
        if (found != NULL) return found;
        if (node->begin < end && node->end > begin) return node;
    }
    return node->begin < end ? next(node->right, begin, end, after) : NULL;
}

struct range *ranges_next(const struct ranges *set, uintptr_t begin, uintptr_t end,
                          const struct range *after)
{
    return next(set->root, begin, end, after);
}
