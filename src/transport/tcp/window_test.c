/* window_test.c - tests the limit of bytes on their way, on a model of a path: senders that always
 * have more, one queue, receivers that decide as tcp_window_update says.
 *
 *     sender i ─┐                                             ┌─ receiver i: rate, limit
 *     sender j ─┴─► queue, emptied at `rate` ── rtt / 2 ──────┴─ acknowledges ── rtt / 2 ──► sender
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "transport/tcp/window.h"

enum {
    FLOWS_MAX = 8,
    QUEUE_PACKETS = 1 << 16,
    UNLIMITED = 4 << 20 /* the bytes that congestion control allows */
};
static const uint64_t MS = 1000000;

struct flow {
    struct tcp_window window;
    size_t limit, in_flight;
    uint64_t received;
};

enum { LOOKS = 100000000 }; /* between samples: this process does nothing else */

struct path {
    double rate; /* bytes a second */
    uint64_t rtt_ns, now_ns;
    size_t packet_bytes;
    int flow_count;
    struct flow flows[FLOWS_MAX];
    uint8_t queue[QUEUE_PACKETS]; /* whose packet */
    uint64_t first, end;
    uint8_t acknowledged[QUEUE_PACKETS];
    uint64_t acknowledged_ns[QUEUE_PACKETS], ack_first, ack_end;
    /* since it was last asked */
    uint64_t delivered, asked_ns;
    double queued_ns_max;
};

static struct path path;

static void set_rate(double rate)
{
    const double bytes = rate * 10e-6; /* in 10 us, but one segment at least */
    path.rate = rate;
    path.packet_bytes = bytes < 1448 ? 1448 : bytes > 32768 ? 32768 : (size_t)bytes;
}

static void set_up(double rate, uint64_t rtt_ns, int flow_count)
{
    memset(&path, 0, sizeof path);
    set_rate(rate);
    path.rtt_ns = rtt_ns;
    path.flow_count = flow_count;
    path.now_ns = path.asked_ns = 1000 * MS;
}

static void send_what_is_allowed(void)
{
    for (bool again = true; again;) {
        again = false;
        for (int f = 0; f < path.flow_count; f++) {
            struct flow *const flow = &path.flows[f];
            const size_t limit =
                flow->limit > 0 && flow->limit < UNLIMITED ? flow->limit : UNLIMITED;
            if (flow->in_flight + path.packet_bytes > limit) continue;
            flow->in_flight += path.packet_bytes;
            path.queue[path.end++ % QUEUE_PACKETS] = (uint8_t)f;
            assert_true(path.end - path.first < QUEUE_PACKETS);
            again = true;
        }
    }
}

static void take_acknowledgements(void)
{
    while (path.ack_first < path.ack_end &&
           path.acknowledged_ns[path.ack_first % QUEUE_PACKETS] <= path.now_ns) {
        struct flow *const flow = &path.flows[path.acknowledged[path.ack_first++ % QUEUE_PACKETS]];
        flow->in_flight -= flow->in_flight < path.packet_bytes ? flow->in_flight : path.packet_bytes;
    }
}

static void deliver(void)
{
    const uint8_t f = path.queue[path.first++ % QUEUE_PACKETS];
    struct flow *const flow = &path.flows[f];
    path.acknowledged[path.ack_end % QUEUE_PACKETS] = f;
    path.acknowledged_ns[path.ack_end++ % QUEUE_PACKETS] = path.now_ns + path.rtt_ns;
    flow->received += path.packet_bytes;
    path.delivered += path.packet_bytes;
    if (!tcp_window_is_due(&flow->window, path.now_ns)) return;
    const struct tcp_window_sample sample = {.now_ns = path.now_ns,
                                             .received_bytes = flow->received,
                                             .min_rtt_ns = path.rtt_ns,
                                             .segment_bytes = 1448,
                                             .looks = LOOKS};
    flow->limit = tcp_window_update(&flow->window, &sample);
}

/* Runs packet after packet for so long. */
static void pass(uint64_t ns)
{
    const uint64_t until_ns = path.now_ns + ns;
    path.delivered = 0;
    path.queued_ns_max = 0;
    path.asked_ns = path.now_ns;
    while (path.now_ns < until_ns) {
        const double queued_ns =
            (double)((path.end - path.first) * path.packet_bytes) * 1e9 / path.rate;
        if (queued_ns > path.queued_ns_max) path.queued_ns_max = queued_ns;
        path.now_ns += (uint64_t)((double)path.packet_bytes * 1e9 / path.rate);
        take_acknowledgements();
        send_what_is_allowed();
        if (path.first < path.end) deliver();
    }
}

static double utilisation(void)
{
    return (double)path.delivered * 1e9 / (double)(path.now_ns - path.asked_ns) / path.rate;
}

/* The queue that the limits allow, and a packet of each sender. */
static double queue_allowed_ns(void)
{
    const double least =
        (double)((TCP_WINDOW_BYTES_MIN + path.packet_bytes) * (size_t)path.flow_count);
    return least * 1e9 / path.rate + 1.1 * (double)(path.rtt_ns + 250000) + 50000;
}

static void a_full_path_has_a_short_queue(void **state)
{
    static const double rates[] = {12.5e6, 125e6, 1.25e9, 5e9};
    static const uint64_t rtts_ns[] = {4000, 50000, 300000};
    (void)state;
    for (int r = 0; r < 4; r++)
        for (int t = 0; t < 3; t++) {
            set_up(rates[r], rtts_ns[t], 1);
            pass(600 * MS);
            pass(200 * MS);
            assert_true(utilisation() > 0.98);
            assert_true(path.queued_ns_max < queue_allowed_ns());
        }
}

static void limits_of_several_add_up_to_one(void **state)
{
    (void)state;
    for (int flows = 2; flows <= FLOWS_MAX; flows++) {
        set_up(1.25e9, 30000, flows);
        pass(800 * MS);
        pass(200 * MS);
        assert_true(utilisation() > 0.98);
        assert_true(path.queued_ns_max < queue_allowed_ns());
    }
}

static void a_path_that_gets_faster_is_found(void **state)
{
    (void)state;
    set_up(60e6, 500000, 1);
    pass(600 * MS);
    path.first = path.end = path.ack_first = path.ack_end = 0;
    path.flows[0].in_flight = 0;
    set_rate(1.25e9);
    pass(60 * MS);
    pass(100 * MS);
    assert_true(utilisation() > 0.98);
}

static void a_path_that_gets_slower_is_found(void **state)
{
    (void)state;
    set_up(1.25e9, 30000, 1);
    pass(500 * MS);
    path.first = path.end = path.ack_first = path.ack_end = 0;
    path.flows[0].in_flight = 0;
    set_rate(125e6);
    pass(100 * MS);
    assert_true(path.queued_ns_max > 2 * queue_allowed_ns()); /* so there was something to find */
    pass(400 * MS);
    pass(100 * MS);
    assert_true(utilisation() > 0.98);
    assert_true(path.queued_ns_max < queue_allowed_ns());
}

/* One sample, `after_ns` after the one before. */
static size_t sample_of(struct tcp_window *window, uint64_t after_ns, uint64_t bytes,
                        uint64_t rtt_ns, size_t segment_bytes, uint64_t looks)
{
    const struct tcp_window_sample next = {.now_ns = window->sampled_ns + after_ns,
                                           .received_bytes = window->sampled_bytes + bytes,
                                           .min_rtt_ns = rtt_ns,
                                           .segment_bytes = segment_bytes,
                                           .looks = looks};
    return tcp_window_update(window, &next);
}

static size_t sample(struct tcp_window *window, uint64_t after_ns, uint64_t bytes, uint64_t rtt_ns,
                     size_t segment_bytes)
{
    return sample_of(window, after_ns, bytes, rtt_ns, segment_bytes, LOOKS);
}

static void a_beginning_is_free(void **state)
{
    struct tcp_window window = {0};
    (void)state;
    assert_int_equal(sample(&window, 1000 * MS, 0, 50000, 1448), 0);
    for (int i = 0; i < 7; i++) assert_int_equal(sample(&window, 5 * MS, 625000, 50000, 1448), 0);
    assert_in_range(sample(&window, 5 * MS, 625000, 50000, 1448), 43000, 45000);
}

static void a_far_path_is_free(void **state)
{
    struct tcp_window window = {0};
    (void)state;
    for (int i = 0; i < 100; i++) assert_int_equal(sample(&window, 5 * MS, 625000, MS, 1448), 0);
}

static void pauses_and_lulls_do_not_lower_the_limit(void **state)
{
    struct tcp_window window = {0};
    (void)state;
    for (int i = 0; i < 20; i++) (void)sample(&window, 5 * MS, 625000, 50000, 1448);
    const size_t before = sample(&window, 5 * MS, 625000, 50000, 1448);
    for (int i = 0; i < 200; i++)
        assert_int_equal(sample(&window, 1000 * MS, 100, 50000, 1448), before);
    for (int i = 0; i < 60; i++)
        assert_int_equal(sample(&window, 5 * MS, 1000, 50000, 1448), before);
}

static void limits_let_some_segments_through(void **state)
{
    struct tcp_window window = {0};
    size_t limit = 0;
    (void)state;
    for (int i = 0; i < 100; i++) limit = sample(&window, 5 * MS, 1000, 50000, 1448);
    assert_int_equal(limit, TCP_WINDOW_BYTES_MIN);
    assert_int_equal(sample(&window, 5 * MS, 1000, 50000, 8948), 4 * 8948);
}

static void who_looks_rarely_has_room_for_what_comes_meanwhile(void **state)
{
    struct tcp_window window = {0};
    (void)state;
    for (int i = 0; i < 20; i++) (void)sample(&window, 5 * MS, 625000, 50000, 1448);
    const size_t before = sample(&window, 5 * MS, 625000, 50000, 1448);
    assert_in_range(sample_of(&window, 5 * MS, 625000, 50000, 1448, 10), before + 61500,
                    before + 63500);
    /* An absence counts 1 ms at most, and the limit is as before when the process looks again. */
    assert_in_range(sample_of(&window, 5 * MS, 625000, 50000, 1448, 0), before + 123000,
                    before + 126000);
    assert_int_equal(sample(&window, 5 * MS, 625000, 50000, 1448), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_path_has_a_short_queue),
        cmocka_unit_test(limits_of_several_add_up_to_one),
        cmocka_unit_test(a_path_that_gets_faster_is_found),
        cmocka_unit_test(a_path_that_gets_slower_is_found),
        cmocka_unit_test(a_beginning_is_free),
        cmocka_unit_test(a_far_path_is_free),
        cmocka_unit_test(pauses_and_lulls_do_not_lower_the_limit),
        cmocka_unit_test(limits_let_some_segments_through),
        cmocka_unit_test(who_looks_rarely_has_room_for_what_comes_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
