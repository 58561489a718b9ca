#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/printable.h"
#include "base/status.h"

static void what_a_terminal_obeys_is_not_shown(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"", ""},
        {"host-7.example", "host-7.example"},
        {"a\033[2Jb", "a?[2Jb"},
        {"one\ntutti[1]: two\r", "one?tutti[1]: two?"},
        {"\001\177\t", "???"},
        {"\302\233[31m", "?[31m"}, /* C1 */
        {"Z\303\274rich \342\202\254", "Z\303\274rich \342\202\254"},
        {"x\342\200\256y\342\201\246z", "x?y?z"}, /* from right to left; an isolate */
        {"\377\300\257", "???"},                  /* none; overlong */
        {"\355\240\200", "???"},                  /* a surrogate */
        {"cut \342\202", "cut ??"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i].text);
        printable_make(text);
        assert_string_equal(text, cases[i].shown);
    }
}

static void messages_of_errors_are_printable(void **state)
{
    (void)state;
    assert_int_equal(error_set(TUTTI_SYSTEM, "host %s", "\033]0;title\007"), TUTTI_SYSTEM);
    assert_string_equal(tutti_error_message(), "host ?]0;title?");
    (void)error_system("host %s", "\033c");
    assert_memory_equal(tutti_error_message(), "host ?c: ", 9);
}

static void lines_of_the_log_are_single_and_printable(void **state)
{
    (void)state;
    char text[256] = "";
    int ends[2];
    const int before = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    log_write(LOG_WARN, "host %s", "a\ntutti[1]: b\033[2J");
    dup2(before, STDERR_FILENO);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    close(ends[1]);
    close(before);
    assert_non_null(strstr(text, ": host a?tutti[1]: b?[2J\n"));
    assert_null(strstr(text, "\033"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_terminal_obeys_is_not_shown),
        cmocka_unit_test(messages_of_errors_are_printable),
        cmocka_unit_test(lines_of_the_log_are_single_and_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
