/* Control messages: each is heard once and in its order, beside data, over wires that break, and
 * when links are stopped in the middle of messages.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/tcp_peer.h"
#include "tests/worlds/tcp_world.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/tcp.h"

enum { RANKS = 3, NOTES = 300, STEPS_MAX = 2000000, BYTES = 2 << 20, PIECE_BYTES = 64 << 10 };

/* --------------------------------------------------------------------------------- what is told */

/* The numbers of control messages from each rank to each; a control message's number determines its
 * contents. */
struct talk {
    struct tcp_world *world;
    unsigned told[RANKS][RANKS], heard[RANKS][RANKS];
};

static size_t bytes_of(unsigned number)
{
    return sizeof number + number * 37 % (TCP_FRAME_CONTROL_BYTES_MAX - sizeof number + 1);
}

static void hear(void *context, int rank, int peer, const void *message, size_t bytes)
{
    struct talk *talk = context;
    unsigned number;
    assert_true(bytes >= sizeof number);
    memcpy(&number, message, sizeof number);
    assert_int_equal(number, talk->heard[peer][rank]++); /* once, and in order */
    assert_int_equal(bytes, bytes_of(number));
    for (size_t i = sizeof number; i < bytes; i++)
        assert_int_equal(((const unsigned char *)message)[i], (unsigned char)(number + i));
}

/* False: the control message is refused, because as many as possible are under way. */
static bool tell(struct talk *talk, int rank, int peer)
{
    unsigned char message[TCP_FRAME_CONTROL_BYTES_MAX];
    const unsigned number = talk->told[rank][peer];
    memcpy(message, &number, sizeof number);
    for (size_t i = sizeof number; i < sizeof message; i++)
        message[i] = (unsigned char)(number + i);
    const enum tutti_status status =
        tcp_tell(tcp_world_transports(talk->world)[rank], peer, message, bytes_of(number));
    assert_true(status == TUTTI_OK || status == TUTTI_NO_MEMORY);
    if (status != TUTTI_OK) {
        assert_true(number - talk->heard[rank][peer] <= CONTROL_MESSAGES_MAX);
        return false;
    }
    talk->told[rank][peer]++;
    return true;
}

static bool all_is_heard(const struct talk *talk)
{
    return memcmp(talk->told, talk->heard, sizeof talk->told) == 0;
}

static void await_all(struct talk *talk)
{
    for (int i = 0; !all_is_heard(talk); i++) {
        assert_true(i < STEPS_MAX);
        tcp_world_step(talk->world);
    }
}

static void open_talk(struct talk *talk, int size, struct tcp_mood mood, uint64_t seed)
{
    *talk = (struct talk){0};
    mood.hears = hear;
    mood.hears_context = talk;
    talk->world = tcp_world_create(size, mood, seed);
}

static const struct tcp_mood plain = {
    .streams = 2, .piece_bytes = PIECE_BYTES, .piece_count = 4, .is_plain = true};
static const struct tcp_mood rough = {.streams = 2,
                                      .piece_bytes = PIECE_BYTES,
                                      .piece_count = 4,
                                      .gulp = 3000,
                                      .breaks = 400,
                                      .silence = 30};

/* ---------------------------------------------------------------------------------------- links */

/* Links each way between two ranks, with more posted than the ranks can have taken. */
struct lines {
    struct link_tx *tx[2];
    struct link_rx *rx[2];
    char *posted[2], *expected[2];
};

static unsigned char value_at(size_t i)
{
    return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 31);
}

static void open_lines(struct tcp_world *world, struct lines *lines, bool expects)
{
    struct transport *const *ranks = tcp_world_transports(world);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(ranks[r]->ops->open_tx(ranks[r], 0, 0, 1 - r, BYTES, &lines->tx[r]),
                         TUTTI_OK);
        assert_int_equal(ranks[r]->ops->open_rx(ranks[r], 0, 0, 1 - r, &lines->rx[r]), TUTTI_OK);
        lines->posted[r] = malloc(BYTES);
        lines->expected[r] = malloc(BYTES);
        assert_true(lines->posted[r] != NULL && lines->expected[r] != NULL);
        for (size_t i = 0; i < BYTES; i++) lines->posted[r][i] = (char)value_at(i);
        if (expects) lines->rx[r]->ops->advertise(lines->rx[r], lines->expected[r], BYTES);
        assert_true(lines->tx[r]->ops->post(lines->tx[r], lines->posted[r], BYTES));
    }
}

/* As when an operation is given up: its memory goes away. A sanitizer notices any later read. */
static void stop(struct tcp_world *world, struct lines *lines, int rank)
{
    (void)tcp_world_transports(world)[rank]->ops->stop(tcp_world_transports(world)[rank]);
    memset(lines->posted[rank], 0, BYTES);
    free(lines->posted[rank]);
    free(lines->expected[rank]);
    lines->posted[rank] = lines->expected[rank] = NULL;
}

static void close_lines(struct lines *lines)
{
    for (int r = 0; r < 2; r++) {
        free(lines->posted[r]);
        free(lines->expected[r]);
    }
}

/* ---------------------------------------------------------------------------------------- tests */

static void control_messages_need_no_link_and_want_their_connection(void **state)
{
    (void)state;
    struct talk talk;
    open_talk(&talk, 2, plain, 1);
    struct transport *const *ranks = tcp_world_transports(talk.world);
    assert_true(tell(&talk, 0, 1));
    assert_false(tcp_is_idle(ranks[0]) || tcp_is_settled(ranks[0], 1));
    await_all(&talk);
    assert_true(tell(&talk, 1, 0));
    await_all(&talk);
    tcp_world_settle(talk.world);
    for (int i = 0; i < 1000; i++) tcp_world_step(talk.world);
    assert_true(tcp_is_settled(ranks[0], 1) && tcp_is_settled(ranks[1], 0));
    assert_true(tcp_world_finish(ranks[0]));
    tcp_world_free(talk.world);
}

static void what_is_not_heard_is_bounded(void **state)
{
    (void)state;
    struct talk talk;
    open_talk(&talk, 2, plain, 2);
    const int places = CONTROL_MESSAGES_MAX - CONTROL_FINAL_MESSAGES;
    for (int i = 0; i < places; i++) assert_true(tell(&talk, 0, 1));
    assert_false(tell(&talk, 0, 1));
    await_all(&talk);
    for (int i = 0; i < 1000; i++) tcp_world_step(talk.world); /* the peer says so */
    for (int i = 0; i < places; i++) assert_true(tell(&talk, 0, 1));
    assert_false(tell(&talk, 0, 1));
    await_all(&talk);
    tcp_world_free(talk.world);
}

/* A control message that is acknowledged late is sent again: it may come over one connection while
 * it is still on its way over another. */
static void control_messages_are_heard_once_over_wires_that_break(void **state)
{
    (void)state;
    for (unsigned streams = 1; streams <= 3; streams++) {
        struct tcp_mood mood = rough;
        struct talk talk;
        mood.streams = streams;
        mood.gulp = 400;
        open_talk(&talk, RANKS, mood, streams);
        for (int i = 0; talk.told[0][1] + talk.told[1][0] + talk.told[2][0] < 3 * NOTES; i++) {
            assert_true(i < STEPS_MAX);
            tcp_world_step(talk.world);
            const int rank = (int)(tcp_world_draw(talk.world) % RANKS);
            const int peer = (rank + 1 + (int)(tcp_world_draw(talk.world) % 2)) % RANKS;
            if (tcp_world_draw(talk.world) % 4 == 0) (void)tell(&talk, rank, peer);
        }
        assert_true(tcp_world_broken(talk.world) > 10);
        await_all(&talk);
        tcp_world_set_breaks(talk.world, 0);
        tcp_world_settle(talk.world);
        for (int i = 0; i < 3000; i++) tcp_world_step(talk.world);
        for (int r = 0; r < RANKS; r++)
            for (int p = 0; p < RANKS; p++)
                if (p != r) assert_true(tcp_is_settled(tcp_world_transports(talk.world)[r], p));
        tcp_world_free(talk.world);
    }
}

static void who_stops_in_the_middle_tells_and_hears(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct tcp_mood mood = rough;
        struct talk talk;
        struct lines lines;
        if (seed % 2 == 0) mood.breaks = 0;
        open_talk(&talk, 2, mood, seed);
        open_lines(talk.world, &lines, seed % 4 < 2);
        const uint64_t steps = 50 + tcp_world_draw(talk.world) % 500;
        for (uint64_t i = 0; i < steps; i++) tcp_world_step(talk.world);
        for (int r = 0; r < 2; r++) (void)tell(&talk, r, 1 - r);
        for (int r = 0; r < 2; r++) stop(talk.world, &lines, r);
        for (int r = 0; r < 2; r++) assert_true(tell(&talk, r, 1 - r));
        await_all(&talk);
        tcp_world_break_all(talk.world, 0, 1);
        for (unsigned i = 0; i < 40; i++) {
            (void)tell(&talk, i % 2 == 0, i % 2 != 0);
            for (int s = 0; s < 30; s++) tcp_world_step(talk.world);
        }
        await_all(&talk);
        tcp_world_set_breaks(talk.world, 0);
        tcp_world_settle(talk.world);
        for (int i = 0; i < 2000; i++) tcp_world_step(talk.world);
        for (int r = 0; r < 2; r++) {
            struct peer_report report;
            tcp_report(tcp_world_transports(talk.world)[r], 1 - r, &report);
            assert_int_equal(report.state, PEER_UP);
            assert_true(tcp_is_settled(tcp_world_transports(talk.world)[r], 1 - r));
        }
        tcp_world_free(talk.world);
        close_lines(&lines);
    }
}

/* The peer reads the bytes that were sent, and no others; its own memory is still in use. */
static void who_goes_on_sees_no_other_bytes_than_were_sent(void **state)
{
    (void)state;
    size_t sum = 0;
    unsigned cut_off = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct tcp_mood mood = rough;
        struct talk talk;
        struct lines lines;
        if (seed % 2 == 0) mood.breaks = 0;
        open_talk(&talk, 2, mood, 100 + seed);
        open_lines(talk.world, &lines, seed % 4 < 2);
        const uint64_t steps = 50 + tcp_world_draw(talk.world) % 500;
        for (uint64_t i = 0; i < steps; i++) tcp_world_step(talk.world);
        stop(talk.world, &lines, 0);
        assert_true(tell(&talk, 0, 1));
        size_t taken = 0;
        for (int i = 0; i < 6000; i++) {
            struct link_view view;
            tcp_world_step(talk.world);
            if (i == 3000) tcp_world_break_all(talk.world, 0, 1);
            const enum link_state found = lines.rx[1]->ops->peek(lines.rx[1], &view);
            assert_true(found != LINK_FAULT);
            if (found == LINK_EMPTY) continue;
            for (size_t b = 0; b < view.bytes; b++)
                if (((const unsigned char *)view.data)[b] != value_at(taken + b))
                    fail_msg("byte %zu is wrong", taken + b);
            taken += view.bytes;
            lines.rx[1]->ops->consume(lines.rx[1], view.bytes);
        }
        sum += taken;
        cut_off += taken < BYTES;
        assert_true(tell(&talk, 1, 0));
        await_all(&talk);
        struct peer_report report;
        tcp_report(tcp_world_transports(talk.world)[1], 0, &report);
        assert_true(report.state != PEER_BROKEN);
        /* The rank has sent something that will never be consumed, but if it stops, too, it need
         * not wait for that. */
        stop(talk.world, &lines, 1);
        tcp_world_set_breaks(talk.world, 0);
        tcp_world_settle(talk.world);
        for (int i = 0; i < 2000; i++) tcp_world_step(talk.world);
        assert_true(tcp_is_settled(tcp_world_transports(talk.world)[1], 0));
        tcp_world_free(talk.world);
        close_lines(&lines);
    }
    assert_true(sum > BYTES && cut_off > 15); /* much came, and much did not */
}

/* A rank answers each control message while it hears it, as a rank that passes a failure on
 * would. */
struct echo {
    struct transport *transport;
    unsigned heard, answered;
};

static void answer(void *context, int peer, const void *message, size_t bytes)
{
    struct echo *echo = context;
    echo->heard++;
    if (tcp_tell(echo->transport, peer, message, bytes) == TUTTI_OK) echo->answered++;
}

static void who_hears_may_answer_at_once(void **state)
{
    (void)state;
    struct echo echoes[2] = {0};
    for (int r = 0; r < 2; r++) {
        const struct tcp_options options = {
            .rank = r, .size = 2, .streams = 1, .hears = answer, .hears_context = &echoes[r]};
        assert_int_equal(tcp_create(&options, &echoes[r].transport), TUTTI_OK);
    }
    tcp_peer_join(echoes[0].transport, echoes[1].transport, 0);
    assert_int_equal(tcp_tell(echoes[0].transport, 1, "?", 1), TUTTI_OK);
    for (int i = 0; echoes[0].heard < 100; i++) {
        assert_true(i < STEPS_MAX);
        for (int r = 0; r < 2; r++) (void)echoes[r].transport->ops->progress(echoes[r].transport);
    }
    assert_int_equal(echoes[0].answered, echoes[0].heard);
    for (int r = 0; r < 2; r++) tcp_close(echoes[r].transport);
}

static void what_was_heard_is_said_again_when_it_was_lost(void **state)
{
    (void)state;
    struct transport *ranks[2];
    for (int r = 0; r < 2; r++) {
        const struct tcp_options options = {.rank = r, .size = 2, .streams = 2};
        assert_int_equal(tcp_create(&options, &ranks[r]), TUTTI_OK);
    }
    for (unsigned s = 0; s < 2; s++) tcp_peer_join(ranks[0], ranks[1], s);
    for (int i = 0; i < 1000; i++) ranks[i % 2]->ops->progress(ranks[i % 2]);
    assert_int_equal(tcp_tell(ranks[0], 1, "why", 3), TUTTI_OK);
    ranks[0]->ops->progress(ranks[0]);
    for (int i = 0; i < 100000; i++) ranks[1]->ops->progress(ranks[1]);
    assert_false(tcp_is_settled(ranks[0], 1)); /* it lies in the connection */
    for (int r = 0; r < 2; r++)
        tcp_peer_open_closed(ranks[r], 1 - r, 0); /* nobody makes it again */
    for (int i = 0; i < 100000; i++) ranks[i % 2]->ops->progress(ranks[i % 2]);
    for (int r = 0; r < 2; r++) {
        struct peer_report report;
        tcp_report(ranks[r], 1 - r, &report);
        assert_int_equal(report.streams_up, 1);
        assert_true(tcp_is_settled(ranks[r], 1 - r));
    }
    for (int r = 0; r < 2; r++) tcp_close(ranks[r]);
}

static void a_control_message_wakes_its_hearer(void **state)
{
    (void)state;
    struct talk talk;
    open_talk(&talk, 2, plain, 3);
    struct transport *const *ranks = tcp_world_transports(talk.world);
    assert_true(tell(&talk, 0, 1));
    await_all(&talk);
    for (int i = 0; i < 1000; i++) tcp_world_step(talk.world);
    assert_true(tell(&talk, 0, 1));
    ranks[1]->ops->sleep_begin(ranks[1]);
    assert_false(ranks[1]->ops->progress(ranks[1]));
    ranks[0]->ops->sleep_begin(ranks[0]); /* writes what there is */
    ranks[0]->ops->sleep_cancel(ranks[0]);
    ranks[1]->ops->sleep(ranks[1], UINT64_C(20000000000));
    assert_true(ranks[1]->ops->progress(ranks[1]));
    assert_int_equal(talk.heard[0][1], 2);
    tcp_world_free(talk.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_messages_need_no_link_and_want_their_connection),
        cmocka_unit_test(what_is_not_heard_is_bounded),
        cmocka_unit_test(control_messages_are_heard_once_over_wires_that_break),
        cmocka_unit_test(who_stops_in_the_middle_tells_and_hears),
        cmocka_unit_test(who_goes_on_sees_no_other_bytes_than_were_sent),
        cmocka_unit_test(who_hears_may_answer_at_once),
        cmocka_unit_test(what_was_heard_is_said_again_when_it_was_lost),
        cmocka_unit_test(a_control_message_wakes_its_hearer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
