/* Messages between ranks of one thread, moved in any order: over links that are slow, short of room
 * and moody, over
 * links on which anything may lie, and over the local transport. TUTTI_TEST_SEED repeats a run. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "os/clock.h"
#include "p2p/envelope.h"
#include "p2p/p2p.h"
#include "tests/kit/chance.h"
#include "tests/worlds/p2p_world.h"

static uint64_t seed;

static const struct p2p_options usual = {1000, 1 << 20, 1000, false, NULL, NULL, KERNEL_SCALAR};

static struct world open_world(enum kind kind, int size, struct p2p_options options)
{
    return world_open(kind, size, options, seed);
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

/* Blocks of 64 KiB differ, too. */
static char value_at(size_t i, int start)
{
    return (char)((size_t)start + i * 7 + (i >> 8) + (i >> 16) * 31);
}

static void fill(char *memory, size_t bytes, int start)
{
    for (size_t i = 0; i < bytes; i++) memory[i] = value_at(i, start);
}

static void expect_filled(const char *memory, size_t bytes, int start)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != value_at(i, start)) fail_msg("byte %zu of %zu is wrong", i, bytes);
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

/* ---------------------------------------------------------------------------------- one message */

/* Every size around every threshold, received before and after it was sent, from a rank and from
 * any. */
static void messages_of_every_size_arrive(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,    1,    8,    24,   25,    48,    49,     999,
                                   1000, 1001, 4095, 8192, 65537, 70000, 300000, 2000000};
    static char from[2000000], to[2000000];
    fill(from, sizeof from, 3);
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        struct world world = open_world(kind, 2, usual);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (int variant = 0; variant < 8; variant++) {
                const bool early = variant & 1, any = variant & 2, own = variant & 4;
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
    struct world world = open_world(ROOMY, 2, usual);
    fill(from, sizeof from, 1);
    struct p2p_request send = send_request(from, sizeof from, 1, 0);
    start(&world, 0, &send);
    assert_true(send.done); /* and it has left at once */
    assert_int_equal(engine_net_sent(world.net, 0, 1, P2P_CHANNEL_MESSAGES), 1);
    assert_int_equal(engine_net_last_bytes(world.net, 0, 1, P2P_CHANNEL_MESSAGES), 40);
    struct p2p_request recv = recv_request(to, sizeof to, 0, 0);
    start(&world, 1, &recv);
    assert_true(p2p_progress(world.ranks[1]));
    expect_message(&recv, 0, 0, sizeof to);
    assert_false(p2p_progress(world.ranks[1]));
    world_close(&world);
}

/* A message that is too long or of another dtype is lost, whatever path it came: nothing is
 * written, its sender is let go, and the next message is not harmed. */
static void what_does_not_fit_is_truncated(void **state)
{
    (void)state;
    enum { LONG = 40000 };
    static char from[LONG], to[LONG], next[8];
    static const size_t sizes[] = {8, 900, LONG};
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        struct world world = open_world(kind, 2, usual);
        for (int variant = 0; variant < 24; variant++) {
            const bool early = variant & 1, own = variant & 2, short_room = variant & 4;
            const size_t bytes = sizes[variant / 8];
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
    struct world world = open_world(LOCAL_SLOTS, 2, usual);
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

/* ----------------------------------------------------------------------------- what waits where */

/* Everybody sends before anybody receives, to a rank that it does not receive from. */
static void a_ring_may_send_first(void **state)
{
    (void)state;
    enum { COUNT = 50, SIZE = 4 };
    static struct p2p_request sends[SIZE][COUNT], recvs[SIZE][COUNT];
    static int from[SIZE][COUNT], to[SIZE][COUNT];
    for (enum kind kind = 0; kind < LOCAL_COPIES; kind++) {
        struct world world = open_world(kind, SIZE, usual);
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
    struct world world = open_world(ROOMY, 2, usual);
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

/* Beyond the bounds messages stay with their senders, and come when there is room or somebody wants
 * them. */
static void unexpected_messages_are_bounded(void **state)
{
    (void)state;
    enum { COUNT = 60, BYTES = 100 };
    static struct p2p_request sends[COUNT];
    static char from[COUNT][BYTES], to[BYTES], last_to[BYTES];
    static const struct p2p_options bounds[] = {{1000, 250, 1000, false, NULL, NULL, KERNEL_SCALAR},
                                                {1000, 1 << 20, 2, false, NULL, NULL, KERNEL_SCALAR}};
    for (int b = 0; b < 2; b++) {
        for (int own = 0; own < 2; own++) {
            struct world world = open_world(TIGHT, 3, bounds[b]);
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
            if (held == 0) { /* its message is behind the messages that are held back */
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
    enum { COUNT = 200, BYTES = 20000 }; /* more than a link holds */
    static struct p2p_request sends[COUNT];
    static char from[BYTES], to[BYTES];
    for (enum kind kind = 0; kind < LOCAL_COPIES; kind++) {
        struct world world = open_world(
            kind, 2, (struct p2p_options){1000, 1 << 20, 3, false, NULL, NULL, KERNEL_SCALAR});
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
        assert_true(p2p_is_busy(world.ranks[0])); /* its small messages still wait */
        world_close(&world);
    }
}

/* A receive that comes in the middle of an unexpected message gets its rest directly. */
static void a_receive_takes_over_a_message_that_is_arriving(void **state)
{
    (void)state;
    enum { BYTES = 900 };
    static char from[BYTES], to[BYTES];
    for (int variant = 0; variant < 2; variant++) {
        const size_t room = variant == 0 ? BYTES : 100;
        for (int looks = 0; looks < 40; looks++) {
            struct world world = open_world(TIGHT, 2, usual);
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
            assert_int_equal(recv.status, variant == 0 ? TUTTI_OK : TUTTI_TRUNCATED);
            if (variant == 0) expect_filled(to, BYTES, looks);
            for (size_t i = 0; variant == 1 && i < BYTES; i++) assert_int_equal(to[i], 77);
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
    struct world world = open_world(LOCAL_THREADS, 2, usual);
    fill(from, BYTES, 5);
    struct p2p_request send = send_request(from, BYTES, 1, 1), recv = recv_request(to, BYTES, 0, 1);
    start(&world, 1, &recv);
    start(&world, 0, &send);
    assert_true(p2p_is_referenced(world.ranks[0])); /* from the announcement on */
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
    struct world world = open_world(LOCAL_THREADS, 2, usual);
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
        struct world world = open_world(ROOMY, 3, usual);
        struct p2p_request send = send_request(from, 5000, 1, 1),
                           recv = recv_request(to, 5000, 0, 1);
        engine_net_bound_links(world.net, opens);
        assert_int_equal(p2p_start(world.ranks[0], &send), TUTTI_NO_SPACE);
        assert_false(p2p_is_busy(world.ranks[0]));
        assert_int_equal(engine_net_sent(world.net, 0, 1, P2P_CHANNEL_MESSAGES), 0);
        engine_net_bound_links(world.net, -1);
        start(&world, 0, &send);
        start(&world, 1, &recv);
        settle(&world);
        assert_true(send.done && recv.done);
        world_close(&world);
    }
    for (int opens = 0; opens < 2; opens++) { /* a receiver's links, when it needs them */
        struct world world = open_world(ROOMY, 3, usual);
        struct p2p_request send = send_request(from, 5000, 1, 1),
                           recv = recv_request(to, 5000, 0, 1);
        start(&world, 0, &send);
        start(&world, 1, &recv);
        engine_net_bound_links(world.net, opens);
        p2p_progress(world.ranks[1]);
        assert_int_equal(p2p_status(world.ranks[1]), TUTTI_NO_SPACE);
        assert_false(p2p_progress(world.ranks[1]));
        assert_false(recv.done);
        world_close(&world);
    }
}

/* With messages in every state; a sanitizer finds memory that is left behind. */
static void everything_can_be_dropped_at_any_time(void **state)
{
    (void)state;
    static char from[5000], to[40][5000];
    static struct p2p_request sends[40], recvs[40];
    for (int looks = 0; looks < 60; looks += 3) {
        struct world world = open_world(looks % 2 ? TIGHT : READABLE, 3, usual);
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

/* -------------------------------------------------------------------------- what makes no sense */

static void put(struct world *world, int channel, const void *data, size_t bytes)
{
    struct link_tx *const link = world_link(world, 0, 1, channel);
    void *const place = link->ops->reserve(link, bytes);
    assert_non_null(place);
    if (bytes > 0) memcpy(place, data, bytes);
    link->ops->commit(link, bytes);
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
    assert_non_null(strstr(tutti_error_message(), "makes no sense"));
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
        {"kind 0", {0, TUTTI_UINT8, 0, 0, 1, 8}, 8},
        {"kind 3", {3, TUTTI_UINT8, 0, 0, 1, 8}, 8},
        {"no dtype", {ENVELOPE_EAGER, 200, 0, 0, 1, 8}, 8},
        {"filling", {ENVELOPE_EAGER, TUTTI_UINT8, 0, 1, 1, 8}, 8},
        {"any tag", {ENVELOPE_EAGER, TUTTI_UINT8, 0, 0, TUTTI_ANY_TAG, 8}, 8},
        {"least tag", {ENVELOPE_EAGER, TUTTI_UINT8, 0, 0, INT32_MIN, 8}, 8},
        {"too much payload", {ENVELOPE_EAGER, TUTTI_UINT8, 0, 0, 1, 8}, 9},
        {"payload of nothing", {ENVELOPE_EAGER, TUTTI_UINT8, 0, 0, 1, 0}, 1},
        {"half an element", {ENVELOPE_EAGER, TUTTI_FLOAT64, 0, 0, 1, 12}, 12},
        {"endless", {ENVELOPE_EAGER, TUTTI_UINT8, 0, 0, 1, UINT64_MAX}, 8},
        {"nearly endless", {ENVELOPE_EAGER, TUTTI_UINT8, 0, 0, 1, PTRDIFF_MAX}, 8},
        {"announcement without id", {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 0, 1, 5000}, 0},
        {"announcement with half an id", {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 0, 1, 5000}, 4},
        {"announcement with payload", {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 0, 1, 5000}, 32},
        {"announcement of nothing", {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 0, 1, 0}, 24},
        {"announcement of everything", {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 0, 1, UINT64_MAX}, 24},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int posted = 0; posted < 2; posted++) {
            char room[16];
            memset(room, 77, sizeof room);
            struct world world = open_world(ROOMY, 2, usual);
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
        struct world world = open_world(ROOMY, 2, usual);
        struct p2p_request recv = recv_request(room, 100, 0, 1);
        start(&world, 1, &recv);
        put_envelope(&world, (struct envelope){ENVELOPE_EAGER, TUTTI_UINT8, 0, 0, 1, 100}, 8);
        put(&world, P2P_CHANNEL_MESSAGES, garbage, pieces[i]);
        expect_blame(&world, "a piece of a wrong length");
        assert_false(recv.done);
    }
    for (int i = 0; i < 2; i++) { /* shorter than an envelope */
        struct world world = open_world(ROOMY, 2, usual);
        assert_int_equal(p2p_listen(world.ranks[1]), TUTTI_OK);
        put(&world, P2P_CHANNEL_MESSAGES, garbage, i == 0 ? 0 : 15);
        expect_blame(&world, "a short envelope");
    }
}

static void payloads_that_make_no_sense_are_a_fault(void **state)
{
    (void)state;
    static const struct announcement announcement = {
        {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 0, 1, 2000}, 77, {0, 0}};
    const char garbage[2001] = {0};
    for (int variant = 0; variant < 3; variant++) {
        static char room[2000];
        struct world world = open_world(ROOMY, 2, usual);
        struct p2p_request recv = recv_request(room, 2000, 0, 1);
        start(&world, 1, &recv);
        put(&world, P2P_CHANNEL_MESSAGES, &announcement, sizeof announcement);
        if (variant == 2) put(&world, P2P_CHANNEL_PAYLOADS, garbage, 1990);
        put(&world, P2P_CHANNEL_PAYLOADS, garbage, variant == 0 ? 0 : variant == 1 ? 2001 : 11);
        expect_blame(&world, "a payload of a wrong length");
        assert_false(recv.done);
    }
}

static void references_that_make_no_sense_are_a_fault(void **state)
{
    (void)state;
    static const struct announcement announcement = {
        {ENVELOPE_ANNOUNCEMENT, TUTTI_UINT8, 0, 0, 1, 2000}, 77, {UINT64_MAX, 4096}};
    for (int posted = 0; posted < 2; posted++) {
        static char room[2000];
        struct world world = open_world(ROOMY, 2, usual);
        struct p2p_request recv = recv_request(room, sizeof room, 0, 1);
        assert_int_equal(p2p_listen(world.ranks[1]), TUTTI_OK);
        if (posted) start(&world, 1, &recv);
        put(&world, P2P_CHANNEL_MESSAGES, &announcement, sizeof announcement);
        for (int i = 0; i < 10 && !posted; i++) p2p_progress(world.ranks[1]);
        if (!posted) start(&world, 1, &recv);
        expect_blame(&world, "a reference to nothing");
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
        {{ANSWER_COME, 0, 2}, 16},   /* not announced */
        {{ANSWER_COPIED, 0, 0}, 16}, /* without a reference */
        {{ANSWER_DROP, 0, UINT64_MAX}, 16}, {{0, 0, 0}, 16},           {{4, 0, 0}, 16},
        {{ANSWER_COME, 1, 0}, 16},          {{ANSWER_COME, 0, 0}, 15}, {{ANSWER_COME, 0, 0}, 0},
    };
    static char data[5000];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world = open_world(ROOMY, 2, usual);
        struct p2p_request sends[2];
        for (int s = 0; s < 2; s++) {
            sends[s] = send_request(data, sizeof data, 0, 1);
            start(&world, 1, &sends[s]);
        }
        put(&world, P2P_CHANNEL_ANSWERS, &cases[i].answer, cases[i].bytes);
        expect_blame(&world, "an answer");
        assert_false(sends[0].done || sends[1].done);
    }
    struct world world = open_world(ROOMY, 2, usual); /* an answer that makes sense, twice */
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
    struct world world = open_world(LOCAL_SLOTS, 2, usual);
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
    const struct envelope envelope = {ENVELOPE_EAGER, TUTTI_UINT8, 0, 0, 1, 200};
    struct world world = open_world(COPYABLE, 2, usual);
    memcpy(message, &envelope, sizeof envelope);
    fill(message + 16, 200, 8);
    struct p2p_request recv = recv_request(to, 200, 0, 1);
    start(&world, 1, &recv);
    struct link_tx *const link = world_link(&world, 0, 1, P2P_CHANNEL_MESSAGES);
    while (!link->ops->post(link, message, sizeof message)) continue;
    settle(&world);
    expect_message(&recv, 0, 1, 200);
    expect_filled(to, 200, 8);
    world_close(&world);
}

static void pieces_without_room_for_an_envelope_are_not_supported(void **state)
{
    (void)state;
    struct p2p *p2p;
    const struct engine_mood mood = {
        .for_messages = true, .piece_bytes = 32, .pieces = 1, .delay = 1};
    struct engine_net *net = engine_net_create(2, mood, seed);
    assert_int_equal(p2p_create(engine_net_transport(net, 0), SLOT, &usual, &p2p),
                     TUTTI_UNSUPPORTED);
    assert_null(p2p);
    engine_net_free(net);
}

/* -------------------------------------------------------------------------------------- threads */

enum { CREW = 3, ROUNDS = 60, CREW_BYTES = 40000 };

struct worker {
    struct p2p *p2p;
    int rank;
    const char *wrong;
};

static bool all_done(struct p2p *p2p, const struct p2p_request *requests, uint64_t deadline_ns)
{
    while (count_done(requests, 2 * CREW) < 2 * CREW) {
        if (!p2p_progress(p2p)) sched_yield();
        if (p2p_fault(p2p) >= 0 || clock_now_ns() > deadline_ns) return false;
    }
    return true;
}

/* In each round everybody sends to everybody, also to itself, and receives from anybody: tags tell
 * who sent. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    static _Thread_local char from[CREW_BYTES], to[CREW][CREW_BYTES];
    const uint64_t deadline_ns = clock_now_ns() + 60000000000u;
    for (int round = 0; round < ROUNDS; round++) {
        const size_t bytes = (size_t)(round % 4) * (CREW_BYTES / 4) + (size_t)round;
        struct p2p_request requests[2 * CREW];
        fill(from, bytes, worker->rank + round);
        for (int peer = 0; peer < CREW; peer++) {
            requests[peer] = recv_request(to[peer], bytes, round % 2 ? peer : TUTTI_ANY_RANK,
                                          round * CREW + peer);
            requests[CREW + peer] = send_request(from, bytes, peer, round * CREW + worker->rank);
        }
        for (int i = 0; i < 2 * CREW; i++) { /* sends first in every third round */
            struct p2p_request *request = &requests[round % 3 ? i : 2 * CREW - 1 - i];
            if (p2p_start(worker->p2p, request) != TUTTI_OK) return worker->wrong = "start", NULL;
        }
        if (!all_done(worker->p2p, requests, deadline_ns)) return worker->wrong = "waiting", NULL;
        for (int peer = 0; peer < CREW; peer++)
            for (size_t i = 0; i < bytes; i++)
                if (requests[peer].source != peer || to[peer][i] != value_at(i, peer + round))
                    return worker->wrong = "content", NULL;
    }
    return NULL;
}

static void ranks_that_are_threads_exchange_messages(void **state)
{
    (void)state;
    for (enum kind kind = LOCAL_THREADS; kind <= LOCAL_SLOTS; kind++) {
        struct world world = open_world(kind, CREW, usual);
        struct worker workers[CREW];
        pthread_t threads[CREW];
        for (int r = 0; r < CREW; r++) {
            workers[r] = (struct worker){world.ranks[r], r, NULL};
            assert_int_equal(pthread_create(&threads[r], NULL, work, &workers[r]), 0);
        }
        for (int r = 0; r < CREW; r++) pthread_join(threads[r], NULL);
        for (int r = 0; r < CREW; r++)
            if (workers[r].wrong != NULL) fail_msg("rank %d: %s", r, workers[r].wrong);
        expect_idle(&world);
        world_close(&world);
    }
}

int main(void)
{
    seed = chance_seed(clock_now_ns());
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
        cmocka_unit_test(references_that_make_no_sense_are_a_fault),
        cmocka_unit_test(answers_that_make_no_sense_are_a_fault),
        cmocka_unit_test(another_signature_is_a_fault),
        cmocka_unit_test(a_message_by_reference_is_read_like_others),
        cmocka_unit_test(pieces_without_room_for_an_envelope_are_not_supported),
        cmocka_unit_test(ranks_that_are_threads_exchange_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
