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

#include "bootstrap/secret.h"

static const char SECRET[] = "correct horse battery staple";

static int clear_environment(void **state)
{
    (void)state;
    const char *left = getenv("TUTTI_SECRET_FILE"); /* by a test that failed */
    if (left != NULL && strncmp(left, "/tmp/tutti-secret-", 18) == 0) unlink(left);
    unsetenv("TUTTI_SECRET");
    unsetenv("TUTTI_SECRET_FILE");
    return 0;
}

static void skip_without_openssl(void)
{
    struct secret_key key;
    if (secret_from_run("", &key) != TUTTI_UNSUPPORTED) return;
    print_message("%s\n", tutti_error_message());
    skip();
}

static bool are_equal(const struct secret_key *a, const struct secret_key *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* A file with these bytes, named by TUTTI_SECRET_FILE. */
static void write_file(const void *text, size_t bytes)
{
    char path[] = "/tmp/tutti-secret-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), bytes);
    close(fd);
    setenv("TUTTI_SECRET_FILE", path, 1);
}

static void remove_file(void)
{
    assert_int_equal(unlink(getenv("TUTTI_SECRET_FILE")), 0);
    unsetenv("TUTTI_SECRET_FILE");
}

static void variable_file_and_bytes_give_one_key(void **state)
{
    (void)state;
    skip_without_openssl();
    static const char *const endings[] = {"", "\n", "\r\n"};
    struct secret_key expected, key;
    assert_int_equal(secret_from_bytes(SECRET, strlen(SECRET), &expected), TUTTI_OK);
    assert_true(expected.is_secret);
    setenv("TUTTI_SECRET", SECRET, 1);
    assert_int_equal(secret_read("run 7", &key), TUTTI_OK);
    assert_true(key.is_secret && are_equal(&key, &expected));
    setenv("TUTTI_SECRET", "", 1); /* as not set */
    for (int i = 0; i < 3; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s%s", SECRET, endings[i]);
        write_file(text, strlen(text));
        assert_int_equal(secret_read("run 7", &key), TUTTI_OK);
        assert_true(key.is_secret && are_equal(&key, &expected));
        remove_file();
    }
}

static void other_secrets_and_runs_give_other_keys(void **state)
{
    (void)state;
    skip_without_openssl();
    struct secret_key keys[5];
    assert_int_equal(secret_from_bytes(SECRET, strlen(SECRET), &keys[0]), TUTTI_OK);
    assert_int_equal(secret_from_bytes(SECRET, strlen(SECRET) - 1, &keys[1]), TUTTI_OK);
    assert_int_equal(secret_from_run(SECRET, &keys[2]), TUTTI_OK);
    assert_int_equal(secret_from_run("run 8", &keys[3]), TUTTI_OK);
    assert_int_equal(secret_read(NULL, &keys[4]), TUTTI_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(keys[i].is_secret, i < 2);
        for (int j = 0; j < i; j++) assert_false(are_equal(&keys[i], &keys[j]));
    }
    struct secret_key again;
    assert_int_equal(secret_read("run 8", &again), TUTTI_OK);
    assert_true(are_equal(&again, &keys[3]));
}

static void expect_refused(const char *word)
{
    struct secret_key key;
    assert_int_equal(secret_read("run", &key), TUTTI_INVALID_OPTIONS);
    if (strstr(tutti_error_message(), word) == NULL)
        fail_msg("\"%s\" does not say %s", tutti_error_message(), word);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    skip_without_openssl();
    static char text[SECRET_BYTES_MAX + 100];
    setenv("TUTTI_SECRET_FILE", "/nowhere/at/all", 1);
    expect_refused("/nowhere/at/all");
    setenv("TUTTI_SECRET_FILE", "/", 1);
    expect_refused("directory");
    setenv("TUTTI_SECRET", SECRET, 1);
    expect_refused("both");
    unsetenv("TUTTI_SECRET");
    write_file("\n", 1);
    expect_refused("empty");
    remove_file();
    memset(text, 'x', sizeof text);
    write_file(text, sizeof text);
    expect_refused("too long");
    remove_file();
    write_file(text, SECRET_BYTES_MAX);
    struct secret_key key;
    assert_int_equal(secret_read("run", &key), TUTTI_OK);
    remove_file();
}

static void what_others_can_read_is_refused(void **state)
{
    (void)state;
    skip_without_openssl();
    static const mode_t open_modes[] = {0644, 0640, 0604, 0620, 0601, 0606};
    static const mode_t closed_modes[] = {0600, 0400, 0700};
    struct secret_key key;
    write_file(SECRET, strlen(SECRET));
    const char *path = getenv("TUTTI_SECRET_FILE");
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        assert_int_equal(chmod(path, open_modes[i]), 0);
        expect_refused("chmod 600");
    }
    for (size_t i = 0; i < sizeof closed_modes / sizeof *closed_modes; i++) {
        assert_int_equal(chmod(path, closed_modes[i]), 0);
        assert_int_equal(secret_read("run", &key), TUTTI_OK);
    }
    remove_file();
}

static void what_belongs_to_another_user_is_refused(void **state)
{
    (void)state;
    skip_without_openssl();
    if (geteuid() != 0) {
        print_message("only root can give files away\n");
        skip();
    }
    write_file(SECRET, strlen(SECRET));
    assert_int_equal(chown(getenv("TUTTI_SECRET_FILE"), 4711, (gid_t)-1), 0);
    expect_refused("belongs to user 4711");
    remove_file();
}

/* bash's <(command), say. */
static void a_pipe_gives_a_secret(void **state)
{
    (void)state;
    skip_without_openssl();
    struct secret_key expected, key;
    int ends[2];
    char path[32];
    assert_int_equal(secret_from_bytes(SECRET, strlen(SECRET), &expected), TUTTI_OK);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], SECRET, strlen(SECRET)), strlen(SECRET));
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    setenv("TUTTI_SECRET_FILE", path, 1);
    assert_int_equal(secret_read("run", &key), TUTTI_OK);
    assert_true(are_equal(&key, &expected));
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(variable_file_and_bytes_give_one_key, clear_environment,
                                        clear_environment),
        cmocka_unit_test_setup_teardown(other_secrets_and_runs_give_other_keys, clear_environment,
                                        clear_environment),
        cmocka_unit_test_setup_teardown(what_makes_no_sense_is_refused, clear_environment,
                                        clear_environment),
        cmocka_unit_test_setup_teardown(what_others_can_read_is_refused, clear_environment,
                                        clear_environment),
        cmocka_unit_test_setup_teardown(what_belongs_to_another_user_is_refused, clear_environment,
                                        clear_environment),
        cmocka_unit_test_setup_teardown(a_pipe_gives_a_secret, clear_environment, clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
