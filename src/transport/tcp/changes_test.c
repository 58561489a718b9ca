/* A frame that changes on its way is not taken, and comes again; if it changes again, that ends the
 * links, but control messages can still say so. The test is the peer, and writes what it likes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "tests/worlds/tcp_peer.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/tcp.h"

enum { SIGNATURE = 4242, PIECE_BYTES = 4096, PIECES = 4, LARGE = 3000, SMALL = 100 };
enum change { INTACT, FLIPPED, HEAD_FLIPPED };

struct bench {
    struct transport *transport;
    struct link_tx *tx;
    struct link_rx *rx;
    int fd; /* the peer's end */
    unsigned wanted, control;
    unsigned char last_message;
};

static void want(void *context, int peer, unsigned stream)
{
    struct bench *bench = context;
    assert_true(peer == 1 && stream == 0);
    bench->wanted++;
}

static void hear(void *context, int peer, const void *message, size_t bytes)
{
    struct bench *bench = context;
    assert_true(peer == 1 && bytes == SMALL);
    bench->control++;
    bench->last_message = *(const unsigned char *)message;
}

static void progress(struct bench *bench)
{
    tcp_peer_move(bench->transport, 100);
}

static void put(struct bench *bench, const void *bytes, size_t count)
{
    assert_int_equal(send(bench->fd, bytes, count, MSG_NOSIGNAL), count);
}

static void put_head(struct bench *bench, struct tcp_frame frame)
{
    assert_true(tcp_peer_put_head(bench->fd, frame));
}

/* Makes a new connection, which the peer begins with nothing but READY. */
static void connect_peer(struct bench *bench, bool is_checked)
{
    struct tcp_frame ready = tcp_peer_ready(PIECE_BYTES, PIECES);
    ready.flags = is_checked ? TCP_FRAME_CHECKED : 0;
    if (bench->fd >= 0) close(bench->fd);
    bench->fd = tcp_peer_open(bench->transport, 1, 0);
    put_head(bench, (struct tcp_frame){.kind = TCP_FRAME_CREDIT,
                                       .flags = TCP_FRAME_RESUME,
                                       .place = TCP_FRAME_NO_PLACE});
    put_head(bench, ready);
}

static void open_bench(struct bench *bench, bool is_checked)
{
    *bench = (struct bench){.fd = -1};
    const struct tcp_options options = {.size = 2,
                                        .streams = 1,
                                        .piece_bytes = PIECE_BYTES,
                                        .piece_count = PIECES,
                                        .checks = true,
                                        .wants = want,
                                        .wants_context = bench,
                                        .hears = hear,
                                        .hears_context = bench};
    assert_int_equal(tcp_create(&options, &bench->transport), TUTTI_OK);
    struct transport *transport = bench->transport;
    transport->signatures[0] = SIGNATURE;
    assert_int_equal(transport->ops->open_tx(transport, 0, 0, 1, PIECE_BYTES, &bench->tx), TUTTI_OK);
    assert_int_equal(transport->ops->open_rx(transport, 0, 0, 1, &bench->rx), TUTTI_OK);
    connect_peer(bench, is_checked);
    progress(bench);
}

static void close_bench(struct bench *bench)
{
    tcp_close(bench->transport);
    close(bench->fd);
}

/* Writes a frame with that many bytes of a value, in portions; its check is right, and then a bit
 * may be flipped. */
static void put_frame(struct bench *bench, struct tcp_frame frame, unsigned char value,
                      enum change change, size_t portion)
{
    static unsigned char bytes[TCP_FRAME_HEAD_BYTES + TCP_FRAME_CHECK_BYTES + PIECE_BYTES];
    unsigned char *const payload = bytes + TCP_FRAME_HEAD_BYTES + TCP_FRAME_CHECK_BYTES;
    const size_t count = (size_t)(payload - bytes) + frame.bytes;
    memset(payload, value, frame.bytes);
    tcp_frame_write(&frame, bytes);
    tcp_frame_write_check(crc32c(0, payload, frame.bytes), bytes + TCP_FRAME_HEAD_BYTES);
    if (change == FLIPPED) payload[frame.bytes / 2] ^= 8;
    if (change == HEAD_FLIPPED) bytes[9] ^= 1;
    for (size_t at = 0; at < count; at += portion) {
        put(bench, bytes + at, at + portion < count ? portion : count - at);
        if (portion < count) tcp_peer_move(bench->transport, 2);
    }
    progress(bench);
}

static struct tcp_frame piece(uint64_t sequence, uint32_t bytes, uint64_t offset)
{
    return (struct tcp_frame){.kind = TCP_FRAME_DATA,
                              .bytes = bytes,
                              .sequence = sequence,
                              .offset = offset,
                              .signature = SIGNATURE,
                              .place = bytes > SMALL ? 0 : TCP_FRAME_NO_PLACE};
}

static struct tcp_frame message(uint64_t number)
{
    return (struct tcp_frame){
        .kind = TCP_FRAME_CONTROL, .bytes = SMALL, .sequence = number, .place = TCP_FRAME_NO_PLACE};
}

static struct peer_report report_of(const struct bench *bench)
{
    struct peer_report report;
    tcp_report(bench->transport, 1, &report);
    return report;
}

static void expect_empty(struct bench *bench)
{
    struct link_view view;
    assert_int_equal(bench->rx->ops->peek(bench->rx, &view), LINK_EMPTY);
}

static const unsigned char *expect_bytes(struct bench *bench, size_t bytes, unsigned char value)
{
    struct link_view view;
    assert_int_equal(bench->rx->ops->peek(bench->rx, &view), LINK_READY);
    assert_int_equal(view.bytes, bytes);
    const unsigned char *data = view.data;
    for (size_t i = 0; i < bytes; i++) assert_int_equal(data[i], value);
    bench->rx->ops->consume(bench->rx, bytes);
    return data;
}

/* The connection is gone, and nothing else is. */
static void expect_lost(const struct bench *bench, unsigned wanted)
{
    char byte;
    while (recv(bench->fd, &byte, 1, MSG_DONTWAIT) == 1) continue;
    assert_int_equal(recv(bench->fd, &byte, 1, MSG_DONTWAIT), 0);
    assert_int_equal(report_of(bench).state, PEER_LOST);
    assert_int_equal(bench->wanted, wanted);
    assert_false(report_of(bench).is_corrupt);
}

static void what_is_checked_and_right_is_taken_however_it_is_cut(void **state)
{
    (void)state;
    static const size_t portions[] = {1 << 20, 1, 7, 47, 49, 51, 53};
    for (size_t p = 0; p < sizeof portions / sizeof *portions; p++) {
        struct bench bench;
        open_bench(&bench, true);
        const uint32_t large = portions[p] == 1 ? 257 : LARGE; /* or it takes long */
        put_frame(&bench, piece(0, SMALL, 0), 1, INTACT, portions[p]);
        put_frame(&bench, piece(1, large, SMALL), 2, INTACT, portions[p]);
        put_frame(&bench, message(0), 3, INTACT, portions[p]);
        put_head(&bench, piece(2, 0, SMALL + large)); /* has no check */
        progress(&bench);
        expect_bytes(&bench, SMALL, 1);
        expect_bytes(&bench, large, 2);
        expect_bytes(&bench, 0, 0);
        assert_true(bench.control == 1 && bench.last_message == 3);
        assert_int_equal(report_of(&bench).mended, 0);
        close_bench(&bench);
    }
}

static void what_a_peer_does_not_check_is_taken_as_it_is(void **state)
{
    (void)state;
    static const unsigned char payload[SMALL] = {7};
    struct bench bench;
    open_bench(&bench, false);
    put_head(&bench, piece(0, SMALL, 0));
    put(&bench, payload, SMALL);
    progress(&bench);
    struct link_view view;
    assert_int_equal(bench.rx->ops->peek(bench.rx, &view), LINK_READY);
    assert_int_equal(*(const unsigned char *)view.data, 7);
    close_bench(&bench);
}

static void a_changed_piece_is_not_shown_and_comes_again(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {SMALL, LARGE};
    for (size_t s = 0; s < 2; s++) {
        struct bench bench;
        open_bench(&bench, true);
        put_frame(&bench, piece(0, SMALL, 0), 1, INTACT, 1 << 20);
        put_frame(&bench, piece(1, sizes[s], SMALL), 2, FLIPPED, 1 << 20);
        expect_bytes(&bench, SMALL, 1); /* bytes that came before it stay */
        expect_empty(&bench);
        expect_lost(&bench, 2);
        connect_peer(&bench, true);
        put_frame(&bench, piece(1, sizes[s], SMALL), 2, INTACT, 1 << 20);
        expect_bytes(&bench, sizes[s], 2);
        assert_int_equal(report_of(&bench).mended, 1);
        /* A different frame may change, too. */
        put_frame(&bench, piece(2, sizes[s], SMALL + sizes[s]), 3, FLIPPED, 1 << 20);
        expect_lost(&bench, 3);
        connect_peer(&bench, true);
        put_frame(&bench, piece(2, sizes[s], SMALL + sizes[s]), 3, INTACT, 1 << 20);
        expect_bytes(&bench, sizes[s], 3);
        assert_int_equal(report_of(&bench).mended, 2);
        assert_int_equal(bench.transport->ops->corrupt_rank(bench.transport), -1);
        close_bench(&bench);
    }
}

static void a_changed_piece_that_is_expected_is_not_shown_either(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, true);
    unsigned char *destination = malloc(LARGE);
    assert_non_null(destination);
    bench.rx->ops->advertise(bench.rx, destination, LARGE);
    put_frame(&bench, piece(0, LARGE, 0), 2, FLIPPED, 1000);
    expect_empty(&bench);
    expect_lost(&bench, 2);
    connect_peer(&bench, true);
    put_frame(&bench, piece(0, LARGE, 0), 2, INTACT, 1000);
    assert_ptr_equal(expect_bytes(&bench, LARGE, 2), destination);
    close_bench(&bench);
    free(destination);
}

static void a_changed_control_message_is_not_heard_and_comes_again(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, true);
    put_frame(&bench, message(0), 5, FLIPPED, 1 << 20);
    assert_int_equal(bench.control, 0);
    expect_lost(&bench, 2);
    connect_peer(&bench, true);
    put_frame(&bench, message(0), 5, INTACT, 1 << 20);
    assert_true(bench.control == 1 && bench.last_message == 5);
    assert_int_equal(report_of(&bench).mended, 1);
    close_bench(&bench);
}

static void a_changed_head_costs_its_connection(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, true);
    put_frame(&bench, piece(0, LARGE, 0), 1, HEAD_FLIPPED, 1 << 20);
    expect_empty(&bench);
    expect_lost(&bench, 2);
    connect_peer(&bench, true);
    put_frame(&bench, piece(0, LARGE, 0), 1, INTACT, 1 << 20);
    expect_bytes(&bench, LARGE, 1);
    assert_int_equal(report_of(&bench).mended, 1);
    put_frame(&bench, piece(1, SMALL, LARGE), 1, HEAD_FLIPPED, 1 << 20);
    expect_lost(&bench, 3); /* that was another one */
    close_bench(&bench);
}

/* The peer's links are at fault, and frames from it are read and dropped; control messages to it go
 * out, for which it may have to be connected. */
static void expect_corrupt(struct bench *bench)
{
    struct link_view view;
    static unsigned char bytes[8000];
    assert_true(report_of(bench).is_corrupt);
    assert_int_equal(bench->transport->ops->corrupt_rank(bench->transport), 1);
    assert_int_equal(bench->rx->ops->peek(bench->rx, &view), LINK_FAULT);
    assert_true(report_of(bench).state == PEER_LOST);
    memset(bytes, 9, SMALL);
    assert_int_equal(tcp_tell(bench->transport, 1, bytes, SMALL), TUTTI_OK);
    connect_peer(bench, true);
    progress(bench);
    const ssize_t got = recv(bench->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    assert_true(got > SMALL);
    assert_true(bytes[got - 1] == 9 && bytes[got - SMALL] == 9);
    /* Frames that still come are dropped, changed or not. */
    put_frame(bench, piece(0, LARGE, 0), 1, FLIPPED, 1 << 20);
    put_frame(bench, message(0), 1, FLIPPED, 1 << 20);
    put_frame(bench, piece(1, LARGE, LARGE), 1, INTACT, 1 << 20);
    assert_int_equal(report_of(bench).state, PEER_UP);
    assert_int_equal(bench->rx->ops->peek(bench->rx, &view), LINK_FAULT);
    assert_int_equal(bench->control, 0);
}

static void what_comes_changed_twice_ends_the_links(void **state)
{
    (void)state;
    const struct tcp_frame frames[] = {piece(0, SMALL, 0), piece(0, LARGE, 0), message(0)};
    for (size_t f = 0; f < sizeof frames / sizeof *frames; f++) {
        struct bench bench;
        open_bench(&bench, true);
        put_frame(&bench, frames[f], 1, FLIPPED, 1 << 20);
        expect_lost(&bench, 2);
        connect_peer(&bench, true);
        put_frame(&bench, frames[f], 1, FLIPPED, 1 << 20);
        expect_corrupt(&bench);
        close_bench(&bench);
    }
    struct bench bench;
    open_bench(&bench, false); /* heads are checked in any case */
    put_frame(&bench, piece(0, SMALL, 0), 1, HEAD_FLIPPED, 1 << 20);
    expect_lost(&bench, 2);
    connect_peer(&bench, true);
    put_frame(&bench, piece(0, SMALL, 0), 1, HEAD_FLIPPED, 1 << 20);
    expect_corrupt(&bench);
    close_bench(&bench);
}

static void who_speaks_something_else_is_heard_twice(void **state)
{
    (void)state;
    static const char other[] = "GET / HTTP/1.1\r\nHost: somebody-else.example\r\n\r\n";
    struct bench bench;
    struct link_view view;
    open_bench(&bench, true);
    put(&bench, other, sizeof other);
    progress(&bench);
    expect_lost(&bench, 2);
    close(bench.fd);
    bench.fd = tcp_peer_open(bench.transport, 1, 0);
    put(&bench, other, sizeof other); /* now before it is ready */
    progress(&bench);
    assert_true(report_of(&bench).is_corrupt);
    assert_int_equal(bench.rx->ops->peek(bench.rx, &view), LINK_FAULT);
    close_bench(&bench);
}

static void what_is_sent_has_its_checksum(void **state)
{
    (void)state;
    static unsigned char bytes[20000];
    struct bench bench;
    open_bench(&bench, false); /* each side decides for itself */
    void *place = bench.tx->ops->reserve(bench.tx, LARGE);
    assert_non_null(place);
    memset(place, 6, LARGE);
    bench.tx->ops->commit(bench.tx, LARGE);
    assert_int_equal(tcp_tell(bench.transport, 1, "note", 5), TUTTI_OK);
    progress(&bench);
    const ssize_t got = recv(bench.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    unsigned pieces = 0, control = 0;
    bool is_checked = false;
    for (ssize_t at = 0; at < got;) {
        struct tcp_frame frame;
        assert_null(tcp_frame_read(bytes + at, &frame));
        at += TCP_FRAME_HEAD_BYTES;
        if (frame.kind == TCP_FRAME_READY) is_checked = (frame.flags & TCP_FRAME_CHECKED) != 0;
        if (frame.bytes == 0) continue;
        assert_true(is_checked);
        const uint32_t check = tcp_frame_read_check(bytes + at);
        at += TCP_FRAME_CHECK_BYTES;
        assert_int_equal(check, crc32c(0, bytes + at, frame.bytes));
        at += frame.bytes;
        pieces += frame.kind == TCP_FRAME_DATA;
        control += frame.kind == TCP_FRAME_CONTROL;
    }
    assert_true(pieces == 1 && control == 1);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_checked_and_right_is_taken_however_it_is_cut),
        cmocka_unit_test(what_a_peer_does_not_check_is_taken_as_it_is),
        cmocka_unit_test(a_changed_piece_is_not_shown_and_comes_again),
        cmocka_unit_test(a_changed_piece_that_is_expected_is_not_shown_either),
        cmocka_unit_test(a_changed_control_message_is_not_heard_and_comes_again),
        cmocka_unit_test(a_changed_head_costs_its_connection),
        cmocka_unit_test(what_comes_changed_twice_ends_the_links),
        cmocka_unit_test(who_speaks_something_else_is_heard_twice),
        cmocka_unit_test(what_is_sent_has_its_checksum),
    };
    setenv("TUTTI_LOG", "off", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
