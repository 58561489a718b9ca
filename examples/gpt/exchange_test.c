/* However the model is cut, into slices of matrices, stages of layers or both, the parts together
 * compute what the whole does. Ranks are threads here, or are played by one thread after the other.
 * ctest: label=notsan */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "counter.h"
#include "exchange.h"
#include "give_up.h"
#include "model.h"

enum { SAMPLES = 2, CONTEXT = 70, ROWS = SAMPLES * CONTEXT, RANKS_MAX = 4 };
static const double rounding = 1e-12; /* relative, of sums in another order */

static struct model_options whole_options(void)
{
    struct model_options options = {.shape = {.vocabulary = 301,
                                              .context = CONTEXT,
                                              .width = 24,
                                              .layers = 3,
                                              .heads = 4,
                                              .hidden = 37,
                                              .tied = true},
                                    .samples_max = SAMPLES,
                                    .seed = 5,
                                    .dropout = 0.2,
                                    .exchange = &exchange_alone};
    options.part = part_whole(&options.shape);
    return options;
}

static uint32_t inputs[ROWS], targets[ROWS];
static const uint64_t numbers[SAMPLES] = {8, 3};
static const struct batch batch = {.samples = SAMPLES,
                                   .inputs = inputs,
                                   .targets = targets,
                                   .numbers = numbers,
                                   .step = 6,
                                   .training = true};

static int make_batch(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < ROWS; i++) {
        inputs[i] = (uint32_t)(counter_bits(1, i) % 301);
        targets[i] = (uint32_t)(counter_bits(2, i) % 301);
    }
    return 0;
}

static void expect_near(const real *expected, const real *got, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs((double)expected[i]));
    assert_true(most > 0);
    for (size_t i = 0; i < count; i++)
        assert_true(fabs((double)(expected[i] - got[i])) <= rounding * most);
}

/* Adds an array of a part to one that is laid out as the whole's. Tensors that several parts have
 * in common count once unless they are summands. */
static void collect(const struct model *whole, const struct model *part, const real *array,
                    bool gains_are_summands, real *collected)
{
    for (size_t t = 0; t < part->parameters.tensor_count; t++) {
        const struct tensor *tensor = &part->parameters.tensors[t];
        const struct tensor *other =
            parameters_find(&whole->parameters, tensor->kind, tensor->layer);
        if (tensor->split == SPLIT_NOT && !gains_are_summands && part->options.part.tensor_index > 0)
            continue;
        const real *value = array + tensor->offset;
        for (size_t r = 0; r < tensor->rows.count; r++)
            for (size_t c = 0; c < tensor->columns.count; c++)
                collected[other->offset + (tensor->rows.first + r) * tensor->whole_columns +
                          tensor->columns.first + c] += *value++;
    }
}

static void parts_begin_with_the_values_of_the_whole(void **state)
{
    (void)state;
    struct model_options options = whole_options();
    options.shape.tied = false;
    struct model *whole = model_create(&options);
    real *collected = allocate(whole->parameters.elements, sizeof *collected);
    for (size_t stage = 0; stage < 2; stage++)
        for (size_t slice = 0; slice < 3; slice++) {
            options.part = (struct part){
                .layers = range_share(3, stage, 2), .tensor_index = slice, .tensor_count = 3};
            struct model *part = model_create(&options);
            collect(whole, part, part->weights, false, collected);
            model_free(part);
        }
    assert_memory_equal(collected, whole->weights, whole->parameters.elements * sizeof *collected);
    assert_int_equal(whole->parameters.elements % PARAMETERS_BLOCK, 0);
    assert_int_equal(whole->parameters.matrix_elements % PARAMETERS_BLOCK, 0);
    free(collected);
    model_free(whole);
}

/* ------------------------------------------------------------------ slices, one after the other */

static real *numbers_of(uint64_t key, size_t count)
{
    real *values = allocate(count, sizeof *values);
    for (size_t i = 0; i < count; i++) values[i] = (real)counter_normal(key, i);
    return values;
}

static void add_to(real *sum, const real *values, size_t count)
{
    for (size_t i = 0; i < count; i++) sum[i] += values[i];
}

/* The columns (of the last matrix: rows) of some matrices beside each other in the whole. */
static void cut(const real *whole, size_t rows, size_t columns, struct range range, bool by_rows,
                real *slice)
{
    for (size_t r = 0; r < (by_rows ? range.count : rows); r++)
        for (size_t c = 0; c < (by_rows ? columns : range.count); c++)
            *slice++ = by_rows ? whole[(range.first + r) * columns + c]
                               : whole[r * columns + range.first + c];
}

static void slices_of_attention_add_up(void **state)
{
    (void)state;
    enum { WIDTH = 24, HEADS = 4, SIZE = 6, STREAM = ROWS * WIDTH, MATRIX = WIDTH * WIDTH };
    real *input = numbers_of(1, STREAM), *back = numbers_of(2, STREAM), *rotation;
    real *weights[4], *outputs[5], *input_gradients[5];
    for (uint64_t i = 0; i < 4; i++) weights[i] = numbers_of(3 + i, MATRIX);
    rotation = allocate(CONTEXT * SIZE, sizeof *rotation);
    attention_rotation(CONTEXT, SIZE, rotation);
    for (size_t slices = 1; slices <= 4; slices++) {
        outputs[slices] = allocate(STREAM, sizeof(real));
        input_gradients[slices] = allocate(STREAM, sizeof(real));
        for (size_t slice = 0; slice < slices; slice++) {
            const struct range heads = range_share(HEADS, slice, slices);
            const struct range columns = {heads.first * SIZE, heads.count * SIZE};
            const struct attention attention = {.width = WIDTH,
                                                .context = CONTEXT,
                                                .head_size = SIZE,
                                                .heads = heads.count,
                                                .rotation = rotation};
            real *space = allocate(20 * STREAM + 2 * ROWS * HEADS * CONTEXT, sizeof *space);
            real *w = space + 10 * STREAM, *g = w + 4 * MATRIX;
            for (int i = 0; i < 4; i++)
                cut(weights[i], WIDTH, WIDTH, columns, i == 3, w + i * MATRIX);
            const struct attention_weights here = {w, w + MATRIX, w + 2 * MATRIX, w + 3 * MATRIX};
            const struct attention_weights gradients = {g, g + MATRIX, g + 2 * MATRIX,
                                                        g + 3 * MATRIX};
            real *shares = space + 20 * STREAM;
            const struct attention_saved saved = {space, space + STREAM, space + 2 * STREAM,
                                                  space + 3 * STREAM, shares};
            const struct attention_scratch scratch = {space + 4 * STREAM, space + 5 * STREAM,
                                                      space + 6 * STREAM, space + 7 * STREAM,
                                                      shares + ROWS * HEADS * CONTEXT};
            real *result = space + 8 * STREAM;
            attention_forward(&attention, &here, input, SAMPLES, &saved, result);
            add_to(outputs[slices], result, STREAM);
            attention_backward(&attention, &here, input, &saved, back, SAMPLES, &scratch,
                               &gradients, result);
            add_to(input_gradients[slices], result, STREAM);
            free(space);
        }
        expect_near(outputs[1], outputs[slices], STREAM);
        expect_near(input_gradients[1], input_gradients[slices], STREAM);
    }
    for (size_t slices = 1; slices <= 4; slices++) {
        free(outputs[slices]);
        free(input_gradients[slices]);
    }
    for (int i = 0; i < 4; i++) free(weights[i]);
    free(input);
    free(back);
    free(rotation);
}

static void slices_of_the_mlp_add_up(void **state)
{
    (void)state;
    enum { WIDTH = 24, HIDDEN = 37, STREAM = ROWS * WIDTH, MATRIX = WIDTH * HIDDEN };
    enum { INNER = ROWS * HIDDEN };
    real *input = numbers_of(1, STREAM), *back = numbers_of(2, STREAM);
    real *gate = numbers_of(3, MATRIX), *up = numbers_of(4, MATRIX), *down = numbers_of(5, MATRIX);
    real *outputs[5], *input_gradients[5];
    for (size_t slices = 1; slices <= 4; slices++) {
        outputs[slices] = allocate(STREAM, sizeof(real));
        input_gradients[slices] = allocate(STREAM, sizeof(real));
        for (size_t slice = 0; slice < slices; slice++) {
            const struct range columns = range_share(HIDDEN, slice, slices);
            real *space = allocate(6 * INNER + 6 * MATRIX + STREAM, sizeof *space);
            real *w = space + 6 * INNER, *g = w + 3 * MATRIX, *result = g + 3 * MATRIX;
            cut(gate, WIDTH, HIDDEN, columns, false, w);
            cut(up, WIDTH, HIDDEN, columns, false, w + MATRIX);
            cut(down, HIDDEN, WIDTH, columns, true, w + 2 * MATRIX);
            const struct mlp_weights here = {w, w + MATRIX, w + 2 * MATRIX};
            const struct mlp_weights gradients = {g, g + MATRIX, g + 2 * MATRIX};
            const struct mlp_saved saved = {space, space + INNER, space + 2 * INNER};
            const struct mlp_saved scratch = {space + 3 * INNER, space + 4 * INNER,
                                              space + 5 * INNER};
            mlp_forward(&here, input, ROWS, WIDTH, columns.count, &saved, result);
            add_to(outputs[slices], result, STREAM);
            mlp_backward(&here, input, &saved, back, ROWS, WIDTH, columns.count, &scratch,
                         &gradients, result);
            add_to(input_gradients[slices], result, STREAM);
            free(space);
        }
        expect_near(outputs[1], outputs[slices], STREAM);
        expect_near(input_gradients[1], input_gradients[slices], STREAM);
    }
    for (size_t slices = 1; slices <= 4; slices++) {
        free(outputs[slices]);
        free(input_gradients[slices]);
    }
    free(input);
    free(back);
    free(gate);
    free(up);
    free(down);
}

/* --------------------------------------------------------------------------- stages, one by one */

static void stages_in_a_row_are_the_model(void **state)
{
    (void)state;
    enum { STAGES = 3, WIDTH = 24 };
    struct model_options options = whole_options();
    struct model *whole = model_create(&options), *stages[STAGES];
    struct saved *saved = saved_create(whole), *stage_saved[STAGES];
    const double loss = model_forward(whole, &batch, saved, NULL, NULL);
    model_backward(whole, &batch, saved, 0.1, NULL, NULL);

    real *stream = allocate(ROWS * WIDTH, sizeof *stream);
    real *collected = allocate(whole->parameters.elements, sizeof *collected);
    double stage_loss = 0;
    for (size_t i = 0; i < STAGES; i++) {
        options.part = (struct part){.layers = range_share(3, i, STAGES), .tensor_count = 1};
        stages[i] = model_create(&options);
        stage_saved[i] = saved_create(stages[i]);
        stage_loss += model_forward(stages[i], &batch, stage_saved[i], stream, stream);
    }
    for (size_t i = STAGES; i-- > 0;) {
        model_backward(stages[i], &batch, stage_saved[i], 0.1, stream, stream);
        collect(whole, stages[i], stages[i]->gradients, false, collected);
        saved_free(stage_saved[i]);
        model_free(stages[i]);
    }
    assert_true(loss > 0 && loss == stage_loss);
    expect_near(whole->gradients, collected, whole->parameters.elements);
    saved_free(saved);
    model_free(whole);
    free(stream);
    free(collected);
}

/* --------------------------------------------------------------------- slices, ranks as threads */

/* Where threads meet. Each shows its array, and takes what it needs of the others' between two
 * barriers. */
struct meeting {
    pthread_barrier_t barrier;
    size_t ranks;
    const real *arrays[RANKS_MAX];
};

struct rank {
    struct meeting *meeting;
    size_t index;
    bool rows_split, gathers_again;
    bool tied;
    struct exchange exchange;
    struct model *model;
    double loss;
    pthread_t thread;
};

static void combine(struct rank *rank, real *values, size_t count, bool is_max)
{
    struct meeting *meeting = rank->meeting;
    real *result = allocate(count, sizeof *result);
    meeting->arrays[rank->index] = values;
    pthread_barrier_wait(&meeting->barrier);
    memcpy(result, meeting->arrays[0], count * sizeof *result);
    for (size_t r = 1; r < meeting->ranks; r++)
        for (size_t i = 0; i < count; i++)
            result[i] =
                is_max ? fmax(result[i], meeting->arrays[r][i]) : result[i] + meeting->arrays[r][i];
    pthread_barrier_wait(&meeting->barrier);
    memcpy(values, result, count * sizeof *result);
    free(result);
}

static void sum_values(real *values, size_t count, void *context)
{
    combine(context, values, count, false);
}

static void max_values(real *values, size_t count, void *context)
{
    combine(context, values, count, true);
}

/* As a reduce-scatter may, leaves nothing of use in other ranks' rows. */
static void sum_rows(real *all, size_t rows, size_t width, void *context)
{
    const struct rank *rank = context;
    combine(context, all, rows * width, false);
    if (!rank->rows_split) return;
    const struct range mine = range_share(rows, rank->index, rank->meeting->ranks);
    for (size_t i = 0; i < rows * width; i++)
        if (i / width - mine.first >= mine.count) all[i] = NAN;
}

static void gather_rows(real *all, size_t rows, size_t width, void *context)
{
    const struct rank *rank = context;
    struct meeting *meeting = rank->meeting;
    if (!rank->rows_split) return;
    meeting->arrays[rank->index] = all;
    pthread_barrier_wait(&meeting->barrier);
    for (size_t r = 0; r < meeting->ranks; r++) {
        const struct range theirs = range_share(rows, r, meeting->ranks);
        if (r != rank->index)
            memcpy(all + theirs.first * width, meeting->arrays[r] + theirs.first * width,
                   theirs.count * width * sizeof *all);
    }
    pthread_barrier_wait(&meeting->barrier);
}

static void *run_rank(void *argument)
{
    struct rank *rank = argument;
    struct model_options options = whole_options();
    rank->exchange = (struct exchange){gather_rows, sum_rows, sum_values, max_values, rank};
    options.exchange = &rank->exchange;
    options.shape.tied = rank->tied;
    options.part.tensor_index = rank->index;
    options.part.tensor_count = rank->meeting->ranks;
    options.part.rows_split = rank->rows_split;
    options.gather_again = rank->gathers_again;
    rank->model = model_create(&options);
    struct saved *saved = saved_create(rank->model);
    rank->loss = model_forward(rank->model, &batch, saved, NULL, NULL);
    model_backward(rank->model, &batch, saved, 0.1, NULL, NULL);
    saved_free(saved);
    return NULL;
}

static void expect_ranks_equal_whole(size_t ranks, bool rows_split, bool gathers_again, bool tied)
{
    struct model_options options = whole_options();
    options.shape.tied = tied;
    struct model *whole = model_create(&options);
    struct saved *saved = saved_create(whole);
    const double loss = model_forward(whole, &batch, saved, NULL, NULL);
    model_backward(whole, &batch, saved, 0.1, NULL, NULL);

    struct meeting meeting = {.ranks = ranks};
    struct rank all[RANKS_MAX] = {{.index = 0}};
    real *collected = allocate(whole->parameters.elements, sizeof *collected);
    pthread_barrier_init(&meeting.barrier, NULL, (unsigned)ranks);
    for (size_t r = 0; r < ranks; r++) {
        all[r] = (struct rank){.meeting = &meeting,
                               .index = r,
                               .rows_split = rows_split,
                               .gathers_again = gathers_again,
                               .tied = tied};
        assert_int_equal(pthread_create(&all[r].thread, NULL, run_rank, &all[r]), 0);
    }
    for (size_t r = 0; r < ranks; r++) pthread_join(all[r].thread, NULL);
    for (size_t r = 0; r < ranks; r++) {
        assert_true(fabs(all[r].loss - loss) < rounding * loss);
        collect(whole, all[r].model, all[r].model->gradients, rows_split, collected);
        model_free(all[r].model);
    }
    expect_near(whole->gradients, collected, whole->parameters.elements);
    pthread_barrier_destroy(&meeting.barrier);
    free(collected);
    saved_free(saved);
    model_free(whole);
}

static void ranks_with_slices_compute_the_whole(void **state)
{
    (void)state;
    for (size_t ranks = 1; ranks <= RANKS_MAX; ranks++)
        expect_ranks_equal_whole(ranks, false, false, true);
    expect_ranks_equal_whole(3, false, false, false);
}

static void ranks_with_slices_and_rows_compute_the_whole(void **state)
{
    (void)state;
    for (size_t ranks = 1; ranks <= RANKS_MAX; ranks++)
        expect_ranks_equal_whole(ranks, true, false, true);
    expect_ranks_equal_whole(3, true, false, false);
    expect_ranks_equal_whole(3, true, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_begin_with_the_values_of_the_whole),
        cmocka_unit_test(slices_of_attention_add_up),
        cmocka_unit_test(slices_of_the_mlp_add_up),
        cmocka_unit_test(stages_in_a_row_are_the_model),
        cmocka_unit_test(ranks_with_slices_compute_the_whole),
        cmocka_unit_test(ranks_with_slices_and_rows_compute_the_whole),
    };
    openblas_set_num_threads(1);
    return cmocka_run_group_tests(tests, make_batch, NULL);
}
