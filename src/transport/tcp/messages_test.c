/* Point to point over TCP links: messages of any size between three ranks, whose wires break, come
 * to their receivers in order and as they were sent.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "p2p/p2p.h"
#include "tests/worlds/tcp_world.h"

enum { RANKS = 3, REQUESTS = 120, BYTES_MAX = 300000, STEPS_MAX = 3000000 };

struct own {
    struct p2p *p2p;
    struct p2p_request requests[2 * REQUESTS];
    int count;
};

static unsigned char value_at(int source, int destination, int number, size_t i)
{
    return (unsigned char)(source * 50 + destination * 11 + number * 7 + (int)(i * 3 + i / 256));
}

static void add(struct own *own, bool is_send, int peer, int tag, size_t bytes)
{
    struct p2p_request *request = &own->requests[own->count++];
    *request = (struct p2p_request){
        .is_send = is_send, .bytes = bytes, .dtype = TUTTI_UINT8, .peer = peer, .tag = tag};
    request->buffer = malloc(bytes + 1);
    assert_non_null(request->buffer);
}

/* Number k between two ranks has tag k modulo 3 and is one of those sizes. */
static void plan(struct tcp_world *world, struct own *owns)
{
    static const size_t sizes[] = {0, 9, 300, 5000, 70000, BYTES_MAX};
    for (int number = 0; number < REQUESTS / RANKS; number++) {
        for (int s = 0; s < RANKS; s++) {
            const int d = (s + 1 + (int)(tcp_world_draw(world) % (RANKS - 1))) % RANKS;
            const size_t bytes = sizes[tcp_world_draw(world) % 6];
            add(&owns[s], true, d, number % 3, bytes);
            unsigned char *buffer = owns[s].requests[owns[s].count - 1].buffer;
            add(&owns[d], false, s, number % 3, bytes);
            for (size_t i = 0; i < bytes; i++) buffer[i] = value_at(s, d, number, i);
        }
    }
}

static void expect_right(const struct own *owns, int rank)
{
    for (int i = 0; i < owns[rank].count; i++) {
        const struct p2p_request *request = &owns[rank].requests[i];
        assert_true(request->done);
        assert_int_equal(request->status, TUTTI_OK);
        if (request->is_send) continue;
        assert_int_equal(request->received_bytes, request->bytes);
    }
}

/* The k-th receive from a rank with a tag got its k-th send with that. */
static void expect_order(const struct own *owns, int source, int destination, int tag)
{
    const struct own *from = &owns[source], *to = &owns[destination];
    int r = 0;
    for (int s = 0; s < from->count; s++) {
        const struct p2p_request *send = &from->requests[s];
        if (!send->is_send || send->peer != destination || send->tag != tag) continue;
        while (to->requests[r].is_send || to->requests[r].peer != source ||
               to->requests[r].tag != tag)
            r++;
        assert_int_equal(to->requests[r].bytes, send->bytes);
        assert_memory_equal(to->requests[r].buffer, send->buffer, send->bytes);
        r++;
    }
}

static void play(struct tcp_mood mood, uint64_t seed)
{
    static const struct p2p_options options = {
        .eager_bytes_max = 4000, .unexpected_bytes_max = 100000, .unexpected_count_max = 50};
    struct tcp_world *world = tcp_world_create(RANKS, mood, seed);
    struct own owns[RANKS] = {0};
    int next[RANKS] = {0}, left = RANKS;
    plan(world, owns);
    for (int r = 0; r < RANKS; r++) {
        struct transport *transport = tcp_world_transports(world)[r];
        assert_int_equal(p2p_create(transport, TRANSPORT_SLOT_MESSAGES, &options, &owns[r].p2p),
                         TUTTI_OK);
        assert_int_equal(p2p_listen(owns[r].p2p), TUTTI_OK);
    }
    for (int steps = 0; left > 0; steps++) {
        if (steps == STEPS_MAX) fail_msg("stuck, seed %llu", (unsigned long long)seed);
        const int r = (int)(tcp_world_draw(world) % RANKS);
        struct own *own = &owns[r];
        if (next[r] < own->count && tcp_world_draw(world) % 4 == 0)
            assert_int_equal(p2p_start(own->p2p, &own->requests[next[r]++]), TUTTI_OK);
        p2p_progress(own->p2p);
        assert_int_equal(p2p_fault(own->p2p), -1);
        tcp_world_step(world);
        left = 0;
        for (int o = 0; o < RANKS; o++) left += next[o] < owns[o].count || p2p_is_busy(owns[o].p2p);
    }
    for (int r = 0; r < RANKS; r++) expect_right(owns, r);
    for (int s = 0; s < RANKS; s++)
        for (int d = 0; d < RANKS; d++)
            for (int tag = 0; tag < 3; tag++) expect_order(owns, s, d, tag);
    for (int r = 0; r < RANKS; r++) {
        p2p_free(owns[r].p2p);
        for (int i = 0; i < owns[r].count; i++) free(owns[r].requests[i].buffer);
    }
    assert_true((tcp_world_broken(world) > 0) == (mood.breaks > 0));
    tcp_world_free(world);
}

static void messages_come_over_loopback(void **state)
{
    (void)state;
    play((struct tcp_mood){.streams = 2, .piece_bytes = 65536, .piece_count = 8, .is_plain = true},
         1);
}

static void messages_come_over_wires_that_break(void **state)
{
    (void)state;
    for (uint64_t seed = 2; seed < 6; seed++)
        play((struct tcp_mood){.streams = 1 + (unsigned)seed % 2,
                               .piece_bytes = 8192,
                               .piece_count = 4,
                               .gulp = 20000,
                               .breaks = 500,
                               .silence = 30},
             seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_over_loopback),
        cmocka_unit_test(messages_come_over_wires_that_break),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
