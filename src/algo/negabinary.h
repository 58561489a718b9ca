/* negabinary.h - partners at the distances that base -2 gives: +1, -1, +3, -5, +11, -21, ...
 *
 *     level 0   0-1   2-3   4-5   6-7        the distance of level k is the number whose digits to
 *     level 1   7-0   1-2   3-4   5-6        base -2 are k+1 ones, (1 - (-2)^(k+1)) / 3: next
 *     level 2   0-3   2-5   4-7   6-1        to two thirds of 2^k, every time to the other side
 *
 * Even ranks go that way, odd ranks the other one; ranks are on a circle.  So partners are partners
 * of each other, one of them is even and one is odd, and with 2^q ranks the q levels connect all,
 * each pair in one way, in whichever order they are taken (swing.c, bine.c).
 */
#ifndef TUTTI_ALGO_NEGABINARY_H
#define TUTTI_ALGO_NEGABINARY_H

#include "algo/generators.h"

/* 1, -1, 3, -5, 11, ... */
static inline int negabinary_distance(int level)
{
    const int power = 2 << level; /* |(-2)^(level+1)| */
    return (level % 2 == 0 ? 1 + power : 1 - power) / 3;
}

static inline int negabinary_partner(int rank, int level, int rank_count)
{
    const int distance = negabinary_distance(level);
    return rank_at(rank, rank % 2 == 0 ? distance : -distance, rank_count);
}

/* The number of levels; rank_count is a power of two. */
static inline int negabinary_level_count(int rank_count)
{
    int levels = 0;
    while (1 << levels < rank_count) levels++;
    return levels;
}

#endif
