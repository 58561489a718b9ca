/* The order in which events come out of the heap, compared with sorting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/events.h"
#include "tests/kit/chance.h"

enum { COUNT = 5000, TIMES = 200 };

/* The index counts added events: they must come out by time, and those of one time in the order in
 * which they were added. */
static void expect_order(uint32_t first_order)
{
    static uint64_t due[COUNT];
    struct events events = {.order = first_order};
    struct chance chance = {.seed = 11};
    uint64_t last_ps = 0;
    uint32_t last_index = 0, added = 0, taken = 0;
    while (taken < COUNT) {
        if (added < COUNT && (events.count == 0 || chance_below(&chance, 3) > 0)) {
            due[added] = last_ps + (uint64_t)chance_below(&chance, TIMES);
            events_add(&events, due[added], added % 8, added);
            added++;
            continue;
        }
        const struct event event = events_next(&events);
        const uint32_t index = event_index(&event);
        assert_true(index < added && event.at_ps == due[index]);
        assert_int_equal(event_kind(&event), index % 8);
        assert_true(event.at_ps >= last_ps);
        if (taken > 0 && event.at_ps == last_ps) assert_true(index > last_index);
        last_ps = event.at_ps;
        last_index = index;
        taken++;
    }
    assert_int_equal(events.count, 0);
    assert_false(events.has_failed);
    events_release(&events);
}

static void events_come_by_time_and_as_they_were_added(void **state)
{
    (void)state;
    expect_order(0);
}

static void also_where_their_numbers_begin_again(void **state)
{
    (void)state;
    for (uint32_t before = 0; before < COUNT; before += 999) expect_order(UINT32_MAX - before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_by_time_and_as_they_were_added),
        cmocka_unit_test(also_where_their_numbers_begin_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
