/* regions.h - the registered memory of one simulated network card, by key. A key names one registration for ever: the number of the
 * registration, and where it lies in the table. */
#ifndef TUTTI_TRANSPORT_VIRTUAL_CARD_REGIONS_H
#define TUTTI_TRANSPORT_VIRTUAL_CARD_REGIONS_H

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

/* So many more. False: no memory. */
bool card_regions_make_room(struct card_regions *regions, unsigned count);
void card_regions_release(struct card_regions *regions);
/* 0: all are used. */
uint64_t card_regions_add(struct card_regions *regions, void *address, size_t bytes);
void card_regions_remove(struct card_regions *regions, uint64_t key);
/* Where that many bytes at that offset of a region lie; NULL: not inside of a registered one. */
char *card_regions_at(const struct card_regions *regions, uint64_t key, uint64_t offset,
                      size_t bytes);
/* Whether they lie in that region. */
bool card_regions_hold(const struct card_regions *regions, uint64_t key, const void *address,
                       size_t bytes);

#endif
