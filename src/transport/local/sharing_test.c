/* Memory of another kind between two ranks that take each other for processes: the test implements
 * the kind, which gives the answers that the test wants. The test writes into the segment what a
 * peer may write there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/local_world.h"
#include "transport/local/sharing.h"

enum { BYTES = 20000, ALLOCATION = 40000 };

/* The owner sees the memory in `owned`, a rank that has mapped it in `seen`. */
static char owned[ALLOCATION], seen[ALLOCATION];
static uint64_t number;
static bool can_share;
static enum memory_mapping mapping;
static unsigned map_count;

static bool copy(const struct memory_kind *kind, void *destination, const void *source, size_t bytes)
{
    (void)kind;
    memcpy(destination, source, bytes);
    return true;
}

static bool share(const struct memory_kind *kind, const void *address, size_t bytes,
                  struct memory_share *share)
{
    const size_t offset = (size_t)((const char *)address - owned);
    (void)kind;
    assert_true(offset <= ALLOCATION && bytes <= ALLOCATION - offset);
    *share = (struct memory_share){.process = 7,
                                   .pid = getpid() + 1, /* a lie */
                                   .number = number,
                                   .bytes = ALLOCATION,
                                   .offset = offset};
    memcpy(share->handle, "a handle", 9);
    return can_share;
}

static enum memory_mapping map(const struct memory_kind *kind, const struct memory_share *share,
                               void **address, size_t *bytes)
{
    (void)kind;
    map_count++;
    assert_string_equal((const char *)share->handle, "a handle");
    assert_int_equal(share->process, 7);
    assert_int_equal(share->pid, getpid());
    assert_int_equal(share->bytes, ALLOCATION);
    *address = seen;
    *bytes = ALLOCATION;
    return mapping;
}

static const struct memory_kind far = {.name = "far", .copy = copy, .share = share, .map = map};

static const struct memory_kind *find(const void *address)
{
    const uintptr_t offset = (uintptr_t)address - (uintptr_t)owned;
    return offset < sizeof owned ? &far : NULL;
}

static int begin(void **state)
{
    (void)state;
    number = 5;
    can_share = true;
    mapping = MEMORY_MAPPED;
    map_count = 0;
    memset(seen, 1, sizeof seen);
    unsetenv("TUTTI_CMA");
    atomic_store(&memory_kind_driver, find);
    return 0;
}

struct pair {
    struct local_net net;
    struct link_tx *tx;
    struct link_rx *rx;
};

static struct pair open_pair(struct host_peer peer, bool checks)
{
    struct pair pair = {.net = local_net_open(3, peer, NULL, checks)};
    for (int r = 0; r < 3; r++) pair.net.ranks[r]->takes_kind[LOCAL_NET_SLOT] = &far;
    pair.tx = local_net_tx(&pair.net, 0, 1);
    pair.rx = local_net_rx(&pair.net, 1, 0, false);
    return pair;
}

static struct pair open_processes(void)
{
    return open_pair((struct host_peer){false, getpid(), NULL}, false);
}

/* Sends through a slot, as the engine does if memory is not within reach. */
static void send_copy(struct pair *pair)
{
    struct link_view view;
    void *const place = pair->tx->ops->reserve(pair->tx, BYTES);
    assert_non_null(place);
    memset(place, 2, BYTES);
    pair->tx->ops->commit(pair->tx, BYTES);
    assert_int_equal(pair->rx->ops->peek(pair->rx, &view), LINK_READY);
    assert_int_equal(view.bytes, BYTES);
    assert_null(pair->rx->memory);
    for (size_t i = 0; i < BYTES; i++) assert_int_equal(((const char *)view.data)[i], 2);
    pair->rx->ops->consume(pair->rx, BYTES);
}

static enum link_reach reach(struct pair *pair)
{
    return pair->tx->ops->reach(pair->tx, owned + 100, BYTES);
}

/* Until the reader has it. */
static void introduce(struct pair *pair)
{
    assert_int_equal(reach(pair), REACH_NONE);
    send_copy(pair);
    assert_int_equal(reach(pair), REACH_READ);
}

static void expect_shown(struct pair *pair, size_t offset)
{
    struct link_view view;
    assert_true(pair->tx->ops->post(pair->tx, owned + offset, BYTES));
    assert_int_equal(pair->rx->ops->peek(pair->rx, &view), LINK_READY);
    assert_ptr_equal(view.data, seen + offset);
    assert_int_equal(view.bytes, BYTES);
    assert_ptr_equal(pair->rx->memory, &far);
    pair->rx->ops->consume(pair->rx, BYTES);
    assert_true(pair->tx->ops->consumed(pair->tx));
}

/* ---------------------------------------------------------------------------------------- tests */

static void memory_that_was_mapped_is_shown_where_it_lies(void **state)
{
    (void)state;
    struct pair pair = open_processes();
    introduce(&pair);
    expect_shown(&pair, 100);
    expect_shown(&pair, ALLOCATION - BYTES);
    assert_int_equal(map_count, 1);
    local_net_close(&pair.net);
}

static void what_one_link_has_mapped_all_links_know(void **state)
{
    (void)state;
    struct pair pair = open_processes();
    struct link_tx *tx;
    struct transport *const own = pair.net.ranks[0];
    introduce(&pair);
    own->takes_kind[LOCAL_NET_SLOT + 1] = &far;
    assert_int_equal(own->ops->open_tx(own, LOCAL_NET_SLOT + 1, 0, 1, 1 << 20, &tx), TUTTI_OK);
    assert_int_equal(tx->ops->reach(tx, owned, BYTES), REACH_READ);
    local_net_close(&pair.net);
}

static void an_operation_without_that_kind_copies_it_out(void **state)
{
    (void)state;
    struct pair pair = open_processes();
    struct link_view view;
    char copied[BYTES] = "";
    introduce(&pair);
    pair.net.ranks[1]->takes_kind[LOCAL_NET_SLOT] = NULL;
    seen[200] = 9;
    for (int turn = 0; turn < 2; turn++) {
        assert_true(pair.tx->ops->post(pair.tx, owned + 100, BYTES));
        assert_int_equal(pair.rx->ops->peek(pair.rx, &view), LINK_READY);
        assert_null(view.data);
        assert_null(pair.rx->memory);
        if (turn == 0) {
            assert_true(pair.rx->ops->take(pair.rx, copied, 50));
            pair.rx->ops->consume(pair.rx, 50);
            assert_true(pair.rx->ops->take(pair.rx, copied + 50, BYTES - 50));
            pair.rx->ops->consume(pair.rx, BYTES - 50);
            assert_memory_equal(copied, seen + 100, BYTES);
        } else {
            assert_true(pair.rx->ops->fetch(pair.rx));
            assert_int_equal(pair.rx->ops->peek(pair.rx, &view), LINK_READY);
            assert_memory_equal(view.data, seen + 100, BYTES);
            pair.rx->ops->consume(pair.rx, BYTES);
        }
    }
    assert_true(pair.tx->ops->consumed(pair.tx));
    local_net_close(&pair.net);
}

static void a_reader_that_is_not_ready_is_asked_again(void **state)
{
    (void)state;
    struct pair pair = open_processes();
    mapping = MEMORY_NOT_YET;
    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal(reach(&pair), REACH_NONE);
        send_copy(&pair);
    }
    mapping = MEMORY_MAPPED;
    introduce(&pair);
    assert_int_equal(map_count, 4);
    local_net_close(&pair.net);
}

static void a_reader_that_refuses_is_not_asked_again(void **state)
{
    (void)state;
    struct pair pair = open_processes();
    mapping = MEMORY_REFUSED;
    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal(reach(&pair), REACH_NONE);
        send_copy(&pair);
    }
    assert_int_equal(map_count, 1);
    local_net_close(&pair.net);
}

static void a_reader_without_that_kind_says_nothing(void **state)
{
    (void)state;
    struct pair pair = open_processes();
    pair.net.ranks[1]->takes_kind[LOCAL_NET_SLOT] = NULL;
    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal(reach(&pair), REACH_NONE);
        send_copy(&pair);
    }
    assert_int_equal(map_count, 0);
    local_net_close(&pair.net);
}

static void another_allocation_at_the_address_is_another_one(void **state)
{
    (void)state;
    struct pair pair = open_processes();
    introduce(&pair);
    number = 6;
    introduce(&pair);
    assert_int_equal(map_count, 2);
    can_share = false;
    assert_int_equal(reach(&pair), REACH_NONE);
    assert_false(pair.tx->ops->post(pair.tx, owned + 100, BYTES));
    local_net_close(&pair.net);
}

static void more_allocations_than_are_kept_are_refused(void **state)
{
    (void)state;
    struct pair pair = open_processes();
    unsigned mapped = 0;
    for (number = 1; number <= 600; number++) {
        assert_int_equal(reach(&pair), REACH_NONE);
        send_copy(&pair);
        mapped += reach(&pair) == REACH_READ;
    }
    assert_int_equal(mapped, 256);
    number = 3; /* it is asked for again, and is there */
    if (reach(&pair) == REACH_NONE) introduce(&pair);
    expect_shown(&pair, 0);
    local_net_close(&pair.net);
}

static void a_shared_slot_says_it_too(void **state)
{
    (void)state;
    struct pair pair = open_processes();
    struct transport *const own = pair.net.ranks[0];
    struct link_view view;
    for (int r = 0; r < 2; r++)
        assert_int_equal(
            pair.net.ranks[r]->sharing->open_shared_slots(pair.net.ranks[r], LOCAL_NET_SLOT),
            TUTTI_OK);
    assert_int_equal(reach(&pair), REACH_NONE);
    char *const place = own->sharing->reserve_shared(own, LOCAL_NET_SLOT, BYTES);
    memset(place, 4, BYTES);
    own->sharing->send_shared(own, LOCAL_NET_SLOT, &pair.tx, 1, BYTES);
    assert_int_equal(pair.rx->ops->peek(pair.rx, &view), LINK_READY);
    assert_non_null(view.place);
    assert_memory_equal(view.data, place, BYTES);
    pair.rx->ops->consume(pair.rx, BYTES);
    assert_int_equal(reach(&pair), REACH_READ);
    local_net_close(&pair.net);
}

/* Nothing is shared on this link, even at the second message. */
static void expect_apart(struct pair pair, struct link_tx *tx)
{
    struct link_view view;
    struct link_rx *const rx =
        tx->peer == LINK_TO_GROUP ? local_net_rx(&pair.net, 1, 0, true) : pair.rx;
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(tx->ops->reach(tx, owned, BYTES), REACH_NONE);
        assert_non_null(tx->ops->reserve(tx, BYTES));
        tx->ops->commit(tx, BYTES);
        assert_int_equal(rx->ops->peek(rx, &view), LINK_READY);
        rx->ops->consume(rx, BYTES);
    }
    assert_int_equal(map_count, 0);
    local_net_close(&pair.net);
}

static void some_links_share_nothing(void **state)
{
    (void)state;
    struct pair pair = open_pair((struct host_peer){false, 0, NULL}, false);
    expect_apart(pair, pair.tx);
    pair = open_pair((struct host_peer){false, getpid(), NULL}, true);
    expect_apart(pair, pair.tx);
    pair = open_processes();
    expect_apart(pair, local_net_tx(&pair.net, 0, LINK_TO_GROUP));
    setenv("TUTTI_CMA", "0", 1);
    pair = open_processes();
    unsetenv("TUTTI_CMA");
    expect_apart(pair, pair.tx);
}

/* The first message after `introduce`, as a peer may write it. */
static struct message_header *forge(const struct pair *pair, uint64_t kind, uint64_t bytes)
{
    struct message_header *headers;
    char *data;
    assert_int_equal(
        segment_link(pair->net.segment, 0, LOCAL_NET_SLOT, LOCAL_NET_CHANNEL, 1, &headers, &data),
        TUTTI_OK);
    struct message_header *const header = &headers[1];
    header->signature = LOCAL_NET_SIGNATURE;
    header->kind_and_bytes = kind << 56 | bytes;
    return header;
}

static void messages_that_make_no_sense_are_a_fault(void **state)
{
    (void)state;
    static const struct {
        uint64_t kind, bytes, number, offset;
    } cases[] = {
        {MESSAGE_MAPPED, 100, 6, 0},
        {MESSAGE_MAPPED, 100, 0, 0},
        {MESSAGE_MAPPED, 100, UINT64_MAX, 0},
        {MESSAGE_MAPPED, ALLOCATION + 1, 5, 0},
        {MESSAGE_MAPPED, 100, 5, ALLOCATION - 99},
        {MESSAGE_MAPPED, 100, 5, ALLOCATION + 1},
        {MESSAGE_MAPPED, 100, 5, UINT64_MAX},
        {MESSAGE_MAPPED, 100, 5, UINT64_MAX - 50},
        {MESSAGE_MAPPED, (UINT64_C(1) << 56) - 1, 5, 0},
        {MESSAGE_MAPPED | MESSAGE_SHARES, 100, 5, 0},
        {MESSAGE_INLINE | MESSAGE_SHARES, 8, 0, 0},
        {MESSAGE_SMALL_SLOT | MESSAGE_SHARES, 100, 0, 0},
        {MESSAGE_ADDRESS | MESSAGE_SHARES, 100, 0, 0},
        {MESSAGE_SLOT | MESSAGE_SHARES, 100, DATA_SLOTS, 0},
        {MESSAGE_SLOT | MESSAGE_SHARES, UINT64_C(1) << 40, 0, 0},
        {MESSAGE_SHARED | MESSAGE_SHARES, 100, SHARED_SLOTS, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair pair = open_processes();
        struct link_view view;
        introduce(&pair);
        struct message_header *const header = forge(&pair, cases[i].kind, cases[i].bytes);
        header->u.mapped.number = cases[i].number;
        header->u.mapped.offset = cases[i].offset;
        atomic_store(&header->sequence, 2);
        if (pair.rx->ops->peek(pair.rx, &view) != LINK_FAULT) fail_msg("case %zu is believed", i);
        local_net_close(&pair.net);
    }
}

static void numbers_that_are_none_are_not_mapped(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, MEMORY_SHARE_NUMBERS, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct pair pair = open_processes();
        number = numbers[i];
        assert_int_equal(reach(&pair), REACH_NONE);
        send_copy(&pair);
        assert_int_equal(reach(&pair), REACH_NONE);
        assert_int_equal(map_count, 0);
        local_net_close(&pair.net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(memory_that_was_mapped_is_shown_where_it_lies, begin),
        cmocka_unit_test_setup(what_one_link_has_mapped_all_links_know, begin),
        cmocka_unit_test_setup(an_operation_without_that_kind_copies_it_out, begin),
        cmocka_unit_test_setup(a_reader_that_is_not_ready_is_asked_again, begin),
        cmocka_unit_test_setup(a_reader_that_refuses_is_not_asked_again, begin),
        cmocka_unit_test_setup(a_reader_without_that_kind_says_nothing, begin),
        cmocka_unit_test_setup(another_allocation_at_the_address_is_another_one, begin),
        cmocka_unit_test_setup(more_allocations_than_are_kept_are_refused, begin),
        cmocka_unit_test_setup(a_shared_slot_says_it_too, begin),
        cmocka_unit_test_setup(some_links_share_nothing, begin),
        cmocka_unit_test_setup(messages_that_make_no_sense_are_a_fault, begin),
        cmocka_unit_test_setup(numbers_that_are_none_are_not_mapped, begin),
    };
    return cmocka_run_group_tests_name("sharing", tests, NULL, NULL);
}
