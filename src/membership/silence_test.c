/* Ranks in virtual time: a rank that gives no sign of life is silent after 5 s; a rank that is only
 * slow never is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "membership/silence.h"

static const uint64_t MS = 1000000, BEGIN = 7000 * UINT64_C(1000000);

/* Looks every 5 ms until then; when it was silent first, 0: never. */
static uint64_t look_until(struct silence *silence, uint64_t *now_ns, uint64_t until_ns,
                           uint64_t heard_ns, uint64_t answered_ns)
{
    for (; *now_ns < until_ns; *now_ns += 5 * MS)
        if (silence_look(silence, heard_ns, *now_ns) &&
            silence_is_long(silence, answered_ns, *now_ns))
            return *now_ns;
    return 0;
}

static void whoever_gives_no_sign_is_silent_after_five_seconds(void **state)
{
    (void)state;
    struct silence silence = {0};
    uint64_t now_ns = BEGIN;
    assert_int_equal(look_until(&silence, &now_ns, BEGIN + 9000 * MS, 0, 0), 0); /* owes none */
    const uint64_t told_ns = now_ns;
    silence_tell(&silence, told_ns);
    silence_tell(&silence, told_ns + 4000 * MS); /* the first word counts */
    const uint64_t silent_ns =
        look_until(&silence, &now_ns, told_ns + 9000 * MS, told_ns - 1, told_ns - 1);
    assert_in_range(silent_ns, told_ns + 5000 * MS, told_ns + 5010 * MS);
}

static void whoever_is_heard_is_not_silent(void **state)
{
    (void)state;
    struct silence silence = {0};
    uint64_t now_ns = BEGIN;
    silence_tell(&silence, BEGIN);
    assert_int_not_equal(look_until(&silence, &now_ns, BEGIN + 9000 * MS, 0, 0), 0);
    assert_false(silence_look(&silence, now_ns, now_ns + MS)); /* that is taken back */
    silence_tell(&silence, now_ns + 2 * MS);
    assert_int_equal(look_until(&silence, &now_ns, now_ns + 4900 * MS, BEGIN, 0), 0);
}

/* Its process is stopped, or gets no CPU. Its kernel still acknowledges messages, once a second. */
static void whoever_is_only_slow_is_not_silent(void **state)
{
    (void)state;
    struct silence silence = {0};
    uint64_t now_ns = BEGIN, last_ns = 0;
    silence_tell(&silence, BEGIN);
    for (int second = 0; second < 60; second++) {
        last_ns = BEGIN + (uint64_t)(second * 1000 + 1) * MS;
        assert_int_equal(look_until(&silence, &now_ns, last_ns + 1000 * MS, 0, last_ns), 0);
    }
    /* Then its host is off. */
    const uint64_t silent_ns = look_until(&silence, &now_ns, last_ns + 20000 * MS, 0, last_ns);
    assert_in_range(silent_ns, last_ns + 5000 * MS, last_ns + 6000 * MS);
}

/* The kernel of a host that vanished just after it was told something has acknowledged that. */
static void the_acknowledgement_of_what_was_told_gains_no_time(void **state)
{
    (void)state;
    struct silence silence = {0};
    uint64_t now_ns = BEGIN;
    silence_tell(&silence, BEGIN);
    const uint64_t silent_ns = look_until(&silence, &now_ns, BEGIN + 9000 * MS, 0, BEGIN + 20 * MS);
    assert_in_range(silent_ns, BEGIN + 5000 * MS, BEGIN + 5100 * MS);
}

/* This process, or the machine with both, was stopped for long: messages that came meanwhile are
 * not read yet. */
static void time_in_which_nobody_looks_is_no_silence(void **state)
{
    (void)state;
    struct silence silence = {0};
    uint64_t now_ns = BEGIN;
    silence_tell(&silence, BEGIN);
    assert_int_equal(look_until(&silence, &now_ns, BEGIN + 1000 * MS, 0, 0), 0);
    now_ns += 60000 * MS;
    assert_int_equal(look_until(&silence, &now_ns, now_ns + 3500 * MS, 0, 0), 0);
    assert_int_not_equal(look_until(&silence, &now_ns, now_ns + 1000 * MS, 0, 0), 0);
}

/* It gets the CPU seldom, and finds out nevertheless. */
static void a_slow_process_finds_out_later(void **state)
{
    (void)state;
    struct silence silence = {0};
    silence_tell(&silence, BEGIN);
    bool is_silent = false;
    for (uint64_t now_ns = BEGIN; now_ns < BEGIN + 30000 * MS && !is_silent; now_ns += 500 * MS)
        is_silent = silence_look(&silence, 0, now_ns) && silence_is_long(&silence, 0, now_ns);
    assert_true(is_silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_gives_no_sign_is_silent_after_five_seconds),
        cmocka_unit_test(whoever_is_heard_is_not_silent),
        cmocka_unit_test(whoever_is_only_slow_is_not_silent),
        cmocka_unit_test(the_acknowledgement_of_what_was_told_gains_no_time),
        cmocka_unit_test(time_in_which_nobody_looks_is_no_silence),
        cmocka_unit_test(a_slow_process_finds_out_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
