/* Links with integrity between ranks of this process, driven from one thread; the test changes
 * messages in the segment while they are on their way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/local_world.h"
#include "transport/local/checked.h"
#include "transport/local/local.h"

enum { RANKS = 3, LARGE_BYTES = 5000 };

/* The names of ranks, in links and in messages. */
static const int names[RANKS] = {10, 11, 12};

static struct local_net open_net(struct host_peer peer)
{
    return local_net_open(RANKS, peer, names, true);
}

static size_t bytes_max(struct local_net *net)
{
    size_t bytes;
    unsigned count;
    net->ranks[0]->ops->limits(net->ranks[0], &bytes, &count);
    return bytes;
}

static void send_filled(struct link_tx *tx, unsigned char filling, size_t bytes)
{
    void *place = tx->ops->reserve(tx, bytes);
    assert_non_null(place);
    memset(place, filling, bytes);
    tx->ops->commit(tx, bytes);
}

static void expect_filled(struct link_rx *rx, unsigned char filling, size_t bytes)
{
    struct link_view view;
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    assert_int_equal(view.bytes, bytes);
    assert_null(view.place);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(((const unsigned char *)view.data)[i], filling);
    rx->ops->consume(rx, bytes);
}

static void expect_state(struct link_rx *rx, enum link_state state)
{
    struct link_view view;
    assert_int_equal(rx->ops->peek(rx, &view), state);
}

/* The places of both copies of message `index` of a link that rank 0 writes; `to`: a reader, or
 * rank 0 for the link to all. */
struct lies {
    unsigned char *headers[2], *payloads[2];
};

static struct lies find(struct local_net *net, int to, unsigned index)
{
    struct message_header *headers;
    char *data;
    struct lies lies;
    assert_int_equal(
        segment_link(net->segment, 0, LOCAL_NET_SLOT, LOCAL_NET_CHANNEL, to, &headers, &data),
        TUTTI_OK);
    for (unsigned copy = 0; copy < 2; copy++) {
        lies.headers[copy] = (unsigned char *)(headers + index % HEADER_COUNT + copy * HEADER_COUNT);
        lies.payloads[copy] = (unsigned char *)data +
                              index % DATA_SLOTS * net->segment->slot_bytes + copy * bytes_max(net);
    }
    return lies;
}

/* ---------------------------------------------------------------------------------------- tests */

static void messages_of_every_size_arrive_in_order(void **state)
{
    (void)state;
    struct local_net net = open_net((struct host_peer){0});
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    const size_t sizes[] = {0, 1, INLINE_BYTES, INLINE_BYTES + 1, 4096, bytes_max(&net)};
    for (int round = 0; round < 100; round++) {
        const size_t a = sizes[round % 6], b = sizes[(round / 6) % 6];
        expect_state(rx, LINK_EMPTY);
        send_filled(tx, (unsigned char)round, a);
        send_filled(tx, (unsigned char)(round + 1), b);
        assert_false(tx->ops->consumed(tx));
        expect_filled(rx, (unsigned char)round, a);
        expect_filled(rx, (unsigned char)(round + 1), b);
        assert_true(tx->ops->consumed(tx));
    }
    assert_int_equal(local_mended(net.ranks[1]), 0);
    assert_int_equal(net.ranks[1]->ops->corrupt_rank(net.ranks[1]), -1);
    local_net_close(&net);
}

/* Changes of each byte of a header, and of bytes of the payload, are mended from the second
 * copy. */
static void a_change_of_any_byte_is_mended(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 8, INLINE_BYTES, LARGE_BYTES};
    struct local_net net = open_net((struct host_peer){0});
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    unsigned sent = 0, large = 0, mended = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const bool in_slot = sizes[s] > INLINE_BYTES;
        const size_t header_bytes =
            offsetof(struct message_header, u) + (in_slot ? sizeof(uint64_t) : sizes[s]);
        for (size_t i = 0; i < header_bytes + (in_slot ? sizes[s] : 0); i++) {
            struct lies lies = find(&net, 1, sent++);
            if (in_slot) lies.payloads[0] = find(&net, 1, large++).payloads[0];
            send_filled(tx, 7, sizes[s]);
            if (i < header_bytes)
                lies.headers[0][i] ^= 1 << i % 8;
            else
                lies.payloads[0][i - header_bytes] ^= 1 << i % 8;
            expect_filled(rx, 7, sizes[s]);
            /* a changed number is not among the compared bytes */
            mended += i >= sizeof(uint64_t);
            assert_int_equal(local_mended(net.ranks[1]), mended);
        }
    }
    assert_int_equal(net.ranks[1]->ops->corrupt_rank(net.ranks[1]), -1);
    local_net_close(&net);
}

/* As if a word of another message had got there. */
static void what_has_the_number_of_another_use_is_empty_or_mended(void **state)
{
    (void)state;
    struct local_net net = open_net((struct host_peer){0});
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    struct message_header *header = (struct message_header *)(void *)find(&net, 1, 0).headers[0];
    atomic_store(&header->sequence, 77);
    expect_state(rx, LINK_EMPTY);
    send_filled(tx, 7, 8);
    atomic_store(&header->sequence, 77);
    expect_filled(rx, 7, 8);
    local_net_close(&net);
}

static void what_changed_twice_is_the_senders_fault(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, LARGE_BYTES};
    for (int s = 0; s < 2; s++) {
        struct local_net net = open_net((struct host_peer){0});
        struct link_tx *tx = local_net_tx(&net, 0, 1), *other_tx = local_net_tx(&net, 2, 1);
        struct link_rx *rx = local_net_rx(&net, 1, 0, false),
                       *from_all = local_net_rx(&net, 1, 0, true),
                       *other_rx = local_net_rx(&net, 1, 2, false);
        send_filled(tx, 7, sizes[s]);
        const struct lies lies = find(&net, 1, 0);
        for (int copy = 0; copy < 2; copy++)
            *(s == 0 ? lies.headers[copy] + offsetof(struct message_header, u)
                     : lies.payloads[copy] + 1) ^= 16;
        expect_state(rx, LINK_FAULT);
        assert_int_equal(net.ranks[1]->ops->corrupt_rank(net.ranks[1]), names[0]);
        assert_int_equal(local_mended(net.ranks[1]), 0);
        *(s == 0 ? lies.headers[0] + offsetof(struct message_header, u) : lies.payloads[0] + 1) ^=
            16;
        expect_state(rx, LINK_FAULT); /* it stays so */
        expect_state(from_all, LINK_FAULT);
        send_filled(other_tx, 8, 100);
        expect_filled(other_rx, 8, 100);
        assert_int_equal(net.ranks[2]->ops->corrupt_rank(net.ranks[2]), -1);
        local_net_close(&net);
    }
}

static void each_reader_of_a_link_to_all_compares(void **state)
{
    (void)state;
    struct local_net net = open_net((struct host_peer){0});
    struct link_tx *tx = local_net_tx(&net, 0, LINK_TO_GROUP);
    struct link_rx *one = local_net_rx(&net, 1, 0, true), *two = local_net_rx(&net, 2, 0, true);
    send_filled(tx, 7, LARGE_BYTES);
    expect_filled(one, 7, LARGE_BYTES);
    find(&net, 0, 0).payloads[0][LARGE_BYTES - 1] = 8;
    expect_filled(two, 7, LARGE_BYTES);
    assert_int_equal(local_mended(net.ranks[1]), 0);
    assert_int_equal(local_mended(net.ranks[2]), 1);
    assert_true(tx->ops->consumed(tx));
    local_net_close(&net);
}

static void a_message_is_taken_in_parts(void **state)
{
    (void)state;
    struct local_net net = open_net((struct host_peer){0});
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    send_filled(tx, 7, LARGE_BYTES);
    find(&net, 1, 0).payloads[0][LARGE_BYTES - 1] = 8;
    for (int part = 0; part < 10; part++) {
        struct link_view view;
        assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
        assert_int_equal(view.bytes, LARGE_BYTES - part * 500);
        assert_int_equal(((const unsigned char *)view.data)[view.bytes - 1], 7);
        rx->ops->consume(rx, 500);
    }
    expect_state(rx, LINK_EMPTY);
    assert_int_equal(local_mended(net.ranks[1]), 1); /* compared once */
    local_net_close(&net);
}

/* The message is sealed correctly, but its sender runs another operation. */
static void another_signature_is_a_fault_of_nobodys_memory(void **state)
{
    (void)state;
    struct local_net net = open_net((struct host_peer){0});
    net.ranks[0]->signatures[LOCAL_NET_SLOT] = LOCAL_NET_SIGNATURE + 1;
    send_filled(local_net_tx(&net, 0, 1), 7, 100);
    expect_state(local_net_rx(&net, 1, 0, false), LINK_FAULT);
    assert_int_equal(net.ranks[1]->ops->corrupt_rank(net.ranks[1]), -1);
    local_net_close(&net);
}

static void headers_that_make_no_sense_have_changed(void **state)
{
    (void)state;
    static const uint64_t first_mark = UINT64_C(0x9e3779b97f4a7c15);
    static const struct {
        uint64_t kind, bytes, slot;
    } cases[] = {
        {MESSAGE_INLINE, INLINE_BYTES + 1, 0},
        {MESSAGE_SLOT, 100, DATA_SLOTS},
        {MESSAGE_SLOT, 100, UINT64_MAX},
        {MESSAGE_SLOT, (1 << 24) - 1, 0},
        {MESSAGE_ADDRESS, 8, 4096},
        {MESSAGE_HEAP, 8, 0},
        {MESSAGE_SHARED, 8, 0},
        {255, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct local_net net = open_net((struct host_peer){0});
        const struct lies lies = find(&net, 1, 0);
        for (int copy = 0; copy < 2; copy++) {
            struct message_header *header = (struct message_header *)(void *)lies.headers[copy];
            header->signature = LOCAL_NET_SIGNATURE;
            header->kind_and_bytes = cases[i].kind << 56 | cases[i].bytes << 32;
            header->u.slot = cases[i].slot;
            atomic_store(&header->sequence, first_mark);
        }
        expect_state(local_net_rx(&net, 1, 0, false), LINK_FAULT);
        assert_int_equal(net.ranks[1]->ops->corrupt_rank(net.ranks[1]), names[0]);
        local_net_close(&net);
    }
}

/* Even if this rank could read and write its peers' memory. */
static void memory_is_not_read_where_it_lies(void **state)
{
    (void)state;
    const struct host_peer peers[] = {{.same_process = true}, {.pid = getpid()}};
    for (int i = 0; i < 2; i++) {
        struct local_net net = open_net(peers[i]);
        struct link_tx *const tx = local_net_tx(&net, 0, 1);
        char data[100];
        assert_int_equal(tx->ops->reach(tx, data, sizeof data), REACH_NONE);
        assert_false(tx->ops->post(tx, data, sizeof data));
        assert_int_equal(tx->capabilities, 0);
        assert_int_equal(local_net_tx(&net, 0, LINK_TO_GROUP)->capabilities, 0);
        assert_int_equal(local_net_rx(&net, 1, 0, false)->capabilities, 0);
        assert_int_equal(net.ranks[0]->sharing->open_shared_slots(net.ranks[0], LOCAL_NET_SLOT),
                         TUTTI_UNSUPPORTED);
        assert_false(local_maps_heaps(net.ranks[0]));
        local_net_close(&net);
    }
}

static void a_piece_is_half_a_slot(void **state)
{
    (void)state;
    struct local_net net = open_net((struct host_peer){0});
    size_t bytes;
    unsigned count;
    local_limits(RANKS, true, &bytes, &count);
    assert_true(bytes == bytes_max(&net) && bytes == net.segment->slot_bytes / 2);
    for (int ranks = 1; ranks <= 300; ranks++) {
        local_limits(ranks, true, &bytes, &count);
        assert_true(bytes > 0 && bytes % 64 == 0);
    }
    local_net_close(&net);
}

int main(void)
{
    setenv("TUTTI_LOG", "off", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_every_size_arrive_in_order),
        cmocka_unit_test(a_change_of_any_byte_is_mended),
        cmocka_unit_test(what_has_the_number_of_another_use_is_empty_or_mended),
        cmocka_unit_test(what_changed_twice_is_the_senders_fault),
        cmocka_unit_test(each_reader_of_a_link_to_all_compares),
        cmocka_unit_test(a_message_is_taken_in_parts),
        cmocka_unit_test(another_signature_is_a_fault_of_nobodys_memory),
        cmocka_unit_test(headers_that_make_no_sense_have_changed),
        cmocka_unit_test(memory_is_not_read_where_it_lies),
        cmocka_unit_test(a_piece_is_half_a_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
