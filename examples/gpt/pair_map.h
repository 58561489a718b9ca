/* pair_map.h - from pairs of tokens to numbers: a hash table with open addressing, at most half
 * full. */
#ifndef GPT_PAIR_MAP_H
#define GPT_PAIR_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "give_up.h"

#define PAIR_ABSENT UINT32_MAX

struct pair_slot {
    uint64_t key; /* the pair, plus 1; 0 where there is none */
    uint32_t value;
};

/* Zeros are an empty map. */
struct pair_map {
    struct pair_slot *slots;
    size_t capacity, count; /* the capacity is a power of two, or 0 */
};

static inline uint64_t pair_key(uint32_t left, uint32_t right)
{
    return ((uint64_t)left << 32 | right) + 1;
}

static inline struct pair_slot *pair_map_slot(const struct pair_map *map, uint64_t key)
{
    const uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    size_t place = (size_t)(hash >> 32) & (map->capacity - 1);
    while (map->slots[place].key != 0 && map->slots[place].key != key)
        place = (place + 1) & (map->capacity - 1);
    return &map->slots[place];
}

/* PAIR_ABSENT if the pair has no number. */
static inline uint32_t pair_map_find(const struct pair_map *map, uint32_t left, uint32_t right)
{
    if (map->capacity == 0) return PAIR_ABSENT;
    const struct pair_slot *slot = pair_map_slot(map, pair_key(left, right));
    return slot->key != 0 ? slot->value : PAIR_ABSENT;
}

/* Expects a pair that has no number yet. */
static inline void pair_map_add(struct pair_map *map, uint32_t left, uint32_t right, uint32_t value)
{
    if (2 * (map->count + 1) > map->capacity) {
        struct pair_map larger = {.capacity = map->capacity > 0 ? 2 * map->capacity : 1024};
        larger.slots = allocate(larger.capacity, sizeof *larger.slots);
        for (size_t i = 0; i < map->capacity; i++)
            if (map->slots[i].key != 0) *pair_map_slot(&larger, map->slots[i].key) = map->slots[i];
        free(map->slots);
        map->slots = larger.slots;
        map->capacity = larger.capacity;
    }
    *pair_map_slot(map, pair_key(left, right)) = (struct pair_slot){pair_key(left, right), value};
    map->count++;
}

#endif
