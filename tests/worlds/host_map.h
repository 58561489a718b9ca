/* host_map.h - maps of hosts and racks for tests. */
#ifndef TUTTI_TESTS_WORLDS_HOST_MAP_H
#define TUTTI_TESTS_WORLDS_HOST_MAP_H

#include <stdint.h>

#include "algo/algo.h"

enum { HOST_MAP_RANKS_MAX = 1024, HOST_MAP_UNITS_MAX = 34 };

enum numbering { CONTIGUOUS, INTERLEAVED, SHUFFLED, NUMBERING_COUNT };

/* Counts end with 0. */
struct host_shape {
    int hosts[HOST_MAP_UNITS_MAX]; /* ranks of each */
    int racks[HOST_MAP_UNITS_MAX]; /* hosts of each; none: there are no racks */
    int rooms[HOST_MAP_UNITS_MAX]; /* racks of each; none: there are no rooms */
};

struct host_map {
    struct algo_levels levels; /* points into this struct */
    int rank_count;
    int host_of[HOST_MAP_RANKS_MAX], rack_of[HOST_MAP_RANKS_MAX], room_of[HOST_MAP_RANKS_MAX];
};

/* Group numbers are not 0, 1, 2, ..; ranks are dealt to hosts one host after the other, in turns,
 * or by chance. */
void host_map_init(struct host_map *map, const struct host_shape *shape, enum numbering numbering,
                   uint32_t seed);
/* Hosts of 3, 1, 2, 3, .. ranks, as many as there are; racks of 2, 1, 2, .. hosts. */
void host_map_init_mixed(struct host_map *map, int rank_count);
/* "2+1+5 ranks, racks of 2+1 hosts, shuffled" */
const char *host_map_text(const struct host_shape *shape, enum numbering numbering);

#endif
