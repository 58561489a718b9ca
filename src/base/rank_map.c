#include "base/rank_map.h"

#include <stdlib.h>

#include "base/held.h"

static int page_count(const struct rank_map *map)
{
    return (map->size + RANK_MAP_PAGE - 1) / RANK_MAP_PAGE;
}

bool rank_map_init(struct rank_map *map, int size)
{
    *map = (struct rank_map){.size = size};
    map->pages = calloc((size_t)page_count(map) + 1, sizeof(void **));
    return map->pages != NULL;
}

void rank_map_release(struct rank_map *map)
{
    for (int p = 0; map->pages != NULL && p < page_count(map); p++) free(map->pages[p]);
    free(map->pages);
    *map = (struct rank_map){0};
}

void **rank_map_place(struct rank_map *map, int rank)
{
    assert(rank >= 0 && rank < map->size);
    void ***const page = &map->pages[rank / RANK_MAP_PAGE];
    if (*page == NULL) *page = calloc(RANK_MAP_PAGE, sizeof(void *));
    return *page != NULL ? &(*page)[rank % RANK_MAP_PAGE] : NULL;
}

void *rank_map_get(struct rank_map *map, int rank, size_t bytes)
{
    void **const place = rank_map_place(map, rank);
    if (place != NULL && *place == NULL) *place = calloc(1, bytes);
    return place != NULL ? *place : NULL;
}

void *rank_map_next(const struct rank_map *map, int *at)
{
    while (map->pages != NULL && *at < map->size) {
        void **const page = map->pages[*at / RANK_MAP_PAGE];
        if (page == NULL) {
            *at = (*at / RANK_MAP_PAGE + 1) * RANK_MAP_PAGE;
            continue;
        }
        void *const of_rank = page[(*at)++ % RANK_MAP_PAGE];
        if (of_rank != NULL) return of_rank;
    }
    return NULL;
}

size_t rank_map_bytes(const struct rank_map *map)
{
    size_t bytes = held(map->pages);
    for (int p = 0; map->pages != NULL && p < page_count(map); p++) bytes += held(map->pages[p]);
    return bytes;
}
