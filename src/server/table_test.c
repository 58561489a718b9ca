/* table_test.c - tables read what was written, steps take place as if a plain array had them, in the
 * order that is stated, wholly or not at all; memory stays near the payload. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/table.h"

static const struct table_optimizer sgd = {.kind = TABLE_SGD, .rate = 1};
static const struct table_optimizer adam = {
    .kind = TABLE_ADAM, .rate = 0.1, .first_beta = 0.9, .second_beta = 0.999, .epsilon = 1e-8};
static const struct table_optimizer adagrad = {
    .kind = TABLE_ADAGRAD, .rate = 0.1, .epsilon = 1e-10, .initial_state = 0.5};

static struct table_spec rows_of(const char *name, uint64_t count, size_t width,
                                 const struct table_optimizer *optimizer)
{
    return (struct table_spec){.name = name,
                               .kind = TABLE_ROWS,
                               .count = count,
                               .width = width,
                               .seed = 9,
                               .initial = {TABLE_INITIAL_UNIFORM, 0, 0.1f},
                               .optimizer = *optimizer,
                               .refuses_nan = true};
}

static struct table_spec dense_of(const char *name, uint64_t count, uint64_t first, uint64_t share,
                                  const struct table_optimizer *optimizer)
{
    return (struct table_spec){.name = name,
                               .kind = TABLE_DENSE,
                               .count = count,
                               .first = first,
                               .share = share,
                               .seed = 9,
                               .initial = {TABLE_INITIAL_UNIFORM, 0, 0.1f},
                               .optimizer = *optimizer,
                               .refuses_nan = true};
}

static struct tables *tables;

static struct table *add(const struct table_spec *spec)
{
    struct table *table;
    assert_int_equal(tables_add(tables, spec, &table), TUTTI_OK);
    assert_non_null(table);
    return table;
}

static int begin(void **state)
{
    (void)state;
    return tables_create(0, &tables) != TUTTI_OK;
}

static int end(void **state)
{
    (void)state;
    tables_free(tables);
    return 0;
}

static float any(uint64_t seed)
{
    const struct table_initial initial = {TABLE_INITIAL_UNIFORM, 0, 1};
    float value;
    table_initial_row(&initial, 77, seed, 1, &value);
    return value;
}

static void expect_message(const char *part)
{
    if (strstr(tutti_error_message(), part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", tutti_error_message(), part);
}

/* ---------------------------------------------------------------------------- the catalogue */

static void tables_are_found_by_their_names(void **state)
{
    (void)state;
    char name[300];
    struct table *found, *added[50];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "table %d", i);
        const struct table_spec spec =
            i % 2 ? rows_of(name, 10, 3, &adam) : dense_of(name, 100, 10, 20, &sgd);
        added[i] = add(&spec);
    }
    assert_int_equal(tables_count(tables), 50);
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "table %d", i);
        assert_int_equal(tables_find(tables, name, &found), TUTTI_OK);
        assert_true(found == added[i] && tables_at(tables, (size_t)i) == found);
        assert_string_equal(table_spec_of(found)->name, name);
    }
    assert_int_equal(tables_find(tables, "user\n", &found), TUTTI_INVALID_OPTIONS);
    expect_message("there is no table \"user?\"; the tables are: \"table 0\", \"table 1\"");
    assert_null(found);
}

static void specs_that_cannot_be_used_are_refused(void **state)
{
    (void)state;
    char name[257];
    memset(name, 'a', 256);
    name[256] = '\0';
    const struct table_spec good = rows_of("good", 10, 3, &adam);
    add(&good);
    struct table_spec bad[] = {
        rows_of("good", 10, 3, &adam),
        rows_of("", 10, 3, &adam),
        rows_of(NULL, 10, 3, &adam),
        rows_of(name, 10, 3, &adam),
        rows_of("a\x1b[2J", 10, 3, &adam),
        rows_of("a", 0, 3, &adam),
        rows_of("a", UINT64_MAX, 3, &adam),
        rows_of("a", 10, 0, &adam),
        rows_of("a", 10, TABLE_WIDTH_MAX + 1, &adam),
        dense_of("a", 10, 11, 0, &adam),
        dense_of("a", 10, 5, 6, &adam),
        dense_of("a", 10, 5, UINT64_MAX - 2, &adam),
        rows_of("a", 10, 3, &adam),
        rows_of("a", 10, 3, &adam),
        rows_of("a", 10, 3, &adam),
        rows_of("a", 10, 3, &adam),
    };
    const size_t count = sizeof bad / sizeof *bad;
    bad[count - 4].kind = (enum table_kind)5;
    bad[count - 3].initial.scale = NAN;
    bad[count - 2].initial.kind = (enum table_initial_kind)7;
    bad[count - 1].optimizer.epsilon = -1;
    for (size_t i = 0; i < count; i++) {
        struct table *table = tables_at(tables, 0);
        assert_int_equal(tables_add(tables, &bad[i], &table), TUTTI_INVALID_OPTIONS);
        assert_null(table);
        assert_int_equal(tables_count(tables), 1);
    }
}

/* -------------------------------------------------------------------------------- rows */

static void untouched_rows_are_the_same_on_every_server(void **state)
{
    (void)state;
    enum { COUNT = 1000, WIDTH = 5 };
    int64_t rows[COUNT];
    static float here[COUNT][WIDTH], there[COUNT][WIDTH];
    const struct table_spec spec = rows_of("r", INT64_MAX, WIDTH, &adam);
    struct table *const first = add(&spec);
    struct tables *others;
    struct table *second;
    assert_int_equal(tables_create(0, &others), TUTTI_OK);
    assert_int_equal(tables_add(others, &spec, &second), TUTTI_OK);
    for (int i = 0; i < COUNT; i++) rows[i] = (int64_t)(INT64_MAX - 1 - 31 * i);
    assert_int_equal(table_read_rows(first, COUNT, rows, here[0]), TUTTI_OK);
    assert_int_equal(table_use_of(first).rows, 0);
    static const float nothing[COUNT][WIDTH];
    /* Made in another order; gradients of 0 make rows and leave their values. */
    for (int i = COUNT - 1; i >= 0; i -= 2) {
        const struct table_gradients one = {1, &rows[i], nothing[0]};
        assert_int_equal(table_update_rows(second, 0, 1, &one, 1), TUTTI_OK);
    }
    assert_int_equal(table_use_of(second).rows, COUNT / 2);
    assert_int_equal(table_read_rows(second, COUNT, rows, there[0]), TUTTI_OK);
    assert_memory_equal(here, there, sizeof here);
    tables_free(others);
}

static void rows_are_listed_in_the_order_of_touch(void **state)
{
    (void)state;
    const struct table_spec spec = rows_of("r", 1000, 1, &sgd);
    struct table *const table = add(&spec);
    const int64_t written[] = {7, 3, 999, 3, 0};
    const float values[] = {1, 2, 3, 4, 5};
    assert_int_equal(table_write_rows(table, 5, written, values), TUTTI_OK);
    int64_t rows[8];
    float found[4];
    assert_int_equal(table_list_rows(table, 0, 8, rows), 4);
    const int64_t wanted[] = {7, 3, 999, 0};
    assert_memory_equal(rows, wanted, sizeof wanted);
    assert_int_equal(table_list_rows(table, 3, 8, rows), 1);
    assert_int_equal(rows[0], 0);
    assert_int_equal(table_list_rows(table, 4, 8, rows), 0);
    assert_int_equal(table_read_rows(table, 4, wanted, found), TUTTI_OK);
    assert_true(found[0] == 1 && found[1] == 4 && found[2] == 3 && found[3] == 5);
}

/* The work of a table, done with an array. */
enum { MODEL_ROWS = 3000, MODEL_WIDTH = 3 };
struct model {
    float values[MODEL_ROWS][MODEL_WIDTH];
    float state[2][MODEL_ROWS][MODEL_WIDTH];
    uint64_t steps;
};

static void model_step(struct model *model, const struct table_optimizer *optimizer,
                       size_t list_count, const struct table_gradients *lists, float factor)
{
    static float sums[MODEL_ROWS][MODEL_WIDTH];
    static bool is_there[MODEL_ROWS];
    memset(is_there, 0, sizeof is_there);
    for (size_t l = 0; l < list_count; l++)
        for (size_t i = 0; i < lists[l].count; i++)
            for (int c = 0; c < MODEL_WIDTH; c++) {
                float *const sum = &sums[lists[l].rows[i]][c];
                const float more = lists[l].values[i * MODEL_WIDTH + c];
                *sum = is_there[lists[l].rows[i]] ? *sum + more : more;
                if (c == MODEL_WIDTH - 1) is_there[lists[l].rows[i]] = true;
            }
    const struct table_step step = table_step_of(optimizer, ++model->steps);
    for (int r = 0; r < MODEL_ROWS; r++) {
        float *const moments[] = {model->state[0][r], model->state[1][r]};
        for (int c = 0; c < MODEL_WIDTH; c++) sums[r][c] *= factor;
        if (is_there[r]) table_step_take(&step, MODEL_WIDTH, sums[r], model->values[r], moments);
    }
}

static void expect_model(const struct table *table, const struct model *model)
{
    static int64_t rows[MODEL_ROWS];
    static float found[MODEL_ROWS][MODEL_WIDTH];
    for (int r = 0; r < MODEL_ROWS; r++) rows[r] = r;
    assert_int_equal(table_read_rows(table, MODEL_ROWS, rows, found[0]), TUTTI_OK);
    assert_memory_equal(found, model->values, sizeof found);
    assert_int_equal(table_steps(table), model->steps);
}

static void steps_of_rows_are_those_of_an_array(const struct table_optimizer *optimizer,
                                                const char *name, float factor)
{
    enum { LISTS = 3, LONGEST = 700 };
    static struct model model;
    static int64_t rows[LISTS][LONGEST];
    static float values[LISTS][LONGEST * MODEL_WIDTH];
    const struct table_spec spec = rows_of(name, MODEL_ROWS, MODEL_WIDTH, optimizer);
    struct table *const table = add(&spec);
    memset(&model, 0, sizeof model);
    for (int r = 0; r < MODEL_ROWS; r++)
        table_initial_row(&spec.initial, spec.seed, (uint64_t)r, MODEL_WIDTH, model.values[r]);
    for (int r = 0; r < MODEL_ROWS; r++)
        for (int c = 0; c < MODEL_WIDTH; c++)
            model.state[0][r][c] = table_optimizer_initial_state(optimizer);
    for (uint64_t t = 0; t < 40; t++) {
        struct table_gradients lists[LISTS];
        for (size_t l = 0; l < LISTS; l++) {
            const size_t count = l == t % 4 ? 0 : 1 + (t * 97 + l * 31) % LONGEST;
            for (size_t i = 0; i < count; i++) { /* low rows come often */
                const float share = any(t * 10007 + l * 1009 + i);
                rows[l][i] = (int64_t)(share * share * share * share * MODEL_ROWS) % MODEL_ROWS;
            }
            for (size_t i = 0; i < count * MODEL_WIDTH; i++)
                values[l][i] = any(t * 100003 + l * 10007 + i + 1000000);
            lists[l] = (struct table_gradients){count, rows[l], values[l]};
        }
        assert_int_equal(table_update_rows(table, 0, LISTS, lists, factor), TUTTI_OK);
        model_step(&model, optimizer, LISTS, lists, factor);
    }
    expect_model(table, &model);
}

static void duplicates_are_summed_in_order(void **state)
{
    (void)state;
    steps_of_rows_are_those_of_an_array(&sgd, "sgd", 1);
    steps_of_rows_are_those_of_an_array(&adam, "adam", 0.25f);
    steps_of_rows_are_those_of_an_array(&adagrad, "adagrad", 1.0f / 3);
}

/* (1e8 + 1) - 1e8 is 0 in float32, and (1e8 - 1e8) + 1 is 1. */
static void the_order_of_lists_shows_in_the_bits(void **state)
{
    (void)state;
    struct table_spec spec = rows_of("r", 10, 1, &sgd);
    spec.initial = (struct table_initial){TABLE_INITIAL_CONSTANT, 0, 0};
    struct table *const table = add(&spec);
    const int64_t twice[] = {1, 1}, once = 1;
    const float a[] = {1e8f, 1}, b = -1e8f;
    const struct table_gradients ab[] = {{2, twice, a}, {1, &once, &b}};
    const float c[] = {1e8f, -1e8f}, d = 1;
    const struct table_gradients cd[] = {{2, twice, c}, {1, &once, &d}};
    float found;
    assert_int_equal(table_update_rows(table, 0, 2, ab, 1), TUTTI_OK);
    assert_int_equal(table_read_rows(table, 1, &once, &found), TUTTI_OK);
    assert_true(found == 0);
    assert_int_equal(table_update_rows(table, 0, 2, cd, 1), TUTTI_OK);
    assert_int_equal(table_read_rows(table, 1, &once, &found), TUTTI_OK);
    assert_true(found == -1);
}

static void refused_updates_change_nothing(void **state)
{
    (void)state;
    const struct table_spec spec = rows_of("r", 100, 2, &adam),
                            weights = dense_of("w", 100, 10, 20, &adam);
    struct table *const table = add(&spec), *const dense = add(&weights);
    const int64_t rows[] = {5, 6}, beyond[] = {5, 100}, below[] = {5, -1};
    const float values[] = {1, 2, 3, 4}, nan[] = {1, 2, 3, NAN}, infinite[] = {1, -INFINITY, 3, 4};
    float before[2][2], after[2][2], share_before[20], share_after[20];
    const struct table_gradients good = {2, rows, values};
    assert_int_equal(table_update_rows(table, 0, 1, &good, 1), TUTTI_OK);
    assert_int_equal(table_read_rows(table, 2, rows, before[0]), TUTTI_OK);
    assert_int_equal(table_read_dense(dense, 10, 20, share_before), TUTTI_OK);

    const struct table_gradients bad[][2] = {{good, {2, beyond, values}},
                                             {good, {2, below, values}},
                                             {good, {2, rows, nan}},
                                             {good, {2, rows, infinite}}};
    const char *const messages[] = {
        "table \"r\" has no row 100: it has rows 0 to 99", "table \"r\" has no row -1",
        "the gradient of row 6 is nan at column 1", "the gradient of row 5 is -inf at column 1"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(table_update_rows(table, 0, 2, bad[i], 1),
                         i < 2 ? TUTTI_INVALID_COUNT : TUTTI_INVALID_BUFFER);
        expect_message(messages[i]);
    }
    assert_int_equal(table_write_rows(table, 2, beyond, values), TUTTI_INVALID_COUNT);
    assert_int_equal(table_read_rows(table, 2, below, after[0]), TUTTI_INVALID_COUNT);
    assert_int_equal(table_update_rows(dense, 0, 1, &good, 1), TUTTI_INVALID_OPTIONS);
    expect_message("table \"w\" is dense");

    const float *const lists[] = {values, nan};
    assert_int_equal(table_update_dense(dense, 0, 12, 4, 2, lists, 1), TUTTI_INVALID_BUFFER);
    expect_message("the gradient of element 15 is nan");
    assert_int_equal(table_update_dense(dense, 0, 12, 4, 0, lists, 1), TUTTI_INVALID_COUNT);
    const uint64_t ranges[][2] = {{9, 2}, {28, 3}, {31, 0}, {UINT64_MAX, 2}, {12, UINT64_MAX}};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(table_update_dense(dense, 0, ranges[i][0], ranges[i][1], 1, lists, 1),
                         TUTTI_INVALID_COUNT);
        assert_int_equal(table_write_dense(dense, ranges[i][0], ranges[i][1], values),
                         TUTTI_INVALID_COUNT);
        assert_int_equal(table_read_dense(dense, ranges[i][0], ranges[i][1], share_after),
                         TUTTI_INVALID_COUNT);
    }
    assert_int_equal(table_update_dense(table, 0, 0, 1, 1, lists, 1), TUTTI_INVALID_OPTIONS);
    assert_int_equal(table_set_rate(table, -1), TUTTI_INVALID_OPTIONS);

    assert_int_equal(table_read_rows(table, 2, rows, after[0]), TUTTI_OK);
    assert_int_equal(table_read_dense(dense, 10, 20, share_after), TUTTI_OK);
    assert_memory_equal(before, after, sizeof before);
    assert_memory_equal(share_before, share_after, sizeof share_before);
    assert_true(table_steps(table) == 1 && table_steps(dense) == 0);
}

static void nan_passes_where_it_is_not_refused(void **state)
{
    (void)state;
    struct table_spec spec = rows_of("r", 100, 1, &sgd);
    spec.refuses_nan = false;
    struct table *const table = add(&spec);
    const int64_t row = 4;
    const float nan = NAN;
    float found;
    const struct table_gradients list = {1, &row, &nan};
    assert_int_equal(table_update_rows(table, 0, 1, &list, 1), TUTTI_OK);
    assert_int_equal(table_read_rows(table, 1, &row, &found), TUTTI_OK);
    assert_true(isnan(found));
}

/* ------------------------------------------------------------------------------- dense */

static void steps_of_a_share_are_those_of_an_array(void **state)
{
    (void)state;
    enum { FIRST = 1234, COUNT = 50000, STEPS = 5 };
    static float values[COUNT], moments[2][COUNT], gradients[2][COUNT], sums[COUNT], found[COUNT];
    const struct table_spec spec = dense_of("w", 1000000, FIRST, COUNT, &adam);
    struct table *const table = add(&spec);
    for (int i = 0; i < COUNT; i++)
        table_initial_row(&spec.initial, spec.seed, FIRST + (uint64_t)i, 1, &values[i]);
    float *const arrays[] = {moments[0], moments[1]};
    const float *const lists[] = {gradients[0], gradients[1]};
    for (uint64_t t = 0; t < STEPS; t++) {
        for (int i = 0; i < COUNT; i++) {
            gradients[0][i] = any(t * 100003 + (uint64_t)i),
            gradients[1][i] = any(t * 100019 + (uint64_t)i);
            sums[i] = (gradients[0][i] + gradients[1][i]) * 0.5f;
        }
        const struct table_step step = table_step_of(&adam, t + 1);
        table_step_take(&step, COUNT, sums, values, arrays);
        const uint64_t number = table_begin_step(table); /* in three calls */
        const uint64_t cuts[] = {0, 1, 20011, COUNT};
        for (int c = 0; c < 3; c++) {
            const float *const parts[] = {lists[0] + cuts[c], lists[1] + cuts[c]};
            assert_int_equal(table_update_dense(table, number, FIRST + cuts[c],
                                                cuts[c + 1] - cuts[c], 2, parts, 0.5f),
                             TUTTI_OK);
        }
    }
    assert_int_equal(table_steps(table), STEPS);
    assert_int_equal(table_read_dense(table, FIRST, COUNT, found), TUTTI_OK);
    assert_memory_equal(found, values, sizeof values);
    const float *view;
    assert_int_equal(table_view_dense(table, FIRST + 7, COUNT - 7, &view), TUTTI_OK);
    assert_memory_equal(view, values + 7, sizeof values - 7 * sizeof(float));
    assert_int_equal(table_write_dense(table, FIRST + 100, COUNT - 100, values), TUTTI_OK);
    assert_int_equal(table_read_dense(table, FIRST + 100, COUNT - 100, found), TUTTI_OK);
    assert_memory_equal(found, values, sizeof values - 100 * sizeof(float));
}

static void values_that_are_held_stay_as_they_are(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    const struct table_spec spec = dense_of("d", COUNT, 0, COUNT, &adagrad);
    struct table *const table = add(&spec);
    static float before[COUNT], gradients[COUNT], after[COUNT];
    const float *const lists[] = {gradients}, *seen[3];
    struct table_held *held[3];
    for (int i = 0; i < COUNT; i++) gradients[i] = (float)(i % 5) - 2;
    assert_int_equal(table_read_dense(table, 0, COUNT, before), TUTTI_OK);
    for (int round = 0; round < 3; round++) { /* in the first memory is taken */
        const uint64_t used = table_use_of(table).used_bytes;
        for (int h = 0; h < 2; h++)
            assert_int_equal(table_hold_dense(table, 0, COUNT, &seen[h], &held[h]), TUTTI_OK);
        assert_int_equal(table_update_dense(table, 0, 0, COUNT, 1, lists, 1), TUTTI_OK);
        assert_int_equal(table_hold_dense(table, 100, 50, &seen[2], &held[2]), TUTTI_OK);
        assert_memory_equal(seen[0], before, sizeof before);
        assert_int_equal(table_read_dense(table, 0, COUNT, after), TUTTI_OK);
        assert_memory_equal(seen[2], after + 100, 50 * sizeof *after);
        assert_memory_not_equal(before, after, sizeof before);
        table_let_go(held[1]);
        assert_memory_equal(seen[0], before, sizeof before);
        table_let_go(held[0]);
        table_let_go(held[2]);
        if (round > 0) assert_int_equal(table_use_of(table).used_bytes, used);
        memcpy(before, after, sizeof before);
    }
}

static void shares_may_be_empty(void **state)
{
    (void)state;
    const struct table_spec spec = dense_of("w", 10, 10, 0, &adam);
    struct table *const table = add(&spec);
    float none = 0;
    const float *const lists[] = {&none};
    assert_int_equal(table_read_dense(table, 10, 0, &none), TUTTI_OK);
    assert_int_equal(table_write_dense(table, 10, 0, &none), TUTTI_OK);
    assert_int_equal(table_update_dense(table, 0, 10, 0, 1, lists, 1), TUTTI_OK);
    assert_int_equal(table_read_dense(table, 9, 1, &none), TUTTI_INVALID_COUNT);
}

/* ------------------------------------------------------------------ the user's optimizer */

struct seen {
    uint64_t step;
    size_t calls, elements;
};

/* Counts in its first state, and adds in its second. */
static void counting(void *context, uint64_t step, size_t count, const float *gradients,
                     float *parameters, float *const *state)
{
    struct seen *const seen = context;
    seen->step = step, seen->calls++, seen->elements += count;
    for (size_t i = 0; i < count; i++) {
        state[0][i] += 1;
        state[1][i] += gradients[i];
        parameters[i] = 100 * state[0][i] + state[1][i];
    }
}

static void a_function_of_the_user_is_an_optimizer(void **state)
{
    (void)state;
    struct seen seen = {0, 0, 0};
    const struct table_optimizer user = {.kind = TABLE_USER,
                                         .state_count = 2,
                                         .initial_state = 1,
                                         .update = counting,
                                         .context = &seen};
    const struct table_spec spec = rows_of("r", 100, 2, &user),
                            weights = dense_of("w", 3000, 0, 3000, &user);
    struct table *const table = add(&spec), *const dense = add(&weights);
    const int64_t rows[] = {8, 9, 8};
    const float values[] = {1, 2, 3, 4, 5, 6};
    const struct table_gradients list = {3, rows, values};
    float found[2][2];
    assert_int_equal(table_update_rows(table, 0, 1, &list, 1), TUTTI_OK);
    assert_true(seen.step == 1 && seen.calls == 2 && seen.elements == 4);
    assert_int_equal(table_read_rows(table, 2, rows, found[0]), TUTTI_OK);
    assert_true(found[0][0] == 207 && found[0][1] == 209 && found[1][0] == 204 && found[1][1] == 205);
    static float ones[3000];
    const float *const lists[] = {ones};
    seen.elements = 0;
    assert_int_equal(table_update_dense(dense, 7, 0, 3000, 1, lists, 1), TUTTI_OK);
    assert_true(seen.step == 7 && seen.elements == 3000 && table_steps(dense) == 0);
}

/* ------------------------------------------------------------------------------ memory */

static void memory_stays_near_the_payload(void **state)
{
    (void)state;
    enum { COUNT = 20000, PUSHES = 25, WIDTH = 16 };
    static int64_t rows[COUNT];
    static float gradients[COUNT * WIDTH];
    const struct table_spec spec = rows_of("r", UINT64_C(1) << 40, WIDTH, &sgd);
    struct table *const table = add(&spec);
    double most = 0;
    for (int64_t p = 0; p < PUSHES; p++) {
        for (int64_t i = 0; i < COUNT; i++) rows[i] = (p * COUNT + i) * 1000003;
        const struct table_gradients list = {COUNT, rows, gradients};
        assert_int_equal(table_update_rows(table, 0, 1, &list, 1), TUTTI_OK);
        const struct table_use use = table_use_of(table);
        const double share = (double)use.used_bytes / (double)use.payload_bytes;
        most = p > 2 && share > most ? share : most;
    }
    assert_int_equal(table_use_of(table).rows, COUNT * PUSHES);
    if (most > 1.3) fail_msg("%.3f times the payload", most);
}

static void tables_stay_within_their_bytes(void **state)
{
    (void)state;
    enum { WIDTH = 16 };
    struct tables *small;
    struct table *table, *dense;
    const struct table_spec spec = rows_of("r", UINT64_C(1) << 40, WIDTH, &adam);
    assert_int_equal(tables_create(1 << 20, &small), TUTTI_OK);
    const struct table_spec large = dense_of("w", 1 << 18, 0, 1 << 18, &sgd);
    assert_int_equal(tables_add(small, &large, &dense), TUTTI_NO_MEMORY);
    assert_null(dense);
    const struct table_spec huge = dense_of("h", INT64_MAX, 0, INT64_MAX, &adam);
    assert_int_equal(tables_add(small, &huge, &dense), TUTTI_NO_MEMORY);
    assert_int_equal(tables_add(small, &spec, &table), TUTTI_OK);
    float gradients[WIDTH], before[WIDTH], after[WIDTH];
    for (int i = 0; i < WIDTH; i++) gradients[i] = 1;
    enum tutti_status status = TUTTI_OK;
    int64_t row = 0;
    for (; status == TUTTI_OK && row < 100000; row++) {
        const struct table_gradients list = {1, &row, gradients};
        status = table_update_rows(table, 0, 1, &list, 1);
    }
    assert_int_equal(status, TUTTI_NO_MEMORY);
    expect_message("table \"r\" has no memory for one more row");
    assert_true(table_use_of(table).used_bytes <= (1 << 20) + 8192 && row > 1000);
    /* An update of a row that is there and one that cannot come changes neither. */
    const int64_t both[] = {0, row};
    const float two[2 * WIDTH] = {1};
    const struct table_gradients list = {2, both, two};
    assert_int_equal(table_read_rows(table, 1, both, before), TUTTI_OK);
    const uint64_t steps = table_steps(table);
    assert_int_equal(table_update_rows(table, 0, 1, &list, 1), TUTTI_NO_MEMORY);
    assert_int_equal(table_read_rows(table, 1, both, after), TUTTI_OK);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(table_steps(table), steps);
    tables_free(small);
}

static void the_rate_can_change(void **state)
{
    (void)state;
    struct table_spec spec = dense_of("w", 1, 0, 1, &sgd);
    spec.initial = (struct table_initial){TABLE_INITIAL_CONSTANT, 10, 0};
    struct table *const table = add(&spec);
    const float one = 1, *const lists[] = {&one};
    float found;
    assert_int_equal(table_set_rate(table, 0.5), TUTTI_OK);
    assert_int_equal(table_update_dense(table, 0, 0, 1, 1, lists, 1), TUTTI_OK);
    assert_int_equal(table_read_dense(table, 0, 1, &found), TUTTI_OK);
    assert_true(found == 9.5f && table_spec_of(table)->optimizer.rate == 0.5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tables_are_found_by_their_names),
        TEST(specs_that_cannot_be_used_are_refused),
        TEST(untouched_rows_are_the_same_on_every_server),
        TEST(rows_are_listed_in_the_order_of_touch),
        TEST(duplicates_are_summed_in_order),
        TEST(the_order_of_lists_shows_in_the_bits),
        TEST(refused_updates_change_nothing),
        TEST(nan_passes_where_it_is_not_refused),
        TEST(steps_of_a_share_are_those_of_an_array),
        TEST(values_that_are_held_stay_as_they_are),
        TEST(shares_may_be_empty),
        TEST(a_function_of_the_user_is_an_optimizer),
        TEST(memory_stays_near_the_payload),
        TEST(tables_stay_within_their_bytes),
        TEST(the_rate_can_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
