/* The list of processes and hosts that a team lets in no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "connect/bars.h"
#include "tutti/exclude.h"

static void a_process_or_all_of_a_host_are_kept_out(void **state)
{
    struct bars *const bars = bars_copy(NULL);
    (void)state;
    bars_add(bars, &(struct bar){7, 100, TUTTI_CAUSE_LATE});
    bars_add(bars, &(struct bar){7, 100, TUTTI_CAUSE_CORRUPT});
    bars_add(bars, &(struct bar){8, BAR_ANY_PID, TUTTI_CAUSE_DEVICE});
    assert_int_equal(bars->count, 2);
    assert_int_equal(bars_find(bars, 7, 100)->cause, TUTTI_CAUSE_LATE);
    assert_null(bars_find(bars, 7, 101));
    assert_null(bars_find(bars, 6, 100));
    assert_int_equal(bars_find(bars, 8, 1)->cause, TUTTI_CAUSE_DEVICE);
    assert_null(bars_find(NULL, 7, 100));
    struct bars *const copy = bars_copy(bars);
    free(bars);
    assert_non_null(bars_find(copy, 7, 100));
    free(copy);
}

static void the_oldest_makes_room(void **state)
{
    struct bars *const bars = bars_copy(NULL);
    (void)state;
    for (int pid = 1; pid <= BARS_MAX + 2; pid++) bars_add(bars, &(struct bar){1, pid, 0});
    assert_int_equal(bars->count, BARS_MAX);
    assert_null(bars_find(bars, 1, 2));
    assert_non_null(bars_find(bars, 1, 3));
    assert_non_null(bars_find(bars, 1, BARS_MAX + 2));
    free(bars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_or_all_of_a_host_are_kept_out),
        cmocka_unit_test(the_oldest_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
