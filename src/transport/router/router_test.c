/* Ranks of several hosts as threads that exchange messages and run programs, and sleep for longer
 * than the tests may take. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "os/clock.h"
#include "tests/kit/contract.h"
#include "tests/worlds/engine_world.h"
#include "tests/worlds/local_world.h"
#include "tests/worlds/router_world.h"
#include "transport/local/local.h"
#include "transport/router/router.h"

enum { SLOT = 3, CHANNEL = 1 };
static const uint64_t LONG_NS = 60000000000, DEADLINE_NS = 30000000000;

static const struct host_shape mixed = {.hosts = {2, 3, 1}};

static bool are_near(const struct router_world *world, int a, int b)
{
    return world->map.host_of[a] == world->map.host_of[b];
}

/* Another rank on the same host (near), or on another host. */
static int peer_of(const struct router_world *world, int rank, bool near)
{
    for (int r = 0; r < world->size; r++)
        if (r != rank && are_near(world, r, rank) == near) return r;
    fail_msg("rank %d has no such peer", rank);
    return -1;
}

static struct link_tx *tx_of(const struct router_world *world, int rank, int peer)
{
    struct transport *transport = world->ranks[rank];
    struct link_tx *link;
    assert_int_equal(transport->ops->open_tx(transport, SLOT, CHANNEL, peer, 1 << 20, &link),
                     TUTTI_OK);
    assert_int_equal(link->peer, peer);
    return link;
}

static struct link_rx *rx_of(const struct router_world *world, int rank, int peer)
{
    struct transport *transport = world->ranks[rank];
    struct link_rx *link;
    assert_int_equal(transport->ops->open_rx(transport, SLOT, CHANNEL, peer, &link), TUTTI_OK);
    assert_int_equal(link->peer, peer);
    return link;
}

/* ----------------------------------------------------------------------------- ranks as threads */

/* The work of a rank at each look; true when something moved. Assertions would leave a thread by
 * longjmp. */
struct rank_thread {
    struct router_world *world;
    struct transport *transport;
    int rank;
    bool (*look)(struct rank_thread *own);
    _Atomic int *left; /* ranks that are not done */
    bool done;
    const char *fault;
    unsigned long sleeps;
    struct link_tx *tx[ROUTER_RANKS_MAX];
    struct link_rx *rx[ROUTER_RANKS_MAX];
    unsigned sent[ROUTER_RANKS_MAX], received[ROUTER_RANKS_MAX];
    struct operation *operation;
};

static bool look_once(struct rank_thread *own)
{
    const bool moved = own->transport->ops->progress(own->transport);
    return (own->look(own) && !own->done) || moved;
}

static void finish(struct rank_thread *own)
{
    own->done = true;
    if (own->fault != NULL) /* no rank waits for it */
        atomic_store(own->left, 0);
    else if (atomic_fetch_sub(own->left, 1) > 1)
        return;
    for (int r = 0; r < own->world->size; r++) /* the last one sends all home */
        own->world->ranks[r]->ops->wake(own->world->ranks[r]);
}

/* A rank that is done goes on moving what others wait for. It sleeps from its first look in vain
 * on, for longer than the test may take: so another rank has to wake it. */
static void *run_rank(void *argument)
{
    struct rank_thread *own = argument;
    struct transport *transport = own->transport;
    bool about_to_sleep = false;
    while (atomic_load(own->left) > 0) {
        const bool was_done = own->done, moved = look_once(own);
        if (!was_done && (own->done || own->fault != NULL)) finish(own);
        const bool goes_on = moved || own->done != was_done || atomic_load(own->left) == 0;
        if (about_to_sleep && goes_on) transport->ops->sleep_cancel(transport);
        if (about_to_sleep && !goes_on) {
            transport->ops->sleep(transport, LONG_NS);
            own->sleeps++;
        }
        if (!about_to_sleep && !goes_on) transport->ops->sleep_begin(transport);
        about_to_sleep = !about_to_sleep && !goes_on;
    }
    if (about_to_sleep) transport->ops->sleep_cancel(transport);
    return NULL;
}

static void run_ranks(struct router_world *world, struct rank_thread *ranks)
{
    pthread_t threads[ROUTER_RANKS_MAX];
    _Atomic int left = world->size;
    const uint64_t begin_ns = clock_now_ns();
    unsigned long sleeps = 0;
    for (int r = 0; r < world->size; r++) {
        ranks[r].world = world;
        ranks[r].transport = world->ranks[r];
        ranks[r].rank = r;
        ranks[r].left = &left;
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < world->size; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < world->size; r++) {
        if (ranks[r].fault != NULL) fail_msg("rank %d: %s", r, ranks[r].fault);
        sleeps += ranks[r].sleeps;
    }
    assert_true(sleeps > 0);
    assert_true(clock_now_ns() - begin_ns < DEADLINE_NS);
}

/* ----------------------------------------------------------------------------------- exchanging */

enum { MESSAGES = 200 };
static const size_t sizes[] = {8, 0, 300, ROUTER_PIECE_BYTES, 40, 5000, 8, 41};

static unsigned char filling(int from, int to, unsigned number)
{
    return (unsigned char)(from * 31 + to * 7 + (int)number);
}

static bool exchange_sends(struct rank_thread *own, int peer)
{
    struct link_tx *tx = own->tx[peer];
    const unsigned number = own->sent[peer];
    const size_t bytes = sizes[number % 8];
    if (number == MESSAGES) return false;
    void *place = tx->ops->reserve(tx, bytes);
    if (place == NULL) return false;
    memset(place, filling(own->rank, peer, number), bytes);
    tx->ops->commit(tx, bytes);
    own->sent[peer]++;
    return true;
}

static bool exchange_receives(struct rank_thread *own, int peer)
{
    struct link_rx *rx = own->rx[peer];
    struct link_view view;
    const enum link_state state = rx->ops->peek(rx, &view);
    if (state == LINK_FAULT) own->fault = "a message makes no sense";
    if (state != LINK_READY) return false;
    const unsigned number = own->received[peer]++;
    if (number >= MESSAGES || view.bytes != sizes[number % 8])
        own->fault = "a message of another size";
    for (size_t i = 0; i < view.bytes; i++)
        if (((const unsigned char *)view.data)[i] != filling(peer, own->rank, number))
            own->fault = "a message of somebody else";
    rx->ops->consume(rx, view.bytes);
    return true;
}

static bool exchange(struct rank_thread *own)
{
    bool moved = false, is_over = true;
    for (int peer = 0; peer < own->world->size; peer++) {
        if (peer == own->rank) continue;
        moved |= exchange_sends(own, peer);
        moved |= exchange_receives(own, peer);
        is_over &= own->sent[peer] == MESSAGES && own->received[peer] == MESSAGES &&
                   own->tx[peer]->ops->consumed(own->tx[peer]);
    }
    own->done |= is_over;
    return moved;
}

static void all_pairs_exchange_and_sleep_until_woken(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct router_world *world =
            router_world_open(&mixed, round == 0 ? INTERLEAVED : CONTIGUOUS, round == 0);
        struct rank_thread ranks[ROUTER_RANKS_MAX] = {0};
        for (int r = 0; r < world->size; r++) {
            ranks[r].look = exchange;
            for (int peer = 0; peer < world->size; peer++) {
                if (peer == r) continue;
                ranks[r].tx[peer] = tx_of(world, r, peer);
                ranks[r].rx[peer] = rx_of(world, r, peer);
            }
        }
        run_ranks(world, ranks);
        router_world_close(world);
    }
}

/* ------------------------------------------------------------------------------------- sleeping */

struct waker {
    struct router_world *world;
    int rank;
    struct link_tx *tx;           /* sends on it, */
    void (*wake)(struct waker *); /* or else calls this */
};

static void wake_sleeper(struct waker *waker)
{
    struct transport *sleeper = waker->world->ranks[0];
    sleeper->ops->wake(sleeper);
}

static void wake_everybody(struct waker *waker)
{
    struct transport *own = waker->world->ranks[waker->rank];
    own->ops->wake_all(own);
}

static void wake_near(struct waker *waker)
{
    struct transport *near = waker->world->near[waker->rank];
    near->ops->wake_all(near);
}

/* Waits until the sleeper has most likely gone to sleep; the test is right also if it has not. */
static void *wake_later(void *argument)
{
    struct waker *waker = argument;
    struct transport *own = waker->world->ranks[waker->rank];
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    if (waker->tx == NULL) {
        waker->wake(waker);
        return NULL;
    }
    memset(waker->tx->ops->reserve(waker->tx, 100), 7, 100);
    waker->tx->ops->commit(waker->tx, 100);
    for (int i = 0; i < 10; i++) own->ops->progress(own);
    return NULL;
}

static void expect_woken(struct router_world *world, struct waker waker, struct link_rx *rx)
{
    struct transport *sleeper = world->ranks[0];
    struct link_view view;
    pthread_t thread;
    waker.world = world;
    while (sleeper->ops->progress(sleeper)) {
    }
    const uint64_t begin_ns = clock_now_ns();
    sleeper->ops->sleep_begin(sleeper);
    (void)sleeper->ops->progress(sleeper);
    assert_int_equal(pthread_create(&thread, NULL, wake_later, &waker), 0);
    sleeper->ops->sleep(sleeper, LONG_NS);
    /* A connection may have other things to tell first. */
    while (rx != NULL && rx->ops->peek(rx, &view) != LINK_READY &&
           clock_now_ns() - begin_ns < DEADLINE_NS) {
        sleeper->ops->sleep_begin(sleeper);
        if (sleeper->ops->progress(sleeper))
            sleeper->ops->sleep_cancel(sleeper);
        else
            sleeper->ops->sleep(sleeper, LONG_NS);
    }
    assert_true(clock_now_ns() - begin_ns < DEADLINE_NS);
    pthread_join(thread, NULL);
    if (rx == NULL) return;
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    assert_int_equal(view.bytes, 100);
    rx->ops->consume(rx, 100);
}

static void a_sleeper_is_woken_from_either_side(void **state)
{
    (void)state;
    struct router_world *world = router_world_open(&mixed, INTERLEAVED, true);
    const int near = peer_of(world, 0, true), far = peer_of(world, 0, false);
    const struct waker from_near = {.rank = near, .tx = tx_of(world, near, 0)},
                       from_far = {.rank = far, .tx = tx_of(world, far, 0)};
    struct link_rx *near_rx = rx_of(world, 0, near), *far_rx = rx_of(world, 0, far);
    for (int i = 0; i < 200; i++) { /* the far link is known at both ends */
        world->ranks[0]->ops->progress(world->ranks[0]);
        world->ranks[far]->ops->progress(world->ranks[far]);
    }
    for (int round = 0; round < 3; round++) {
        expect_woken(world, from_near, near_rx);
        expect_woken(world, from_far, far_rx);
        expect_woken(world, (struct waker){.rank = 0, .wake = wake_sleeper}, NULL);
        expect_woken(world, (struct waker){.rank = 0, .wake = wake_everybody}, NULL);
        expect_woken(world, (struct waker){.rank = near, .wake = wake_everybody}, NULL);
        expect_woken(world, (struct waker){.rank = near, .wake = wake_near}, NULL);
    }
    router_world_close(world);
}

static void who_is_alone_on_a_host_sleeps_and_is_woken(void **state)
{
    (void)state;
    static const struct host_shape shape = {.hosts = {1, 2}};
    struct router_world *world = router_world_open(&shape, CONTIGUOUS, true);
    assert_null(world->near[0]);
    const struct waker far = {.rank = 1, .tx = tx_of(world, 1, 0)};
    struct link_rx *rx = rx_of(world, 0, 1);
    for (int i = 0; i < 200; i++) {
        world->ranks[0]->ops->progress(world->ranks[0]);
        world->ranks[1]->ops->progress(world->ranks[1]);
    }
    expect_woken(world, far, rx);
    expect_woken(world, (struct waker){.rank = 0, .wake = wake_sleeper}, NULL);
    expect_woken(world, (struct waker){.rank = 0, .wake = wake_everybody}, NULL);
    router_world_close(world);
}

static void a_sleep_ends_at_its_time(void **state)
{
    (void)state;
    struct router_world *world = router_world_open(&mixed, INTERLEAVED, true);
    struct transport *sleeper = world->ranks[0];
    const uint64_t begin_ns = clock_now_ns();
    sleeper->ops->sleep_begin(sleeper);
    sleeper->ops->sleep(sleeper, 3000000);
    assert_true(clock_now_ns() - begin_ns >= 3000000);
    router_world_close(world);
}

/* As if the kernel or the limit of descriptors did not allow it. */
static int no_descriptor(struct transport *transport)
{
    (void)transport;
    return -1;
}

static void without_descriptors_sleeps_are_short(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        struct router_world *world = router_world_open(&mixed, INTERLEAVED, true);
        struct transport_ops changed[2] = {*world->near[0]->ops, *world->far[0]->ops};
        const struct transport_ops *const kept[2] = {world->near[0]->ops, world->far[0]->ops};
        if (which != 1) changed[0].descriptor = no_descriptor;
        if (which != 0) changed[1].descriptor = transport_no_descriptor;
        world->near[0]->ops = &changed[0];
        world->far[0]->ops = &changed[1];
        struct transport *sleeper = world->ranks[0];
        const uint64_t begin_ns = clock_now_ns();
        sleeper->ops->sleep_begin(sleeper);
        sleeper->ops->sleep(sleeper, LONG_NS);
        assert_true(clock_now_ns() - begin_ns < DEADLINE_NS);
        world->near[0]->ops = kept[0];
        world->far[0]->ops = kept[1];
        router_world_close(world);
    }
}

static int second_rank(const struct transport *transport)
{
    (void)transport;
    return 2;
}

static enum tutti_status no_memory(const struct transport *transport, uint64_t now_ns, int *peer)
{
    (void)transport, (void)now_ns;
    *peer = 3;
    return TUTTI_NO_MEMORY;
}

static void five_links(const struct transport *transport, struct transport_footprint *sum)
{
    (void)transport;
    sum->link_count += 5;
}

static void what_either_part_knows_the_router_knows(void **state)
{
    (void)state;
    struct router_world *world = router_world_open(&mixed, INTERLEAVED, true);
    const struct transport *router = world->ranks[0];
    struct transport *const parts[2] = {world->near[0], world->far[0]};
    int peer = -1;
    assert_int_equal(router->ops->corrupt_rank(router), -1);
    assert_int_equal(router->ops->shortage(router, clock_now_ns(), &peer), TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        const struct transport_ops *const kept = parts[i]->ops;
        struct transport_ops changed = *kept;
        struct transport_footprint before = {0}, after = {0}, own = {0};
        router->ops->add_footprint(router, &before);
        kept->add_footprint(parts[i], &own);
        changed.corrupt_rank = second_rank;
        changed.shortage = no_memory;
        changed.add_footprint = five_links;
        parts[i]->ops = &changed;
        assert_int_equal(router->ops->corrupt_rank(router), 2);
        assert_int_equal(router->ops->shortage(router, clock_now_ns(), &peer), TUTTI_NO_MEMORY);
        assert_int_equal(peer, 3);
        router->ops->add_footprint(router, &after);
        assert_int_equal(after.link_count, before.link_count - own.link_count + 5);
        assert_int_equal(after.private_bytes, before.private_bytes - own.private_bytes);
        parts[i]->ops = kept;
    }
    router_world_close(world);
}

/* ---------------------------------------------------------------------------------------- links */

static enum link_state await(struct router_world *world, struct link_rx *rx, struct link_view *view)
{
    enum link_state state = LINK_EMPTY;
    for (int i = 0; i < 10000 && state == LINK_EMPTY; i++) {
        for (int r = 0; r < world->size; r++) world->ranks[r]->ops->progress(world->ranks[r]);
        state = rx->ops->peek(rx, view);
    }
    return state;
}

/* Rank 0 reaches ranks by three routes. */
static int peer_by(const struct router_world *world, int route)
{
    for (int r = 1; r < world->size; r++)
        if ((are_near(world, 0, r) ? 0 : world->second_numbers[0][r] >= 0 ? 1 : 2) == route)
            return r;
    fail_msg("no rank is reached by route %d", route);
    return -1;
}

static void another_signature_is_a_fault_on_every_way(void **state)
{
    (void)state;
    for (int route = 0; route < 3; route++) {
        struct router_world *world = router_world_open_routes(&mixed, INTERLEAVED, true, true);
        const int peer = peer_by(world, route);
        struct link_tx *tx = tx_of(world, 0, peer);
        struct link_rx *rx = rx_of(world, peer, 0);
        struct link_view view;
        uint64_t word = 1;
        for (unsigned i = 0; i < 2; i++) {
            world->ranks[0]->signatures[SLOT] = ROUTER_SIGNATURE + i;
            memcpy(tx->ops->reserve(tx, sizeof word), &word, sizeof word);
            tx->ops->commit(tx, sizeof word);
        }
        assert_int_equal(await(world, rx, &view), LINK_READY);
        rx->ops->consume(rx, sizeof word);
        assert_int_equal(await(world, rx, &view), LINK_FAULT);
        assert_int_equal(await(world, rx, &view), LINK_FAULT);
        router_world_close(world);
    }
}

static void ranks_of_a_host_are_a_group(void **state)
{
    (void)state;
    for (int numbering = 0; numbering < NUMBERING_COUNT; numbering++) {
        struct router_world *world = router_world_open(&mixed, (enum numbering)numbering, true);
        for (int r = 0; r < world->size; r++) {
            const struct transport *const transport = world->ranks[r];
            assert_int_equal(transport->group_count, world->near[r] != NULL);
            int member = 0;
            for (int other = 0; other < world->size && world->near[r] != NULL; other++)
                if (are_near(world, r, other))
                    assert_int_equal(transport->groups[0].ranks[member++], other);
            assert_int_equal(transport->groups[0].count, member);
        }
        router_world_close(world);
    }
}

static void links_within_a_host_share_and_refer(void **state)
{
    (void)state;
    struct router_world *world = router_world_open(&mixed, SHUFFLED, true);
    for (int r = 0; r < world->size; r++)
        for (int other = 0; other < world->size; other++) {
            if (other == r) continue;
            const bool near = are_near(world, r, other);
            const unsigned capabilities = LINK_SHARES | LINK_ADVERTISES | LINK_REFERS;
            assert_int_equal(tx_of(world, r, other)->capabilities, near ? capabilities : 0);
            assert_int_equal(rx_of(world, r, other)->capabilities,
                             near ? capabilities : LINK_ADVERTISES | LINK_PLACES_DIRECTLY);
        }
    router_world_close(world);
}

static void no_function_is_missing(void **state)
{
    (void)state;
    struct router_world *world = router_world_open(&mixed, SHUFFLED, true);
    for (int near = 0; near < 2; near++) {
        const int peer = peer_of(world, 0, near == 1);
        const struct link_tx *const tx = tx_of(world, 0, peer);
        const struct link_rx *const rx = rx_of(world, 0, peer);
        contract_expect_whole(world->ranks[0], tx, rx);
        contract_expect_whole(near == 1 ? world->near[0] : world->far[0], tx, rx);
    }
    router_world_close(world);
    struct transport *checked[2];
    close(local_world_open(2, (struct host_peer){.same_process = true}, NULL, true, 64, checked));
    struct link_tx *tx;
    struct link_rx *rx;
    assert_int_equal(checked[0]->ops->open_tx(checked[0], SLOT, CHANNEL, 1, 8, &tx), TUTTI_OK);
    assert_int_equal(checked[0]->ops->open_rx(checked[0], SLOT, CHANNEL, 1, &rx), TUTTI_OK);
    contract_expect_whole(checked[0], tx, rx);
    for (int r = 0; r < 2; r++) local_close(checked[r]);
}

/* The three ranks of the host of three. */
struct three {
    struct router_world *world;
    int ranks[3];
};

static struct three open_three(void)
{
    struct three three = {.world = router_world_open(&mixed, SHUFFLED, true)};
    for (int r = 0; r < three.world->size; r++) {
        const struct transport_group *const group = &three.world->ranks[r]->groups[0];
        if (three.world->ranks[r]->group_count != 1 || group->count != 3) continue;
        memcpy(three.ranks, group->ranks, sizeof three.ranks);
        return three;
    }
    fail_msg("no host has three ranks");
    return three;
}

static void one_message_comes_to_all_ranks_of_the_host(void **state)
{
    (void)state;
    const struct three three = open_three();
    for (int from = 0; from < 3; from++) {
        struct transport *const sender = three.world->ranks[three.ranks[from]];
        struct link_tx *tx;
        assert_int_equal(sender->sharing->open_multicast_tx(sender, SLOT, CHANNEL, 0, 300, &tx),
                         TUTTI_OK);
        assert_int_equal(tx->peer, LINK_TO_GROUP);
        memset(tx->ops->reserve(tx, 300), 50 + from, 300);
        tx->ops->commit(tx, 300);
        for (int to = 0; to < 3; to++) {
            struct transport *const reader = three.world->ranks[three.ranks[to]];
            struct link_rx *rx;
            struct link_view view;
            if (to == from) continue;
            assert_int_equal(reader->sharing->open_multicast_rx(reader, SLOT, CHANNEL, 0,
                                                                three.ranks[from], &rx),
                             TUTTI_OK);
            assert_int_equal(rx->peer, three.ranks[from]);
            assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
            assert_true(view.bytes == 300 && *(const char *)view.data == 50 + from);
            assert_false(tx->ops->consumed(tx));
            rx->ops->consume(rx, 300);
        }
        assert_true(tx->ops->consumed(tx));
    }
    router_world_close(three.world);
}

/* The first shares it with the second, and that one forwards it to the third. */
static void a_shared_slot_goes_round_within_the_host(void **state)
{
    (void)state;
    const struct three three = open_three();
    struct transport *const owner = three.world->ranks[three.ranks[0]];
    struct link_tx *const first = tx_of(three.world, three.ranks[0], three.ranks[1]),
                          *const second = tx_of(three.world, three.ranks[1], three.ranks[2]);
    struct link_rx *const relay = rx_of(three.world, three.ranks[1], three.ranks[0]),
                          *const last = rx_of(three.world, three.ranks[2], three.ranks[1]);
    struct link_view view;
    assert_int_equal(owner->sharing->open_shared_slots(owner, SLOT), TUTTI_OK);
    void *const place = owner->sharing->reserve_shared(owner, SLOT, 5000);
    assert_non_null(place);
    memset(place, 1, 5000);
    owner->sharing->send_shared(owner, SLOT, &first, 1, 5000);
    assert_ptr_not_equal(owner->sharing->reserve_shared(owner, SLOT, 5000),
                         place); /* it is on its way */
    assert_int_equal(relay->ops->peek(relay, &view), LINK_READY);
    assert_ptr_equal(view.place, place);
    *(char *)view.place = 2;
    relay->ops->forward(relay, &second, 1);
    assert_int_equal(last->ops->peek(last, &view), LINK_READY);
    assert_ptr_equal(view.data, place);
    assert_true(view.bytes == 5000 && *(const char *)view.data == 2);
    last->ops->consume(last, 5000);
    assert_ptr_equal(owner->sharing->reserve_shared(owner, SLOT, 5000), place); /* it has come back */
    router_world_close(three.world);
}

/* Also if a rank is alone on its host, or if its host has fewer ranks than others. */
static void limits_are_the_same_on_all_ranks(void **state)
{
    (void)state;
    struct router_world *world = router_world_open(&mixed, INTERLEAVED, true);
    size_t least_bytes, bytes;
    unsigned least_count, count;
    local_limits(ROUTER_RANKS_MAX, false, &least_bytes, &least_count);
    for (int r = 0; r < world->size; r++) {
        world->ranks[r]->ops->limits(world->ranks[r], &bytes, &count);
        assert_int_equal(bytes, ROUTER_PIECE_BYTES < least_bytes ? ROUTER_PIECE_BYTES : least_bytes);
        assert_int_equal(count, least_count);
    }
    /* Without limits from other ranks, the limits of the own routes hold. */
    struct transport *router;
    struct router_options options = {.rank = 0, .size = world->size, .piece_bytes_max = 4096};
    router_world_routes(world, 0, &options);
    assert_int_equal(router_create(&options, &router), TUTTI_OK);
    router->ops->limits(router, &bytes, &count);
    assert_true(bytes == 4096 && count == least_count);
    router_free(router);
    options.routes[0] = options.routes[1];
    options.route_count = 1;
    options.piece_bytes_max = 0;
    assert_int_equal(router_create(&options, &router), TUTTI_OK);
    router->ops->limits(router, &bytes, &count);
    assert_int_equal(bytes, ROUTER_PIECE_BYTES);
    assert_true(count > least_count);
    router_free(router);
    router_free(NULL);
    router_world_close(world);
}

/* At both ends, each link belongs to the first route that leads to its peer; calls that do not
 * concern one peer go to all routes. */
static void of_three_ways_the_first_that_leads_there_is_taken(void **state)
{
    (void)state;
    struct router_world *world = router_world_open_routes(&mixed, SHUFFLED, true, true);
    int taken[3] = {0, 0, 0};
    for (int r = 0; r < world->size; r++)
        for (int peer = 0; peer < world->size; peer++) {
            if (peer == r) continue;
            struct transport *const routes[] = {world->near[r], world->second[r], world->far[r]};
            const int route = are_near(world, r, peer)              ? 0
                              : world->second_numbers[r][peer] >= 0 ? 1
                                                                    : 2;
            struct link_tx *const tx = tx_of(world, r, peer), *there;
            const int number = route == 0 ? world->numbers[r][peer] : peer;
            assert_int_equal(
                routes[route]->ops->open_tx(routes[route], SLOT, CHANNEL, number, 1, &there),
                TUTTI_OK);
            assert_ptr_equal(tx, there);
            taken[route]++;
        }
    assert_true(taken[0] == 8 && taken[1] >= 4 && taken[0] + taken[1] + taken[2] == 30);
    for (int from = 0; from < world->size; from++)
        for (int to = 0; to < world->size; to++) {
            if (from == to) continue;
            struct link_tx *const tx = tx_of(world, from, to);
            struct link_rx *const rx = rx_of(world, to, from);
            const uint64_t word = (uint64_t)(from * 100 + to);
            struct link_view view;
            memcpy(tx->ops->reserve(tx, sizeof word), &word, sizeof word);
            tx->ops->commit(tx, sizeof word);
            assert_int_equal(await(world, rx, &view), LINK_READY);
            assert_memory_equal(view.data, &word, sizeof word);
            rx->ops->consume(rx, sizeof word);
        }
    for (int r = 0; r < world->size; r++) {
        struct transport *const router = world->ranks[r];
        (void)router->ops->stop(router);
        router->ops->flush(router);
        assert_false(router->ops->is_awaited(router));
        for (int peer = 0; peer < world->size; peer++)
            if (peer != r) assert_true(router->ops->is_settled(router, peer));
    }
    router_world_close(world);
}

/* Each of these has one mistake in the routes of rank 0: to the ranks near, perhaps another one,
 * and to all. */
static void what_cannot_be_created_is_refused(void **state)
{
    (void)state;
    struct router_world *world = router_world_open(&mixed, INTERLEAVED, true);
    struct router_options right = {.rank = 0, .size = world->size};
    router_world_routes(world, 0, &right);
    const int near = peer_of(world, 0, true), far = peer_of(world, 0, false);
    int outside[ROUTER_RANKS_MAX], twice[ROUTER_RANKS_MAX], unreached[ROUTER_RANKS_MAX],
        same[ROUTER_RANKS_MAX], member[ROUTER_RANKS_MAX];
    memcpy(outside, world->numbers[0], sizeof outside);
    memcpy(twice, world->numbers[0], sizeof twice);
    outside[near] = 2;
    twice[far] = twice[near];
    for (int r = 0; r < world->size; r++) {
        unreached[r] = r == far ? -1 : r;
        same[r] = r == far ? near : r == near || r == 0 ? r : -1;
        member[r] = r == near || r == 0 ? r : -1;
    }
    struct router_options wrong[15];
    for (int i = 0; i < 15; i++) wrong[i] = right;
    wrong[0].routes[1].transport = NULL;
    wrong[1].routes[1].transport = world->far[1];
    wrong[2].size++;
    wrong[3].routes[0].numbers = NULL;
    wrong[4].routes[0] =
        (struct router_route){world->near[near], world->numbers[near]}; /* another rank's end */
    wrong[5].routes[0].numbers = world->numbers[far];
    wrong[6].routes[0].numbers = outside;
    wrong[7].routes[0].numbers = twice;
    wrong[8].routes[1].numbers = unreached;
    wrong[9].route_count = 0;
    wrong[10].routes[1] = wrong[10].routes[0]; /* two that share slots */
    wrong[11].routes[1].numbers = same;        /* of that many ranks, but one number twice */
    wrong[12].route_count = ROUTER_ROUTES_MAX + 1;
    wrong[13].routes[0] =
        (struct router_route){world->far[0], member}; /* a member of the group by another route */
    wrong[13].routes[1] = right.routes[0];
    wrong[13].routes[2] = right.routes[1];
    wrong[13].route_count = 3;
    struct transport grouped = *world->far[0];
    grouped.group_count = TRANSPORT_GROUPS_MAX;
    wrong[14].routes[1].transport = &grouped; /* and the group of the near ranks */
    for (int i = 0; i < 15; i++) {
        struct transport *router;
        assert_int_equal(router_create(&wrong[i], &router), TUTTI_INVALID_OPTIONS);
        assert_null(router);
    }
    struct transport *router;
    assert_int_equal(router_create(&right, &router), TUTTI_OK);
    router_free(router);
    router_world_close(world);
}

/* ------------------------------------------------------------------------------------- programs */

/* Its last look before it sleeps is a must_not_spin one. */
static bool run_program(struct rank_thread *own)
{
    if (own->done) return false;
    own->operation->must_not_spin = true;
    const enum run_result result = operation_run(own->operation);
    if (result == RUN_FAULT) own->fault = "a message makes no sense";
    own->done |= result == RUN_DONE;
    return result != RUN_BLOCKED;
}

static void programs_are_right_on_ranks_that_sleep(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        /* A few of the others. */
        if (!algorithm->needs_levels && i % 4 != 0) continue;
        struct router_world *world =
            router_world_open(&mixed, (enum numbering)(i % NUMBERING_COUNT), i % 2 == 0);
        const struct link_world links = {.size = world->size, .ranks = world->ranks};
        struct engine_net *net = engine_net_over(&links, (uint64_t)i);
        if (router_world_supports(algorithm, world)) {
            const struct engine_job job = router_world_job(world, i, 0, i % 2 == 0 ? 1000 : 30011);
            struct engine_rank ranks[ENGINE_RANKS_MAX];
            struct rank_thread threads[ROUTER_RANKS_MAX] = {0};
            for (int r = 0; r < world->size; r++) {
                engine_rank_prepare(&job, net, r, &ranks[r]);
                threads[r].look = run_program;
                threads[r].operation = &ranks[r].operation;
            }
            run_ranks(world, threads);
            for (int r = 0; r < world->size; r++) {
                engine_expect_right(&job, r, &ranks[r]);
                engine_rank_release(&ranks[r]);
            }
        }
        engine_net_free(net);
        router_world_close(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pairs_exchange_and_sleep_until_woken),
        cmocka_unit_test(a_sleeper_is_woken_from_either_side),
        cmocka_unit_test(who_is_alone_on_a_host_sleeps_and_is_woken),
        cmocka_unit_test(a_sleep_ends_at_its_time),
        cmocka_unit_test(without_descriptors_sleeps_are_short),
        cmocka_unit_test(what_either_part_knows_the_router_knows),
        cmocka_unit_test(another_signature_is_a_fault_on_every_way),
        cmocka_unit_test(ranks_of_a_host_are_a_group),
        cmocka_unit_test(links_within_a_host_share_and_refer),
        cmocka_unit_test(no_function_is_missing),
        cmocka_unit_test(one_message_comes_to_all_ranks_of_the_host),
        cmocka_unit_test(a_shared_slot_goes_round_within_the_host),
        cmocka_unit_test(limits_are_the_same_on_all_ranks),
        cmocka_unit_test(of_three_ways_the_first_that_leads_there_is_taken),
        cmocka_unit_test(what_cannot_be_created_is_refused),
        cmocka_unit_test(programs_are_right_on_ranks_that_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
