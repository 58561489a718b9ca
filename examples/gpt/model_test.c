/* The model in double: its gradients are those of its loss, and nothing depends on how the work is
 * cut.
 * ctest: label=notsan */
#include <complex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "counter.h"
#include "give_up.h"
#include "gradient_check.h"
#include "trainer.h"

enum { BATCH = 8, TEXT_BYTES = 6000 };
static const double rounding = 1e-12; /* relative, of sums in another order */

/* More positions than a block of attention, and numbers that no count of slices divides. */
static struct trainer_options small_options(size_t samples)
{
    struct trainer_options options = {
        .model =
            {.shape = {.context = 70, .width = 24, .layers = 3, .heads = 4, .hidden = 37, .tied = true},
             .samples_max = samples,
             .seed = 5,
             .exchange = &exchange_alone},
        .batch = BATCH,
        .schedule = {.rate = 0.01, .warm_up_steps = 2, .steps = 10},
        .adamw = {.first_decay = 0.9, .second_decay = 0.95, .epsilon = 1e-8, .weight_decay = 0.1},
        .clip = 1};
    options.model.part = part_whole(&options.model.shape);
    return options;
}

/* A text, its tokenizer and its samples. */
struct world {
    struct tokenizer *tokenizer;
    struct data data;
};

static struct world world;

static int make_world(void **state)
{
    (void)state;
    unsigned char *text = allocate(TEXT_BYTES, 1);
    for (size_t i = 0; i < TEXT_BYTES; i++) text[i] = "ab cd"[counter_bits(1, i) % 5];
    world.tokenizer = tokenizer_train(text, TEXT_BYTES, 301);
    data_init(&world.data, world.tokenizer, text, TEXT_BYTES, 70, 1);
    free(text);
    return 0;
}

static int end_world(void **state)
{
    (void)state;
    data_release(&world.data);
    tokenizer_free(world.tokenizer);
    return 0;
}

static struct trainer make_trainer(struct trainer_options options)
{
    struct trainer trainer;
    options.model.shape.vocabulary = tokenizer_vocabulary(world.tokenizer);
    trainer_init(&trainer, &options, &world.data);
    return trainer;
}

/* The largest difference, measured by the largest number of the first array. */
static double distance(const real *a, const real *b, size_t count)
{
    double most = 0, difference = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)a[i]));
        difference = fmax(difference, fabs((double)(a[i] - b[i])));
    }
    assert_true(most > 0);
    return difference / most;
}

static void expect_equal_loss(double a, double b)
{
    assert_true(a > 1);
    assert_true(fabs(a - b) < rounding * a);
}

/* --------------------------------------- the forward pass, as the papers write it, word by word */

static const real *weights_of(const struct model *model, enum tensor_kind kind, size_t layer)
{
    return model->weights + parameters_find(&model->parameters, kind, layer)->offset;
}

static void slow_norm(const real *x, const real *gain, size_t width, double *y)
{
    double squares = 0;
    for (size_t i = 0; i < width; i++) squares += x[i] * x[i];
    for (size_t i = 0; i < width; i++) y[i] = gain[i] * x[i] / sqrt(squares / (double)width + 1e-5);
}

static void slow_product(const double *x, const real *matrix, size_t rows, size_t columns, double *y)
{
    for (size_t c = 0; c < columns; c++) {
        y[c] = 0;
        for (size_t r = 0; r < rows; r++) y[c] += x[r] * matrix[r * columns + c];
    }
}

/* A head's features as complex numbers, each turned by its angle. */
static void slow_turn(double *x, size_t size, size_t position)
{
    for (size_t i = 0; i < size / 2; i++) {
        const double angle = (double)position / pow(10000, 2 * (double)i / (double)size);
        const double complex z = (x[i] + I * x[i + size / 2]) * cexp(I * angle);
        x[i] = creal(z);
        x[i + size / 2] = cimag(z);
    }
}

enum { WIDTH_MAX = 32, HIDDEN_MAX = 64, CONTEXT_MAX = 70 };

/* Adds a layer's attention to the stream. */
static void slow_attention(const struct model *model, size_t layer, real stream[][WIDTH_MAX])
{
    static double q[CONTEXT_MAX][WIDTH_MAX], k[CONTEXT_MAX][WIDTH_MAX], v[CONTEXT_MAX][WIDTH_MAX];
    const struct shape *shape = &model->options.shape;
    const size_t width = shape->width, size = width / shape->heads;
    double x[WIDTH_MAX], mixed[WIDTH_MAX], output[WIDTH_MAX];
    for (size_t t = 0; t < shape->context; t++) {
        slow_norm(stream[t], weights_of(model, TENSOR_ATTENTION_NORM, layer), width, x);
        slow_product(x, weights_of(model, TENSOR_QUERY, layer), width, width, q[t]);
        slow_product(x, weights_of(model, TENSOR_KEY, layer), width, width, k[t]);
        slow_product(x, weights_of(model, TENSOR_VALUE, layer), width, width, v[t]);
        for (size_t head = 0; head < shape->heads; head++) {
            slow_turn(q[t] + head * size, size, t);
            slow_turn(k[t] + head * size, size, t);
        }
        for (size_t f = 0; f < width; f++) {
            double sum = 0, weighted = 0;
            for (size_t past = 0; past <= t; past++) {
                double product = 0;
                for (size_t i = f / size * size; i < (f / size + 1) * size; i++)
                    product += q[t][i] * k[past][i];
                sum += exp(product / sqrt((double)size));
                weighted += exp(product / sqrt((double)size)) * v[past][f];
            }
            mixed[f] = weighted / sum;
        }
        slow_product(mixed, weights_of(model, TENSOR_OUTPUT, layer), width, width, output);
        for (size_t i = 0; i < width; i++) stream[t][i] += output[i];
    }
}

static void slow_mlp(const struct model *model, size_t layer, real *stream)
{
    const size_t width = model->options.shape.width, hidden = model->options.shape.hidden;
    double x[WIDTH_MAX], gate[HIDDEN_MAX], up[HIDDEN_MAX], output[WIDTH_MAX];
    slow_norm(stream, weights_of(model, TENSOR_MLP_NORM, layer), width, x);
    slow_product(x, weights_of(model, TENSOR_GATE, layer), width, hidden, gate);
    slow_product(x, weights_of(model, TENSOR_UP, layer), width, hidden, up);
    for (size_t i = 0; i < hidden; i++) up[i] *= gate[i] / (1 + exp(-gate[i]));
    slow_product(up, weights_of(model, TENSOR_DOWN, layer), hidden, width, output);
    for (size_t i = 0; i < width; i++) stream[i] += output[i];
}

static double slow_loss(const struct model *model, const uint32_t *inputs, const uint32_t *targets)
{
    static real stream[CONTEXT_MAX][WIDTH_MAX];
    const struct shape *shape = &model->options.shape;
    const real *embedding = weights_of(model, TENSOR_EMBEDDING, 0);
    const real *head = shape->tied ? embedding : weights_of(model, TENSOR_HEAD, 0);
    double loss = 0, x[WIDTH_MAX];
    for (size_t t = 0; t < shape->context; t++)
        memcpy(stream[t], embedding + inputs[t] * shape->width, shape->width * sizeof(real));
    for (size_t layer = 0; layer < shape->layers; layer++) {
        slow_attention(model, layer, stream);
        for (size_t t = 0; t < shape->context; t++) slow_mlp(model, layer, stream[t]);
    }
    for (size_t t = 0; t < shape->context; t++) {
        double sum = 0, wanted = 0;
        slow_norm(stream[t], weights_of(model, TENSOR_FINAL_NORM, 0), shape->width, x);
        for (size_t token = 0; token < shape->vocabulary; token++) {
            double logit = 0;
            for (size_t i = 0; i < shape->width; i++)
                logit += x[i] * head[token * shape->width + i];
            sum += exp(logit);
            if (token == targets[t]) wanted = logit;
        }
        loss += log(sum) - wanted;
    }
    return loss / (double)shape->context;
}

/* Not where everything begins: there the gains of norms are all the same, and the embedding is so
 * small that differences are none of a straight line. */
static void move_weights(const struct model *model)
{
    for (size_t t = 0; t < model->parameters.tensor_count; t++) {
        const struct tensor *tensor = &model->parameters.tensors[t];
        const real scale = tensor->kind == TENSOR_EMBEDDING ? 20 : 1;
        for (size_t i = tensor->offset; i < tensor->offset + tensor_elements(tensor); i++)
            model->weights[i] *= scale * (1 + counter_unit(7, i));
    }
}

static void the_loss_is_that_of_the_papers(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        uint32_t inputs[CONTEXT_MAX], targets[CONTEXT_MAX];
        struct trainer_options options = small_options(1);
        options.batch = 1;
        options.model.shape.tied = tied == 1;
        struct trainer trainer = make_trainer(options);
        move_weights(trainer.model);
        data_sample(&world.data, 4, inputs, targets);
        expect_equal_loss(slow_loss(trainer.model, inputs, targets), trainer_loss(&trainer, 4));
        trainer_release(&trainer);
    }
}

static void gradients_are_differences_of_losses(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        struct trainer_options options = small_options(1);
        options.batch = 1;
        options.model.shape.layers = 2;
        options.model.part = part_whole(&options.model.shape);
        options.model.shape.tied = tied == 1;
        options.model.dropout = tied == 1 ? 0.2 : 0;
        struct trainer trainer = make_trainer(options);
        move_weights(trainer.model);
        const double error = gradient_check(&trainer, 3, NULL);
        if (error >= 1e-7) gradient_check(&trainer, 3, stdout);
        assert_true(error > 0 && error < 1e-7);
        trainer_release(&trainer);
    }
}

static void micro_batches_change_nothing(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 1, 2};
    for (int dropping = 0; dropping < 2; dropping++) {
        struct trainer trainers[3];
        double losses[3];
        for (int i = 0; i < 3; i++) {
            struct trainer_options options = small_options(sizes[i]);
            options.model.dropout = dropping == 1 ? 0.3 : 0;
            trainers[i] = make_trainer(options);
            losses[i] = trainer_gradients(&trainers[i], 2);
        }
        const size_t elements = trainers[0].model->parameters.elements;
        for (int i = 1; i < 3; i++) {
            expect_equal_loss(losses[0], losses[i]);
            assert_true(distance(trainers[0].model->gradients, trainers[i].model->gradients,
                                 elements) < rounding);
        }
        /* After steps that clip, too. */
        for (uint64_t step = 0; step < 4; step++)
            for (int i = 0; i < 3; i++) losses[i] = trainer_step(&trainers[i], step).loss;
        expect_equal_loss(losses[0], losses[1]);
        expect_equal_loss(losses[0], losses[2]);
        for (int i = 0; i < 3; i++) trainer_release(&trainers[i]);
    }
}

static void dropout_drops_its_share(void **state)
{
    (void)state;
    enum { ROWS = 100, WIDTH = 200 };
    const uint64_t numbers[2] = {17, 4};
    struct dropout dropout = {.rate = 0.25,
                              .key = dropout_key(1, 2, 3, DROPOUT_MLP),
                              .numbers = numbers,
                              .context = ROWS / 2};
    real *values = allocate(ROWS * WIDTH, sizeof *values);
    size_t dropped = 0;
    for (size_t i = 0; i < ROWS * WIDTH; i++) values[i] = 3;
    dropout_apply(&dropout, (struct range){0, ROWS}, WIDTH, values);
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        assert_true(values[i] == 0 || values[i] == 4);
        dropped += values[i] == 0;
    }
    assert_true(fabs((double)dropped / (ROWS * WIDTH) - 0.25) < 0.02);
    /* Other steps, layers, places and samples drop others. */
    const uint64_t key = dropout.key;
    assert_true(key != dropout_key(2, 2, 3, DROPOUT_MLP) && key != dropout_key(1, 3, 3, DROPOUT_MLP));
    assert_true(key != dropout_key(1, 2, 4, DROPOUT_MLP));
    assert_true(key != dropout_key(1, 2, 3, DROPOUT_ATTENTION));
    assert_memory_not_equal(values, values + ROWS / 2 * WIDTH, ROWS / 2 * WIDTH * sizeof *values);
    /* Rows of the second sample alone are the same. */
    real *alone = allocate(WIDTH, sizeof *alone);
    for (size_t i = 0; i < WIDTH; i++) alone[i] = 3;
    dropout_apply(&dropout, (struct range){ROWS - 1, 1}, WIDTH, alone);
    assert_memory_equal(alone, values + (ROWS - 1) * WIDTH, WIDTH * sizeof *alone);
    free(values);
    free(alone);
}

static void computing_again_changes_no_bit(void **state)
{
    (void)state;
    double losses[2];
    struct trainer trainers[2];
    for (int again = 0; again < 2; again++) {
        struct trainer_options options = small_options(4);
        options.model.dropout = 0.1;
        options.model.recompute = again == 1;
        trainers[again] = make_trainer(options);
        for (uint64_t step = 0; step < 3; step++)
            losses[again] = trainer_step(&trainers[again], step).loss;
    }
    assert_true(losses[0] == losses[1]);
    const size_t bytes = trainers[0].model->parameters.elements * sizeof(real);
    assert_memory_equal(trainers[0].model->gradients, trainers[1].model->gradients, bytes);
    assert_memory_equal(trainers[0].model->weights, trainers[1].model->weights, bytes);
    assert_true(model_bytes(trainers[1].model) < model_bytes(trainers[0].model));
    for (int again = 0; again < 2; again++) trainer_release(&trainers[again]);
}

static void training_learns(void **state)
{
    (void)state;
    struct trainer trainer = make_trainer(small_options(8));
    const double before = trainer_held_out(&trainer, 100);
    for (uint64_t step = 0; step < 10; step++) trainer_step(&trainer, step);
    const double after = trainer_held_out(&trainer, 100);
    assert_true(fabs(before - log(301)) < 0.1);
    assert_true(after < before - 1);
    trainer_release(&trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_that_of_the_papers),
        cmocka_unit_test(gradients_are_differences_of_losses),
        cmocka_unit_test(micro_batches_change_nothing),
        cmocka_unit_test(dropout_drops_its_share),
        cmocka_unit_test(computing_again_changes_no_bit),
        cmocka_unit_test(training_learns),
    };
    openblas_set_num_threads(1);
    return cmocka_run_group_tests(tests, make_world, end_world);
}
