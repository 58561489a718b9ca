/* link_world.h - a world as games see it: the transports of ranks in one thread, and what moves
 * them. tcp_world_links, card_world_links and router_world_links give it. */
#ifndef TUTTI_TESTS_WORLDS_LINK_WORLD_H
#define TUTTI_TESTS_WORLDS_LINK_WORLD_H

#include <stdint.h>

#include "transport/transport.h"

struct link_world {
    int size;
    struct transport *const *ranks;
    void (*step)(
        void *world); /* a rank moves its links, or something happens to one; NULL: they move elsewhere */
    void *world;
    uint64_t *random; /* the world draws from it (chance_next), and so do games: the seed says everything */
    uint64_t seed;
};

#endif
