/* Environment variables that are lent are seen for that time, and nothing else of the environment
 * changes, whichever thread reads or changes it meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "os/lent_variables.h"

static const char *const lent[] = {"TEST_LENT_A=1", "TEST_LENT_B=two=2"};
enum { COUNT = sizeof lent / sizeof *lent, ROUNDS = 200 };

static void what_is_lent_is_seen_until_it_is_taken_back(void **state)
{
    (void)state;
    setenv("TEST_KEPT", "kept", 1);
    for (int i = 0; i < 3; i++) {
        assert_true(lent_variables_put(lent, COUNT));
        assert_string_equal(getenv("TEST_LENT_A"), "1");
        assert_string_equal(getenv("TEST_LENT_B"), "two=2");
        assert_string_equal(getenv("TEST_KEPT"), "kept");
        lent_variables_take_back(lent, COUNT);
        assert_null(getenv("TEST_LENT_A"));
        assert_null(getenv("TEST_LENT_B"));
        assert_string_equal(getenv("TEST_KEPT"), "kept");
    }
    unsetenv("TEST_KEPT");
}

static void a_name_that_is_there_keeps_its_value(void **state)
{
    (void)state;
    setenv("TEST_LENT_A", "own", 1);
    assert_true(lent_variables_put(lent, COUNT));
    assert_string_equal(getenv("TEST_LENT_A"), "own");
    assert_string_equal(getenv("TEST_LENT_B"), "two=2");
    lent_variables_take_back(lent, COUNT);
    assert_string_equal(getenv("TEST_LENT_A"), "own");
    assert_null(getenv("TEST_LENT_B"));
    unsetenv("TEST_LENT_A");
}

static void what_is_changed_meanwhile_stays_changed(void **state)
{
    (void)state;
    setenv("TEST_OLD", "old", 1);
    assert_true(lent_variables_put(lent, COUNT));
    setenv("TEST_OLD", "changed", 1);
    setenv("TEST_NEW", "new", 1);
    lent_variables_take_back(lent, COUNT);
    assert_string_equal(getenv("TEST_OLD"), "changed");
    assert_string_equal(getenv("TEST_NEW"), "new");
    assert_null(getenv("TEST_LENT_A"));
    unsetenv("TEST_OLD");
    unsetenv("TEST_NEW");
}

static atomic_bool is_over;

static void *read_on(void *context)
{
    size_t *const reads = context;
    do {
        const char *const value = getenv("TEST_READ");
        if (value == NULL || strcmp(value, "still there") != 0) return "a variable was missed";
        (*reads)++;
    } while (!atomic_load(&is_over));
    return NULL;
}

static void threads_that_read_the_environment_see_all_of_it(void **state)
{
    (void)state;
    pthread_t thread;
    size_t reads = 0;
    void *wrong;
    setenv("TEST_READ", "still there", 1);
    assert_int_equal(pthread_create(&thread, NULL, read_on, &reads), 0);
    for (int i = 0; i < ROUNDS; i++) {
        assert_true(lent_variables_put(lent, COUNT));
        lent_variables_take_back(lent, COUNT);
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(thread, &wrong), 0);
    if (wrong != NULL) fail_msg("%s", (const char *)wrong);
    assert_true(reads > 0);
    unsetenv("TEST_READ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_lent_is_seen_until_it_is_taken_back),
        cmocka_unit_test(a_name_that_is_there_keeps_its_value),
        cmocka_unit_test(what_is_changed_meanwhile_stays_changed),
        cmocka_unit_test(threads_that_read_the_environment_see_all_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
