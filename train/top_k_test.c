/* top_k_test.c - the selection is what sorting would select. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/elements.h"
#include "top_k.h"

enum { COUNT_MAX = 300 };

struct ranked {
    float value;
    uint32_t place;
};

static int larger_first(const void *a, const void *b)
{
    const struct ranked *const x = a, *const y = b;
    if (isnan(x->value) != isnan(y->value)) return isnan(x->value) ? -1 : 1;
    const float p = fabsf(x->value), q = fabsf(y->value);
    if (p > q || p < q) return p > q ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

static int by_place(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Few different values, so that many are equal; infinities and one NaN now and then. */
static float element(uint64_t seed, size_t i)
{
    const uint64_t h = elements_mixed(seed, i);
    if (seed % 3 == 0 && h % 41 == 0) return INFINITY;
    if (seed % 5 == 0 && i == 7) return NAN;
    return (float)((int)(h % (seed % 2 == 0 ? 7 : 100000)) - 3) * 0.25f;
}

static void the_largest_are_selected(void **state)
{
    (void)state;
    uint32_t *const room = malloc(TOP_K_ROOM * sizeof *room);
    assert_non_null(room);
    for (uint64_t seed = 0; seed < 100; seed++) {
        const size_t count = 1 + elements_mixed(seed, 1000) % COUNT_MAX;
        const size_t k = 1 + elements_mixed(seed, 1001) % count;
        float elements[COUNT_MAX], values[COUNT_MAX];
        struct ranked sorted[COUNT_MAX];
        uint32_t expected[COUNT_MAX], places[COUNT_MAX];
        unsigned char selection[8 * COUNT_MAX];
        for (size_t i = 0; i < count; i++) {
            elements[i] = element(seed, i);
            sorted[i] = (struct ranked){elements[i], (uint32_t)i};
        }
        qsort(sorted, count, sizeof *sorted, larger_first);
        for (size_t i = 0; i < k; i++) expected[i] = sorted[i].place;
        qsort(expected, k, sizeof *expected, by_place);
        top_k_select(elements, count, k, room, selection);
        memcpy(places, selection, k * sizeof *places);
        memcpy(values, selection + k * sizeof *places, k * sizeof *values);
        for (size_t i = 0; i < k; i++) {
            assert_int_equal(places[i], expected[i]);
            assert_memory_equal(&values[i], &elements[expected[i]], sizeof *values);
        }
        assert_true(top_k_is_valid(selection, k, count));
        /* Selected and left together are everything, bit for bit. */
        float sum[COUNT_MAX];
        memcpy(sum, elements, sizeof sum);
        top_k_clear(selection, k, sum);
        top_k_add(selection, k, sum);
        for (size_t i = 0; i < count; i++) assert_true(sum[i] == elements[i] || isnan(elements[i]));
    }
    free(room);
}

static void places_from_elsewhere_are_checked(void **state)
{
    (void)state;
    uint32_t selection[6] = {3, 4, 9, 0, 0, 0};
    assert_true(top_k_is_valid(selection, 3, 10));
    assert_false(top_k_is_valid(selection, 3, 9));
    selection[1] = 3;
    assert_false(top_k_is_valid(selection, 3, 10));
    selection[1] = 2;
    assert_false(top_k_is_valid(selection, 3, 10));
    selection[1] = UINT32_MAX;
    assert_false(top_k_is_valid(selection, 3, 10));
}

static void shares_are_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(top_k_of(1000, 0.01), 10);
    assert_int_equal(top_k_of(1001, 0.01), 11);
    assert_int_equal(top_k_of(5, 0.01), 1);
    assert_int_equal(top_k_of(5, 1), 5);
    assert_int_equal(top_k_of(0, 0.5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_are_selected),
        cmocka_unit_test(places_from_elsewhere_are_checked),
        cmocka_unit_test(shares_are_rounded_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
