/* The transport over simulated network cards: stopping, faults, sleeping, and
 * ranks that are processes.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>

#include "os/clock.h"
#include "tests/kit/contract.h"
#include "tests/virtual_card/card_remote.h"
#include "tests/virtual_card/socket_wire.h"
#include "tests/worlds/card_world.h"
#include "transport/card/link.h"
#include "transport/card/message.h"

enum { STEPS_MAX = 1000000, BYTES = 50000, POISON = 0x5a };

static const struct card_mood moods[] = {
    {.is_virtual = false, .card = {.reach_bytes = 1, .offer_bytes = 1}},
    {.is_virtual = true,
     .packets = 3,
     .card = {.reach_bytes = 1,
              .offer_bytes = 1,
              .asked_bytes = 1,
              .landing_bytes = 2048,
              .flight_bytes = 6000}},
    {.is_virtual = true,
     .packets = 2,
     .card = {.reach_bytes = 1, .offer_bytes = 1, .receive_count = 8, .piece_count = 3}}};
enum { MOODS = sizeof moods / sizeof *moods };

static void steps(struct card_world *world, int count)
{
    for (int i = 0; i < count; i++) card_world_step(world);
}

static struct link_tx *open_tx(struct transport *transport, int peer)
{
    struct link_tx *link;
    assert_int_equal(transport->ops->open_tx(transport, 0, 0, peer, BYTES, &link), TUTTI_OK);
    return link;
}

static struct link_rx *open_rx(struct transport *transport, int peer)
{
    struct link_rx *link;
    assert_int_equal(transport->ops->open_rx(transport, 0, 0, peer, &link), TUTTI_OK);
    return link;
}

static enum link_state await(struct card_world *world, struct link_rx *rx, struct link_view *view)
{
    enum link_state state = LINK_EMPTY;
    for (int i = 0; i < STEPS_MAX && state == LINK_EMPTY; i++) {
        card_world_step(world);
        state = rx->ops->peek(rx, view);
    }
    return state;
}

/* ------------------------------------------------------------------------------------- stopping */

/* One rank posts, the other one expects, and at any time either gives up its links with the
 * memory. */
static void memory_is_not_touched_after_stopping(void **state)
{
    (void)state;
    unsigned refused = 0, in_the_middle = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct card_world *world = card_world_create(2, moods[seed % MOODS], seed);
        struct transport *const *ranks = card_world_transports(world);
        struct link_tx *tx = open_tx(ranks[0], 1);
        struct link_rx *rx = open_rx(ranks[1], 0);
        char *source = malloc(BYTES), *destination = malloc(BYTES), *copy = malloc(BYTES);
        assert_true(source != NULL && destination != NULL && copy != NULL);
        memset(source, 7, BYTES);
        memset(destination, POISON, BYTES);
        rx->ops->advertise(rx, destination, BYTES);
        steps(world, (int)(seed / 2 % 60));
        assert_true(tx->ops->post(tx, source, BYTES));
        steps(world, (int)(seed % 101));
        const int stops = (int)(seed & 1);
        assert_true(ranks[stops]->ops->stop(ranks[stops]));
        assert_int_equal(card_offered_regions(ranks[stops]), 0);
        memcpy(copy, destination, BYTES);
        in_the_middle += memchr(copy, 7, BYTES) != NULL && memchr(copy, POISON, BYTES) != NULL;
        if (stops == 0) {
            free(source); /* a sanitizer notices any later read */
            source = NULL;
        }
        steps(world, 3000);
        if (stops == 1) assert_memory_equal(destination, copy, BYTES);
        assert_int_equal(card_peer_state(ranks[1 - stops], stops), CARD_PEER_UP);
        assert_true(ranks[stops]->ops->is_settled(ranks[stops], 1 - stops));
        struct virtual_card_counts counts;
        card_world_count(world, &counts);
        refused += counts.refused > 0;
        assert_int_equal(counts.overruns, 0);
        assert_true(stops == 1 || counts.refused == 0);
        card_world_free(world);
        free(source);
        free(destination);
        free(copy);
    }
    assert_true(refused > 10 && in_the_middle > 10);
}

/* -------------------------------------------------------------------------------------- placing */

static void send_bytes(struct link_tx *tx, const void *bytes, size_t count)
{
    void *place = tx->ops->reserve(tx, count);
    assert_non_null(place);
    memcpy(place, bytes, count);
    tx->ops->commit(tx, count);
}

/* Offered memory is used if the offer came in time, for several messages that fit, and for nothing
 * else. */
static void posted_memory_comes_where_it_is_expected(void **state)
{
    (void)state;
    for (int m = 0; m < MOODS; m++) {
        struct card_world *world = card_world_create(2, moods[m], 1);
        struct transport *const *ranks = card_world_transports(world);
        struct link_tx *tx = open_tx(ranks[0], 1);
        struct link_rx *rx = open_rx(ranks[1], 0);
        char *source = malloc(BYTES), *destination = malloc(BYTES);
        assert_true(source != NULL && destination != NULL);
        for (int i = 0; i < BYTES; i++) source[i] = (char)(i * 3 + i / 256);
        rx->ops->advertise(rx, destination, BYTES);
        steps(world, 300);
        assert_int_equal(card_offered_regions(ranks[1]), 1);
        assert_true(tx->ops->post(tx, source, 20000));
        assert_true(tx->ops->post(tx, source + 20000, BYTES - 20000));
        send_bytes(tx, "behind it", 10);
        size_t at = 0;
        struct link_view view;
        while (at < BYTES) {
            assert_int_equal(await(world, rx, &view), LINK_READY);
            assert_ptr_equal(view.data, destination + at);
            assert_memory_equal(view.data, source + at, view.bytes);
            at += view.bytes;
            rx->ops->consume(rx, view.bytes);
        }
        assert_int_equal(card_offered_regions(ranks[1]), 0);
        assert_int_equal(await(world, rx, &view), LINK_READY);
        assert_string_equal(view.data, "behind it");
        rx->ops->consume(rx, view.bytes);
        card_world_settle(world);
        assert_true(tx->ops->post(tx, source, 20000));
        assert_int_equal(await(world, rx, &view), LINK_READY);
        assert_true((const char *)view.data < destination ||
                    (const char *)view.data >= destination + BYTES);
        card_world_free(world);
        free(source);
        free(destination);
    }
}

/* Long memory for which the receiver offers no place comes through a landing that is much smaller,
 * however much the receiver takes at a time. */
static void long_memory_comes_through_a_landing(void **state)
{
    (void)state;
    for (int m = 0; m < MOODS; m++) {
        struct card_mood mood = moods[m];
        mood.card.asked_bytes = 5000;
        mood.card.landing_bytes = 1024;
        struct card_world *world = card_world_create(2, mood, 1);
        struct transport *const *ranks = card_world_transports(world);
        struct link_tx *tx = open_tx(ranks[0], 1);
        struct link_rx *rx = open_rx(ranks[1], 0);
        char *source = malloc(BYTES);
        assert_non_null(source);
        for (int i = 0; i < BYTES; i++) source[i] = (char)(i * 3 + i / 256);
        assert_true(tx->ops->post(tx, source, BYTES - 4999));
        assert_true(tx->ops->post(tx, source + BYTES - 4999, 4999)); /* too short for it */
        size_t at = 0;
        struct link_view view;
        while (at < BYTES) {
            assert_int_equal(await(world, rx, &view), LINK_READY);
            if (m == 0 && at < BYTES - 4999) assert_true(view.bytes <= 1024 / CARD_LANDING_PARTS);
            const size_t bytes = at % 7 == 0 && view.bytes > 100 ? 100 : view.bytes;
            assert_memory_equal(view.data, source + at, bytes);
            at += bytes;
            rx->ops->consume(rx, bytes);
        }
        card_world_settle(world);
        assert_true(tx->ops->consumed(tx));
        assert_int_equal(card_offered_regions(ranks[0]), 0);
        assert_int_equal(card_offered_regions(ranks[1]), 0);
        card_world_free(world);
        free(source);
    }
}

/* The first offer comes before the sender has opened its end, and is lost there. */
static void an_offer_is_said_again_to_who_asks(void **state)
{
    (void)state;
    for (int m = 0; m < MOODS; m++) {
        struct card_mood mood = moods[m];
        mood.card.asked_bytes = 1;
        mood.card.flight_bytes = CARD_FLIGHT_ANY; /* it comes in one write */
        struct card_world *world = card_world_create(2, mood, 1);
        struct transport *const *ranks = card_world_transports(world);
        struct link_rx *rx = open_rx(ranks[1], 0);
        char *source = calloc(1, BYTES), *destination = malloc(BYTES);
        assert_true(source != NULL && destination != NULL);
        rx->ops->advertise(rx, destination, BYTES);
        steps(world, 300);
        struct link_tx *tx = open_tx(ranks[0], 1);
        assert_true(tx->ops->post(tx, source, BYTES));
        struct link_view view;
        assert_int_equal(await(world, rx, &view), LINK_READY);
        assert_ptr_equal(view.data, destination);
        assert_int_equal(view.bytes, BYTES);
        rx->ops->consume(rx, BYTES);
        card_world_settle(world);
        card_world_free(world);
        free(source);
        free(destination);
    }
}

/* If no landing could be made, bytes come by messages, and no rank can have written any. */
static void without_a_landing_nothing_is_placed(void **state)
{
    (void)state;
    static const struct card_shape shape = {
        .piece_bytes = 64, .window = 4, .asked_bytes = 1, .landing_bytes = 512};
    const uint64_t signature = 7;
    struct card_message message = {
        .kind = CARD_MESSAGE_ASK, .length = UINT32_MAX, .signature = signature};
    char head[CARD_MESSAGE_HEAD_BYTES + 64] = "";
    struct card_buffer buffer = {.data = head};
    struct link_view view;
    struct card_rx *rx;
    assert_int_equal(card_rx_create(&shape, &signature, &rx), TUTTI_OK);
    assert_null(card_rx_arrive(rx, &message, NULL, 0));
    assert_false(card_rx_ask_landing(rx)); /* its user may still offer a place */
    assert_true(card_rx_ask_landing(rx));
    card_rx_land(rx);
    message.sequence = 1;
    message.kind = CARD_MESSAGE_PLACED;
    message.offset = UINT32_MAX / 2;
    message.length = 10;
    assert_non_null(card_rx_arrive(rx, &message, NULL, 0));
    message.kind = CARD_MESSAGE_DATA;
    message.offset = 0;
    assert_null(card_rx_arrive(rx, &message, &buffer, 64));
    assert_int_equal(card_rx_peek(rx, &view), LINK_READY);
    assert_ptr_equal(card_rx_consume(rx, 64), &buffer);
    card_rx_free(rx);
}

/* Both ends of a link, whose messages the test carries. */
static const struct card_shape ahead_shape = {
    .piece_bytes = 64, .window = 8, .asked_bytes = 1, .landing_bytes = 4096};

static void a_sender_that_fills_a_landing_asks_for_what_is_behind(void **state)
{
    (void)state;
    const uint64_t signature = 7;
    char memory[2000] = "";
    struct card_piece piece;
    struct card_tx *tx;
    struct card_grant grant = {.message = {.kind = CARD_MESSAGE_GRANT}};
    assert_int_equal(card_tx_create(&ahead_shape, &signature, &tx), TUTTI_OK);
    assert_true(card_tx_granted(tx, &grant));
    card_tx_post(tx, memory, 1500, 9);
    card_tx_post(tx, memory, 500, 9);
    assert_true(card_tx_next(tx, SIZE_MAX, &piece));
    assert_int_equal(piece.message.kind, CARD_MESSAGE_ASK);
    assert_int_equal(piece.message.length, 1500);
    card_tx_given(tx, &piece);
    assert_false(card_tx_next(tx, SIZE_MAX, &piece)); /* no word yet where bytes go */
    grant.message = (struct card_message){.kind = CARD_MESSAGE_GRANT,
                                          .consumed = 1,
                                          .key = 5,
                                          .length = 1500,
                                          .room = 4096,
                                          .signature = signature};
    assert_true(card_tx_granted(tx, &grant));
    assert_true(card_tx_next(tx, SIZE_MAX, &piece));
    assert_int_equal(piece.message.kind, CARD_MESSAGE_ASK);
    assert_int_equal(piece.message.offset, 1500);
    assert_int_equal(piece.message.length, 500);
    card_tx_given(tx, &piece);
    for (size_t at = 0; at < 1500; at += piece.memory.bytes) {
        assert_true(card_tx_next(tx, SIZE_MAX, &piece));
        assert_true(piece.is_write);
        assert_int_equal(piece.at, at);
        card_tx_given(tx, &piece);
    }
    assert_false(card_tx_next(tx, SIZE_MAX, &piece)); /* it has asked for the second one */
    grant.message.length = 2000;
    assert_true(card_tx_granted(tx, &grant));
    assert_true(card_tx_next(tx, SIZE_MAX, &piece));
    assert_true(piece.is_write);
    assert_int_equal(piece.at, 1500);
    card_tx_free(tx);
}

static void a_landing_goes_on_until_its_user_says_where_bytes_belong(void **state)
{
    (void)state;
    const uint64_t signature = 7;
    struct card_message ask = {.kind = CARD_MESSAGE_ASK, .length = 1000, .signature = signature};
    struct card_grant grant;
    struct card_rx *rx;
    assert_int_equal(card_rx_create(&ahead_shape, &signature, &rx), TUTTI_OK);
    rx->landing = malloc(ahead_shape.landing_bytes);
    assert_non_null(rx->landing);
    rx->landing_target.key = 5;
    assert_null(card_rx_arrive(rx, &ask, NULL, 0));
    (void)card_rx_ask_landing(rx);
    assert_true(card_rx_ask_landing(rx));
    card_rx_land(rx);
    ask.sequence = 2; /* it overtakes another message */
    ask.offset = 1000;
    ask.length = 500;
    assert_null(card_rx_arrive(rx, &ask, NULL, 0));
    assert_true(card_rx_should_tell(rx));
    card_rx_tell(rx, &grant);
    assert_int_equal(grant.message.length, 1500);
    card_rx_told(rx);
    card_rx_wish(rx, 1600);
    ask.sequence = 3;
    ask.offset = 1500;
    ask.length = 100;
    assert_null(card_rx_arrive(rx, &ask, NULL, 0));
    card_rx_tell(rx, &grant);
    assert_int_equal(grant.message.length, 1600);
    ask.sequence = 4;
    ask.offset = 1600;
    assert_null(card_rx_arrive(rx, &ask, NULL, 0));
    card_rx_tell(rx, &grant);
    assert_int_equal(grant.message.length, 1600);
    card_rx_free(rx);
}

/* The peer waits for these answers, and gets them before this rank has nothing else to do. */
static void what_a_sender_waits_for_is_told_at_once(void **state)
{
    (void)state;
    const uint64_t signature = 7;
    const size_t part = ahead_shape.landing_bytes / CARD_LANDING_PARTS;
    struct card_message message = {.kind = CARD_MESSAGE_ASK, .signature = signature};
    struct card_grant grant;
    struct card_rx *rx;
    char destination[100];
    const struct card_target target = {.key = 6};
    assert_int_equal(card_rx_create(&ahead_shape, &signature, &rx), TUTTI_OK);
    card_rx_offer(rx, destination, sizeof destination, 9, &target);
    card_rx_told(rx); /* but the sender had not opened its end */
    assert_false(card_rx_should_tell(rx));
    message.length = sizeof destination;
    assert_null(card_rx_arrive(rx, &message, NULL, 0));
    assert_true(card_rx_should_tell(rx));
    card_rx_tell(rx, &grant);
    assert_int_equal(grant.message.key, 6);
    assert_int_equal(grant.message.length, sizeof destination);
    card_rx_free(rx);

    assert_int_equal(card_rx_create(&ahead_shape, &signature, &rx), TUTTI_OK);
    rx->landing = malloc(ahead_shape.landing_bytes);
    assert_non_null(rx->landing);
    rx->landing_target.key = 5;
    message.length = 2 * ahead_shape.landing_bytes;
    assert_null(card_rx_arrive(rx, &message, NULL, 0));
    (void)card_rx_ask_landing(rx);
    assert_true(card_rx_ask_landing(rx));
    card_rx_land(rx);
    card_rx_tell(rx, &grant);
    assert_int_equal(grant.message.length, ahead_shape.landing_bytes);
    card_rx_told(rx);
    assert_false(card_rx_should_tell(rx));
    message = (struct card_message){
        .kind = CARD_MESSAGE_PLACED, .sequence = 1, .length = part, .key = 5, .signature = signature};
    assert_null(card_rx_arrive(rx, &message, NULL, 0));
    assert_null(card_rx_consume(rx, part - 1));
    assert_false(card_rx_should_tell(rx));
    assert_null(card_rx_consume(rx, 1));
    assert_true(card_rx_should_tell(rx));
    card_rx_tell(rx, &grant);
    assert_int_equal(grant.message.length, ahead_shape.landing_bytes + part);
    card_rx_free(rx);
}

static void a_message_of_another_signature_is_a_fault(void **state)
{
    (void)state;
    for (int m = 0; m < MOODS; m++) {
        struct card_world *world = card_world_create(2, moods[m], 1);
        struct transport *const *ranks = card_world_transports(world);
        struct link_tx *tx = open_tx(ranks[0], 1);
        struct link_rx *rx = open_rx(ranks[1], 0);
        struct link_view view;
        ranks[0]->signatures[0] = 1;
        ranks[1]->signatures[0] = 2;
        send_bytes(tx, "what", 4);
        assert_int_equal(await(world, rx, &view), LINK_FAULT);
        card_world_free(world);
    }
}

static void no_function_is_missing(void **state)
{
    (void)state;
    struct card_world *world = card_world_create(2, moods[0], 1);
    struct transport *const *ranks = card_world_transports(world);
    contract_expect_whole(ranks[0], open_tx(ranks[0], 1), open_rx(ranks[0], 1));
    card_world_free(world);
}

static void there_are_no_groups(void **state)
{
    (void)state;
    struct card_world *world = card_world_create(2, moods[0], 1);
    struct transport *transport = card_world_transports(world)[0];
    struct link_tx *tx;
    assert_int_equal(transport->group_count, 0);
    assert_int_equal(transport->sharing->open_multicast_tx(transport, 0, 0, 0, 8, &tx),
                     TUTTI_UNSUPPORTED);
    card_world_free(world);
}

/* ------------------------------------------------------------------------------------ strangers */

/* Messages that no peer sends. The receives and links are those of the transport at the other
 * end. */
static const struct card_message nonsense[] = {
    {.kind = 0},
    {.kind = 99},
    {.kind = CARD_MESSAGE_DATA, .index = 5},
    {.kind = CARD_MESSAGE_DATA, .index = TRANSPORT_LINK_COUNT},
    {.kind = CARD_MESSAGE_DATA, .index = UINT16_MAX},
    {.kind = CARD_MESSAGE_DATA, .number = 100},
    {.kind = CARD_MESSAGE_CREDIT, .number = UINT32_MAX},
    {.kind = CARD_MESSAGE_DATA, .sequence = 99},
    {.kind = CARD_MESSAGE_DATA, .sequence = UINT64_MAX},
    {.kind = CARD_MESSAGE_PLACED, .length = 10},
    {.kind = CARD_MESSAGE_PLACED, .key = 1, .length = 10},
    {.kind = CARD_MESSAGE_ASK},
    {.kind = CARD_MESSAGE_ASK, .offset = UINT64_MAX, .length = 10},
    {.kind = CARD_MESSAGE_ASK, .sequence = 99, .length = 10},
    {.kind = CARD_MESSAGE_GRANT, .index = TRANSPORT_LINK_COUNT},
    {.kind = CARD_MESSAGE_GRANT, .consumed = 1},
    {.kind = CARD_MESSAGE_CREDIT, .posted = 1000},
    {.kind = CARD_MESSAGE_CREDIT + 1},
};

static void a_peer_that_makes_no_sense_is_broken(void **state)
{
    (void)state;
    setenv("TUTTI_LOG", "off", 1);
    for (unsigned n = 0; n < sizeof nonsense / sizeof *nonsense; n++) {
        const uint64_t key = (uint64_t)getpid() << 32 ^ n;
        const struct card_options options = {.size = 2};
        const struct virtual_card_options own = {.size = 2};
        const struct virtual_card_options stranger = {.rank = 1, .size = 2, .nonce = 7};
        const struct card_memory nothing = {0};
        struct card_wire *wires[2];
        struct transport *transport;
        struct card_device *device;
        struct link_view view;
        for (int r = 0; r < 2; r++)
            assert_int_equal(card_socket_wire_open(key, r, 2, &wires[r]), TUTTI_OK);
        assert_int_equal(virtual_card_open(&options, &own, wires[0], &transport), TUTTI_OK);
        assert_int_equal(virtual_card_create(&stranger, wires[1], &device), TUTTI_OK);
        assert_int_equal(device->ops->prepare(device, 0), TUTTI_OK);
        struct link_rx *rx = open_rx(transport, 1);
        (void)open_tx(transport, 1);
        device->ops->connect(device, 0);
        bool is_sent = false;
        for (int i = 0; i < STEPS_MAX && card_peer_state(transport, 1) != CARD_PEER_BROKEN; i++) {
            transport->ops->progress(transport);
            device->ops->progress(device);
            if (!is_sent)
                is_sent =
                    device->ops->send(device, 0, &nonsense[n], sizeof nonsense[n], &nothing, 0);
        }
        assert_int_equal(card_peer_state(transport, 1), CARD_PEER_BROKEN);
        assert_int_equal(rx->ops->peek(rx, &view), LINK_FAULT);
        assert_true(transport->ops->is_settled(transport, 1)); /* it waits for no peer */
        card_close(transport);
        device->ops->free(device);
    }
    unsetenv("TUTTI_LOG");
}

/* ------------------------------------------------------------------------------------- sleeping */

static void *wake_later(void *context)
{
    struct transport *transport = context;
    const struct timespec pause = {.tv_nsec = 20000000};
    nanosleep(&pause, NULL);
    transport->ops->wake(transport);
    return NULL;
}

static void another_thread_ends_a_sleep(void **state)
{
    (void)state;
    struct card_world *world = card_world_create(2, moods[0], 1);
    struct transport *transport = card_world_transports(world)[0];
    pthread_t thread;
    transport->ops->sleep_begin(transport);
    transport->ops->progress(transport);
    assert_int_equal(pthread_create(&thread, NULL, wake_later, transport), 0);
    const uint64_t begin_ns = clock_now_ns();
    transport->ops->sleep(transport, UINT64_C(20000000000));
    assert_true(clock_now_ns() - begin_ns < UINT64_C(10000000000));
    assert_int_equal(pthread_join(thread, NULL), 0);
    card_world_free(world);
}

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd descriptor = {.fd = fd, .events = POLLIN};
    return poll(&descriptor, 1, timeout_ms) == 1;
}

static void quiet(struct transport *transport)
{
    for (int i = 0; i < 2000; i++) transport->ops->progress(transport);
}

/* One rank sleeps until the other one does something, again and again: no rank sleeps while work is
 * left. */
static void what_comes_ends_a_sleep(void **state)
{
    (void)state;
    struct card_world *world = card_world_create(2, moods[0], 1);
    struct transport *const *ranks = card_world_transports(world);
    struct link_tx *tx = open_tx(ranks[0], 1);
    struct link_rx *rx = open_rx(ranks[1], 0);
    for (int i = 0; i < 50; i++) {
        struct link_view view;
        card_world_settle(world);
        quiet(ranks[0]);
        quiet(ranks[1]);
        send_bytes(tx, &i, sizeof i);
        while (rx->ops->peek(rx, &view) == LINK_EMPTY) {
            quiet(ranks[0]);
            ranks[1]->ops->sleep_begin(ranks[1]);
            const int fd = ranks[1]->ops->descriptor(ranks[1]);
            ranks[1]->ops->progress(ranks[1]);
            if (rx->ops->peek(rx, &view) == LINK_EMPTY) assert_true(is_readable(fd, 10000));
            ranks[1]->ops->sleep_cancel(ranks[1]);
        }
        assert_int_equal(*(const int *)view.data, i);
        rx->ops->consume(rx, view.bytes);
    }
    card_world_free(world);
}

static void its_footprint_is_counted(void **state)
{
    (void)state;
    struct card_world *world = card_world_create(2, moods[0], 1);
    struct transport *transport = card_world_transports(world)[0];
    struct transport_footprint before = {0}, after = {0};
    transport->ops->add_footprint(transport, &before);
    (void)open_tx(transport, 1);
    (void)open_rx(transport, 1);
    transport->ops->add_footprint(transport, &after);
    assert_int_equal(before.link_count, 0);
    assert_int_equal(after.link_count, 2);
    assert_int_equal(after.descriptor_count, 4);
    /* Receives of the pair, slots of the one link, buffers of the other one. */
    assert_true(after.private_bytes - before.private_bytes > (32 + 2 * 16) * (size_t)4000);
    card_world_free(world);
}

/* ------------------------------------------------------------------------------------ processes */

enum { PROCESSES = 4, MESSAGES = 200 };
static const uint64_t PATIENCE_NS = UINT64_C(30000000000);

static size_t size_of(int number)
{
    return (size_t)number * 37 % 4000;
}

/* Byte values of message `number` from that rank. */
static bool is_right(const struct link_view *view, int from, int number)
{
    if (view->bytes != size_of(number)) return false;
    for (size_t i = 0; i < view->bytes; i++)
        if (((const unsigned char *)view->data)[i] != (unsigned char)(from * 50 + number))
            return false;
    return true;
}

static bool send_next(struct link_tx *tx, int rank, int number)
{
    void *place = tx->ops->reserve(tx, size_of(number));
    if (place == NULL) return false;
    memset(place, rank * 50 + number, size_of(number));
    tx->ops->commit(tx, size_of(number));
    return true;
}

/* 1 when all has come right, 0 while something is missing, -1: it came wrong. */
static int exchange(struct transport *transport, struct link_tx **tx, struct link_rx **rx,
                    int *sent, int *received)
{
    bool is_done = true;
    for (int peer = 0; peer < PROCESSES; peer++) {
        struct link_view view;
        if (peer == transport->rank) continue;
        while (sent[peer] < MESSAGES && send_next(tx[peer], transport->rank, sent[peer]))
            sent[peer]++;
        while (rx[peer]->ops->peek(rx[peer], &view) == LINK_READY) {
            if (!is_right(&view, peer, received[peer]++)) return -1;
            rx[peer]->ops->consume(rx[peer], view.bytes);
        }
        is_done &= sent[peer] == MESSAGES && received[peer] == MESSAGES;
    }
    return is_done;
}

/* Sleeps between looks, like a rank that waits. */
static void rest(struct transport *transport)
{
    if (transport->ops->progress(transport)) return;
    transport->ops->sleep_begin(transport);
    if (transport->ops->progress(transport))
        transport->ops->sleep_cancel(transport);
    else
        transport->ops->sleep(transport, 1000000);
}

static int run_process(uint64_t key, int rank)
{
    const uint64_t deadline_ns = clock_now_ns() + PATIENCE_NS;
    const struct card_options options = {.rank = rank, .size = PROCESSES};
    const struct virtual_card_options own = {.rank = rank, .size = PROCESSES, .seed = (uint64_t)rank};
    struct card_wire *wire;
    struct transport *transport;
    struct link_tx *tx[PROCESSES];
    struct link_rx *rx[PROCESSES];
    int sent[PROCESSES] = {0}, received[PROCESSES] = {0}, result = 0;
    if (card_socket_wire_open(key, rank, PROCESSES, &wire) != TUTTI_OK ||
        virtual_card_open(&options, &own, wire, &transport) != TUTTI_OK)
        return 2;
    for (int peer = 0; peer < PROCESSES; peer++) {
        if (peer == rank) continue;
        tx[peer] = open_tx(transport, peer);
        rx[peer] = open_rx(transport, peer);
    }
    while ((result = exchange(transport, tx, rx, sent, received)) == 0) {
        if (clock_now_ns() > deadline_ns) return 3;
        rest(transport);
    }
    for (int peer = 0; peer < PROCESSES; peer++)
        while (!transport->ops->is_settled(transport, peer)) {
            transport->ops->flush(transport);
            if (clock_now_ns() > deadline_ns) return 4;
        }
    card_close(transport);
    return result == 1 ? 0 : 5;
}

static void ranks_are_processes(void **state)
{
    (void)state;
    const uint64_t key = (uint64_t)getpid() << 32 ^ 77;
    pid_t children[PROCESSES];
    for (int r = 0; r < PROCESSES; r++) {
        children[r] = fork();
        assert_true(children[r] >= 0);
        if (children[r] == 0) _exit(run_process(key, r));
    }
    for (int r = 0; r < PROCESSES; r++) {
        int status;
        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void a_rank_that_was_killed_is_lost(void **state)
{
    (void)state;
    const uint64_t key = (uint64_t)getpid() << 32 ^ 78, deadline_ns = clock_now_ns() + PATIENCE_NS;
    const struct card_options options = {.size = PROCESSES};
    const struct virtual_card_options own = {.size = PROCESSES};
    struct card_wire *wire;
    struct transport *transport;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(run_process(key, 1)); /* which lacks the others, and waits */
    assert_int_equal(card_socket_wire_open(key, 0, PROCESSES, &wire), TUTTI_OK);
    assert_int_equal(virtual_card_open(&options, &own, wire, &transport), TUTTI_OK);
    (void)open_tx(transport, 1);
    while (card_peer_state(transport, 1) != CARD_PEER_UP && clock_now_ns() < deadline_ns)
        transport->ops->progress(transport);
    assert_int_equal(card_peer_state(transport, 1), CARD_PEER_UP);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    while (card_peer_state(transport, 1) != CARD_PEER_LOST && clock_now_ns() < deadline_ns)
        transport->ops->progress(transport);
    assert_int_equal(card_peer_state(transport, 1), CARD_PEER_LOST);
    assert_true(transport->ops->is_settled(transport, 1));
    card_close(transport);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_not_touched_after_stopping),
        cmocka_unit_test(posted_memory_comes_where_it_is_expected),
        cmocka_unit_test(long_memory_comes_through_a_landing),
        cmocka_unit_test(an_offer_is_said_again_to_who_asks),
        cmocka_unit_test(without_a_landing_nothing_is_placed),
        cmocka_unit_test(a_sender_that_fills_a_landing_asks_for_what_is_behind),
        cmocka_unit_test(a_landing_goes_on_until_its_user_says_where_bytes_belong),
        cmocka_unit_test(what_a_sender_waits_for_is_told_at_once),
        cmocka_unit_test(a_message_of_another_signature_is_a_fault),
        cmocka_unit_test(no_function_is_missing),
        cmocka_unit_test(there_are_no_groups),
        cmocka_unit_test(a_peer_that_makes_no_sense_is_broken),
        cmocka_unit_test(another_thread_ends_a_sleep),
        cmocka_unit_test(what_comes_ends_a_sleep),
        cmocka_unit_test(its_footprint_is_counted),
        cmocka_unit_test(ranks_are_processes),
        cmocka_unit_test(a_rank_that_was_killed_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
