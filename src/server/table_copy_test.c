/* table_copy_test.c - a copy that is loaded gives the same tables, bit for bit, also if they change
 * while it is made; a later pass has what has changed; bytes that are damaged, cut off or of other
 * tables are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/table_copy.h"

enum { ROWS = 60000, WIDTH = 5, SHARE = 100000, FIRST = 17, BATCH = 500 };

static const struct table_optimizer adam = {
    .kind = TABLE_ADAM, .rate = 0.1, .first_beta = 0.9, .second_beta = 0.999, .epsilon = 1e-8};
static const struct table_optimizer sgd = {.kind = TABLE_SGD, .rate = 0.25};

static struct table_spec words(void)
{
    return (struct table_spec){.name = "words",
                               .kind = TABLE_ROWS,
                               .count = ROWS,
                               .width = WIDTH,
                               .seed = 3,
                               .initial = {TABLE_INITIAL_NORMAL, 0, 0.1f},
                               .optimizer = adam};
}

static struct table_spec layer(const struct table_optimizer *optimizer)
{
    return (struct table_spec){.name = "layer",
                               .kind = TABLE_DENSE,
                               .count = 2 * SHARE,
                               .first = FIRST,
                               .share = SHARE,
                               .seed = 4,
                               .initial = {TABLE_INITIAL_UNIFORM, 0, 0.1f},
                               .optimizer = *optimizer};
}

static struct tables *make(uint64_t bytes_max)
{
    struct tables *tables;
    assert_int_equal(tables_create(bytes_max, &tables), TUTTI_OK);
    return tables;
}

static struct table *add(struct tables *tables, struct table_spec spec)
{
    struct table *table;
    assert_int_equal(tables_add(tables, &spec, &table), TUTTI_OK);
    return table;
}

static struct tables *make_both(void)
{
    struct tables *const tables = make(0);
    add(tables, words());
    add(tables, layer(&adam));
    return tables;
}

/* A step for some rows, which the number chooses, and for a part of the share. */
static void work(struct tables *tables, uint64_t number)
{
    const struct table_initial noise = {TABLE_INITIAL_UNIFORM, 0, 1};
    static float numbers[BATCH * WIDTH];
    int64_t rows[BATCH];
    table_initial_row(&noise, 1, number, BATCH * WIDTH, numbers);
    for (int i = 0; i < BATCH; i++) {
        const float share = numbers[i] * numbers[i] * numbers[i];
        rows[i] = (int64_t)(share * share * ROWS);
    }
    const struct table_gradients list = {BATCH, rows, numbers};
    const float *const lists[] = {numbers};
    assert_int_equal(table_update_rows(tables_at(tables, 0), 0, 1, &list, 1), TUTTI_OK);
    assert_int_equal(table_update_dense(tables_at(tables, 1), 0,
                                        FIRST + number * 7919 % (SHARE - BATCH), BATCH, 1, lists, 1),
                     TUTTI_OK);
}

static void expect_same(const struct tables *a, const struct tables *b)
{
    static int64_t rows[ROWS];
    static float values[2][ROWS * WIDTH], shares[2][SHARE];
    const struct tables *const both[] = {a, b};
    for (int i = 0; i < ROWS; i++) rows[i] = i;
    for (int t = 0; t < 2; t++) {
        assert_int_equal(table_read_rows(tables_at(both[t], 0), ROWS, rows, values[t]), TUTTI_OK);
        assert_int_equal(table_read_dense(tables_at(both[t], 1), FIRST, SHARE, shares[t]), TUTTI_OK);
    }
    assert_memory_equal(values[0], values[1], sizeof values[0]);
    assert_memory_equal(shares[0], shares[1], sizeof shares[0]);
    for (size_t t = 0; t < 2; t++)
        assert_int_equal(table_steps(tables_at(a, t)), table_steps(tables_at(b, t)));
}

/* Values, state and steps: further work has the same results. */
static void expect_same_future(struct tables *a, struct tables *b)
{
    expect_same(a, b);
    for (uint64_t i = 0; i < 3; i++) work(a, 1000 + i), work(b, 1000 + i);
    expect_same(a, b);
}

/* One call, loaded at once; the bytes. */
static size_t copy_some(const struct tables *from, struct tables_copy *copy, struct tables *to,
                        struct tables_loaded *loaded, size_t capacity)
{
    size_t size, used;
    unsigned char *const bytes = malloc(capacity);
    assert_non_null(bytes);
    assert_int_equal(tables_copy_next(from, copy, bytes, capacity, &size), TUTTI_OK);
    assert_int_equal(tables_load(to, bytes, size, &used, loaded), TUTTI_OK);
    assert_int_equal(used, size);
    free(bytes);
    return size;
}

static size_t copy_all(const struct tables *from, struct tables_copy *copy, struct tables *to,
                       struct tables_loaded *loaded)
{
    size_t size = 0;
    while (!tables_copy_is_current(from, copy)) {
        const size_t more = copy_some(from, copy, to, loaded, 50000);
        assert_true(more > 0);
        size += more;
    }
    return size;
}

static void a_copy_gives_the_same_tables(void **state)
{
    (void)state;
    struct tables *const from = make_both(), *const to = make(0);
    struct tables_copy copy;
    struct tables_loaded loaded = {0, 0};
    for (uint64_t i = 0; i < 200; i++) work(from, i);
    assert_int_equal(table_set_rate(tables_at(from, 0), 0.05), TUTTI_OK);
    tables_copy_init(&copy);
    const uint64_t pending = tables_copy_pending(from, &copy);
    const size_t size = copy_all(from, &copy, to, &loaded);
    assert_true(size > pending * 95 / 100 && size < pending + 10000);
    assert_int_equal(tables_copy_pending(from, &copy), 0);
    assert_int_equal(loaded.passes, 1);
    assert_int_equal(tables_count(to), 2);
    assert_true(table_spec_of(tables_at(to, 0))->optimizer.rate == 0.05);
    assert_int_equal(table_use_of(tables_at(to, 0)).rows, table_use_of(tables_at(from, 0)).rows);
    assert_int_equal(copy_some(from, &copy, to, &loaded, 50000), 0);
    expect_same_future(from, to);
    tables_free(from);
    tables_free(to);
}

static void a_copy_follows_tables_that_change(void **state)
{
    (void)state;
    struct tables *const from = make_both(), *const to = make(0);
    struct tables_copy copy;
    struct tables_loaded loaded = {0, 0};
    uint64_t number = 0;
    while (number < 100) work(from, number++);
    tables_copy_init(&copy);
    for (int call = 0; loaded.passes < 3; call++) {
        assert_true(call < 10000);
        copy_some(from, &copy, to, &loaded, 20000);
        if (call % 2) work(from, number++);
    }
    assert_false(tables_copy_is_current(from, &copy));
    copy_all(from, &copy, to, &loaded);
    expect_same(from, to);

    /* A backup is kept up to date for what has changed. */
    const size_t whole = table_use_of(tables_at(from, 0)).payload_bytes;
    const int64_t row = 1;
    const float gradient[WIDTH] = {1};
    const struct table_gradients list = {1, &row, gradient};
    assert_int_equal(table_update_rows(tables_at(from, 0), 0, 1, &list, 1), TUTTI_OK);
    assert_true(copy_all(from, &copy, to, &loaded) < whole / 4);
    expect_same_future(from, to);
    tables_free(from);
    tables_free(to);
}

static void tables_that_come_during_a_pass_are_in_the_next(void **state)
{
    (void)state;
    struct tables *const from = make(0), *const to = make(0);
    struct tables_copy copy;
    struct tables_loaded loaded = {0, 0};
    add(from, words());
    const int64_t row = 5;
    const float values[WIDTH] = {1, 2, 3, 4, 5};
    assert_int_equal(table_write_rows(tables_at(from, 0), 1, &row, values), TUTTI_OK);
    tables_copy_init(&copy);
    copy_some(from, &copy, to, &loaded, tables_copy_capacity_min(from));
    add(from, layer(&adam));
    copy_all(from, &copy, to, &loaded);
    assert_true(loaded.passes == 2 && tables_count(to) == 2);
    expect_same_future(from, to);
    tables_free(from);
    tables_free(to);
}

static void no_tables_are_no_bytes(void **state)
{
    (void)state;
    struct tables *const from = make(0), *const to = make(0);
    struct tables_copy copy;
    struct tables_loaded loaded = {0, 0};
    unsigned char bytes[1000];
    size_t size = 7;
    tables_copy_init(&copy);
    assert_true(tables_copy_is_current(from, &copy));
    assert_int_equal(copy_some(from, &copy, to, &loaded, 50000), 0);
    assert_int_equal(tables_copy_next(from, &copy, bytes, 100, &size), TUTTI_INVALID_COUNT);
    assert_int_equal(size, 0);
    tables_free(from);
    tables_free(to);
}

/* ----------------------------------------------------------------------------- refusals */

/* Copies small tables into memory of exactly the size. */
static unsigned char *small_copy(size_t *size)
{
    struct tables *const from = make(0);
    struct table_spec small = layer(&sgd);
    small.count = small.share = 30, small.first = 0;
    struct table *const rows = add(from, words());
    add(from, small);
    int64_t numbers[20];
    float values[20 * WIDTH] = {0};
    for (int i = 0; i < 20; i++) numbers[i] = i * i, values[i * WIDTH] = (float)i;
    assert_int_equal(table_write_rows(rows, 20, numbers, values), TUTTI_OK);
    assert_int_equal(table_write_dense(tables_at(from, 1), 0, 30, values), TUTTI_OK);
    struct tables_copy copy;
    unsigned char *bytes = malloc(10000);
    assert_non_null(bytes);
    tables_copy_init(&copy);
    assert_int_equal(tables_copy_next(from, &copy, bytes, 10000, size), TUTTI_OK);
    assert_true(tables_copy_is_current(from, &copy));
    bytes = realloc(bytes, *size);
    assert_non_null(bytes);
    tables_free(from);
    return bytes;
}

static enum tutti_status load(struct tables *to, const unsigned char *bytes, size_t size,
                              size_t *used)
{
    struct tables_loaded loaded = {0, 0};
    return tables_load(to, bytes, size, used, &loaded);
}

static void each_changed_bit_is_noticed(void **state)
{
    (void)state;
    size_t size, used;
    unsigned char *const bytes = small_copy(&size);
    for (size_t bit = 0; bit < 8 * size; bit += 1 + bit / 400) {
        struct tables *const to = make(1 << 20);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(load(to, bytes, size, &used), TUTTI_CORRUPT);
        assert_true(used <= bit / 8);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        tables_free(to);
    }
    free(bytes);
}

static void bytes_may_come_in_pieces(void **state)
{
    (void)state;
    size_t size, used;
    unsigned char *const bytes = small_copy(&size);
    for (size_t piece = 1; piece < 200; piece += 13) {
        struct tables *const to = make(0);
        struct tables_loaded loaded = {0, 0};
        size_t begin = 0, end = 0;
        while (end < size) {
            end = end + piece < size ? end + piece : size;
            unsigned char *const part = malloc(end - begin + 1); /* of its size, for the sanitizer */
            memcpy(part, bytes + begin, end - begin);
            assert_int_equal(tables_load(to, part, end - begin, &used, &loaded), TUTTI_OK);
            free(part);
            begin += used;
        }
        assert_true(begin == size && loaded.passes == 1);
        assert_int_equal(table_use_of(tables_at(to, 0)).rows, 20);
        tables_free(to);
    }
    free(bytes);
}

static void copies_of_other_tables_are_refused(void **state)
{
    (void)state;
    size_t size, used;
    unsigned char *const bytes = small_copy(&size);
    struct table_spec others[] = {words(), words(), words(), words(), layer(&sgd)};
    others[0].width++, others[1].seed++, others[2].name = "word",
                                         others[3].optimizer.nesterov = true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct tables *const to = make(0);
        add(to, others[i]);
        assert_int_equal(load(to, bytes, size, &used), TUTTI_INVALID_OPTIONS);
        assert_int_equal(used, 0);
        assert_int_equal(table_use_of(tables_at(to, 0)).rows, i < 4 ? 0 : SHARE);
        tables_free(to);
    }
    struct tables *const to = make(3000); /* too little for a block of rows */
    assert_int_equal(load(to, bytes, size, &used), TUTTI_NO_MEMORY);
    tables_free(to);
    free(bytes);
}

static void twice(void *context, uint64_t step, size_t count, const float *gradients,
                  float *parameters, float *const *state)
{
    (void)context, (void)step, (void)state;
    for (size_t i = 0; i < count; i++) parameters[i] -= 2 * gradients[i];
}

static void functions_do_not_come_with_a_copy(void **state)
{
    (void)state;
    const struct table_optimizer user = {.kind = TABLE_USER, .update = twice};
    struct table_spec spec = layer(&user);
    spec.share = 100;
    struct tables *const from = make(0), *const to = make(0);
    struct tables_copy copy;
    struct tables_loaded loaded = {0, 0};
    unsigned char bytes[2000];
    size_t size, used;
    float values[100] = {7};
    add(from, spec);
    assert_int_equal(table_write_dense(tables_at(from, 0), FIRST, 100, values), TUTTI_OK);
    tables_copy_init(&copy);
    assert_int_equal(tables_copy_next(from, &copy, bytes, sizeof bytes, &size), TUTTI_OK);
    assert_int_equal(tables_load(to, bytes, size, &used, &loaded), TUTTI_INVALID_OPTIONS);
    add(to, spec);
    assert_int_equal(tables_load(to, bytes, size, &used, &loaded), TUTTI_OK);
    assert_int_equal(table_read_dense(tables_at(to, 0), FIRST, 100, values), TUTTI_OK);
    assert_true(values[0] == 7);
    tables_free(from);
    tables_free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_gives_the_same_tables),
        cmocka_unit_test(a_copy_follows_tables_that_change),
        cmocka_unit_test(tables_that_come_during_a_pass_are_in_the_next),
        cmocka_unit_test(no_tables_are_no_bytes),
        cmocka_unit_test(each_changed_bit_is_noticed),
        cmocka_unit_test(bytes_may_come_in_pieces),
        cmocka_unit_test(copies_of_other_tables_are_refused),
        cmocka_unit_test(functions_do_not_come_with_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
