#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/table_json.h"

static const char sample[] =
    "{ \"tutti_table\": 1, \"comment\": \"by hand\", \"later\": [1, {}],\n"
    "  \"entries\": [\n"
    "    {\"ranks\": 8, \"hosts\": 4, \"racks\": 2, \"loopback\": false, \"collective\": "
    "\"allreduce\",\n"
    "     \"dtypes\": \"float16\", \"memory\": \"mapped\", \"from_bytes\": 4096, \"to_bytes\": "
    "16384,\n"
    "     \"algorithm\": \"hierarchical\", \"only_hosts\": true, \"time_ns\": 1234,\n"
    "     \"faster_permille\": 120, \"seen\": \"on Monday\"},\n"
    "    {\"ranks\": 3, \"collective\": \"broadcast\", \"to_bytes\": 64, \"algorithm\": "
    "\"tree\"},\n"
    "    {\"ranks\": 2, \"loopback\": true, \"collective\": \"barrier\", \"to_bytes\": 1,\n"
    "     \"algorithm\": \"dissemination\"}]}\n";

static void load(const char *text, size_t size, struct tune_table *table)
{
    tune_table_init(table);
    if (table_json_load(text, size, table) != TUTTI_OK) fail_msg("%s", tutti_error_message());
}

static char *dumped(const struct tune_table *table, size_t *size)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, size);
    assert_non_null(file);
    table_json_dump(table, file);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void everything_that_is_written_is_read(void **state)
{
    (void)state;
    struct tune_table table;
    load(sample, sizeof sample - 1, &table);
    assert_int_equal(table.count, 3);
    const struct tune_entry *entry = &table.entries[2]; /* sorted by ranks */
    assert_int_equal(entry->key.shape.rank_count, 8);
    assert_int_equal(entry->key.shape.host_count, 4);
    assert_int_equal(entry->key.shape.rack_count, 2);
    assert_false(entry->key.shape.is_loopback);
    assert_int_equal(entry->key.collective, COLLECTIVE_ALLREDUCE);
    assert_int_equal(entry->key.dtypes, CALIBRATION_CLASS_FLOAT16);
    assert_true(entry->key.is_mapped);
    assert_int_equal(entry->bytes_from, 4096);
    assert_int_equal(entry->bytes_to, 16384);
    assert_string_equal(entry->algorithm->name, "hierarchical");
    assert_true(entry->only_hosts);
    assert_int_equal(entry->time_ns, 1234);
    assert_int_equal(entry->faster_permille, 120);
    entry = &table.entries[1];
    assert_int_equal(entry->key.shape.host_count, 1);
    assert_int_equal(entry->key.shape.rack_count, 1);
    assert_int_equal(entry->key.dtypes, CALIBRATION_CLASS_PLAIN);
    assert_false(entry->key.is_mapped);
    assert_int_equal(entry->bytes_from, 0);
    assert_false(entry->only_hosts);
    assert_true(table.entries[0].key.shape.is_loopback);
    tune_table_release(&table);
}

static void what_is_dumped_comes_back_equal(void **state)
{
    (void)state;
    struct tune_table table, again;
    size_t size, again_size;
    load(sample, sizeof sample - 1, &table);
    char *text = dumped(&table, &size);
    load(text, size, &again);
    char *again_text = dumped(&again, &again_size);
    assert_string_equal(text, again_text);
    assert_true(tune_table_fingerprint(&table) == tune_table_fingerprint(&again));
    free(text);
    free(again_text);
    tune_table_release(&table);
    tune_table_release(&again);
}

/* It decides nothing, so tables that differ in it alone are the same to ranks. */
static void a_loaded_table_says_so(void **state)
{
    (void)state;
    static const char loaded[] = "{\"tutti_table\": 1, \"loaded\": true, \"entries\": []}";
    struct tune_table table, quiet;
    size_t size;
    load(loaded, sizeof loaded - 1, &table);
    assert_true(table.is_loaded);
    load(sample, sizeof sample - 1, &quiet);
    assert_false(quiet.is_loaded);
    const uint64_t before = tune_table_fingerprint(&quiet);
    assert_int_equal(tune_table_merge(&quiet, &table), TUTTI_OK);
    assert_true(quiet.is_loaded);
    assert_true(tune_table_fingerprint(&quiet) == before);
    char *text = dumped(&quiet, &size);
    load(text, size, &table);
    assert_true(table.is_loaded);
    assert_int_equal(table.count, quiet.count);
    free(text);
    tune_table_release(&table);
    tune_table_release(&quiet);
}

static void an_empty_table_is_one(void **state)
{
    (void)state;
    struct tune_table table;
    size_t size;
    load("{\"tutti_table\": 1}", 18, &table);
    assert_int_equal(table.count, 0);
    char *text = dumped(&table, &size);
    load(text, size, &table);
    assert_int_equal(table.count, 0);
    free(text);
}

#define ENTRY "{\"tutti_table\": 1,\n\"entries\": [\n"
#define NAMES \
    "\"ranks\": 4, \"to_bytes\": 8, \"collective\": \"allreduce\", \"algorithm\": \"ring\""
/* Text and what the message must have: the line, and words. */
static const struct {
    const char *text, *line, *words;
} wrong[] = {
    {"", "line 1: ", "near end of file"},
    {"[]", "line 1: ", "an object"},
    {"{\n\"tutti_table\":\n2}", "line 3: ", "1 is expected"},
    {"{}", "line 1: ", "\"tutti_table\": 1 is expected"},
    {"{\"tutti_table\": 1,\n\"entries\": 1}", "line 2: ", "a list"},
    {"{\"tutti_table\": 1,\n\"loaded\": 1}", "line 2: ", "true or false"},
    {ENTRY "1]}", "line 3: ", "an object is expected"},
    {ENTRY "{" NAMES "},\n{}]}", "line 4: ", "\"collective\": the name of a collective is expected"},
    {ENTRY "{\n\"collective\":\n\"all\\u001b\"}]}", "line 5: ", "\"all?\" is not known"},
    {ENTRY "{\"collective\": 1}]}", "line 3: ", "the name of a collective"},
    {ENTRY "{\"collective\": \"allgather\", \"algorithm\":\n\"twoshot\"}]}",
     "line 4: ", "\"twoshot\" is not known: the name of an algorithm of this collective"},
    {ENTRY "{" NAMES ", \"dtypes\": \"int\"}]}", "line 3: ", "plain, float16 or float8"},
    {ENTRY "{" NAMES ", \"dtypes\": 3}]}", "line 3: ", "plain, float16 or float8"},
    {ENTRY "{" NAMES ", \"memory\": \"shared\"}]}", "line 3: ", "private or mapped"},
    {ENTRY "{" NAMES ", \"memory\": null}]}", "line 3: ", "private or mapped"},
    {ENTRY "{" NAMES ", \"loopback\": 1}]}", "line 3: ", "true or false"},
    {ENTRY "{" NAMES ",\n\"hosts\": -1}]}", "line 4: ", "a whole number from 0 to 65536"},
    {ENTRY "{" NAMES ", \"hosts\": 1.5}]}", "line 3: ", "a whole number"},
    {ENTRY "{" NAMES ",\n\"hosts\": 5}]}", "line 3: ", "1 to the number of ranks"},
    {ENTRY "{" NAMES ", \"from_bytes\": 3}]}", "line 3: ", "a power of two"},
    {ENTRY "{" NAMES ", \"from_bytes\": 281474976710657}]}", "line 3: ", "to 281474976710656"},
    {ENTRY "{" NAMES ", \"only_hosts\": true}]}", "line 3: ", "where there are racks"},
    {ENTRY "{" NAMES ", \"ranks\": 5}]}", "line 3: ", "duplicate"},
};

static void what_is_wrong_is_told_with_its_line_and_what_is_expected(void **state)
{
    (void)state;
    struct tune_table table;
    load(sample, sizeof sample - 1, &table);
    const uint64_t before = tune_table_fingerprint(&table);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(table_json_load(wrong[i].text, strlen(wrong[i].text), &table),
                         TUTTI_INVALID_OPTIONS);
        assert_true(tune_table_fingerprint(&table) == before);
        const char *message = tutti_error_message();
        if (strncmp(message, wrong[i].line, strlen(wrong[i].line)) != 0 ||
            strstr(message, wrong[i].words) == NULL)
            fail_msg("%s\nsays: %s\nand not: %s...%s", wrong[i].text, message, wrong[i].line,
                     wrong[i].words);
    }
    tune_table_release(&table);
}

static void every_text_that_ends_too_early_is_refused(void **state)
{
    (void)state;
    for (size_t size = 0; size + 3 < sizeof sample; size++) {
        struct tune_table table;
        tune_table_init(&table);
        char *text = malloc(size + 1); /* so that sanitizers see its end */
        assert_non_null(text);
        memcpy(text, sample, size);
        assert_int_equal(table_json_load(text, size, &table), TUTTI_INVALID_OPTIONS);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_that_is_written_is_read),
        cmocka_unit_test(what_is_dumped_comes_back_equal),
        cmocka_unit_test(a_loaded_table_says_so),
        cmocka_unit_test(an_empty_table_is_one),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line_and_what_is_expected),
        cmocka_unit_test(every_text_that_ends_too_early_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
