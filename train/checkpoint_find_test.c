/* checkpoint_find_test.c - finding elements takes time and memory in proportion to the tables,
 * whatever hostile files have in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "checkpoint_find.h"
#include "checkpoint_head.h"

/* One shard, whose pieces are of one tensor of two dimensions. */
struct file {
    struct table table;
    uint64_t rows, columns;
};

static struct file make_file(uint64_t rows, uint64_t columns, size_t room)
{
    struct file file = {.rows = rows, .columns = columns};
    file.table.pieces = calloc(room, sizeof *file.table.pieces);
    assert_non_null(file.table.pieces);
    return file;
}

static void add(struct file *file, uint64_t row, uint64_t column, uint64_t rows, uint64_t columns)
{
    file->table.pieces[file->table.count++] =
        (struct piece){.name = "x",
                       .dtype = TUTTI_UINT8,
                       .shape = {file->rows, file->columns},
                       .box = {2, {row, column}, {rows, columns}},
                       .offset = file->table.data_bytes};
    file->table.data_bytes += rows * columns;
}

/* All of the tensor is wanted. */
static enum tutti_status find_all(const struct file *file, uint64_t *elements)
{
    struct piece whole = {.name = "x",
                          .dtype = TUTTI_UINT8,
                          .shape = {file->rows, file->columns},
                          .box = {2, {0, 0}, {file->rows, file->columns}}};
    char *data = NULL;
    const struct parts parts = {.pieces = &whole, .data = &data, .count = 1};
    struct found *found;
    size_t count;
    *elements = 0;
    const enum tutti_status status = find_parts(&file->table, 1, &parts, &found, &count);
    for (size_t i = 0; i < count; i++) *elements += box_count(&found[i].box);
    free(found);
    return status;
}

static void a_thousand_slices_of_columns_in_bands_of_rows_are_found(void **state)
{
    (void)state;
    enum { SLICES = 1000, BANDS = 4 };
    struct file file = make_file(BANDS * 10, SLICES * 2, SLICES * BANDS);
    uint64_t elements;
    for (uint64_t band = 0; band < BANDS; band++) /* its ends lie at other rows in each slice */
        for (uint64_t slice = 0; slice < SLICES; slice++) {
            const uint64_t begin = band == 0 ? 0 : band * 10 + slice % 7;
            const uint64_t end = band == BANDS - 1 ? BANDS * 10 : (band + 1) * 10 + slice % 7;
            add(&file, begin, slice * 2, end - begin, 2);
        }
    assert_int_equal(find_all(&file, &elements), TUTTI_OK);
    assert_int_equal(elements, BANDS * 10 * SLICES * 2);
    free(file.table.pieces);
}

/* A row and a column of each two leave a box of one element at each crossing of the others. */
static void pieces_that_cross_each_other_are_refused_by_name(void **state)
{
    (void)state;
    enum { LINES = 300 };
    struct file file = make_file(2 * LINES, 2 * LINES, 2 * LINES);
    uint64_t elements;
    for (uint64_t i = 0; i < LINES; i++) {
        add(&file, 0, 2 * i, 2 * LINES, 1);
        add(&file, 2 * i, 0, 1, 2 * LINES);
    }
    assert_int_equal(find_all(&file, &elements), TUTTI_UNSUPPORTED);
    assert_non_null(strstr(tutti_error_message(), "tensor 'x' is in 600 pieces, so many of which "
                                                  "cross each other that more than"));
    free(file.table.pieces);
}

/* A piece of many blocks, of which single columns are left: every other one is elsewhere, too. */
static void blocks_are_not_read_again_for_each_column(void **state)
{
    (void)state;
    enum { COLUMNS = 512, BLOCKS = 512 };
    const uint64_t rows = BLOCKS * (uint64_t)HEAD_BLOCK_BYTES / COLUMNS;
    struct file file = make_file(rows, COLUMNS, COLUMNS + 1);
    uint64_t elements;
    for (uint64_t i = 0; i < COLUMNS / 2; i++) {
        add(&file, 0, 2 * i, rows, 1);
        add(&file, 0, 2 * i + 1, 1, 1);
    }
    add(&file, 1, 0, rows - 1, COLUMNS);
    assert_int_equal(find_all(&file, &elements), TUTTI_UNSUPPORTED);
    assert_non_null(strstr(tutti_error_message(), "tensor 'x' is in 513 pieces, so many of which "
                                                  "cross each other that each block"));
    free(file.table.pieces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_slices_of_columns_in_bands_of_rows_are_found),
        cmocka_unit_test(pieces_that_cross_each_other_are_refused_by_name),
        cmocka_unit_test(blocks_are_not_read_again_for_each_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
