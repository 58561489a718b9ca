/* The optimizer does what its papers say, and the same for any ranges of the flat array.
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adamw.h"
#include "counter.h"
#include "give_up.h"

enum { BLOCKS = 3, ELEMENTS = BLOCKS * PARAMETERS_BLOCK, DECAYED = PARAMETERS_BLOCK };
static const struct adamw adamw = {
    .first_decay = 0.9, .second_decay = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};

static real *make(uint64_t key)
{
    real *values = allocate(ELEMENTS, sizeof *values);
    for (size_t i = 0; i < ELEMENTS; i++) values[i] = (real)counter_normal(key, i);
    return values;
}

/* In the words of Algorithm 2 of the paper, one element. */
static double expected_weight(size_t i, int steps, double rate, double clip)
{
    double weight = counter_normal(1, i), m = 0, v = 0;
    const double decay = i < DECAYED ? 0.1 : 0;
    for (int t = 1; t <= steps; t++) {
        const double g = clip * counter_normal((uint64_t)(1 + t), i);
        m = 0.9 * m + 0.1 * g;
        v = 0.95 * v + 0.05 * g * g;
        const double m_hat = m / (1 - pow(0.9, t)), v_hat = v / (1 - pow(0.95, t));
        weight -= rate * (m_hat / (sqrt(v_hat) + 1e-8) + decay * weight);
    }
    return weight;
}

static void steps_are_those_of_the_paper(void **state)
{
    (void)state;
    real *weights = make(1);
    const struct moments moments = {allocate(ELEMENTS, sizeof(real)),
                                    allocate(ELEMENTS, sizeof(real))};
    for (uint64_t step = 0; step < 5; step++) {
        real *gradients = make(2 + step);
        adamw_step(&adamw, step, 0.01, 0.5, DECAYED, (struct range){0, ELEMENTS}, gradients,
                   moments, weights);
        free(gradients);
    }
    for (size_t i = 0; i < ELEMENTS; i += 77)
        assert_true(fabs(weights[i] - expected_weight(i, 5, 0.01, 0.5)) < 1e-12);
    free(weights);
    free(moments.first);
    free(moments.second);
}

static void ranges_make_the_whole(void **state)
{
    (void)state;
    static const size_t ends[] = {0, 1, DECAYED - 5, DECAYED, DECAYED + 9, ELEMENTS};
    real *whole = make(1), *cut = make(1);
    const struct moments all = {allocate(ELEMENTS, sizeof(real)), allocate(ELEMENTS, sizeof(real))};
    const struct moments shards = {allocate(ELEMENTS, sizeof(real)),
                                   allocate(ELEMENTS, sizeof(real))};
    for (uint64_t step = 0; step < 2; step++) {
        real *gradients = make(2 + step);
        adamw_step(&adamw, step, 0.01, 1, DECAYED, (struct range){0, ELEMENTS}, gradients, all,
                   whole);
        for (size_t i = 0; i + 1 < sizeof ends / sizeof *ends; i++)
            adamw_step(&adamw, step, 0.01, 1, DECAYED,
                       (struct range){ends[i], ends[i + 1] - ends[i]}, gradients,
                       (struct moments){shards.first + ends[i], shards.second + ends[i]}, cut);
        free(gradients);
    }
    /* Vectors and what is left of a loop may round differently where products and sums are
     * fused. */
    for (size_t i = 0; i < ELEMENTS; i++) assert_true(fabs(whole[i] - cut[i]) < 1e-15 * 100);
    free(whole);
    free(cut);
    free(all.first);
    free(all.second);
    free(shards.first);
    free(shards.second);
}

static void squares_are_those_of_blocks_anywhere(void **state)
{
    (void)state;
    real *gradients = make(1);
    double squares[BLOCKS], expected = 0, one;
    squares_of_blocks(gradients, (struct range){0, BLOCKS}, squares);
    for (size_t b = 0; b < BLOCKS; b++) {
        squares_of_blocks(gradients, (struct range){b, 1}, &one);
        assert_true(one == squares[b]);
    }
    for (size_t i = 0; i < ELEMENTS; i++) expected += (double)(gradients[i] * gradients[i]);
    assert_true(fabs(squares_sum(squares, BLOCKS) - expected) < 1e-12 * expected);
    free(gradients);
}

static void clipping_shortens_what_is_too_long(void **state)
{
    (void)state;
    assert_true(clip_factor(4, 1) == 0.5);
    assert_true(clip_factor(4, 2) == 1);
    assert_true(clip_factor(4, 3) == 1);
    assert_true(clip_factor(0, 1) == 1);
}

static void the_rate_rises_and_falls(void **state)
{
    (void)state;
    const struct schedule schedule = {.rate = 2, .warm_up_steps = 10, .steps = 110};
    assert_true(fabs(schedule_rate(&schedule, 0) - 0.2) < 1e-12);
    assert_true(fabs(schedule_rate(&schedule, 9) - 2) < 1e-12);
    assert_true(fabs(schedule_rate(&schedule, 10) - 2) < 1e-12);
    assert_true(fabs(schedule_rate(&schedule, 60) - 1.1) < 1e-12);
    assert_true(fabs(schedule_rate(&schedule, 110) - 0.2) < 1e-12);
    for (uint64_t step = 11; step < 110; step++)
        assert_true(schedule_rate(&schedule, step) < schedule_rate(&schedule, step - 1));
    const struct schedule at_once = {.rate = 2, .warm_up_steps = 0, .steps = 1};
    assert_true(schedule_rate(&at_once, 0) == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_paper),
        cmocka_unit_test(ranges_make_the_whole),
        cmocka_unit_test(squares_are_those_of_blocks_anywhere),
        cmocka_unit_test(clipping_shortens_what_is_too_long),
        cmocka_unit_test(the_rate_rises_and_falls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
