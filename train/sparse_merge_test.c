/* sparse_merge_test.c - unions of lists, and sums of their rows, against an array of the whole
 * range; sorting beside them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sparse_merge.h"
#include "sparse_sort.h"
#include "sparse_sum.h"
#include "tests/kit/elements.h"

enum { LISTS = 9, ROWS = 700, WIDTH_MAX = 200, FIRST = 1000 };

static int64_t indices[LISTS][ROWS];
static int32_t values[LISTS][ROWS * WIDTH_MAX];
static int32_t expected[ROWS * WIDTH_MAX], sums[ROWS * WIDTH_MAX];

/* Rows r * stride of the range, of which list l has some; returns how many. */
static size_t fill(int list, uint64_t seed, int64_t stride, size_t width, bool *is_there)
{
    size_t count = 0;
    for (size_t row = 0; row < ROWS; row++) {
        const uint64_t h = elements_mixed(seed + (uint64_t)list, row);
        if (h % 4 > (uint64_t)list % 3) continue;
        is_there[row] = true;
        indices[list][count] = FIRST + (int64_t)row * stride;
        for (size_t i = 0; i < width; i++) {
            const int32_t value = (int32_t)(elements_mixed(h, i) % 1000);
            values[list][count * width + i] = value;
            expected[row * width + i] += value;
        }
        count++;
    }
    return count;
}

static void expect_sums(uint64_t seed, size_t list_count, int64_t stride, size_t width)
{
    struct sparse_list lists[LISTS];
    struct sparse_merge merge;
    struct sparse_sum sum;
    bool is_there[ROWS] = {false};
    memset(expected, 0, sizeof expected);
    for (size_t l = 0; l < list_count; l++) {
        const size_t count = l == 2 ? 0 : fill((int)l, seed, stride, width, is_there);
        lists[l] = (struct sparse_list){indices[l], values[l], count};
    }
    assert_int_equal(sparse_merge_init(&merge, lists, list_count, FIRST, (uint64_t)(ROWS * stride),
                                       width * sizeof(int32_t)),
                     TUTTI_OK);
    sparse_sum_init(&sum, op_builtin(OP_SUM), TUTTI_INT32, width, (int)list_count);
    assert_int_equal(sparse_sum_groups(&sum, merge.count, merge.starts, merge.sources, sums),
                     TUTTI_OK);
    size_t at = 0;
    for (size_t row = 0; row < ROWS; row++) {
        if (!is_there[row]) continue;
        assert_true(at < merge.count);
        assert_int_equal(merge.indices[at], FIRST + (int64_t)row * stride);
        assert_memory_equal(&sums[at * width], &expected[row * width], width * sizeof *sums);
        at++;
    }
    assert_int_equal(at, merge.count);
    sparse_merge_release(&merge);
}

static void rows_of_lists_are_summed(void **state)
{
    (void)state;
    static const int64_t strides[] = {1, 2, 100, INT64_C(1) << 40}; /* by bitmap, then in pairs */
    static const size_t widths[] = {1, 3, 16, WIDTH_MAX};
    for (size_t s = 0; s < 4; s++)
        for (size_t w = 0; w < 4; w++)
            for (size_t n = 1; n <= LISTS; n++)
                expect_sums(elements_mixed(s, w * 100 + n), n, strides[s], widths[w]);
}

static void nothing_is_a_union_of_nothing(void **state)
{
    (void)state;
    const struct sparse_list lists[2] = {{NULL, NULL, 0}, {NULL, NULL, 0}};
    struct sparse_merge merge;
    assert_int_equal(sparse_merge_init(&merge, lists, 2, 0, 0, 4), TUTTI_OK);
    assert_int_equal(merge.count, 0);
    sparse_merge_release(&merge);
    assert_int_equal(sparse_merge_init(&merge, lists, 2, 0, UINT64_C(1) << 62, 4), TUTTI_OK);
    assert_int_equal(merge.count, 0);
    sparse_merge_release(&merge);
}

static void order_of_equal_indices_stays(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static struct sparse_key keys[2 * COUNT];
    static const uint64_t row_counts[] = {1, 7, 2048, 100000, UINT64_C(1) << 45};
    for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++) {
        uint64_t sum = 0, sum_before = 0;
        for (size_t i = 0; i < COUNT; i++) {
            const uint64_t index = elements_mixed(r, i) % row_counts[r];
            keys[i] = (struct sparse_key){(int64_t)index, i};
            sum_before += elements_mixed(index, i);
        }
        const struct sparse_key *const sorted =
            sparse_sort(keys, keys + COUNT, COUNT, row_counts[r]);
        for (size_t i = 0; i < COUNT; i++) {
            sum += elements_mixed((uint64_t)sorted[i].index, sorted[i].position);
            if (i == 0) continue;
            assert_true(sorted[i - 1].index < sorted[i].index ||
                        (sorted[i - 1].index == sorted[i].index &&
                         sorted[i - 1].position < sorted[i].position));
        }
        assert_true(sum == sum_before); /* the same keys as before */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_lists_are_summed),
        cmocka_unit_test(nothing_is_a_union_of_nothing),
        cmocka_unit_test(order_of_equal_indices_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
