/* router_world.h - ranks of several hosts, all of this process: those of one host share a segment,
 * all others have connections, and each has a router over these routes. Assertions are cmocka's.
 */
#ifndef TUTTI_TESTS_WORLDS_ROUTER_WORLD_H
#define TUTTI_TESTS_WORLDS_ROUTER_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "algo/algo.h"
#include "tests/worlds/engine_world.h"
#include "tests/worlds/host_map.h"
#include "tests/worlds/link_world.h"
#include "transport/router/router.h"
#include "transport/transport.h"

enum {
    ROUTER_RANKS_MAX = ENGINE_RANKS_MAX,
    ROUTER_PIECE_BYTES = 16384, /* of the far transports: less than near ones take */
    ROUTER_SIGNATURE = 4242     /* of all slots at first */
};

struct router_world {
    int size;
    struct host_map map;
    struct transport *ranks[ROUTER_RANKS_MAX], *near[ROUTER_RANKS_MAX], *far[ROUTER_RANKS_MAX];
    int numbers[ROUTER_RANKS_MAX][ROUTER_RANKS_MAX]; /* [rank][other]: in its near transport, or -1 */
    struct transport *second[ROUTER_RANKS_MAX]; /* a third route, see router_world_open_routes; or NULL */
    int second_numbers[ROUTER_RANKS_MAX][ROUTER_RANKS_MAX];
    struct segment *segments[ROUTER_RANKS_MAX]; /* the test's own way in, of the first rank of a host; NULL */
    uint64_t random;                            /* of games, see link_world.h */
};

/* same_process: ranks of a host know that they share their memory. */
struct router_world *router_world_open(const struct host_shape *shape, enum numbering numbering,
                                       bool same_process);
/* has_second: a third route, before that to all ranks, joins the ranks of two hosts. */
struct router_world *router_world_open_routes(const struct host_shape *shape,
                                              enum numbering numbering, bool same_process,
                                              bool has_second);
/* All ranks move their links in each step. */
struct link_world router_world_links(struct router_world *world, uint64_t seed);
/* Fills in the ways of a rank. */
void router_world_routes(const struct router_world *world, int rank, struct router_options *options);
void router_world_close(struct router_world *world);

/* What ranks of a host have sent each other so far in slot 0. */
struct router_shared {
    uint64_t multicast;       /* messages on multicast links that were read, by each reader */
    unsigned in_shared_slots; /* in shared slots, among the last few messages of each link */
};
struct router_shared router_world_shared(const struct router_world *world);

/* A job with what that algorithm of the list needs; another one each turn. */
struct engine_job router_world_job(const struct router_world *world, int algorithm, int turn,
                                   size_t count);
bool router_world_supports(const struct algorithm *algorithm, const struct router_world *world);

#endif
