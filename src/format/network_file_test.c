#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/network_file.h"

enum { HOSTS = 4 };
static const uint64_t key = UINT64_C(0x89ab01c2f83b7d10); /* file 10 of 64, hexadecimal */
static const char text[] = "tutti-network 1\n"
                           "hosts 89ab01c2f83b7d10 4\n"
                           "starts 2\n"
                           "latency_rack_ps 31457280 164\n"
                           "card_byte_fs 8388608 9\n"
                           "racks 0 0 1 1\n";
static char home[] = "/tmp/tutti-network-XXXXXX", path[100];

static int make_home(void **state)
{
    (void)state;
    if (mkdtemp(home) == NULL || setenv("XDG_CACHE_HOME", home, 1) != 0) return 1;
    snprintf(path, sizeof path, "%s/tutti/network-10.txt", home);
    return 0;
}

static int remove_home(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", home);
    return system(command);
}

static bool parses(const char *from)
{
    int racks[HOSTS];
    struct network_found found = {.host_count = HOSTS, .rack_of = racks};
    return network_file_parse(from, strlen(from), key, &found);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    int racks[HOSTS];
    struct network_found found = {.host_count = HOSTS, .rack_of = racks};
    char *again = NULL;
    size_t size;
    assert_true(network_file_parse(text, strlen(text), key, &found));
    assert_int_equal(found.start_count, 2);
    assert_int_equal(found.between.numbers[BETWEEN_CARD_BYTE].value, 8388608);
    assert_int_equal(found.between.numbers[BETWEEN_CARD_BYTE].spread_permille, 9);
    assert_int_equal(found.between.numbers[BETWEEN_CARD_BYTE].known, CALIBRATION_MEASURED);
    assert_int_equal(found.between.numbers[BETWEEN_UPLINK_BYTE].known, CALIBRATION_ASSUMED);
    assert_true(racks[0] == 0 && racks[1] == 0 && racks[2] == 1 && racks[3] == 1);
    FILE *const file = open_memstream(&again, &size);
    network_file_print(key, &found, file);
    fclose(file);
    assert_string_equal(again, text);
    free(again);
}

/* Whatever is changed, left out or added makes it none. */
static void nothing_else_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *part, *with;
    } changes[] = {{"tutti-network 1", "tutti-network 2"},
                   {"89ab01c2f83b7d10", "89ab01c2f83b7d11"},
                   {"7d10 4", "7d10 5"},
                   {"starts 2", "starts 0"},
                   {"starts 2", "starts 1001"},
                   {"starts 2\n", ""},
                   {"8388608 9", "0 9"},
                   {"8388608 9", "8388608"},
                   {"8388608 9", "1000000001 9"},
                   {"8388608 9", "99999999999999999999 9"},
                   {"8388608 9", "8388608 100001"},
                   {"8388608 9", "-8388608 9"},
                   {"8388608 9", "8388608  9"},
                   {"card_byte_fs", "card_queue_bytes"},
                   {"racks 0 0 1 1", "racks 0 0 1 4"},
                   {"racks 0 0 1 1", "racks 0 0 1"},
                   {"racks 0 0 1 1", "racks 0 0 1 1 1"},
                   {"1 1\n", "1 1\n\n"},
                   {"1 1\n", "1 1"}};
    assert_true(parses(text));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char changed[sizeof text + 40];
        const char *const at = strstr(text, changes[i].part);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, changes[i].with,
                 at + strlen(changes[i].part));
        if (parses(changed)) fail_msg("read: %s", changed);
    }
    for (size_t length = 0; length < strlen(text); length++) {
        char *const part = strndup(text, length);
        assert_false(parses(part));
        free(part);
    }
}

static void what_is_kept_is_found_until_it_is_forgotten(void **state)
{
    (void)state;
    int racks[HOSTS] = {0, 1, 0, 1}, found_racks[HOSTS];
    const struct network_found kept = {
        .between = {{[BETWEEN_CARD_BYTE] = {8388608, 9, CALIBRATION_MEASURED}}},
        .start_count = 1,
        .host_count = HOSTS,
        .rack_of = racks};
    struct network_found found = {.host_count = HOSTS, .rack_of = found_racks};
    assert_false(network_file_find(key, &found));
    network_file_forget(key); /* nothing is there */
    network_file_keep(key, &kept);
    assert_true(network_file_find(key, &found));
    assert_int_equal(found.start_count, 1);
    assert_int_equal(found.between.numbers[BETWEEN_CARD_BYTE].value, 8388608);
    assert_memory_equal(found_racks, racks, sizeof racks);
    /* Other hosts have the same file, and keep their own there. */
    assert_false(network_file_find(key + 64, &found));
    network_file_forget(key + 64);
    assert_true(network_file_find(key, &found));
    network_file_keep(key + 64, &kept);
    assert_false(network_file_find(key, &found));
    network_file_keep(key, &kept);
    network_file_forget(key);
    assert_false(network_file_find(key, &found));
    assert_int_equal(access(path, F_OK), -1);
}

static void a_file_that_others_can_write_is_none(void **state)
{
    (void)state;
    int racks[HOSTS] = {0};
    struct network_found found = {.between = {{[BETWEEN_CARD_BYTE] = {5, 5, CALIBRATION_MEASURED}}},
                                  .start_count = 1,
                                  .host_count = HOSTS,
                                  .rack_of = racks};
    network_file_keep(key, &found);
    assert_true(network_file_find(key, &found));
    assert_int_equal(chmod(path, 0666), 0);
    assert_false(network_file_find(key, &found));
    assert_int_equal(chmod(path, 0600), 0);
    assert_true(network_file_find(key, &found));
    assert_int_equal(setenv("XDG_CACHE_HOME", "/dev/null", 1), 0);
    network_file_keep(key, &found); /* cannot be, and nobody minds */
    assert_false(network_file_find(key, &found));
    assert_int_equal(setenv("XDG_CACHE_HOME", home, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(nothing_else_is_read),
        cmocka_unit_test(what_is_kept_is_found_until_it_is_forgotten),
        cmocka_unit_test(a_file_that_others_can_write_is_none),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
