/* The line that bench/paths draws through measured costs: it goes through exact points, no cost is
 * below 0, and outliers do not bend it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "bench/fit.h"

enum { POINTS = 8 };

static void make_points(double first, double each, struct fit_point *points)
{
    for (int i = 0; i < POINTS; i++) {
        points[i].bytes = 64 << 2 * i; /* up to 1 MiB */
        points[i].cost = first + each * points[i].bytes;
    }
}

static void expect_line(struct fit_line line, double first, double each, double error_max)
{
    if (fabs(line.first - first) > error_max * first || fabs(line.each - each) > error_max * each)
        fail_msg("%g + %g * bytes instead of %g + %g * bytes", line.first, line.each, first, each);
}

static void a_line_is_found(void **state)
{
    (void)state;
    struct fit_point points[POINTS];
    make_points(3000, 0.25, points);
    expect_line(fit(points, POINTS), 3000, 0.25, 1e-6);
    expect_line(fit(points, 2), 3000, 0.25, 1e-6);
}

/* Absolute errors of large messages would hide what a small one costs. */
static void small_messages_count_as_much_as_large_ones(void **state)
{
    (void)state;
    struct fit_point points[POINTS];
    make_points(3000, 0.25, points);
    for (int i = 0; i < POINTS; i++) points[i].cost *= i % 2 == 0 ? 1.02 : 0.98;
    expect_line(fit(points, POINTS), 3000, 0.25, 0.05);
}

static void outliers_are_left_out(void **state)
{
    (void)state;
    struct fit_point points[POINTS];
    for (int out = 0; out < POINTS; out++) {
        make_points(3000, 0.25, points);
        points[out].cost *= 3;
        expect_line(fit(points, POINTS), 3000, 0.25, 0.02);
    }
}

/* Where an exact line would cost less than nothing. */
static void no_cost_is_below_zero(void **state)
{
    (void)state;
    struct fit_point points[POINTS];
    make_points(3000, 0.25, points);
    for (int i = 0; i < POINTS; i++)
        points[i].cost = 1e6 / (i + 1); /* larger messages are cheaper */
    struct fit_line line = fit(points, POINTS);
    assert_true(line.first > 0 && line.each == 0);
    for (int i = 0; i < POINTS; i++) points[i].cost = points[i].bytes * (i + 1); /* ever dearer */
    line = fit(points, POINTS);
    assert_true(line.first == 0 && line.each > 0);
}

static void messages_of_one_size_have_a_cost_each(void **state)
{
    (void)state;
    const struct fit_point points[] = {{4096, 100}, {4096, 100}, {4096, 100}}, one = {8, 70};
    struct fit_line line = fit(points, 3);
    assert_true(line.each == 0 && fabs(line.first - 100) < 1e-6);
    line = fit(&one, 1);
    assert_true(line.each == 0 && fabs(line.first - 70) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_found),
        cmocka_unit_test(small_messages_count_as_much_as_large_ones),
        cmocka_unit_test(outliers_are_left_out),
        cmocka_unit_test(no_cost_is_below_zero),
        cmocka_unit_test(messages_of_one_size_have_a_cost_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
