/* Ranks in words. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rank_list.h"

static void ranks_are_listed_in_the_order_of_adding(void **state)
{
    (void)state;
    struct rank_list list = RANK_LIST_EMPTY;
    assert_string_equal(list.text, "");
    assert_int_equal(list.first, -1);
    rank_list_add(&list, 2);
    rank_list_add(&list, 17);
    rank_list_add(&list, 3);
    assert_string_equal(list.text, "2 17 3");
    assert_int_equal(list.first, 2);
    assert_int_equal(list.count, 3);
}

static void many_end_with_dots(void **state)
{
    (void)state;
    struct rank_list list = RANK_LIST_EMPTY;
    for (int i = 0; i < RANK_LIST_SHOWN; i++) rank_list_add(&list, INT_MAX);
    assert_null(strstr(list.text, "..."));
    for (int i = 0; i < 1000; i++) rank_list_add(&list, i);
    assert_int_equal(list.count, RANK_LIST_SHOWN + 1000);
    assert_string_equal(list.text + strlen(list.text) - 15, " 2147483647 ...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_listed_in_the_order_of_adding),
        cmocka_unit_test(many_end_with_dots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
