#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/option.h"
#include "format/calibration_file.h"
#include "transport/local/paths.h"
#include "transport/tcp/paths.h"

static char root[] = "/tmp/tutti-calibration-XXXXXX";
static char path[512];

static int make_root(void **state)
{
    (void)state;
    strcpy(root + sizeof root - 7, "XXXXXX");
    if (mkdtemp(root) == NULL) return -1;
    snprintf(path, sizeof path, "%s/a/b/c.json", root);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    unsetenv(option_names.CALIBRATION);
    return system(command);
}

static struct calibration shipped(void)
{
    struct calibration calibration;
    calibration_init(&calibration, local_paths(false), tcp_paths());
    return calibration;
}

static void save(void)
{
    struct calibration calibration = shipped();
    calibration.numbers[CALIBRATION_turn_ps].value = 4711;
    assert_int_equal(calibration_file_save(path, &calibration), TUTTI_OK);
}

static void expect_refusal(const char *words)
{
    struct calibration calibration = shipped();
    assert_int_equal(calibration_file_load(path, &calibration), TUTTI_INVALID_OPTIONS);
    const char *message = tutti_error_message();
    if (strstr(message, path) == NULL || strstr(message, words) == NULL)
        fail_msg("%s\nand not: %s", message, words);
}

static void what_is_saved_is_loaded(void **state)
{
    (void)state;
    struct calibration calibration = shipped();
    save();
    save(); /* over the one that is there */
    assert_int_equal(calibration_file_load(path, &calibration), TUTTI_OK);
    assert_int_equal(calibration.numbers[CALIBRATION_turn_ps].value, 4711);
}

static void a_file_that_others_can_write_is_refused(void **state)
{
    (void)state;
    save();
    assert_int_equal(chmod(path, 0664), 0);
    expect_refusal("other users can write it (mode 0664)");
    assert_int_equal(chmod(path, 0646), 0);
    expect_refusal("other users can write it (mode 0646)");
    struct calibration calibration = shipped();
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(calibration_file_load(path, &calibration), TUTTI_OK);
}

/* Only root can give a file away. */
static void a_file_of_somebody_else_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) skip();
    save();
    assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
    expect_refusal("it belongs to user 12345");
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    expect_refusal("No such file");
    save();
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal("no regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refusal("no regular file");
}

static void what_is_wrong_in_it_has_path_and_line(void **state)
{
    (void)state;
    save();
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\n\"tutti_calibration\": 1,\n\"parameters\": {\"turn\": {}}}", file);
    assert_int_equal(fclose(file), 0);
    expect_refusal("c.json: line 3: no \"turn\" is known here");
}

static void the_place_follows_the_environment(void **state)
{
    (void)state;
    char found[512], host[256] = "", expected[1024];
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    setenv("XDG_CACHE_HOME", "/cache", 1);
    setenv("HOME", "/me", 1);
    assert_int_equal(calibration_file_path(found, sizeof found), TUTTI_OK);
    snprintf(expected, sizeof expected, "/cache/tutti/calibration-%s.json", host);
    assert_string_equal(found, expected);
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_int_equal(calibration_file_path(found, sizeof found), TUTTI_OK);
    snprintf(expected, sizeof expected, "/me/.cache/tutti/calibration-%s.json", host);
    assert_string_equal(found, expected);
    unsetenv("HOME");
    assert_int_equal(calibration_file_path(found, sizeof found), TUTTI_INVALID_OPTIONS);
    setenv(option_names.CALIBRATION, "here.json", 1);
    assert_int_equal(calibration_file_path(found, sizeof found), TUTTI_OK);
    assert_string_equal(found, "here.json");
    assert_int_equal(calibration_file_path(found, 4), TUTTI_INVALID_OPTIONS);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(what_is_saved_is_loaded),
        IN_A_FOLDER(a_file_that_others_can_write_is_refused),
        IN_A_FOLDER(a_file_of_somebody_else_is_refused),
        IN_A_FOLDER(what_is_no_file_is_refused),
        IN_A_FOLDER(what_is_wrong_in_it_has_path_and_line),
        IN_A_FOLDER(the_place_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
