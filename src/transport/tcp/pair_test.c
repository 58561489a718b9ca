/* Connections that come, go and come again; one rank alone with the test as its peer, which may
 * write what it likes; and ranks that sleep meanwhile.
 *
 * ctest: waits */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/cases.h"
#include "tests/worlds/tcp_peer.h"
#include "tests/worlds/tcp_world.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/link.h"
#include "transport/tcp/tcp.h"

enum { SIGNATURE = 4242, PIECE_BYTES = 4096, PIECES = 4 };

static bool send_filled(struct link_tx *tx, unsigned char filling, size_t bytes)
{
    void *place = tx->ops->reserve(tx, bytes);
    if (place == NULL) return false;
    assert_ptr_equal(place, tx->ops->reserve(tx, bytes)); /* the same again */
    memset(place, filling, bytes);
    tx->ops->commit(tx, bytes);
    return true;
}

static void expect_empty(struct link_rx *rx)
{
    struct link_view view;
    assert_int_equal(rx->ops->peek(rx, &view), LINK_EMPTY);
}

/* ---------------------------------------------------------------------------------- connections */

struct wishes {
    unsigned count[3][TCP_STREAMS_MAX];
};

static void wish(void *context, int peer, unsigned stream)
{
    ((struct wishes *)context)->count[peer][stream]++;
}

static struct transport *create_rank(int rank, unsigned streams, struct wishes *wishes)
{
    const struct tcp_options options = {.rank = rank,
                                        .size = 3,
                                        .streams = streams,
                                        .piece_bytes = PIECE_BYTES,
                                        .piece_count = PIECES,
                                        .wants = wishes != NULL ? wish : NULL,
                                        .wants_context = wishes};
    struct transport *transport;
    assert_int_equal(tcp_create(&options, &transport), TUTTI_OK);
    for (int s = 0; s < TRANSPORT_SLOT_COUNT; s++) transport->signatures[s] = SIGNATURE;
    return transport;
}

static enum peer_state state_of(const struct transport *transport, int peer)
{
    struct peer_report report;
    tcp_report(transport, peer, &report);
    return report.state;
}

/* Until nothing moves for a while. */
static void progress(struct transport *a, struct transport *b)
{
    for (int i = 0; i < 300; i++) {
        a->ops->progress(a);
        if (b != NULL) b->ops->progress(b);
        nanosleep(&(struct timespec){0, 1000}, NULL);
    }
}

static void connections_are_wanted_once_and_again_after_a_loss(void **state)
{
    (void)state;
    struct wishes wishes = {0};
    struct transport *a = create_rank(0, 2, &wishes), *b = create_rank(1, 2, NULL);
    struct link_tx *tx;
    struct link_rx *rx;
    assert_int_equal(state_of(a, 1), PEER_UNUSED);
    assert_int_equal(a->ops->open_tx(a, 0, 0, 1, 100, &tx), TUTTI_OK);
    assert_int_equal(a->ops->open_rx(a, 3, 0, 1, &rx), TUTTI_OK);
    progress(a, b);
    assert_true(wishes.count[1][0] == 1 && wishes.count[1][1] == 1 && wishes.count[2][0] == 0);
    assert_int_equal(state_of(a, 1), PEER_WANTED);
    tcp_peer_join(a, b, 0);
    tcp_peer_join(a, b, 1);
    progress(a, b);
    struct peer_report report;
    tcp_report(a, 1, &report);
    assert_true(report.state == PEER_UP && report.streams_up == 2 && report.heard_ns > 0);
    tcp_close(b);
    progress(a, NULL);
    tcp_report(a, 1, &report);
    assert_true(report.state == PEER_LOST && report.streams_up == 0);
    assert_true(report.since_ns >= report.heard_ns);
    assert_true(wishes.count[1][0] == 2 && wishes.count[1][1] == 2);
    tcp_close(a);
}

static void a_rank_with_more_connections_uses_those_that_both_have(void **state)
{
    (void)state;
    struct wishes wishes = {0};
    struct transport *a = create_rank(0, 4, &wishes), *b = create_rank(1, 2, NULL);
    struct link_tx *tx;
    struct link_rx *rx;
    struct link_view view;
    assert_int_equal(a->ops->open_tx(a, 0, 0, 1, PIECE_BYTES, &tx), TUTTI_OK);
    assert_int_equal(b->ops->open_rx(b, 0, 0, 0, &rx), TUTTI_OK);
    tcp_peer_join(a, b, 0);
    tcp_peer_join(a, b, 1);
    progress(a, b);
    assert_true(wishes.count[1][2] == 1 && wishes.count[1][3] == 1);
    for (unsigned char i = 1; i <= 3 * PIECES; i++) {
        assert_true(send_filled(tx, i, PIECE_BYTES));
        progress(a, b);
        assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
        assert_int_equal(*(const unsigned char *)view.data, i);
        rx->ops->consume(rx, view.bytes);
    }
    tcp_give_up_silent(a, 1); /* none is */
    struct peer_report report;
    tcp_report(a, 1, &report);
    assert_int_equal(report.streams_up, 2);
    tcp_close(a);
    tcp_close(b);
}

static void what_was_under_way_comes_over_the_next_connection(void **state)
{
    (void)state;
    struct transport *a = create_rank(0, 1, NULL), *b = create_rank(1, 1, NULL);
    struct link_tx *tx;
    struct link_rx *rx;
    struct link_view view;
    assert_int_equal(a->ops->open_tx(a, 0, 0, 1, PIECE_BYTES, &tx), TUTTI_OK);
    assert_int_equal(b->ops->open_rx(b, 0, 0, 0, &rx), TUTTI_OK);
    tcp_peer_join(a, b, 0);
    progress(a, b);
    assert_true(send_filled(tx, 1, 100)); /* in the kernel, and never read */
    assert_true(send_filled(tx, 2, PIECE_BYTES));
    tcp_peer_join(a, b, 0);
    assert_true(send_filled(tx, 3, 0));
    progress(a, b);
    static const size_t sizes[] = {100, PIECE_BYTES, 0};
    for (unsigned char i = 0; i < 3; i++) {
        assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
        assert_int_equal(view.bytes, sizes[i]);
        if (view.bytes > 0) assert_int_equal(*(const unsigned char *)view.data, i + 1);
        rx->ops->consume(rx, view.bytes);
    }
    expect_empty(rx);
    progress(a, b);
    assert_true(tx->ops->consumed(tx));
    tcp_close(a);
    tcp_close(b);
}

/* Two ends of a connection with the test in between: bytes that one side wrote arrive when the test
 * carries them on, or never. */
struct way {
    int ends[2]; /* towards each rank */
};

static struct way connect_by_way(struct transport *a, struct transport *b, unsigned stream)
{
    struct transport *const ranks[2] = {a, b};
    struct way way;
    for (int r = 0; r < 2; r++) way.ends[r] = tcp_peer_open(ranks[r], ranks[1 - r]->rank, stream);
    return way;
}

/* Takes the bytes that lie there; returns their number. */
static size_t take_from(int end, char *data, size_t bytes_max)
{
    const ssize_t got = recv(end, data, bytes_max, MSG_DONTWAIT);
    return got > 0 ? (size_t)got : 0;
}

static void carry_on(const struct way *way)
{
    char data[PIECE_BYTES];
    for (int r = 0; r < 2; r++) {
        const size_t bytes = take_from(way->ends[r], data, sizeof data);
        if (bytes > 0) assert_int_equal(send(way->ends[1 - r], data, bytes, 0), bytes);
    }
}

static unsigned streams_up(const struct transport *transport, int peer)
{
    struct peer_report report;
    tcp_report(transport, peer, &report);
    return report.streams_up;
}

/* A new connection takes the place of the second one, which the sender still believes in: it hears
 * of the link over the first. The receiver wrote the beginning of the new one before it opened that
 * link. */
static void a_link_opened_while_a_connection_is_replaced_loses_nothing(void **state)
{
    (void)state;
    struct transport *a = create_rank(0, 2, NULL), *b = create_rank(1, 2, NULL);
    struct link_tx *tx;
    struct link_rx *rx;
    struct link_view view;
    char lost[2 * PIECE_BYTES];
    assert_int_equal(a->ops->open_tx(a, 0, 0, 1, PIECE_BYTES, &tx), TUTTI_OK);
    tcp_peer_join(a, b, 0);
    const struct way old = connect_by_way(a, b, 1);
    for (int i = 0; i < 3; i++) {
        progress(a, b);
        carry_on(&old);
    }
    progress(a, b);
    assert_true(streams_up(a, 1) == 2 && streams_up(b, 0) == 2);

    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(tcp_attach(b, 0, 1, byte_stream_plain(ends[1])), TUTTI_OK);
    progress(b, NULL);
    assert_int_equal(b->ops->open_rx(b, 0, 0, 0, &rx), TUTTI_OK);
    progress(a, b);
    for (unsigned char i = 1; i <= 2; i++) assert_true(send_filled(tx, i, PIECE_BYTES / 2));
    progress(a, b);
    assert_true(take_from(old.ends[0], lost, sizeof lost) > PIECE_BYTES); /* both */
    expect_empty(rx);

    assert_int_equal(tcp_attach(a, 1, 1, byte_stream_plain(ends[0])), TUTTI_OK);
    progress(a, b);
    assert_true(streams_up(a, 1) == 2 && streams_up(b, 0) == 2);
    for (unsigned char i = 1; i <= 3; i++) {
        if (i == 3) assert_true(send_filled(tx, i, PIECE_BYTES / 2));
        progress(a, b);
        assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
        assert_int_equal(view.bytes, PIECE_BYTES / 2);
        assert_int_equal(*(const unsigned char *)view.data, i);
        rx->ops->consume(rx, view.bytes);
    }
    expect_empty(rx);
    for (int r = 0; r < 2; r++) close(old.ends[r]);
    tcp_close(a);
    tcp_close(b);
}

/* Ranks that have received everything, and close as soon as they may. */
static void who_finishes_cuts_nothing_off(void **state)
{
    (void)state;
    struct transport *ranks[2] = {create_rank(0, 2, NULL), create_rank(1, 2, NULL)};
    struct link_tx *tx[2];
    struct link_rx *rx[2];
    for (int r = 0; r < 2; r++) {
        assert_int_equal(ranks[r]->ops->open_tx(ranks[r], 0, 0, 1 - r, PIECE_BYTES, &tx[r]),
                         TUTTI_OK);
        assert_int_equal(ranks[r]->ops->open_rx(ranks[r], 0, 0, 1 - r, &rx[r]), TUTTI_OK);
    }
    assert_true(tcp_world_finish(ranks[0])); /* no peer is there, and nothing is to be said */
    tcp_peer_join(ranks[0], ranks[1], 0);
    tcp_peer_join(ranks[0], ranks[1], 1);
    unsigned received[2] = {0};
    for (unsigned char i = 0; i < PIECES; i++)
        for (int r = 0; r < 2; r++) assert_true(send_filled(tx[r], i, PIECE_BYTES));
    assert_false(tcp_world_finish(ranks[0]));
    for (int i = 0; ranks[0] != NULL || ranks[1] != NULL; i++) {
        assert_true(i < 10000000);
        const int r = i % 3 == 0;
        if (ranks[r] == NULL) continue;
        struct link_view view;
        if (received[r] < PIECES) {
            ranks[r]->ops->progress(ranks[r]);
            if (rx[r]->ops->peek(rx[r], &view) != LINK_READY) continue;
            assert_int_equal(*(const unsigned char *)view.data, received[r]++);
            rx[r]->ops->consume(rx[r], view.bytes);
        } else if (tcp_world_finish(ranks[r])) {
            tcp_close(ranks[r]);
            ranks[r] = NULL;
        }
    }
}

/* -------------------------------------------------------------------------------- foreign bytes */

static const struct tcp_frame ready = {.kind = TCP_FRAME_READY,
                                       .sequence = 1,
                                       .offset = PIECE_BYTES,
                                       .signature = TCP_FRAME_VERSION,
                                       .place = 2 * PIECES};
static const struct tcp_frame grant = {.kind = TCP_FRAME_CREDIT, .place = TCP_FRAME_NO_PLACE};
static const struct tcp_frame small = {
    .kind = TCP_FRAME_DATA, .bytes = 4, .signature = SIGNATURE, .place = TCP_FRAME_NO_PLACE};
static const struct tcp_frame large = {
    .kind = TCP_FRAME_DATA, .bytes = 300, .signature = SIGNATURE, .place = 0};

static const struct tcp_frame message = {
    .kind = TCP_FRAME_CONTROL, .bytes = TCP_FRAME_CONTROL_BYTES_MAX, .place = TCP_FRAME_NO_PLACE};
static const struct tcp_frame heard = {.kind = TCP_FRAME_HEARD, .place = TCP_FRAME_NO_PLACE};

static void put_frame(int fd, struct tcp_frame frame)
{
    static const char zeros[TCP_FRAME_BYTES_MAX + 1];
    (void)tcp_peer_put_head(fd, frame);
    (void)!send(fd, zeros, frame.bytes, MSG_NOSIGNAL);
}

/* One rank with a link each way to a peer that sends just that. */
struct lonely {
    struct transport *transport;
    struct link_tx *tx;
    struct link_rx *rx;
    int fd;
};

static struct lonely open_lonely(void)
{
    struct lonely lonely = {.transport = create_rank(0, 1, NULL)};
    struct transport *transport = lonely.transport;
    assert_int_equal(transport->ops->open_tx(transport, 0, 0, 1, PIECE_BYTES, &lonely.tx), TUTTI_OK);
    assert_int_equal(transport->ops->open_rx(transport, 0, 0, 1, &lonely.rx), TUTTI_OK);
    lonely.fd = tcp_peer_open(transport, 1, 0);
    return lonely;
}

static void close_lonely(struct lonely *lonely)
{
    tcp_close(lonely->transport);
    close(lonely->fd);
}

/* Whether those frames break the peer. */
static bool breaks(const struct tcp_frame *frames, int count)
{
    struct lonely lonely = open_lonely();
    struct link_view view;
    for (int f = 0; f < count; f++) put_frame(lonely.fd, frames[f]);
    progress(lonely.transport, NULL);
    const bool is_broken = state_of(lonely.transport, 1) == PEER_BROKEN;
    assert_int_equal(lonely.rx->ops->peek(lonely.rx, &view) == LINK_FAULT, is_broken);
    close_lonely(&lonely);
    return is_broken;
}

#define BREAKS(...)                                 \
    breaks((const struct tcp_frame[]){__VA_ARGS__}, \
           sizeof(const struct tcp_frame[]){__VA_ARGS__} / sizeof(struct tcp_frame))

static struct tcp_frame with(struct tcp_frame frame, void (*change)(struct tcp_frame *))
{
    change(&frame);
    return frame;
}

static void be_another_rank(struct tcp_frame *frame)
{
    frame->sequence = 2;
}
static void have_other_limits(struct tcp_frame *frame)
{
    frame->offset *= 2;
}
static void be_newer(struct tcp_frame *frame)
{
    frame->signature++;
}
static void be_next(struct tcp_frame *frame)
{
    frame->sequence = 1;
}
static void be_far(struct tcp_frame *frame)
{
    frame->sequence = TCP_WINDOW;
}
static void use_no_place(struct tcp_frame *frame)
{
    frame->place = 2 * PIECES;
}
static void be_expected(struct tcp_frame *frame)
{
    frame->place = TCP_FRAME_EXPECTED;
}
static void be_too_long(struct tcp_frame *frame)
{
    frame->bytes = PIECE_BYTES + 1;
}
static void use_closed_link(struct tcp_frame *frame)
{
    frame->channel = 3;
}
static void consume_too_much(struct tcp_frame *frame)
{
    frame->consumed = 1;
}
static void resume(struct tcp_frame *frame)
{
    frame->flags = TCP_FRAME_RESUME;
}
static void be_the_last_that_may_come(struct tcp_frame *frame)
{
    frame->sequence = CONTROL_MESSAGES_MAX;
}

static void frames_that_make_no_sense_break_their_peer(void **state)
{
    (void)state;
    assert_false(BREAKS(ready, small));
    assert_false(BREAKS(grant, ready, grant, large));
    assert_false(BREAKS(ready, small, with(large, be_next)));
    assert_false(BREAKS(with(grant, resume), ready));

    assert_true(BREAKS(small)); /* not ready */
    assert_true(BREAKS(ready, ready));
    assert_true(BREAKS(ready, with(grant, resume)));
    assert_true(BREAKS(with(ready, be_another_rank)));
    assert_true(BREAKS(with(ready, have_other_limits)));
    assert_true(BREAKS(with(ready, be_newer)));
    assert_true(BREAKS(ready, small, small));
    assert_true(BREAKS(ready, large, with(large, be_next))); /* the same place */
    assert_true(BREAKS(ready, with(small, be_far)));
    assert_true(BREAKS(ready, with(large, use_no_place)));
    assert_true(BREAKS(ready, with(large, be_expected)));
    assert_true(BREAKS(ready, with(small, be_expected)));
    assert_true(BREAKS(ready, with(large, be_too_long)));
    assert_true(BREAKS(ready, with(small, use_closed_link)));
    assert_true(BREAKS(ready, with(small, consume_too_much)));
    assert_true(BREAKS(ready, with(grant, consume_too_much)));
    assert_true(BREAKS(with(with(grant, consume_too_much), use_closed_link), ready));
}

static void control_messages_that_make_no_sense_break_their_peer(void **state)
{
    (void)state;
    assert_false(BREAKS(ready, message, with(message, be_next), small));
    assert_false(BREAKS(ready, heard, heard));

    assert_true(BREAKS(message)); /* not ready */
    assert_true(BREAKS(heard));
    assert_true(BREAKS(ready, message, message)); /* twice on one connection */
    assert_true(BREAKS(ready, with(message, be_next)));
    assert_true(BREAKS(ready, with(heard, consume_too_much)));
    assert_true(BREAKS(with(ready, consume_too_much)));
}

/* A peer that tells more control messages than it can have heard acknowledged floods this rank. */
static void a_flood_of_control_messages_breaks_its_peer(void **state)
{
    (void)state;
    for (unsigned rest = 0; rest < 2; rest++) {
        struct lonely lonely = open_lonely();
        struct tcp_frame next = message;
        put_frame(lonely.fd, ready);
        for (; next.sequence < CONTROL_MESSAGES_MAX; next.sequence++) put_frame(lonely.fd, next);
        if (rest > 0) progress(lonely.transport, NULL); /* it says so */
        put_frame(lonely.fd, with(message, be_the_last_that_may_come));
        progress(lonely.transport, NULL);
        assert_int_equal(state_of(lonely.transport, 1), rest > 0 ? PEER_UP : PEER_BROKEN);
        /* A broken peer is told nothing, and nothing waits for it. */
        assert_int_equal(tcp_tell(lonely.transport, 1, "why", 3), TUTTI_OK);
        progress(lonely.transport, NULL);
        assert_true(tcp_is_idle(lonely.transport));
        assert_int_equal(tcp_is_settled(lonely.transport, 1), rest == 0);
        close_lonely(&lonely);
    }
}

static void wrong_order_of_bytes_is_a_fault_of_the_link(void **state)
{
    (void)state;
    struct lonely lonely = open_lonely();
    struct link_view view;
    put_frame(lonely.fd, ready);
    struct tcp_frame late = small;
    late.offset = 1;
    put_frame(lonely.fd, late);
    progress(lonely.transport, NULL);
    assert_int_equal(lonely.rx->ops->peek(lonely.rx, &view), LINK_FAULT);
    close_lonely(&lonely);
}

static size_t drain(int fd)
{
    char bytes[10000];
    size_t sum = 0;
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) sum += (size_t)got;
    return sum;
}

/* A peer that says so would make the sender give away memory whose bytes are still to be
 * written. */
static void what_is_still_being_written_cannot_be_consumed(void **state)
{
    (void)state;
    struct lonely lonely = open_lonely();
    enum { BYTES = 4 << 20 };
    char *const memory = calloc(1, BYTES);
    assert_non_null(memory);
    const int few = 1;
    setsockopt(lonely.fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    put_frame(lonely.fd, ready);
    put_frame(lonely.fd, grant);
    progress(lonely.transport, NULL);
    assert_true(lonely.tx->ops->post(lonely.tx, memory, BYTES));
    /* The peer reads nothing; credit lets on more than the kernel takes. */
    struct tcp_frame credit = grant;
    for (; credit.consumed < BYTES / PIECE_BYTES; credit.consumed++) {
        if (state_of(lonely.transport, 1) == PEER_BROKEN) break;
        put_frame(lonely.fd, credit);
        progress(lonely.transport, NULL);
    }
    assert_int_equal(state_of(lonely.transport, 1), PEER_BROKEN);
    assert_false(lonely.tx->ops->consumed(lonely.tx));
    free(memory);
    /* The peer was believed for no more messages than there are to be read. */
    const uint64_t believed = credit.consumed - 2;
    const size_t written =
        drain(lonely.fd) - 2 * TCP_FRAME_HEAD_BYTES; /* without credit and ready */
    assert_in_range(believed, 1, written / (TCP_FRAME_HEAD_BYTES + PIECE_BYTES));
    close_lonely(&lonely);
}

/* Pieces that are still here when a control message is told come behind the control message, but
 * for the piece that is being written. */
static void control_messages_overtake_pieces(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20, PIECE = 16 << 10, STREAM_BYTES = 2 << 20 };
    const struct tcp_options options = {
        .size = 2, .streams = 1, .piece_bytes = PIECE, .piece_count = 32};
    struct transport *transport;
    struct link_tx *tx;
    int ends[2];
    char *const memory = calloc(1, BYTES), *const came = malloc(STREAM_BYTES);
    assert_true(memory != NULL && came != NULL);
    assert_int_equal(tcp_create(&options, &transport), TUTTI_OK);
    assert_int_equal(transport->ops->open_tx(transport, 0, 0, 1, BYTES, &tx), TUTTI_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const int few = 64 << 10;
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &few, sizeof few);
    assert_int_equal(tcp_attach(transport, 1, 0, byte_stream_plain(ends[0])), TUTTI_OK);
    put_frame(ends[1], grant);
    put_frame(ends[1], tcp_peer_ready(PIECE, 32));
    progress(transport, NULL);
    assert_true(tx->ops->post(tx, memory, BYTES));
    progress(transport, NULL);
    assert_int_equal(tcp_tell(transport, 1, "why", 3), TUTTI_OK);
    size_t written = 0, all = 0;
    for (int i = 0; i < 100; i++) {
        ssize_t got;
        while ((got = recv(ends[1], came + all, STREAM_BYTES - all, MSG_DONTWAIT)) > 0)
            all += (size_t)got;
        if (i == 0) written = all;
        progress(transport, NULL);
    }
    assert_in_range(written, PIECE, BYTES / 2); /* the kernel had some, but not all */
    size_t pieces_behind = 0, message_at = 0;
    for (size_t at = 0; at < all;) {
        struct tcp_frame frame;
        assert_null(tcp_frame_read((const unsigned char *)came + at, &frame));
        if (frame.kind == TCP_FRAME_CONTROL) {
            message_at = at;
            assert_memory_equal(came + at + TCP_FRAME_HEAD_BYTES, "why", 3);
        }
        if (frame.kind == TCP_FRAME_DATA && at >= written) {
            assert_true(message_at > 0);
            pieces_behind++;
        }
        at += TCP_FRAME_HEAD_BYTES + frame.bytes;
    }
    assert_in_range(pieces_behind, 2, BYTES / PIECE);
    tcp_close(transport);
    close(ends[1]);
    free(memory);
    free(came);
}

/* Real connections: pieces beyond the bytes that the kernel can send stay here, where an urgent
 * frame can overtake them. */
static void the_kernel_holds_little_that_it_cannot_send(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20 };
    const struct tcp_options options = {.size = 2, .streams = 1, .piece_count = 32};
    struct transport *transport;
    struct link_tx *tx;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_bytes = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0), own = socket(AF_INET, SOCK_STREAM, 0);
    const int few = 4096;
    char *const memory = calloc(1, BYTES);
    assert_non_null(memory);
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &address_bytes), 0);
    assert_int_equal(connect(own, (struct sockaddr *)&address, sizeof address), 0);
    const int peer = accept(listener, NULL, NULL);
    assert_int_equal(tcp_create(&options, &transport), TUTTI_OK);
    assert_int_equal(transport->ops->open_tx(transport, 0, 0, 1, BYTES, &tx), TUTTI_OK);
    assert_int_equal(tcp_attach(transport, 1, 0, byte_stream_plain(own)), TUTTI_OK);
    put_frame(peer, grant);
    put_frame(peer, tcp_peer_ready(TCP_FRAME_BYTES_MAX, 32));
    progress(transport, NULL);
    assert_true(tx->ops->post(tx, memory, BYTES));
    progress(transport, NULL);
    int unsent = 0;
    assert_int_equal(ioctl(own, SIOCOUTQNSD, &unsent), 0);
    assert_in_range(unsent, 64 << 10, 512 << 10);
    tcp_close(transport);
    close(peer);
    close(listener);
    free(memory);
}

/* The peer may close right after them, and this rank may first notice that by writing. */
static void last_words_are_heard_where_nothing_can_be_written(void **state)
{
    (void)state;
    struct wishes wishes = {0};
    struct transport *a = create_rank(0, 1, &wishes), *b = create_rank(1, 1, NULL);
    struct link_tx *from_a, *from_b;
    struct link_rx *to_a, *to_b;
    struct link_view view;
    assert_int_equal(a->ops->open_tx(a, 0, 0, 1, 100, &from_a), TUTTI_OK);
    assert_int_equal(a->ops->open_rx(a, 0, 0, 1, &to_a), TUTTI_OK);
    assert_int_equal(b->ops->open_tx(b, 0, 0, 0, 100, &from_b), TUTTI_OK);
    assert_int_equal(b->ops->open_rx(b, 0, 0, 0, &to_b), TUTTI_OK);
    tcp_peer_join(a, b, 0);
    progress(a, b);
    assert_int_equal(state_of(a, 1), PEER_UP);
    const unsigned wanted_before = wishes.count[1][0];
    assert_true(send_filled(from_b, 5, 50));
    tcp_close(b);
    assert_true(send_filled(from_a, 6, 50));
    assert_true(send_filled(from_a, 7, 50));
    progress(a, NULL);
    assert_int_equal(to_a->ops->peek(to_a, &view), LINK_READY);
    assert_int_equal(*(const char *)view.data, 5);
    assert_int_equal(state_of(a, 1), PEER_LOST);
    assert_int_equal(wishes.count[1][0], wanted_before + 1);
    tcp_close(a);
}

static void a_broken_peer_harms_nobody_else(void **state)
{
    (void)state;
    struct transport *a = create_rank(0, 1, NULL), *b = create_rank(2, 1, NULL);
    struct link_tx *tx;
    struct link_rx *rx, *from_broken;
    struct link_view view;
    assert_int_equal(a->ops->open_rx(a, 0, 0, 1, &from_broken), TUTTI_OK);
    assert_int_equal(a->ops->open_rx(a, 0, 0, 2, &rx), TUTTI_OK);
    assert_int_equal(b->ops->open_tx(b, 0, 0, 0, 100, &tx), TUTTI_OK);
    tcp_peer_join(a, b, 0);
    const int end = tcp_peer_open(a, 1, 0);
    put_frame(end, small); /* before it is ready */
    progress(a, b);
    assert_true(send_filled(tx, 6, 50));
    progress(a, b);
    assert_int_equal(from_broken->ops->peek(from_broken, &view), LINK_FAULT);
    assert_int_equal(state_of(a, 1), PEER_BROKEN);
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    /* It gets no second try. */
    tcp_peer_open_closed(a, 1, 0);
    progress(a, b);
    assert_int_equal(state_of(a, 1), PEER_BROKEN);
    close(end);
    tcp_close(a);
    tcp_close(b);
}

/* ------------------------------------------------------------------------------------- sleeping */

static uint64_t sleep_ns(struct transport *transport, uint64_t timeout_ns)
{
    const uint64_t begin_ns = clock_now_ns();
    transport->ops->sleep(transport, timeout_ns);
    return clock_now_ns() - begin_ns;
}

static void a_sleeper_wakes_when_something_comes(void **state)
{
    (void)state;
    struct transport *a = create_rank(0, 1, NULL), *b = create_rank(1, 1, NULL);
    struct link_tx *tx;
    struct link_rx *rx;
    struct link_view view;
    assert_int_equal(a->ops->open_tx(a, 0, 0, 1, 100, &tx), TUTTI_OK);
    assert_int_equal(b->ops->open_rx(b, 0, 0, 0, &rx), TUTTI_OK);
    tcp_peer_join(a, b, 0);
    progress(a, b);
    b->ops->sleep_begin(b);
    b->ops->progress(b);
    expect_empty(rx);
    assert_true(sleep_ns(b, 5000000) >= 5000000); /* nothing comes */
    b->ops->sleep_begin(b);
    b->ops->progress(b);
    assert_true(send_filled(tx, 1, 10));
    assert_true(sleep_ns(b, 20000000000) < 10000000000);
    b->ops->progress(b);
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    tcp_close(a);
    tcp_close(b);
}

static void *wake_later(void *argument)
{
    struct transport *transport = argument;
    for (int i = 0; i < 100; i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        transport->ops->wake(transport);
    }
    return NULL;
}

static void a_sleeper_is_woken_by_another_thread(void **state)
{
    (void)state;
    struct transport *a = create_rank(0, 1, NULL);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wake_later, a), 0);
    a->ops->sleep_begin(a);
    a->ops->progress(a);
    assert_true(sleep_ns(a, 20000000000) < 10000000000);
    pthread_join(thread, NULL);
    a->ops->progress(a); /* takes the ring */
    a->ops->sleep_begin(a);
    a->ops->progress(a);
    a->ops->sleep_cancel(a);
    a->ops->wake(a); /* no thread sleeps */
    a->ops->sleep_begin(a);
    assert_true(sleep_ns(a, 2000000) >= 2000000);
    tcp_close(a);
}

static bool is_readable(struct transport *transport)
{
    struct pollfd descriptor = {.fd = transport->ops->descriptor(transport), .events = POLLIN};
    return poll(&descriptor, 1, 0) == 1;
}

/* The bytes came before the sleep was announced, or the last look after that finds them. */
static void expect_blocked_makes_readable(bool by_last_look)
{
    enum { BYTES = 2 << 20 };
    const struct tcp_options options = {.size = 2, .streams = 1, .piece_count = 32};
    struct transport *transport;
    struct link_tx *tx;
    char *const memory = calloc(1, BYTES);
    assert_non_null(memory);
    assert_int_equal(tcp_create(&options, &transport), TUTTI_OK);
    assert_int_equal(transport->ops->open_tx(transport, 0, 0, 1, BYTES, &tx), TUTTI_OK);
    const int end = tcp_peer_open(transport, 1, 0);
    put_frame(end, grant);
    put_frame(end, tcp_peer_ready(TCP_FRAME_BYTES_MAX, 32));
    progress(transport, NULL);
    if (by_last_look) transport->ops->sleep_begin(transport);
    assert_true(tx->ops->post(tx, memory, BYTES)); /* more than the kernel takes */
    progress(transport, NULL);
    assert_false(tcp_is_idle(transport));
    if (!by_last_look) transport->ops->sleep_begin(transport);
    assert_false(transport->ops->progress(transport));
    assert_false(is_readable(transport));
    drain(end);
    assert_true(is_readable(transport));
    transport->ops->sleep(transport, 1000000000);
    assert_true(transport->ops->progress(transport));
    while (!tcp_is_idle(transport)) {
        transport->ops->progress(transport);
        drain(end);
    }
    progress(transport, NULL);
    assert_false(is_readable(transport)); /* room is nothing to wake up for any more */
    tcp_close(transport);
    close(end);
    free(memory);
}

static void what_was_blocked_makes_the_descriptor_readable(void **state)
{
    (void)state;
    expect_blocked_makes_readable(false);
    expect_blocked_makes_readable(true);
}

static void a_sleeper_wakes_when_what_was_blocked_can_go_on(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20 };
    struct transport *a = create_rank(0, 1, NULL), *b = create_rank(1, 1, NULL);
    struct link_tx *tx[8];
    struct link_rx *rx[8];
    char *const memory = calloc(1, BYTES);
    assert_non_null(memory);
    tcp_peer_join(a, b, 0);
    for (int l = 0; l < 8; l++) {
        assert_int_equal(a->ops->open_tx(a, l, 0, 1, BYTES, &tx[l]), TUTTI_OK);
        assert_int_equal(b->ops->open_rx(b, l, 0, 0, &rx[l]), TUTTI_OK);
    }
    progress(a, b);
    for (int l = 0; l < 8; l++) assert_true(tx[l]->ops->post(tx[l], memory, BYTES));
    /* Each rank sleeps whenever it has nothing to do; no rank looks at another one. */
    size_t left = 8 * (size_t)BYTES;
    for (int i = 0; left > 0; i++) {
        assert_true(i < 1000000);
        struct transport *own = i % 2 == 0 ? a : b;
        bool moved = own->ops->progress(own);
        for (int l = 0; l < 8 && own == b; l++) {
            struct link_view view;
            if (rx[l]->ops->peek(rx[l], &view) != LINK_READY) continue;
            rx[l]->ops->consume(rx[l], view.bytes);
            left -= view.bytes;
            moved = true;
        }
        if (moved) continue;
        own->ops->sleep_begin(own);
        if (own->ops->progress(own))
            own->ops->sleep_cancel(own);
        else
            own->ops->sleep(own, 100000);
    }
    tcp_close(a);
    tcp_close(b);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_wanted_once_and_again_after_a_loss),
        cmocka_unit_test(a_rank_with_more_connections_uses_those_that_both_have),
        cmocka_unit_test(what_was_under_way_comes_over_the_next_connection),
        cmocka_unit_test(a_link_opened_while_a_connection_is_replaced_loses_nothing),
        cmocka_unit_test(who_finishes_cuts_nothing_off),
        cmocka_unit_test(frames_that_make_no_sense_break_their_peer),
        cmocka_unit_test(control_messages_that_make_no_sense_break_their_peer),
        cmocka_unit_test(a_flood_of_control_messages_breaks_its_peer),
        cmocka_unit_test(control_messages_overtake_pieces),
        cmocka_unit_test(wrong_order_of_bytes_is_a_fault_of_the_link),
        cmocka_unit_test(what_is_still_being_written_cannot_be_consumed),
        cmocka_unit_test(the_kernel_holds_little_that_it_cannot_send),
        cmocka_unit_test(last_words_are_heard_where_nothing_can_be_written),
        cmocka_unit_test(a_broken_peer_harms_nobody_else),
        cmocka_unit_test(a_sleeper_wakes_when_something_comes),
        cmocka_unit_test(a_sleeper_is_woken_by_another_thread),
        cmocka_unit_test(what_was_blocked_makes_the_descriptor_readable),
        cmocka_unit_test(a_sleeper_wakes_when_what_was_blocked_can_go_on),
    };
    return CASES_RUN_AT_ONCE(tests, 4);
}
