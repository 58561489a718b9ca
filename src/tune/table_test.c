#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tune/table.h"

static struct tune_entry entry_of(const char *algorithm, uint64_t from, uint64_t to)
{
    return (struct tune_entry){.key = {.shape = {.rank_count = 8, .host_count = 2, .rack_count = 1},
                                       .collective = COLLECTIVE_ALLREDUCE},
                               .bytes_from = from,
                               .bytes_to = to,
                               .algorithm = algo_find(COLLECTIVE_ALLREDUCE, algorithm),
                               .time_ns = 1000,
                               .faster_permille = 100};
}

static void add(struct tune_table *table, struct tune_entry entry)
{
    if (tune_table_add(table, &entry) != TUTTI_OK) fail_msg("%s", tutti_error_message());
}

static const char *found(const struct tune_table *table, uint64_t bytes)
{
    const struct tune_entry like = entry_of("ring", 0, 1);
    const struct tune_entry *entry = tune_table_find(table, &like.key, bytes);
    return entry != NULL ? entry->algorithm->name : "none";
}

/* Entries are sorted and do not overlap, as finding requires. */
static void expect_valid(const struct tune_table *table)
{
    for (int i = 0; i < table->count; i++) {
        const struct tune_entry *entry = &table->entries[i];
        assert_true(entry->bytes_from < entry->bytes_to);
        assert_ptr_equal(tune_table_find(table, &entry->key, entry->bytes_from), entry);
        assert_ptr_equal(tune_table_find(table, &entry->key, entry->bytes_to - 1), entry);
    }
}

static void a_range_has_its_begin_and_not_its_end(void **state)
{
    (void)state;
    struct tune_table table;
    tune_table_init(&table);
    assert_string_equal(found(&table, 0), "none");
    add(&table, entry_of("ring", 1024, 4096));
    add(&table, entry_of("tree", 0, 8));
    assert_string_equal(found(&table, 0), "tree");
    assert_string_equal(found(&table, 7), "tree");
    assert_string_equal(found(&table, 8), "none");
    assert_string_equal(found(&table, 1023), "none");
    assert_string_equal(found(&table, 1024), "ring");
    assert_string_equal(found(&table, 4095), "ring");
    assert_string_equal(found(&table, 4096), "none");
    assert_string_equal(found(&table, UINT64_MAX), "none");
    tune_table_release(&table);
}

static void every_part_of_the_key_counts(void **state)
{
    (void)state;
    struct tune_table table;
    tune_table_init(&table);
    const struct tune_entry entry = entry_of("ring", 8, 16);
    add(&table, entry);
    for (int part = 0; part < 7; part++) {
        struct tune_key key = entry.key;
        assert_non_null(tune_table_find(&table, &key, 8));
        switch (part) {
        case 0: key.shape.rank_count = 9; break;
        case 1: key.shape.host_count = 3; break;
        case 2: key.shape.rack_count = 2; break;
        case 3: key.shape.is_loopback = true; break;
        case 4: key.collective = COLLECTIVE_REDUCE; break;
        case 5: key.dtypes = CALIBRATION_CLASS_FLOAT8; break;
        default: key.is_mapped = true; break;
        }
        assert_null(tune_table_find(&table, &key, 8));
    }
    tune_table_release(&table);
}

static void what_only_moves_is_alike_for_all_dtypes(void **state)
{
    (void)state;
    struct tune_table table;
    tune_table_init(&table);
    struct tune_entry entry = entry_of("ring", 8, 16);
    entry.key.collective = COLLECTIVE_ALLGATHER;
    entry.key.dtypes = CALIBRATION_CLASS_FLOAT16;
    entry.algorithm = algo_find(COLLECTIVE_ALLGATHER, "ring");
    add(&table, entry);
    entry.key.dtypes = CALIBRATION_CLASS_FLOAT8;
    assert_non_null(tune_table_find(&table, &entry.key, 8));
    add(&table, entry);
    assert_int_equal(table.count, 1);
    tune_table_release(&table);
}

/* Compares with a map from each power of two to an algorithm, which covers all possible
 * questions. */
static void a_later_entry_wins_where_ranges_overlap(void **state)
{
    (void)state;
    enum { LOGS = 12, ROUNDS = 3000 };
    static const char *const names[] = {"ring", "tree", "twoshot", "oneshot"};
    const char *expected[LOGS];
    struct tune_table table;
    unsigned chance = 12345;
    tune_table_init(&table);
    for (int i = 0; i < LOGS; i++) expected[i] = "none";
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 20 == 0) {
            tune_table_release(&table);
            for (int i = 0; i < LOGS; i++) expected[i] = "none";
        }
        chance = chance * 1103515245 + 12345;
        const unsigned from = chance >> 8 & 0xff, length = chance >> 16 & 0xff;
        const unsigned first = from % (LOGS - 1), end = first + 1 + length % (LOGS - 1 - first);
        const char *name = names[chance >> 24 & 3];
        add(&table, entry_of(name, UINT64_C(1) << first, UINT64_C(1) << end));
        for (unsigned i = first; i < end; i++) expected[i] = name;
        for (unsigned i = 0; i < LOGS; i++)
            assert_string_equal(found(&table, UINT64_C(1) << i), expected[i]);
        expect_valid(&table);
    }
    tune_table_release(&table);
}

static void a_merge_adds_the_other_table_on_top(void **state)
{
    (void)state;
    struct tune_table table, other;
    tune_table_init(&table);
    tune_table_init(&other);
    add(&table, entry_of("ring", 0, 1024));
    add(&other, entry_of("tree", 64, 128));
    add(&other, entry_of("twoshot", 2048, 4096));
    assert_int_equal(tune_table_merge(&table, &other), TUTTI_OK);
    assert_string_equal(found(&table, 63), "ring");
    assert_string_equal(found(&table, 64), "tree");
    assert_string_equal(found(&table, 128), "ring");
    assert_string_equal(found(&table, 3000), "twoshot");
    assert_int_equal(table.count, 4);
    const uint64_t fingerprint = tune_table_fingerprint(&table);
    assert_int_equal(tune_table_merge(&table, &table), TUTTI_OK);
    assert_true(tune_table_fingerprint(&table) == fingerprint);
    tune_table_release(&table);
    tune_table_release(&other);
}

static void the_fingerprint_is_of_what_decides(void **state)
{
    (void)state;
    struct tune_table one, other;
    tune_table_init(&one);
    tune_table_init(&other);
    assert_true(tune_table_fingerprint(NULL) == 0);
    assert_true(tune_table_fingerprint(&one) == 0);
    struct tune_entry entries[] = {entry_of("ring", 8, 64), entry_of("tree", 64, 256),
                                   entry_of("twoshot", 8, 64)};
    entries[2].key.is_mapped = true;
    for (int i = 0; i < 3; i++) {
        add(&one, entries[i]);
        add(&other, entries[2 - i]);
    }
    const uint64_t fingerprint = tune_table_fingerprint(&one);
    assert_true(fingerprint != 0);
    assert_true(tune_table_fingerprint(&other) == fingerprint);
    entries[1].time_ns++;
    entries[1].faster_permille++;
    add(&other, entries[1]);
    assert_true(tune_table_fingerprint(&other) == fingerprint);
    entries[1].algorithm = algo_find(COLLECTIVE_ALLREDUCE, "chain");
    add(&other, entries[1]);
    assert_true(tune_table_fingerprint(&other) != fingerprint);
    entries[1] = entry_of("tree", 64, 512);
    add(&one, entries[1]);
    assert_true(tune_table_fingerprint(&one) != fingerprint);
    tune_table_release(&one);
    tune_table_release(&other);
}

static void what_is_out_of_bounds_is_refused(void **state)
{
    (void)state;
    struct tune_table table;
    tune_table_init(&table);
    add(&table, entry_of("ring", 8, 64));
    for (int fault = 0; fault < 17; fault++) {
        struct tune_entry entry = entry_of("tree", 8, 64);
        switch (fault) {
        case 0: entry.key.shape.rank_count = 1; break;
        case 1: entry.key.shape.rank_count = PLAN_RANKS_MAX + 1; break;
        case 2: entry.key.shape.host_count = 0; break;
        case 3: entry.key.shape.host_count = 9; break;
        case 4: entry.key.shape.rack_count = 0; break;
        case 5: entry.key.shape.rack_count = 3; break;
        case 6: entry.key.shape.is_loopback = true; break;
        case 7: entry.key.collective = COLLECTIVE_COUNT; break;
        case 8: entry.key.dtypes = CALIBRATION_CLASSES; break;
        case 9: entry.bytes_from = 9; break;
        case 10: entry.bytes_to = 65; break;
        case 11: entry.bytes_to = 8; break;
        case 12: entry.bytes_to = 2 * TUNE_BYTES_MAX; break;
        case 13: entry.algorithm = NULL; break;
        case 14: entry.algorithm = algo_find(COLLECTIVE_ALLGATHER, "ring"); break;
        case 15: entry.only_hosts = true; break;
        default: entry.faster_permille = TUNE_FASTER_PERMILLE_MAX + 1; break;
        }
        if (tune_table_add(&table, &entry) != TUTTI_INVALID_OPTIONS)
            fail_msg("fault %d is taken", fault);
        assert_string_equal(found(&table, 8), "ring");
    }
    assert_int_equal(table.count, 1);
    tune_table_release(&table);
}

static void a_table_has_an_end(void **state)
{
    (void)state;
    struct tune_table table;
    tune_table_init(&table);
    struct tune_entry entry = entry_of("ring", 1, 4);
    for (int i = 0; i < TUNE_ENTRIES_MAX; i++) {
        entry.key.shape.rank_count = i + 2;
        entry.key.shape.host_count = 1;
        add(&table, entry);
    }
    const uint64_t fingerprint = tune_table_fingerprint(&table);
    entry.key.shape.rank_count++;
    assert_int_equal(tune_table_add(&table, &entry), TUTTI_UNSUPPORTED);
    entry.key.shape.rank_count--;
    entry.bytes_to = 2; /* would leave a piece */
    assert_int_equal(tune_table_add(&table, &entry), TUTTI_UNSUPPORTED);
    assert_true(tune_table_fingerprint(&table) == fingerprint);
    entry.bytes_to = 8;
    add(&table, entry);
    tune_table_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_has_its_begin_and_not_its_end),
        cmocka_unit_test(every_part_of_the_key_counts),
        cmocka_unit_test(what_only_moves_is_alike_for_all_dtypes),
        cmocka_unit_test(a_later_entry_wins_where_ranges_overlap),
        cmocka_unit_test(a_merge_adds_the_other_table_on_top),
        cmocka_unit_test(the_fingerprint_is_of_what_decides),
        cmocka_unit_test(what_is_out_of_bounds_is_refused),
        cmocka_unit_test(a_table_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
