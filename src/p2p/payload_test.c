/* Messages whose payloads go encoded: they arrive as if they had been encoded and decoded at once,
 * whatever their size, path and order; a receive that does not agree gets nothing; and what makes no
 * sense is a fault. TUTTI_TEST_SEED repeats a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "encoding/encoding.h"
#include "os/clock.h"
#include "p2p/envelope.h"
#include "p2p/p2p.h"
#include "tests/kit/chance.h"
#include "tests/worlds/p2p_world.h"

enum { COUNT_MAX = 40000, TAG = 4 };

static uint64_t seed;

struct floats {
    float sent[COUNT_MAX], received[COUNT_MAX + 1], expected[COUNT_MAX];
    unsigned char encoded[COUNT_MAX * sizeof(float) + 256];
};

static struct floats *floats_make(void)
{
    struct floats *floats = malloc(sizeof *floats);
    assert_non_null(floats);
    for (size_t i = 0; i < COUNT_MAX; i++)
        floats->sent[i] = (float)(i * 2654435761u % 100003) / 1003.0f - 50.0f;
    return floats;
}

static void expect_decoded(struct floats *floats, const struct kernel_encoding *encoding,
                           size_t count)
{
    encoding_encode(KERNEL_SCALAR, encoding, floats->sent, count, floats->encoded);
    encoding_decode(KERNEL_SCALAR, encoding, floats->encoded, count, floats->expected);
    if (count > 0) assert_memory_equal(floats->received, floats->expected, count * sizeof(float));
    assert_true(floats->received[count] == 77.0f); /* nothing was written behind it */
}

static struct p2p_request send_of(struct floats *floats, size_t count,
                                  const struct kernel_encoding *encoding)
{
    struct p2p_request send = send_request(floats->sent, count * sizeof(float), 1, TAG);
    send.dtype = TUTTI_FLOAT32;
    send.encoding = encoding;
    return send;
}

static struct p2p_request recv_of(struct floats *floats, size_t count)
{
    for (size_t i = 0; i <= count; i++) floats->received[i] = 77.0f;
    struct p2p_request recv = recv_request(floats->received, count * sizeof(float), 0, TAG);
    recv.dtype = TUTTI_FLOAT32;
    return recv;
}

static bool fits(enum kind kind, const struct kernel_encoding *encoding)
{
    return kind != TIGHT || encoding->unit_bytes <= 64 - sizeof(struct envelope);
}

enum order { BEFORE, MIDWAY, AFTER, ORDERS }; /* when the receive starts */

static void exchange(struct world *world, struct floats *floats,
                     const struct kernel_encoding *encoding, size_t count, enum order order)
{
    struct p2p_request recv = recv_of(floats, count), send = send_of(floats, count, encoding);
    if (order == BEFORE) start(world, 1, &recv);
    start(world, 0, &send);
    for (int i = 0; order == MIDWAY && i < 4; i++) p2p_progress(world->ranks[i % 2]);
    if (order == AFTER) settle(world);
    if (order != BEFORE) start(world, 1, &recv);
    settle(world);
    assert_true(send.done && send.status == TUTTI_OK && recv.done && recv.status == TUTTI_OK);
    assert_int_equal(recv.received_bytes, count * sizeof(float));
    assert_ptr_equal(recv.encoding, encoding);
    expect_decoded(floats, encoding, count);
}

static void encoded_messages_of_every_size_arrive(void **state)
{
    static const size_t counts[] = {0,   1,   2,   31,  32,  33,   127,
                                    128, 129, 250, 500, 501, 5000, COUNT_MAX};
    const struct p2p_options options = {.eager_bytes_max = 1000,
                                        .unexpected_bytes_max = 1 << 20,
                                        .unexpected_count_max = 1000,
                                        .level = kernel_level_chosen()};
    (void)state;
    struct floats *const floats = floats_make();
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        struct world world = world_open(kind, 2, options, seed);
        for (int e = 1; e < ENCODING_COUNT; e++) {
            const struct kernel_encoding *const encoding =
                encoding_of((enum tutti_encoding)e, TUTTI_FLOAT32);
            if (!fits(kind, encoding)) continue;
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                for (enum order order = BEFORE; order < ORDERS; order++)
                    if (kind != TIGHT || counts[c] <= 5000)
                        exchange(&world, floats, encoding, counts[c], order);
        }
        world_close(&world);
    }
    free(floats);
}

static void a_unit_that_fits_no_piece_is_refused(void **state)
{
    const struct p2p_options options = {.unexpected_count_max = 1};
    (void)state;
    struct floats *const floats = floats_make();
    struct world world = world_open(TIGHT, 2, options, seed);
    struct p2p_request send = send_of(floats, 1, encoding_of(TUTTI_ENCODING_INT8, TUTTI_FLOAT32));
    assert_int_equal(p2p_start(world.ranks[0], &send), TUTTI_UNSUPPORTED);
    assert_false(p2p_is_busy(world.ranks[0]));
    world_close(&world);
    free(floats);
}

/* ------------------------------------------------------------------------------------- agreement */

/* Takes messages of rank 0 as int8 alone. */
static bool takes_int8(const struct p2p_request *receive)
{
    assert_int_equal(receive->source, 0);
    return receive->encoding == encoding_of(TUTTI_ENCODING_INT8, TUTTI_FLOAT32);
}

/* A message that a receive does not agree to is lost, and its sender goes on; the next one
 * arrives. */
static void a_receive_takes_what_it_agrees_to(void **state)
{
    const struct p2p_options options = {.eager_bytes_max = 1000,
                                        .unexpected_bytes_max = 1 << 20,
                                        .unexpected_count_max = 1000,
                                        .agrees = takes_int8};
    static const size_t counts[] = {1, 200, 5000};
    (void)state;
    struct floats *const floats = floats_make();
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        if (kind == TIGHT) continue;
        struct world world = world_open(kind, 2, options, seed);
        for (int variant = 0; variant < 18; variant++) {
            const size_t count = counts[variant / 6];
            const bool early = variant & 1, minds = variant % 3 == 0, dtype = variant % 3 == 1;
            const struct kernel_encoding *const encoding =
                minds ? NULL
                      : encoding_of(dtype ? TUTTI_ENCODING_INT8 : TUTTI_ENCODING_BFLOAT16,
                                    TUTTI_FLOAT32);
            struct p2p_request recv = recv_of(floats, count);
            struct p2p_request send = send_of(floats, count, encoding);
            recv.minds_encoding = minds;
            if (dtype) recv.dtype = TUTTI_INT32;
            if (early) start(&world, 1, &recv);
            start(&world, 0, &send);
            if (!early) {
                settle(&world);
                start(&world, 1, &recv);
            }
            settle(&world);
            assert_true(send.done && send.status == TUTTI_OK && recv.done);
            assert_int_equal(recv.status, TUTTI_MISMATCH);
            assert_int_equal(recv.received_bytes, 0);
            assert_int_equal(recv.sent_bytes, count * sizeof(float));
            for (size_t i = 0; i <= count; i++) assert_true(floats->received[i] == 77.0f);
            exchange(&world, floats, encoding_of(TUTTI_ENCODING_INT8, TUTTI_FLOAT32), count,
                     (enum order)(variant % ORDERS));
        }
        world_close(&world);
    }
    free(floats);
}

/* --------------------------------------------------------------------------------- foreign bytes */

static void put(struct world *world, int channel, const void *bytes, size_t count)
{
    struct link_tx *const link = world_link(world, 0, 1, channel);
    void *const place = link->ops->reserve(link, count);
    assert_non_null(place);
    memcpy(place, bytes, count);
    link->ops->commit(link, count);
}

static void expect_fault(struct world *world)
{
    for (int i = 0; i < 100; i++) p2p_progress(world->ranks[1]);
    assert_int_equal(p2p_fault(world->ranks[1]), 0);
    world_close(world);
}

static struct world foreign_world(void)
{
    const struct p2p_options options = {
        .eager_bytes_max = 1000, .unexpected_bytes_max = 1 << 20, .unexpected_count_max = 10};
    struct world world = world_open(ROOMY, 2, options, seed);
    assert_int_equal(p2p_listen(world.ranks[1]), TUTTI_OK);
    return world;
}

static void envelopes_that_make_no_sense_are_a_fault(void **state)
{
    static const struct {
        struct announcement message;
        size_t bytes;
    } cases[] = {
        {{{ENVELOPE_EAGER, TUTTI_FLOAT32, 200, 0, 1, 512}, 0, {0, 0}}, 16}, /* none of that number */
        {{{ENVELOPE_EAGER, TUTTI_UINT8, TUTTI_ENCODING_INT8, 0, 1, 512}, 0, {0, 0}}, 16},
        {{{ENVELOPE_EAGER, TUTTI_BFLOAT16, TUTTI_ENCODING_INT4, 0, 1, 512}, 0, {0, 0}}, 16},
        {{{ENVELOPE_EAGER, TUTTI_FLOAT32, TUTTI_ENCODING_INT8, 0, 1, 512}, 0, {0, 0}}, 17},
        {{{ENVELOPE_EAGER, TUTTI_FLOAT32, TUTTI_ENCODING_BFLOAT16, 0, 1, 8}, 0, {0, 0}}, 22},
        {{{ENVELOPE_ANNOUNCEMENT, TUTTI_FLOAT32, TUTTI_ENCODING_BFLOAT16, 0, 1, 8000}, 0, {1, 1}},
         40},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world = foreign_world();
        put(&world, P2P_CHANNEL_MESSAGES, &cases[i].message, cases[i].bytes);
        expect_fault(&world);
    }
}

static void pieces_that_end_within_a_unit_are_a_fault(void **state)
{
    static const struct envelope envelope = {
        ENVELOPE_EAGER, TUTTI_FLOAT32, TUTTI_ENCODING_INT8, 0, TAG, 4000};
    static const unsigned char payload[500];
    (void)state;
    for (int expected = 0; expected < 2; expected++) {
        struct floats *const floats = floats_make();
        struct world world = foreign_world();
        struct p2p_request recv = recv_of(floats, 1000);
        if (expected) start(&world, 1, &recv);
        put(&world, P2P_CHANNEL_MESSAGES, &envelope, sizeof envelope);
        put(&world, P2P_CHANNEL_MESSAGES, payload, 132);
        put(&world, P2P_CHANNEL_MESSAGES, payload, 133);
        expect_fault(&world);
        free(floats);
    }
}

static void payloads_that_end_within_a_unit_are_a_fault(void **state)
{
    static const struct announcement message = {
        {ENVELOPE_ANNOUNCEMENT, TUTTI_FLOAT32, TUTTI_ENCODING_INT8, 0, TAG, 4000}, 3, {0, 0}};
    static const size_t sizes[] = {1, 131, 133, 132 * 8 + 1, 132 * 9}; /* of 8 units */
    static const unsigned char payload[132 * 9];
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct floats *const floats = floats_make();
        struct world world = foreign_world();
        struct p2p_request recv = recv_of(floats, 1000);
        start(&world, 1, &recv);
        put(&world, P2P_CHANNEL_MESSAGES, &message, sizeof message);
        for (int j = 0; j < 20; j++) p2p_progress(world.ranks[1]);
        put(&world, P2P_CHANNEL_PAYLOADS, payload, sizes[i]);
        expect_fault(&world);
        free(floats);
    }
}

int main(void)
{
    seed = chance_seed(clock_now_ns());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoded_messages_of_every_size_arrive),
        cmocka_unit_test(a_unit_that_fits_no_piece_is_refused),
        cmocka_unit_test(a_receive_takes_what_it_agrees_to),
        cmocka_unit_test(envelopes_that_make_no_sense_are_a_fault),
        cmocka_unit_test(pieces_that_end_within_a_unit_are_a_fault),
        cmocka_unit_test(payloads_that_end_within_a_unit_are_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
