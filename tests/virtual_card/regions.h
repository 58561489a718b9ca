/* regions.h - the registered memory of one simulated network card, by key. A key names one
 * registration for ever: it consists of the registration's number and its place in the table. */
#ifndef TUTTI_TESTS_VIRTUAL_CARD_REGIONS_H
#define TUTTI_TESTS_VIRTUAL_CARD_REGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct card_region {
    uint64_t key; /* 0: free */
    char *address;
    size_t bytes;
};

/* Zeroed, to begin with. */
struct card_regions {
    struct card_region *table;
    unsigned count, capacity, room; /* used; there are; asked for */
    uint64_t registered;            /* so far */
};

/* Makes room for so many more regions. False: no memory. */
bool card_regions_make_room(struct card_regions *regions, unsigned count);
void card_regions_release(struct card_regions *regions);
/* Returns the region's key; 0: there is no free place. */
uint64_t card_regions_add(struct card_regions *regions, void *address, size_t bytes);
void card_regions_remove(struct card_regions *regions, uint64_t key);
/* The address of that many bytes at that offset of a region; NULL: they are not inside a registered
 * region. */
char *card_regions_at(const struct card_regions *regions, uint64_t key, uint64_t offset,
                      size_t bytes);
/* Whether these bytes lie in that region. */
bool card_regions_hold(const struct card_regions *regions, uint64_t key, const void *address,
                       size_t bytes);

#endif
