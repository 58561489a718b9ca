/* card_world.h - ranks over network cards in one thread, for their tests: simulated ones, between
 * them real sockets, or virtual time; or those of a provider of libfabric. Assertions are cmocka's.
 */
#ifndef TUTTI_TESTS_WORLDS_CARD_WORLD_H
#define TUTTI_TESTS_WORLDS_CARD_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/virtual_card/device.h"
#include "tests/virtual_card/virtual_net.h"
#include "tests/worlds/link_world.h"
#include "transport/card/card.h"

enum { CARD_WORLD_RANKS_MAX = 8 };

struct card_mood {
    bool is_virtual;
    unsigned packets;         /* in virtual time: as in struct virtual_net_options */
    unsigned cards;           /* of each rank; 0: 1 */
    bool last_has_one;        /* the last rank has one card; not in virtual time */
    size_t rails_bytes;       /* as struct card_rails_options says */
    struct card_options card; /* of all ranks */
    const char *fabric; /* a provider of libfabric (transport/ofi/choice.h); NULL: the cards are simulated */
};

struct card_world; /* opaque */

/* Whether that provider of libfabric is here. */
bool card_world_has_fabric(const char *provider);

struct card_world *card_world_create(int size, struct card_mood mood, uint64_t seed);
void card_world_free(struct card_world *world);
struct transport *const *card_world_transports(const struct card_world *world);
struct link_world card_world_links(struct card_world *world);
/* A rank moves its links, or an event happens. */
void card_world_step(void *world);
/* Steps until every rank has consumed everything; expects that nothing was wrong, and that no
 * memory is registered. */
void card_world_settle(struct card_world *world);
void card_world_expect_sound(const struct card_world *world);
/* The device of that card of a rank; NULL: there is none. */
struct card_device *card_world_device(const struct card_world *world, int rank, unsigned card);
/* The bytes that ranks gave to further cards. */
uint64_t card_world_further(const struct card_world *world);
/* Of all ranks and cards. */
void card_world_count(const struct card_world *world, struct virtual_card_counts *counts);

#endif
