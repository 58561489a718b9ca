/* Links between two and three ranks of this process, driven from one thread; the test writes into
 * the segment what a peer may write there. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/worlds/local_world.h"
#include "transport/local/local.h"
#include "transport/local/segment.h"
#include "transport/local/slot_owner.h"

static struct local_net open_net_of(int size, struct host_peer peer)
{
    return local_net_open(size, peer, NULL, false);
}

static struct local_net open_net(int size, bool same_process)
{
    return open_net_of(size, (struct host_peer){same_process, 0, NULL});
}

static bool send_filled(struct link_tx *tx, unsigned char filling, size_t bytes)
{
    void *place = tx->ops->reserve(tx, bytes);
    if (place == NULL) return false;
    memset(place, filling, bytes);
    tx->ops->commit(tx, bytes);
    return true;
}

static void expect_filled(struct link_rx *rx, unsigned char filling, size_t bytes)
{
    struct link_view view;
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
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

/* ---------------------------------------------------------------------------------------- tests */

static void messages_of_every_size_arrive_in_order(void **state)
{
    (void)state;
    struct local_net net = open_net(2, false);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    size_t piece;
    unsigned pieces;
    net.ranks[0]->ops->limits(net.ranks[0], &piece, &pieces);
    assert_true(piece >= 4096 && pieces >= 1);
    const size_t sizes[] = {
        0, 1, INLINE_BYTES, INLINE_BYTES + 1, SMALL_SLOT_BYTES, SMALL_SLOT_BYTES + 1, 4096, piece};
    expect_empty(rx);
    for (int round = 0; round < 200; round++) {
        const size_t a = sizes[round % 8], b = sizes[(round / 8) % 8];
        assert_true(send_filled(tx, (unsigned char)round, a));
        assert_true(send_filled(tx, (unsigned char)(round + 1), b));
        assert_false(tx->ops->consumed(tx));
        expect_filled(rx, (unsigned char)round, a);
        expect_filled(rx, (unsigned char)(round + 1), b);
        expect_empty(rx);
        assert_true(tx->ops->consumed(tx));
    }
    local_net_close(&net);
}

/* A root need not wait for ranks that have not come: neither for one reader nor for the slowest of
 * several. */
static void a_writer_of_small_messages_is_ahead_by_as_many_as_there_are_places(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, INLINE_BYTES + 1, SMALL_SLOT_BYTES};
    for (unsigned s = 0; s < 3; s++) {
        const int places = sizes[s] <= INLINE_BYTES ? TRANSPORT_UNDER_WAY_MAX : SMALL_SLOT_COUNT;
        for (int round = 0; round < 2; round++) {
            const bool to_all = round == 1;
            struct local_net net = open_net(3, false);
            struct link_tx *tx = local_net_tx(&net, 0, to_all ? LINK_TO_GROUP : 1);
            struct link_rx *slow = local_net_rx(&net, 1, 0, to_all);
            struct link_rx *fast = to_all ? local_net_rx(&net, 2, 0, true) : NULL;
            for (int i = 0; i < places; i++)
                assert_true(send_filled(tx, (unsigned char)i, sizes[s]));
            assert_null(tx->ops->reserve(tx, sizes[s]));
            for (int i = 0; i < places && fast != NULL; i++)
                expect_filled(fast, (unsigned char)i, sizes[s]);
            assert_null(tx->ops->reserve(tx, sizes[s]));
            for (int i = 0; i < 3 * places; i++) {
                expect_filled(slow, (unsigned char)i, sizes[s]);
                assert_true(send_filled(tx, (unsigned char)(i + places), sizes[s]));
                if (fast != NULL) expect_filled(fast, (unsigned char)(i + places), sizes[s]);
                assert_null(tx->ops->reserve(tx, sizes[s]));
            }
            local_net_close(&net);
        }
    }
}

static void a_message_is_taken_in_parts(void **state)
{
    (void)state;
    struct local_net net = open_net(2, false);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    unsigned char *place = tx->ops->reserve(tx, 1000);
    assert_non_null(place);
    assert_ptr_equal(tx->ops->reserve(tx, 1000), place); /* repeatable */
    assert_int_equal((uintptr_t)place % 64, 0);
    for (int i = 0; i < 1000; i++) place[i] = (unsigned char)(i / 100);
    tx->ops->commit(tx, 1000);
    for (int part = 0; part < 10; part++) {
        struct link_view view;
        assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
        assert_int_equal(view.bytes, 1000 - part * 100);
        assert_int_equal(*(const unsigned char *)view.data, part);
        assert_false(tx->ops->consumed(tx));
        rx->ops->consume(rx, 100);
    }
    assert_true(tx->ops->consumed(tx));
    expect_empty(rx);
    local_net_close(&net);
}

/* Sends a message through a slot, which is taken in two parts, and tells whether its reader has stored
 * to the slot's lines afterwards, and to nothing else. */
static bool is_made_own(struct link_tx *tx, struct link_rx *rx)
{
    enum { BYTES = SLOT_OWNER_BYTES_MIN, FIRST = 3000 };
    unsigned char *place = tx->ops->reserve(tx, BYTES);
    assert_non_null(place);
    memset(place, 7, BYTES);
    tx->ops->commit(tx, BYTES);
    struct link_view view;
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    rx->ops->consume(rx, FIRST);
    for (int i = 0; i < BYTES; i++) assert_int_equal(place[i], 7);
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    rx->ops->consume(rx, BYTES - FIRST);
    const bool is_stored = place[0] == 0;
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(place[i], is_stored && i % CACHE_LINE == 0 ? 0 : 7);
    return is_stored;
}

/* A trial begins without asking, and goes on with it. */
static void readers_make_slots_their_own_where_they_are_asked(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        const bool to_all = round > 0;
        struct local_net net = open_net(round == 1 ? 3 : 2, false);
        struct link_tx *tx = local_net_tx(&net, 0, to_all ? LINK_TO_GROUP : 1);
        struct link_rx *rx = local_net_rx(&net, 1, 0, to_all);
        struct link_rx *other = round == 1 ? local_net_rx(&net, 2, 0, true) : NULL;
        for (int i = 0; i < 2 * SLOT_OWNER_PHASE; i++) {
            assert_int_equal(is_made_own(tx, rx), i >= SLOT_OWNER_PHASE && other == NULL);
            if (other != NULL) expect_filled(other, 7, SLOT_OWNER_BYTES_MIN);
        }
        local_net_close(&net);
    }
}

static void a_full_link_has_no_room_until_something_is_consumed(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 1000};
    for (int s = 0; s < 2; s++) {
        struct local_net net = open_net(2, false);
        struct link_tx *tx = local_net_tx(&net, 0, 1);
        struct link_rx *rx = local_net_rx(&net, 1, 0, false);
        int sent = 0;
        while (send_filled(tx, (unsigned char)sent, sizes[s]))
            if (++sent > 1000) fail_msg("a link without end");
        assert_true(sent >= 1);
        for (int i = 0; i < 50; i++) {
            assert_false(send_filled(tx, 0, sizes[s]));
            expect_filled(rx, (unsigned char)i, sizes[s]);
            assert_true(send_filled(tx, (unsigned char)(sent + i), sizes[s]));
        }
        local_net_close(&net);
    }
}

static void memory_of_one_process_is_read_where_it_lies(void **state)
{
    (void)state;
    struct local_net net = open_net(2, true);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    char data[100];
    struct link_view view;
    assert_int_equal(tx->ops->reach(tx, data, sizeof data), REACH_READ);
    assert_true(tx->ops->post(tx, data, sizeof data));
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    assert_ptr_equal(view.data, data);
    assert_int_equal(view.bytes, sizeof data);
    assert_false(tx->ops->consumed(tx));
    rx->ops->consume(rx, sizeof data);
    assert_true(tx->ops->consumed(tx));
    local_net_close(&net);
}

static void memory_of_another_process_is_not_reached(void **state)
{
    (void)state;
    struct local_net net = open_net(2, false);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    char data[100];
    assert_int_equal(tx->ops->reach(tx, data, sizeof data), REACH_NONE);
    assert_false(tx->ops->post(tx, data, sizeof data));
    local_net_close(&net);
}

/* Ranks that take each other for processes with heaps; both heaps are this process's. */
struct heap_net {
    struct local_net net;
    struct heap_window *window;
    char *memory;
    uint64_t offset; /* of it in the heap */
};

enum { MEMORY_BYTES = 1 << 20 };

static struct heap_net open_heap_net_of(int fd)
{
    struct heap_net heap = {0};
    void *memory;
    assert_int_equal(heap_allocate(MEMORY_BYTES, &memory), TUTTI_OK);
    heap.memory = memory;
    assert_true(heap_find(memory, MEMORY_BYTES, &heap.offset));
    struct heap_location location = heap_location();
    location.process_key = 99;
    if (fd >= 0) location.fd = fd;
    assert_int_equal(heap_window_acquire(&location, &heap.window), TUTTI_OK);
    assert_int_equal(setenv("TUTTI_CMA", "0", 1), 0); /* nothing else of it is reached */
    heap.net = open_net_of(2, (struct host_peer){false, getpid(), heap.window});
    assert_int_equal(unsetenv("TUTTI_CMA"), 0);
    return heap;
}

static struct heap_net open_heap_net(void)
{
    return open_heap_net_of(-1);
}

static void close_heap_net(struct heap_net *heap)
{
    local_net_close(&heap->net);
    heap_window_release(heap->window);
    assert_int_equal(heap_free(heap->memory), TUTTI_OK);
}

static struct tail *tail_of(const struct local_net *net, int reader, int writer)
{
    struct tail *tail;
    assert_int_equal(
        segment_tail(net->segment, reader, LOCAL_NET_SLOT, LOCAL_NET_CHANNEL, writer, false, &tail),
        TUTTI_OK);
    return tail;
}

static void expect_placed(struct link_rx *rx, const void *data, size_t bytes)
{
    struct link_view view;
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    assert_ptr_equal(view.data, data);
    assert_int_equal(view.bytes, bytes);
    rx->ops->consume(rx, bytes);
}

static void a_message_is_stored_where_its_reader_expects_it(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        const bool same_process = round == 1;
        struct heap_net heap = open_heap_net();
        struct local_net threads = open_net(2, true), *net = same_process ? &threads : &heap.net;
        struct link_tx *tx = local_net_tx(net, 0, 1);
        struct link_rx *rx = local_net_rx(net, 1, 0, false);
        for (int i = 0; i < 3 * HEADER_COUNT; i++) {
            char *destination = heap.memory + 4096 * i;
            const char value = (char)(i % 100 + 1);
            if (i % 3 == 1) assert_true(send_filled(tx, 5, 100)); /* one before it */
            assert_true(tx->ops->has_room(tx));
            assert_null(tx->ops->advertised_at(tx, 4096));
            if (i % 3 == 1) expect_filled(rx, 5, 100);
            rx->ops->advertise(rx, destination, 4096);
            assert_null(tx->ops->advertised_at(tx, 4095));
            char *place = tx->ops->advertised_at(tx, 4096);
            assert_non_null(place);
            assert_ptr_equal(tx->ops->advertised_at(tx, 4096), place);
            assert_true((place == destination) == same_process);
            memset(place, value, 4096);
            expect_empty(rx);
            tx->ops->written(tx, 4096);
            assert_false(tx->ops->consumed(tx));
            expect_placed(rx, destination, 4096);
            assert_true(tx->ops->consumed(tx));
            for (int b = 0; b < 4096; b++) assert_int_equal(destination[b], value);
        }
        local_net_close(&threads);
        close_heap_net(&heap);
    }
}

/* A message that is sent by another path makes the offer void, even for later messages. */
static void an_offer_is_for_one_message(void **state)
{
    (void)state;
    struct heap_net heap = open_heap_net();
    struct link_tx *tx = local_net_tx(&heap.net, 0, 1);
    struct link_rx *rx = local_net_rx(&heap.net, 1, 0, false);
    rx->ops->advertise(rx, heap.memory, 500);
    assert_true(send_filled(tx, 1, 500));
    assert_null(tx->ops->advertised_at(tx, 500));
    expect_filled(rx, 1, 500);
    assert_null(tx->ops->advertised_at(tx, 500));
    rx->ops->advertise(rx, heap.memory + 4096, 500);
    rx->ops->advertise(rx, heap.memory + 8192, 500); /* the later call counts */
    char *place = tx->ops->advertised_at(tx, 500);
    assert_non_null(place);
    memset(place, 3, 500);
    tx->ops->written(tx, 500);
    assert_null(tx->ops->advertised_at(tx, 500));
    expect_placed(rx, heap.memory + 8192, 500);
    for (int b = 0; b < 500; b++) assert_int_equal(heap.memory[8192 + b], 3);
    assert_int_equal(heap.memory[0], 0);
    close_heap_net(&heap);
}

static void placed_messages_have_the_room_of_small_ones(void **state)
{
    (void)state;
    struct heap_net heap = open_heap_net();
    struct link_tx *tx = local_net_tx(&heap.net, 0, 1);
    struct link_rx *rx = local_net_rx(&heap.net, 1, 0, false);
    for (int i = 0; i < TRANSPORT_UNDER_WAY_MAX; i++) {
        assert_true(tx->ops->has_room(tx));
        assert_true(send_filled(tx, 1, 8));
    }
    assert_false(tx->ops->has_room(tx));
    expect_filled(rx, 1, 8);
    assert_true(tx->ops->has_room(tx));
    close_heap_net(&heap);
}

static void memory_that_the_sender_cannot_write_is_not_offered(void **state)
{
    (void)state;
    struct heap_net heap = open_heap_net();
    struct link_tx *tx = local_net_tx(&heap.net, 0, 1);
    struct link_rx *rx = local_net_rx(&heap.net, 1, 0, false);
    char elsewhere[100];
    struct link_view view;
    rx->ops->advertise(rx, elsewhere, sizeof elsewhere);
    assert_null(tx->ops->advertised_at(tx, sizeof elsewhere));
    tx->ops->written(tx, sizeof elsewhere); /* a lie */
    assert_int_equal(rx->ops->peek(rx, &view), LINK_FAULT);
    close_heap_net(&heap);
}

/* A reader's words about itself are foreign, too. */
static void offers_that_make_no_sense_are_not_taken_up(void **state)
{
    (void)state;
    struct heap_net heap = open_heap_net();
    struct link_tx *tx = local_net_tx(&heap.net, 0, 1);
    struct tail *tail = tail_of(&heap.net, 1, 0);
    const uint64_t size = heap_size();
    const struct {
        uint64_t expected, bytes, where;
    } cases[] = {
        {1, 100, size},       {1, 100, size - 99},          {1, 100, UINT64_MAX},
        {1, 100, 1ull << 63}, {2, 100, heap.offset},        {0, 100, heap.offset},
        {1, 99, heap.offset}, {1, UINT64_MAX, heap.offset}, {UINT64_MAX, 100, heap.offset},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        atomic_store(&tail->expected_bytes, cases[i].bytes);
        atomic_store(&tail->expected_where, cases[i].where);
        atomic_store(&tail->expected, cases[i].expected);
        if (tx->ops->advertised_at(tx, 100) != NULL) fail_msg("offer %zu is taken up", i);
    }
    atomic_store(&tail->expected_where, heap.offset);
    atomic_store(&tail->expected_bytes, 100);
    atomic_store(&tail->expected, 1);
    assert_non_null(tx->ops->advertised_at(tx, 100)); /* so it was this that was refused */
    close_heap_net(&heap);
    struct local_net net = open_net(2, false); /* processes without heaps */
    tx = local_net_tx(&net, 0, 1);
    tail = tail_of(&net, 1, 0);
    atomic_store(&tail->expected_bytes, 100);
    atomic_store(&tail->expected, 1);
    assert_null(tx->ops->advertised_at(tx, 100));
    local_net_close(&net);
}

static void what_was_not_expected_is_not_placed(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        struct heap_net heap = open_heap_net();
        struct link_tx *tx = local_net_tx(&heap.net, 0, 1);
        struct link_rx *rx = local_net_rx(&heap.net, 1, 0, false);
        struct link_view view;
        if (variant == 1) rx->ops->advertise(rx, heap.memory, 101);
        if (variant == 2) { /* for an earlier message */
            rx->ops->advertise(rx, heap.memory, 100);
            assert_true(send_filled(tx, 1, 100));
            expect_filled(rx, 1, 100);
        }
        if (variant == 3) { /* as the shared line says, but not this rank */
            struct tail *tail = tail_of(&heap.net, 1, 0);
            atomic_store(&tail->expected_where, heap.offset);
            atomic_store(&tail->expected_bytes, 100);
            atomic_store(&tail->expected, 1);
            assert_non_null(tx->ops->advertised_at(tx, 100));
        }
        tx->ops->written(tx, 100);
        if (rx->ops->peek(rx, &view) != LINK_FAULT) fail_msg("variant %d is believed", variant);
        assert_int_equal(rx->ops->peek(rx, &view), LINK_FAULT);
        close_heap_net(&heap);
    }
}

static void expect_copied(struct local_net *net, const char *from, size_t bytes)
{
    struct link_tx *tx = local_net_tx(net, 0, 1);
    struct link_rx *rx = local_net_rx(net, 1, 0, false);
    struct link_reference reference;
    assert_true(tx->ops->refer(tx, from, bytes, &reference));
    assert_int_not_equal(reference.kind, 0);
    expect_empty(rx); /* nothing was sent */
    char to[100];
    assert_int_equal(rx->ops->copy(rx, &reference, 1000, to, sizeof to), LINK_READY);
    assert_memory_equal(to, from + 1000, sizeof to);
}

static void memory_is_copied_by_reference(void **state)
{
    (void)state;
    static char memory[2000];
    for (size_t i = 0; i < sizeof memory; i++) memory[i] = (char)(i * 7 + i / 256);
    struct local_net threads = open_net(2, true),
                     copies = open_net_of(2, (struct host_peer){false, getpid(), NULL});
    expect_copied(&threads, memory, sizeof memory);
    expect_copied(&copies, memory, sizeof memory);
    local_net_close(&threads);
    local_net_close(&copies);
    struct heap_net heap = open_heap_net();
    memcpy(heap.memory, memory, sizeof memory);
    expect_copied(&heap.net, heap.memory, sizeof memory);
    close_heap_net(&heap);
}

static void references_to_what_cannot_be_read_are_a_fault(void **state)
{
    (void)state;
    static char memory[100];
    struct heap_net heap = open_heap_net();
    struct link_tx *tx = local_net_tx(&heap.net, 0, 1);
    struct link_rx *rx = local_net_rx(&heap.net, 1, 0, false);
    struct link_reference good, private;
    assert_true(tx->ops->refer(tx, heap.memory, MEMORY_BYTES, &good));
    assert_false(tx->ops->refer(tx, memory, sizeof memory, &private));
    const struct link_reference cases[] = {
        private,
        {0, good.where},
        {good.kind, UINT64_MAX - 50},
        {good.kind, heap_size()},
        {good.kind + 100, good.where},
        {UINT64_MAX, good.where},
        {MESSAGE_ADDRESS + 1, (uint64_t)(uintptr_t)memory},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char to[100];
        if (rx->ops->copy(rx, &cases[i], 0, to, sizeof to) != LINK_FAULT)
            fail_msg("reference %zu is believed", i);
    }
    close_heap_net(&heap);
}

/* A process is gone before its heap was first looked at: that does not make its message a fault. */
static void a_heap_that_is_gone_is_nobodys_fault(void **state)
{
    (void)state;
    void *memory;
    assert_int_equal(heap_allocate(1, &memory), TUTTI_OK);
    const int fd = dup(heap_location().fd);
    assert_true(fd >= 0);
    struct heap_net heap = open_heap_net_of(fd);
    struct link_tx *tx = local_net_tx(&heap.net, 0, 1);
    struct link_rx *rx = local_net_rx(&heap.net, 1, 0, false);
    struct link_reference reference;
    assert_true(tx->ops->refer(tx, heap.memory, 100, &reference));
    assert_true(tx->ops->post(tx, heap.memory, MEMORY_BYTES));
    assert_int_equal(close(fd), 0);
    struct link_view view;
    char to[100];
    assert_int_equal(rx->ops->peek(rx, &view), LINK_EMPTY);
    assert_int_equal(rx->ops->copy(rx, &reference, 0, to, sizeof to), LINK_EMPTY);
    close_heap_net(&heap);
    assert_int_equal(heap_free(memory), TUTTI_OK);
}

static void what_goes_to_all_waits_for_the_slowest(void **state)
{
    (void)state;
    struct local_net net = open_net(3, false);
    struct link_tx *tx = local_net_tx(&net, 1, LINK_TO_GROUP);
    struct link_rx *readers[] = {local_net_rx(&net, 0, 1, true), local_net_rx(&net, 2, 1, true)};
    int sent = 0;
    while (send_filled(tx, (unsigned char)sent, 500)) sent++;
    for (int i = 0; i < sent; i++) expect_filled(readers[0], (unsigned char)i, 500);
    assert_false(send_filled(tx, 99, 500));
    assert_false(tx->ops->consumed(tx));
    expect_filled(readers[1], 0, 500);
    assert_true(send_filled(tx, (unsigned char)sent, 500));
    for (int i = 1; i <= sent; i++) expect_filled(readers[1], (unsigned char)i, 500);
    expect_filled(readers[0], (unsigned char)sent, 500);
    assert_true(tx->ops->consumed(tx));
    local_net_close(&net);
}

static void links_do_not_mix(void **state)
{
    (void)state;
    struct local_net net = open_net(3, false);
    struct link_tx *to_1 = local_net_tx(&net, 0, 1), *to_2 = local_net_tx(&net, 0, 2),
                   *to_all = local_net_tx(&net, 0, LINK_TO_GROUP);
    struct link_rx *at_1 = local_net_rx(&net, 1, 0, false), *at_2 = local_net_rx(&net, 2, 0, false);
    struct link_rx *all_1 = local_net_rx(&net, 1, 0, true), *all_2 = local_net_rx(&net, 2, 0, true);
    assert_true(send_filled(to_2, 2, 300) && send_filled(to_1, 1, 300) &&
                send_filled(to_all, 3, 300));
    expect_filled(all_2, 3, 300);
    expect_filled(at_1, 1, 300);
    expect_filled(all_1, 3, 300);
    expect_filled(at_2, 2, 300);
    expect_empty(at_1);
    assert_ptr_equal(local_net_tx(&net, 0, 1), to_1); /* found, not made again */
    local_net_close(&net);
}

/* Also links in the part of the segment that is mapped when they are opened. */
static void every_channel_has_links_of_its_own(void **state)
{
    (void)state;
    struct local_net net = open_net(3, false);
    const struct transport_ops *const ops = net.ranks[0]->ops;
    struct link_tx *tx[TRANSPORT_CHANNEL_COUNT], *to_all[TRANSPORT_CHANNEL_COUNT];
    struct link_rx *rx, *all;
    size_t piece;
    unsigned pieces;
    ops->limits(net.ranks[0], &piece, &pieces);
    for (int c = 0; c < TRANSPORT_CHANNEL_COUNT; c++) {
        assert_int_equal(ops->open_tx(net.ranks[0], LOCAL_NET_SLOT, c, 2, piece, &tx[c]), TUTTI_OK);
        assert_int_equal(net.ranks[0]->sharing->open_multicast_tx(net.ranks[0], LOCAL_NET_SLOT, c,
                                                                  0, piece, &to_all[c]),
                         TUTTI_OK);
        assert_true(send_filled(tx[c], (unsigned char)c, piece));
        assert_true(send_filled(to_all[c], (unsigned char)(100 + c), piece));
    }
    assert_non_null(net.segment->further.base);
    for (int c = TRANSPORT_CHANNEL_COUNT - 1; c >= 0; c--) {
        assert_int_equal(ops->open_rx(net.ranks[2], LOCAL_NET_SLOT, c, 0, &rx), TUTTI_OK);
        expect_filled(rx, (unsigned char)c, piece);
        expect_empty(rx);
        for (int r = 1; r < 3; r++) {
            assert_int_equal(net.ranks[r]->sharing->open_multicast_rx(net.ranks[r], LOCAL_NET_SLOT,
                                                                      c, 0, 0, &all),
                             TUTTI_OK);
            expect_filled(all, (unsigned char)(100 + c), piece);
        }
        assert_true(tx[c]->ops->consumed(tx[c]) && to_all[c]->ops->consumed(to_all[c]));
    }
    local_net_close(&net);
}

static void channels_of_most_plans_leave_the_further_part_alone(void **state)
{
    (void)state;
    struct local_net net = open_net(3, false);
    struct link_tx *tx;
    struct link_rx *rx;
    for (int c = 0; c < PLAIN_CHANNELS; c++) {
        assert_int_equal(net.ranks[0]->ops->open_tx(net.ranks[0], 0, c, 1, 100, &tx), TUTTI_OK);
        assert_int_equal(net.ranks[1]->ops->open_rx(net.ranks[1], 0, c, 0, &rx), TUTTI_OK);
    }
    assert_null(net.segment->further.base);
    local_net_close(&net);
}

/* The group has each rank by its number. A multicast link leads to all others, and its only
 * capability is to share. */
static void all_ranks_are_one_group(void **state)
{
    (void)state;
    static const int names[] = {7, 4, 9};
    const struct host_peer peer = {.same_process = true};
    struct local_net net = local_net_open(3, peer, names, false);
    for (int r = 0; r < 3; r++) {
        const struct transport *const transport = net.ranks[r];
        assert_int_equal(transport->group_count, 1);
        assert_int_equal(transport->groups[0].count, 3);
        for (int i = 0; i < 3; i++) assert_int_equal(transport->groups[0].ranks[i], i);
        const struct link_tx *const to_all = local_net_tx(&net, r, LINK_TO_GROUP);
        const struct link_rx *const from_all = local_net_rx(&net, r, (r + 1) % 3, true);
        assert_int_equal(to_all->peer, LINK_TO_GROUP);
        assert_int_equal(to_all->capabilities, LINK_SHARES);
        assert_int_equal(from_all->peer, names[(r + 1) % 3]);
        assert_int_equal(from_all->capabilities, LINK_SHARES);
        const unsigned to_one = LINK_SHARES | LINK_ADVERTISES | LINK_REFERS;
        assert_int_equal(local_net_tx(&net, r, (r + 1) % 3)->capabilities, to_one);
        assert_int_equal(local_net_rx(&net, r, (r + 1) % 3, false)->capabilities, to_one);
    }
    local_net_close(&net);
}

static void another_signature_is_a_fault(void **state)
{
    (void)state;
    struct local_net net = open_net(2, false);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    struct link_view view;
    net.ranks[0]->signatures[LOCAL_NET_SLOT] = LOCAL_NET_SIGNATURE + 1;
    assert_true(send_filled(tx, 1, 10));
    assert_int_equal(rx->ops->peek(rx, &view), LINK_FAULT);
    assert_int_equal(rx->ops->peek(rx, &view), LINK_FAULT);
    local_net_close(&net);
}

/* A peer's headers are foreign: none makes this rank look where it must not. */
static void headers_that_make_no_sense_are_a_fault(void **state)
{
    (void)state;
    static const struct {
        uint64_t kind, bytes, where;
    } cases[] = {
        {MESSAGE_INLINE, INLINE_BYTES + 1, 0},
        {MESSAGE_INLINE, (UINT64_C(1) << 56) - 1, 0},
        {MESSAGE_SMALL_SLOT, SMALL_SLOT_BYTES + 1, 0},
        {MESSAGE_SMALL_SLOT, (UINT64_C(1) << 56) - 1, 0},
        {MESSAGE_SLOT, 100, DATA_SLOTS},
        {MESSAGE_SLOT, 100, UINT64_MAX},
        {MESSAGE_SLOT, UINT64_C(1) << 40, 0},
        {MESSAGE_ADDRESS, 100, 4096},
        {MESSAGE_HEAP, 100, 0},
        {MESSAGE_REMOTE, 100, 4096}, /* not allowed here */
        {MESSAGE_SHARED, 100, SHARED_SLOTS},
        {MESSAGE_SHARED, 100, 2 << 8},
        {MESSAGE_SHARED, 100, UINT64_MAX},
        {MESSAGE_SHARED, 1 << 30, 0},
        {MESSAGE_KIND_COUNT, 100, 0},
        {MESSAGE_PLACED, 100, 0},
        {MESSAGE_PLACED, 0, 0},
        {17, 100, 0},
        {255, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct local_net net = open_net(2, false);
        struct link_rx *rx = local_net_rx(&net, 1, 0, false);
        struct message_header *headers;
        char *data;
        struct link_view view;
        assert_int_equal(
            segment_link(net.segment, 0, LOCAL_NET_SLOT, LOCAL_NET_CHANNEL, 1, &headers, &data),
            TUTTI_OK);
        headers[0].signature = LOCAL_NET_SIGNATURE;
        headers[0].kind_and_bytes = cases[i].kind << 56 | cases[i].bytes;
        headers[0].u.where = cases[i].where;
        atomic_store(&headers[0].sequence, 1);
        if (rx->ops->peek(rx, &view) != LINK_FAULT) fail_msg("header %zu is believed", i);
        local_net_close(&net);
    }
}

static void open_shared_slots(struct local_net *net, int rank)
{
    assert_int_equal(net->ranks[rank]->sharing->open_shared_slots(net->ranks[rank], LOCAL_NET_SLOT),
                     TUTTI_OK);
}

static void *take_shared_slot(struct local_net *net, int rank, size_t bytes)
{
    return net->ranks[rank]->sharing->reserve_shared(net->ranks[rank], LOCAL_NET_SLOT, bytes);
}

static void share(struct local_net *net, int rank, struct link_tx *const *links, unsigned count,
                  size_t bytes)
{
    net->ranks[rank]->sharing->send_shared(net->ranks[rank], LOCAL_NET_SLOT, links, count, bytes);
}

static void a_shared_place_is_free_after_its_last_reader(void **state)
{
    (void)state;
    struct local_net net = open_net(3, false);
    struct link_tx *const links[] = {local_net_tx(&net, 0, 1), local_net_tx(&net, 0, 2)};
    struct link_rx *one = local_net_rx(&net, 1, 0, false), *two = local_net_rx(&net, 2, 0, false);
    struct link_view view;
    open_shared_slots(&net, 0);
    for (int i = 0; i < SHARED_SLOTS; i++) {
        void *place = take_shared_slot(&net, 0, 5000);
        assert_non_null(place);
        assert_ptr_equal(take_shared_slot(&net, 0, 5000), place); /* until it is shared */
        memset(place, i, 5000);
        share(&net, 0, links, 2, 5000);
    }
    assert_null(take_shared_slot(&net, 0, 5000));
    for (int i = 0; i < SHARED_SLOTS; i++) {
        assert_int_equal(one->ops->peek(one, &view), LINK_READY);
        assert_null(view.place); /* another one reads it, too */
        expect_filled(one, (unsigned char)i, 5000);
        assert_null(take_shared_slot(&net, 0, 5000));
    }
    for (int i = 0; i < SHARED_SLOTS; i++) {
        assert_int_equal(two->ops->peek(two, &view), LINK_READY);
        assert_ptr_equal(view.place, view.data);
        two->ops->consume(two, 1000);
        assert_int_equal(two->ops->peek(two, &view), LINK_READY);
        assert_null(view.place); /* no whole message any more */
        expect_filled(two, (unsigned char)i, 4000);
        assert_non_null(take_shared_slot(&net, 0, 5000));
    }
    assert_true(links[0]->ops->consumed(links[0]) && links[1]->ops->consumed(links[1]));
    local_net_close(&net);
}

/* 0 shares it with 1, which changes it and forwards it to 0 and 2. */
static void a_place_travels_and_comes_back(void **state)
{
    (void)state;
    struct local_net net = open_net(3, false);
    struct link_tx *const there = local_net_tx(&net, 0, 1);
    struct link_tx *const onwards[] = {local_net_tx(&net, 1, 0), local_net_tx(&net, 1, 2)};
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    struct link_rx *ends[] = {local_net_rx(&net, 0, 1, false), local_net_rx(&net, 2, 1, false)};
    open_shared_slots(&net, 0);
    for (int round = 0; round < 100; round++) {
        struct link_view view, end;
        void *place = take_shared_slot(&net, 0, 3000);
        assert_non_null(place);
        memset(place, round, 3000);
        share(&net, 0, &there, 1, 3000);
        assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
        assert_non_null(view.place);
        memset(view.place, round + 1, 3000);
        assert_true(onwards[0]->ops->has_room(onwards[0]) && onwards[1]->ops->has_room(onwards[1]));
        rx->ops->forward(rx, onwards, 2);
        expect_empty(rx);
        assert_true(there->ops->consumed(there)); /* its message, not the place */
        assert_int_equal(ends[0]->ops->peek(ends[0], &end), LINK_READY);
        assert_ptr_equal(end.data, view.place);
        for (int k = 0; k < 2; k++) {
            const void *next = take_shared_slot(&net, 0, 3000);
            assert_true(next != NULL && next != place);
            expect_filled(ends[(round + k) % 2], (unsigned char)(round + 1), 3000);
        }
        assert_ptr_equal(take_shared_slot(&net, 0, 3000), place);
    }
    local_net_close(&net);
}

/* 0 shares it with 1, which forwards it to 2; 0 sleeps until its place is free. */
static void a_place_that_comes_back_wakes_its_owner(void **state)
{
    (void)state;
    struct local_net net = open_net(3, false);
    struct link_tx *const there = local_net_tx(&net, 0, 1), *const onwards =
                                                                local_net_tx(&net, 1, 2);
    struct link_rx *const rx = local_net_rx(&net, 1, 0, false), *const end =
                                                                    local_net_rx(&net, 2, 1, false);
    struct transport *const owner = net.ranks[0];
    struct link_view view;
    open_shared_slots(&net, 0);
    memset(take_shared_slot(&net, 0, 3000), 5, 3000);
    share(&net, 0, &there, 1, 3000);
    assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
    rx->ops->forward(rx, &onwards, 1);
    const uint64_t begin = clock_now_ns();
    owner->ops->sleep_begin(owner);
    expect_filled(end, 5, 3000);
    owner->ops->sleep(owner, 20000000000u);
    assert_true(clock_now_ns() - begin < 10000000000u);
    local_net_close(&net);
}

static void what_is_shared_with_all_counts_all(void **state)
{
    (void)state;
    struct local_net net = open_net(3, false);
    struct link_tx *const to_all = local_net_tx(&net, 2, LINK_TO_GROUP);
    struct link_rx *zero = local_net_rx(&net, 0, 2, true), *one = local_net_rx(&net, 1, 2, true);
    open_shared_slots(&net, 2);
    void *const place = take_shared_slot(&net, 2, 100);
    memset(place, 9, 100);
    share(&net, 2, &to_all, 1, 100);
    expect_filled(zero, 9, 100);
    assert_ptr_not_equal(take_shared_slot(&net, 2, 100), place);
    expect_filled(one, 9, 100);
    assert_ptr_equal(take_shared_slot(&net, 2, 100), place);
    assert_null(take_shared_slot(&net, 2, 1 << 30));
    local_net_close(&net);
}

/* A tail beyond the messages that were sent frees nothing that is not sent yet. */
static void tails_that_make_no_sense_harm_only_their_owner(void **state)
{
    (void)state;
    struct local_net net = open_net(2, false);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct tail *tail;
    assert_int_equal(
        segment_tail(net.segment, 1, LOCAL_NET_SLOT, LOCAL_NET_CHANNEL, 0, false, &tail), TUTTI_OK);
    atomic_store(&tail->consumed, UINT64_MAX);
    for (int i = 0; i < 1000; i++) {
        assert_true(send_filled(tx, 1, 200));
        assert_true(tx->ops->consumed(tx));
    }
    atomic_store(&tail->consumed, 0); /* and back */
    int sent = 0;
    while (sent < 1000 && send_filled(tx, 1, 200)) sent++;
    assert_true(sent < 1000);
    local_net_close(&net);
}

static void *send_later(void *argument)
{
    struct link_tx *tx = argument;
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    return send_filled(tx, 7, 10) ? argument : NULL;
}

static void a_message_wakes_who_sleeps(void **state)
{
    (void)state;
    struct local_net net = open_net(2, false);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    struct transport *sleeper = net.ranks[1];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_later, tx), 0);
    const uint64_t begin = clock_now_ns();
    struct link_view view;
    for (int i = 0; i < 100000; i++) {
        sleeper->ops->sleep_begin(sleeper);
        if (rx->ops->peek(rx, &view) == LINK_READY) {
            sleeper->ops->sleep_cancel(sleeper);
            break;
        }
        sleeper->ops->sleep(sleeper, 20000000000u);
    }
    assert_true(clock_now_ns() - begin < 10000000000u);
    expect_filled(rx, 7, 10);
    void *sent;
    pthread_join(thread, &sent);
    assert_non_null(sent);
    local_net_close(&net);
}

static void sleep_ends_by_itself_and_by_waking_all(void **state)
{
    (void)state;
    struct local_net net = open_net(2, false);
    struct transport *t = net.ranks[0];
    const uint64_t begin = clock_now_ns();
    t->ops->sleep_begin(t);
    t->ops->sleep(t, 5000000);
    t->ops->sleep_begin(t);
    net.ranks[1]->ops->wake_all(net.ranks[1]); /* between the announcement and the sleep */
    t->ops->sleep(t, 20000000000u);
    assert_true(clock_now_ns() - begin < 10000000000u);
    local_net_close(&net);
}

/* ---------------------------------------------------------------------------------- descriptors */

static bool rings(int fd)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, 0) == 1 && entry.revents == POLLIN;
}

static int door_of(struct transport *transport)
{
    const int fd = transport->ops->descriptor(transport);
    assert_true(fd >= 0);
    return fd;
}

/* A rank with a door of its own rings a sleeper, and so does a rank without a door; once per
 * sleep. */
static void a_message_rings_the_descriptor_of_who_sleeps(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct local_net net = open_net(2, round == 0);
        struct link_tx *tx = local_net_tx(&net, 0, 1);
        struct link_rx *rx = local_net_rx(&net, 1, 0, false);
        struct transport *sleeper = net.ranks[1];
        const int fd = door_of(sleeper);
        if (round == 1) (void)door_of(net.ranks[0]);
        assert_int_equal(door_of(sleeper), fd); /* the same again */
        assert_true(send_filled(tx, 1, 10));
        assert_false(rings(fd)); /* awake */
        expect_filled(rx, 1, 10);
        for (int i = 0; i < 3; i++) {
            sleeper->ops->sleep_begin(sleeper);
            assert_false(rings(door_of(sleeper)));
            for (int m = 0; m < 3; m++) assert_true(send_filled(tx, 2, 1000));
            assert_true(rings(fd));
            char byte[2];
            assert_int_equal(recv(fd, byte, sizeof byte, MSG_DONTWAIT), 1);
            assert_false(rings(fd)); /* one was enough */
            sleeper->ops->sleep_cancel(sleeper);
            for (int m = 0; m < 3; m++) expect_filled(rx, 2, 1000);
        }
        local_net_close(&net);
    }
}

static void what_rang_before_does_not_end_the_next_sleep(void **state)
{
    (void)state;
    struct local_net net = open_net(2, true);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    struct transport *sleeper = net.ranks[1];
    const int fd = door_of(sleeper);
    sleeper->ops->sleep_begin(sleeper);
    assert_true(send_filled(tx, 1, 10));
    net.ranks[0]->ops->wake_all(net.ranks[0]);
    sleeper->ops->sleep(sleeper, 20000000000u);
    expect_filled(rx, 1, 10);
    assert_true(rings(fd));
    sleeper->ops->sleep_begin(sleeper);
    assert_false(rings(fd));
    sleeper->ops->sleep_cancel(sleeper);
    local_net_close(&net);
}

/* A slow ringer says that it has rung in a sleep that is over: the sleeper is rung in its next
 * sleep all the same. */
static void who_rings_late_does_not_silence_the_next_sleep(void **state)
{
    (void)state;
    struct local_net net = open_net(2, true);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct transport *sleeper = net.ranks[1];
    struct bell *bell = segment_bell(net.segment, 1);
    const int fd = door_of(sleeper);
    sleeper->ops->sleep_begin(sleeper);
    uint32_t seen = atomic_load(&bell->asleep);
    assert_int_equal(seen & ASLEEP_WHERE, ASLEEP_AT_DOOR);
    sleeper->ops->sleep_cancel(sleeper);
    sleeper->ops->sleep_begin(sleeper);
    assert_false(atomic_compare_exchange_strong(&bell->asleep, &seen, seen | ASLEEP_RUNG));
    assert_true(send_filled(tx, 1, 10));
    assert_true(rings(fd));
    sleeper->ops->sleep_cancel(sleeper);
    local_net_close(&net);
}

static void everything_that_wakes_rings_the_descriptor(void **state)
{
    (void)state;
    struct local_net net = open_net(3, false);
    struct transport *owner = net.ranks[0];
    const int fd = door_of(owner);
    owner->ops->sleep_begin(owner);
    owner->ops->wake(owner); /* its own */
    assert_true(rings(fd));
    owner->ops->sleep_cancel(owner);
    owner->ops->sleep_begin(owner);
    assert_false(rings(fd));
    net.ranks[2]->ops->wake_all(net.ranks[2]); /* of a rank that sleeps at no door */
    assert_true(rings(fd));
    owner->ops->sleep_cancel(owner);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    assert_true(send_filled(tx, 4, 8));
    owner->ops->sleep_begin(owner);
    expect_filled(rx, 4, 8); /* room is something to wake up for */
    assert_true(rings(fd));
    owner->ops->sleep_cancel(owner);
    local_net_close(&net);
}

static void who_never_asked_sleeps_without_a_descriptor(void **state)
{
    (void)state;
    struct local_net net = open_net(2, true);
    struct transport_footprint footprint = {0};
    struct bell *bell = segment_bell(net.segment, 1);
    struct transport *sleeper = net.ranks[1];
    (void)door_of(net.ranks[0]);
    sleeper->ops->sleep_begin(sleeper);
    assert_int_equal(atomic_load(&bell->asleep), ASLEEP);
    assert_true(send_filled(local_net_tx(&net, 0, 1), 1, 10));
    const uint64_t begin = clock_now_ns();
    sleeper->ops->sleep(sleeper, 20000000000u);
    assert_true(clock_now_ns() - begin < 10000000000u);
    assert_int_equal(atomic_load(&bell->door), 0);
    sleeper->ops->add_footprint(sleeper, &footprint);
    assert_int_equal(footprint.descriptor_count, 0);
    footprint = (struct transport_footprint){0};
    net.ranks[0]->ops->add_footprint(net.ranks[0], &footprint);
    assert_int_equal(footprint.descriptor_count, 1);
    local_net_close(&net);
}

static void a_descriptor_ends_with_its_rank(void **state)
{
    (void)state;
    struct local_net net = open_net(2, true);
    const int fd = door_of(net.ranks[0]);
    net.ranks[0]->ops->sleep_begin(net.ranks[0]);
    local_net_close(&net);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* A peer writes anything where ranks say how they sleep. */
static void bells_that_make_no_sense_ring_nobody(void **state)
{
    (void)state;
    static const uint32_t words[] = {ASLEEP_RUNG, ASLEEP_AT_DOOR, 4, UINT32_MAX, UINT32_MAX - 1};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct local_net net = open_net(2, false);
        struct bell *bell = segment_bell(net.segment, 1);
        struct link_tx *tx = local_net_tx(&net, 0, 1);
        struct link_rx *rx = local_net_rx(&net, 1, 0, false);
        atomic_store(&segment_header(net.segment)->sleeper_count, 1);
        atomic_store(&bell->asleep, words[i]);
        atomic_store(&bell->door, 0x1234567890abcdef * (i % 2));
        assert_true(send_filled(tx, 1, 10));
        expect_filled(rx, 1, 10);
        local_net_close(&net);
    }
}

static int sleep_at_door(struct transport *transport, struct link_rx *rx, int ready)
{
    struct link_view view;
    const int fd = transport->ops->descriptor(transport);
    if (fd < 0) return 1;
    transport->ops->sleep_begin(transport);
    if (rx->ops->peek(rx, &view) != LINK_EMPTY || write(ready, "", 1) != 1) return 2;
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    if (poll(&entry, 1, 20000) != 1) return 3;
    transport->ops->sleep_cancel(transport);
    return rx->ops->peek(rx, &view) == LINK_READY ? 0 : 4;
}

/* Rank 1 lives on in a child of this process. */
static void a_message_rings_in_another_process(void **state)
{
    (void)state;
    struct local_net net = open_net(2, false);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct link_rx *rx = local_net_rx(&net, 1, 0, false);
    int ends[2], status;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0) _exit(sleep_at_door(net.ranks[1], rx, ends[1]));
    assert_true(pid > 0);
    close(ends[1]);
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_true(send_filled(tx, 1, 10));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(ends[0]);
    local_net_close(&net);
}

/* A child of fork() that gives back what it inherited has not answered the door of its parent for
 * good. */
static void a_child_that_closes_takes_no_descriptor_from_its_parent(void **state)
{
    (void)state;
    struct local_net net = open_net(2, false);
    struct link_tx *tx = local_net_tx(&net, 0, 1);
    struct transport *sleeper = net.ranks[1];
    const int fd = door_of(sleeper);
    int status;
    sleeper->ops->sleep_begin(sleeper);
    const pid_t pid = fork();
    if (pid == 0) {
        local_net_close(&net);
        _exit(fcntl(fd, F_GETFD) == -1 ? 0 : 1);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(send_filled(tx, 1, 10));
    assert_true(rings(fd));
    sleeper->ops->sleep_cancel(sleeper);
    local_net_close(&net);
}

/* ---------------------------------------------------------------------------------------- names */

static void links_show_names_and_go_by_numbers(void **state)
{
    (void)state;
    static const int names[] = {70, 5, 900};
    struct local_net net = local_net_open(3, (struct host_peer){.same_process = true}, names, false);
    struct link_view view;
    char destination[4096];
    for (int from = 0; from < 3; from++) {
        struct link_tx *to_all = local_net_tx(&net, from, LINK_TO_GROUP);
        assert_int_equal(to_all->peer, LINK_TO_GROUP);
        for (int to = 0; to < 3; to++) {
            if (to == from) continue;
            struct link_tx *tx = local_net_tx(&net, from, to);
            struct link_rx *rx = local_net_rx(&net, to, from, false);
            assert_int_equal(tx->peer, names[to]);
            assert_int_equal(rx->peer, names[from]);
            assert_int_equal(local_net_rx(&net, to, from, true)->peer, names[from]);
            assert_true(tx->ops->post(tx, names, sizeof names)); /* needs the ranks' processes */
            assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
            assert_ptr_equal(view.data, names);
            net.ranks[from]->ops->sleep_begin(net.ranks[from]);
            rx->ops->consume(rx, sizeof names); /* wakes its sender */
            const uint64_t begin = clock_now_ns();
            net.ranks[from]->ops->sleep(net.ranks[from], 20000000000u);
            assert_true(clock_now_ns() - begin < 10000000000u);
            rx->ops->advertise(rx, destination, sizeof destination);
            assert_ptr_equal(tx->ops->advertised_at(tx, sizeof destination), destination);
            struct link_reference reference;
            assert_true(tx->ops->refer(tx, names, sizeof names, &reference));
            assert_int_equal(rx->ops->copy(rx, &reference, 0, destination, sizeof names),
                             LINK_READY);
            assert_memory_equal(destination, names, sizeof names);
        }
    }
    local_net_close(&net);
}

static void limits_are_those_of_the_count_of_ranks(void **state)
{
    (void)state;
    size_t bytes, own_bytes, last_bytes = SIZE_MAX;
    unsigned count, own_count;
    struct local_net net = open_net(3, true);
    net.ranks[1]->ops->limits(net.ranks[1], &own_bytes, &own_count);
    local_limits(3, false, &bytes, &count);
    assert_true(bytes == own_bytes && bytes == net.segment->slot_bytes && count == own_count);
    for (int size = 1; size <= 300; size++) {
        local_limits(size, false, &bytes, &count);
        assert_true(bytes > 0 && bytes <= last_bytes && count == own_count);
        last_bytes = bytes;
    }
    local_net_close(&net);
}

static void the_board_is_shared_and_zeroed(void **state)
{
    (void)state;
    struct local_net net = open_net(3, false);
    unsigned char *board = local_board(net.ranks[0]);
    for (int i = 0; i < LOCAL_NET_BOARD_BYTES; i++) assert_int_equal(board[i], 0);
    board[LOCAL_NET_BOARD_BYTES - 1] = 5;
    assert_int_equal(((unsigned char *)local_board(net.ranks[2]))[LOCAL_NET_BOARD_BYTES - 1], 5);
    assert_int_equal((uintptr_t)board % 64, 0);
    assert_true(local_core_count(net.ranks[0]) >= 1);
    local_net_close(&net);
}

static void a_rank_that_does_not_open_is_missed_at_the_deadline(void **state)
{
    (void)state;
    int fd;
    const struct host_peer peers[2] = {{0}};
    struct transport *transport;
    assert_int_equal(local_segment_create(2, LOCAL_NET_BOARD_BYTES, &fd), TUTTI_OK);
    const struct host_options options = {
        .size = 2, .segment_fd = fd, .board_bytes = LOCAL_NET_BOARD_BYTES};
    const struct host_patience patience = {.deadline_ns = clock_now_ns() + 50000000};
    assert_int_equal(local_open(&options, &transport), TUTTI_OK);
    assert_int_equal(local_meet(transport, peers, &patience), TUTTI_INIT_TIMEOUT);
    assert_non_null(strstr(tutti_error_message(), "rank 1 answered"));
    local_close(transport);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* taken */
}

static void a_segment_of_the_wrong_size_is_refused(void **state)
{
    (void)state;
    int fd;
    struct transport *transport;
    assert_int_equal(local_segment_create(2, LOCAL_NET_BOARD_BYTES, &fd), TUTTI_OK);
    const struct host_options options = {
        .size = 64, .segment_fd = fd, .board_bytes = LOCAL_NET_BOARD_BYTES};
    assert_int_equal(local_open(&options, &transport), TUTTI_AUTH_FAILED);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_every_size_arrive_in_order),
        cmocka_unit_test(a_writer_of_small_messages_is_ahead_by_as_many_as_there_are_places),
        cmocka_unit_test(a_message_is_taken_in_parts),
        cmocka_unit_test(readers_make_slots_their_own_where_they_are_asked),
        cmocka_unit_test(a_full_link_has_no_room_until_something_is_consumed),
        cmocka_unit_test(memory_of_one_process_is_read_where_it_lies),
        cmocka_unit_test(memory_of_another_process_is_not_reached),
        cmocka_unit_test(a_message_is_stored_where_its_reader_expects_it),
        cmocka_unit_test(an_offer_is_for_one_message),
        cmocka_unit_test(placed_messages_have_the_room_of_small_ones),
        cmocka_unit_test(memory_that_the_sender_cannot_write_is_not_offered),
        cmocka_unit_test(offers_that_make_no_sense_are_not_taken_up),
        cmocka_unit_test(what_was_not_expected_is_not_placed),
        cmocka_unit_test(memory_is_copied_by_reference),
        cmocka_unit_test(a_heap_that_is_gone_is_nobodys_fault),
        cmocka_unit_test(references_to_what_cannot_be_read_are_a_fault),
        cmocka_unit_test(what_goes_to_all_waits_for_the_slowest),
        cmocka_unit_test(links_do_not_mix),
        cmocka_unit_test(every_channel_has_links_of_its_own),
        cmocka_unit_test(channels_of_most_plans_leave_the_further_part_alone),
        cmocka_unit_test(all_ranks_are_one_group),
        cmocka_unit_test(another_signature_is_a_fault),
        cmocka_unit_test(headers_that_make_no_sense_are_a_fault),
        cmocka_unit_test(a_shared_place_is_free_after_its_last_reader),
        cmocka_unit_test(a_place_travels_and_comes_back),
        cmocka_unit_test(a_place_that_comes_back_wakes_its_owner),
        cmocka_unit_test(what_is_shared_with_all_counts_all),
        cmocka_unit_test(tails_that_make_no_sense_harm_only_their_owner),
        cmocka_unit_test(a_message_wakes_who_sleeps),
        cmocka_unit_test(sleep_ends_by_itself_and_by_waking_all),
        cmocka_unit_test(a_message_rings_the_descriptor_of_who_sleeps),
        cmocka_unit_test(what_rang_before_does_not_end_the_next_sleep),
        cmocka_unit_test(who_rings_late_does_not_silence_the_next_sleep),
        cmocka_unit_test(everything_that_wakes_rings_the_descriptor),
        cmocka_unit_test(who_never_asked_sleeps_without_a_descriptor),
        cmocka_unit_test(a_descriptor_ends_with_its_rank),
        cmocka_unit_test(bells_that_make_no_sense_ring_nobody),
        cmocka_unit_test(a_message_rings_in_another_process),
        cmocka_unit_test(a_child_that_closes_takes_no_descriptor_from_its_parent),
        cmocka_unit_test(links_show_names_and_go_by_numbers),
        cmocka_unit_test(limits_are_those_of_the_count_of_ranks),
        cmocka_unit_test(the_board_is_shared_and_zeroed),
        cmocka_unit_test(a_rank_that_does_not_open_is_missed_at_the_deadline),
        cmocka_unit_test(a_segment_of_the_wrong_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
