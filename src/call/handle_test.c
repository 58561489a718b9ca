/* A pointer is known from the time it is added until it is removed, wherever other pointers
 * stand. */
#include "call/handle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Addresses that are never read. */
static struct tutti_comm *at(uintptr_t address)
{
    return (struct tutti_comm *)address;
}

static void known_while_they_live(void **state)
{
    (void)state;
    struct tutti_comm *comm = at(0x7f0012345640);
    assert_false(handle_is_known(comm));
    assert_int_equal(handle_add(comm), TUTTI_OK);
    assert_true(handle_is_known(comm));
    assert_false(handle_is_known(at(0x7f0012345680)));
    assert_false(handle_is_known(at(0x7f0012345641)));
    handle_remove(comm);
    assert_false(handle_is_known(comm));
    handle_remove(comm);
}

static void null_and_marks_are_unknown(void **state)
{
    (void)state;
    struct tutti_comm *comm = at(64);
    assert_false(handle_is_known(NULL));
    assert_int_equal(handle_add(comm), TUTTI_OK);
    handle_remove(comm);
    for (uintptr_t address = 0; address < 128; address++)
        assert_false(handle_is_known(at(address)));
}

/* Addresses that differ by a table's worth of lines fall to one place. */
static void found_behind_others(void **state)
{
    (void)state;
    enum { COUNT = 50 };
    struct tutti_comm *comms[COUNT];
    for (uintptr_t i = 0; i < COUNT; i++) comms[i] = at((0x100 + i) << 38 | 0x40);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(handle_place(comms[i]), handle_place(comms[0]));
        assert_int_equal(handle_add(comms[i]), TUTTI_OK);
    }
    for (int i = 0; i < COUNT; i += 2) handle_remove(comms[i]);
    for (int i = 0; i < COUNT; i++) assert_int_equal(handle_is_known(comms[i]), i % 2);
    for (int i = 0; i < COUNT; i += 2) assert_int_equal(handle_add(comms[i]), TUTTI_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_true(handle_is_known(comms[i]));
        handle_remove(comms[i]);
        assert_false(handle_is_known(comms[i]));
    }
}

static void a_full_table_says_so(void **state)
{
    (void)state;
    for (uintptr_t i = 1; i <= HANDLE_COUNT_MAX; i++)
        assert_int_equal(handle_add(at(i * 64)), TUTTI_OK);
    assert_int_equal(handle_add(at(0x7f0000000040)), TUTTI_NO_MEMORY);
    assert_false(handle_is_known(at(0x7f0000000040)));
    for (uintptr_t i = 1; i <= HANDLE_COUNT_MAX; i++) assert_true(handle_is_known(at(i * 64)));
    handle_remove(at(640));
    assert_int_equal(handle_add(at(0x7f0000000040)), TUTTI_OK);
    assert_true(handle_is_known(at(0x7f0000000040)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_while_they_live),
        cmocka_unit_test(null_and_marks_are_unknown),
        cmocka_unit_test(found_behind_others),
        cmocka_unit_test(a_full_table_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
