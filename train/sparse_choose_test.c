/* sparse_choose_test.c - how many rows are expected, which way few, many and most rows take, and
 * how evenly ranges are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sparse_choose.h"
#include "sparse_ranges.h"
#include "tests/kit/elements.h"

static void unions_of_random_rows_are_expected(void **state)
{
    (void)state;
    const uint64_t counts[8] = {10000, 10000, 10000, 10000, 10000, 10000, 10000, 10000};
    const uint64_t expected = sparse_expect(counts, 8, 1000000); /* 10^6 (1 - 0.99^8) */
    assert_in_range(expected, 77254, 77256);
    assert_int_equal(sparse_expect(counts, 1, 1000000), 10000);
    assert_int_equal(sparse_expect(counts, 8, 10000), 10000);
    const uint64_t huge = sparse_expect(counts, 8, UINT64_C(1) << 62);
    assert_in_range(huge, 10000, 80000);
    const uint64_t none[3] = {0, 0, 0};
    assert_int_equal(sparse_expect(none, 3, 100), 0);
    assert_int_equal(sparse_expect(none, 3, 0), 0);
}

static enum tutti_sparse_way way_of(int size, uint64_t row_count, size_t row_bytes, uint64_t each,
                                    bool may_be_dense)
{
    uint64_t counts[64];
    struct sparse_choice choice;
    for (int r = 0; r < size; r++) counts[r] = each;
    const struct sparse_load load = {.size = size,
                                     .row_count = row_count,
                                     .row_bytes = row_bytes,
                                     .total = each * (unsigned)size,
                                     .expected = sparse_expect(counts, size, row_count),
                                     .may_be_dense = may_be_dense};
    sparse_choose(&load, TUTTI_SPARSE_CHOSEN, &choice);
    return choice.way;
}

static void few_many_and_most_rows_go_their_ways(void **state)
{
    (void)state;
    assert_int_equal(way_of(4, 1000000, 64, 10, true), TUTTI_SPARSE_GATHER);
    assert_int_equal(way_of(4, 1000000, 64, 0, true), TUTTI_SPARSE_GATHER);
    assert_int_equal(way_of(16, 1000000, 64, 50000, true), TUTTI_SPARSE_OWNER);
    assert_int_equal(way_of(4, 100000, 64, 99000, true), TUTTI_SPARSE_DENSE);
    assert_int_not_equal(way_of(4, 100000, 64, 99000, false), TUTTI_SPARSE_DENSE);
    /* the matrix is larger than any memory */
    assert_int_not_equal(way_of(4, UINT64_C(1) << 62, 1 << 20, 1000, true), TUTTI_SPARSE_DENSE);
}

static void explanations_fit_their_room(void **state)
{
    (void)state;
    const struct sparse_load load = {4, 1000, 64, 400, 300, false};
    struct sparse_choice choice;
    char text[1024], small[40];
    sparse_choose(&load, TUTTI_SPARSE_OWNER, &choice);
    sparse_explain(&choice, text, sizeof text);
    assert_non_null(strstr(text, "owner, given by the caller: 400 rows of 64 bytes on 4 ranks"));
    assert_non_null(strstr(text, "  gather "));
    assert_non_null(strstr(text, "  dense  not for this operation"));
    memset(small, 'x', sizeof small);
    sparse_explain(&choice, small, sizeof small);
    assert_int_equal(strlen(small), sizeof small - 1);
}

/* Rows of rank r of `size`, most of them low, as words of a text are. */
static size_t draw(int rank, int64_t *rows, size_t count, uint64_t row_count)
{
    size_t drawn = 0;
    for (uint64_t row = 0; row < row_count && drawn < count; row++)
        if (elements_mixed((uint64_t)rank, row) % (1 + row / 64) < 1) rows[drawn++] = (int64_t)row;
    return drawn;
}

static void ranges_have_equally_many_rows(void **state)
{
    (void)state;
    enum { SIZE = 5, COUNT = 4000, PARTS = 32 };
    static int64_t rows[SIZE][COUNT];
    struct sparse_sample samples[SIZE * PARTS];
    size_t counts[SIZE], sample_count = 0, total = 0;
    int64_t firsts[SIZE + 1];
    for (int r = 0; r < SIZE; r++) {
        counts[r] = draw(r, rows[r], COUNT, 100000);
        total += counts[r];
        for (size_t i = 0; i < PARTS; i++) {
            const size_t begin = counts[r] * i / PARTS, end = counts[r] * (i + 1) / PARTS;
            samples[sample_count++] = (struct sparse_sample){(uint64_t)rows[r][begin], end - begin};
        }
    }
    sparse_ranges_balanced(samples, sample_count, 100000, SIZE, firsts);
    assert_int_equal(firsts[0], 0);
    assert_int_equal(firsts[SIZE], 100000);
    for (int o = 0; o < SIZE; o++) {
        size_t owned = 0;
        assert_true(firsts[o] <= firsts[o + 1]);
        for (int r = 0; r < SIZE; r++)
            owned += sparse_find(rows[r], counts[r], firsts[o + 1]) -
                     sparse_find(rows[r], counts[r], firsts[o]);
        assert_in_range(owned, total / SIZE * 8 / 10, total / SIZE * 12 / 10);
    }
}

static void ranges_cover_all_rows(void **state)
{
    (void)state;
    static const uint64_t row_counts[] = {0, 1, 2, 9, 10, UINT64_C(1) << 62};
    struct sparse_sample one[1] = {{UINT64_MAX, UINT64_MAX}}; /* nonsense from another rank */
    for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++)
        for (int size = 1; size <= 9; size++) {
            int64_t firsts[10];
            for (int how = 0; how < 2; how++) {
                if (how == 0)
                    sparse_ranges_even(row_counts[i], size, firsts);
                else
                    sparse_ranges_balanced(one, 1, row_counts[i], size, firsts);
                assert_int_equal(firsts[0], 0);
                assert_int_equal(firsts[size], row_counts[i]);
                for (int r = 0; r < size; r++) assert_true(firsts[r] <= firsts[r + 1]);
            }
            sparse_ranges_even(row_counts[i], size, firsts);
            for (int r = 0; r < size; r++) {
                size_t first, count;
                assert_int_equal(tutti_sparse_range((size_t)row_counts[i], size, r, &first, &count),
                                 TUTTI_OK);
                assert_int_equal(first, firsts[r]);
                assert_int_equal(first + count, firsts[r + 1]);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unions_of_random_rows_are_expected),
        cmocka_unit_test(few_many_and_most_rows_go_their_ways),
        cmocka_unit_test(explanations_fit_their_room),
        cmocka_unit_test(ranges_have_equally_many_rows),
        cmocka_unit_test(ranges_cover_all_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
