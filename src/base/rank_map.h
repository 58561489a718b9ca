/* rank_map.h - a pointer for each of many ranks, with memory only for the ranks that have one.
 *
 *     pages:  ┌────────┬──────┬────────┬──────┐      one a RANK_MAP_PAGE ranks; NULL until one of them gets a pointer
 *             │   ●    │ NULL │   ●    │ NULL │
 *             └───│────┴──────┴───│────┴──────┘
 *                 ▼               ▼
 *             of ranks 0..63   of ranks 128..191      NULL until that rank gets one
 *
 * 1. A map of n ranks takes n / 8 bytes, and 512 bytes for each 64 ranks of which one has a
 *    pointer. Finding takes two loads.
 * 2. The memory behind a pointer is the user's; a map frees only its pages.
 * 3. A place stays where it is for the life of the map.
 *
 * Threads: one at a time.
 */
#ifndef TUTTI_BASE_RANK_MAP_H
#define TUTTI_BASE_RANK_MAP_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

enum { RANK_MAP_PAGE = 64 };

/* Zeroed, it is a map of no ranks. */
struct rank_map {
    void ***pages;
    int size;
};

/* False: out of memory, and nothing to release. */
bool rank_map_init(struct rank_map *map, int size);
void rank_map_release(struct rank_map *map);
/* The place of a rank's pointer, which is NULL at first; NULL: out of memory. */
void **rank_map_place(struct rank_map *map, int rank);
/* A rank's memory, zeroed when it is asked for first, to be freed by the user; NULL: out of
 * memory. */
void *rank_map_get(struct rank_map *map, int rank, size_t bytes);
/* Iterates over the ranks that have a pointer, in order, with *at 0 at first: the next pointer, and
 * *at - 1 is its rank; NULL at the end. Costs a look at each page, and at each rank of those that
 * are there. */
void *rank_map_next(const struct rank_map *map, int *at);
/* The bytes that malloc holds for the map itself. */
size_t rank_map_bytes(const struct rank_map *map);

/* The pointer of a rank; NULL: it has none. */
static inline void *rank_map_find(const struct rank_map *map, int rank)
{
    assert(rank >= 0 && rank < map->size);
    void **const page = map->pages[rank / RANK_MAP_PAGE];
    return page != NULL ? page[rank % RANK_MAP_PAGE] : NULL;
}

#endif
