#include "algo/levels.h"

#include <stdlib.h>

static const char OUT_OF_MEMORY[] = "out of memory while a plan was made";

/* ------------------------------------------------------------------------------ numbered groups */

struct entry {
    int group, rank;
};

static int compare_entries(const void *one, const void *other)
{
    const struct entry *a = one, *b = other;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static bool find_firsts_by_sorting(const int *group_of, int rank_count, int *first_of)
{
    struct entry *entries = malloc(sizeof *entries * (size_t)rank_count);
    if (entries == NULL) return false;
    for (int r = 0; r < rank_count; r++) entries[r] = (struct entry){group_of[r], r};
    qsort(entries, (size_t)rank_count, sizeof *entries, compare_entries);
    for (int i = 0, first = 0; i < rank_count; i++) {
        if (entries[i].group != entries[first].group) first = i;
        first_of[entries[i].rank] = entries[first].rank;
    }
    free(entries);
    return true;
}

/* Groups have numbers of any kind, and mostly such as ranks have: then a table says who was the
 * first of one. */
static bool are_small(const int *group_of, int rank_count)
{
    for (int r = 0; r < rank_count; r++)
        if (group_of[r] < 0 || group_of[r] >= rank_count) return false;
    return true;
}

static void find_firsts(const int *group_of, int rank_count, int *table, int *first_of)
{
    for (int r = 0; r < rank_count; r++) table[r] = -1;
    for (int r = 0; r < rank_count; r++) {
        int *const first = &table[group_of[r]];
        if (*first < 0) *first = r;
        first_of[r] = *first;
    }
}

int algo_number_groups(const int *group_of, int rank_count, int *number, int *first_of)
{
    int count = 0;
    if (are_small(group_of, rank_count))
        find_firsts(group_of, rank_count, number, first_of);
    else if (!find_firsts_by_sorting(group_of, rank_count, first_of))
        return 0;
    for (int r = 0; r < rank_count; r++)
        number[r] = first_of[r] == r ? count++ : number[first_of[r]];
    return count;
}

/* ------------------------------------------------------------------------------------ the check */

/* Whether ranks that are together at one level are so at the next. */
static bool nests(const int *first_of, const int *next_group_of, int rank_count)
{
    for (int r = 0; r < rank_count; r++)
        if (next_group_of[r] != next_group_of[first_of[r]]) return false;
    return true;
}

enum tutti_status algo_check_levels(const struct algo_levels *levels, int rank_count,
                                    const char **message)
{
    *message = "there are fewer levels than one, or more than an algorithm can have";
    if (levels->level_count < 1 || levels->level_count > ALGO_LEVELS_MAX) return TUTTI_INVALID_RANK;
    *message = "a level says of no rank which group it is in";
    for (int k = 0; k < levels->level_count; k++)
        if (levels->group_of[k] == NULL) return TUTTI_INVALID_RANK;
    *message = OUT_OF_MEMORY;
    int *numbers = malloc(2 * sizeof *numbers * (size_t)rank_count);
    if (numbers == NULL) return TUTTI_NO_MEMORY;
    enum tutti_status status = TUTTI_OK;
    for (int k = 0; k + 1 < levels->level_count && status == TUTTI_OK; k++) {
        if (algo_number_groups(levels->group_of[k], rank_count, numbers, numbers + rank_count) == 0)
            status = TUTTI_NO_MEMORY;
        else if (!nests(numbers + rank_count, levels->group_of[k + 1], rank_count))
            status = TUTTI_INVALID_RANK;
    }
    free(numbers);
    *message = status == TUTTI_OK ? NULL
               : status == TUTTI_NO_MEMORY
                   ? OUT_OF_MEMORY
                   : "the groups of one level are torn apart by those of the next";
    return status;
}

/* ------------------------------------------------------------------------------------ hierarchy */

/* Stable, so that the last one sorted by comes first. */
static bool sort_by(const int *number, int group_count, int *order, int rank_count)
{
    int *next = calloc((size_t)group_count + 1, sizeof *next);
    int *sorted = malloc(sizeof *sorted * (size_t)rank_count);
    const bool memory = next != NULL && sorted != NULL;
    if (memory) {
        for (int i = 0; i < rank_count; i++) next[number[i] + 1]++;
        for (int g = 0; g < group_count; g++) next[g + 1] += next[g];
        for (int i = 0; i < rank_count; i++) sorted[next[number[order[i]]]++] = order[i];
        for (int i = 0; i < rank_count; i++) order[i] = sorted[i];
    }
    free(next);
    free(sorted);
    return memory;
}

/* Gives groups the numbers in which that order comes to them. room: for a number of each group. */
static void number_along(const int *order, int rank_count, int *number, int *room)
{
    int count = 0;
    for (int r = 0; r < rank_count; r++) room[r] = -1;
    for (int i = 0; i < rank_count; i++) {
        int *const along = &room[number[order[i]]];
        if (*along < 0) *along = count++;
    }
    for (int r = 0; r < rank_count; r++) number[r] = room[number[r]];
}

static bool order_ranks(struct hierarchy *h, const struct algo_levels *levels, const int *order,
                        int *number, int *first_of)
{
    for (int r = 0; r < h->rank_count; r++) h->order[r] = order != NULL ? order[r] : r;
    for (int k = 0; levels != NULL && k < levels->level_count; k++) {
        const int count = algo_number_groups(levels->group_of[k], h->rank_count, number, first_of);
        if (count == 0) return false;
        if (order != NULL) number_along(order, h->rank_count, number, first_of);
        if (!sort_by(number, count, h->order, h->rank_count)) return false;
    }
    for (int i = 0; i < h->rank_count; i++) h->position[h->order[i]] = i;
    return true;
}

/* Units that begin where the group changes; NULL: all positions are one. */
static bool add_units(struct hierarchy *h, int level, const int *group_of)
{
    const int count = h->rank_count;
    int *units = malloc(sizeof *units * ((size_t)count + 1));
    int *unit_of = malloc(sizeof *unit_of * (size_t)count);
    h->units[level] = units;
    h->unit_of[level] = unit_of;
    if (units == NULL || unit_of == NULL) return false;
    int unit = -1;
    for (int i = 0; i < count; i++) {
        if (i == 0 || (group_of != NULL && group_of[h->order[i]] != group_of[h->order[i - 1]]))
            units[++unit] = i;
        unit_of[i] = unit;
    }
    units[unit + 1] = count;
    h->unit_count[level] = unit + 1;
    return true;
}

static void drop_units(struct hierarchy *h, int level)
{
    free(h->units[level]);
    free(h->unit_of[level]);
    h->units[level] = h->unit_of[level] = NULL;
}

/* Chooses the levels that tell ranks apart: drops a level with one group only, or with as many
 * groups as the level below. */
static bool choose_levels(struct hierarchy *h, const struct algo_levels *levels, const int *identity)
{
    if (!add_units(h, 0, identity)) return false;
    for (int k = 0; levels != NULL && k < levels->level_count; k++) {
        if (!add_units(h, h->top + 1, levels->group_of[k])) return false;
        const int count = h->unit_count[h->top + 1];
        const bool says_something = count > 1 && count < h->unit_count[h->top];
        if (k == 0) h->has_hosts = says_something;
        if (says_something)
            h->top++;
        else
            drop_units(h, h->top + 1);
    }
    return add_units(h, h->top + 1, NULL);
}

struct level_members hierarchy_members(const struct hierarchy *h, int level, int team)
{
    const int *bounds = h->units[level + 1];
    const int first = h->unit_of[level][bounds[team]];
    return (struct level_members){first, h->unit_of[level][bounds[team + 1] - 1] - first + 1};
}

int hierarchy_member(const struct hierarchy *h, int level, int position)
{
    const struct level_members members =
        hierarchy_members(h, level, hierarchy_subgroup(h, level, position));
    return h->unit_of[level][position] - members.first;
}

int hierarchy_leader(const struct hierarchy *h, int level, int unit, int root_position)
{
    return hierarchy_holds(h, level, unit, root_position) ? root_position : h->units[level][unit];
}

static void count_shards(struct hierarchy *h, int level)
{
    int least = h->rank_count, most = 1;
    for (int team = 0; team < h->unit_count[level + 1]; team++) {
        const int count = hierarchy_members(h, level, team).count;
        if (count < least) least = count;
        if (count > most) most = count;
    }
    h->shard_count[level] = (most + least - 1) / least * least;
}

enum tutti_status hierarchy_init(struct hierarchy *h, const struct algo_levels *levels,
                                 const int *order, int rank_count)
{
    *h = (struct hierarchy){.rank_count = rank_count};
    int *scratch = calloc(2 * (size_t)rank_count + 1, sizeof *scratch);
    h->order = malloc(sizeof *h->order * (size_t)rank_count);
    h->position = malloc(sizeof *h->position * (size_t)rank_count);
    bool memory = scratch != NULL && h->order != NULL && h->position != NULL &&
                  order_ranks(h, levels, order, scratch, scratch + rank_count);
    for (int r = 0; memory && r < rank_count; r++) scratch[r] = r;
    memory = memory && choose_levels(h, levels, scratch);
    free(scratch);
    for (int k = 0; memory && k < h->top; k++) count_shards(h, k);
    if (memory) return TUTTI_OK;
    hierarchy_release(h);
    return TUTTI_NO_MEMORY;
}

void hierarchy_release(struct hierarchy *h)
{
    for (int k = 0; k < ALGO_LEVELS_MAX + 2; k++) drop_units(h, k);
    free(h->order);
    free(h->position);
    h->order = h->position = NULL;
}

enum tutti_status algo_order_by_levels(const struct algo_levels *levels, int rank_count, int *order)
{
    struct hierarchy hierarchy;
    const enum tutti_status status = hierarchy_init(&hierarchy, levels, NULL, rank_count);
    if (status != TUTTI_OK) return status;
    for (int i = 0; i < rank_count; i++) order[i] = hierarchy.order[i];
    hierarchy_release(&hierarchy);
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- shards */

int shard_owner(int shard_count, int member_count, int shard)
{
    return (int)((int64_t)shard * member_count / shard_count);
}

int shard_first(int shard_count, int member_count, int member)
{
    return (int)(((int64_t)member * shard_count + member_count - 1) / member_count);
}

int hierarchy_block_shard(const struct hierarchy *h, int level, int position)
{
    const int team = hierarchy_subgroup(h, level, position), shards = h->shard_count[level];
    const int members = hierarchy_members(h, level, team).count;
    const int member = hierarchy_member(h, level, position);
    const int first = shard_first(shards, members, member);
    return first + team % (shard_first(shards, members, member + 1) - first);
}
