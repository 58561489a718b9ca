#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/division.h"

enum { LEAST = 1000, LARGE = 1000001, SMALL = 100 };

static struct server_division division_of(const struct division_table *tables, size_t count,
                                          int servers)
{
    return (struct server_division){.server_count = servers, .table_count = count, .tables = tables};
}

/* And so a model of any size can be pushed and pulled in one call. */
static void the_queue_holds_all_dense_tensors_of_a_server(void **state)
{
    (void)state;
    const struct division_table tables[] = {
        {.name = "large", .width = LARGE},
        {.name = "small", .width = SMALL},
        {.name = "words", .is_rows = true, .row_count = 1 << 30, .width = 1 << 20},
    };
    for (int servers = 1; servers <= 5; servers++) {
        const struct server_division division = division_of(tables, 3, servers);
        const uint64_t bytes = division_queue_bytes(&division, LEAST);
        for (int server = 0; server < servers; server++) {
            uint64_t first, large, small;
            division_dense(&division, 0, server, &first, &large);
            division_dense(&division, 1, server, &first, &small);
            assert_true(bytes >= LEAST + (large + small) * sizeof(float));
        }
        assert_true(bytes <= LEAST + (LARGE / (uint64_t)servers + 1 + SMALL) * sizeof(float) +
                                 (uint64_t)2 * DIVISION_PADDING);
    }
}

static void rows_alone_need_no_more_than_the_least(void **state)
{
    (void)state;
    const struct division_table rows = {.name = "words", .is_rows = true, .row_count = 9, .width = 9};
    const struct server_division division = division_of(&rows, 1, 2);
    assert_int_equal(division_queue_bytes(&division, LEAST), LEAST);
}

static void sizes_that_no_machine_has_do_not_overflow(void **state)
{
    (void)state;
    const struct division_table tables[] = {{.name = "a", .width = UINT64_MAX},
                                            {.name = "b", .width = UINT64_MAX / 3}};
    const struct server_division division = division_of(tables, 2, 1);
    assert_int_equal(division_queue_bytes(&division, LEAST), DIVISION_QUEUE_MAX);
    assert_int_equal(division_queue_bytes(&division, DIVISION_QUEUE_MAX), DIVISION_QUEUE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_queue_holds_all_dense_tensors_of_a_server),
        cmocka_unit_test(rows_alone_need_no_more_than_the_least),
        cmocka_unit_test(sizes_that_no_machine_has_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
