#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/option.h"
#include "base/option_fuzz.h"

static int clear_environment(void **state)
{
    (void)state;
    for (int i = 0; i < OPTION_COUNT; i++) unsetenv(option_name((enum option_id)i));
    return 0;
}

/* The message of one that was refused is "NAME=value: ... is needed". */
static void expect_refusal(enum tutti_status status, const char *variable, const char *value,
                           const char *needs)
{
    char expected[400];
    snprintf(expected, sizeof expected, "%s=%.40s: %s is needed", variable, value, needs);
    assert_int_equal(status, TUTTI_INVALID_OPTIONS);
    assert_string_equal(tutti_error_message(), expected);
}

static void names_have_the_prefix(void **state)
{
    (void)state;
    assert_string_equal(option_names.RANK, "TUTTI_RANK");
    assert_string_equal(option_name(OPTION_TIMEOUT), "TUTTI_TIMEOUT");
    for (int i = 0; i < OPTION_COUNT; i++) {
        assert_int_equal(strncmp(option_name((enum option_id)i), OPTION_PREFIX, 6), 0);
        assert_int_equal(option_find(option_name((enum option_id)i)), i);
    }
    assert_int_equal(option_find("TUTTI_RAILS=2"), OPTION_RAILS);
    assert_int_equal(option_find("TUTTI_RAIL"), OPTION_COUNT);
    assert_int_equal(option_find("TUTTI_RAILSX"), OPTION_COUNT);
    assert_int_equal(option_find(""), OPTION_COUNT);
}

static void every_default_is_a_value_of_its_kind(void **state)
{
    (void)state;
    struct option_result result = {0};
    for (int i = 0; i < OPTION_COUNT; i++)
        if (option_has_default((enum option_id)i))
            assert_int_equal(option_read_any((enum option_id)i, &result), TUTTI_OK);
    assert_int_equal(option_duration(OPTION_TIMEOUT, &result.duration_ns), TUTTI_OK);
    assert_int_equal(result.duration_ns, UINT64_C(1800000000000));
    assert_int_equal(option_duration(OPTION_METRICS_INTERVAL, &result.duration_ns), TUTTI_OK);
    assert_int_equal(result.duration_ns, UINT64_C(10000000000));
    assert_int_equal(option_duration(OPTION_HEARTBEAT, &result.duration_ns), TUTTI_OK);
    assert_int_equal(result.duration_ns, 100000000);
    assert_int_equal(option_bytes(OPTION_UNEXPECTED, &result.bytes), TUTTI_OK);
    assert_int_equal(result.bytes, 16 << 20);
    assert_int_equal(option_count(OPTION_RAILS, &result.number), TUTTI_OK);
    assert_int_equal(result.number, 1);
    assert_int_equal(option_boolean(OPTION_PROBE, &result.is_on), TUTTI_OK);
    assert_true(result.is_on);
    assert_int_equal(option_wish(OPTION_LOG), 1);
}

/* Set to nothing is as not set. */
static void nothing_is_the_default(void **state)
{
    (void)state;
    struct option_result unset, empty;
    for (int i = 0; i < OPTION_COUNT; i++) {
        const enum option_id option = (enum option_id)i;
        if (!option_has_default(option)) continue;
        memset(&unset, 0, sizeof unset);
        memset(&empty, 0, sizeof empty);
        assert_int_equal(option_read_any(option, &unset), TUTTI_OK);
        setenv(option_name(option), "", 1);
        assert_int_equal(option_read_any(option, &empty), TUTTI_OK);
        assert_memory_equal(&unset, &empty, sizeof unset);
    }
    setenv("TUTTI_TRACE_DIR", "", 1);
    assert_null(option_text(OPTION_TRACE_DIR));
    assert_null(option_text(OPTION_RENDEZVOUS_DIR));
}

/* An option has no value if the table has words in parentheses, or nothing, as its default. */
static void options_without_a_default_have_no_value(void **state)
{
    (void)state;
    int choice = 7;
    assert_null(option_text(OPTION_SECRET));
    assert_null(option_text(OPTION_TRACE_DIR));
    assert_int_equal(option_choice(OPTION_SOCKET_FAMILY, &choice), TUTTI_OK);
    assert_int_equal(choice, -1);
    assert_int_equal(option_wish(OPTION_KERNEL), -1);
}

static void numbers_have_bounds(void **state)
{
    (void)state;
    static const char *const bad[] = {"0",  "5",  "-1", "+1", " 1",  "1 ",
                                      "01", "1x", "x",  "1.", "0x1", "99999999999999999999999"};
    int count = 9;
    setenv("TUTTI_RAILS", "4", 1);
    assert_int_equal(option_count(OPTION_RAILS, &count), TUTTI_OK);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("TUTTI_RAILS", bad[i], 1);
        expect_refusal(option_count(OPTION_RAILS, &count), "TUTTI_RAILS", bad[i],
                       "a number from 1 to 4");
        assert_int_equal(count, 4);
    }
}

static void periods_have_bounds(void **state)
{
    (void)state;
    static const char *const bad[] = {"0", "86401", "-1", "10s", "1e3", "99999999999999999999999"};
    uint64_t ns = 9;
    setenv("TUTTI_METRICS_INTERVAL", "86400", 1);
    assert_int_equal(option_duration(OPTION_METRICS_INTERVAL, &ns), TUTTI_OK);
    assert_int_equal(ns, UINT64_C(86400000000000));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("TUTTI_METRICS_INTERVAL", bad[i], 1);
        expect_refusal(option_duration(OPTION_METRICS_INTERVAL, &ns), "TUTTI_METRICS_INTERVAL",
                       bad[i], "a number of seconds from 1 to 86400");
        assert_int_equal(ns, UINT64_C(86400000000000));
    }
    setenv("TUTTI_HEARTBEAT", "0ms", 1);
    assert_int_equal(option_duration(OPTION_HEARTBEAT, &ns), TUTTI_OK);
    assert_int_equal(ns, 0);
    setenv("TUTTI_HEARTBEAT", "9", 1);
    expect_refusal(option_duration(OPTION_HEARTBEAT, &ns), "TUTTI_HEARTBEAT", "9",
                   "0 or a number of milliseconds from 10 to 10000");
}

static void durations_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"90", 90000000000u},  {"90s", 90000000000u},  {"500ms", 500000000}, {"7us", 7000},
                {"2m", 120000000000u}, {"1h", 3600000000000u}, {"0.5s", 500000000},  {"1e-12s", 1}};
    static const char *const bad[] = {"s", "0", "-1s", "nan", "inf", "1e30h", "3 s", "3d"};
    uint64_t ns = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        setenv("TUTTI_TIMEOUT", good[i].text, 1);
        assert_int_equal(option_duration(OPTION_TIMEOUT, &ns), TUTTI_OK);
        assert_int_equal(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("TUTTI_TIMEOUT", bad[i], 1);
        expect_refusal(option_duration(OPTION_TIMEOUT, &ns), "TUTTI_TIMEOUT", bad[i],
                       "a duration such as 30s, 500ms or 10m");
        assert_int_equal(ns, 1800000000000u); /* as it ships */
    }
}

static void sizes_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } good[] = {{"0", 0}, {"4096", 4096}, {"64k", 64 << 10}, {"16m", 16 << 20}, {"1g", 1 << 30}};
    static const char *const bad[] = {
        "m", "-1", "1t", "1kk", " 1", "18446744073709551615", "18014398509481984g"};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        setenv("TUTTI_UNEXPECTED", good[i].text, 1);
        assert_int_equal(option_bytes(OPTION_UNEXPECTED, &bytes), TUTTI_OK);
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("TUTTI_UNEXPECTED", bad[i], 1);
        expect_refusal(option_bytes(OPTION_UNEXPECTED, &bytes), "TUTTI_UNEXPECTED", bad[i],
                       "a size such as 16m");
        assert_int_equal(bytes, 1 << 30);
    }
}

static void words_are_those_of_the_table(void **state)
{
    (void)state;
    bool is_on = true;
    int choice = 0;
    setenv("TUTTI_INTEGRITY", "on", 1);
    assert_int_equal(option_choice(OPTION_INTEGRITY, &choice), TUTTI_OK);
    assert_int_equal(choice, 2);
    setenv("TUTTI_INTEGRITY", "ON", 1);
    expect_refusal(option_choice(OPTION_INTEGRITY, &choice), "TUTTI_INTEGRITY", "ON",
                   "off, network or on");
    assert_int_equal(choice, 2);
    setenv("TUTTI_DETERMINISTIC", "yes", 1);
    expect_refusal(option_boolean(OPTION_DETERMINISTIC, &is_on), "TUTTI_DETERMINISTIC", "yes",
                   "0 or 1");
    assert_true(is_on);
}

static void a_wish_that_cannot_be_counts_as_not_set(void **state)
{
    (void)state;
    char needs[OPTION_NEEDS_BYTES];
    setenv("TUTTI_LOG", "debug", 1);
    assert_int_equal(option_wish(OPTION_LOG), 3);
    assert_false(option_is_ignored(OPTION_LOG, needs));
    setenv("TUTTI_LOG", "loud", 1);
    assert_int_equal(option_wish(OPTION_LOG), 1);
    assert_true(option_is_ignored(OPTION_LOG, needs));
    assert_string_equal(needs, "off, warn, info or debug");
    setenv("TUTTI_KERNEL", "AVX2", 1);
    assert_int_equal(option_wish(OPTION_KERNEL), -1);
    assert_true(option_is_ignored(OPTION_KERNEL, needs));
}

static void readers_of_texts_refuse_in_the_same_words(void **state)
{
    (void)state;
    expect_refusal(option_refuse(OPTION_PROGRESS_CPUS, "a"), "TUTTI_PROGRESS_CPUS", "a",
                   "a list of CPUs such as 3 or 0-1,8");
    for (int i = 0; i < OPTION_COUNT; i++) { /* each of the table's texts fits into the message */
        const char *const kind = option_descriptions[i].kind;
        char expected[400] = "";
        if (!option_is_of((enum option_id)i, "TEXT")) continue;
        snprintf(expected, sizeof expected, "%.*s", (int)strlen(kind) - 8, kind + 6);
        expect_refusal(option_refuse((enum option_id)i, "x"), option_name((enum option_id)i), "x",
                       expected);
    }
}

static void what_is_set_is_checked_by_its_kind(void **state)
{
    (void)state;
    static const struct {
        enum option_id option;
        const char *good, *bad, *needs;
    } cases[] = {
        {OPTION_TIMEOUT, "30s", "soon", "a duration such as 30s, 500ms or 10m"},
        {OPTION_METRICS_INTERVAL, "10", "0", "a number of seconds from 1 to 86400"},
        {OPTION_HEARTBEAT, "0", "5", "0 or a number of milliseconds from 10 to 10000"},
        {OPTION_UNEXPECTED, "16m", "much", "a size such as 16m"},
        {OPTION_RANK, "3", "-1", "a number from 0 to 65535"},
        {OPTION_LONG, "1", "yes", "0 or 1"},
        {OPTION_TRANSPORT, "tcp", "udp", "auto or tcp"},
        {OPTION_LOG, "info", "loud", "off, warn, info or debug"},
    };
    for (int i = 0; i < OPTION_COUNT; i++)
        assert_int_equal(option_check((enum option_id)i), TUTTI_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const name = option_name(cases[i].option);
        setenv(name, cases[i].good, 1);
        assert_int_equal(option_check(cases[i].option), TUTTI_OK);
        setenv(name, cases[i].bad, 1);
        expect_refusal(option_check(cases[i].option), name, cases[i].bad, cases[i].needs);
        setenv(name, "", 1);
        assert_int_equal(option_check(cases[i].option), TUTTI_OK);
    }
    setenv(option_names.ALGORITHMS, "anything", 1);
    assert_int_equal(option_check(OPTION_ALGORITHMS), TUTTI_OK);
}

static void the_table_has_defaults_and_secrets(void **state)
{
    (void)state;
    assert_string_equal(option_default(OPTION_RAILS), "1");
    assert_string_equal(option_default(OPTION_ALGORITHMS), "(chosen)");
    assert_string_equal(option_default(OPTION_TABLE), "");
    for (int i = 0; i < OPTION_COUNT; i++)
        assert_int_equal(option_is_secret((enum option_id)i),
                         i == OPTION_SECRET || i == OPTION_JOB_ID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(names_have_the_prefix, clear_environment),
        cmocka_unit_test_setup(every_default_is_a_value_of_its_kind, clear_environment),
        cmocka_unit_test_setup(nothing_is_the_default, clear_environment),
        cmocka_unit_test_setup(options_without_a_default_have_no_value, clear_environment),
        cmocka_unit_test_setup(numbers_have_bounds, clear_environment),
        cmocka_unit_test_setup(periods_have_bounds, clear_environment),
        cmocka_unit_test_setup(durations_have_units, clear_environment),
        cmocka_unit_test_setup(sizes_have_units, clear_environment),
        cmocka_unit_test_setup(words_are_those_of_the_table, clear_environment),
        cmocka_unit_test_setup(a_wish_that_cannot_be_counts_as_not_set, clear_environment),
        cmocka_unit_test_setup(what_is_set_is_checked_by_its_kind, clear_environment),
        cmocka_unit_test_setup(the_table_has_defaults_and_secrets, clear_environment),
        cmocka_unit_test_setup(readers_of_texts_refuse_in_the_same_words, clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
