/* Several simulated cards as one device: long messages go over all of them, short ones over the
 * first; memory is known to those cards that have registered it, and to no other; and what ends on
 * one card ends on all. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/chance.h"
#include "tests/worlds/card_world.h"
#include "transport/card/card_rails.h"

enum { STEPS_MAX = 2000000, BYTES = 1 << 20 };

static struct card_device *rails_of(const struct card_world *world, int rank)
{
    return card_device_of(card_world_transports(world)[rank]);
}

struct transfer {
    struct link_tx *tx;
    struct link_rx *rx;
    char *source, *destination;
};

/* From rank 0 to rank 1; both are UP. */
static struct transfer open_transfer(struct card_world *world)
{
    struct transport *const *ranks = card_world_transports(world);
    struct transfer transfer = {.source = malloc(BYTES), .destination = calloc(1, BYTES)};
    assert_true(transfer.source != NULL && transfer.destination != NULL);
    for (int i = 0; i < BYTES; i++) transfer.source[i] = (char)(i * 7 + (i >> 8) * 13);
    assert_int_equal(ranks[0]->ops->open_tx(ranks[0], 0, 0, 1, 64, &transfer.tx), TUTTI_OK);
    assert_int_equal(ranks[1]->ops->open_rx(ranks[1], 0, 0, 0, &transfer.rx), TUTTI_OK);
    for (int step = 0; step < 2000; step++) card_world_step(world);
    return transfer;
}

static void send_over(struct card_world *world, struct transfer *transfer, size_t bytes)
{
    size_t come = 0;
    memset(transfer->destination, 0, BYTES);
    transfer->rx->ops->advertise(transfer->rx, transfer->destination, bytes);
    for (int step = 0; step < 2000; step++) card_world_step(world); /* the sender knows it */
    assert_true(transfer->tx->ops->post(transfer->tx, transfer->source, bytes));
    for (int step = 0; come < bytes; step++) {
        struct link_view view;
        assert_true(step < STEPS_MAX);
        card_world_step(world);
        if (transfer->rx->ops->peek(transfer->rx, &view) != LINK_READY) continue;
        assert_memory_equal(view.data, transfer->source + come, view.bytes);
        come += view.bytes;
        transfer->rx->ops->consume(transfer->rx, view.bytes);
    }
}

static void close_transfer(struct card_world *world, const struct transfer *transfer)
{
    card_world_free(world);
    free(transfer->source);
    free(transfer->destination);
}

/* In writes of 256 KiB, which are all given at once. */
static void cards_carry_equal_parts_of_a_long_message(void **state)
{
    (void)state;
    for (unsigned cards = 2; cards <= CARD_RAILS_MAX; cards += 2) {
        struct card_world *world = card_world_create(2, (struct card_mood){.cards = cards}, cards);
        struct transfer transfer = open_transfer(world);
        send_over(world, &transfer, BYTES);
        card_world_settle(world);
        for (unsigned c = 0; c < cards; c++)
            assert_int_equal(card_rails_given(rails_of(world, 0), c), BYTES / cards);
        close_transfer(world, &transfer);
    }
}

static void short_memory_stays_on_the_first_card(void **state)
{
    (void)state;
    struct card_world *world = card_world_create(2, (struct card_mood){.cards = 2}, 1);
    struct transfer transfer = open_transfer(world);
    for (int i = 0; i < 10; i++) send_over(world, &transfer, CARD_RAILS_BYTES - 1);
    assert_int_equal(card_rails_given(rails_of(world, 0), 0), 10 * (CARD_RAILS_BYTES - 1));
    assert_int_equal(card_rails_given(rails_of(world, 0), 1), 0);
    close_transfer(world, &transfer);
}

/* Each has come before the next one goes. */
static void a_write_that_is_alone_goes_over_the_first_card(void **state)
{
    (void)state;
    struct card_world *world = card_world_create(2, (struct card_mood){.cards = 3}, 1);
    struct transfer transfer = open_transfer(world);
    for (int i = 0; i < 10; i++) {
        send_over(world, &transfer, CARD_RAILS_BYTES);
        card_world_settle(world);
    }
    assert_int_equal(card_rails_given(rails_of(world, 0), 0), 10 * CARD_RAILS_BYTES);
    send_over(world, &transfer, BYTES);
    for (unsigned c = 1; c < 3; c++)
        assert_true(card_rails_given(rails_of(world, 0), c) >= BYTES / 4);
    close_transfer(world, &transfer);
}

static void a_card_that_the_peer_lacks_carries_nothing(void **state)
{
    (void)state;
    struct card_world *world =
        card_world_create(2, (struct card_mood){.cards = 2, .last_has_one = true}, 1);
    struct transfer transfer = open_transfer(world);
    send_over(world, &transfer, BYTES);
    assert_int_equal(card_rails_given(rails_of(world, 0), 0), BYTES);
    assert_int_equal(card_rails_given(rails_of(world, 0), 1), 0);
    assert_int_equal(rails_of(world, 0)->ops->state(rails_of(world, 0), 1), CARD_PEER_UP);
    close_transfer(world, &transfer);
}

/* A peer's region names those cards that have it, whatever was registered and given up before. */
static void regions_are_known_by_the_cards_that_have_them(void **state)
{
    (void)state;
    enum { REGIONS = 300, TURNS = 20000 };
    static char memory[REGIONS][64];
    uint64_t keys[REGIONS] = {0};
    struct card_target targets[REGIONS];
    struct chance chance = {.seed = 20261127};
    unsigned registered = 0;
    struct card_world *world =
        card_world_create(2, (struct card_mood){.cards = 3, .rails_bytes = 33}, 1);
    struct card_device *const rails = rails_of(world, 0);
    struct card_device *const third = card_rails_device(rails, 2);
    assert_null(card_rails_device(rails, 3));
    assert_int_equal(rails->ops->make_room(rails, REGIONS), TUTTI_OK);
    for (int turn = 0; turn < TURNS; turn++) {
        const int r = chance_below(&chance, REGIONS);
        if (keys[r] != 0) {
            const struct card_target target = rails->ops->target(rails, keys[r]);
            assert_memory_equal(&target, &targets[r], sizeof target);
            rails->ops->deregister(rails, keys[r]);
            keys[r] = 0;
            registered--;
            continue;
        }
        const bool is_short = r % 3 == 0, is_own = r % 5 == 0;
        const unsigned before = third->ops->regions(third);
        keys[r] = rails->ops->enroll(rails, memory[r], is_short ? 32 : 64,
                                     is_own       ? CARD_ACCESS_OWN
                                     : r % 2 == 0 ? CARD_ACCESS_SOURCE
                                                  : CARD_ACCESS_WRITTEN);
        assert_true(keys[r] != 0);
        targets[r] = rails->ops->target(rails, keys[r]);
        registered++;
        assert_int_equal(third->ops->regions(third) - before, !is_short && !is_own);
        assert_int_equal(rails->ops->regions(rails), registered);
        for (unsigned c = 0; c < CARD_FURTHER_MAX; c++)
            assert_true((targets[r].further[c].key != 0) == (c < 2 && !is_short && !is_own));
    }
    for (int r = 0; r < REGIONS; r++)
        if (keys[r] != 0) rails->ops->deregister(rails, keys[r]);
    for (unsigned c = 0; c < 3; c++) {
        const struct card_device *const card = card_rails_device(rails, c);
        assert_int_equal(card->ops->regions(card), 0);
    }
    card_world_free(world);
}

static void give_room(const struct card_device *rails, unsigned regions)
{
    for (unsigned c = 0; c < 2; c++) {
        struct card_device *const card = card_rails_device(rails, c);
        assert_int_equal(card->ops->make_room(card, regions), TUTTI_OK);
    }
}

/* The second card of the sender, or of the receiver, has no room left: memory that it has not
 * registered goes over the first one. Or the cards have more room than was asked for. */
static void memory_that_a_card_does_not_register_goes_over_others(void **state)
{
    (void)state;
    enum { KEYS_MAX = 1000 };
    static char memory[64];
    for (int full = 0; full < 3; full++) {
        struct card_world *world =
            card_world_create(2, (struct card_mood){.cards = 2, .rails_bytes = 33}, 1);
        struct transfer transfer = open_transfer(world);
        struct card_device *const rails = rails_of(world, full % 2);
        struct card_device *const card = full < 2 ? card_rails_device(rails, 1) : rails;
        uint64_t keys[KEYS_MAX];
        unsigned filled = 0;
        if (full == 2) give_room(rails, 500);
        while ((keys[filled] =
                    card->ops->enroll(card, memory, sizeof memory, CARD_ACCESS_SOURCE)) != 0)
            assert_true(++filled < KEYS_MAX);
        assert_true(filled > 0);
        if (full == 2) give_room(rails, 10);
        send_over(world, &transfer, BYTES);
        assert_int_equal(card_rails_given(rails_of(world, 0), 0), BYTES);
        assert_int_equal(card_rails_given(rails_of(world, 0), 1), 0);
        for (unsigned k = 0; k < filled; k++) card->ops->deregister(card, keys[k]);
        send_over(world, &transfer, BYTES);
        assert_int_equal(card_rails_given(rails_of(world, 0), 1), BYTES / 2);
        card_world_settle(world);
        close_transfer(world, &transfer);
    }
}

static void a_peer_that_ends_on_one_card_ends(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 3; c++) {
        struct card_world *world = card_world_create(2, (struct card_mood){.cards = 3}, 1);
        struct transfer transfer = open_transfer(world);
        struct card_device *const rails = rails_of(world, 0), *const card =
                                                                  card_rails_device(rails, c);
        assert_int_equal(rails->ops->state(rails, 1), CARD_PEER_UP);
        card->ops->break_pair(card, 1);
        assert_int_equal(rails->ops->state(rails, 1), CARD_PEER_BROKEN);
        close_transfer(world, &transfer);
    }
    struct card_world *world = card_world_create(2, (struct card_mood){.cards = 3}, 1);
    struct transfer transfer = open_transfer(world);
    struct card_device *const rails = rails_of(world, 0);
    rails->ops->break_pair(rails, 1);
    for (unsigned c = 0; c < 3; c++) {
        const struct card_device *const card = card_rails_device(rails, c);
        assert_int_equal(card->ops->state(card, 1), CARD_PEER_BROKEN);
    }
    close_transfer(world, &transfer);
}

/* A message or write over any of the cards ends the sleep of a rank; and the memory and the
 * descriptors of all of them count. */
static void a_rank_sleeps_at_all_cards(void **state)
{
    (void)state;
    struct card_world *world = card_world_create(2, (struct card_mood){.cards = 2}, 1),
                      *one = card_world_create(2, (struct card_mood){.cards = 1}, 1);
    struct transfer transfer = open_transfer(world);
    card_world_settle(world);
    for (unsigned c = 0; c < 2; c++) {
        struct card_device *const rails = rails_of(world, 1);
        struct card_device *const from = card_rails_device(rails_of(world, 0), c);
        static char byte[64];
        struct pollfd entry = {.events = POLLIN};
        for (int looks = 0; looks < 1000; looks++) (void)rails->ops->progress(rails);
        entry.fd = rails->ops->descriptor(rails);
        assert_true(entry.fd >= 0);
        assert_int_equal(poll(&entry, 1, 0), 0);
        /* A write to nowhere: its packet is refused, but comes. */
        assert_int_equal(from->ops->make_room(from, 1), TUTTI_OK);
        const struct card_memory memory = {
            from->ops->enroll(from, byte, sizeof byte, CARD_ACCESS_OWN), byte, sizeof byte};
        assert_true(from->ops->write(from, 1, &(struct card_target){.key = 1234567}, 0, &memory, 1));
        for (int looks = 0; looks < 100; looks++) (void)from->ops->progress(from);
        entry.fd = rails->ops->descriptor(rails);
        assert_int_equal(poll(&entry, 1, 10000), 1);
        for (int looks = 0; looks < 1000; looks++) (void)rails->ops->progress(rails);
    }
    struct transport_footprint of_two = {0}, of_one = {0};
    struct transport *const two_cards = card_world_transports(world)[1], *const one_card =
                                                                             card_world_transports(
                                                                                 one)[1];
    two_cards->ops->add_footprint(two_cards, &of_two);
    one_card->ops->add_footprint(one_card, &of_one);
    assert_int_equal(of_one.descriptor_count, 4);
    assert_int_equal(of_two.descriptor_count, 9);
    assert_true(of_two.private_bytes > of_one.private_bytes);
    card_world_free(one);
    close_transfer(world, &transfer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_carry_equal_parts_of_a_long_message),
        cmocka_unit_test(short_memory_stays_on_the_first_card),
        cmocka_unit_test(a_write_that_is_alone_goes_over_the_first_card),
        cmocka_unit_test(a_card_that_the_peer_lacks_carries_nothing),
        cmocka_unit_test(regions_are_known_by_the_cards_that_have_them),
        cmocka_unit_test(memory_that_a_card_does_not_register_goes_over_others),
        cmocka_unit_test(a_peer_that_ends_on_one_card_ends),
        cmocka_unit_test(a_rank_sleeps_at_all_cards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
