/* Links over providers of libfabric that run anywhere, and over the same providers with properties
 * of hardware: what it demands, lacks and does. Every byte comes once and in order, no memory stays
 * registered, and failures are noticed.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fabric/fabric_shim.h"
#include "tests/kit/kept_log.h"
#include "tests/worlds/card_game.h"
#include "transport/ofi/ofi_device.h"

static const struct fabric_shim personalities[] = {
    {.name = "as it is"},
    {.name = "local memory is registered", .demands_local = true},
    {.name = "addresses are virtual", .demands_address = true, .keeps_no_order = true},
    {.name = "messages overtake writes", .keeps_no_order = true},
    {.name = "keys are the provider's", .makes_keys = true},
    {.name = "memory is bound to an endpoint", .binds_to_endpoint = true},
    {.name = "like verbs", .demands_local = true, .demands_address = true, .makes_keys = true},
    {.name = "like cxi",
     .makes_keys = true,
     .binds_to_endpoint = true,
     .has_no_inject = true,
     .keeps_no_order = true},
    {.name = "nothing is injected", .has_no_inject = true},
    {.name = "one part", .has_one_part = true},
    {.name = "messages of 4 KiB", .message_bytes = 4096, .demands_local = true},
    {.name = "late and in any order", .late_permille = 300, .keeps_no_order = true},
    {.name = "late, and it keeps order", .late_permille = 300},
    {.name = "connections end and are made again", .lost_permille = 200},
    {.name = "often not now", .again_permille = 300},
    {.name = "little can be registered", .demands_local = true, .registered_max = 60},
    {.name = "all of it",
     .demands_local = true,
     .demands_address = true,
     .makes_keys = true,
     .binds_to_endpoint = true,
     .has_no_inject = true,
     .has_one_part = true,
     .message_bytes = 4096,
     .late_permille = 200,
     .again_permille = 200},
};

enum { PERSONALITIES = sizeof personalities / sizeof *personalities };

/* Posted memory comes by messages, or by writes to where the user says or into a landing. */
static const struct card_options cards[] = {
    {.offer_bytes = 1},
    {.offer_bytes = 1,
     .asked_bytes = 2000,
     .landing_bytes = 4096,
     .patience = 8,
     .flight_bytes = CARD_FLIGHT_ADAPTS},
    {.offer_bytes = 3000, .asked_bytes = 1, .landing_bytes = 512, .flight_bytes = 9000},
};

enum { CARDS = sizeof cards / sizeof *cards };

static void skip_without(const char *provider)
{
    if (card_world_has_fabric(provider)) return;
    printf("skipped: provider %s of libfabric is not here\n", provider);
    skip();
}

static void play_all(const char *provider, unsigned cards_of_rank, unsigned messages)
{
    uint64_t further = 0;
    skip_without(provider);
    for (unsigned p = 0; p < PERSONALITIES; p++) {
        const struct fabric_shim *shim = &personalities[p];
        fabric_shim_use(shim, p + 1);
        further += card_game_play((struct card_mood){.fabric = provider,
                                                     .cards = cards_of_rank,
                                                     .rails_bytes = 1,
                                                     .card = cards[p % CARDS]},
                                  messages, p + 1);
        const struct fabric_shim_counts counts = fabric_shim_count();
        assert_int_equal(counts.registered, 0);
        assert_int_equal(counts.busy, 0);
        assert_true(counts.late > 0 || shim->late_permille == 0);
        assert_true(counts.again > 0 || shim->again_permille == 0);
        assert_true(counts.refused > 0 || shim->registered_max == 0);
    }
    assert_true((further > 0) == (cards_of_rank > 1));
    fabric_shim_use(NULL, 0);
}

static void every_byte_comes_over_tcp_whatever_its_character(void **state)
{
    (void)state;
    play_all("tcp;ofi_rxm", 1, 30);
}

static void every_byte_comes_over_several_cards_whatever_their_character(void **state)
{
    (void)state;
    play_all("tcp;ofi_rxm", 2, 30);
    card_game_play((struct card_mood){.fabric = "tcp;ofi_rxm",
                                      .cards = 2,
                                      .last_has_one = true,
                                      .rails_bytes = 1,
                                      .card = cards[0]},
                   30, 1);
}

/* The user hears that data is copied because a limit is too low: once, and not from each
 * message. */
static void memory_that_is_not_registered_is_reported_once(void **state)
{
    (void)state;
    static const struct fabric_shim little = {
        .name = "little can be registered", .demands_local = true, .registered_max = 60};
    struct kept_log log;
    skip_without("tcp;ofi_rxm");
    kept_log_begin(&log);
    fabric_shim_use(&little, 1);
    card_game_play((struct card_mood){.fabric = "tcp;ofi_rxm", .card = cards[0]}, 30, 1);
    const uint64_t refused = fabric_shim_count().refused;
    fabric_shim_use(NULL, 0);
    const unsigned lines = kept_log_end(&log, "does not register", "ulimit -l");
    assert_true(refused > 2);
    assert_in_range(lines, 1, 2); /* of two ranks, each at most once */
}

/* A peer whose messages fail is in trouble, and nothing is sent to it any more. */
static void a_failed_message_is_trouble_for_good(void **state)
{
    (void)state;
    enum { STEPS_MAX = 30000000, BYTES = 4000 };
    static const struct fabric_shim failing = {.name = "fails", .failed_permille = 100};
    skip_without("tcp;ofi_rxm");
    fabric_shim_use(&failing, 1);
    struct card_world *world = card_world_create(2, (struct card_mood){.fabric = "tcp;ofi_rxm"}, 1);
    struct transport *const *ranks = card_world_transports(world);
    char text[OFI_TROUBLE_MAX];
    struct link_tx *tx;
    struct link_rx *rx;
    assert_int_equal(ranks[0]->ops->open_tx(ranks[0], 0, 0, 1, BYTES, &tx), TUTTI_OK);
    assert_int_equal(ranks[1]->ops->open_rx(ranks[1], 0, 0, 0, &rx), TUTTI_OK);
    int unlucky = 0; /* the sender of data, or the sender of grants */
    for (int step = 0; ofi_device_trouble(card_device_of(ranks[unlucky]), 1 - unlucky, text) == 0;
         step++) {
        struct link_view view;
        char *const place = tx->ops->reserve(tx, BYTES);
        unlucky = 1 - unlucky;
        assert_true(step < STEPS_MAX);
        if (place != NULL) memset(place, 1, BYTES);
        if (place != NULL) tx->ops->commit(tx, BYTES);
        card_world_step(world);
        if (rx->ops->peek(rx, &view) == LINK_READY) rx->ops->consume(rx, view.bytes);
    }
    assert_non_null(strstr(text, "could not send"));
    const uint64_t sent = card_sent(ranks[unlucky], 1 - unlucky);
    for (int step = 0; step < 1000; step++) card_world_step(world);
    assert_int_equal(card_sent(ranks[unlucky], 1 - unlucky), sent);
    assert_true(fabric_shim_count().failed > 0);
    card_world_free(world);
    fabric_shim_use(NULL, 0);
}

/* Steps a pair of ranks, one of which tells the other that it may send, until that message has
 * left; or, if it never does, for long. */
static void expect_to_leave(const struct fabric_shim *shim, bool leaves)
{
    enum { STEPS_MAX = 1000000, STEPS = 1000 };
    fabric_shim_use(shim, 1);
    struct card_world *world = card_world_create(2, (struct card_mood){.fabric = "tcp;ofi_rxm"}, 1);
    struct transport *const *ranks = card_world_transports(world);
    const struct card_device *const device = card_device_of(ranks[1]);
    struct link_tx *tx;
    struct link_rx *rx;
    uint64_t before = 0, after = 0;
    assert_int_equal(ranks[0]->ops->open_tx(ranks[0], 0, 0, 1, 64, &tx), TUTTI_OK);
    assert_int_equal(ranks[1]->ops->open_rx(ranks[1], 0, 0, 0, &rx), TUTTI_OK);
    for (int step = 0; before == 0; step++) {
        assert_true(step < STEPS_MAX);
        card_world_step(world);
        (void)ofi_device_owes(device, 0, &before);
    }
    bool owes = true;
    for (int step = 0; step < (leaves ? STEPS_MAX : STEPS) && owes; step++) {
        card_world_step(world);
        owes = ofi_device_owes(device, 0, &before);
    }
    assert_true(owes == !leaves);
    for (int step = 0; step < STEPS; step++) card_world_step(world);
    assert_true(ofi_device_owes(device, 0, &after) == !leaves);
    assert_true(before == after);
    card_world_free(world);
    fabric_shim_use(NULL, 0);
}

static void what_a_provider_keeps_is_seen(void **state)
{
    (void)state;
    static const struct fabric_shim gives = {.name = "nothing is injected", .has_no_inject = true},
                                    keeps = {.name = "it keeps all",
                                             .has_no_inject = true,
                                             .late_permille = 1000};
    skip_without("tcp;ofi_rxm");
    expect_to_leave(&gives, true);
    expect_to_leave(&keeps, false);
}

/* Rank 2 says that it is rank 1. No rank believes it, and rank 1 is heard as ever. */
static void nobody_speaks_for_another(void **state)
{
    (void)state;
    enum { STEPS_MAX = 30000000, BYTES = 4000, MESSAGES = 20 };
    static const struct fabric_shim masked = {.name = "masked", .mask_from = 2, .mask_to = 1};
    skip_without("tcp;ofi_rxm");
    fabric_shim_use(&masked, 1);
    struct card_world *world = card_world_create(3, (struct card_mood){.fabric = "tcp;ofi_rxm"}, 1);
    struct transport *const *ranks = card_world_transports(world);
    struct link_tx *tx[3];
    struct link_rx *rx[3];
    for (int r = 1; r < 3; r++) {
        assert_int_equal(ranks[r]->ops->open_tx(ranks[r], 0, 0, 0, BYTES, &tx[r]), TUTTI_OK);
        assert_int_equal(ranks[0]->ops->open_rx(ranks[0], 0, 0, r, &rx[r]), TUTTI_OK);
    }
    int sent = 0, come = 0;
    const struct card_device *const device = card_device_of(ranks[0]);
    for (int step = 0; come < MESSAGES || ofi_device_strays(device) == 0; step++) {
        struct link_view view;
        assert_true(step < STEPS_MAX);
        for (int r = 1; r < 3; r++) {
            char *const place = r == 2 || sent < MESSAGES ? tx[r]->ops->reserve(tx[r], BYTES) : NULL;
            if (place == NULL) continue;
            memset(place, r, BYTES);
            tx[r]->ops->commit(tx[r], BYTES);
            sent += r == 1;
        }
        card_world_step(world);
        assert_int_equal(rx[2]->ops->peek(rx[2], &view), LINK_EMPTY);
        if (rx[1]->ops->peek(rx[1], &view) != LINK_READY) continue;
        for (size_t i = 0; i < view.bytes; i++) assert_int_equal(((const char *)view.data)[i], 1);
        rx[1]->ops->consume(rx[1], view.bytes);
        come++;
    }
    card_world_free(world);
    fabric_shim_use(NULL, 0);
}

/* A foreign message, which would be read beyond its end if its length were believed. */
static void greetings_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    if (!card_world_has_fabric("tcp;ofi_rxm")) skip();
    struct card_world *world = card_world_create(2, (struct card_mood){.fabric = "tcp;ofi_rxm"}, 1);
    struct card_device *const device = card_device_of(card_world_transports(world)[0]);
    struct ofi_greeting *greeting = malloc(sizeof *greeting);
    assert_non_null(greeting);
    for (uint32_t bytes = 0; bytes < 3; bytes++) {
        memset(greeting, 'x', sizeof *greeting);
        greeting->address_bytes = bytes < 2 ? bytes : UINT32_MAX;
        assert_false(ofi_device_greeted(device, 1, greeting));
    }
    for (uint32_t format = 0; format < 32; format++) {
        memset(greeting, 'x', sizeof *greeting);
        greeting->address_bytes = OFI_ADDRESS_MAX;
        greeting->address_format = format;
        assert_false(ofi_device_greeted(device, 1, greeting));
    }
    free(greeting);
    card_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_comes_over_tcp_whatever_its_character),
        cmocka_unit_test(every_byte_comes_over_several_cards_whatever_their_character),
        cmocka_unit_test(memory_that_is_not_registered_is_reported_once),
        cmocka_unit_test(a_failed_message_is_trouble_for_good),
        cmocka_unit_test(what_a_provider_keeps_is_seen),
        cmocka_unit_test(nobody_speaks_for_another),
        cmocka_unit_test(greetings_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
