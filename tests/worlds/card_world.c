#include "tests/worlds/card_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/chance.h"
#include "tests/virtual_card/socket_wire.h"
#include "transport/ofi/choice.h"
#include "transport/ofi/ofi_device.h"

enum { SETTLE_STEPS_MAX = 2000000, EVENTS = SIM_MESSAGE + 1 };

struct card_world {
    struct card_mood mood;
    int size;
    uint64_t seed, random;
    struct sim *sim; /* or NULL: sockets, or a provider */
    struct virtual_net *net;
    struct transport *ranks[CARD_WORLD_RANKS_MAX];
    struct rank_context {
        struct card_world *world;
        int rank;
        unsigned card;
    } contexts[CARD_WORLD_RANKS_MAX][CARD_RAILS_MAX];
    struct ofi_choice choice;
};

static uint64_t draw(struct card_world *world)
{
    return chance_next(&world->random);
}

static unsigned cards_of(const struct card_world *world, int rank)
{
    return world->mood.last_has_one && rank == world->size - 1 ? 1 : world->mood.cards;
}

struct card_device *card_world_device(const struct card_world *world, int rank, unsigned card)
{
    struct card_device *const device = card_device_of(world->ranks[rank]);
    if (cards_of(world, rank) > 1) return card_rails_device(device, card);
    return card == 0 ? device : NULL;
}

uint64_t card_world_further(const struct card_world *world)
{
    uint64_t bytes = 0;
    for (int r = 0; r < world->size; r++)
        for (unsigned c = 1; c < cards_of(world, r); c++)
            bytes += card_rails_given(card_device_of(world->ranks[r]), c);
    return bytes;
}

/* Opens the transport of a rank over its cards. */
static void open_rank(struct card_world *world, int rank, struct card_device **devices)
{
    struct card_options options = world->mood.card;
    struct card_device *all = devices[0];
    const struct card_rails_options rails = {.size = world->size,
                                             .least_bytes = world->mood.rails_bytes};
    if (cards_of(world, rank) > 1)
        assert_int_equal(card_rails_create(&rails, devices, cards_of(world, rank), &all), TUTTI_OK);
    options.rank = rank;
    options.size = world->size;
    assert_int_equal(card_create(&options, all, &world->ranks[rank]), TUTTI_OK);
}

static void open_sockets(struct card_world *world, uint64_t seed)
{
    const uint64_t key = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)world ^ seed;
    for (int r = 0; r < world->size; r++) {
        struct card_device *devices[CARD_RAILS_MAX];
        for (unsigned c = 0; c < cards_of(world, r); c++) {
            const struct virtual_card_options card = {
                .rank = r, .size = world->size, .seed = seed + (uint64_t)r + 100 * c};
            struct card_wire *wire;
            assert_int_equal(card_socket_wire_open(key ^ (uint64_t)c << 56, r, world->size, &wire),
                             TUTTI_OK);
            assert_int_equal(virtual_card_create(&card, wire, &devices[c]), TUTTI_OK);
        }
        open_rank(world, r, devices);
    }
}

#if __has_include(<rdma/fabric.h>)

/* The control plane of ranks in one thread. */
static bool greets(void *context, int peer, const struct ofi_greeting *greeting)
{
    const struct rank_context *own = context;
    const struct card_world *const world = own->world;
    if (world->ranks[peer] == NULL) return false;
    struct card_device *const its = card_world_device(world, peer, own->card);
    return its == NULL || ofi_device_greeted(its, own->rank, greeting);
}

bool card_world_has_fabric(const char *provider)
{
    struct ofi_choice choice;
    const bool is_here =
        ofi_choose_anew(provider, NULL, &choice) == TUTTI_OK && choice.card_count > 0;
    ofi_choice_release(&choice);
    return is_here;
}

static void open_fabric(struct card_world *world)
{
    assert_int_equal(ofi_choose_anew(world->mood.fabric, NULL, &world->choice), TUTTI_OK);
    assert_true(world->choice.card_count > 0);
    for (int r = 0; r < world->size; r++) {
        struct card_device *devices[CARD_RAILS_MAX];
        for (unsigned c = 0; c < cards_of(world, r); c++) {
            struct rank_context *const context = &world->contexts[r][c];
            *context = (struct rank_context){world, r, c};
            const struct ofi_device_options own = {.rank = r,
                                                   .size = world->size,
                                                   .choice = &world->choice,
                                                   .is_of_several = cards_of(world, r) > 1,
                                                   .is_further = c > 0,
                                                   .greets = greets,
                                                   .context = context};
            assert_int_equal(ofi_device_create(&own, &devices[c]), TUTTI_OK);
        }
        open_rank(world, r, devices);
    }
}

#else

bool card_world_has_fabric(const char *provider)
{
    (void)provider;
    return false;
}

static void open_fabric(struct card_world *world)
{
    (void)world;
    fail_msg("Tutti was built without libfabric");
}

#endif

static void open_net(struct card_world *world, uint64_t seed)
{
    static const int nodes[CARD_WORLD_RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct sim_weather weather = {.lost_permille = 50,
                                        .late_permille = 100,
                                        .delay_ns_min = 1000,
                                        .delay_ns_max = 100000,
                                        .late_ns_max = 1000000};
    const struct virtual_net_options options = {.size = world->size,
                                                .nodes = nodes,
                                                .kind = EVENTS,
                                                .packets = world->mood.packets,
                                                .cards = world->mood.cards,
                                                .rails_bytes = world->mood.rails_bytes,
                                                .card = world->mood.card};
    world->sim = sim_create(seed);
    sim_set_weather(world->sim, &weather);
    world->net = virtual_net_create(world->sim, &options);
    for (int r = 0; r < world->size; r++) world->ranks[r] = virtual_net_transport(world->net, r);
}

struct card_world *card_world_create(int size, struct card_mood mood, uint64_t seed)
{
    struct card_world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    assert_true(size <= CARD_WORLD_RANKS_MAX);
    world->mood = mood;
    if (mood.cards == 0) world->mood.cards = 1;
    world->size = size;
    for (int r = 0; r < size; r++) world->contexts[r][0] = (struct rank_context){world, r, 0};
    world->seed = world->random = seed;
    if (mood.fabric != NULL)
        open_fabric(world);
    else if (mood.is_virtual)
        open_net(world, seed);
    else
        open_sockets(world, seed);
    return world;
}

void card_world_free(struct card_world *world)
{
    if (world->sim == NULL) {
        for (int r = 0; r < world->size; r++) card_close(world->ranks[r]);
        if (world->choice.card_count > 0) ofi_choice_release(&world->choice);
    } else {
        virtual_net_free(world->net);
        sim_free(world->sim);
    }
    free(world);
}

struct transport *const *card_world_transports(const struct card_world *world)
{
    return world->ranks;
}

struct link_world card_world_links(struct card_world *world)
{
    return (struct link_world){.size = world->size,
                               .ranks = world->ranks,
                               .step = card_world_step,
                               .world = world,
                               .random = &world->random,
                               .seed = world->seed};
}

void card_world_step(void *context)
{
    struct card_world *world = context;
    struct sim_event event;
    if (world->sim == NULL) {
        struct transport *transport = world->ranks[draw(world) % (unsigned)world->size];
        transport->ops->progress(transport);
    } else if (sim_next(world->sim, &event)) {
        virtual_net_happen(world->net, &event);
    }
}

void card_world_count(const struct card_world *world, struct virtual_card_counts *all)
{
    *all = (struct virtual_card_counts){0};
    for (unsigned number = 0; number < (unsigned)world->size * world->mood.cards; number++) {
        struct card_device *const device =
            card_world_device(world, (int)(number / world->mood.cards), number % world->mood.cards);
        struct virtual_card_counts counts = {0};
        if (world->mood.fabric == NULL && device != NULL) virtual_card_count(device, &counts);
        all->overruns += counts.overruns;
        all->refused += counts.refused;
        all->refused_by_peers += counts.refused_by_peers;
        all->strays += counts.strays;
        all->writes += counts.writes;
        all->sends += counts.sends;
        all->turned += counts.turned;
    }
}

void card_world_expect_sound(const struct card_world *world)
{
    struct virtual_card_counts counts;
    card_world_count(world, &counts);
    assert_int_equal(counts.overruns, 0);
    assert_int_equal(counts.refused, 0);
    assert_int_equal(counts.refused_by_peers, 0);
    assert_int_equal(counts.strays, 0);
    for (int r = 0; r < world->size; r++) {
        for (int peer = 0; peer < world->size; peer++) {
            const enum card_peer_state state = card_peer_state(world->ranks[r], peer);
            assert_true(state != CARD_PEER_BROKEN && state != CARD_PEER_LOST);
        }
    }
}

static bool is_settled(const struct card_world *world)
{
    for (int r = 0; r < world->size; r++)
        for (int peer = 0; peer < world->size; peer++)
            if (!world->ranks[r]->ops->is_settled(world->ranks[r], peer)) return false;
    return true;
}

void card_world_settle(struct card_world *world)
{
    for (int steps = 0; !is_settled(world); steps++) {
        if (steps == SETTLE_STEPS_MAX) fail_msg("it never settles");
        card_world_step(world);
    }
    card_world_expect_sound(world);
    for (int r = 0; r < world->size; r++)
        assert_int_equal(card_offered_regions(world->ranks[r]), 0);
}
