#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log_limit.h"

static void one_line_is_written_and_then_none_for_a_while(void **state)
{
    (void)state;
    struct log_limit limit = {0};
    char more[LOG_LIMIT_TEXT_SIZE] = "unset";
    const uint64_t now = 1234567;
    assert_true(log_limit_allows(&limit, now, more));
    assert_string_equal(more, "");
    for (uint64_t i = 0; i < 1000; i++)
        assert_false(log_limit_allows(&limit, now + i * (LOG_LIMIT_NS / 1000), more));
    assert_true(log_limit_allows(&limit, now + LOG_LIMIT_NS, more));
    assert_string_equal(more, " (1000 times more)");
    assert_false(log_limit_allows(&limit, now + LOG_LIMIT_NS, more));
}

static void a_line_after_a_long_silence_leaves_out_none(void **state)
{
    (void)state;
    struct log_limit limit = {0};
    char more[LOG_LIMIT_TEXT_SIZE] = "unset";
    assert_true(log_limit_allows(&limit, 1, more));
    assert_true(log_limit_allows(&limit, 1 + 2 * LOG_LIMIT_NS, more));
    assert_string_equal(more, "");
}

static void the_greatest_number_fits(void **state)
{
    (void)state;
    struct log_limit limit = {.left_out = UINT64_MAX};
    char more[LOG_LIMIT_TEXT_SIZE];
    assert_true(log_limit_allows(&limit, 1, more));
    assert_string_equal(more, " (18446744073709551615 times more)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line_is_written_and_then_none_for_a_while),
        cmocka_unit_test(a_line_after_a_long_silence_leaves_out_none),
        cmocka_unit_test(the_greatest_number_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
