/* cmocka.h - what our tests use of cmocka, for machines that we cross-compile for: its package is
 * not to be had there without making another architecture part of the system. The real one is used
 * everywhere else.
 *
 * One test at a time, in one thread; what fails prints where and jumps back to the runner.
 */
#ifndef TUTTI_TESTS_CROSS_CMOCKA_H
#define TUTTI_TESTS_CROSS_CMOCKA_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uintmax_t LargestIntegralType;
typedef void CMUnitTestFunction(void **state);
typedef int CMFixtureFunction(void **state);

struct CMUnitTest {
    const char *name;
    CMUnitTestFunction *test_func;
    CMFixtureFunction *setup_func;
    CMFixtureFunction *teardown_func;
};

enum cross_result { CROSS_PASSED, CROSS_FAILED, CROSS_SKIPPED };

static jmp_buf cross_runner;
static const char *cross_filter;

#define CROSS_FUNCTION static inline __attribute__((unused))

CROSS_FUNCTION _Noreturn void cross_leave(enum cross_result result)
{
    fflush(NULL);
    longjmp(cross_runner, (int)result);
}

CROSS_FUNCTION void cross_expect(bool holds, const char *text, const char *file, int line)
{
    if (holds) return;
    fprintf(stderr, "%s:%d: error: %s\n", file, line, text);
    cross_leave(CROSS_FAILED);
}

CROSS_FUNCTION void cross_expect_equal(uintmax_t a, uintmax_t b, bool equal, const char *text,
                                       const char *file, int line)
{
    if ((a == b) == equal) return;
    fprintf(stderr, "%#jx and %#jx\n", a, b);
    cross_expect(false, text, file, line);
}

CROSS_FUNCTION void cross_expect_in_range(uintmax_t a, uintmax_t low, uintmax_t high,
                                          const char *text, const char *file, int line)
{
    if (a >= low && a <= high) return;
    fprintf(stderr, "%ju is not in [%ju, %ju]\n", a, low, high);
    cross_expect(false, text, file, line);
}

#define CROSS_EXPECT(holds, text) cross_expect(holds, text, __FILE__, __LINE__)
#define CROSS_EQUAL(a, b, equal, text) \
    cross_expect_equal((uintmax_t)(a), (uintmax_t)(b), equal, text, __FILE__, __LINE__)

#define assert_true(a) CROSS_EXPECT((a) ? true : false, #a)
#define assert_false(a) CROSS_EXPECT(!(a), "not " #a)
#define assert_null(a) CROSS_EXPECT((a) == NULL, #a " is not NULL")
#define assert_non_null(a) CROSS_EXPECT((a) != NULL, #a " is NULL")
#define assert_int_equal(a, b) CROSS_EQUAL(a, b, true, #a " is not " #b)
#define assert_int_not_equal(a, b) CROSS_EQUAL(a, b, false, #a " is " #b)
#define assert_ptr_equal(a, b) CROSS_EQUAL((uintptr_t)(a), (uintptr_t)(b), true, #a " is not " #b)
#define assert_ptr_not_equal(a, b) CROSS_EQUAL((uintptr_t)(a), (uintptr_t)(b), false, #a " is " #b)
#define assert_string_equal(a, b) CROSS_EXPECT(strcmp(a, b) == 0, #a " is not " #b)
#define assert_string_not_equal(a, b) CROSS_EXPECT(strcmp(a, b) != 0, #a " is " #b)
#define assert_memory_equal(a, b, size) \
    CROSS_EXPECT(memcmp(a, b, size) == 0, #a " is not " #b " in " #size " bytes")
#define assert_memory_not_equal(a, b, size) \
    CROSS_EXPECT(memcmp(a, b, size) != 0, #a " is " #b " in " #size " bytes")
#define assert_in_range(a, low, high)                                                        \
    cross_expect_in_range((uintmax_t)(a), (uintmax_t)(low), (uintmax_t)(high), #a, __FILE__, \
                          __LINE__)

#define print_message(...) printf(__VA_ARGS__)
#define fail() cross_expect(false, "failed", __FILE__, __LINE__)
#define fail_msg(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), fail())
#define skip() cross_leave(CROSS_SKIPPED)

#define cmocka_unit_test(function)      \
    {                                   \
#function, function, NULL, NULL \
    }
#define cmocka_unit_test_setup_teardown(function, setup, teardown) \
    {                                                              \
#function, function, setup, teardown                       \
    }
#define cmocka_set_test_filter(name) ((void)(cross_filter = (name)))

CROSS_FUNCTION enum cross_result cross_run_test(const struct CMUnitTest *test, void **state)
{
    const int jumped = setjmp(cross_runner);
    if (jumped != 0) return (enum cross_result)jumped;
    if (test->setup_func != NULL && test->setup_func(state) != 0) return CROSS_FAILED;
    test->test_func(state);
    if (test->teardown_func != NULL && test->teardown_func(state) != 0) return CROSS_FAILED;
    return CROSS_PASSED;
}

CROSS_FUNCTION int cross_run(const struct CMUnitTest *tests, size_t count,
                             CMFixtureFunction *group_setup, CMFixtureFunction *group_teardown)
{
    static const char *const names[] = {"ok", "FAILED", "skipped"};
    void *group_state = NULL;
    int failed = 0;
    if (group_setup != NULL && group_setup(&group_state) != 0) return 1;
    for (size_t i = 0; i < count; i++) {
        if (cross_filter != NULL && strcmp(cross_filter, tests[i].name) != 0) continue;
        void *state = group_state;
        const enum cross_result result = cross_run_test(&tests[i], &state);
        printf("%-8s %s\n", names[result], tests[i].name);
        fflush(stdout);
        failed += result == CROSS_FAILED;
    }
    if (group_teardown != NULL && group_teardown(&group_state) != 0) failed++;
    return failed;
}

#define cmocka_run_group_tests(tests, setup, teardown) \
    cross_run(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
    cmocka_run_group_tests(tests, setup, teardown)

#endif
