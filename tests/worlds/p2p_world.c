#include "tests/worlds/p2p_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/chance.h"
#include "tests/worlds/local_world.h"
#include "transport/local/local.h"

enum { BOARD_BYTES = 64 };

static const struct engine_mood moods[] = {
    [ROOMY] = {.for_messages = true, .piece_bytes = 4096, .pieces = 8, .delay = 1},
    [TIGHT] = {.for_messages = true, .piece_bytes = 64, .pieces = 1, .delay = 3},
    [READABLE] =
        {.for_messages = true, .piece_bytes = 256, .pieces = 4, .delay = 2, .reach = REACH_READ},
    [COPYABLE] = {.for_messages = true,
                  .piece_bytes = 1024,
                  .pieces = 16,
                  .delay = 2,
                  .reach = REACH_COPY,
                  .fetch_bytes = 64}};

struct world world_open(enum kind kind, int size, struct p2p_options options, uint64_t seed)
{
    struct world world = {.kind = kind, .size = size, .random = seed ^ 99};
    if (kind < LOCAL_THREADS) {
        world.net = engine_net_create(size, moods[kind], seed);
        for (int r = 0; r < size; r++) world.transports[r] = engine_net_transport(world.net, r);
    } else {
        const struct host_peer peer = {.same_process = kind == LOCAL_THREADS,
                                       .pid = kind == LOCAL_COPIES ? getpid() : 0};
        close(local_world_open(size, peer, NULL, kind == LOCAL_CHECKED, BOARD_BYTES,
                               world.transports));
    }
    for (int r = 0; r < size; r++)
        assert_int_equal(p2p_create(world.transports[r], SLOT, &options, &world.ranks[r]), TUTTI_OK);
    return world;
}

void world_close(struct world *world)
{
    for (int r = 0; r < world->size; r++) p2p_free(world->ranks[r]);
    if (world->net != NULL)
        engine_net_free(world->net);
    else
        for (int r = 0; r < world->size; r++) local_close(world->transports[r]);
}

struct link_tx *world_link(struct world *world, int writer, int reader, int channel)
{
    struct transport *const transport = world->transports[writer];
    struct link_tx *link;
    assert_int_equal(transport->ops->open_tx(transport, SLOT, channel, reader, 0, &link), TUTTI_OK);
    return link;
}

void settle(struct world *world)
{
    const int still_max =
        60 * world->size * (world->net != NULL ? (int)moods[world->kind].delay : 1);
    for (int still = 0; still < still_max; still++) {
        const int rank = (int)(chance_next(&world->random) % (unsigned)world->size);
        if (p2p_progress(world->ranks[rank])) still = 0;
        assert_int_equal(p2p_fault(world->ranks[rank]), -1);
        assert_int_equal(p2p_status(world->ranks[rank]), TUTTI_OK);
    }
}

struct p2p_request send_request(const void *buffer, size_t bytes, int peer, int tag)
{
    return (struct p2p_request){.is_send = true,
                                .buffer = (void *)(uintptr_t)buffer,
                                .bytes = bytes,
                                .dtype = TUTTI_UINT8,
                                .peer = peer,
                                .tag = tag};
}

struct p2p_request recv_request(void *buffer, size_t bytes, int peer, int tag)
{
    return (struct p2p_request){
        .buffer = buffer, .bytes = bytes, .dtype = TUTTI_UINT8, .peer = peer, .tag = tag};
}

void start(struct world *world, int rank, struct p2p_request *request)
{
    request->done = true;
    request->next = request;
    request->id = request->moved_bytes = 7;
    request->state = -1;
    assert_int_equal(p2p_start(world->ranks[rank], request), TUTTI_OK);
}
