/* table_optimizer_test.c - steps agree with the formulas in float64 and depend on nothing but the
 * element; initial values depend on the row alone and are distributed as they should be; numbers
 * that cannot be used are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/table_initial.h"
#include "server/table_optimizer.h"

enum { COUNT = 2500, STEPS = 40 };

static const struct table_initial noise = {TABLE_INITIAL_UNIFORM, 0, 1};

static const struct table_optimizer optimizers[] = {
    {.kind = TABLE_SGD, .rate = 0.05},
    {.kind = TABLE_SGD, .rate = 0.05, .weight_decay = 0.01},
    {.kind = TABLE_MOMENTUM, .rate = 0.05, .momentum = 0.9},
    {.kind = TABLE_MOMENTUM, .rate = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1},
    {.kind = TABLE_ADAGRAD, .rate = 0.1, .epsilon = 1e-10, .initial_state = 0.1},
    {.kind = TABLE_ADAGRAD, .rate = 0.1, .epsilon = 1e-6, .rate_decay = 0.3},
    {.kind = TABLE_ADAM, .rate = 0.01, .first_beta = 0.9, .second_beta = 0.999, .epsilon = 1e-8},
    {.kind = TABLE_ADAM, .rate = 0.01, .first_beta = 0.2, .second_beta = 0.9, .epsilon = 1e-4},
    {.kind = TABLE_ADAM,
     .rate = 0.01,
     .first_beta = 0.9,
     .second_beta = 0.99,
     .epsilon = 1e-8,
     .weight_decay = 0.1,
     .decoupled = true},
    {.kind = TABLE_ADAM,
     .rate = 0.01,
     .first_beta = 0.9,
     .second_beta = 0.99,
     .epsilon = 1e-8,
     .weight_decay = 0.1},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

static float gradients[STEPS][COUNT];

static int make_gradients(void **state)
{
    (void)state;
    for (int t = 0; t < STEPS; t++) table_initial_row(&noise, 5, (uint64_t)t, COUNT, gradients[t]);
    return 0;
}

/* The formulas of the header, in float64. */
static double reference(const struct table_optimizer *o, double w, int element)
{
    double m = 0, v = 0, s = o->kind == TABLE_ADAGRAD ? o->initial_state : 0;
    for (int t = 1; t <= STEPS; t++) {
        double g = gradients[t - 1][element];
        if (o->decoupled)
            w *= 1 - o->rate * o->weight_decay;
        else
            g += o->weight_decay * w;
        switch (o->kind) {
        case TABLE_SGD: w -= o->rate * g; break;
        case TABLE_MOMENTUM:
            m = o->momentum * m + g;
            w -= o->rate * (o->nesterov ? g + o->momentum * m : m);
            break;
        case TABLE_ADAGRAD:
            s += g * g;
            w -= o->rate / (1 + (t - 1) * o->rate_decay) * g / (sqrt(s) + o->epsilon);
            break;
        case TABLE_ADAM:
            m = o->first_beta * m + (1 - o->first_beta) * g;
            v = o->second_beta * v + (1 - o->second_beta) * g * g;
            w -= o->rate * m / (1 - pow(o->first_beta, t)) /
                 (sqrt(v / (1 - pow(o->second_beta, t))) + o->epsilon);
            break;
        case TABLE_USER: fail();
        }
    }
    return w;
}

static void run(const struct table_optimizer *o, size_t first, size_t count, float *parameters)
{
    static float memory[2][COUNT];
    float *const state[] = {memory[0], memory[1]};
    for (unsigned s = 0; s < 2; s++)
        for (size_t i = 0; i < count; i++) memory[s][i] = table_optimizer_initial_state(o);
    for (int t = 0; t < STEPS; t++) {
        const struct table_step step = table_step_of(o, (uint64_t)t + 1);
        table_step_take(&step, count, gradients[t] + first, parameters, state);
    }
}

static void steps_are_those_of_the_formulas(void **state)
{
    (void)state;
    static float begun[COUNT], done[COUNT];
    table_initial_row(&noise, 6, 0, COUNT, begun);
    for (int o = 0; o < OPTIMIZERS; o++) {
        memcpy(done, begun, sizeof done);
        run(&optimizers[o], 0, COUNT, done);
        for (int i = 0; i < COUNT; i++) {
            const double wanted = reference(&optimizers[o], begun[i], i);
            if (fabs(done[i] - wanted) > 3e-6 * (1 + fabs(wanted)))
                fail_msg("optimizer %d, element %d: %.9g, not %.9g", o, i, done[i], wanted);
        }
    }
}

static void bits_do_not_depend_on_the_range(void **state)
{
    (void)state;
    static float whole[COUNT], parts[COUNT];
    for (int o = 0; o < OPTIMIZERS; o++) {
        table_initial_row(&noise, 6, 0, COUNT, whole);
        memcpy(parts, whole, sizeof parts);
        run(&optimizers[o], 0, COUNT, whole);
        for (size_t first = 0, count = 1; first < COUNT; first += count, count = count % 19 + 1) {
            if (count > COUNT - first) count = COUNT - first;
            run(&optimizers[o], first, count, parts + first);
        }
        assert_memory_equal(whole, parts, sizeof whole);
    }
}

/* The formula with a rounding after each operation, which volatile enforces. */
static float adam_rounded(const struct table_optimizer *o, float w, int element)
{
    volatile float m = 0, v = 0, x = w, a, b, c;
    for (int t = 1; t <= STEPS; t++) {
        const float g = gradients[t - 1][element];
        a = g - m;
        a = (float)(1 - o->first_beta) * a;
        m = m + a;
        a = (float)o->second_beta * v;
        b = (float)(1 - o->second_beta) * g;
        b = b * g;
        v = a + b;
        a = (float)-(o->rate / (1 - pow(o->first_beta, t))) * m;
        c = sqrtf(v);
        c = c / (float)sqrt(1 - pow(o->second_beta, t));
        c = c + (float)o->epsilon;
        a = a / c;
        x = x + a;
    }
    return x;
}

static void nothing_is_fused(void **state)
{
    (void)state;
    const struct table_optimizer *const o = &optimizers[6];
    static float done[COUNT], begun[COUNT];
    table_initial_row(&noise, 6, 0, COUNT, begun);
    memcpy(done, begun, sizeof done);
    run(o, 0, COUNT, done);
    for (int i = 0; i < COUNT; i++) {
        const float wanted = adam_rounded(o, begun[i], i);
        assert_memory_equal(&done[i], &wanted, sizeof wanted);
    }
}

static void refuses_numbers_that_cannot_be_used(void **state)
{
    (void)state;
    const struct table_optimizer bad[] = {
        {.kind = TABLE_SGD, .rate = -1},
        {.kind = TABLE_SGD, .rate = NAN},
        {.kind = TABLE_SGD, .rate = 1, .weight_decay = INFINITY},
        {.kind = TABLE_MOMENTUM, .rate = 1, .momentum = -0.1},
        {.kind = TABLE_ADAGRAD, .rate = 1, .rate_decay = -1},
        {.kind = TABLE_ADAGRAD, .rate = 1, .initial_state = -1},
        {.kind = TABLE_ADAGRAD, .rate = 1, .epsilon = NAN},
        {.kind = TABLE_ADAM, .rate = 1, .first_beta = 1},
        {.kind = TABLE_ADAM, .rate = 1, .second_beta = -0.5},
        {.kind = TABLE_ADAM, .rate = 1, .second_beta = NAN},
        {.kind = TABLE_USER, .rate = 1},
        {.kind = (enum table_optimizer_kind)9, .rate = 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(table_optimizer_check(&bad[i]), TUTTI_INVALID_OPTIONS);
    for (int o = 0; o < OPTIMIZERS; o++)
        assert_int_equal(table_optimizer_check(&optimizers[o]), TUTTI_OK);
}

/* ----------------------------------------------------------------------- initial values */

static void initial_values_depend_on_the_row_alone(void **state)
{
    (void)state;
    float wide[64], narrow[8], other[64];
    for (int kind = TABLE_INITIAL_CONSTANT; kind <= TABLE_INITIAL_NORMAL; kind++) {
        const struct table_initial initial = {(enum table_initial_kind)kind, 3, 0.5f};
        table_initial_row(&initial, 1, 77, 64, wide);
        table_initial_row(&initial, 1, 77, 8, narrow);
        assert_memory_equal(wide, narrow, sizeof narrow);
        table_initial_row(&initial, 2, 77, 64, other);
        assert_true((memcmp(wide, other, sizeof wide) != 0) == (kind != TABLE_INITIAL_CONSTANT));
        table_initial_row(&initial, 1, 78, 64, other);
        assert_true((memcmp(wide, other, sizeof wide) != 0) == (kind != TABLE_INITIAL_CONSTANT));
    }
}

/* Numbers that servers of all versions and machines must agree on. */
static void initial_values_stay_what_they_are(void **state)
{
    (void)state;
    const struct table_initial uniform = {TABLE_INITIAL_UNIFORM, 0, 1},
                               normal = {TABLE_INITIAL_NORMAL, 0, 1};
    const float wanted[2][2] = {{0x1.dc2614p-1f, -0x1.8b6838p-1f}, {0x1.1114p-2f, -0x1.743ep+0f}};
    float found[2][2];
    table_initial_row(&uniform, 42, 1000000007, 2, found[0]);
    table_initial_row(&normal, 42, 1000000007, 2, found[1]);
    if (memcmp(found, wanted, sizeof found) != 0)
        fail_msg("%a %a, %a %a", found[0][0], found[0][1], found[1][0], found[1][1]);
}

static void initial_values_are_distributed_as_they_should_be(void **state)
{
    (void)state;
    enum { ROWS = 500, WIDTH = 100 };
    for (int kind = TABLE_INITIAL_UNIFORM; kind <= TABLE_INITIAL_NORMAL; kind++) {
        const struct table_initial initial = {(enum table_initial_kind)kind, 0, 2};
        double sum = 0, squares = 0, neighbours = 0, last = 0;
        for (uint64_t row = 0; row < ROWS; row++) {
            float values[WIDTH];
            table_initial_row(&initial, 3, row, WIDTH, values);
            for (int i = 0; i < WIDTH; i++) {
                assert_true(fabsf(values[i]) <= (kind == TABLE_INITIAL_UNIFORM ? 2 : 12));
                sum += values[i];
                squares += (double)values[i] * values[i];
                neighbours += values[i] * last;
                last = values[i];
            }
        }
        const double variance = kind == TABLE_INITIAL_UNIFORM ? 4.0 / 3 : 4, count = ROWS * WIDTH;
        assert_true(fabs(sum / count) < 6 * sqrt(variance / count));
        assert_true(fabs(squares / count - variance) < 0.05 * variance);
        assert_true(fabs(neighbours / count) < 6 * variance / sqrt(count));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_formulas),
        cmocka_unit_test(bits_do_not_depend_on_the_range),
        cmocka_unit_test(nothing_is_fused),
        cmocka_unit_test(refuses_numbers_that_cannot_be_used),
        cmocka_unit_test(initial_values_depend_on_the_row_alone),
        cmocka_unit_test(initial_values_stay_what_they_are),
        cmocka_unit_test(initial_values_are_distributed_as_they_should_be),
    };
    return cmocka_run_group_tests(tests, make_gradients, NULL);
}
