#include "studio/topo/levels.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* The kind of node in which a level's groups stand. */
struct sort {
    enum topo_kind kind;
    int cache_level;
    enum { INSIDE, OUTSIDE } side; /* of a machine: for switches, which are on either */
};

/* The sorts, from the finest to the coarsest on most machines. This order decides between levels if
 * their groups do not. */
static const struct sort sorts[] = {
    {TOPO_PU, 0, INSIDE},      {TOPO_CORE, 0, INSIDE},    {TOPO_ACCELERATOR, 0, INSIDE},
    {TOPO_CACHE, 1, INSIDE},   {TOPO_CACHE, 2, INSIDE},   {TOPO_CACHE, 3, INSIDE},
    {TOPO_CACHE, 4, INSIDE},   {TOPO_CACHE, 5, INSIDE},   {TOPO_SWITCH, 0, INSIDE},
    {TOPO_NUMA, 0, INSIDE},    {TOPO_PACKAGE, 0, INSIDE}, {TOPO_MACHINE, 0, OUTSIDE},
    {TOPO_SWITCH, 0, OUTSIDE}, {TOPO_RACK, 0, OUTSIDE},   {TOPO_CLUSTER, 0, OUTSIDE}};

enum { SORT_COUNT = sizeof sorts / sizeof *sorts };
static_assert((int)SORT_COUNT <= (int)TOPO_LEVELS_MAX, "a level for each sort");

/* The nearest of the sort that contains the rank's node, or -1. */
static int place_of(const struct topo *topo, int node, const struct sort *sort)
{
    bool outside = false;
    for (node = topo->nodes[node].parent; node >= 0; node = topo->nodes[node].parent) {
        const struct topo_node *place = &topo->nodes[node];
        outside |= place->kind == TOPO_MACHINE;
        if (place->kind == sort->kind && place->cache_level == sort->cache_level &&
            outside == (sort->side == OUTSIDE))
            return node;
    }
    return -1;
}

/* group_of_node is room for node_count numbers. */
static void group_ranks(const struct topo *topo, const struct sort *sort, const int *node_of_rank,
                        int rank_count, int *group_of_node, struct topo_level *level)
{
    if (sort->kind == TOPO_CACHE)
        snprintf(level->name, sizeof level->name, "L%d", sort->cache_level);
    else
        snprintf(level->name, sizeof level->name, "%s", topo_kind_name(sort->kind));
    for (int i = 0; i < topo->node_count; i++) group_of_node[i] = -1;
    level->group_count = 0;
    for (int rank = 0; rank < rank_count; rank++) {
        const int place = place_of(topo, node_of_rank[rank], sort);
        if (place < 0)
            level->group_of_rank[rank] = level->group_count++;
        else if (group_of_node[place] < 0)
            level->group_of_rank[rank] = group_of_node[place] = level->group_count++;
        else
            level->group_of_rank[rank] = group_of_node[place];
    }
}

/* Whether ranks that are together in the finer level are together in the coarser level. Groups are
 * numbered by their lowest ranks, so the first rank of a group comes before its other ranks. */
static bool nests(const struct topo_level *finer, const struct topo_level *coarser, int rank_count,
                  int *coarser_of_finer)
{
    int seen = 0;
    for (int rank = 0; rank < rank_count; rank++) {
        const int group = finer->group_of_rank[rank];
        if (group == seen)
            coarser_of_finer[seen++] = coarser->group_of_rank[rank];
        else if (coarser_of_finer[group] != coarser->group_of_rank[rank])
            return false;
    }
    return true;
}

/* More groups first; a stable sort, for what is equal. */
static void sort_levels(struct topo_level *levels, int count)
{
    for (int i = 1; i < count; i++) {
        const struct topo_level level = levels[i];
        int k = i;
        for (; k > 0 && levels[k - 1].group_count < level.group_count; k--)
            levels[k] = levels[k - 1];
        levels[k] = level;
    }
}

/* Keeps the levels that tell something apart and nest, in the order in which they are. scratch:
 * rank_count numbers. */
static void select_levels(struct topo_levels *levels, int *scratch)
{
    const int count = levels->count, rank_count = levels->rank_count;
    levels->count = 0;
    for (int i = 0; i < count; i++) {
        const struct topo_level level = levels->levels[i];
        struct topo_level *last = levels->count > 0 ? &levels->levels[levels->count - 1] : NULL;
        const bool useful = level.group_count > 1 && level.group_count < rank_count &&
                            (last == NULL || nests(last, &level, rank_count, scratch));
        if (useful && last != NULL && last->group_count == level.group_count)
            memcpy(last->name, level.name, sizeof last->name);
        else if (useful) {
            levels->levels[levels->count++] = level;
            continue;
        }
        free(level.group_of_rank);
    }
}

static enum tutti_status find_ranks(const struct topo *topo, int *node_of_rank, int rank_count)
{
    for (int rank = 0; rank < rank_count; rank++) node_of_rank[rank] = -1;
    for (int i = 0; i < topo->node_count; i++) {
        if (topo->nodes[i].kind != TOPO_RANK) continue;
        if (topo->nodes[i].number >= rank_count)
            return error_set(TUTTI_INVALID_RANK,
                             "topology: it has %d ranks, and one with number %d: no levels",
                             rank_count, topo->nodes[i].number);
        node_of_rank[topo->nodes[i].number] = i;
    }
    return TUTTI_OK;
}

static enum tutti_status fill_levels(struct topo_levels *levels, const struct topo *topo,
                                     int *node_of_rank, int *group_of_node)
{
    TRY(find_ranks(topo, node_of_rank, levels->rank_count));
    for (int i = 0; i < SORT_COUNT; i++) {
        struct topo_level *level = &levels->levels[levels->count];
        level->group_of_rank = calloc((size_t)levels->rank_count, sizeof *level->group_of_rank);
        if (level->group_of_rank == NULL)
            return error_set(TUTTI_NO_MEMORY, "topology: out of memory");
        levels->count++;
        group_ranks(topo, &sorts[i], node_of_rank, levels->rank_count, group_of_node, level);
    }
    sort_levels(levels->levels, levels->count);
    select_levels(levels, group_of_node);
    return TUTTI_OK;
}

enum tutti_status topo_levels_init(struct topo_levels *levels, const struct topo *topo)
{
    *levels = (struct topo_levels){.rank_count = topo_rank_count(topo)};
    if (levels->rank_count == 0)
        return error_set(TUTTI_INVALID_RANK,
                         "topology: no ranks are in it, so there are no levels");
    int *node_of_rank = calloc((size_t)levels->rank_count, sizeof *node_of_rank);
    int *group_of_node = calloc((size_t)topo->node_count, sizeof *group_of_node);
    enum tutti_status status = TUTTI_NO_MEMORY;
    if (node_of_rank == NULL || group_of_node == NULL)
        error_set(status, "topology: out of memory");
    else
        status = fill_levels(levels, topo, node_of_rank, group_of_node);
    if (status != TUTTI_OK) topo_levels_release(levels);
    free(node_of_rank);
    free(group_of_node);
    return status;
}

void topo_levels_release(struct topo_levels *levels)
{
    for (int i = 0; i < levels->count; i++) free(levels->levels[i].group_of_rank);
    *levels = (struct topo_levels){0};
}
