/* A rank of the job, which has been greeted and knows its nonce, sends anything over libfabric's
 * tcp;ofi_rxm. Its peer breaks with it, is in trouble with it alone, or goes on, and touches no
 * memory that is given back.
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

#include "tests/worlds/card_world.h"

#if __has_include(<rdma/fabric.h>)

#include "tests/kit/chance.h"
#include "transport/card/message.h"
#include "transport/ofi/ofi_device.h"

enum {
    SEEDS = 12,
    MESSAGES = 200,
    STEPS_MAX = 3000000,
    RECEIVES = 32,
    LINKS = 3,
    BYTES = 2000,
    ALIGNMENT = 64
};

static const char provider[] = "tcp;ofi_rxm";

struct insider {
    struct ofi_choice choice;
    struct card_device *devices[2]; /* the rank's, and the insider's own */
    struct transport *rank;
    struct link_tx *tx[LINKS];
    struct link_rx *rx[LINKS];
    char *posted;
    char *receives;
    size_t stride;
    uint64_t receives_key;
    struct chance chance;
    /* The insider's next message would have these, if it behaved. */
    uint32_t number;
    uint64_t sequence[LINKS], offset[LINKS];
    uint64_t key;          /* that was offered last */
    uint64_t taken[LINKS]; /* messages of the rank's links */
    unsigned got;
};

struct end {
    struct insider *insider;
    int rank;
};

static bool greets(void *context, int peer, const struct ofi_greeting *greeting)
{
    const struct end *const end = context;
    struct card_device *const device = end->insider->devices[peer];
    return device != NULL && ofi_device_greeted(device, end->rank, greeting);
}

static struct card_device *open_device(struct insider *insider, struct end *end)
{
    const struct ofi_device_options options = {
        .rank = end->rank, .size = 2, .choice = &insider->choice, .greets = greets, .context = end};
    struct card_device *device;
    assert_int_equal(ofi_device_create(&options, &device), TUTTI_OK);
    return device;
}

static void post(struct insider *insider, unsigned receive)
{
    struct card_device *const device = insider->devices[1];
    (void)device->ops->post_receive(
        device, 0, insider->receives_key,
        insider->receives + receive * insider->stride + device->head_room, receive);
}

static void open_own(struct insider *insider)
{
    struct card_device *const device = insider->devices[1];
    insider->stride = device->head_room + device->message_bytes;
    insider->receives = aligned_alloc(ALIGNMENT, RECEIVES * insider->stride);
    assert_non_null(insider->receives);
    assert_int_equal(device->ops->make_room(device, 1), TUTTI_OK);
    insider->receives_key =
        device->ops->enroll(device, insider->receives, RECEIVES * insider->stride, CARD_ACCESS_OWN);
    assert_int_equal(device->ops->prepare(device, 0), TUTTI_OK);
    for (unsigned r = 0; r < RECEIVES; r++) post(insider, r);
    device->ops->connect(device, 0);
}

static void open_links(struct insider *insider)
{
    const struct card_options options = {
        .size = 2, .reach_bytes = 1, .offer_bytes = 1, .asked_bytes = 1000, .landing_bytes = 4096};
    struct transport *rank;
    assert_int_equal(card_create(&options, insider->devices[0], &rank), TUTTI_OK);
    insider->rank = rank;
    for (int l = 0; l < LINKS; l++) {
        assert_int_equal(rank->ops->open_tx(rank, l, 0, 1, BYTES, &insider->tx[l]), TUTTI_OK);
        assert_int_equal(rank->ops->open_rx(rank, l, 0, 1, &insider->rx[l]), TUTTI_OK);
    }
}

/* Takes the rank's messages, and remembers a little of them. */
static void take(struct insider *insider)
{
    struct card_device *const device = insider->devices[1];
    struct card_completion completion;
    struct card_message message;
    while (device->ops->poll(device, &completion)) {
        if (completion.work != CARD_RECEIVED) continue;
        insider->got++;
        if (completion.bytes >= sizeof message) {
            memcpy(&message, completion.data, sizeof message);
            if (message.kind == CARD_MESSAGE_GRANT && message.key != 0) insider->key = message.key;
            if (message.kind <= CARD_MESSAGE_ASK)
                insider->taken[message.index / TRANSPORT_CHANNEL_COUNT]++;
        }
        const size_t at = (size_t)((char *)completion.data - insider->receives);
        post(insider, (unsigned)(at / insider->stride));
    }
}

/* Mostly the right number, so that the peer does not break at once. */
static uint64_t about(struct chance *chance, uint64_t right)
{
    const int luck = chance_below(chance, 300);
    if (luck == 0) return chance_draw(chance);
    return luck == 1 ? right + (uint64_t)chance_below(chance, 5) - 2 : right;
}

static uint8_t draw_kind(struct chance *chance)
{
    static const uint8_t kinds[] = {CARD_MESSAGE_DATA, CARD_MESSAGE_DATA, CARD_MESSAGE_ASK,
                                    CARD_MESSAGE_GRANT, CARD_MESSAGE_CREDIT};
    const int luck = chance_below(chance, 200);
    if (luck == 0) return (uint8_t)chance_below(chance, 256);
    return luck < 5 ? CARD_MESSAGE_PLACED : kinds[chance_below(chance, sizeof kinds)];
}

static struct card_message draw_message(struct insider *insider, size_t *bytes)
{
    struct chance *const chance = &insider->chance;
    const int link = chance_below(chance, LINKS);
    struct card_message message = {
        .kind = draw_kind(chance),
        .flags = (uint8_t)chance_below(chance, 2),
        .index = (uint16_t)about(chance, (uint64_t)link * TRANSPORT_CHANNEL_COUNT),
        .number = (uint32_t)about(chance, insider->number),
        .sequence = about(chance, insider->sequence[link]),
        .posted = (uint32_t)about(chance, RECEIVES + insider->got)};
    *bytes = chance_below(chance, 200) == 0 ? (size_t)chance_below(chance, BYTES) : 0;
    switch (message.kind) {
    case CARD_MESSAGE_DATA:
        *bytes = (size_t)chance_below(chance, BYTES);
        message.offset = about(chance, insider->offset[link]);
        break;
    case CARD_MESSAGE_PLACED:
    case CARD_MESSAGE_ASK:
        message.offset = about(chance, insider->offset[link]);
        message.length = about(chance, chance_of_any_size(chance, 5000));
        message.key = about(chance, insider->key);
        break;
    case CARD_MESSAGE_GRANT:
        message.consumed = about(chance, insider->taken[link] * (uint64_t)chance_below(chance, 2));
        if (chance_below(chance, 20) > 0) break; /* an offer of memory that is not there */
        message.key = 1 + (uint64_t)chance_below(chance, 3);
        message.length = chance_of_any_size(chance, 5000);
        message.room = (uint32_t)chance_below(chance, 3) * 512;
        break;
    default: message.consumed = about(chance, 0);
    }
    if (message.kind <= CARD_MESSAGE_ASK) insider->sequence[link]++;
    if (message.kind == CARD_MESSAGE_DATA) insider->offset[link] += *bytes;
    return message;
}

static bool send_one(struct insider *insider)
{
    static const char bytes[BYTES] = {1, 2, 3};
    struct card_device *const device = insider->devices[1];
    size_t count;
    struct insider after = *insider;
    const struct card_message message = draw_message(&after, &count);
    const size_t head_bytes = chance_below(&after.chance, 300) == 0
                                  ? (size_t)chance_below(&after.chance, 64)
                                  : sizeof message;
    const struct card_memory memory = {0, bytes, count};
    if (!device->ops->send(device, 0, &message, head_bytes, &memory, 0)) return false;
    after.number++;
    *insider = after;
    return true;
}

static void use_links(struct insider *insider)
{
    struct chance *const chance = &insider->chance;
    const int l = chance_below(chance, LINKS);
    struct link_tx *const tx = insider->tx[l];
    struct link_rx *const rx = insider->rx[l];
    struct link_view view;
    switch (chance_below(chance, 4)) {
    case 0:
        if (tx->ops->has_room(tx)) (void)tx->ops->post(tx, insider->posted, BYTES);
        break;
    case 1: rx->ops->advertise(rx, insider->posted + BYTES, BYTES); break;
    default:
        if (rx->ops->peek(rx, &view) != LINK_READY) break;
        for (size_t i = 0; i < view.bytes; i++) (void)((const volatile char *)view.data)[i];
        rx->ops->consume(rx, view.bytes);
    }
}

static bool has_broken(const struct insider *insider)
{
    return card_peer_state(insider->rank, 1) == CARD_PEER_BROKEN;
}

/* If a peer offers memory that it does not have, its provider ends the connection. */
static bool is_in_trouble(const struct insider *insider)
{
    char text[OFI_TROUBLE_MAX];
    return ofi_device_trouble(insider->devices[1], 0, text) != 0;
}

/* Returns whether the rank has broken with its peer. */
static bool play(uint64_t seed)
{
    struct insider insider = {.chance = {.seed = seed}};
    struct end ends[2] = {{&insider, 0}, {&insider, 1}};
    assert_int_equal(ofi_choose_anew(provider, NULL, &insider.choice), TUTTI_OK);
    for (int r = 0; r < 2; r++) insider.devices[r] = open_device(&insider, &ends[r]);
    insider.posted = malloc(2 * (size_t)BYTES);
    assert_non_null(insider.posted);
    memset(insider.posted, 7, 2 * (size_t)BYTES);
    open_own(&insider);
    open_links(&insider);
    unsigned sent = 0;
    struct card_device *const own = insider.devices[1];
    for (int step = 0; sent < MESSAGES && !has_broken(&insider) && !is_in_trouble(&insider); step++) {
        assert_true(step < STEPS_MAX);
        insider.rank->ops->progress(insider.rank);
        (void)own->ops->progress(own);
        take(&insider);
        use_links(&insider);
        sent += send_one(&insider);
    }
    const bool is_broken = has_broken(&insider);
    struct link_view view;
    for (int l = 0; is_broken && l < LINKS; l++)
        assert_int_equal(insider.rx[l]->ops->peek(insider.rx[l], &view), LINK_FAULT);
    assert_true(insider.rank->ops->stop(insider.rank));
    assert_int_equal(card_offered_regions(insider.rank), 0);
    free(insider.posted); /* a sanitizer notices any later read */
    card_close(insider.rank);
    own->ops->deregister(own, insider.receives_key);
    own->ops->free(own);
    free(insider.receives);
    ofi_choice_release(&insider.choice);
    return is_broken;
}

static void whatever_an_insider_sends_its_peer_breaks_with_it_or_goes_on(void **state)
{
    (void)state;
    unsigned broken = 0;
    if (!card_world_has_fabric(provider)) {
        print_message("skipped: provider %s of libfabric is not here\n", provider);
        skip();
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++) broken += play(seed);
    assert_true(broken > 0 && broken <= SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_an_insider_sends_its_peer_breaks_with_it_or_goes_on)};
    setenv("TUTTI_LOG", "off", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77;
}

#endif
