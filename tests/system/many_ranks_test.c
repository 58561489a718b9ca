/* What a rank of a communicator over many hosts keeps for it, as a table, and that it stays within
 * a bound.
 *
 * 1,024 and 65,536 ranks are too many to run here. So the structures of one rank are built as they
 * are for that many ranks, but for links within the host and for a launcher; then it asks some
 * ranks of other hosts and hears their answers. Programs and links are not counted: they depend on
 * the calls that are made.
 *
 * Bytes are what malloc holds. Sanitizers have another malloc, which does not tell.
 *
 * ctest: label=nosan
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/held.h"
#include "call/communicator.h"
#include "call/handle.h"
#include "connect/port.h"
#include "health/control_message.h"
#include "health/control_ring.h"
#include "health/health_init.h"
#include "health/known.h"
#include "health/network.h"
#include "health/remote_rank.h"
#include "transport/router/router.h"
#include "transport/tcp/frame.h"

enum {
    HOST_RANKS = 8,
    PEERS = 16, /* that a rank asks: more than a ring has, or a tree of any of these sizes */
    /* The bound. Whatever the ranks are: the communicator, what it has recorded, the room for a
     * frame that nobody reads, and 8 KiB for structs of one a communicator (endpoint, network,
     * router). */
    FIXED_BYTES = sizeof(struct tutti_comm) + (RECORDER_ENTRIES + 1) * sizeof(struct record_entry) +
                  TCP_FRAME_BYTES_MAX + (8 << 10),
    /* For each rank: its host and local number (8), its place in the order and its group (8), how
     * long it was waited for (8), and how long the machine had delayed it and this one (8), flags
     * (4), the way to it (1), and a pointer to a page in each of three maps (0.4): 37.4. */
    RANK_BYTES = 38,
    /* For each host: its first rank, how many it has, how many share its cores, how many these are,
     * when to ask it to connect. */
    HOST_BYTES = 24,
    /* For each peer that was talked to: two connections (15 KB), control messages for it (13 KB),
     * and what it said of one slot (1.4 KB); pages of the maps. */
    PEER_BYTES = 34 << 10,
    /* Of shared memory, for each rank of all hosts: its line in the table, and when somebody spoke
     * of it; and for each of this host: its lines on the board, the calls that they show, and its
     * control ring. */
    SHARED_RANK_BYTES = sizeof(struct discovery_entry) + sizeof(struct board_said),
    SHARED_LOCAL_BYTES = sizeof(struct board_rank) + sizeof(struct control_ring) +
                         TRANSPORT_SLOT_COUNT * BOARD_CALLS * sizeof(struct board_call),
    SHARED_FIXED_BYTES = 1 << 10
};
static const size_t RANK_BYTES_MAX_65536 = 4 << 20;

static void near_limits(struct transport *transport, size_t *piece_bytes_max,
                        unsigned *piece_count_max)
{
    (void)transport;
    *piece_bytes_max = 1 << 16;
    *piece_count_max = 4;
}

static int near_descriptor(struct transport *transport)
{
    (void)transport;
    return -1;
}

/* Links within the host, of which none is opened. */
static const struct transport_ops near_ops = {
    .limits = near_limits, .descriptor = near_descriptor, .add_footprint = transport_no_footprint};

struct world {
    struct tutti_comm *comm;
    struct transport near;
    void *shared; /* of its host */
    size_t shared_bytes;
    int size;
    size_t last; /* bytes that malloc held at the last look */
    size_t sum;  /* of what came since then, look by look */
};

static size_t bound_of(int size, int peers)
{
    return FIXED_BYTES + (size_t)size * RANK_BYTES + (size_t)(size / HOST_RANKS) * HOST_BYTES +
           (size_t)peers * PEER_BYTES;
}

static size_t shared_bound_of(int size)
{
    return SHARED_FIXED_BYTES + (size_t)size * SHARED_RANK_BYTES + HOST_RANKS * SHARED_LOCAL_BYTES;
}

static size_t malloc_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void show(struct world *world, const char *what)
{
    const size_t bytes = malloc_bytes() - world->last;
    world->sum += bytes;
    print_message("    %-44s %10zu %8.1f a rank\n", what, bytes, (double)bytes / world->size);
    world->last = malloc_bytes();
}

static struct discovery_entry *make_entries(int size)
{
    struct discovery_entry *entries = calloc((size_t)size, sizeof *entries);
    struct net_address port;
    assert_non_null(entries);
    assert_int_equal(port_open(NULL, &port), TUTTI_OK);
    for (int r = 0; r < size; r++) {
        entries[r] = (struct discovery_entry){.host = 1 + (uint64_t)(r / HOST_RANKS),
                                              .address = port,
                                              .pid = 1000 + r,
                                              .core_count = HOST_RANKS};
        snprintf(entries[r].host_name, sizeof entries[r].host_name, "host%d", r / HOST_RANKS);
    }
    return entries;
}

static void open_router(struct world *world)
{
    struct transport_set *const set = &world->comm->team.transports.set;
    const struct router_options options = {
        .size = world->size,
        .routes = {{&world->near, world->comm->team.members.hosts->local_numbers}, {set->tcp, NULL}},
        .route_count = 2};
    assert_int_equal(router_create(&options, &set->router), TUTTI_OK);
    set->all = set->router;
}

/* The first rank of the first host, in the order in which comm/join.c does it. */
static void open_world(struct world *world, int size)
{
    const struct topo no_topology = {0};
    struct discovery_entry *const entries = make_entries(size);
    *world = (struct world){
        .size = size,
        .near = {.ops = &near_ops, .sharing = &transport_shares_nothing, .size = HOST_RANKS},
        .last = malloc_bytes()};
    struct tutti_comm *const comm = world->comm = aligned_alloc(64, (sizeof *comm + 63) / 64 * 64);
    assert_non_null(comm);
    memset(comm, 0, sizeof *comm);
    struct team *const team = &comm->team;
    team->size = size;
    assert_int_equal(health_init(&comm->health, team), TUTTI_OK);
    show(world, "communicator, recorders, waits for each rank");

    assert_int_equal(team_hosts_create(entries, 0, size, &team->members.hosts), TUTTI_OK);
    show(world, "hosts, with a table of all ranks");
    team->members.levels = calloc(1, sizeof *team->members.levels);
    assert_int_equal(host_levels_init(team->members.levels, size, team->members.hosts->host_of,
                                      NULL, &no_topology),
                     TUTTI_OK);
    show(world, "order and groups");

    world->shared_bytes = (health_shared_bytes(team) + 63) / 64 * 64;
    assert_true(world->shared_bytes <= shared_bound_of(size));
    world->shared = aligned_alloc(64, world->shared_bytes);
    assert_non_null(world->shared);
    memset(world->shared, 0, world->shared_bytes);
    team->transports.set.host = &world->near;
    team->transports.over_tcp = true; /* it makes no router, see open_router */
    health_use_host(&comm->health, world->shared, &world->near);
    health_write_table(&comm->health);
    world->last = malloc_bytes();
    assert_int_equal(network_create(&comm->health, NULL), TUTTI_OK);
    show(world, "network: flags, maps, endpoint");
    open_router(world);
    show(world, "router: the way to each rank");
    health_share_table(&comm->health);
    const size_t given_back = world->last - malloc_bytes();
    print_message("    %-44s %10zu\n", "- the table, which now lies in shared memory", given_back);
    assert_true(given_back > (size_t)size * sizeof *entries);
    world->sum -= given_back;
    assert_int_equal(handle_add(comm), TUTTI_OK);
    free(entries);
    world->last = malloc_bytes();
}

static void close_world(struct world *world)
{
    struct tutti_comm *const comm = world->comm;
    handle_remove(comm);
    comm->team.transports.set.host = NULL;
    transports_close(&comm->team.transports.set, false);
    health_release(&comm->health);
    team_hosts_free(comm->team.members.hosts);
    host_levels_release(comm->team.members.levels);
    free(comm->team.members.levels);
    free(comm);
    free(world->shared);
    port_close();
}

/* Peers at distances 1, 2, 4, ... of hosts, and then those behind them. */
static int peer_of(const struct world *world, int i)
{
    const int hosts = world->size / HOST_RANKS;
    int distance = 1;
    for (; i > 0 && 2 * distance < hosts; i--) distance *= 2;
    return HOST_RANKS * distance + i;
}

/* Asks each for its call, and hears that it is in another one. */
static void ask_peers(struct world *world)
{
    struct health *const health = &world->comm->health;
    struct control_message answer = {.kind = CONTROL_CALL, .slot = 0, .begun = 7};
    answer.u.call = (struct call_message){.latest = 7, .is_described = 1, .sequence = 9};
    for (int i = 0; i < PEERS; i++) {
        const int peer = peer_of(world, i);
        assert_false(known_call(health, peer, 0, 7));
        assert_int_equal(board_begun(known_calls(health, peer, 0)), 0);
        remote_ask(health, peer, 0, 7);
        remote_hear(health->network, peer, &answer, sizeof answer);
        assert_true(known_call(health, peer, 0, 7));
        assert_int_equal(board_begun(known_calls(health, peer, 0)), 7);
        assert_int_equal(known_standing(health, peer).sequence, 9);
    }
}

static struct tutti_footprint footprint_of(const struct tutti_comm *comm)
{
    struct tutti_footprint footprint = {.size_bytes = sizeof footprint};
    assert_int_equal(tutti_comm_footprint(comm, &footprint), TUTTI_OK);
    return footprint;
}

/* Returns what a rank holds after it has asked its peers. */
static size_t build(int size)
{
    struct world world;
    print_message("%d ranks on %d hosts:\n", size, size / HOST_RANKS);
    open_world(&world, size);
    const size_t fresh = footprint_of(world.comm).private_bytes;
    assert_true(fresh <= bound_of(size, 0));
    ask_peers(&world);
    show(&world, "16 peers: connections, and what they said");
    const size_t used = footprint_of(world.comm).private_bytes;
    print_message("    %-44s %10zu %8.1f a rank\n"
                  "    %-44s %10zu %8.1f a rank\n",
                  "private, of a rank", used, (double)used / size, "shared, of a host",
                  world.shared_bytes, (double)world.shared_bytes / size);
    assert_true(used <= bound_of(size, PEERS));
    /* Counted is what malloc holds, but for its own 8 or 16 bytes a piece. */
    assert_in_range(used, world.sum - world.sum / 50, world.sum);
    close_world(&world);
    return used;
}

static void a_rank_of_1024_on_128_hosts_stays_small(void **state)
{
    (void)state;
    assert_true(build(1024) < 1 << 20);
}

static void a_rank_of_65536_stays_below_4_mib(void **state)
{
    (void)state;
    assert_true(build(65536) <= RANK_BYTES_MAX_65536);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_of_1024_on_128_hosts_stays_small),
        cmocka_unit_test(a_rank_of_65536_stays_below_4_mib),
    };
    setenv("TUTTI_LOG", "off", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
