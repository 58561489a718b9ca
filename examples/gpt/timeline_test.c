/* Spans lie in each other, what is waited for is added up, and what is kept has a bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "timeline.h"

static void spans_are_kept_in_the_order_of_their_ends(void **state)
{
    (void)state;
    struct timeline timeline = {.keeps = true};
    timeline_begin(&timeline, DOING_STEP, 7);
    timeline_begin(&timeline, DOING_LAYER, 3);
    timeline_begin(&timeline, WAITING_SLICES, 0);
    assert_int_equal(timeline_computes(&timeline), DOING_LAYER);
    timeline_end(&timeline);
    timeline_end(&timeline);
    assert_int_equal(timeline_computes(&timeline), DOINGS);
    timeline_end(&timeline);
    assert_int_equal(timeline.span_count, 3);
    const struct span *spans = timeline.spans;
    assert_int_equal(spans[0].doing, WAITING_SLICES);
    assert_int_equal(spans[1].doing, DOING_LAYER);
    assert_int_equal(spans[1].number, 3);
    assert_int_equal(spans[2].number, 7);
    for (size_t i = 0; i < 2; i++)
        assert_true(spans[i + 1].begin_ns <= spans[i].begin_ns &&
                    spans[i].begin_ns <= spans[i].end_ns && spans[i].end_ns <= spans[i + 1].end_ns);
    assert_true(timeline.waited_ns[WAITING_SLICES] == spans[0].end_ns - spans[0].begin_ns);
    assert_true(timeline.waited_ns[DOING_LAYER] == 0);
    timeline_release(&timeline);
}

static void what_nobody_wants_is_not_kept(void **state)
{
    (void)state;
    struct timeline timeline = {.keeps = false};
    timeline_begin(&timeline, WAITING_STAGES, 0);
    timeline_end(&timeline);
    assert_int_equal(timeline.span_count, 0);
    timeline_begin(NULL, WAITING_STAGES, 0);
    timeline_end(NULL);
    assert_int_equal(timeline_computes(NULL), DOINGS);
    timeline_release(&timeline);
}

static void what_is_kept_has_a_bound(void **state)
{
    (void)state;
    struct timeline timeline = {.keeps = true};
    for (size_t i = 0; i < TIMELINE_SPANS_MAX + 3; i++) {
        timeline_begin(&timeline, DOING_OPTIMIZER, 0);
        timeline_end(&timeline);
    }
    assert_int_equal(timeline.span_count, TIMELINE_SPANS_MAX);
    assert_int_equal(timeline.left_out, 3);
    timeline_release(&timeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_kept_in_the_order_of_their_ends),
        cmocka_unit_test(what_nobody_wants_is_not_kept),
        cmocka_unit_test(what_is_kept_has_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
