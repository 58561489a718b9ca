/* sparse_index_test.c - every code of indices gives them back, at its length, and bytes that are no
 * code are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sparse_index.h"
#include "tests/kit/elements.h"

enum { COUNT_MAX = 3000 };

static int64_t indices[COUNT_MAX], again[COUNT_MAX];
static unsigned char code[COUNT_MAX * 8 + 8];

/* About one in `sparseness` rows of the range, from its first row on. */
static size_t choose(uint64_t seed, int64_t first, uint64_t range, uint64_t sparseness)
{
    size_t count = 0;
    uint64_t at = elements_mixed(seed, 0) % sparseness;
    for (; at < range && count < COUNT_MAX; at += 1 + elements_mixed(seed, at) % sparseness)
        indices[count++] = first + (int64_t)at;
    return count;
}

static void expect_same(size_t count, int64_t first, uint64_t range)
{
    const size_t bytes = sparse_index_bytes(count, range);
    assert_true(bytes <= count * 8 && bytes <= sizeof code);
    memset(code, 0xa5, sizeof code);
    sparse_index_encode(indices, count, first, range, code);
    assert_int_equal(code[bytes], 0xa5);
    assert_true(sparse_index_decode(code, count, first, range, again));
    assert_memory_equal(indices, again, count * sizeof *indices);
}

static void indices_come_back(void **state)
{
    (void)state;
    static const uint64_t ranges[] = {
        1, 2, 63, 64, 65, 1000, 65536, 65537, 70000, 4294967296, 4294967297, UINT64_C(1) << 62};
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
        for (uint64_t sparseness = 1; sparseness <= 1u << 20; sparseness *= 4)
            for (int64_t first = 0; first <= 100; first += 100) {
                const size_t count = choose(r, first, ranges[r], sparseness);
                expect_same(count, first, ranges[r]);
            }
}

static void the_shortest_code_is_taken(void **state)
{
    (void)state;
    assert_int_equal(sparse_index_bytes(0, 1000), 0);
    assert_int_equal(sparse_index_bytes(1000, 1000), 0);
    assert_int_equal(sparse_index_bytes(10, 1000), 20);
    assert_int_equal(sparse_index_bytes(999, 1000), 125);
    assert_int_equal(sparse_index_bytes(10, 1000000), 40);
    assert_int_equal(sparse_index_bytes(77255, 1000000), 125000);
    assert_int_equal(sparse_index_bytes(10, UINT64_C(1) << 40), 80);
}

static void what_is_no_code_is_refused(void **state)
{
    (void)state;
    /* lists of 16 bits */
    const uint16_t good[3] = {3, 9, 99}, twice[3] = {3, 3, 99}, outside[3] = {3, 9, 100};
    assert_true(sparse_index_decode((const unsigned char *)good, 3, 5, 100, again));
    assert_int_equal(again[2], 104);
    assert_false(sparse_index_decode((const unsigned char *)twice, 3, 5, 100, again));
    assert_false(sparse_index_decode((const unsigned char *)outside, 3, 5, 100, again));
    assert_false(sparse_index_decode((const unsigned char *)good, 101, 5, 100, again));
    /* bitmaps of 20 rows */
    const unsigned char rows[3] = {0xff, 0x03, 0x08}, beyond[3] = {0xff, 0x03, 0x10};
    assert_int_equal(sparse_index_bytes(11, 20), 3);
    assert_true(sparse_index_decode(rows, 11, 0, 20, again));
    assert_int_equal(again[10], 19);
    assert_false(sparse_index_decode(beyond, 11, 0, 20, again));
    assert_false(sparse_index_decode(rows, 12, 0, 20, again));
    assert_false(sparse_index_decode(rows, 10, 0, 20, again));
    /* lists of 64 bits, of which the largest wraps */
    const uint64_t huge[2] = {UINT64_MAX, 0};
    assert_false(sparse_index_decode((const unsigned char *)huge, 2, 0, UINT64_C(1) << 40, again));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indices_come_back),
        cmocka_unit_test(the_shortest_code_is_taken),
        cmocka_unit_test(what_is_no_code_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
