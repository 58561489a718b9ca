/* levels.h - the host map as the hierarchical algorithms see it: ranks in teams, teams in larger
 * teams.
 *
 *     racks       [              0              ] [     1     ]      level 2's team: the racks
 *     hosts       [   0   ] [ 1 ] [      2      ] [     3     ]      level 1's: the hosts of a rack
 *     ranks        0  4  6   1  3   2  5  7  9 10   8  11 12 13      level 0's: the ranks of a host
 *     positions    0  1  2   3  4   5  6  7  8  9  10  11 12 13
 *
 * At level k *units* are members of teams: at level 0 the ranks, above it the teams of the level
 * below.  The team at the top level is everything.
 *
 * Invariants:
 *   1. Ranks are put in an order in which every unit is a run of positions; units come in the order
 *      of their smallest ranks, or as a given order of ranks comes to them.  So plans that are made
 *      from positions do not depend on how ranks are numbered, and levels that are left out (racks,
 *      where only hosts count) can still say which units are near each other.
 *   2. A level must tell something apart: at each one some team has two members, and at the top one
 *      all units are in one team of two or more (of one rank or more where there are no levels). So
 *      where every host has one rank, level 0 is that of racks.
 *
 * *Shards.*  The work of a team is cut into as many shards as the smallest multiple of its level's
 * smallest team that gives every member of the largest one a shard.  Members own runs of them; so
 * no member owns more than a member of a smallest team, which has to do that much in any case.
 */
#ifndef TUTTI_ALGO_LEVELS_H
#define TUTTI_ALGO_LEVELS_H

#include "algo/generate.h"

/* Checks that the levels can be used: INVALID_RANK and *message if not. */
enum tutti_status algo_check_levels(const struct algo_levels *levels, int rank_count,
                                    const char **message);
/* Groups get the numbers 0, 1, .. in the order of their smallest ranks, which is in first_of for
 * every rank. Returns how many there are; 0: out of memory. */
int algo_number_groups(const int *group_of, int rank_count, int *number, int *first_of);
/* Fills order with all ranks, those that are together side by side: at each level, groups come in
 * the order of their smallest ranks. Levels that were checked; NO_MEMORY. */
enum tutti_status algo_order_by_levels(const struct algo_levels *levels, int rank_count, int *order);

struct hierarchy {
    int rank_count;
    int top;        /* the level whose team is everything; the others are 0 .. top-1 */
    bool has_hosts; /* level 0 is the finest one that was told, not one above it */
    int *order;     /* the rank at each position */
    int *position;  /* of each rank */
    int unit_count[ALGO_LEVELS_MAX + 2];
    int *units[ALGO_LEVELS_MAX + 2]; /* first position of each unit, and rank_count behind the last */
    int *unit_of[ALGO_LEVELS_MAX + 2]; /* of each position; teams of level k are units of level k+1 */
    int shard_count[ALGO_LEVELS_MAX]; /* of a team's work at that level */
};

/* NO_MEMORY, and nothing to release; levels that were checked, or NULL: all ranks are one team. The
 * order was checked as well; NULL: as ranks are numbered. */
enum tutti_status hierarchy_init(struct hierarchy *hierarchy, const struct algo_levels *levels,
                                 const int *order, int rank_count);
void hierarchy_release(struct hierarchy *hierarchy);

/* The members of a team at that level, numbered as units of that level. */
struct level_members {
    int first, count;
};
struct level_members hierarchy_members(const struct hierarchy *hierarchy, int level, int team);
/* The team at that level that a position belongs to. */
static inline int hierarchy_subgroup(const struct hierarchy *hierarchy, int level, int position)
{
    return hierarchy->unit_of[level + 1][position];
}
/* Its member that the position belongs to, from 0. */
int hierarchy_member(const struct hierarchy *hierarchy, int level, int position);
static inline bool hierarchy_holds(const struct hierarchy *hierarchy, int level, int unit,
                                   int position)
{
    return hierarchy->units[level][unit] <= position && position < hierarchy->units[level][unit + 1];
}
/* The position that stands for a unit: the root's, if that is in there, or the first one. */
int hierarchy_leader(const struct hierarchy *hierarchy, int level, int unit, int root_position);
static inline int hierarchy_unit_size(const struct hierarchy *hierarchy, int level, int unit)
{
    return hierarchy->units[level][unit + 1] - hierarchy->units[level][unit];
}

/* The member of a team that owns a shard; and a member's first shard, or the number of all shards
 * for `member` = member_count. */
int shard_owner(int shard_count, int member_count, int shard);
int shard_first(int shard_count, int member_count, int member);
/* The shard with which a rank's block travels, of the shards that the rank's member has at that
 * level. Each team takes a different shard, so that small teams do not all burden the same rank of
 * large teams. */
int hierarchy_block_shard(const struct hierarchy *hierarchy, int level, int position);

#endif
