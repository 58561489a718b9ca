#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log_limit.h"

static void one_line_is_written_and_then_none_for_a_while(void **state)
{
    (void)state;
    struct log_limit limit = {0};
    uint64_t left_out = 77;
    const uint64_t now = 1234567;
    assert_true(log_limit_allows(&limit, now, &left_out));
    assert_int_equal(left_out, 0);
    for (uint64_t i = 0; i < 1000; i++)
        assert_false(log_limit_allows(&limit, now + i * (LOG_LIMIT_NS / 1000), &left_out));
    assert_true(log_limit_allows(&limit, now + LOG_LIMIT_NS, &left_out));
    assert_int_equal(left_out, 1000);
    assert_false(log_limit_allows(&limit, now + LOG_LIMIT_NS, &left_out));
}

static void a_line_after_a_long_silence_leaves_out_none(void **state)
{
    (void)state;
    struct log_limit limit = {0};
    uint64_t left_out = 77;
    assert_true(log_limit_allows(&limit, 1, &left_out));
    assert_true(log_limit_allows(&limit, 1 + 2 * LOG_LIMIT_NS, &left_out));
    assert_int_equal(left_out, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line_is_written_and_then_none_for_a_while),
        cmocka_unit_test(a_line_after_a_long_silence_leaves_out_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
