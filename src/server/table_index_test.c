/* table_index_test.c - every row that was added is found at its place, no other row is found, and
 * the index stays within its bytes, whatever the numbers of rows look like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/table_index.h"

enum { ROWS = 200000 };

static struct table_budget budget;
static struct table_memory memory;
static struct table_blocks blocks;
static struct table_index index_of;

static void begin(uint64_t bytes_max)
{
    budget = (struct table_budget){0, bytes_max};
    memory = (struct table_memory){&budget, 0};
    table_blocks_init(&blocks, &memory, 1);
    table_index_init(&index_of, &memory, &blocks);
}

static void end(void)
{
    table_index_release(&index_of);
    table_blocks_release(&blocks);
    assert_true(memory.used == 0 && budget.used == 0);
}

static bool add(int64_t row)
{
    const uint64_t hash = table_index_hash(row);
    if (!table_index_reserve(&index_of, hash)) return false;
    const uint32_t place = blocks.row_count;
    if (!table_blocks_add(&blocks, row)) return false;
    table_index_put(&index_of, hash, place);
    return true;
}

static int64_t increasing(uint32_t i)
{
    return i;
}

static int64_t strided(uint32_t i)
{
    return (int64_t)i << 32;
}

static int64_t scattered(uint32_t i)
{
    return (int64_t)(i * UINT64_C(0x9e3779b97f4a7c15) >> 1);
}

static void expect_all(int64_t (*row)(uint32_t))
{
    for (uint32_t i = 0; i < blocks.row_count; i++)
        assert_int_equal(table_index_find(&index_of, table_index_hash(row(i)), row(i)), i);
    for (uint32_t i = blocks.row_count; i < blocks.row_count + 1000; i++)
        assert_int_equal(table_index_find(&index_of, table_index_hash(row(i)), row(i)),
                         TABLE_PLACE_NONE);
}

static void finds_all_rows_and_no_other(void **state)
{
    (void)state;
    int64_t (*const rows[])(uint32_t) = {increasing, strided, scattered};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        begin(UINT64_MAX);
        expect_all(rows[r]);
        for (uint32_t i = 0; i < ROWS; i++) {
            assert_true(add(rows[r](i)));
            if (i == 0 || i == 9 || i == 10 || i == 4000) expect_all(rows[r]);
        }
        expect_all(rows[r]);
        uint64_t bytes = 0;
        for (int s = 0; s < TABLE_INDEX_SEGMENTS; s++)
            bytes += index_of.segments[s].bucket_count * sizeof(struct table_bucket);
        assert_true(bytes <= 8 * (uint64_t)ROWS);
        end();
    }
}

/* Rows whose hashes have the same segment and tag, and nearly the same bucket. */
static void finds_rows_that_meet(void **state)
{
    (void)state;
    enum { MEET = 40 };
    static int64_t rows[MEET];
    size_t count = 0;
    begin(UINT64_MAX);
    for (int64_t row = 0; count < MEET; row++)
        if ((table_index_hash(row) & UINT64_C(0xff000000000000ff)) == 0) rows[count++] = row;
    for (size_t i = 0; i < MEET; i++) {
        for (size_t j = 0; j < MEET; j++)
            assert_int_equal(table_index_find(&index_of, table_index_hash(rows[j]), rows[j]),
                             j < i ? j : TABLE_PLACE_NONE);
        assert_true(add(rows[i]));
    }
    end();
}

static void fails_without_memory_and_keeps_what_it_has(void **state)
{
    (void)state;
    begin(1 << 20);
    uint32_t added = 0;
    while (add(increasing(added))) added++;
    assert_true(added > 1000 && blocks.row_count == added);
    assert_true(memory.used <= 1 << 20);
    expect_all(increasing);
    end();
}

static void asks_for_memory_without_faults(void **state)
{
    (void)state;
    begin(UINT64_MAX);
    for (uint32_t i = 0; i < 5000; i++) {
        table_index_fetch_bucket(&index_of, table_index_hash(scattered(i)));
        table_index_fetch_row(&index_of, table_index_hash(scattered(i)));
        if (i % 3 == 0) assert_true(add(scattered(i)));
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_all_rows_and_no_other),
        cmocka_unit_test(finds_rows_that_meet),
        cmocka_unit_test(fails_without_memory_and_keeps_what_it_has),
        cmocka_unit_test(asks_for_memory_without_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
