/* The connections of one rank by its second card. The test is the peer: it has listening sockets in
 * place of cards, all on loopback. Nothing answers a hello there; the test only sees which
 * connections come, and from where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "os/clock.h"
#include "tests/kit/kept_log.h"
#include "transport/tcp/endpoint_state.h"

enum { SIZE = 2, STREAM = 2 };

struct world {
    struct endpoint endpoint;
    struct endpoint_peer peers[SIZE];
    struct net_address own[2], port;
    struct net_address cards[2]; /* the peer's */
    int listeners[2];
    struct net_address visitor; /* where the last one came from */
};

static struct net_address at(const char *text)
{
    struct net_address address;
    if (!net_address_parse(text, &address)) fail_msg("%s is no address", text);
    return address;
}

static void name_rank(void *context, int rank, char *text, size_t size)
{
    (void)context;
    snprintf(text, size, "rank %d", rank);
}

/* The other rank is on another host, and this one at no port. */
static void locate(void *context, int rank, struct remote_location *location)
{
    const struct world *const world = context;
    *location = (struct remote_location){.is_remote = rank != world->endpoint.base.rank};
    if (location->is_remote) location->port = world->cards[0];
}

static void open_world(struct world *world, int rank)
{
    memset(world, 0, sizeof *world);
    assert_int_equal(port_open(NULL, &world->port), TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        struct net_address any = at(i == 0 ? "127.0.0.11" : "127.0.0.12");
        assert_int_equal(tcp_listen(&any, 0, &world->listeners[i], &world->cards[i]), TUTTI_OK);
        world->own[i] = at(i == 0 ? "127.0.0.21:5000" : "127.0.0.22:5000");
    }
    struct endpoint *endpoint = &world->endpoint;
    endpoint->base = (struct transport){.rank = rank, .size = SIZE};
    endpoint->names = name_rank;
    endpoint->locates = locate;
    endpoint->context = world;
    assert_true(rank_map_init(&endpoint->peers, SIZE));
    for (int r = 0; r < SIZE; r++) {
        world->peers[r] = (struct endpoint_peer){0};
        locate(world, r, &world->peers[r].is_at);
        *rank_map_place(&endpoint->peers, r) = &world->peers[r];
    }
    endpoint->client.rank = rank;
    endpoint->client.size = SIZE;
    port_enter(&endpoint->client);
    assert_int_equal(rails_create(endpoint, world->own, 2, &endpoint->rails), TUTTI_OK);
    assert_non_null(endpoint->rails);
    for (int r = 0; r < SIZE; r++) assert_int_equal(rails_know(endpoint->rails, r), TUTTI_OK);
    endpoint->stream_count = rails_stream_count(endpoint->rails);
    assert_int_equal(endpoint->stream_count, STREAM + 1);
    const struct tcp_options options = {
        .rank = rank, .size = SIZE, .streams = endpoint->stream_count};
    assert_int_equal(tcp_create(&options, &endpoint->tcp), TUTTI_OK);
}

static int open_as_lower(void **state)
{
    static struct world world;
    open_world(&world, 0);
    *state = &world;
    return 0;
}

static int open_as_higher(void **state)
{
    static struct world world;
    open_world(&world, 1);
    *state = &world;
    return 0;
}

static int close_world(void **state)
{
    struct world *const world = *state;
    port_leave(&world->endpoint.client);
    port_close();
    tcp_close(world->endpoint.tcp);
    rails_free(world->endpoint.rails);
    rank_map_release(&world->endpoint.peers);
    for (int i = 0; i < 2; i++) close(world->listeners[i]);
    return 0;
}

/* The peer sends it. */
static void hear_addresses(struct rails *rails, int peer, const struct rails_addresses *addresses)
{
    const struct rails_message message = {.kind = CONTROL_KIND_OWN, .rails = *addresses};
    rails_hear(rails, peer, &message, sizeof message);
}

static struct rails_addresses said(uint32_t count, struct net_address address)
{
    struct rails_addresses rails = {.count = count};
    for (uint32_t i = 0; i < count && i < RAILS_FURTHER_MAX; i++) rails.addresses[i] = address;
    return rails;
}

/* The peer says that it has so many further cards, all at that address. */
static void hear(struct world *world, uint32_t count, struct net_address address)
{
    const struct rails_addresses heard = said(count, address);
    hear_addresses(world->endpoint.rails, !world->endpoint.client.rank, &heard);
}

/* Whether a connection comes to that card of the peer within a while. */
static bool is_visited(struct world *world, int card)
{
    for (int ms = 0; ms < 100; ms++) {
        int fd;
        rails_progress(world->endpoint.rails, clock_now_ns());
        if (tcp_accept(world->listeners[card], &fd, &world->visitor) == TUTTI_OK) {
            close(fd);
            return true;
        }
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return false;
}

static void a_further_card_is_visited_from_the_own_further_card(void **state)
{
    struct world *const world = *state;
    assert_false(rails_want(world->endpoint.rails, 0, 0)); /* these are not its business */
    assert_false(rails_want(world->endpoint.rails, 0, 1));
    assert_true(rails_want(world->endpoint.rails, 0, STREAM));
    assert_false(is_visited(world, 1)); /* its address is not known */
    hear(world, 1, world->cards[1]);
    assert_true(is_visited(world, 1));
    assert_true(net_address_same_host(&world->visitor, &world->own[1]));
}

/* As many are used as both have. */
static void a_peer_with_more_cards_is_visited_at_as_many_as_there_are_here(void **state)
{
    struct world *const world = *state;
    struct rails_addresses heard = said(3, world->cards[0]);
    heard.addresses[0] = world->cards[1];
    hear_addresses(world->endpoint.rails, 0, &heard);
    assert_true(is_visited(world, 1));
    assert_false(is_visited(world, 0));
}

static void what_makes_no_sense_is_not_used(void **state)
{
    struct world *const world = *state;
    const struct net_address card = world->cards[1];
    struct net_address no_port = card, no_family = card, odd_family = card, scoped = card;
    no_port.port = 0;
    no_family.family = AF_UNSPEC;
    odd_family.family = 77;
    scoped.scope = 3;
    const struct rails_addresses nonsense[] = {
        said(0, card),          said(RAILS_FURTHER_MAX + 1, card),
        said(UINT32_MAX, card), said(1, no_port),
        said(1, no_family),     said(1, odd_family),
        said(2, odd_family),    said(1, scoped)};
    struct kept_log log;
    rails_want(world->endpoint.rails, 0, STREAM);
    kept_log_begin(&log);
    for (size_t i = 0; i < 50 * sizeof nonsense / sizeof *nonsense; i++)
        hear_addresses(world->endpoint.rails, 0,
                       &nonsense[i % (sizeof nonsense / sizeof *nonsense)]);
    assert_int_equal(kept_log_end(&log, "rank 0: ", "makes no sense"), 1);
    assert_false(is_visited(world, 1));
    const struct rails_message message = {.kind = CONTROL_KIND_OWN, .rails = said(1, card)};
    rails_hear(world->endpoint.rails, 0, &message, sizeof message - 1);
    rails_hear(world->endpoint.rails, 0, &message, 4);
    assert_false(is_visited(world, 1));
    hear(world, 1, card);
    assert_true(is_visited(world, 1));
}

/* Such as the address of a bridge, which every host has. */
static void an_address_that_is_this_hosts_own_is_not_visited(void **state)
{
    struct world *const world = *state;
    struct net_address own = world->own[1];
    int listener;
    own.port = 0;
    close(world->listeners[1]);
    assert_int_equal(tcp_listen(&own, 0, &listener, &own), TUTTI_OK);
    world->listeners[1] = listener;
    hear(world, 1, own);
    assert_false(is_visited(world, 1));
}

static int some_socket(void)
{
    return STDERR_FILENO; /* only whether it is one matters */
}

static void what_was_lost_comes_back_by_the_first_card(void **state)
{
    struct world *const world = *state;
    struct rails *const rails = world->endpoint.rails;
    hear(world, 1, world->cards[1]);
    assert_true(is_visited(world, 1));
    /* Nothing was lost on a connection that never was there: no detour. */
    assert_true(rails_take(rails, 0, STREAM, PORT_NOT_REACHED));
    assert_false(is_visited(world, 0));
    assert_true(rails_take(rails, 0, STREAM, some_socket()));
    assert_false(is_visited(world, 0));
    assert_true(rails_want(rails, 0, STREAM)); /* lost: its own card first */
    assert_true(is_visited(world, 1));
    assert_true(rails_take(rails, 0, STREAM, PORT_NOT_REACHED));
    assert_true(is_visited(world, 0));
    assert_false(net_address_same_host(&world->visitor, &world->own[1]));
}

static void what_cannot_be_attached_is_made_again(void **state)
{
    struct world *const world = *state;
    struct rails *const rails = world->endpoint.rails;
    hear(world, 1, world->cards[1]);
    assert_true(is_visited(world, 1));
    assert_true(rails_take(rails, 0, STREAM, some_socket()));
    assert_false(is_visited(world, 1));
    for (int i = 0; i < 3; i++) {
        (void)error_set(TUTTI_NO_MEMORY, "TCP: out of memory");
        rails_lose(rails, 0, STREAM);
        bool comes = false;
        for (int tries = 0; tries < 100 && !comes; tries++) comes = is_visited(world, 1);
        assert_true(comes); /* after a pause that grows */
        assert_true(rails_take(rails, 0, STREAM, some_socket()));
    }
}

static void the_higher_rank_comes_again_when_it_is_asked_to(void **state)
{
    struct world *const world = *state;
    struct rails *const rails = world->endpoint.rails;
    hear(world, 1, world->cards[1]);
    assert_true(is_visited(world, 1));
    assert_true(rails_take(rails, 0, STREAM, some_socket()));
    assert_false(is_visited(world, 1));
    assert_true(rails_take(rails, 0, STREAM, PORT_CALLBACK));
    assert_true(is_visited(world, 1));
}

static void the_lower_rank_asks_by_the_first_card_after_a_loss(void **state)
{
    struct world *const world = *state;
    struct rails *const rails = world->endpoint.rails;
    hear(world, 1, world->cards[1]);
    assert_true(rails_want(rails, 1, STREAM));
    assert_false(is_visited(world, 0)); /* the higher one comes by itself */
    assert_true(rails_take(rails, 1, STREAM, some_socket()));
    assert_true(rails_want(rails, 1, STREAM));
    assert_true(is_visited(world, 0));
    assert_false(is_visited(world, 1));
}

static void one_card_is_none_of_its_business(void **state)
{
    struct world *const world = *state;
    struct rails *rails;
    assert_int_equal(rails_create(&world->endpoint, world->own, 1, &rails), TUTTI_OK);
    assert_null(rails);
    assert_int_equal(rails_stream_count(NULL), TCP_STREAMS_DEFAULT);
    assert_int_equal(rails_bytes(NULL), 0);
    assert_false(rails_want(NULL, 0, 1));
    assert_false(rails_take(NULL, 0, 1, some_socket()));
    const struct rails_addresses heard = said(1, world->cards[1]);
    hear_addresses(NULL, 0, &heard);
    rails_meet(NULL, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_as_higher, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_further_card_is_visited_from_the_own_further_card),
        TEST(a_peer_with_more_cards_is_visited_at_as_many_as_there_are_here),
        TEST(what_makes_no_sense_is_not_used),
        TEST(an_address_that_is_this_hosts_own_is_not_visited),
        TEST(what_was_lost_comes_back_by_the_first_card),
        TEST(what_cannot_be_attached_is_made_again),
        TEST(the_higher_rank_comes_again_when_it_is_asked_to),
        cmocka_unit_test_setup_teardown(the_lower_rank_asks_by_the_first_card_after_a_loss,
                                        open_as_lower, close_world),
        TEST(one_card_is_none_of_its_business),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
