/* The order in which links send, and the connections that they take. The test is the peer: it
 * grants what it is asked for, and looks at the frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/tcp_peer.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/tcp.h"

enum { LINKS = 3, STREAMS_MAX = 3, FRAMES_MAX = 200, PIECES = 32, POSTED_BYTES = 40 * 65536 };

/* The frames that came over one connection, without their payload. */
struct record {
    struct tcp_frame frames[FRAMES_MAX];
    int count;
    unsigned char head[TCP_FRAME_HEAD_BYTES];
    size_t head_bytes, payload_left;
};

struct bench {
    struct transport *transport;
    unsigned streams;
    int ends[STREAMS_MAX];
    struct link_tx *tx[LINKS]; /* in slots 0, 1, 2 */
    struct record records[STREAMS_MAX];
    char *memory;
};

static void progress(struct bench *bench)
{
    tcp_peer_move(bench->transport, 100);
}

static void open_bench(struct bench *bench, unsigned streams)
{
    const struct tcp_options options = {.size = 2, .streams = streams, .piece_count = PIECES};
    *bench = (struct bench){.streams = streams, .memory = calloc(1, POSTED_BYTES)};
    assert_non_null(bench->memory);
    assert_int_equal(tcp_create(&options, &bench->transport), TUTTI_OK);
    struct transport *transport = bench->transport;
    for (int l = 0; l < LINKS; l++)
        assert_int_equal(transport->ops->open_tx(transport, l, 0, 1, 65536, &bench->tx[l]),
                         TUTTI_OK);
    for (unsigned s = 0; s < streams; s++) {
        const int end = bench->ends[s] = tcp_peer_open(transport, 1, s);
        for (uint8_t l = 0; l < LINKS; l++)
            assert_true(tcp_peer_put_head(end, (struct tcp_frame){.kind = TCP_FRAME_CREDIT,
                                                                  .flags = TCP_FRAME_RESUME,
                                                                  .slot = l,
                                                                  .place = TCP_FRAME_NO_PLACE}));
        assert_true(tcp_peer_put_head(end, tcp_peer_ready(65536, PIECES)));
    }
    progress(bench);
}

static void close_bench(struct bench *bench)
{
    tcp_close(bench->transport);
    for (unsigned s = 0; s < bench->streams; s++) close(bench->ends[s]);
    free(bench->memory);
}

static void post(struct bench *bench, int link)
{
    assert_true(bench->tx[link]->ops->post(bench->tx[link], bench->memory, POSTED_BYTES));
}

static void commit_small(struct bench *bench, int link)
{
    struct link_tx *tx = bench->tx[link];
    void *place = tx->ops->reserve(tx, 8);
    assert_non_null(place);
    memset(place, 1, 8);
    tx->ops->commit(tx, 8);
}

static void record_bytes(struct record *record, const unsigned char *bytes, size_t count)
{
    while (count > 0) {
        size_t taken = record->payload_left < count ? record->payload_left : count;
        if (record->payload_left > 0) {
            record->payload_left -= taken;
        } else {
            taken = TCP_FRAME_HEAD_BYTES - record->head_bytes;
            if (taken > count) taken = count;
            memcpy(record->head + record->head_bytes, bytes, taken);
            record->head_bytes += taken;
            if (record->head_bytes == TCP_FRAME_HEAD_BYTES) {
                assert_true(record->count < FRAMES_MAX);
                struct tcp_frame *frame = &record->frames[record->count++];
                assert_null(tcp_frame_read(record->head, frame));
                record->head_bytes = 0;
                record->payload_left = frame->bytes;
            }
        }
        bytes += taken;
        count -= taken;
    }
}

/* Reads all that comes, from one connection after the other. */
static void read_all(struct bench *bench)
{
    static unsigned char bytes[16384];
    for (int idle = 0; idle < 50; idle++) {
        for (unsigned s = 0; s < bench->streams; s++) {
            const ssize_t got = recv(bench->ends[s], bytes, sizeof bytes, MSG_DONTWAIT);
            if (got <= 0) continue;
            record_bytes(&bench->records[s], bytes, (size_t)got);
            idle = 0;
        }
        tcp_peer_move(bench->transport, 1);
    }
}

static int find_data(const struct record *record, unsigned slot, int from)
{
    for (int f = from; f < record->count; f++)
        if (record->frames[f].kind == TCP_FRAME_DATA && record->frames[f].slot == slot) return f;
    return -1;
}

static int count_data(const struct record *record, unsigned slot)
{
    int count = 0;
    for (int f = find_data(record, slot, 0); f >= 0; f = find_data(record, slot, f + 1)) count++;
    return count;
}

static void small_messages_overtake_large_ones(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, 1);
    post(&bench, 0);
    progress(&bench); /* as much as the kernel takes */
    commit_small(&bench, 1);
    read_all(&bench);
    const struct record *record = &bench.records[0];
    assert_int_equal(count_data(record, 0), POSTED_BYTES / 65536);
    const int overtakes = find_data(record, 1, 0);
    assert_true(overtakes >= 0);
    assert_true(record->count - 1 - overtakes > POSTED_BYTES / 65536 / 2);
    close_bench(&bench);
}

static void large_messages_take_turns(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, 1);
    for (int l = 0; l < LINKS; l++) post(&bench, l);
    read_all(&bench);
    /* From the moment when all links have begun until the first is done, none waits for more than
     * one piece of each other link. */
    const struct record *record = &bench.records[0];
    const int begin = find_data(record, LINKS - 1, 0);
    assert_true(begin >= 0);
    for (int f = begin; f + LINKS <= record->count; f++) {
        bool seen[LINKS] = {false};
        for (int i = 0; i < LINKS; i++) seen[record->frames[f + i].slot] = true;
        if (record->frames[f].sequence >= POSTED_BYTES / 65536 - LINKS) break;
        for (int l = 0; l < LINKS; l++) assert_true(seen[l]);
    }
    for (int l = 0; l < LINKS; l++) assert_int_equal(count_data(record, (unsigned)l), 40);
    close_bench(&bench);
}

static void the_first_connection_is_for_small_messages(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, 3);
    for (int i = 0; i < 20; i++) commit_small(&bench, 1);
    read_all(&bench);
    assert_int_equal(count_data(&bench.records[0], 1), 20);
    post(&bench, 0);
    read_all(&bench);
    const int second = count_data(&bench.records[1], 0), third = count_data(&bench.records[2], 0);
    assert_int_equal(second + third, POSTED_BYTES / 65536);
    assert_true(second >= 5 && third >= 5);
    close_bench(&bench);
}

static void a_connection_that_is_alone_carries_all(void **state)
{
    (void)state;
    for (unsigned alone = 0; alone < 2; alone++) {
        struct bench bench;
        open_bench(&bench, 2);
        close(bench.ends[1 - alone]);
        progress(&bench);
        commit_small(&bench, 1);
        post(&bench, 0);
        read_all(&bench);
        assert_int_equal(count_data(&bench.records[alone], 0), POSTED_BYTES / 65536);
        assert_int_equal(count_data(&bench.records[alone], 1), 1);
        bench.ends[1 - alone] = dup(bench.ends[alone]); /* to be closed */
        close_bench(&bench);
    }
}

/* Pieces that were given to a lost connection go again over another connection, as soon as the peer
 * has said which pieces it has: in the same places, under the same numbers. */
static void what_was_lost_goes_again_over_any_connection(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, 1);
    for (int i = 0; i < 6; i++) commit_small(&bench, 1);
    read_all(&bench);
    assert_int_equal(count_data(&bench.records[0], 1), 6);
    close(bench.ends[0]);
    const int end = bench.ends[0] = tcp_peer_open(bench.transport, 1, 0);
    bench.records[0] = (struct record){0};
    commit_small(&bench, 1);
    read_all(&bench);
    assert_int_equal(count_data(&bench.records[0], 1), 0); /* it has not said anything yet */
    assert_true(tcp_peer_put_head(end, (struct tcp_frame){.kind = TCP_FRAME_CREDIT,
                                                          .flags = TCP_FRAME_RESUME,
                                                          .slot = 1,
                                                          .consumed = 2,
                                                          .sequence = 0x5, /* 2 and 4 */
                                                          .place = TCP_FRAME_NO_PLACE}));
    assert_true(tcp_peer_put_head(end, tcp_peer_ready(65536, PIECES)));
    read_all(&bench);
    static const uint64_t again[] = {3, 5, 6};
    int f = -1;
    for (int i = 0; i < 3; i++) {
        f = find_data(&bench.records[0], 1, f + 1);
        assert_true(f >= 0);
        assert_int_equal(bench.records[0].frames[f].sequence, again[i]);
        assert_int_equal(bench.records[0].frames[f].offset, 8 * again[i]);
    }
    assert_int_equal(find_data(&bench.records[0], 1, f + 1), -1);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_messages_overtake_large_ones),
        cmocka_unit_test(large_messages_take_turns),
        cmocka_unit_test(the_first_connection_is_for_small_messages),
        cmocka_unit_test(a_connection_that_is_alone_carries_all),
        cmocka_unit_test(what_was_lost_goes_again_over_any_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
