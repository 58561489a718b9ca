/* Control messages beside links wait for data, and control hears of trouble with links.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/kit/kept_log.h"
#include "transport/data_order.h"
#include "transport/transport.h"

enum {
    SIZE = 3,
    PEER = 1,
    KIND = 3,
    AHEAD_MAX = 16, /* messages on links that may be under way */
    SEALED_MAX = CONTROL_MESSAGE_BYTES_MAX + CONTROL_ENVELOPE_BYTES
};

/* One rank: its links, its control, and what it hears. The test says what they answer. */
struct world {
    struct transport links;
    struct control control;
    struct data_order *order;
    uint64_t sent[SIZE], taken[SIZE];
    struct link_report report[SIZE];
    struct link_evidence evidence; /* the last */
    uint32_t heard[4 * CONTROL_MESSAGES_MAX];
    bool is_greeting_nonsense;
    int heard_count, greeted_count, told_count, examined_count, forgotten;
    enum tutti_status health;
};

static struct world *world_of(const struct transport *links)
{
    return (struct world *)(uintptr_t)links;
}

static uint64_t sent(const struct transport *links, int peer)
{
    return world_of(links)->sent[peer];
}

static uint64_t taken(const struct transport *links, int peer)
{
    return world_of(links)->taken[peer];
}

static bool told(struct transport *links, int peer, uint64_t number)
{
    struct world *const world = world_of(links);
    if (number <= world->taken[peer] + AHEAD_MAX) return true;
    world->report[peer] = (struct link_report){.is_broken = true};
    return false;
}

static bool greeted(struct transport *links, int peer, const void *greeting, size_t bytes)
{
    (void)greeting;
    assert_int_equal(peer, PEER);
    assert_int_equal(bytes, 2 * sizeof(uint32_t));
    world_of(links)->greeted_count++;
    return !world_of(links)->is_greeting_nonsense;
}

static void examine(struct transport *links, int peer, const struct link_evidence *evidence)
{
    (void)peer;
    world_of(links)->evidence = *evidence;
    world_of(links)->examined_count++;
}

static void report(const struct transport *links, int peer, struct link_report *of_peer)
{
    *of_peer = world_of(links)->report[peer];
}

static enum tutti_status check(const struct transport *links)
{
    return world_of(links)->health;
}

static void forget(struct transport *links, int peer)
{
    world_of(links)->forgotten = peer;
}

static const struct data_order_ops ordered = {.sent = sent,
                                              .taken = taken,
                                              .told = told,
                                              .greeted = greeted,
                                              .examine = examine,
                                              .report = report,
                                              .check = check,
                                              .forget = forget};

static enum tutti_status tell(struct control *control, int peer, const void *message, size_t bytes)
{
    struct world *const world = (struct world *)((char *)control - offsetof(struct world, control));
    (void)peer, (void)message, (void)bytes;
    return ++world->told_count > 1 ? TUTTI_NO_MEMORY : TUTTI_OK;
}

static const struct control_ops control_ops = {.tell = tell};

static void hear(void *context, int peer, const void *message, size_t bytes)
{
    struct world *const world = context;
    uint32_t words[2];
    assert_int_equal(peer, PEER);
    assert_int_equal(bytes, sizeof words);
    memcpy(words, message, sizeof words);
    assert_int_equal(words[0], KIND);
    world->heard[world->heard_count++] = words[1];
}

static void open_world(struct world *world, bool has_links)
{
    const struct data_order_options options = {.size = SIZE, .hears = hear, .context = world};
    memset(world, 0, sizeof *world);
    world->links = (struct transport){.ordered = &ordered, .size = SIZE};
    world->control = (struct control){.ops = &control_ops, .size = SIZE};
    for (int r = 0; r < SIZE; r++) world->report[r].is_up = true;
    assert_int_equal(data_order_create(&options, &world->order), TUTTI_OK);
    data_order_join(world->order, has_links ? &world->links : NULL, &world->control);
}

/* A message that its sender told after so many on its links. */
static void come(struct world *world, uint32_t number, uint64_t after)
{
    const uint32_t words[2] = {KIND, number};
    char sealed[sizeof words + sizeof after];
    memcpy(sealed, words, sizeof words);
    memcpy(sealed + sizeof words, &after, sizeof after);
    data_order_hear(world->order, PEER, sealed, sizeof sealed);
}

static void expect_heard(const struct world *world, int count)
{
    assert_int_equal(world->heard_count, count);
    for (int i = 0; i < count; i++) assert_int_equal(world->heard[i], i);
}

static void a_message_waits_for_the_data_before_it(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    come(&world, 0, 0);
    come(&world, 1, 5);
    come(&world, 2, 0); /* behind the one that waits */
    expect_heard(&world, 1);
    world.taken[PEER] = 4;
    world.taken[PEER + 1] = 100;
    data_order_progress(world.order);
    expect_heard(&world, 1);
    world.taken[PEER] = 5;
    data_order_progress(world.order);
    expect_heard(&world, 3);
    come(&world, 3, 5);
    expect_heard(&world, 4);
    data_order_free(world.order);
}

/* Then what it waits for may never come. */
static void nothing_waits_for_links_that_fail(void **state)
{
    (void)state;
    for (int reason = 0; reason < 3; reason++) {
        struct world world;
        open_world(&world, true);
        come(&world, 0, 1);
        come(&world, 1, 1);
        expect_heard(&world, 0);
        if (reason == 0)
            data_order_stop(world.order);
        else if (reason == 1)
            world.report[PEER].is_up = false;
        else
            world.report[PEER].trouble_ns = 1;
        data_order_progress(world.order);
        expect_heard(&world, 2);
        come(&world, 2, 9);
        expect_heard(&world, 3);
        data_order_free(world.order);
    }
}

static void too_many_that_wait_are_heard_in_order(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    for (uint32_t i = 0; i < CONTROL_MESSAGES_MAX; i++) come(&world, i, 1);
    expect_heard(&world, 0);
    come(&world, CONTROL_MESSAGES_MAX, 1);
    expect_heard(&world, CONTROL_MESSAGES_MAX + 1);
    data_order_free(world.order);
}

static void a_message_says_what_was_sent_before_it(void **state)
{
    const uint32_t words[2] = {KIND, 0};
    char sealed[SEALED_MAX];
    struct world world;
    uint64_t after;
    (void)state;
    for (int has_links = 0; has_links < 2; has_links++) {
        open_world(&world, has_links);
        world.sent[PEER] = 7;
        for (int is_stopped = 0; is_stopped < 2; is_stopped++) {
            assert_int_equal(data_order_seal(world.order, PEER, words, sizeof words, sealed),
                             sizeof words + sizeof after);
            memcpy(&after, sealed + sizeof words, sizeof after);
            assert_int_equal(after, has_links && !is_stopped ? 7 : 0);
            data_order_stop(world.order);
        }
        data_order_free(world.order);
    }
}

/* The number is foreign: believed, it would hold back what the peer says, and let links wait for
 * messages that never come. */
static void a_number_that_cannot_be_true_is_not_believed(void **state)
{
    const uint64_t wrong[] = {AHEAD_MAX + 4, UINT64_MAX, UINT64_MAX - 1};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct world world;
        struct kept_log log;
        struct peer_report known = {.state = PEER_UP};
        open_world(&world, true);
        world.taken[PEER] = 3;
        come(&world, 0, AHEAD_MAX + 3); /* as many as may be under way */
        expect_heard(&world, 0);
        kept_log_begin(&log);
        come(&world, 1, wrong[i]);
        come(&world, 2, wrong[i]);
        assert_int_equal(kept_log_end(&log, "peer 1: ", "had no room for so many"), 1);
        data_order_progress(world.order);
        expect_heard(&world, 3); /* its links are broken: nothing waits for them */
        assert_int_equal(data_order_look(world.order, PEER, 3, 4), PEER_PRESENT);
        assert_int_equal(world.evidence.told, AHEAD_MAX + 3);
        data_order_report(world.order, PEER, &known);
        assert_int_equal(known.state, PEER_BROKEN);
        data_order_free(world.order);
    }
}

/* They come to the links, however much data is missing: without them none can come. */
static void greetings_are_for_links_alone_and_wait_for_nothing(void **state)
{
    const uint32_t greeting[4] = {CONTROL_KIND_GREETING, 0, 9, 0}; /* after 9 messages */
    struct world world;
    (void)state;
    open_world(&world, true);
    come(&world, 0, 9);
    data_order_hear(world.order, PEER, greeting, sizeof greeting);
    assert_int_equal(world.greeted_count, 1);
    expect_heard(&world, 0);
    assert_true(data_order_greet(world.order, PEER, greeting, 8));
    assert_false(data_order_greet(world.order, PEER, greeting, 8)); /* there is no place */
    data_order_free(world.order);
    open_world(&world, false);
    data_order_hear(world.order, PEER, greeting, sizeof greeting);
    assert_int_equal(world.greeted_count, 0);
    data_order_free(world.order);
}

/* Each is foreign, and a peer may send any number. */
static void nonsense_is_reported_once_in_a_while(void **state)
{
    enum { GREETINGS = 500 };
    const uint32_t greeting[4] = {CONTROL_KIND_GREETING, 0, 0, 0};
    struct world world;
    struct kept_log log;
    (void)state;
    open_world(&world, true);
    kept_log_begin(&log);
    data_order_hear(world.order, PEER, greeting, sizeof greeting);
    assert_int_equal(kept_log_end(&log, "makes no sense", ""), 0);
    world.is_greeting_nonsense = true;
    kept_log_begin(&log);
    for (int i = 0; i < GREETINGS; i++)
        data_order_hear(world.order, PEER, greeting, sizeof greeting);
    assert_int_equal(kept_log_end(&log, "peer 1: ", "makes no sense"), 1);
    assert_int_equal(world.greeted_count, 1 + GREETINGS);
    data_order_free(world.order);
}

static void what_has_no_kind_or_is_too_long_is_dropped(void **state)
{
    static const char zeros[SEALED_MAX + 1];
    struct world world;
    (void)state;
    open_world(&world, true);
    for (size_t bytes = 0; bytes < CONTROL_ENVELOPE_BYTES + sizeof(uint32_t); bytes++)
        data_order_hear(world.order, PEER, zeros, bytes);
    data_order_hear(world.order, PEER, zeros, sizeof zeros);
    expect_heard(&world, 0);
    data_order_free(world.order);
}

static void control_knows_what_links_know(void **state)
{
    const uint64_t long_ns = UINT64_C(60000000000);
    char text[CONTROL_TROUBLE_MAX];
    struct world world;
    (void)state;
    open_world(&world, true);
    struct peer_report known = {.state = PEER_UP, .heard_ns = 5};
    come(&world, 0, 9);
    assert_int_equal(data_order_look(world.order, PEER, 3, 4), PEER_PRESENT);
    assert_int_equal(world.evidence.told, 9);
    assert_int_equal(world.evidence.heard_ns, 3);
    assert_int_equal(world.evidence.now_ns, 4);
    assert_false(data_order_trouble(world.order, -1, text));
    data_order_report(world.order, PEER, &known);
    assert_true(known.state == PEER_UP && known.heard_ns == 5 && known.streams_up == 0);
    /* Without a connection, links say whether something may still come. */
    struct peer_report unknown = {.state = PEER_UNUSED};
    data_order_report(world.order, PEER, &unknown);
    assert_true(unknown.state == PEER_UNUSED && unknown.streams_up == 1);
    world.report[PEER] = (struct link_report){.is_lost = true};
    data_order_report(world.order, PEER, &unknown);
    assert_true(unknown.state == PEER_LOST && unknown.streams_up == 0);
    world.report[PEER] = (struct link_report){
        .is_broken = true, .heard_ns = 6, .trouble_ns = 1, .trouble = "its card is on fire"};
    data_order_report(world.order, PEER, &known);
    assert_true(known.state == PEER_BROKEN && known.heard_ns == 6);
    assert_true(data_order_trouble(world.order, -1, text));
    assert_string_equal(text, "its card is on fire");
    assert_false(data_order_trouble(world.order, PEER + 1, text));
    assert_int_equal(data_order_look(world.order, PEER, 3, 2), PEER_PRESENT);
    assert_int_equal(data_order_look(world.order, PEER, 3, long_ns), PEER_VANISHED);
    assert_int_equal(data_order_check(world.order), TUTTI_OK);
    world.health = TUTTI_NO_DESCRIPTORS;
    assert_int_equal(data_order_check(world.order), TUTTI_NO_DESCRIPTORS);
    data_order_forget(world.order, PEER);
    assert_int_equal(world.forgotten, PEER);
    const int examined = world.examined_count;
    data_order_stop(world.order); /* what fails now was given up */
    assert_int_equal(data_order_look(world.order, PEER, 3, long_ns), PEER_PRESENT);
    assert_int_equal(data_order_check(world.order), TUTTI_OK);
    assert_int_equal(world.examined_count, examined);
    data_order_free(world.order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_waits_for_the_data_before_it),
        cmocka_unit_test(nothing_waits_for_links_that_fail),
        cmocka_unit_test(too_many_that_wait_are_heard_in_order),
        cmocka_unit_test(a_message_says_what_was_sent_before_it),
        cmocka_unit_test(a_number_that_cannot_be_true_is_not_believed),
        cmocka_unit_test(greetings_are_for_links_alone_and_wait_for_nothing),
        cmocka_unit_test(nonsense_is_reported_once_in_a_while),
        cmocka_unit_test(what_has_no_kind_or_is_too_long_is_dropped),
        cmocka_unit_test(control_knows_what_links_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
