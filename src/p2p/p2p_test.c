/* Messages between ranks of one thread, moved in any order: over links that are slow, short of room and moody, over
 * links on which anything may lie, and over the local transport. TUTTI_TEST_SEED repeats a run. */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "memory/heap.h"
#include "os/clock.h"
#include "p2p/envelope.h"
#include "p2p/p2p.h"
#include "transport/local/local.h"

enum { RANKS_MAX = 5, DEPTH_MAX = 16, SLOT = TRANSPORT_SLOT_MESSAGES };

static uint64_t seed;

/* ------------------------------------------------------------------------------- links of one thread */

struct mood {
    size_t piece_bytes;
    unsigned pieces; /* under way on a link */
    unsigned delay;  /* of so many looks one finds something new; 1: each */
    enum link_reach reach;
};

struct message {
    char *copy; /* of what was committed, in memory that a sanitizer can watch; NULL: posted */
    const char *data;
    size_t bytes;
    bool remote; /* has to be taken or fetched */
};

struct wire {
    struct link_tx tx;
    struct link_rx rx;
    struct net *net;
    struct message messages[DEPTH_MAX];
    uint64_t sent, read;
    size_t done, fetched; /* of the message that is read */
    char *near;           /* what was fetched */
    bool seen;
    void *reserved;
    size_t reserved_bytes;
};

struct net {
    struct mood mood;
    int size;
    int opens_left; /* before there is no room for more links; -1: always */
    uint64_t random;
    struct wire *wires[RANKS_MAX][RANKS_MAX][TRANSPORT_CHANNEL_COUNT]; /* writer, reader */
    struct endpoint {
        struct transport base;
        struct net *net;
    } endpoints[RANKS_MAX];
};

static uint64_t draw(uint64_t *random)
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
        *view = (struct link_view){wire->near, wire->fetched};
    else
        *view = (struct link_view){message->remote ? NULL : message->data + wire->done,
                                   message->bytes - wire->done};
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

static const struct link_tx_ops tx_ops = {wire_reserve, wire_commit, wire_reach, wire_post,
                                          wire_consumed};
static const struct link_rx_ops rx_ops = {wire_peek, wire_take, wire_fetch, wire_consume};

static struct wire *wire_of(struct net *net, int writer, int reader, int channel)
{
    struct wire **place = &net->wires[writer][reader][channel];
    if (*place != NULL) return *place;
    struct wire *wire = *place = calloc(1, sizeof *wire);
    assert_non_null(wire);
    wire->tx = (struct link_tx){&tx_ops, reader};
    wire->rx = (struct link_rx){&rx_ops, writer};
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
                                     bool from_all, struct link_rx **link)
{
    struct wire *wire = NULL;
    assert_false(from_all);
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

static const struct transport_ops net_ops = {net_limits,   net_open_tx,  net_open_rx,
                                             never_sleeps, never_sleeps, never_sleeps_long,
                                             never_sleeps, never_sleeps};

static struct net *net_create(int size, struct mood mood)
{
    struct net *net = calloc(1, sizeof *net);
    assert_non_null(net);
    net->mood = mood;
    net->size = size;
    net->opens_left = -1;
    net->random = seed;
    for (int r = 0; r < size; r++)
        net->endpoints[r] = (struct endpoint){{.ops = &net_ops, .rank = r, .size = size}, net};
    return net;
}

static void net_free(struct net *net)
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

struct joiner {
    struct local_options options;
    struct transport *transport;
    enum tutti_status status;
};

static void *join(void *argument)
{
    struct joiner *joiner = argument;
    joiner->status = local_open(&joiner->options, &joiner->transport);
    return NULL;
}

static void open_local(int size, struct local_peer peer, struct transport **transports)
{
    struct local_peer peers[RANKS_MAX];
    struct joiner joiners[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    int fd;
    assert_int_equal(local_segment_create(size, 64, &fd), TUTTI_OK);
    for (int r = 0; r < size; r++) peers[r] = peer;
    for (int r = 0; r < size; r++) {
        joiners[r].options = (struct local_options){.rank = r,
                                                    .size = size,
                                                    .segment_fd = dup(fd),
                                                    .board_bytes = 64,
                                                    .peers = peers,
                                                    .deadline_ns = clock_now_ns() + 10000000000u};
        assert_int_equal(pthread_create(&threads[r], NULL, join, &joiners[r]), 0);
    }
    for (int r = 0; r < size; r++) {
        pthread_join(threads[r], NULL);
        assert_int_equal(joiners[r].status, TUTTI_OK);
        transports[r] = joiners[r].transport;
    }
    close(fd);
}

/* -------------------------------------------------------------------------------------------- worlds */

enum kind {
    ROOMY,
    TIGHT,
    READABLE,
    COPYABLE,
    LOCAL_THREADS,
    LOCAL_SLOTS,
    LOCAL_COPIES,
    KIND_COUNT
};

static const struct mood moods[] = {[ROOMY] = {4096, 8, 1, REACH_NONE},
                                    [TIGHT] = {64, 1, 3, REACH_NONE},
                                    [READABLE] = {256, 4, 2, REACH_READ},
                                    [COPYABLE] = {1024, 16, 2, REACH_COPY}};

struct world {
    enum kind kind;
    int size;
    uint64_t random;
    struct net *net; /* or NULL: local */
    struct transport *transports[RANKS_MAX];
    struct p2p *ranks[RANKS_MAX];
};

static const struct p2p_options usual = {1000, 1 << 20, 1000, NULL};

static struct world world_open(enum kind kind, int size, struct p2p_options options)
{
    struct world world = {.kind = kind, .size = size, .random = seed ^ 99};
    if (kind < LOCAL_THREADS) {
        world.net = net_create(size, moods[kind]);
        for (int r = 0; r < size; r++) world.transports[r] = &world.net->endpoints[r].base;
    } else {
        const struct local_peer peer = {.same_process = kind == LOCAL_THREADS,
                                        .pid = kind == LOCAL_COPIES ? getpid() : 0};
        open_local(size, peer, world.transports);
    }
    for (int r = 0; r < size; r++)
        assert_int_equal(p2p_create(world.transports[r], SLOT, &options, &world.ranks[r]), TUTTI_OK);
    return world;
}

static void world_close(struct world *world)
{
    for (int r = 0; r < world->size; r++) p2p_free(world->ranks[r]);
    if (world->net != NULL)
        net_free(world->net);
    else
        for (int r = 0; r < world->size; r++) local_close(world->transports[r]);
}

/* Ranks move in any order, until nothing does. */
static void settle(struct world *world)
{
    const int still_max = 60 * world->size * (world->net != NULL ? (int)world->net->mood.delay : 1);
    for (int still = 0; still < still_max; still++) {
        const int rank = (int)(draw(&world->random) % (unsigned)world->size);
        if (p2p_progress(world->ranks[rank])) still = 0;
        assert_int_equal(p2p_fault(world->ranks[rank]), -1);
        assert_int_equal(p2p_status(world->ranks[rank]), TUTTI_OK);
    }
}

static struct p2p_request send_request(const void *buffer, size_t bytes, int peer, int tag)
{
    return (struct p2p_request){.is_send = true,
                                .buffer = (void *)(uintptr_t)buffer,
                                .bytes = bytes,
                                .dtype = TUTTI_UINT8,
                                .peer = peer,
                                .tag = tag};
}

static struct p2p_request recv_request(void *buffer, size_t bytes, int peer, int tag)
{
    return (struct p2p_request){
        .buffer = buffer, .bytes = bytes, .dtype = TUTTI_UINT8, .peer = peer, .tag = tag};
}

/* Only what is wanted is set: the rest of the request is whatever it is. */
static void start(struct world *world, int rank, struct p2p_request *request)
{
    request->done = true;
    request->next = request;
    request->id = request->moved_bytes = 7;
    request->state = -1;
    assert_int_equal(p2p_start(world->ranks[rank], request), TUTTI_OK);
}

static void expect_message(const struct p2p_request *request, int source, int tag, size_t bytes)
{
    assert_true(request->done);
    assert_int_equal(request->status, TUTTI_OK);
    assert_int_equal(request->source, source);
    assert_int_equal(request->message_tag, tag);
    assert_int_equal(request->received_bytes, bytes);
    assert_int_equal(request->sent_bytes, bytes);
}

static void fill(char *memory, size_t bytes, int start)
{
    for (size_t i = 0; i < bytes; i++) memory[i] = (char)((size_t)start + i * 7 + i / 256);
}

static void expect_filled(const char *memory, size_t bytes, int start)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != (char)((size_t)start + i * 7 + i / 256))
            fail_msg("byte %zu of %zu is wrong", i, bytes);
}

static int count_done(const struct p2p_request *requests, int count)
{
    int done = 0;
    for (int i = 0; i < count; i++) done += requests[i].done;
    return done;
}

static void expect_idle(const struct world *world)
{
    for (int r = 0; r < world->size; r++) assert_false(p2p_is_busy(world->ranks[r]));
}

/* ---------------------------------------------------------------------------------------- one message */

/* Every size around every threshold, received before and after it was sent, from a rank and from any. */
static void messages_of_every_size_arrive(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,    1,    8,    24,   25,    48,    49,     999,
                                   1000, 1001, 4095, 8192, 65537, 70000, 300000, 2000000};
    static char from[2000000], to[2000000];
    fill(from, sizeof from, 3);
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        struct world world = world_open(kind, 2, usual);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (int way = 0; way < 8; way++) {
                const bool early = way & 1, any = way & 2, own = way & 4;
                const int receiver = own ? 0 : 1;
                struct p2p_request recv =
                    recv_request(to, sizes[i], any ? TUTTI_ANY_RANK : 0, any ? TUTTI_ANY_TAG : 4);
                struct p2p_request send = send_request(from, sizes[i], receiver, 4);
                if (kind == TIGHT && sizes[i] > 100000) continue;
                memset(to, 0, sizes[i]);
                if (early) start(&world, receiver, &recv);
                start(&world, 0, &send);
                if (!early) {
                    settle(&world);
                    assert_int_equal(send.done, sizes[i] <= usual.eager_bytes_max);
                    start(&world, receiver, &recv);
                }
                settle(&world);
                assert_true(send.done && send.status == TUTTI_OK);
                expect_message(&recv, 0, 4, sizes[i]);
                expect_filled(to, sizes[i], 3);
                expect_idle(&world);
            }
        }
        world_close(&world);
    }
}

static void a_small_message_is_one_message_of_the_link(void **state)
{
    (void)state;
    char from[24], to[24];
    struct world world = world_open(ROOMY, 2, usual);
    fill(from, sizeof from, 1);
    struct p2p_request send = send_request(from, sizeof from, 1, 0);
    start(&world, 0, &send);
    assert_true(send.done); /* and it has left at once */
    const struct wire *wire = wire_of(world.net, 0, 1, P2P_CHANNEL_MESSAGES);
    assert_int_equal(wire->sent, 1);
    assert_int_equal(wire->messages[0].bytes, 40);
    struct p2p_request recv = recv_request(to, sizeof to, 0, 0);
    start(&world, 1, &recv);
    assert_true(p2p_progress(world.ranks[1]));
    expect_message(&recv, 0, 0, sizeof to);
    assert_false(p2p_progress(world.ranks[1]));
    world_close(&world);
}

/* What is too long or of another dtype is lost, whatever way it came: nothing is written, its sender is let go,
 * and the next message is not harmed. */
static void what_does_not_fit_is_truncated(void **state)
{
    (void)state;
    enum { LONG = 40000 };
    static char from[LONG], to[LONG], next[8];
    static const size_t sizes[] = {8, 900, LONG};
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        struct world world = world_open(kind, 2, usual);
        for (int way = 0; way < 24; way++) {
            const bool early = way & 1, own = way & 2, short_room = way & 4;
            const size_t bytes = sizes[way / 8];
            const int receiver = own ? 0 : 1;
            struct p2p_request send = send_request(from, bytes, receiver, 1);
            struct p2p_request recv = recv_request(to, short_room ? bytes - 1 : bytes, 0, 1);
            if (!short_room) recv.dtype = TUTTI_INT8;
            struct p2p_request send_next = send_request("1234567", 8, receiver, 1);
            struct p2p_request recv_next = recv_request(next, 8, 0, 1);
            memset(to, 77, sizeof to);
            memset(from, 1, sizeof from);
            if (early) start(&world, receiver, &recv);
            start(&world, 0, &send);
            start(&world, 0, &send_next);
            settle(&world);
            if (!early) start(&world, receiver, &recv);
            start(&world, receiver, &recv_next);
            settle(&world);
            assert_true(send.done && send.status == TUTTI_OK);
            assert_true(recv.done && recv.status == TUTTI_TRUNCATED);
            assert_int_equal(recv.source, 0);
            assert_int_equal(recv.message_tag, 1);
            assert_int_equal(recv.sent_bytes, bytes);
            assert_int_equal(recv.sent_dtype, TUTTI_UINT8);
            assert_int_equal(recv.received_bytes, 0);
            for (size_t i = 0; i < sizeof to; i++) assert_int_equal(to[i], 77);
            expect_message(&recv_next, 0, 1, 8);
            assert_string_equal(next, "1234567");
            expect_idle(&world);
        }
        world_close(&world);
    }
}

static void many_receives_are_matched_in_order(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    static struct p2p_request sends[COUNT], recvs[COUNT];
    static int from[COUNT], to[COUNT];
    struct world world = world_open(LOCAL_SLOTS, 2, usual);
    for (int i = 0; i < COUNT; i++) {
        recvs[i] = recv_request(&to[i], sizeof(int), i % 3 == 0 ? TUTTI_ANY_RANK : 0, i / 2);
        start(&world, 1, &recvs[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        from[i] = i;
        sends[i] = send_request(&from[i], sizeof(int), 1, i / 2);
        start(&world, 0, &sends[i]);
    }
    settle(&world);
    for (int i = 0; i < COUNT; i++) {
        expect_message(&recvs[i], 0, i / 2, sizeof(int));
        assert_int_equal(to[i], i);
    }
    expect_idle(&world);
    world_close(&world);
}

/* -------------------------------------------------------------------------------------- what waits where */

/* Everybody sends before anybody receives, to a rank that it does not receive from. */
static void a_ring_may_send_first(void **state)
{
    (void)state;
    enum { COUNT = 50, SIZE = 4 };
    static struct p2p_request sends[SIZE][COUNT], recvs[SIZE][COUNT];
    static int from[SIZE][COUNT], to[SIZE][COUNT];
    for (enum kind kind = 0; kind < LOCAL_COPIES; kind++) {
        struct world world = world_open(kind, SIZE, usual);
        for (int i = 0; i < COUNT; i++)
            for (int r = 0; r < SIZE; r++) {
                from[r][i] = r * COUNT + i;
                sends[r][i] = send_request(&from[r][i], sizeof(int), (r + 1) % SIZE, 0);
                start(&world, r, &sends[r][i]);
            }
        settle(&world);
        for (int r = 0; r < SIZE; r++)
            for (int i = 0; i < COUNT; i++) assert_true(sends[r][i].done);
        for (int r = 0; r < SIZE; r++)
            for (int i = 0; i < COUNT; i++) {
                recvs[r][i] = recv_request(&to[r][i], sizeof(int), (r + SIZE - 1) % SIZE, 0);
                start(&world, r, &recvs[r][i]);
                expect_message(&recvs[r][i], (r + SIZE - 1) % SIZE, 0, sizeof(int));
                assert_int_equal(to[r][i], (r + SIZE - 1) % SIZE * COUNT + i);
            }
        expect_idle(&world);
        world_close(&world);
    }
}

static void a_rank_that_listens_takes_what_comes_before_it_starts_anything(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    static struct p2p_request sends[COUNT];
    struct world world = world_open(ROOMY, 2, usual);
    for (int i = 0; i < COUNT; i++) {
        sends[i] = send_request("x", 1, 1, i);
        start(&world, 0, &sends[i]);
    }
    settle(&world);
    assert_true(p2p_is_busy(world.ranks[0]));
    assert_int_equal(p2p_listen(world.ranks[1]), TUTTI_OK);
    settle(&world);
    expect_idle(&world);
    char text[100];
    p2p_describe_unexpected(world.ranks[1], text, sizeof text);
    assert_string_equal(text, "rank 0 with tag 0");
    p2p_describe_unexpected(world.ranks[0], text, sizeof text);
    assert_string_equal(text, "");
    p2p_describe_unexpected(world.ranks[1], text, 5);
    assert_string_equal(text, "rank");
    world_close(&world);
}

/* Beyond the bounds messages stay with their senders, and come when there is room or somebody wants them. */
static void unexpected_messages_are_bounded(void **state)
{
    (void)state;
    enum { COUNT = 60, BYTES = 100 };
    static struct p2p_request sends[COUNT];
    static char from[COUNT][BYTES], to[BYTES], last_to[BYTES];
    static const struct p2p_options bounds[] = {{1000, 250, 1000, NULL}, {1000, 1 << 20, 2, NULL}};
    for (int b = 0; b < 2; b++) {
        for (int own = 0; own < 2; own++) {
            struct world world = world_open(TIGHT, 3, bounds[b]);
            const int receiver = own ? 0 : 1;
            for (int i = 0; i < COUNT; i++) {
                fill(from[i], BYTES, i);
                sends[i] = send_request(from[i], BYTES, receiver, i);
                start(&world, 0, &sends[i]);
            }
            assert_int_equal(p2p_listen(world.ranks[1]), TUTTI_OK);
            settle(&world);
            const int held = p2p_held_back(world.ranks[receiver], TUTTI_ANY_RANK);
            if (own && b == 0) { /* its payload waits with its sender, so only envelopes count */
                assert_int_equal(held, -1);
            } else {
                assert_int_equal(held, 0);
                assert_int_equal(p2p_held_back(world.ranks[receiver], 0), 0);
                assert_int_equal(p2p_held_back(world.ranks[receiver], 2), -1);
            }
            assert_false(sends[own ? 3 : 5].done);
            struct p2p_request last = recv_request(last_to, BYTES, 0, COUNT - 1);
            if (held == 0) { /* what it wants is behind what is held back */
                start(&world, receiver, &last);
                settle(&world);
                assert_false(last.done);
                assert_int_equal(p2p_held_back(world.ranks[receiver], 0), 0);
            }
            for (int i = 0; i < COUNT - 1; i++) {
                struct p2p_request recv =
                    recv_request(to, BYTES, i % 2 ? 0 : TUTTI_ANY_RANK, TUTTI_ANY_TAG);
                const int done = count_done(sends, COUNT);
                start(&world, receiver, &recv);
                settle(&world);
                if (held == 0 && done < COUNT) /* there is room again */
                    assert_true(count_done(sends, COUNT) > done);
                expect_message(&recv, 0, i, BYTES);
                expect_filled(to, BYTES, i);
            }
            settle(&world);
            assert_int_equal(p2p_held_back(world.ranks[receiver], TUTTI_ANY_RANK), -1);
            if (held == 0) expect_message(&last, 0, COUNT - 1, BYTES);
            if (held == 0) expect_idle(&world);
            world_close(&world);
        }
    }
}

/* Rank 1 is full of rank 0's messages and still gets rid of a large one, which rank 0 waits for. */
static void what_is_held_back_does_not_stop_the_other_direction(void **state)
{
    (void)state;
    enum { COUNT = 40, BYTES = 20000 };
    static struct p2p_request sends[COUNT];
    static char from[BYTES], to[BYTES];
    for (enum kind kind = 0; kind < LOCAL_COPIES; kind++) {
        struct world world = world_open(kind, 2, (struct p2p_options){1000, 1 << 20, 3, NULL});
        for (int i = 0; i < COUNT; i++) {
            sends[i] = send_request("abcdefg", 8, 1, 0);
            start(&world, 0, &sends[i]);
        }
        fill(from, BYTES, 9);
        struct p2p_request large = send_request(from, BYTES, 0, 1);
        start(&world, 1, &large);
        settle(&world);
        assert_int_equal(p2p_held_back(world.ranks[1], 0), 0);
        struct p2p_request recv = recv_request(to, BYTES, 1, 1);
        start(&world, 0, &recv);
        settle(&world);
        assert_true(large.done);
        expect_message(&recv, 1, 1, BYTES);
        expect_filled(to, BYTES, 9);
        assert_true(p2p_is_busy(world.ranks[0])); /* its small ones still wait */
        world_close(&world);
    }
}

/* A receive that comes in the middle of an unexpected message gets its rest directly. */
static void a_receive_takes_over_a_message_that_is_arriving(void **state)
{
    (void)state;
    enum { BYTES = 900 };
    static char from[BYTES], to[BYTES];
    for (int way = 0; way < 2; way++) {
        const size_t room = way == 0 ? BYTES : 100;
        for (int looks = 0; looks < 40; looks++) {
            struct world world = world_open(TIGHT, 2, usual);
            fill(from, BYTES, looks);
            memset(to, 77, BYTES);
            struct p2p_request send = send_request(from, BYTES, 1, 1);
            assert_int_equal(p2p_listen(world.ranks[1]), TUTTI_OK);
            start(&world, 0, &send);
            for (int i = 0; i < looks; i++) {
                p2p_progress(world.ranks[1]);
                p2p_progress(world.ranks[0]);
            }
            struct p2p_request recv = recv_request(to, room, 0, 1);
            start(&world, 1, &recv);
            settle(&world);
            assert_true(send.done && recv.done);
            assert_int_equal(recv.status, way == 0 ? TUTTI_OK : TUTTI_TRUNCATED);
            if (way == 0) expect_filled(to, BYTES, looks);
            for (size_t i = 0; way == 1 && i < BYTES; i++) assert_int_equal(to[i], 77);
            expect_idle(&world);
            world_close(&world);
        }
    }
}

static void memory_that_is_read_where_it_lies_is_given_back_afterwards(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20 };
    static char from[BYTES], to[BYTES];
    struct world world = world_open(LOCAL_THREADS, 2, usual);
    fill(from, BYTES, 5);
    struct p2p_request send = send_request(from, BYTES, 1, 1), recv = recv_request(to, BYTES, 0, 1);
    start(&world, 1, &recv);
    start(&world, 0, &send);
    p2p_progress(world.ranks[1]); /* come */
    assert_false(p2p_is_referenced(world.ranks[0]));
    assert_true(p2p_progress(world.ranks[0]));
    assert_true(p2p_is_referenced(world.ranks[0]));
    while (!recv.done) { /* more than one pass: nobody else starves meanwhile */
        assert_false(p2p_progress(world.ranks[0]));
        assert_false(send.done);
        assert_true(p2p_progress(world.ranks[1]));
    }
    expect_filled(to, BYTES, 5);
    assert_true(p2p_progress(world.ranks[0]));
    assert_true(send.done);
    assert_false(p2p_is_referenced(world.ranks[0]));
    expect_idle(&world);
    world_close(&world);
}

/* A link tells when all of it is consumed; the first of many must not wait for the last. */
static void an_endless_stream_gives_memory_back_as_it_goes(void **state)
{
    (void)state;
    enum { COUNT = 100, BYTES = 1 << 20 };
    static struct p2p_request sends[COUNT], recvs[COUNT];
    static char from[BYTES], to[BYTES];
    struct world world = world_open(LOCAL_THREADS, 2, usual);
    for (int i = 0; i < COUNT; i++) {
        sends[i] = send_request(from, BYTES, 1, 1);
        recvs[i] = recv_request(to, BYTES, 0, 1);
        start(&world, 0, &sends[i]);
        start(&world, 1, &recvs[i]);
    }
    for (int pass = 0; pass < 1000 && !sends[0].done; pass++) {
        p2p_progress(world.ranks[0]);
        p2p_progress(world.ranks[1]);
    }
    assert_true(sends[0].done);
    assert_false(recvs[COUNT / 2].done);
    settle(&world);
    expect_idle(&world);
    world_close(&world);
}

static void links_that_cannot_be_opened_are_reported(void **state)
{
    (void)state;
    static char from[5000], to[5000];
    for (int opens = 0; opens < 5; opens++) { /* 2 by listening, 3 for a large message */
        struct world world = world_open(ROOMY, 3, usual);
        struct p2p_request send = send_request(from, 5000, 1, 1),
                           recv = recv_request(to, 5000, 0, 1);
        world.net->opens_left = opens;
        assert_int_equal(p2p_start(world.ranks[0], &send), TUTTI_NO_SPACE);
        assert_false(p2p_is_busy(world.ranks[0]));
        assert_int_equal(wire_of(world.net, 0, 1, P2P_CHANNEL_MESSAGES)->sent, 0);
        world.net->opens_left = -1;
        start(&world, 0, &send);
        start(&world, 1, &recv);
        settle(&world);
        assert_true(send.done && recv.done);
        world_close(&world);
    }
    for (int opens = 0; opens < 2; opens++) { /* what a receiver needs, when it needs it */
        struct world world = world_open(ROOMY, 3, usual);
        struct p2p_request send = send_request(from, 5000, 1, 1),
                           recv = recv_request(to, 5000, 0, 1);
        start(&world, 0, &send);
        start(&world, 1, &recv);
        world.net->opens_left = opens;
        p2p_progress(world.ranks[1]);
        assert_int_equal(p2p_status(world.ranks[1]), TUTTI_NO_SPACE);
        assert_false(p2p_progress(world.ranks[1]));
        assert_false(recv.done);
        world_close(&world);
    }
}

/* With messages in every state; a sanitizer finds what is left behind. */
static void everything_can_be_dropped_at_any_time(void **state)
{
    (void)state;
    static char from[5000], to[40][5000];
    static struct p2p_request sends[40], recvs[40];
    for (int looks = 0; looks < 60; looks += 3) {
        struct world world = world_open(looks % 2 ? TIGHT : READABLE, 3, usual);
        for (int i = 0; i < 40; i++) {
            sends[i] = send_request(from, (size_t)(i % 5) * 1000, i / 2 % 3, i % 4);
            recvs[i] = recv_request(to[i], 3000, i % 3 - 1, i % 2);
            start(&world, i % 3, &sends[i]);
            for (int k = 0; k < looks; k++) p2p_progress(world.ranks[k % 3]);
            start(&world, i * 7 % 3, &recvs[i]);
        }
        world_close(&world);
    }
    p2p_free(NULL);
}

/* --------------------------------------------------------------------------------- what makes no sense */

static void put(struct world *world, int channel, const void *data, size_t bytes)
{
    struct wire *wire = wire_of(world->net, 0, 1, channel);
    void *place = wire_reserve(&wire->tx, bytes);
    assert_non_null(place);
    if (bytes > 0) memcpy(place, data, bytes);
    wire_commit(&wire->tx, bytes);
}

static void put_envelope(struct world *world, struct envelope envelope, size_t payload_bytes)
{
    char message[200] = {0};
    memcpy(message, &envelope, sizeof envelope);
    put(world, P2P_CHANNEL_MESSAGES, message, sizeof envelope + payload_bytes);
}

static void expect_blame(struct world *world, const char *what)
{
    for (int i = 0; i < 10; i++) p2p_progress(world->ranks[1]);
    if (p2p_fault(world->ranks[1]) != 0) fail_msg("%s is believed", what);
    assert_non_null(strstr(tutti_error_message(), "rank 0"));
    assert_false(p2p_progress(world->ranks[1]));
    world_close(world);
}

static void envelopes_that_make_no_sense_are_a_fault(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct envelope envelope;
        size_t payload_bytes;
    } cases[] = {
        {"kind 0", {0, TUTTI_UINT8, 0, 1, 8}, 8},
        {"kind 3", {3, TUTTI_UINT8, 0, 1, 8}, 8},
        {"no dtype", {ENVELOPE_EAGER, 200, 0, 1, 8}, 8},
        {"filling", {ENVELOPE_EAGER, TUTTI_UINT8, 1, 1, 8}, 8},
        {"any tag", {ENVELOPE_EAGER, TUTTI_UINT8, 0, TUTTI_ANY_TAG, 8}, 8},
        {"least tag", {ENVELOPE_EAGER, TUTTI_UINT8, 0, INT32_MIN, 8}, 8},
        {"too much payload", {ENVELOPE_EAGER, TUTTI_UINT8, 0, 1, 8}, 9},
        {"payload of nothing", {ENVELOPE_EAGER, TUTTI_UINT8, 0, 1, 0}, 1},
        {"half an element", {ENVELOPE_EAGER, TUTTI_FLOAT64, 0, 1, 12}, 12},
        {"endless", {ENVELOPE_EAGER, TUTTI_UINT8, 0, 1, UINT64_MAX}, 8},
        {"nearly endless", {ENVELOPE_EAGER, TUTTI_UINT8, 0, 1, PTRDIFF_MAX}, 8},
        {"announcement without id", {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 1, 5000}, 0},
        {"announcement with half an id", {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 1, 5000}, 4},
        {"announcement with payload", {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 1, 5000}, 16},
        {"announcement of nothing", {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 1, 0}, 8},
        {"announcement of everything", {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 1, UINT64_MAX}, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int posted = 0; posted < 2; posted++) {
            char room[16];
            memset(room, 77, sizeof room);
            struct world world = world_open(ROOMY, 2, usual);
            struct p2p_request recv = recv_request(room, 8, 0, TUTTI_ANY_TAG);
            recv.dtype = (enum tutti_dtype)cases[i].envelope.dtype;
            if (posted && cases[i].envelope.dtype < 200) start(&world, 1, &recv);
            assert_int_equal(p2p_listen(world.ranks[1]), TUTTI_OK);
            put_envelope(&world, cases[i].envelope, cases[i].payload_bytes);
            expect_blame(&world, cases[i].what);
            assert_false(recv.done);
            for (size_t k = 0; k < sizeof room; k++) assert_int_equal(room[k], 77);
        }
    }
}

static void pieces_that_make_no_sense_are_a_fault(void **state)
{
    (void)state;
    static const size_t pieces[] = {0, 93, 200};
    const char garbage[200] = {0};
    for (int i = 0; i < 3; i++) {
        char room[101] = {0};
        struct world world = world_open(ROOMY, 2, usual);
        struct p2p_request recv = recv_request(room, 100, 0, 1);
        start(&world, 1, &recv);
        put_envelope(&world, (struct envelope){ENVELOPE_EAGER, TUTTI_UINT8, 0, 1, 100}, 8);
        put(&world, P2P_CHANNEL_MESSAGES, garbage, pieces[i]);
        expect_blame(&world, "a piece of a wrong length");
        assert_false(recv.done);
    }
    for (int i = 0; i < 2; i++) { /* shorter than an envelope */
        struct world world = world_open(ROOMY, 2, usual);
        assert_int_equal(p2p_listen(world.ranks[1]), TUTTI_OK);
        put(&world, P2P_CHANNEL_MESSAGES, garbage, i == 0 ? 0 : 15);
        expect_blame(&world, "a short envelope");
    }
}

static void payloads_that_make_no_sense_are_a_fault(void **state)
{
    (void)state;
    static const struct announcement announcement = {
        {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 1, 2000}, 77};
    const char garbage[2001] = {0};
    for (int way = 0; way < 3; way++) {
        static char room[2000];
        struct world world = world_open(ROOMY, 2, usual);
        struct p2p_request recv = recv_request(room, 2000, 0, 1);
        start(&world, 1, &recv);
        put(&world, P2P_CHANNEL_MESSAGES, &announcement, sizeof announcement);
        if (way == 2) put(&world, P2P_CHANNEL_PAYLOADS, garbage, 1990);
        put(&world, P2P_CHANNEL_PAYLOADS, garbage, way == 0 ? 0 : way == 1 ? 2001 : 11);
        expect_blame(&world, "a payload of a wrong length");
        assert_false(recv.done);
    }
}

static void answers_that_make_no_sense_are_a_fault(void **state)
{
    (void)state;
    static const struct {
        struct answer answer;
        size_t bytes;
    } cases[] = {
        {{ANSWER_COME, 0, 2}, 16}, /* not announced */
        {{ANSWER_DROP, 0, UINT64_MAX}, 16}, {{0, 0, 0}, 16},           {{3, 0, 0}, 16},
        {{ANSWER_COME, 1, 0}, 16},          {{ANSWER_COME, 0, 0}, 15}, {{ANSWER_COME, 0, 0}, 0},
    };
    static char data[5000];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world = world_open(ROOMY, 2, usual);
        struct p2p_request sends[2];
        for (int s = 0; s < 2; s++) {
            sends[s] = send_request(data, sizeof data, 0, 1);
            start(&world, 1, &sends[s]);
        }
        put(&world, P2P_CHANNEL_ANSWERS, &cases[i].answer, cases[i].bytes);
        expect_blame(&world, "an answer");
        assert_false(sends[0].done || sends[1].done);
    }
    struct world world = world_open(ROOMY, 2, usual); /* one that makes sense, twice */
    struct p2p_request sends[2];
    for (int s = 0; s < 2; s++) {
        sends[s] = send_request(data, sizeof data, 0, 1);
        start(&world, 1, &sends[s]);
    }
    const struct answer drop = {ANSWER_DROP, 0, 0};
    put(&world, P2P_CHANNEL_ANSWERS, &drop, sizeof drop);
    put(&world, P2P_CHANNEL_ANSWERS, &drop, sizeof drop);
    expect_blame(&world, "an answer given twice");
    assert_true(sends[0].done);
    assert_false(sends[1].done);
}

static void another_signature_is_a_fault(void **state)
{
    (void)state;
    struct world world = world_open(LOCAL_SLOTS, 2, usual);
    struct p2p_request send = send_request("x", 1, 1, 0);
    world.transports[0]->signatures[SLOT]++;
    start(&world, 0, &send);
    assert_int_equal(p2p_listen(world.ranks[1]), TUTTI_OK);
    expect_blame(&world, "a message of something else");
}

/* A peer may post what others commit: its envelope is brought near first. */
static void a_message_by_reference_is_read_like_others(void **state)
{
    (void)state;
    char message[16 + 200], to[200];
    const struct envelope envelope = {ENVELOPE_EAGER, TUTTI_UINT8, 0, 1, 200};
    struct world world = world_open(COPYABLE, 2, usual);
    memcpy(message, &envelope, sizeof envelope);
    fill(message + 16, 200, 8);
    struct p2p_request recv = recv_request(to, 200, 0, 1);
    start(&world, 1, &recv);
    struct wire *wire = wire_of(world.net, 0, 1, P2P_CHANNEL_MESSAGES);
    while (!wire_post(&wire->tx, message, sizeof message)) continue;
    settle(&world);
    expect_message(&recv, 0, 1, 200);
    expect_filled(to, 200, 8);
    world_close(&world);
}

static void pieces_without_room_for_an_envelope_are_not_supported(void **state)
{
    (void)state;
    struct p2p *p2p;
    struct net *net = net_create(2, (struct mood){32, 1, 1, REACH_NONE});
    assert_int_equal(p2p_create(&net->endpoints[0].base, SLOT, &usual, &p2p), TUTTI_UNSUPPORTED);
    assert_null(p2p);
    net_free(net);
}

/* ------------------------------------------------------------------------------------------------ soak
 *
 * A game: a number of messages with random ends, tags and sizes; receives that together could take them all, but
 * with wildcards, short rooms and wrong dtypes among them; started and moved in random order. What is done is
 * poisoned and freed at once. In the end every message must have been received, by the right receive. */

enum { MESSAGES = 120, RECEIVES = 3 * MESSAGES, NONE = -1 };

struct game_message {
    int source, target, tag;
    enum tutti_dtype dtype;
    size_t bytes;
    char *buffer;
    struct p2p_request *request;
    int receive; /* that took it */
    bool started, done;
};

struct game_receive {
    int rank;
    char *buffer;
    struct p2p_request *request;
    struct p2p_request result;
    int message; /* that it took */
    bool started, done;
};

struct game {
    struct world world;
    uint64_t random;
    bool any_source;
    int receive_count, posted_count;
    struct game_message messages[MESSAGES];
    struct game_receive receives[RECEIVES];
    int posted[RECEIVES]; /* receives, in the order of starting */
};

static unsigned roll(struct game *game, unsigned sides)
{
    return (unsigned)(draw(&game->random) % sides);
}

static char content(int message, size_t i)
{
    return i < 4 ? (char)(message >> (8 * i)) : (char)((size_t)message * 31 + i + i / 256);
}

static size_t random_size(struct game *game, size_t eager, size_t piece)
{
    const size_t around[] = {0, 8, 24, eager, piece, 3 * piece, 9000, 20000};
    const size_t base = around[roll(game, 8)];
    if (game->world.kind != TIGHT && roll(game, 40) == 0) return 128 << 10;
    if (roll(game, 3) == 0) return base;
    const size_t near = base + roll(game, 12);
    return near < 6 ? near : near - 6;
}

static void make_message(struct game *game, int m, size_t eager, size_t piece)
{
    struct game_message *message = &game->messages[m];
    const unsigned size = (unsigned)game->world.size;
    *message = (struct game_message){.source = (int)roll(game, size),
                                     .target = (int)roll(game, size),
                                     .tag = (int)roll(game, 4),
                                     .dtype = roll(game, 4) == 0 ? TUTTI_FLOAT32 : TUTTI_UINT8,
                                     .bytes = random_size(game, eager, piece),
                                     .receive = NONE};
    if (message->dtype == TUTTI_FLOAT32) message->bytes &= ~(size_t)3;
    message->buffer = malloc(message->bytes + 1);
    message->request = malloc(sizeof *message->request);
    assert_true(message->buffer != NULL && message->request != NULL);
    for (size_t i = 0; i < message->bytes; i++) message->buffer[i] = content(m, i);
    *message->request = send_request(message->buffer, message->bytes, message->target, message->tag);
    message->request->dtype = message->dtype;
}

static struct game_receive *make_receive(struct game *game, int rank, size_t room,
                                         enum tutti_dtype dtype, int peer, int tag)
{
    assert_true(game->receive_count < RECEIVES);
    struct game_receive *receive = &game->receives[game->receive_count++];
    *receive = (struct game_receive){.rank = rank, .message = NONE};
    receive->buffer = malloc(room + 1); /* and one byte that says whether more was written */
    receive->request = malloc(sizeof *receive->request);
    assert_true(receive->buffer != NULL && receive->request != NULL);
    memset(receive->buffer, 77, room + 1);
    *receive->request = recv_request(receive->buffer, room, peer, tag);
    receive->request->dtype = dtype;
    return receive;
}

/* One for a message, which another one may take. */
static void make_receive_for(struct game *game, int m)
{
    const struct game_message *message = &game->messages[m];
    const bool any_source = game->any_source && roll(game, 3) == 0, any_tag = roll(game, 3) == 0;
    const bool wrong_dtype = roll(game, 15) == 0;
    size_t room = message->bytes + 4 * roll(game, 2);
    if (roll(game, 15) == 0 && room >= 8) room -= 8;
    if (wrong_dtype && message->dtype == TUTTI_UINT8) room &= ~(size_t)3;
    make_receive(game, message->target, room,
                 !wrong_dtype                    ? message->dtype
                 : message->dtype == TUTTI_UINT8 ? TUTTI_FLOAT32
                                                 : TUTTI_UINT8,
                 any_source ? TUTTI_ANY_RANK : message->source,
                 any_tag ? TUTTI_ANY_TAG : message->tag);
}

static void start_receive(struct game *game, int r)
{
    struct game_receive *receive = &game->receives[r];
    receive->started = true;
    game->posted[game->posted_count++] = r;
    start(&game->world, receive->rank, receive->request);
}

static void poison(struct p2p_request *request)
{
    memset(request, 0xee, sizeof *request);
    free(request);
}

static void collect(struct game *game)
{
    for (int m = 0; m < MESSAGES; m++) {
        struct game_message *message = &game->messages[m];
        if (!message->started || message->done || !message->request->done) continue;
        assert_int_equal(message->request->status, TUTTI_OK);
        message->done = true;
        memset(message->buffer, 0xee, message->bytes);
        free(message->buffer);
        poison(message->request);
    }
    for (int r = 0; r < game->receive_count; r++) {
        struct game_receive *receive = &game->receives[r];
        if (!receive->started || receive->done || !receive->request->done) continue;
        receive->done = true;
        receive->result = *receive->request;
        poison(receive->request);
    }
}

/* Starts everything, the messages of a rank in their order, receives in any. */
static void play(struct game *game)
{
    int next_message[RANKS_MAX] = {0}, left = 2 * MESSAGES;
    int order[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        const int k = (int)roll(game, (unsigned)i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    int next_receive = 0;
    const unsigned hurry = 1 + roll(game, 8), eagerness = roll(game, 5);
    while (left > 0) {
        const int rank = (int)roll(game, (unsigned)game->world.size);
        if (roll(game, hurry) > 0) {
            p2p_progress(game->world.ranks[rank]);
            continue;
        }
        collect(game);
        if (next_receive < MESSAGES && roll(game, 4) < eagerness) {
            start_receive(game, order[next_receive++]);
            left--;
            continue;
        }
        int *m = &next_message[rank];
        while (*m < MESSAGES && game->messages[*m].source != rank) ++*m;
        if (*m < MESSAGES) {
            game->messages[*m].started = true;
            start(&game->world, rank, game->messages[*m].request);
            ++*m;
            left--;
        } else if (next_receive < MESSAGES) {
            start_receive(game, order[next_receive++]);
            left--;
        }
    }
    settle(&game->world);
    collect(game);
}

/* What nobody asked for yet is received by anybody who takes anything, until nothing is left. */
static void clean_up(struct game *game)
{
    for (int rank = 0; rank < game->world.size; rank++) {
        for (int source = 0; source < game->world.size; source++) {
            for (;;) {
                int waiting = 0;
                for (int m = 0; m < MESSAGES; m++)
                    waiting +=
                        game->messages[m].target == rank && game->messages[m].source == source;
                for (int r = 0; r < game->receive_count; r++)
                    waiting -= game->receives[r].done && game->receives[r].rank == rank &&
                               game->receives[r].result.source == source;
                if (waiting == 0) break;
                make_receive(game, rank, 200000, TUTTI_UINT8, source, TUTTI_ANY_TAG);
                start_receive(game, game->receive_count - 1);
                settle(&game->world);
                collect(game);
            }
        }
    }
}

/* Which message a receive has got is in its first bytes; without those it is the first that it can be. */
static void find_out(struct game *game, bool known)
{
    for (int p = 0; p < game->posted_count; p++) {
        struct game_receive *receive = &game->receives[game->posted[p]];
        const struct p2p_request *result = &receive->result;
        const bool can_tell = receive->done && result->received_bytes >= 4;
        if (!receive->done || can_tell != known) continue;
        int m = 0;
        if (known) {
            for (size_t i = 0; i < 4; i++) m |= (unsigned char)receive->buffer[i] << (8 * i);
            assert_in_range(m, 0, MESSAGES - 1);
        } else {
            while (m < MESSAGES && (game->messages[m].receive != NONE ||
                                    game->messages[m].source != result->source ||
                                    game->messages[m].target != receive->rank ||
                                    game->messages[m].tag != result->message_tag ||
                                    game->messages[m].dtype != result->sent_dtype ||
                                    game->messages[m].bytes != result->sent_bytes))
                m++;
            if (m == MESSAGES) fail_msg("a message was received that nobody sent");
        }
        if (game->messages[m].receive != NONE) fail_msg("message %d was received twice", m);
        game->messages[m].receive = p;
        receive->message = m;
    }
}

static void check_result(const struct game *game, const struct game_receive *receive)
{
    const struct p2p_request *result = &receive->result;
    const struct game_message *message = &game->messages[receive->message];
    const bool fits = message->bytes <= result->bytes && message->dtype == result->dtype;
    assert_int_equal(result->status, fits ? TUTTI_OK : TUTTI_TRUNCATED);
    assert_int_equal(receive->rank, message->target);
    assert_int_equal(result->source, message->source);
    assert_int_equal(result->message_tag, message->tag);
    assert_int_equal(result->sent_bytes, message->bytes);
    assert_int_equal(result->sent_dtype, message->dtype);
    assert_int_equal(result->received_bytes, fits ? message->bytes : 0);
    for (size_t i = 0; i <= result->bytes; i++) {
        const bool written = i < result->received_bytes;
        if (receive->buffer[i] != (written ? content(receive->message, i) : 77))
            fail_msg("message %d: byte %zu of %zu is wrong", receive->message, i, message->bytes);
    }
}

static bool would_fit(const struct p2p_request *request, const struct game_message *message)
{
    return (request->peer == TUTTI_ANY_RANK || request->peer == message->source) &&
           (request->tag == TUTTI_ANY_TAG || request->tag == message->tag);
}

/* Of two messages of one source that a receive could take, it takes the first, unless an earlier receive did; and
 * none is left empty-handed while a later one takes what it could have taken. */
static void check_order(const struct game *game)
{
    for (int p = 0; p < game->posted_count; p++) {
        const struct game_receive *receive = &game->receives[game->posted[p]];
        const struct p2p_request *request = receive->done ? &receive->result : receive->request;
        for (int m = 0; m < MESSAGES; m++) {
            const struct game_message *message = &game->messages[m];
            if (message->target != receive->rank || !would_fit(request, message)) continue;
            if (receive->done && (m >= receive->message ||
                                  message->source != game->messages[receive->message].source))
                continue;
            if (message->receive > p) fail_msg("message %d passed receive %d by", m, p);
        }
    }
}

/* Without any-source receives there is one right answer: each message goes to the first receive that fits. */
static void check_against_the_model(const struct game *game)
{
    bool taken[RECEIVES] = {false};
    for (int m = 0; m < MESSAGES; m++) {
        int p = 0;
        for (; p < game->posted_count; p++) {
            const struct game_receive *receive = &game->receives[game->posted[p]];
            const struct p2p_request *request = receive->done ? &receive->result : receive->request;
            if (!taken[p] && receive->rank == game->messages[m].target &&
                would_fit(request, &game->messages[m]))
                break;
        }
        assert_true(p < game->posted_count);
        taken[p] = true;
        if (game->messages[m].receive != p)
            fail_msg("message %d went to receive %d instead of %d", m, game->messages[m].receive, p);
    }
}

static void check_game(struct game *game)
{
    find_out(game, true);
    find_out(game, false);
    int undone[RANKS_MAX] = {0};
    for (int m = 0; m < MESSAGES; m++)
        assert_true(game->messages[m].done && game->messages[m].receive != NONE);
    for (int r = 0; r < game->receive_count; r++) {
        if (game->receives[r].done)
            check_result(game, &game->receives[r]);
        else
            undone[game->receives[r].rank]++;
    }
    for (int rank = 0; rank < game->world.size; rank++) {
        assert_int_equal(p2p_is_busy(game->world.ranks[rank]), undone[rank] > 0);
        assert_int_equal(p2p_held_back(game->world.ranks[rank], TUTTI_ANY_RANK), -1);
    }
    check_order(game);
    if (!game->any_source) check_against_the_model(game);
}

static void soak(enum kind kind, int round)
{
    static const size_t eagers[] = {0, 8, 100, 1000, 5000}, byte_bounds[] = {0, 100, 3000, 1 << 24},
                        count_bounds[] = {0, 1, 3, 1000};
    static struct game game;
    game = (struct game){.random = seed + (uint64_t)round * 1000 + (uint64_t)kind};
    game.any_source = roll(&game, 3) > 0;
    const struct p2p_options options = {eagers[roll(&game, 5)], byte_bounds[roll(&game, 4)],
                                        count_bounds[roll(&game, 4)], NULL};
    const int size = kind == LOCAL_COPIES ? 2 : 1 + (int)roll(&game, RANKS_MAX);
    game.world = world_open(kind, size, options);
    size_t piece;
    unsigned pieces;
    game.world.transports[0]->ops->limits(game.world.transports[0], &piece, &pieces);
    for (int m = 0; m < MESSAGES; m++)
        make_message(&game, m, options.eager_bytes_max, piece < 70000 ? piece : 70000);
    for (int m = 0; m < MESSAGES; m++) make_receive_for(&game, m);
    play(&game);
    clean_up(&game);
    check_game(&game);
    world_close(&game.world);
    for (int r = 0; r < game.receive_count; r++) {
        free(game.receives[r].buffer);
        if (!game.receives[r].done) free(game.receives[r].request);
    }
}

static void any_game_is_played_by_the_rules(void **state)
{
    (void)state;
    for (int round = 0; round < 12; round++)
        for (enum kind kind = 0; kind < KIND_COUNT; kind++) soak(kind, round);
}

int main(void)
{
    const char *wanted = getenv("TUTTI_TEST_SEED");
    seed = wanted != NULL ? strtoull(wanted, NULL, 0) : clock_now_ns();
    printf("TUTTI_TEST_SEED=%" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_every_size_arrive),
        cmocka_unit_test(a_small_message_is_one_message_of_the_link),
        cmocka_unit_test(what_does_not_fit_is_truncated),
        cmocka_unit_test(many_receives_are_matched_in_order),
        cmocka_unit_test(a_ring_may_send_first),
        cmocka_unit_test(a_rank_that_listens_takes_what_comes_before_it_starts_anything),
        cmocka_unit_test(unexpected_messages_are_bounded),
        cmocka_unit_test(what_is_held_back_does_not_stop_the_other_direction),
        cmocka_unit_test(a_receive_takes_over_a_message_that_is_arriving),
        cmocka_unit_test(memory_that_is_read_where_it_lies_is_given_back_afterwards),
        cmocka_unit_test(an_endless_stream_gives_memory_back_as_it_goes),
        cmocka_unit_test(links_that_cannot_be_opened_are_reported),
        cmocka_unit_test(everything_can_be_dropped_at_any_time),
        cmocka_unit_test(envelopes_that_make_no_sense_are_a_fault),
        cmocka_unit_test(pieces_that_make_no_sense_are_a_fault),
        cmocka_unit_test(payloads_that_make_no_sense_are_a_fault),
        cmocka_unit_test(answers_that_make_no_sense_are_a_fault),
        cmocka_unit_test(another_signature_is_a_fault),
        cmocka_unit_test(a_message_by_reference_is_read_like_others),
        cmocka_unit_test(pieces_without_room_for_an_envelope_are_not_supported),
        cmocka_unit_test(any_game_is_played_by_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
