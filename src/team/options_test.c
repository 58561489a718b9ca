#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "team/options.h"

static const char *const variables[] = {
    "TUTTI_TIMEOUT",       "TUTTI_INIT_TIMEOUT", "TUTTI_ALGORITHMS", "TUTTI_DETERMINISTIC",
    "TUTTI_PROBE",         "TUTTI_INTEGRITY",    "TUTTI_HEARTBEAT",  "TUTTI_ENCRYPTION",
    "TUTTI_PROGRESS_CPUS", "TUTTI_RAILS",        "TUTTI_UNEXPECTED", "TUTTI_SOCKET_FAMILY"};

static int clear_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
    return 0;
}

static enum tutti_status complete_for(const struct tutti_comm_options *user,
                                      struct tutti_comm_options *options)
{
    enum tutti_status environment;
    const enum tutti_status status = options_for_comm(user, options, &environment);
    return status != TUTTI_OK ? status : environment;
}

static enum tutti_status complete(struct tutti_comm_options *options)
{
    return complete_for(NULL, options);
}

static void nothing_said_gives_the_documented_defaults(void **state)
{
    (void)state;
    struct tutti_comm_options options;
    assert_int_equal(complete(&options), TUTTI_OK);
    assert_int_equal(options.size_bytes, sizeof options);
    assert_int_equal(options.rank, -1);
    assert_int_equal(options.size, -1);
    assert_int_equal(options.timeout_ns, 1800000000000u);
    assert_int_equal(options.init_timeout_ns, 300000000000u);
    assert_int_equal(options.deterministic, 0);
    assert_null(options.algorithms);
}

static void durations_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } cases[] = {{"90", 90000000000u}, {"90s", 90000000000u}, {"500ms", 500000000},
                 {"7us", 7000},        {"2m", 120000000000u}, {"1h", 3600000000000u},
                 {"0.5s", 500000000},  {"1e-12s", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tutti_comm_options options;
        setenv("TUTTI_TIMEOUT", cases[i].text, 1);
        setenv("TUTTI_INIT_TIMEOUT", cases[i].text, 1);
        assert_int_equal(complete(&options), TUTTI_OK);
        assert_int_equal(options.timeout_ns, cases[i].ns);
        assert_int_equal(options.init_timeout_ns, cases[i].ns);
    }
}

static void nonsense_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const texts[] = {"soon", "-1s", "0", "1x",  "1ss",   "nan",
                                        "inf",  "s",   " ", "1 s", "1e30h", "5sms"};
    for (size_t v = 0; v < 2; v++) {
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            struct tutti_comm_options options;
            setenv(variables[v], texts[i], 1);
            assert_int_equal(complete(&options), TUTTI_INVALID_OPTIONS);
            assert_non_null(strstr(tutti_error_message(), variables[v]));
        }
        unsetenv(variables[v]);
    }
    struct tutti_comm_options options;
    for (size_t v = 3; v < sizeof variables / sizeof *variables; v++) {
        setenv(variables[v], "yes", 1);
        assert_int_equal(complete(&options), TUTTI_INVALID_OPTIONS);
        assert_non_null(strstr(tutti_error_message(), variables[v]));
        unsetenv(variables[v]);
    }
}

static void heartbeats_are_in_milliseconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {
        {"", 100000000}, {"0", 0}, {"10", 10000000}, {"250ms", 250000000}, {"10000", 10000000000u}};
    static const char *const bad[] = {
        "9", "10001", "-5", "1s", "ms", "100 ms", "99999999999999999999"};
    uint64_t ns;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        setenv("TUTTI_HEARTBEAT", good[i].text, 1);
        assert_int_equal(options_heartbeat(&ns), TUTTI_OK);
        assert_int_equal(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("TUTTI_HEARTBEAT", bad[i], 1);
        assert_int_equal(options_heartbeat(&ns), TUTTI_INVALID_OPTIONS);
    }
}

static void cpus_of_the_progress_thread_are_a_list(void **state)
{
    (void)state;
    static const char *const good[] = {"0", "3", "0-1", "0-3,8-11,40", "2000,1"}, *const bad[] = {
                                                                                      "-1",  "a",
                                                                                      "1,",  "3-1",
                                                                                      "0x1", "1 2",
                                                                                      "2000"};
    struct tutti_comm_options options;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        setenv("TUTTI_PROGRESS_CPUS", good[i], 1);
        assert_int_equal(complete(&options), TUTTI_OK);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("TUTTI_PROGRESS_CPUS", bad[i], 1);
        assert_int_equal(complete(&options), TUTTI_INVALID_OPTIONS);
        assert_non_null(strstr(tutti_error_message(), bad[i]));
    }
}

/* No network card and no message is in sight. */
static void what_nothing_reads_here_is_checked_too(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"TUTTI_RAILS", "9"}, {"TUTTI_UNEXPECTED", "much"}, {"TUTTI_SOCKET_FAMILY", "ipx"}};
    struct tutti_comm_options options;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s=%s: ", bad[i][0], bad[i][1]);
        setenv(bad[i][0], bad[i][1], 1);
        assert_int_equal(complete(&options), TUTTI_INVALID_OPTIONS);
        assert_non_null(strstr(tutti_error_message(), text));
        unsetenv(bad[i][0]);
    }
    setenv("TUTTI_RAILS", "4", 1);
    setenv("TUTTI_KERNEL", "avx3", 1); /* a wish */
    const enum tutti_status status = complete(&options);
    unsetenv("TUTTI_KERNEL");
    assert_int_equal(status, TUTTI_OK);
}

static void empty_variables_say_nothing(void **state)
{
    (void)state;
    struct tutti_comm_options options;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) setenv(variables[i], "", 1);
    assert_int_equal(complete(&options), TUTTI_OK);
    assert_int_equal(options.timeout_ns, 1800000000000u);
    assert_int_equal(options.deterministic, 0);
}

static void the_callers_word_wins_over_the_environment(void **state)
{
    (void)state;
    setenv("TUTTI_TIMEOUT", "7s", 1);
    setenv("TUTTI_INIT_TIMEOUT", "8s", 1);
    setenv("TUTTI_ALGORITHMS", "allreduce=tree", 1);
    struct tutti_comm_options user = TUTTI_COMM_OPTIONS_INIT, options;
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.timeout_ns, 7000000000u);
    assert_int_equal(options.init_timeout_ns, 8000000000u);
    assert_string_equal(options.algorithms, "allreduce=tree");
    user.timeout_ns = 1;
    user.init_timeout_ns = 2;
    user.algorithms = "allreduce=ring";
    user.rank = 3;
    user.size = 4;
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.timeout_ns, 1);
    assert_int_equal(options.init_timeout_ns, 2);
    assert_string_equal(options.algorithms, "allreduce=ring");
    assert_int_equal(options.rank, 3);
    assert_int_equal(options.size, 4);
}

static void for_ever_does_not_end_at_once(void **state)
{
    (void)state;
    struct tutti_comm_options user = TUTTI_COMM_OPTIONS_INIT, options, derived;
    struct tutti_call_options call = TUTTI_CALL_OPTIONS_INIT, own;
    user.timeout_ns = user.init_timeout_ns = call.timeout_ns = UINT64_MAX;
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.timeout_ns, OPTIONS_TIMEOUT_MAX_NS);
    assert_int_equal(options.init_timeout_ns, OPTIONS_TIMEOUT_MAX_NS);
    assert_int_equal(options_for_derived(&user, &options, &derived), TUTTI_OK);
    assert_int_equal(derived.init_timeout_ns, OPTIONS_TIMEOUT_MAX_NS);
    assert_int_equal(options_for_call(&call, &own), TUTTI_OK);
    assert_int_equal(own.timeout_ns, OPTIONS_TIMEOUT_MAX_NS);
}

static void integrity_comes_from_either_side_and_is_inherited(void **state)
{
    (void)state;
    struct tutti_comm_options user = TUTTI_COMM_OPTIONS_INIT, options, derived;
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.integrity, TUTTI_INTEGRITY_OFF);
    setenv("TUTTI_INTEGRITY", "network", 1);
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.integrity, TUTTI_INTEGRITY_NETWORK);
    assert_int_equal(options_for_derived(&user, &options, &derived), TUTTI_OK);
    assert_int_equal(derived.integrity, TUTTI_INTEGRITY_NETWORK);
    user.integrity = TUTTI_INTEGRITY_OFF;
    assert_int_equal(options_for_derived(&user, &options, &derived), TUTTI_OK);
    assert_int_equal(derived.integrity, TUTTI_INTEGRITY_OFF);
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.integrity, TUTTI_INTEGRITY_OFF);
    setenv("TUTTI_INTEGRITY", "on", 1);
    assert_int_equal(complete_for(NULL, &options), TUTTI_OK);
    assert_int_equal(options.integrity, TUTTI_INTEGRITY_ON);
    user.integrity = (enum tutti_integrity)4;
    assert_int_equal(complete_for(&user, &options), TUTTI_INVALID_OPTIONS);
    setenv("TUTTI_INTEGRITY", "memory", 1);
    assert_int_equal(complete_for(NULL, &options), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "TUTTI_INTEGRITY=memory"));
}

static void encryption_comes_from_either_side_and_is_inherited(void **state)
{
    (void)state;
    struct tutti_comm_options user = TUTTI_COMM_OPTIONS_INIT, options, derived;
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.encryption, TUTTI_ENCRYPTION_OFF);
    setenv("TUTTI_ENCRYPTION", "on", 1);
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.encryption, TUTTI_ENCRYPTION_ON);
    assert_int_equal(options_for_derived(&user, &options, &derived), TUTTI_OK);
    assert_int_equal(derived.encryption, TUTTI_ENCRYPTION_ON);
    user.encryption = TUTTI_ENCRYPTION_OFF;
    assert_int_equal(options_for_derived(&user, &options, &derived), TUTTI_OK);
    assert_int_equal(derived.encryption, TUTTI_ENCRYPTION_OFF);
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.encryption, TUTTI_ENCRYPTION_OFF);
    user.encryption = (enum tutti_encryption)3;
    assert_int_equal(complete_for(&user, &options), TUTTI_INVALID_OPTIONS);
    setenv("TUTTI_ENCRYPTION", "yes", 1);
    assert_int_equal(complete_for(NULL, &options), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "TUTTI_ENCRYPTION=yes"));
}

static void determinism_comes_from_either_side(void **state)
{
    (void)state;
    struct tutti_comm_options user = TUTTI_COMM_OPTIONS_INIT, options;
    setenv("TUTTI_DETERMINISTIC", "1", 1);
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.deterministic, 1);
    setenv("TUTTI_DETERMINISTIC", "0", 1);
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.deterministic, 0);
    user.deterministic = 1;
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    assert_int_equal(options.deterministic, 1);
}

static int store_nothing(void *context, const char *key, const void *value, size_t value_bytes)
{
    (void)context, (void)key, (void)value, (void)value_bytes;
    return 0;
}

static int find_nothing(void *context, const char *key, void *value, size_t value_bytes,
                        uint64_t timeout_ns)
{
    (void)context, (void)key, (void)value, (void)value_bytes, (void)timeout_ns;
    return 1;
}

static void expect_refusal(const struct tutti_comm_options *user, const char *word)
{
    struct tutti_comm_options options;
    assert_int_equal(complete_for(user, &options), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), word));
}

static void structs_are_checked_by_field(void **state)
{
    (void)state;
    struct tutti_comm_options user = TUTTI_COMM_OPTIONS_INIT, options;
    struct tutti_store store = {sizeof store, store_nothing, find_nothing, NULL};
    const struct tutti_id id = {{0}};
    user.store = &store;
    assert_int_equal(complete_for(&user, &options), TUTTI_OK);
    user.id = &id;
    expect_refusal(&user, "id");
    user.id = NULL;
    store.set = NULL;
    expect_refusal(&user, "store.set");
    store.set = store_nothing;
    store.get = NULL;
    expect_refusal(&user, "store.get");
    store.size_bytes = 8;
    expect_refusal(&user, "store.size_bytes");
    user.size_bytes = 4;
    expect_refusal(&user, "options.size_bytes");
}

static void call_options_are_checked(void **state)
{
    (void)state;
    struct tutti_call_options user = TUTTI_CALL_OPTIONS_INIT;
    struct tutti_call_options own;
    user.timeout_ns = 5;
    assert_int_equal(options_for_call(&user, &own), TUTTI_OK);
    assert_int_equal(own.timeout_ns, 5);
    user.priority = -101;
    assert_int_equal(options_for_call(&user, &own), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "-101"));
    user.size_bytes = 0;
    assert_int_equal(options_for_call(&user, &own), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "size_bytes"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_environment, clear_environment)
    const struct CMUnitTest tests[] = {
        TEST(nothing_said_gives_the_documented_defaults),
        TEST(durations_have_units),
        TEST(nonsense_is_refused_by_name),
        TEST(heartbeats_are_in_milliseconds),
        TEST(cpus_of_the_progress_thread_are_a_list),
        TEST(what_nothing_reads_here_is_checked_too),
        TEST(empty_variables_say_nothing),
        TEST(the_callers_word_wins_over_the_environment),
        TEST(for_ever_does_not_end_at_once),
        TEST(integrity_comes_from_either_side_and_is_inherited),
        TEST(encryption_comes_from_either_side_and_is_inherited),
        TEST(determinism_comes_from_either_side),
        TEST(structs_are_checked_by_field),
        TEST(call_options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
