#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/byte_size.h"

static void sizes_are_read_with_either_letter(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"0", 0},
                 {"4096", 4096},
                 {"1k", 1024},
                 {"1K", 1024},
                 {"16m", UINT64_C(16) << 20},
                 {"16M", UINT64_C(16) << 20},
                 {"3g", UINT64_C(3) << 30},
                 {"3G", UINT64_C(3) << 30},
                 {"17179869183G", UINT64_C(17179869183) << 30},
                 {"18446744073709551615", UINT64_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 5;
        assert_true(byte_size_read(cases[i].text, NULL, UINT64_MAX, &bytes));
        assert_true(bytes == cases[i].bytes);
    }
}

static void what_is_no_size_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "k",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "1kb",
                                        "1.5m",
                                        "0x10",
                                        "17179869184G",
                                        "18446744073709551616"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint64_t bytes = 5;
        assert_false(byte_size_read(texts[i], NULL, UINT64_MAX, &bytes));
        assert_true(bytes == 5);
    }
}

static void bounds_count_and_more_may_follow(void **state)
{
    (void)state;
    const char *end = NULL;
    uint64_t bytes;
    assert_true(byte_size_read("8k-64m", &end, 8192, &bytes));
    assert_true(bytes == 8192);
    assert_string_equal(end, "-64m");
    assert_false(byte_size_read("8k", NULL, 8191, &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_with_either_letter),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(bounds_count_and_more_may_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
