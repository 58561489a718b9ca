#include "tests/worlds/p2p_world.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "os/clock.h"
#include "tests/worlds/local_world.h"
#include "transport/local/local.h"
#include "transport/paths.h"

/* ------------------------------------------------------------------------------- links of one thread */

uint64_t draw(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

static bool is_moody(struct net *net)
{
    return draw(&net->random) % net->mood.delay != 0;
}

static bool is_full(const struct wire *wire)
{
    return wire->sent - wire->read >= wire->net->mood.pieces;
}

static void *wire_reserve(struct link_tx *link, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    assert_true(bytes <= wire->net->mood.piece_bytes);
    if (wire->reserved == NULL && (is_full(wire) || is_moody(wire->net))) return NULL;
    if (wire->reserved != NULL && wire->reserved_bytes == bytes) return wire->reserved;
    free(wire->reserved);
    wire->reserved = malloc(bytes + (bytes == 0));
    wire->reserved_bytes = bytes;
    assert_non_null(wire->reserved);
    return wire->reserved;
}

static void wire_commit(struct link_tx *link, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    assert_non_null(wire->reserved);
    assert_int_equal(wire->reserved_bytes, bytes);
    wire->messages[wire->sent++ % DEPTH_MAX] =
        (struct message){wire->reserved, wire->reserved, bytes, false};
    wire->reserved = NULL;
}

static enum link_reach wire_reach(struct link_tx *link, const void *address, size_t bytes)
{
    (void)address, (void)bytes;
    return ((struct wire *)link)->net->mood.reach;
}

static bool wire_post(struct link_tx *link, const void *address, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    assert_int_not_equal(wire->net->mood.reach, REACH_NONE);
    if (is_full(wire) || is_moody(wire->net)) return false;
    wire->messages[wire->sent++ % DEPTH_MAX] =
        (struct message){NULL, address, bytes, wire->net->mood.reach == REACH_COPY};
    return true;
}

static bool wire_consumed(struct link_tx *link)
{
    const struct wire *wire = (struct wire *)link;
    return wire->read == wire->sent;
}

/* Not always, so that payloads are also posted. */
static bool wire_refer(struct link_tx *link, const void *address, size_t bytes,
                       struct link_reference *reference)
{
    (void)bytes;
    struct net *net = ((struct wire *)link)->net;
    *reference = (struct link_reference){1, (uint64_t)(uintptr_t)address};
    return net->mood.reach != REACH_NONE && draw(&net->random) % 2 == 0;
}

static struct wire *wire_at(struct link_rx *link)
{
    return (struct wire *)((char *)link - offsetof(struct wire, rx));
}

static enum link_state wire_peek(struct link_rx *link, struct link_view *view)
{
    struct wire *wire = wire_at(link);
    if (wire->read == wire->sent) return LINK_EMPTY;
    if (!wire->seen && is_moody(wire->net)) return LINK_EMPTY;
    wire->seen = true;
    const struct message *message = &wire->messages[wire->read % DEPTH_MAX];
    if (wire->near != NULL)
        *view = (struct link_view){.data = wire->near, .bytes = wire->fetched};
    else
        *view = (struct link_view){.data = message->remote ? NULL : message->data + wire->done,
                                   .bytes = message->bytes - wire->done};
    return LINK_READY;
}

static void wire_consume(struct link_rx *link, size_t bytes)
{
    struct wire *wire = wire_at(link);
    struct message *message = &wire->messages[wire->read % DEPTH_MAX];
    assert_true(wire->seen && bytes <= message->bytes - wire->done);
    if (wire->near != NULL) {
        assert_int_equal(bytes, wire->fetched); /* nobody here takes a part of it */
        free(wire->near);
        wire->near = NULL;
    }
    wire->done += bytes;
    if (wire->done < message->bytes) return;
    free(message->copy); /* who still reads it is found out */
    wire->done = 0;
    wire->seen = false;
    wire->read++;
}

static bool wire_take(struct link_rx *link, void *destination, size_t bytes)
{
    struct wire *wire = wire_at(link);
    const struct message *message = &wire->messages[wire->read % DEPTH_MAX];
    assert_true(message->remote && wire->near == NULL && bytes <= message->bytes - wire->done);
    if (is_moody(wire->net)) return false;
    memcpy(destination, message->data + wire->done, bytes);
    return true;
}

static bool wire_fetch(struct link_rx *link)
{
    struct wire *wire = wire_at(link);
    const size_t left = wire->messages[wire->read % DEPTH_MAX].bytes - wire->done;
    wire->fetched = left < 64 ? left : 64;
    char *const near = malloc(wire->fetched);
    assert_non_null(near);
    if (wire_take(link, near, wire->fetched)) wire->near = near;
    if (wire->near == NULL) free(near);
    return wire->near != NULL;
}

static enum link_state wire_copy(struct link_rx *link, const struct link_reference *reference,
                                 size_t offset, void *destination, size_t bytes)
{
    if (reference->kind != 1) return LINK_FAULT;
    if (is_moody(wire_at(link)->net)) return LINK_EMPTY;
    memcpy(destination, (const char *)(uintptr_t)reference->where + offset, bytes);
    return LINK_READY;
}

static const struct link_tx_ops tx_ops = {.reserve = wire_reserve,
                                          .commit = wire_commit,
                                          .reach = wire_reach,
                                          .post = wire_post,
                                          .consumed = wire_consumed,
                                          .advertised_at = link_no_advertised_at,
                                          .written = link_no_written,
                                          .refer = wire_refer};
static const struct link_rx_ops rx_ops = {.peek = wire_peek,
                                          .take = wire_take,
                                          .fetch = wire_fetch,
                                          .consume = wire_consume,
                                          .forward = link_no_forward,
                                          .advertise = link_no_advertise,
                                          .place_directly = link_no_place_directly,
                                          .copy = wire_copy};

struct wire *wire_of(struct net *net, int writer, int reader, int channel)
{
    struct wire **place = &net->wires[writer][reader][channel];
    if (*place != NULL) return *place;
    struct wire *wire = *place = calloc(1, sizeof *wire);
    assert_non_null(wire);
    wire->tx = (struct link_tx){.ops = &tx_ops, .peer = reader, .capabilities = LINK_REFERS};
    wire->rx = (struct link_rx){.ops = &rx_ops, .peer = writer, .capabilities = LINK_REFERS};
    wire->net = net;
    return wire;
}

static void net_limits(struct transport *transport, size_t *piece_bytes_max,
                       unsigned *piece_count_max)
{
    const struct mood *mood = &((struct endpoint *)transport)->net->mood;
    *piece_bytes_max = mood->piece_bytes;
    *piece_count_max = mood->pieces;
}

static enum tutti_status net_open(struct net *net, int slot, int writer, int reader, int channel,
                                  struct wire **wire)
{
    assert_int_equal(slot, SLOT);
    assert_true(writer != reader && writer >= 0 && reader >= 0 && channel < TRANSPORT_CHANNEL_COUNT);
    if (net->opens_left == 0) return error_set(TUTTI_NO_SPACE, "no more links");
    if (net->opens_left > 0) net->opens_left--;
    *wire = wire_of(net, writer, reader, channel);
    return TUTTI_OK;
}

static enum tutti_status net_open_tx(struct transport *transport, int slot, int channel, int peer,
                                     size_t bytes, struct link_tx **link)
{
    struct wire *wire = NULL;
    struct net *net = ((struct endpoint *)transport)->net;
    assert_true(bytes <= net->mood.piece_bytes);
    TRY(net_open(net, slot, transport->rank, peer, channel, &wire));
    *link = &wire->tx;
    return TUTTI_OK;
}

static enum tutti_status net_open_rx(struct transport *transport, int slot, int channel, int peer,
                                     struct link_rx **link)
{
    struct wire *wire = NULL;
    TRY(net_open(((struct endpoint *)transport)->net, slot, peer, transport->rank, channel, &wire));
    *link = &wire->rx;
    return TUTTI_OK;
}

static void never_sleeps(struct transport *transport)
{
    fail_msg("rank %d sleeps", transport->rank);
}

static void never_sleeps_long(struct transport *transport, uint64_t timeout_ns)
{
    (void)timeout_ns;
    never_sleeps(transport);
}

static const struct transport_ops net_ops = {.limits = net_limits,
                                             .open_tx = net_open_tx,
                                             .open_rx = net_open_rx,
                                             .sleep_begin = never_sleeps,
                                             .sleep_cancel = never_sleeps,
                                             .sleep = never_sleeps_long,
                                             .wake = never_sleeps,
                                             .wake_all = never_sleeps,
                                             .progress = transport_no_progress,
                                             .flush = transport_no_flush,
                                             .is_awaited = transport_not_awaited,
                                             .is_settled = transport_owes_nothing,
                                             .stop = transport_stops_nothing,
                                             .descriptor = transport_no_descriptor,
                                             .corrupt_rank = transport_no_corrupt_rank,
                                             .shortage = transport_no_shortage,
                                             .add_footprint = transport_no_footprint};

struct net *net_create(int size, struct mood mood, uint64_t seed)
{
    struct net *net = calloc(1, sizeof *net);
    assert_non_null(net);
    net->mood = mood;
    net->size = size;
    net->opens_left = -1;
    net->random = seed;
    for (int r = 0; r < size; r++) {
        net->endpoints[r] = (struct endpoint){{.ops = &net_ops,
                                               .sharing = &transport_shares_nothing,
                                               .rank = r,
                                               .size = size,
                                               .paths.tables = {transport_paths("local")}},
                                              net};
        transport_own_slots(&net->endpoints[r].base);
    }
    return net;
}

bool wire_put(struct wire *wire, const void *data, size_t bytes)
{
    void *const place = wire_reserve(&wire->tx, bytes);
    if (place == NULL) return false;
    if (bytes > 0) memcpy(place, data, bytes);
    wire_commit(&wire->tx, bytes);
    return true;
}

bool wire_put_reference(struct wire *wire, const void *data, size_t bytes)
{
    return wire_post(&wire->tx, data, bytes);
}

void net_free(struct net *net)
{
    struct wire **wires = &net->wires[0][0][0];
    for (size_t i = 0; i < sizeof net->wires / sizeof *wires; i++) {
        struct wire *wire = wires[i];
        if (wire == NULL) continue;
        for (; wire->read < wire->sent; wire->read++)
            free(wire->messages[wire->read % DEPTH_MAX].copy);
        free(wire->reserved);
        free(wire->near);
        free(wire);
    }
    free(net);
}

/* ---------------------------------------------------------------------------------- local transports */

static void open_local(int size, struct host_peer peer, bool checks, struct transport **transports)
{
    close(local_world_open(size, peer, NULL, checks, 64, transports));
}

/* -------------------------------------------------------------------------------------------- worlds */

static const struct mood moods[] = {[ROOMY] = {4096, 8, 1, REACH_NONE},
                                    [TIGHT] = {64, 1, 3, REACH_NONE},
                                    [READABLE] = {256, 4, 2, REACH_READ},
                                    [COPYABLE] = {1024, 16, 2, REACH_COPY}};

struct world world_open(enum kind kind, int size, struct p2p_options options, uint64_t seed)
{
    struct world world = {.kind = kind, .size = size, .random = seed ^ 99};
    if (kind < LOCAL_THREADS) {
        world.net = net_create(size, moods[kind], seed);
        for (int r = 0; r < size; r++) world.transports[r] = &world.net->endpoints[r].base;
    } else {
        const struct host_peer peer = {.same_process = kind == LOCAL_THREADS,
                                       .pid = kind == LOCAL_COPIES ? getpid() : 0};
        open_local(size, peer, kind == LOCAL_CHECKED, world.transports);
    }
    for (int r = 0; r < size; r++)
        assert_int_equal(p2p_create(world.transports[r], SLOT, &options, &world.ranks[r]), TUTTI_OK);
    return world;
}

void world_close(struct world *world)
{
    for (int r = 0; r < world->size; r++) p2p_free(world->ranks[r]);
    if (world->net != NULL)
        net_free(world->net);
    else
        for (int r = 0; r < world->size; r++) local_close(world->transports[r]);
}

void settle(struct world *world)
{
    const int still_max = 60 * world->size * (world->net != NULL ? (int)world->net->mood.delay : 1);
    for (int still = 0; still < still_max; still++) {
        const int rank = (int)(draw(&world->random) % (unsigned)world->size);
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

uint64_t test_seed(void)
{
    const char *const wanted = getenv("TUTTI_TEST_SEED");
    const uint64_t seed = wanted != NULL ? strtoull(wanted, NULL, 0) : clock_now_ns();
    printf("TUTTI_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}
