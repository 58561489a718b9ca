/* Bytes of links and of memory: numbers of bytes that are not whole units are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/wire.h"

static const struct kernel_encoding units = {.name = "units", .unit_elements = 8, .unit_bytes = 9};

static void what_is_not_encoded_is_as_long_as_in_memory(void **state)
{
    (void)state;
    assert_int_equal(wire_bytes(NULL, 4, 0), 0);
    assert_int_equal(wire_bytes(NULL, 4, 4444), 4444);
}

static void a_last_unit_is_as_long_as_a_whole_one(void **state)
{
    (void)state;
    assert_int_equal(wire_bytes(&units, 4, 0), 0);
    assert_int_equal(wire_bytes(&units, 4, 4), 9);
    assert_int_equal(wire_bytes(&units, 4, 32), 9);
    assert_int_equal(wire_bytes(&units, 4, 36), 18);
}

static void what_comes_ends_with_a_unit_or_with_the_chunk(void **state)
{
    (void)state;
    size_t bytes;
    assert_true(wire_to_memory(&units, 4, 9, 100, &bytes));
    assert_int_equal(bytes, 32);
    assert_true(wire_to_memory(&units, 4, 36, 100, &bytes)); /* 25 elements */
    assert_int_equal(bytes, 100);
    assert_true(wire_to_memory(&units, 4, 0, 0, &bytes));
    assert_int_equal(bytes, 0);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    size_t bytes;
    assert_false(wire_to_memory(&units, 4, 8, 100, &bytes)); /* less than a unit */
    assert_false(wire_to_memory(&units, 4, 10, 100, &bytes));
    assert_false(wire_to_memory(&units, 4, 45, 100, &bytes)); /* more than there is */
    assert_false(wire_to_memory(&units, 4, (size_t)-1, 100, &bytes));
    assert_false(wire_to_memory(&units, 4, 9, 0, &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_encoded_is_as_long_as_in_memory),
        cmocka_unit_test(a_last_unit_is_as_long_as_a_whole_one),
        cmocka_unit_test(what_comes_ends_with_a_unit_or_with_the_chunk),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
