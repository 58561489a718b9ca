/* flight_test.c - tests how much is given to a card for a peer, on a model of a path: a sender that
 * always has more, one queue, and a receiver that answers late.
 *
 *     sender ──► queue, emptied at `rate` ──► receiver ──► answers, after `late_ns` ──► sender
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/card/flight.h"

enum { STEP_NS = 10000, ANSWERS = 1024, RECEIVES = 32 };
static const uint64_t MS = 1000000;

struct path {
    struct card_flight flight;
    double rate; /* bytes a second */
    uint64_t late_ns, now_ns;
    uint64_t sent;             /* messages, of a write each */
    uint64_t ends_ns[ANSWERS]; /* when it has left the queue */
    size_t bytes[ANSWERS];
    uint64_t left, answered, came;    /* messages that left the queue, that were answered; bytes */
    uint64_t busy_until_ns, queue_ns; /* the longest lately */
};

/* Starts after a first message, which is small. */
static void init(struct path *path, double rate, uint64_t late_ns)
{
    *path = (struct path){.rate = rate, .late_ns = late_ns, .now_ns = 1000 * MS};
    card_flight_init(&path->flight, CARD_FLIGHT_ADAPTS);
    card_flight_mark(&path->flight, path->sent++, path->now_ns);
    path->ends_ns[0] = path->now_ns;
}

static void send_all(struct path *path)
{
    const size_t bytes = card_flight_write_bytes(&path->flight);
    while (path->sent - path->answered < RECEIVES && card_flight_has_room(&path->flight, bytes)) {
        const uint64_t begin =
            path->busy_until_ns > path->now_ns ? path->busy_until_ns : path->now_ns;
        path->busy_until_ns = begin + (uint64_t)((double)bytes * 1e9 / path->rate);
        if (path->busy_until_ns - path->now_ns > path->queue_ns)
            path->queue_ns = path->busy_until_ns - path->now_ns;
        card_flight_give(&path->flight, bytes);
        card_flight_mark(&path->flight, path->sent, path->now_ns);
        path->ends_ns[path->sent % ANSWERS] = path->busy_until_ns;
        path->bytes[path->sent % ANSWERS] = bytes;
        path->sent++;
    }
}

/* The share of the time in which the path carried something. */
static double run(struct path *path, uint64_t ns)
{
    const uint64_t end = path->now_ns + ns, before = path->came;
    path->queue_ns = 0;
    for (; path->now_ns < end; path->now_ns += STEP_NS) {
        uint64_t taken = path->answered;
        while (taken < path->sent && path->ends_ns[taken % ANSWERS] + path->late_ns <= path->now_ns)
            path->came += path->bytes[taken++ % ANSWERS];
        path->answered = taken;
        card_flight_take(&path->flight, taken, path->now_ns);
        send_all(path);
    }
    return (double)(path->came - before) / (path->rate * (double)ns * 1e-9);
}

static void a_fixed_limit_holds(void **state)
{
    (void)state;
    struct card_flight flight;
    card_flight_init(&flight, 1000);
    assert_true(card_flight_has_room(&flight, 5000)); /* nothing is on its way */
    card_flight_give(&flight, 600);
    assert_true(card_flight_has_room(&flight, 400));
    assert_false(card_flight_has_room(&flight, 401));
    card_flight_mark(&flight, 0, 1);
    card_flight_give(&flight, 400);
    card_flight_take(&flight, 1, 2);
    assert_true(card_flight_has_room(&flight, 600));
    assert_false(card_flight_has_room(&flight, 601));
}

static void no_write_ends_within_an_element(void **state)
{
    (void)state;
    struct card_flight flight;
    for (size_t limit = 1; limit < 2000000; limit += 9973) {
        card_flight_init(&flight, limit);
        assert_int_equal(card_flight_write_bytes(&flight) % 4096, 0);
        assert_true(card_flight_write_bytes(&flight) > 0);
    }
}

static void without_a_limit_anything_goes(void **state)
{
    (void)state;
    struct card_flight flight;
    card_flight_init(&flight, CARD_FLIGHT_ANY);
    card_flight_give(&flight, SIZE_MAX / 2);
    assert_true(card_flight_has_room(&flight, SIZE_MAX / 2));
}

/* 500 Mbit/s and 10 Gbit/s, to a receiver that answers at once, or after a millisecond. */
static void paths_stay_full_and_queues_short(void **state)
{
    (void)state;
    static const double rates[] = {62.5e6, 1.25e9};
    static const uint64_t lates_ns[] = {50000, 1000000};
    for (int r = 0; r < 2; r++)
        for (int l = 0; l < 2; l++) {
            struct path path;
            init(&path, rates[r], lates_ns[l]);
            run(&path, 1000 * MS);
            assert_true(run(&path, 1000 * MS) > 0.95);
            const double least_ns = CARD_FLIGHT_BYTES_MIN * 1e9 / rates[r];
            assert_true((double)path.queue_ns < 1.2 * least_ns + 4.0 * (double)lates_ns[l] + 2e6);
        }
}

static void a_faster_path_is_found(void **state)
{
    (void)state;
    struct path path;
    init(&path, 62.5e6, 100000);
    run(&path, 1000 * MS);
    path.rate = 5e9;
    run(&path, 500 * MS);
    assert_true(run(&path, 500 * MS) > 0.9);
}

static void a_pause_is_no_slow_path(void **state)
{
    (void)state;
    struct path path;
    init(&path, 1.25e9, 100000);
    run(&path, 1000 * MS);
    const size_t limit = path.flight.limit;
    path.now_ns += 10000 * MS;
    run(&path, 20 * MS);
    assert_true(path.flight.limit >= limit / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_limit_holds),
        cmocka_unit_test(no_write_ends_within_an_element),
        cmocka_unit_test(without_a_limit_anything_goes),
        cmocka_unit_test(paths_stay_full_and_queues_short),
        cmocka_unit_test(a_faster_path_is_found),
        cmocka_unit_test(a_pause_is_no_slow_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
