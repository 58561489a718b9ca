/* The contract of links, between ranks of this process over loopback connections, driven from one
 * thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/tcp_world.h"
#include "transport/tcp/link.h"

enum { SLOT = 2, CHANNEL = 1, SIGNATURE = 4242, STEPS = 20000, PIECE_BYTES = 4096, PIECES = 4 };

static const struct tcp_mood plain = {
    .streams = 2, .piece_bytes = PIECE_BYTES, .piece_count = PIECES, .is_plain = true};

static struct tcp_world *create_world(int size)
{
    struct tcp_world *world = tcp_world_create(size, plain, 7);
    for (int r = 0; r < size; r++)
        for (int s = 0; s < TRANSPORT_SLOT_COUNT; s++)
            tcp_world_transports(world)[r]->signatures[s] = SIGNATURE;
    return world;
}

static struct link_tx *tx_of(struct tcp_world *world, int slot, int rank, int peer)
{
    struct transport *transport = tcp_world_transports(world)[rank];
    struct link_tx *link;
    assert_int_equal(transport->ops->open_tx(transport, slot, CHANNEL, peer, 1 << 20, &link),
                     TUTTI_OK);
    return link;
}

static struct link_rx *rx_of(struct tcp_world *world, int slot, int rank, int peer)
{
    struct transport *transport = tcp_world_transports(world)[rank];
    struct link_rx *link;
    assert_int_equal(transport->ops->open_rx(transport, slot, CHANNEL, peer, &link), TUTTI_OK);
    return link;
}

static void step(struct tcp_world *world)
{
    for (int i = 0; i < STEPS / 10; i++) tcp_world_step(world);
}

static bool send_filled(struct link_tx *tx, unsigned char filling, size_t bytes)
{
    void *place = tx->ops->reserve(tx, bytes);
    if (place == NULL) return false;
    assert_ptr_equal(place, tx->ops->reserve(tx, bytes)); /* the same again */
    memset(place, filling, bytes);
    tx->ops->commit(tx, bytes);
    return true;
}

static enum link_state await(struct tcp_world *world, struct link_rx *rx, struct link_view *view)
{
    enum link_state state = LINK_EMPTY;
    for (int i = 0; i < STEPS && state == LINK_EMPTY; i++) {
        tcp_world_step(world);
        state = rx->ops->peek(rx, view);
    }
    return state;
}

static void expect_filled(struct tcp_world *world, struct link_rx *rx, unsigned char filling,
                          size_t bytes)
{
    struct link_view view;
    assert_int_equal(await(world, rx, &view), LINK_READY);
    assert_int_equal(view.bytes, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(((const unsigned char *)view.data)[i], filling);
    rx->ops->consume(rx, bytes);
}

static void expect_empty(struct link_rx *rx)
{
    struct link_view view;
    assert_int_equal(rx->ops->peek(rx, &view), LINK_EMPTY);
}

/* ---------------------------------------------------------------------------------------- links */

static void messages_come_as_they_were_sent(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 8, 256, 257, 4095, PIECE_BYTES};
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1);
    struct link_rx *rx = rx_of(world, SLOT, 1, 0);
    for (unsigned char i = 0; i < 70; i++) {
        assert_true(send_filled(tx, i, sizes[i % 7]));
        expect_filled(world, rx, i, sizes[i % 7]);
    }
    step(world);
    assert_true(tx->ops->consumed(tx));
    expect_empty(rx);
    tcp_world_free(world);
}

static void a_view_is_taken_in_parts(void **state)
{
    (void)state;
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1);
    struct link_rx *rx = rx_of(world, SLOT, 1, 0);
    struct link_view view;
    assert_true(send_filled(tx, 5, 1000));
    assert_int_equal(await(world, rx, &view), LINK_READY);
    const char *const data = view.data;
    rx->ops->consume(rx, 600);
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    assert_ptr_equal(view.data, data + 600);
    assert_int_equal(view.bytes, 400);
    rx->ops->consume(rx, 400);
    expect_empty(rx);
    tcp_world_free(world);
}

static void nothing_goes_before_the_receiver_has_opened(void **state)
{
    (void)state;
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1);
    assert_true(send_filled(tx, 9, 100));
    step(world);
    assert_false(tx->ops->consumed(tx));
    assert_false(tcp_is_idle(tcp_world_transports(world)[0]));
    expect_filled(world, rx_of(world, SLOT, 1, 0), 9, 100);
    step(world);
    assert_true(tx->ops->consumed(tx));
    assert_true(tcp_is_idle(tcp_world_transports(world)[0]));
    tcp_world_free(world);
}

/* As many pieces as were asked for fit, read or not; then there is no room until some are read. */
static void a_link_takes_what_it_promises_and_no_more(void **state)
{
    (void)state;
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1);
    struct link_rx *rx = rx_of(world, SLOT, 1, 0);
    unsigned sent = 0, received = 0;
    while (sent < 100 && send_filled(tx, (unsigned char)sent, PIECE_BYTES)) sent++;
    assert_in_range(sent, PIECES, 2 * PIECES);
    step(world);
    assert_false(send_filled(tx, 0, PIECE_BYTES));
    assert_true(send_filled(tx, 99, 8)); /* small messages have room of their own */
    for (; received < sent; received++)
        expect_filled(world, rx, (unsigned char)received, PIECE_BYTES);
    expect_filled(world, rx, 99, 8);
    step(world);
    for (unsigned i = 0; i < PIECES; i++) assert_true(send_filled(tx, 1, PIECE_BYTES));
    for (sent = PIECES; sent < 1000 && send_filled(tx, 2, 8); sent++) {
    }
    assert_int_equal(sent, TCP_WINDOW);
    assert_false(tx->ops->has_room(tx));
    assert_false(tx->ops->post(tx, &sent, sizeof sent));
    tcp_world_free(world);
}

static void who_does_not_read_holds_up_nobody_else(void **state)
{
    (void)state;
    struct tcp_world *world = create_world(2);
    struct link_tx *stuck = tx_of(world, SLOT, 0, 1), *other = tx_of(world, SLOT + 1, 0, 1);
    struct link_rx *never_read = rx_of(world, SLOT, 1, 0), *rx = rx_of(world, SLOT + 1, 1, 0);
    char *const large = calloc(1, 4 << 20);
    assert_non_null(large);
    while (send_filled(stuck, 1, PIECE_BYTES)) {
    }
    assert_true(stuck->ops->post(stuck, large, 4 << 20));
    step(world);
    for (unsigned char i = 0; i < 200; i++) {
        assert_true(send_filled(other, i, i % 2 != 0 ? PIECE_BYTES : 8));
        expect_filled(world, rx, i, i % 2 != 0 ? PIECE_BYTES : 8);
        step(world);
    }
    assert_true(stuck->ops->consumed(stuck) == false);
    (void)never_read;
    tcp_world_free(world);
    free(large);
}

static void a_posted_message_comes_in_pieces_and_is_consumed_when_all_are(void **state)
{
    (void)state;
    enum { BYTES = 1000000 };
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1);
    struct link_rx *rx = rx_of(world, SLOT, 1, 0);
    unsigned char *const memory = malloc(BYTES);
    assert_non_null(memory);
    for (size_t i = 0; i < BYTES; i++) memory[i] = (unsigned char)(i * 7 + (i >> 8));
    assert_int_equal(tx->ops->reach(tx, memory, BYTES), REACH_READ);
    assert_true(tx->ops->post(tx, memory, BYTES));
    assert_true(send_filled(tx, 3, 10));
    size_t done = 0;
    while (done < BYTES) {
        struct link_view view;
        assert_int_equal(await(world, rx, &view), LINK_READY);
        assert_true(view.bytes > 0 && view.bytes <= BYTES - done);
        assert_memory_equal(view.data, memory + done, view.bytes);
        assert_false(tx->ops->consumed(tx));
        done += view.bytes;
        rx->ops->consume(rx, view.bytes);
    }
    expect_filled(world, rx, 3, 10);
    /* The receiver does nothing more, and still the sender learns of it. */
    struct transport *sender = tcp_world_transports(world)[0];
    for (int i = 0; i < STEPS && !tx->ops->consumed(tx); i++) sender->ops->progress(sender);
    assert_true(tx->ops->consumed(tx));
    tcp_world_free(world);
    free(memory);
}

static void a_message_goes_when_it_is_committed(void **state)
{
    (void)state;
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1);
    struct link_rx *rx = rx_of(world, SLOT, 1, 0);
    step(world);
    assert_true(send_filled(tx, 3, 3000));
    struct transport *receiver = tcp_world_transports(world)[1];
    struct link_view view;
    for (int i = 0; i < STEPS && rx->ops->peek(rx, &view) == LINK_EMPTY; i++)
        receiver->ops->progress(receiver);
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    tcp_world_free(world);
}

static void another_signature_is_a_fault(void **state)
{
    (void)state;
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1), *other = tx_of(world, SLOT + 1, 0, 1);
    struct link_rx *rx = rx_of(world, SLOT, 1, 0), *fine = rx_of(world, SLOT + 1, 1, 0);
    struct link_view view;
    assert_true(send_filled(tx, 3, 8));
    tcp_world_transports(world)[0]->signatures[SLOT]++;
    assert_true(send_filled(tx, 4, 8));
    expect_filled(world, rx, 3, 8);
    assert_int_equal(await(world, rx, &view), LINK_FAULT);
    assert_int_equal(rx->ops->peek(rx, &view), LINK_FAULT);
    assert_true(send_filled(other, 5, 8));
    expect_filled(world, fine, 5, 8);
    tcp_world_free(world);
}

/* ------------------------------------------------------------------------------------ expecting */

static void what_is_expected_comes_where_it_is(void **state)
{
    (void)state;
    enum { BYTES = 3 * PIECE_BYTES + 100 };
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1);
    struct link_rx *rx = rx_of(world, SLOT, 1, 0);
    char sent[BYTES], destination[BYTES + 8];
    for (size_t i = 0; i < BYTES; i++) sent[i] = (char)(i * 3 + i / 256);
    memset(destination, 77, sizeof destination);
    rx->ops->advertise(rx, destination, BYTES);
    assert_true(tx->ops->post(tx, sent, BYTES));
    assert_true(send_filled(tx, 8, 100)); /* the next one is not expected */
    struct link_view view;
    for (size_t done = 0; done < BYTES;) {
        assert_int_equal(await(world, rx, &view), LINK_READY);
        assert_ptr_equal(view.data, destination + done);
        done += view.bytes;
        rx->ops->consume(rx, view.bytes);
    }
    assert_memory_equal(destination, sent, BYTES);
    expect_filled(world, rx, 8, 100);
    for (size_t i = BYTES; i < sizeof destination; i++) assert_int_equal(destination[i], 77);
    tcp_world_free(world);
}

/* As many pieces as a link's window has, though it has places for a few. */
static void what_is_expected_needs_no_places(void **state)
{
    (void)state;
    enum { BYTES = 100 * PIECE_BYTES };
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1);
    struct link_rx *rx = rx_of(world, SLOT, 1, 0);
    char *const sent = malloc(BYTES), *const destination = calloc(1, BYTES);
    assert_true(sent != NULL && destination != NULL);
    for (size_t i = 0; i < BYTES; i++) sent[i] = (char)(1 + i % 100);
    rx->ops->advertise(rx, destination, BYTES);
    step(world);
    assert_true(tx->ops->post(tx, sent, BYTES));
    step(world);
    assert_memory_equal(destination, sent, TCP_WINDOW * PIECE_BYTES);
    assert_int_equal(destination[TCP_WINDOW * PIECE_BYTES], 0);
    struct link_view view;
    for (size_t done = 0; done < BYTES;) {
        assert_int_equal(await(world, rx, &view), LINK_READY);
        assert_ptr_equal(view.data, destination + done);
        done += view.bytes;
        rx->ops->consume(rx, view.bytes);
    }
    assert_memory_equal(destination, sent, BYTES);
    assert_true(tx->ops->post(tx, sent, BYTES)); /* not again */
    step(world);
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    assert_true((const char *)view.data < destination ||
                (const char *)view.data >= destination + BYTES);
    tcp_world_free(world);
    free(sent);
    free(destination);
}

static void other_operations_are_not_expected(void **state)
{
    (void)state;
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1);
    struct link_rx *rx = rx_of(world, SLOT, 1, 0);
    unsigned char destination[1000];
    memset(destination, 77, sizeof destination);
    rx->ops->advertise(rx, destination, sizeof destination);
    tcp_world_transports(world)[0]->signatures[SLOT]++;
    assert_true(send_filled(tx, 1, sizeof destination));
    struct link_view view;
    assert_int_equal(await(world, rx, &view), LINK_FAULT);
    for (size_t i = 0; i < sizeof destination; i++) assert_int_equal(destination[i], 77);
    tcp_world_free(world);
}

static void what_is_too_long_or_not_expected_any_more_goes_elsewhere(void **state)
{
    (void)state;
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1);
    struct link_rx *rx = rx_of(world, SLOT, 1, 0);
    unsigned char destination[1000];
    memset(destination, 77, sizeof destination);
    rx->ops->advertise(rx, destination, 999);
    assert_true(send_filled(tx, 1, 1000));
    expect_filled(world, rx, 1, 1000);
    rx->ops->advertise(rx, destination, 1000);
    rx->ops->advertise(rx, NULL, 0);
    assert_true(send_filled(tx, 2, 1000));
    expect_filled(world, rx, 2, 1000);
    for (size_t i = 0; i < sizeof destination; i++) assert_int_equal(destination[i], 77);
    tcp_world_free(world);
}

static void what_is_stopped_touches_nothing(void **state)
{
    (void)state;
    struct tcp_world *world = create_world(2);
    struct link_tx *tx = tx_of(world, SLOT, 0, 1);
    struct link_rx *rx = rx_of(world, SLOT, 1, 0);
    char *const posted = calloc(1, 1 << 20), *const destination = calloc(1, 1 << 20);
    assert_true(posted != NULL && destination != NULL);
    rx->ops->advertise(rx, destination, 1 << 20);
    assert_true(tx->ops->post(tx, posted, 1 << 20));
    struct link_view view;
    assert_int_equal(await(world, rx, &view), LINK_READY);
    for (int r = 0; r < 2; r++) {
        struct transport *const rank = tcp_world_transports(world)[r];
        (void)rank->ops->stop(rank);
    }
    free(posted); /* a sanitizer notices any later read */
    free(destination);
    step(world);
    assert_true(tcp_is_idle(tcp_world_transports(world)[0]));
    tcp_world_free(world);
}

/* -------------------------------------------------------------------------------------- opening */

static void what_cannot_be_opened_is_refused(void **state)
{
    (void)state;
    struct transport *transport;
    static const struct tcp_options wrong[] = {{.rank = 2, .size = 2},
                                               {.rank = -1, .size = 2},
                                               {.size = 0},
                                               {.size = 2, .streams = TCP_STREAMS_MAX + 1},
                                               {.size = 2, .piece_bytes = 1000},
                                               {.size = 2, .piece_bytes = 64},
                                               {.size = 2, .piece_bytes = 128 << 10},
                                               {.size = 2, .piece_count = 49}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tcp_create(&wrong[i], &transport), TUTTI_INVALID_OPTIONS);
    static const struct tcp_options right = {
        .size = 3, .streams = 1, .piece_bytes = PIECE_BYTES, .piece_count = PIECES};
    assert_int_equal(tcp_create(&right, &transport), TUTTI_OK);
    struct link_tx *tx;
    struct link_rx *rx;
    assert_int_equal(transport->group_count, 0);
    assert_int_equal(transport->sharing->open_multicast_tx(transport, 0, 0, 0, 8, &tx),
                     TUTTI_UNSUPPORTED);
    assert_int_equal(transport->sharing->open_multicast_rx(transport, 0, 0, 0, 1, &rx),
                     TUTTI_UNSUPPORTED);
    assert_int_equal(transport->sharing->open_shared_slots(transport, 0), TUTTI_UNSUPPORTED);
    assert_int_equal(tcp_attach(transport, 0, 0, byte_stream_plain(dup(0))),
                     TUTTI_INVALID_OPTIONS); /* itself */
    assert_int_equal(tcp_attach(transport, 3, 0, byte_stream_plain(dup(0))), TUTTI_INVALID_OPTIONS);
    assert_int_equal(tcp_attach(transport, 1, 1, byte_stream_plain(dup(0))), TUTTI_INVALID_OPTIONS);
    size_t piece_bytes;
    unsigned piece_count;
    transport->ops->limits(transport, &piece_bytes, &piece_count);
    assert_true(piece_bytes == PIECE_BYTES && piece_count == PIECES);
    tcp_close(transport);
    tcp_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_as_they_were_sent),
        cmocka_unit_test(a_view_is_taken_in_parts),
        cmocka_unit_test(nothing_goes_before_the_receiver_has_opened),
        cmocka_unit_test(a_link_takes_what_it_promises_and_no_more),
        cmocka_unit_test(who_does_not_read_holds_up_nobody_else),
        cmocka_unit_test(a_posted_message_comes_in_pieces_and_is_consumed_when_all_are),
        cmocka_unit_test(a_message_goes_when_it_is_committed),
        cmocka_unit_test(another_signature_is_a_fault),
        cmocka_unit_test(what_is_expected_comes_where_it_is),
        cmocka_unit_test(what_is_expected_needs_no_places),
        cmocka_unit_test(other_operations_are_not_expected),
        cmocka_unit_test(what_is_too_long_or_not_expected_any_more_goes_elsewhere),
        cmocka_unit_test(what_is_stopped_touches_nothing),
        cmocka_unit_test(what_cannot_be_opened_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
