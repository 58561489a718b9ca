#include "tests/worlds/router_world.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/worlds/local_world.h"
#include "tests/worlds/tcp_peer.h"
#include "transport/local/ends.h"
#include "transport/local/local.h"
#include "transport/local/segment.h"
#include "transport/tcp/tcp.h"

enum { BOARD_BYTES = 64, IN_PLACE = 0xffff };

/* The ranks of a host, in order; their count. */
static int ranks_of_host(const struct router_world *world, int host, int *ranks)
{
    int count = 0;
    for (int r = 0; r < world->size; r++)
        if (world->map.host_of[r] == host) ranks[count++] = r;
    return count;
}

static void open_host(struct router_world *world, const int *ranks, int count, bool same_process)
{
    struct transport *near[ROUTER_RANKS_MAX];
    const struct host_peer peer = {.same_process = same_process};
    const int fd = local_world_open(count, peer, ranks, false, BOARD_BYTES, near);
    assert_int_equal(segment_attach(fd, count, BOARD_BYTES, &world->segments[ranks[0]]), TUTTI_OK);
    for (int i = 0; i < count; i++) {
        world->near[ranks[i]] = near[i];
        for (int j = 0; j < count; j++) world->numbers[ranks[i]][ranks[j]] = j;
    }
}

static void create_tcp(const struct router_world *world, struct transport **transports)
{
    for (int r = 0; r < world->size; r++) {
        const struct tcp_options options = {
            .rank = r, .size = world->size, .streams = 1, .piece_bytes = ROUTER_PIECE_BYTES};
        assert_int_equal(tcp_create(&options, &transports[r]), TUTTI_OK);
    }
}

/* The ranks of two hosts, that of rank 0 and another one, have another network between them, with a
 * way of its own. */
static void open_second(struct router_world *world)
{
    int hosts[2] = {world->map.host_of[0], -1};
    for (int r = 0; r < world->size; r++)
        if (world->map.host_of[r] != hosts[0]) hosts[1] = world->map.host_of[r];
    create_tcp(world, world->second);
    for (int r = 0; r < world->size; r++)
        for (int other = 0; other < world->size; other++) {
            const bool joined =
                (world->map.host_of[r] == hosts[0] && world->map.host_of[other] == hosts[1]) ||
                (world->map.host_of[r] == hosts[1] && world->map.host_of[other] == hosts[0]);
            world->second_numbers[r][other] = joined || r == other ? other : -1;
            if (joined && other < r) tcp_peer_join(world->second[other], world->second[r], 0);
        }
}

void router_world_routes(const struct router_world *world, int rank, struct router_options *options)
{
    options->route_count = 0;
    if (world->near[rank] != NULL)
        options->routes[options->route_count++] =
            (struct router_route){world->near[rank], world->numbers[rank]};
    if (world->second[rank] != NULL)
        options->routes[options->route_count++] =
            (struct router_route){world->second[rank], world->second_numbers[rank]};
    options->routes[options->route_count++] = (struct router_route){world->far[rank], NULL};
}

static struct transport *create_router(const struct router_world *world, int rank)
{
    size_t piece_bytes_max; /* as on the host that has the most ranks */
    unsigned piece_count_max;
    struct transport *router;
    local_limits(ROUTER_RANKS_MAX, false, &piece_bytes_max, &piece_count_max);
    struct router_options options = {.rank = rank,
                                     .size = world->size,
                                     .piece_bytes_max = piece_bytes_max,
                                     .piece_count_max = piece_count_max};
    router_world_routes(world, rank, &options);
    assert_int_equal(router_create(&options, &router), TUTTI_OK);
    for (int s = 0; s < TRANSPORT_SLOT_COUNT; s++) router->signatures[s] = ROUTER_SIGNATURE;
    return router;
}

struct router_world *router_world_open_routes(const struct host_shape *shape,
                                              enum numbering numbering, bool same_process,
                                              bool has_second)
{
    struct router_world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    host_map_init(&world->map, shape, numbering, 1);
    world->size = world->map.rank_count;
    assert_true(world->size <= ROUTER_RANKS_MAX);
    for (int r = 0; r < world->size; r++)
        for (int other = 0; other < world->size; other++) world->numbers[r][other] = -1;
    create_tcp(world, world->far);
    if (has_second) open_second(world);
    for (int r = 0; r < world->size; r++) {
        int ranks[ROUTER_RANKS_MAX];
        const int count = ranks_of_host(world, world->map.host_of[r], ranks);
        if (ranks[0] == r && count > 1) open_host(world, ranks, count, same_process);
        for (int other = 0; other < r; other++)
            if (world->map.host_of[other] != world->map.host_of[r])
                tcp_peer_join(world->far[other], world->far[r], 0);
    }
    for (int r = 0; r < world->size; r++) world->ranks[r] = create_router(world, r);
    return world;
}

struct router_world *router_world_open(const struct host_shape *shape, enum numbering numbering,
                                       bool same_process)
{
    return router_world_open_routes(shape, numbering, same_process, false);
}

static void move_all(void *context)
{
    struct router_world *const world = context;
    for (int r = 0; r < world->size; r++) world->ranks[r]->ops->progress(world->ranks[r]);
}

struct link_world router_world_links(struct router_world *world, uint64_t seed)
{
    world->random = seed;
    return (struct link_world){.size = world->size,
                               .ranks = world->ranks,
                               .step = move_all,
                               .world = world,
                               .random = &world->random,
                               .seed = seed};
}

void router_world_close(struct router_world *world)
{
    for (int r = 0; r < world->size; r++) router_free(world->ranks[r]);
    for (int r = 0; r < world->size; r++) local_close(world->near[r]);
    for (int r = 0; r < world->size; r++) segment_detach(world->segments[r]);
    for (int r = 0; r < world->size; r++) tcp_close(world->second[r]);
    for (int r = 0; r < world->size; r++) tcp_close(world->far[r]);
    free(world);
}

/* Of one link between ranks of a segment, or of a multicast link (from == to). */
static unsigned shared_on(struct segment *segment, int channel, int from, int to)
{
    struct message_header *headers;
    char *data;
    unsigned in_shared_slots = 0;
    assert_int_equal(segment_link(segment, from, 0, channel, to, &headers, &data), TUTTI_OK);
    for (int h = 0; h < HEADER_COUNT; h++)
        in_shared_slots += headers[h].kind_and_bytes >> MESSAGE_KIND_SHIFT == MESSAGE_SHARED;
    return in_shared_slots;
}

static void add_shared(struct segment *segment, int channel, struct router_shared *sum)
{
    for (int from = 0; from < segment->rank_count; from++)
        for (int to = 0; to < segment->rank_count; to++) {
            struct tail *tail;
            assert_int_equal(segment_tail(segment, to, 0, channel, from, true, &tail), TUTTI_OK);
            sum->multicast += tail->consumed;
            sum->in_shared_slots += shared_on(segment, channel, from, to);
        }
}

struct router_shared router_world_shared(const struct router_world *world)
{
    struct router_shared sum = {0, 0};
    for (int r = 0; r < world->size; r++)
        for (int channel = 0; channel < TRANSPORT_CHANNEL_COUNT; channel++)
            if (world->segments[r] != NULL) add_shared(world->segments[r], channel, &sum);
    return sum;
}

bool router_world_supports(const struct algorithm *algorithm, const struct router_world *world)
{
    return algorithm->needs_levels ? algo_supports_levels(algorithm, world->size)
                                   : algo_supports(algorithm, world->size);
}

struct engine_job router_world_job(const struct router_world *world, int algorithm, int turn,
                                   size_t count)
{
    const bool is_rooted = collective_is_rooted(algo_list[algorithm].collective);
    return (struct engine_job){.algorithm = &algo_list[algorithm],
                               .levels = &world->map.levels,
                               .size = world->size,
                               .root = is_rooted ? (algorithm + turn) % world->size : 0,
                               .count = count,
                               .in_place = (algorithm + turn) % 2 == 1 ? IN_PLACE : 0,
                               .is_cut = (algorithm + turn) % 3 == 2};
}
