/* Numbers of 16 bits become float32 and come back; float32 goes to the nearest one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "widen.h"

enum { ALL = 1 << 16 };

static uint16_t codes[ALL], back[ALL];
static float numbers[ALL];

static void every_number_comes_back(void **state)
{
    (void)state;
    const enum tutti_dtype dtypes[] = {TUTTI_BFLOAT16, TUTTI_FLOAT16};
    for (int d = 0; d < 2; d++) {
        for (int i = 0; i < ALL; i++) codes[i] = (uint16_t)i;
        widen(dtypes[d], ALL, codes, numbers);
        narrow(dtypes[d], ALL, numbers, back);
        for (int i = 0; i < ALL; i++)
            if (!isnan(numbers[i])) assert_int_equal(back[i], codes[i]);
        widen(dtypes[d], ALL, back, numbers);
        for (int i = 0; i < ALL; i++) /* NaN may get another payload */
            if (back[i] != codes[i]) assert_true(isnan(numbers[i]));
    }
}

static float rounded(enum tutti_dtype dtype, float number)
{
    uint16_t code;
    float result;
    narrow(dtype, 1, &number, &code);
    widen(dtype, 1, &code, &result);
    return result;
}

static void numbers_between_go_to_the_nearest(void **state)
{
    (void)state;
    assert_true(rounded(TUTTI_BFLOAT16, 1 + 0x1p-8f) == 1); /* a tie: to even */
    assert_true(rounded(TUTTI_BFLOAT16, 1 + 0x1.8p-7f) == 1 + 0x1p-6f);
    assert_true(rounded(TUTTI_BFLOAT16, 1 + 0x1.002p-8f) == 1 + 0x1p-7f);
    assert_true(rounded(TUTTI_BFLOAT16, 0x1.fffffep127f) == INFINITY);
    assert_true(rounded(TUTTI_FLOAT16, 1 + 0x1p-11f) == 1);
    assert_true(rounded(TUTTI_FLOAT16, 1 + 0x1.002p-11f) == 1 + 0x1p-10f);
    assert_true(rounded(TUTTI_FLOAT16, 70000) == INFINITY);
    assert_true(rounded(TUTTI_FLOAT16, 0x1p-24f) == 0x1p-24f);
    assert_true(rounded(TUTTI_FLOAT16, 0x1p-26f) == 0);
}

static void float32_is_copied(void **state)
{
    (void)state;
    const float from[3] = {1, -0.1f, 0x1p-140f};
    float to[3] = {0}, again[3] = {0};
    widen(TUTTI_FLOAT32, 3, from, to);
    narrow(TUTTI_FLOAT32, 3, to, again);
    assert_memory_equal(from, to, sizeof from);
    assert_memory_equal(from, again, sizeof from);
    widen(TUTTI_FLOAT32, 0, NULL, NULL);
    narrow(TUTTI_BFLOAT16, 0, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_comes_back),
        cmocka_unit_test(numbers_between_go_to_the_nearest),
        cmocka_unit_test(float32_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
