/* snapshot_test.c - tables come back from a file with all that the next steps need; a file that is not whole, or of
 * other tables, is refused. */
#include <errno.h>
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

#include "base/status.h"
#include "server/snapshot.h"

enum { WIDTH = 3, ELEMENTS = 50000 };

static const struct table_optimizer adam = {
    .kind = TABLE_ADAM, .rate = 0.1, .first_beta = 0.9, .second_beta = 0.999, .epsilon = 1e-8};
static char folder[] = "snapshot-XXXXXX", path[64];
static const struct snapshot_part part = {.server = 1, .server_count = 2, .step = 77};

static struct tables *make(size_t width)
{
    const struct table_initial initial = {TABLE_INITIAL_UNIFORM, 0, 0.1f};
    const struct table_spec words = {.name = "words",
                                     .kind = TABLE_ROWS,
                                     .count = 1000,
                                     .width = width,
                                     .initial = initial,
                                     .optimizer = adam},
                            layer = {.name = "layer",
                                     .kind = TABLE_DENSE,
                                     .count = ELEMENTS,
                                     .share = ELEMENTS,
                                     .initial = initial,
                                     .optimizer = adam};
    struct tables *tables;
    struct table *table;
    assert_int_equal(tables_create(0, &tables), TUTTI_OK);
    assert_int_equal(tables_add(tables, &words, &table), TUTTI_OK);
    assert_int_equal(tables_add(tables, &layer, &table), TUTTI_OK);
    return tables;
}

static void work(struct tables *tables, float by)
{
    static float dense[ELEMENTS];
    const int64_t rows[] = {7, 900, 7};
    const float values[3 * WIDTH] = {by, 2, 3, 4, by, 6, 7, 8, by};
    const struct table_gradients list = {3, rows, values};
    const float *const lists[] = {dense};
    for (int i = 0; i < ELEMENTS; i++) dense[i] = by * (float)i;
    assert_int_equal(table_update_rows(tables_at(tables, 0), 0, 1, &list, 1), TUTTI_OK);
    assert_int_equal(table_update_dense(tables_at(tables, 1), 0, 0, ELEMENTS, 1, lists, 1),
                     TUTTI_OK);
}

static void expect_same(const struct tables *a, const struct tables *b)
{
    static float dense[2][ELEMENTS];
    float found[2][3 * WIDTH];
    const int64_t rows[] = {7, 8, 900};
    const struct tables *const both[] = {a, b};
    for (int t = 0; t < 2; t++) {
        assert_int_equal(table_read_rows(tables_at(both[t], 0), 3, rows, found[t]), TUTTI_OK);
        assert_int_equal(table_read_dense(tables_at(both[t], 1), 0, ELEMENTS, dense[t]), TUTTI_OK);
    }
    assert_memory_equal(found[0], found[1], sizeof found[0]);
    assert_memory_equal(dense[0], dense[1], sizeof dense[0]);
}

static void expect_refused(size_t width, int server_count, enum tutti_status status)
{
    struct tables *const tables = make(width);
    struct snapshot_part read = {.server = 1, .server_count = server_count};
    assert_int_equal(snapshot_read(tables, folder, &read), status);
    tables_free(tables);
}

static void tables_come_back_with_their_optimizers(void **state)
{
    (void)state;
    struct tables *const old = make(WIDTH), *const new = make(WIDTH);
    struct snapshot_part read = {.server = 1, .server_count = 2};
    for (int i = 1; i < 5; i++) work(old, (float)i);
    assert_int_equal(snapshot_write(old, folder, &part), TUTTI_OK);
    assert_int_equal(snapshot_read(new, folder, &read), TUTTI_OK);
    assert_int_equal(read.step, 77);
    expect_same(old, new);
    work(old, -3);
    work(new, -3);
    expect_same(old, new);
    tables_free(old);
    tables_free(new);
}

static void other_tables_are_refused(void **state)
{
    (void)state;
    expect_refused(WIDTH + 1, 2, TUTTI_INVALID_OPTIONS);
    expect_refused(WIDTH, 3, TUTTI_INVALID_OPTIONS); /* no such file */
    assert_non_null(strstr(tutti_error_message(), "has the tables of 2 servers, and here are 3"));
}

static void set_byte(long at, int by)
{
    FILE *const file = fopen(path, "r+e");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_true(fputc(byte ^ by, file) != EOF);
    assert_int_equal(fclose(file), 0);
}

static void a_damaged_file_is_refused(void **state)
{
    (void)state;
    struct stat whole;
    assert_int_equal(stat(path, &whole), 0);
    for (long at = 8; at < whole.st_size; at += at < 32 ? 1 : whole.st_size / 50) {
        set_byte(at, 1);
        expect_refused(WIDTH, 2, TUTTI_CORRUPT);
        set_byte(at, 1);
    }
    set_byte(0, 1);
    expect_refused(WIDTH, 2, TUTTI_CORRUPT);
    set_byte(0, 1);
    set_byte(4, 2);
    expect_refused(WIDTH, 2, TUTTI_UNSUPPORTED);
    set_byte(4, 2);
    for (off_t size = whole.st_size - 1; size > 0; size /= 3) {
        assert_int_equal(truncate(path, size), 0);
        expect_refused(WIDTH, 2, TUTTI_CORRUPT);
    }
}

/* The file of the last time stays, and nothing is left beside it. */
static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct tables *const tables = make(WIDTH);
    assert_int_equal(snapshot_write(tables, "not there", &part), TUTTI_SYSTEM);
    assert_non_null(strstr(tutti_error_message(), "not there"));
    assert_int_equal(snapshot_write(tables, "", &part), TUTTI_INVALID_OPTIONS); /* no file in / */
    tables_free(tables);
}

static int begin(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/server-1-of-2.tables", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder); /* fails if anything is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_come_back_with_their_optimizers),
        cmocka_unit_test(other_tables_are_refused),
        cmocka_unit_test(a_damaged_file_is_refused),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
