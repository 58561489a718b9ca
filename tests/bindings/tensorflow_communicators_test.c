/* tensorflow_communicators_test.c - a group has one communicator, whose operations are counted, and
 * names of earlier lives stand for nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "bindings/tensorflow/front/communicators.c" /* no library has it */

static void a_group_has_one_communicator(void **state)
{
    (void)state;
    char five[COMMUNICATORS_NAME_MAX], minus[COMMUNICATORS_NAME_MAX];
    struct communicator_turn turn;
    assert_true(communicators_begin(5));
    assert_false(communicators_begin(5));
    assert_true(communicators_begin(INT32_MIN));
    communicators_made(5, 3, 1000, five);
    communicators_made(INT32_MIN, 2, 0, minus);
    assert_string_not_equal(five, minus);
    for (int i = 1; i < 4; i++) {
        assert_true(communicators_next(five, &turn));
        assert_true(turn.group == 5 && turn.group_size == 3 && turn.instance == i);
        assert_int_equal(turn.timeout_ns, 1000);
    }
    assert_true(communicators_next(minus, &turn));
    assert_true(turn.group == INT32_MIN && turn.instance == 1);
    assert_false(communicators_begin(5));
    assert_false(communicators_next("", &turn));
    communicators_clear();
}

static void one_that_failed_can_be_made_again(void **state)
{
    (void)state;
    char name[COMMUNICATORS_NAME_MAX];
    struct communicator_turn turn;
    assert_true(communicators_begin(5));
    communicators_failed(5);
    communicators_failed(5);
    assert_true(communicators_begin(5));
    communicators_made(5, 1, 0, name);
    assert_true(communicators_next(name, &turn));
    communicators_clear();
}

static void an_earlier_life_is_over(void **state)
{
    (void)state;
    char old[COMMUNICATORS_NAME_MAX], new[COMMUNICATORS_NAME_MAX];
    struct communicator_turn turn;
    assert_true(communicators_begin(5));
    communicators_made(5, 1, 0, old);
    communicators_clear();
    assert_false(communicators_next(old, &turn));
    assert_true(communicators_begin(5));
    assert_false(communicators_next(old, &turn)); /* not yet made */
    communicators_made(5, 1, 0, new);
    assert_false(communicators_next(old, &turn));
    assert_true(communicators_next(new, &turn));
    assert_int_equal(turn.instance, 1);
    communicators_clear();
    communicators_made(6, 1, 0, new); /* came too late */
    assert_false(communicators_next(new, &turn));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_has_one_communicator),
        cmocka_unit_test(one_that_failed_can_be_made_again),
        cmocka_unit_test(an_earlier_life_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
