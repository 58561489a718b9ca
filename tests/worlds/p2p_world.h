/* p2p_world.h - ranks with point to point in one process, for its tests: over the links of
 * engine_net.h, or over the local transport; and requests for them. Assertions are cmocka's.
 */
#ifndef TUTTI_TESTS_WORLDS_P2P_WORLD_H
#define TUTTI_TESTS_WORLDS_P2P_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "p2p/p2p.h"
#include "tests/worlds/engine_net.h"
#include "transport/transport.h"

enum { RANKS_MAX = 5, SLOT = TRANSPORT_SLOT_MESSAGES };

enum kind {
    ROOMY,
    TIGHT,
    READABLE,
    COPYABLE,
    LOCAL_THREADS,
    LOCAL_SLOTS,
    LOCAL_COPIES,
    LOCAL_CHECKED,
    KIND_COUNT
};

struct world {
    enum kind kind;
    int size;
    uint64_t random;
    struct engine_net *net; /* or NULL: local */
    struct transport *transports[RANKS_MAX];
    struct p2p *ranks[RANKS_MAX];
};

struct world world_open(enum kind kind, int size, struct p2p_options options, uint64_t seed);
void world_close(struct world *world);
/* The writer's end of a link between two ranks: the test may put anything on it. */
struct link_tx *world_link(struct world *world, int writer, int reader, int channel);
/* Ranks move in any order, until nothing does. */
void settle(struct world *world);
/* Starts a request of which only what is wanted is set: the rest of it is whatever it is. */
void start(struct world *world, int rank, struct p2p_request *request);

/* Of bytes (TUTTI_UINT8). */
struct p2p_request send_request(const void *buffer, size_t bytes, int peer, int tag);
struct p2p_request recv_request(void *buffer, size_t bytes, int peer, int tag);

#endif
