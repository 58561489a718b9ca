/* ranges.h - an ordered set of address ranges, which may overlap: an interval tree (a treap whose
 * nodes know how far their subtree reaches).
 *
 * The nodes belong to the caller, who embeds them; nothing here allocates. All operations take
 * O(log n) steps on average. The shape of the tree depends on chance, what is found does not.
 *
 *                      [20, 40) reaches 90
 *            [10, 30) reaches 90        [50, 60)
 *       [0, 5)      [15, 90)
 */
#ifndef TUTTI_MEMORY_RANGES_H
#define TUTTI_MEMORY_RANGES_H

#include <stdint.h>

struct range {
    uintptr_t begin, end; /* begin < end; fixed while it is in a set */
    /* For ranges.c. */
    struct range *left, *right;
    uintptr_t reach; /* the largest end in this subtree */
    uint64_t weight; /* no node weighs more than its parent */
};

/* Zeroed: empty. */
struct ranges {
    struct range *root;
    uint64_t chance;
};

void ranges_add(struct ranges *set, struct range *range);
/* It is in the set. */
void ranges_remove(struct ranges *set, struct range *range);
/* A range that contains all of [begin, end); NULL: none. */
struct range *ranges_covering(const struct ranges *set, uintptr_t begin, uintptr_t end);
/* The first one in order of begins that has some of [begin, end) and comes behind `after` (NULL:
 * the first of all); NULL. `after` need not be in the set any more. */
struct range *ranges_next(const struct ranges *set, uintptr_t begin, uintptr_t end,
                          const struct range *after);

#endif
