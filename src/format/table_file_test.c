#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/table_file.h"

static char root[] = "/tmp/tutti-table-XXXXXX";
static char path[512];

static int make_root(void **state)
{
    (void)state;
    strcpy(root + sizeof root - 7, "XXXXXX");
    if (mkdtemp(root) == NULL) return -1;
    snprintf(path, sizeof path, "%s/a/b.json", root);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void save(void)
{
    struct tune_table table;
    const struct tune_entry entry = {
        .key = {.shape = {4, 1, 1, false}, .collective = COLLECTIVE_BROADCAST},
        .bytes_to = 64,
        .algorithm = algo_find(COLLECTIVE_BROADCAST, "tree")};
    tune_table_init(&table);
    assert_int_equal(tune_table_add(&table, &entry), TUTTI_OK);
    assert_int_equal(table_file_save(path, &table), TUTTI_OK);
    tune_table_release(&table);
}

static void expect_refusal(const char *words)
{
    struct tune_table table;
    tune_table_init(&table);
    assert_int_equal(table_file_load(path, &table), TUTTI_INVALID_OPTIONS);
    assert_int_equal(table.count, 0);
    const char *message = tutti_error_message();
    if (strstr(message, path) == NULL || strstr(message, words) == NULL)
        fail_msg("%s\nand not: %s", message, words);
}

static void what_is_saved_is_loaded(void **state)
{
    (void)state;
    struct tune_table table;
    tune_table_init(&table);
    save();
    save();                       /* over the one that is there */
    for (int i = 0; i < 2; i++) { /* loading clears the table's former content */
        assert_int_equal(table_file_load(path, &table), TUTTI_OK);
        assert_int_equal(table.count, 1);
        assert_string_equal(table.entries[0].algorithm->name, "tree");
    }
    tune_table_release(&table);
}

static void a_file_that_others_can_write_is_refused(void **state)
{
    (void)state;
    save();
    assert_int_equal(chmod(path, 0646), 0);
    expect_refusal("other users can write it (mode 0646)");
}

static void what_is_no_table_is_refused(void **state)
{
    (void)state;
    expect_refusal("No such file");
    save();
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"tutti_table\": 1,\n\"entries\": {}}", file);
    assert_int_equal(fclose(file), 0);
    expect_refusal("b.json: line 2: \"entries\": a list");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal("no regular file");
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(what_is_saved_is_loaded),
        IN_A_FOLDER(a_file_that_others_can_write_is_refused),
        IN_A_FOLDER(what_is_no_table_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
