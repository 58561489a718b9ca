#include "tests/virtual_card/regions.h"

#include <assert.h>
#include <stdlib.h>

enum { INDEX_BITS = 16 };

bool card_regions_make_room(struct card_regions *regions, unsigned count)
{
    const unsigned room = regions->room + count;
    if (room >= 1U << INDEX_BITS) return false;
    if (room > regions->capacity) {
        const unsigned capacity = room < 64 ? 64 : 2 * room;
        struct card_region *table = realloc(regions->table, capacity * sizeof *table);
        if (table == NULL) return false;
        for (unsigned i = regions->capacity; i < capacity; i++) table[i] = (struct card_region){0};
        regions->table = table;
        regions->capacity = capacity;
    }
    regions->room = room;
    return true;
}

void card_regions_release(struct card_regions *regions)
{
    free(regions->table);
    *regions = (struct card_regions){0};
}

uint64_t card_regions_add(struct card_regions *regions, void *address, size_t bytes)
{
    if (regions->count == regions->room) return 0;
    unsigned index = 0;
    while (regions->table[index].key != 0) index++;
    const uint64_t key = ++regions->registered << INDEX_BITS | index;
    regions->table[index] = (struct card_region){key, address, bytes};
    regions->count++;
    return key;
}

static struct card_region *find(const struct card_regions *regions, uint64_t key)
{
    const uint64_t index = key & ((1U << INDEX_BITS) - 1);
    if (key == 0 || index >= regions->capacity || regions->table[index].key != key) return NULL;
    return &regions->table[index];
}

void card_regions_remove(struct card_regions *regions, uint64_t key)
{
    struct card_region *region = find(regions, key);
    assert(region != NULL);
    *region = (struct card_region){0};
    regions->count--;
}

char *card_regions_at(const struct card_regions *regions, uint64_t key, uint64_t offset,
                      size_t bytes)
{
    const struct card_region *region = find(regions, key);
    if (region == NULL || bytes > region->bytes || offset > region->bytes - bytes) return NULL;
    return region->address + offset;
}

bool card_regions_hold(const struct card_regions *regions, uint64_t key, const void *address,
                       size_t bytes)
{
    const struct card_region *region = find(regions, key);
    const uintptr_t at = (uintptr_t)address;
    return region != NULL && at >= (uintptr_t)region->address && bytes <= region->bytes &&
           at - (uintptr_t)region->address <= region->bytes - bytes;
}
