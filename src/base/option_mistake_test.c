#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/option.h"
#include "base/option_mistake.h"

enum { TEXT_BYTES = 8192 };

/* The text that a fresh process with these variables writes when it is asked twice. */
static void tell_with(char *const *variables, char text[static TEXT_BYTES])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        environ = (char **)variables;
        option_mistake_tell();
        option_mistake_tell();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while (used < TEXT_BYTES - 1 && (got = read(ends[0], text + used, TEXT_BYTES - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++) count++;
    return count;
}

static void the_nearest_name_is_a_small_change_away(void **state)
{
    (void)state;
    assert_string_equal(option_mistake_nearest("TUTTI_TIMOUT"), "TUTTI_TIMEOUT");
    assert_string_equal(option_mistake_nearest("TUTTI_TIMOUT=30s"), "TUTTI_TIMEOUT");
    assert_string_equal(option_mistake_nearest("TUTTI_INITTIMEOUT"), "TUTTI_INIT_TIMEOUT");
    assert_string_equal(option_mistake_nearest("TUTTI_SOCKET_IFNAMES=eth0"), "TUTTI_SOCKET_IFNAME");
    assert_string_equal(option_mistake_nearest("TUTTI_ALGORITHM"), "TUTTI_ALGORITHMS");
    assert_string_equal(option_mistake_nearest("TUTTI_LOGS"), "TUTTI_LOG");
    assert_null(option_mistake_nearest("TUTTI_"));
    assert_null(option_mistake_nearest("TUTTI_CPU"));
    assert_null(option_mistake_nearest("TUTTI_SOMETHING_ELSE_ALTOGETHER"));
}

static void names_that_are_no_option_are_unknown(void **state)
{
    (void)state;
    assert_true(option_mistake_is_unknown("TUTTI_TIMOUT=30s"));
    assert_true(option_mistake_is_unknown("TUTTI_"));
    assert_false(option_mistake_is_unknown("TUTTI_TIMEOUT=30s"));
    assert_false(option_mistake_is_unknown("TUTTI_TEST_OF_MINE=1"));
    assert_false(option_mistake_is_unknown("TUTTIFRUTTI=1"));
}

static void every_name_for_users_is_nearest_to_itself(void **state)
{
    (void)state;
    char name[2000] = OPTION_PREFIX;
    for (int i = 0; i < OPTION_COUNT; i++) {
        const enum option_id option = (enum option_id)i;
        if (!option_is_for_users(option)) continue;
        assert_string_equal(option_mistake_nearest(option_name(option)), option_name(option));
    }
    memset(name + strlen(name), 'X', sizeof name - strlen(name) - 1);
    assert_null(option_mistake_nearest(name));
}

static void mistakes_are_told_once(void **state)
{
    (void)state;
    char text[TEXT_BYTES];
    static char *const variables[] = {"PATH=/bin",         "TUTTI_TIMOUT=secret-1",
                                      "TUTTI_TIMEOUT=30s", "TUTTI_FROBNICATE=secret-2",
                                      "TUTTI_KERNEL=avx3", "TUTTIX=1",
                                      "TUTTI_LONG=1",      "TUTTI_TEST_OF_MINE=1",
                                      "TUTTI_RAILS=99",    NULL};
    tell_with(variables, text);
    assert_int_equal(
        count_of(text,
                 ": TUTTI_TIMOUT is set, but there is no such option: is TUTTI_TIMEOUT meant?\n"),
        1);
    assert_int_equal(count_of(text, ": TUTTI_FROBNICATE is set, but there is no such option\n"), 1);
    assert_int_equal(count_of(text, ": TUTTI_KERNEL=avx3 counts as not set: scalar, avx2, avx512 "
                                    "or neon is needed\n"),
                     1);
    assert_int_equal(count_of(text, "\n"), 3);
    assert_int_equal(count_of(text, "secret"), 0);
}

static void what_is_right_is_not_spoken_of(void **state)
{
    (void)state;
    char text[TEXT_BYTES];
    static char *const none[] = {NULL};
    static char *const right[] = {"TUTTI_RANK=0", "TUTTI_KERNEL=scalar",
                                  "TUTTI_CMA=", "TUTTI_TORCH_BACKEND=cpp", NULL};
    static char *const quiet[] = {"TUTTI_TIMOUT=1", "TUTTI_LOG=off", NULL};
    tell_with(none, text);
    assert_string_equal(text, "");
    tell_with(right, text);
    assert_string_equal(text, "");
    tell_with(quiet, text);
    assert_string_equal(text, "");
}

static void many_mistakes_make_few_lines(void **state)
{
    (void)state;
    enum { COUNT = 100, NAME_BYTES = 400 };
    static char names[COUNT][NAME_BYTES];
    char *variables[COUNT + 1], text[TEXT_BYTES];
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], NAME_BYTES, "TUTTI_%0300d=1", i);
        variables[i] = names[i];
    }
    variables[COUNT] = NULL;
    tell_with(variables, text);
    assert_int_equal(count_of(text, "\n"), 9);
    assert_int_equal(count_of(text, "92 more variables TUTTI_... are not known\n"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_name_is_a_small_change_away),
        cmocka_unit_test(names_that_are_no_option_are_unknown),
        cmocka_unit_test(every_name_for_users_is_nearest_to_itself),
        cmocka_unit_test(mistakes_are_told_once),
        cmocka_unit_test(what_is_right_is_not_spoken_of),
        cmocka_unit_test(many_mistakes_make_few_lines),
    };
    unsetenv("TUTTI_LOG");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
