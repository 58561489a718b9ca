/* Cards that fail, in virtual time: one of two ranks is gone, a slow rank is not, and a failure
 * that follows from a communicator's failure counts for nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/doubt.h"

static const uint64_t MS = 1000000, BEGIN = 500 * UINT64_C(1000000);

/* After how many milliseconds it means that the peer is gone; -1: not within a minute. */
static int gone_after_ms(struct trouble trouble)
{
    for (int ms = 0; ms < 60000; ms += 5)
        if (trouble_means_gone(&trouble, trouble.since_ns + (uint64_t)ms * MS)) return ms;
    return -1;
}

static void of_two_ranks_the_lower_one_says_so_first(void **state)
{
    (void)state;
    const int lower =
        gone_after_ms((struct trouble){.rank = 2, .peer = 5, .since_ns = BEGIN, .count = 1});
    const int higher =
        gone_after_ms((struct trouble){.rank = 5, .peer = 2, .since_ns = BEGIN, .count = 1});
    assert_in_range(lower, 3000, 3010);
    assert_in_range(higher, lower + 1500, lower + 1510);
}

/* They all see only the one. */
static void whoever_cannot_reach_several_waits_for_their_word(void **state)
{
    (void)state;
    const int one =
        gone_after_ms((struct trouble){.rank = 5, .peer = 2, .since_ns = BEGIN, .count = 1});
    const int several =
        gone_after_ms((struct trouble){.rank = 2, .peer = 5, .since_ns = BEGIN, .count = 2});
    assert_true(several > one + 2000);
    assert_in_range(several, 7000, 7010);
}

static void without_trouble_nobody_is_gone(void **state)
{
    (void)state;
    const struct trouble none = {.rank = 0, .peer = 1};
    assert_false(trouble_means_gone(&none, BEGIN + 60000 * MS));
}

/* A peer that heard of the failure a moment earlier has closed its endpoint. However long the
 * survivors take to agree, it is there. */
static void what_fails_when_ranks_stop_counts_for_nothing(void **state)
{
    (void)state;
    struct trouble trouble = {.rank = 0, .peer = 1, .since_ns = BEGIN, .count = 1};
    assert_false(trouble_means_gone(&trouble, BEGIN + 20 * MS));
    trouble.has_stopped = true;
    assert_int_equal(gone_after_ms(trouble), -1);
    trouble.count = 3;
    assert_int_equal(gone_after_ms(trouble), -1);
}

static void what_does_not_move_while_the_peer_is_heard_never_will(void **state)
{
    (void)state;
    struct doubt doubt = {0};
    int ms = 0;
    for (uint64_t now_ns = BEGIN; !doubt_look(&doubt, now_ns, now_ns); now_ns += 5 * MS) ms += 5;
    assert_in_range(ms, 3000, 3010);
}

/* The peer was stopped, and has gone on just now: messages that it sent may still come. */
static void whoever_was_stopped_has_time(void **state)
{
    (void)state;
    struct doubt doubt = {0};
    uint64_t now_ns = BEGIN;
    for (; now_ns < BEGIN + 20000 * MS; now_ns += 5 * MS)
        assert_false(doubt_look(&doubt, BEGIN + 1000 * MS, now_ns));
    const uint64_t goes_on_ns = now_ns;
    for (; now_ns < goes_on_ns + 900 * MS; now_ns += 5 * MS)
        assert_false(doubt_look(&doubt, now_ns, now_ns));
}

/* This rank was stopped: one look after that says nothing. */
static void whoever_did_not_look_does_not_know(void **state)
{
    (void)state;
    struct doubt doubt = {0};
    assert_false(doubt_look(&doubt, BEGIN, BEGIN));
    const uint64_t later_ns = BEGIN + 20000 * MS;
    assert_false(doubt_look(&doubt, later_ns, later_ns));
    assert_false(doubt_look(&doubt, later_ns + 2000 * MS, later_ns + 2000 * MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_ranks_the_lower_one_says_so_first),
        cmocka_unit_test(whoever_cannot_reach_several_waits_for_their_word),
        cmocka_unit_test(without_trouble_nobody_is_gone),
        cmocka_unit_test(what_fails_when_ranks_stop_counts_for_nothing),
        cmocka_unit_test(what_does_not_move_while_the_peer_is_heard_never_will),
        cmocka_unit_test(whoever_was_stopped_has_time),
        cmocka_unit_test(whoever_did_not_look_does_not_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
